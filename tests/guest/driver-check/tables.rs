//! All objects that the card can have, and one more.

use std::io;
use std::path::Path;

use hamlyn_abi::hamlyn::command::HAMLYN_MAX_WEIGHT;
use hamlyn_abi::hamlyn::sram::HAMLYN_SRAM_SLOT;
use hamlyn_abi::uapi::*;
use hamlyn_sys::{Device, Mapping};
use rustix::io::Errno;

use crate::bench::{PAGE, pinned, slot};
use crate::checks::Checks;
use crate::common::Outcome;

pub(crate) fn tables(checks: &mut Checks, path: &Path) -> Outcome {
    let area = Mapping::anonymous(PAGE)?;
    for round in ["first", "second"] {
        let device = Device::open(path)?;
        let mut query = UlnQuery::default();
        device.query(&mut query)?;
        let mut fill = |what: &str, limit: u32, create: &dyn Fn() -> io::Result<()>| {
            let made = (0..limit).map_while(|_| create().ok()).count();
            checks.note(
                &format!("{round} time, all {what}"),
                made == limit as usize,
                &format!("{made} of {limit}"),
            )?;
            checks.refused(&format!("{round} time, one more"), create(), Errno::NOSPC)
        };
        let heavy = HamlynTerminusCreate { weight: HAMLYN_MAX_WEIGHT, ..Default::default() };
        fill("termini", query.termini, &|| device.terminus_create(&mut heavy.clone()))?;
        let small = HamlynQueueCreate { entries: 2, ..Default::default() };
        fill("queues", query.queues, &|| device.queue_create(&mut small.clone()))?;
        // Slots get the rest of the card's memory, which is not enough for all numbers.
        let mut filled = UlnQuery::default();
        device.query(&mut filled)?;
        let slots = filled.of_card::<HamlynSramQuery>().map_or(0, |memory| memory.longest / HAMLYN_SRAM_SLOT);
        fill("slots", slots, &|| device.slot_create(&mut slot(&area), &area, None))?;
        checks.holds(&format!("{round} time, memory ends before numbers"), slots < query.slots)?;
    }
    checks.holds("nothing is pinned at the end", pinned()? == 0)
}
