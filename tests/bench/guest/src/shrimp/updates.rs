//! One-way bandwidth of deliberate update (section 4.3).

use hamlyn::shrimp::Mode;

use crate::engine::lap_words::{ASKED, DATA, PAGE, Words, sink as sink_laps, source};
use crate::engine::laps::Laps;
use crate::engine::result::Outcome;
use crate::engine::wait::PATIENCE;
use crate::shrimp::ends::{By, End};

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    laps: Laps,
    /// How the flags' stores reach the card
    #[arg(long, value_enum, default_value = "snoop")]
    by: By,
    /// Number of an update to leave out, to test that the receiver detects it
    #[arg(long, hide = true)]
    leave_out: Option<u64>,
}

pub(crate) fn sink(options: &Options) -> Outcome {
    let laps = options.laps;
    sink_laps(&End::open(DATA + laps.bytes(), options.by)?, laps)
}

pub(crate) fn send(options: &Options) -> Outcome {
    let laps = options.laps;
    let end = End::open(PAGE, options.by)?;
    let pages = end.card.map(&end.peer, DATA as u64, laps.bytes(), Mode::Deliberate)?;
    let fill = |lap: &_| laps.fill(lap, |at, bytes| Ok(pages.write(at, bytes)?));
    source(&end, laps, fill, |lap, number| {
        for update in lap.messages.clone().filter(|update| options.leave_out != Some(*update)) {
            pages.send(laps.place(update), laps.size)?;
        }
        pages.wait_until_sent_timeout(PATIENCE)?;
        end.say(ASKED, number)
    })
}
