//! One-way bandwidth (section 5.3.2, Figure 10). Laps of many messages stream them; in laps of one
//! message, each message is acknowledged.

use crate::clan::ends::End;
use crate::clan::outgoing::{By, Outgoing};
use crate::engine::lap_words::{ASKED, DATA, PAGE, sink as sink_laps, source};
use crate::engine::laps::Laps;
use crate::engine::result::Outcome;

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    laps: Laps,
    /// How the messages are sent
    #[arg(long, value_enum, default_value = "dma")]
    by: By,
}

pub(crate) fn sink(options: &Options) -> Outcome {
    let laps = options.laps;
    sink_laps(&End::open(DATA + laps.bytes(), false)?, laps)
}

pub(crate) fn send(options: &Options) -> Outcome {
    let laps = options.laps;
    let end = End::open(PAGE, options.by.drivers())?;
    let outgoing = Outgoing::open(&end, options.by, laps.bytes())?;
    let fill = |lap: &_| laps.fill(lap, |at, bytes| outgoing.put(at, bytes));
    source(&end, laps, fill, |lap, number| {
        for message in lap.messages.clone() {
            outgoing.send(laps.place(message), laps.size)?;
        }
        outgoing.say(ASKED, number)
    })
}
