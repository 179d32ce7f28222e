//! The protocol between the two ends of a stream in laps, for cards that write to another host's
//! memory. Each end writes words to a page that the other has mapped to it. A word reports that a
//! lap is stored or sent, that it has arrived, or that each of its bytes is correct.

use serde_json::json;

use crate::engine::counts::{Counts, Statistics, counted};
use crate::engine::laps::{Lap, Laps, Sum};
use crate::engine::result::{Meter, Outcome, say};

/// Bytes of a page.
pub(crate) const PAGE: usize = 4096;
/// Offsets of the words in the first page. The data follows that page. The sender stores `ASKED`,
/// which reports a sent lap, after the lap's bytes.
pub(crate) const ASKED: usize = 0;
const ANSWERED: usize = 64;
const LOOKED: usize = 128;
/// Replaces a lap's number if some byte is not what was sent.
const WRONG: u32 = u32::MAX;

/// Offset of the data in the memory that the receiver exports.
pub(crate) const DATA: usize = PAGE;

/// Two ends that write to each other's memory.
pub(crate) trait Words {
    /// Stores to a word of the peer's memory.
    fn say(&self, word: usize, value: u32) -> Outcome;
    /// Waits until a word of this end's memory differs from `seen`, and returns its value.
    fn wait(&self, word: usize, seen: u32) -> Outcome<u32>;
    /// Reads this end's own memory.
    fn read(&self, at: usize, to: &mut [u8]) -> Outcome;
    /// Returns the counters of this end's card.
    fn statistics(&self) -> Outcome<Statistics>;
}

/// The receiver: reports each lap's arrival, checks the lap, and reports the result.
pub(crate) fn sink(end: &impl Words, laps: Laps) -> Outcome {
    let mut sum = Sum::default();
    for (lap, number) in laps.laps().zip(1..) {
        let meter = Meter::start();
        end.wait(ASKED, number - 1)?;
        end.say(ANSWERED, number)?;
        sum.add(&lap, meter);
        let found = laps.check(&lap, |at, bytes| end.read(DATA + at, bytes));
        end.say(LOOKED, if found.is_ok() { number } else { WRONG })?;
        found?;
    }
    say(&json!({ "messages": laps.count, "cpu_ns": sum.cpu_ns }))
}

/// The sender. `fill` writes a lap's bytes, which is not timed. `send` sends them, followed by the
/// lap's number to the word [`ASKED`].
pub(crate) fn source(
    end: &impl Words,
    laps: Laps,
    mut fill: impl FnMut(&Lap) -> Outcome,
    mut send: impl FnMut(&Lap, u32) -> Outcome,
) -> Outcome {
    let (mut sum, mut counts) = (Sum::default(), Counts::default());
    for (lap, number) in laps.laps().zip(1..) {
        fill(&lap)?;
        let ((), counted) = counted(
            || end.statistics(),
            || {
                let meter = Meter::start();
                send(&lap, number)?;
                // The data has arrived, because the word that was stored after it has arrived.
                end.wait(ANSWERED, number - 1)?;
                sum.add(&lap, meter);
                Ok(())
            },
        )?;
        if lap.measured {
            counts.add(counted);
        }
        if end.wait(LOOKED, number - 1)? != number {
            return Err("the receiver found bytes that are not what was sent".into());
        }
    }
    let bytes = laps.count * laps.size as u64;
    let counters = counts.json();
    say(&json!({
        "bytes": bytes, "messages": laps.count, "all": laps.all(), "ns": sum.ns, "cpu_ns": sum.cpu_ns, "counters": counters,
    }))
}
