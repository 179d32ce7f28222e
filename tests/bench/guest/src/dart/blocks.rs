//! One-way bandwidth in laps (section 3, Figure 3). A block is sent as messages of one cell, or as
//! a control cell followed by AAL5 cells.

use hamlyn::dart::Operation;

use crate::dart::deposits::BLOCK;
use crate::dart::ends::End;
use crate::engine::lap_words::{ASKED, DATA, Words, sink as sink_laps, source};
use crate::engine::laps::Laps;
use crate::engine::result::Outcome;
use crate::engine::wait::PATIENCE;

/// Maximum bytes of a message.
const LONGEST: usize = 65_504;

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    laps: Laps,
}

pub(crate) fn sink(options: &Options) -> Outcome {
    let laps = options.laps;
    sink_laps(&End::open(laps.bytes())?, laps)
}

pub(crate) fn send(options: &Options) -> Outcome {
    let laps = options.laps;
    let end = End::open(laps.bytes())?;
    let fill = |lap: &_| laps.fill(lap, |at, bytes| Ok(end.endpoint.write(DATA + at, bytes)?));
    source(&end, laps, fill, |lap, number| {
        for message in lap.messages.clone() {
            transfer(&end, DATA + laps.place(message), laps.size)?;
        }
        end.say(ASKED, number)
    })
}

/// Sends bytes to the same offset in the peer's endpoint, in as many messages as necessary.
fn transfer(end: &End, at: usize, length: usize) -> Outcome {
    for start in (at..at + length).step_by(LONGEST) {
        let bytes = start as u64..(start + LONGEST).min(at + length) as u64;
        let size = (bytes.end - bytes.start) as usize;
        let write = match size {
            // The words that follow belong to another message.
            0..=BLOCK => {
                Operation::write(bytes.start).mask(u8::MAX.checked_shl(size.div_ceil(4) as u32).unwrap_or(0))
            }
            _ => Operation::write_multiple(bytes.start),
        };
        end.connection.send_timeout(&write, bytes, PATIENCE)?;
    }
    Ok(())
}
