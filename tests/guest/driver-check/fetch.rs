//! The driver's part of remote fetch-and-op: the slot's flag and the status words.

use std::mem::offset_of;

use hamlyn_abi::hamlyn::command::{HAMLYN_SLOT_FETCH, HAMLYN_SLOT_INTERRUPT};
use hamlyn_abi::hamlyn::request::{
    HAMLYN_FAST_MODE, HAMLYN_FETCH_ADD, HAMLYN_REQUEST_FETCH, HamlynFetch, HamlynRequest,
};
use hamlyn_abi::hamlyn::statistics::Statistic;
use hamlyn_abi::hamlyn::window::{HAMLYN_REASON_SENT, HAMLYN_WORK_QUEUE_ENTRIES, HamlynTerminusStatus};
use hamlyn_abi::uapi::HamlynSlotCreate;
use hamlyn_sys::Mapping;
use zerocopy::IntoBytes;

use crate::bench::{Bench, PAGE, Terminus, object, slot};
use crate::checks::Checks;
use crate::common::Outcome;

/// The word's offset in the message area.
const OFFSET: usize = 2 * PAGE - 8;

pub(crate) fn fetch(checks: &mut Checks, bench: &mut Bench) -> Outcome {
    let area = Mapping::anonymous(2 * PAGE)?;
    area.store_u64(OFFSET, 40);
    let refused = Err(Statistic::RefusedByDestination as u32);
    for (flags, found, left) in [
        (0, refused, 40),
        (HAMLYN_SLOT_INTERRUPT, refused, 40),
        (HAMLYN_SLOT_FETCH, Ok(40), 42),
        (HAMLYN_SLOT_INTERRUPT | HAMLYN_SLOT_FETCH, Ok(42), 44),
    ] {
        let mut slot = HamlynSlotCreate { flags, ..slot(&area) };
        bench.device.slot_create(&mut slot, &area, None)?;
        add_two(bench, &slot);
        checks.holds("a fetch-and-op is answered", bench.terminus.settles())?;
        let outcome = (answer(bench), area.load_u64(OFFSET));
        checks.note(
            &format!("fetch-and-op into a slot with flags {flags}"),
            outcome == (found, left),
            &format!("{outcome:?}"),
        )?;
        bench.device.slot_destroy(&mut object(slot.slot))?;
    }
    Ok(())
}

/// Returns the result in the last request's status words: the old value, or the reason of the
/// refusal.
fn answer(bench: &Bench) -> Result<u64, u32> {
    let Terminus { status, tail, .. } = &bench.terminus;
    let entry = ((tail - 1) % HAMLYN_WORK_QUEUE_ENTRIES) as usize;
    match status.load_u32(offset_of!(HamlynTerminusStatus, reasons) + 4 * entry) {
        HAMLYN_REASON_SENT => Ok(status.load_u64(offset_of!(HamlynTerminusStatus, fetched) + 8 * entry)),
        reason => Err(reason),
    }
}

fn add_two(bench: &mut Bench, slot: &HamlynSlotCreate) {
    let request = HamlynRequest {
        destination: bench.host,
        slot: slot.slot,
        key: slot.key,
        flags: HAMLYN_REQUEST_FETCH,
        operation: HAMLYN_FETCH_ADD,
        offset: OFFSET as u32,
        length: size_of::<HamlynFetch>() as u32,
        metadata_index: HAMLYN_FAST_MODE,
        ..Default::default()
    };
    bench.terminus.post(&request, HamlynFetch { operand: 2, compare: 0 }.as_bytes());
}
