//! What the two ends of a stream in laps tell each other, by words of the pages that they have
//! mapped to each other: that a lap is stored or sent, that it has arrived, and that each of its
//! bytes is right. For cards that write to another host's memory.

use serde_json::json;

use crate::engine::counts::{Counts, Statistics, counted};
use crate::engine::laps::{Lap, Laps, Sum};
use crate::engine::result::{Meter, Outcome, say};

/// Bytes of a page.
pub(crate) const PAGE: usize = 4096;
/// Words of the first page. The data is behind it. The sender's, which says that a lap is sent, is
/// stored behind its bytes.
pub(crate) const ASKED: usize = 0;
const ANSWERED: usize = 64;
const LOOKED: usize = 128;
/// In place of a lap's number: some byte is not what was sent.
const WRONG: u32 = u32::MAX;

/// Where the data begins in what the receiver exports.
pub(crate) const DATA: usize = PAGE;

/// Two ends, of which each writes to the other's memory.
pub(crate) trait Words {
    /// Stores to a word of the other's.
    fn say(&self, word: usize, value: u32) -> Outcome;
    /// Waits until a word of its own is another than that, and says what it is.
    fn wait(&self, word: usize, seen: u32) -> Outcome<u32>;
    /// Reads its own memory.
    fn read(&self, at: usize, to: &mut [u8]) -> Outcome;
    /// Its card's counters.
    fn statistics(&self) -> Outcome<Statistics>;
}

/// The receiver's part: says of each lap that it has arrived, looks at it, says that it is right.
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

/// The sender's part. `fill` writes a lap's bytes, which takes none of its time; `send` sends them,
/// and behind them the lap's number to the word [`ASKED`].
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
                // The data has arrived, as what is stored behind it has.
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
