//! What the two ends of a stream in laps tell each other, by words of the pages that they have mapped to each other: that a lap is
//! stored or sent, that it has arrived, and that each of its bytes is right.

use serde_json::json;

use crate::engine::laps::{Lap, Laps, Sum};
use crate::engine::result::{Meter, Outcome, say};
use crate::engine::wait::PATIENCE;
use crate::shrimp::ends::{Counts, End, PAGE};

/// Words of the first page. The data is behind it.
const ASKED: usize = 0;
const ANSWERED: usize = 64;
const LOOKED: usize = 128;
/// In place of a lap's number: some byte is not what was sent.
const WRONG: u32 = u32::MAX;

/// Where the data begins in what the receiver exports.
pub(crate) const DATA: usize = PAGE;

/// The receiver's part: says of each lap that it has arrived, looks at it, says that it is right.
pub(crate) fn sink(end: &End, laps: Laps) -> Outcome {
    let mut sum = Sum::default();
    for (lap, number) in laps.laps().zip(1..) {
        let meter = Meter::start();
        end.own.wait(ASKED, number - 1, Some(PATIENCE))?;
        end.out.store_u32(ANSWERED, number)?;
        sum.add(&lap, meter);
        let found = laps.check(&lap, |at, bytes| Ok(end.own.read(DATA + at, bytes)?));
        end.out.store_u32(LOOKED, if found.is_ok() { number } else { WRONG })?;
        found?;
    }
    say(&json!({ "messages": laps.count, "cpu_ns": sum.cpu_ns }))
}

/// The sender's part. `fill` writes a lap's bytes, which takes none of its time; `send` sends them.
pub(crate) fn source(
    end: &End,
    laps: Laps,
    mut fill: impl FnMut(&Lap) -> Outcome,
    mut send: impl FnMut(&Lap) -> Outcome,
) -> Outcome {
    let (mut sum, mut counts) = (Sum::default(), Counts::default());
    for (lap, number) in laps.laps().zip(1..) {
        fill(&lap)?;
        let ((), counted) = end.counted(|| {
            let meter = Meter::start();
            send(&lap)?;
            end.out.store_u32(ASKED, number)?;
            // The data has arrived, as what is stored behind it has.
            end.own.wait(ANSWERED, number - 1, Some(PATIENCE))?;
            sum.add(&lap, meter);
            Ok(())
        })?;
        if lap.measured {
            counts.add(counted);
        }
        if end.own.wait(LOOKED, number - 1, Some(PATIENCE))? != number {
            return Err("the receiver found bytes that are not what was sent".into());
        }
    }
    let bytes = laps.count * laps.size as u64;
    let counters = counts.json();
    say(&json!({
        "bytes": bytes, "messages": laps.count, "all": laps.all(), "ns": sum.ns, "cpu_ns": sum.cpu_ns, "counters": counters,
    }))
}
