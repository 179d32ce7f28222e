//! Whether a card has memory for the objects that a driver opens, and where it reports to have put
//! them.

use hamlyn_abi::family::area::UlnArea;
use hamlyn_abi::family::command::{ULN_COMMAND_BODY, ULN_STATUS_MEMORY_FULL};
use hamlyn_abi::hamlyn::command::{HAMLYN_NO_QUEUE, HamlynOpenSlot, HamlynOpenTerminus};
use hamlyn_abi::hamlyn::notification::{HAMLYN_NOTIFICATION_SIZE, HAMLYN_QUEUE_MIN_ENTRIES};
use hamlyn_abi::hamlyn::registers::{HAMLYN_REG_SRAM_FREE, HAMLYN_REG_SRAM_LONGEST};
use hamlyn_abi::hamlyn::sram::HamlynSramPlace;
use hamlyn_test_host::Refusal;
use hamlyn_test_host::hamlyn::HamlynCommands;

use crate::engine::violation::{Violation, ensure};
use crate::hamlyn::access::Access;
use crate::hamlyn::sram::Object;
use crate::hamlyn::tables::Tables;

/// Returns whether the card's memory has a piece for an object. If it has none, the card must
/// refuse to open one, with that reason.
pub(super) fn has_memory(
    access: &Access,
    tables: &Tables,
    object: Object,
    index: u32,
) -> Result<bool, Violation> {
    if tables.sram.has_room_for(object) {
        return Ok(true);
    }
    let mut driver = access.driver();
    let area = UlnArea { length: 1, ..UlnArea::default() };
    let answer = match object {
        Object::Terminus => {
            driver.open_terminus(index, &HamlynOpenTerminus { weight: 1, ..Default::default() })
        }
        Object::Queue => {
            let entries = HAMLYN_QUEUE_MIN_ENTRIES;
            let area = UlnArea { length: (entries * HAMLYN_NOTIFICATION_SIZE).into(), ..area };
            driver.open_queue(index, area, entries, 1)
        }
        Object::Slot => {
            driver.open_slot(index, &HamlynOpenSlot { area, queue: HAMLYN_NO_QUEUE, ..Default::default() })
        }
    }?;
    let (status, limit) = (ULN_STATUS_MEMORY_FULL, tables.sram.left().1.into());
    let full = Refusal { status, value: object.bytes().into(), limit };
    ensure(answer == Err(full), || {
        format!("host {}: {object:?} {index} in full memory: {answer:?} (must be {full:?})", access.id)
    })?;
    Ok(false)
}

/// Notes where the card reports to have put the object that it has just opened.
pub(super) fn note_place(
    access: &Access,
    tables: &mut Tables,
    object: Object,
    index: u32,
) -> Result<(), Violation> {
    let at = access.command_page() + u64::from(ULN_COMMAND_BODY);
    let (address, bytes) = (access.memory.peek_u32(at), access.memory.peek_u32(at + 4));
    tables.sram.enter(object, index, HamlynSramPlace { address, bytes })?;
    check_memory(access, tables)
}

/// Checks that the card's registers agree with the open objects.
pub(super) fn check_memory(access: &Access, tables: &Tables) -> Result<(), Violation> {
    let read = (access.load(HAMLYN_REG_SRAM_LONGEST)?, access.load(HAMLYN_REG_SRAM_FREE)?);
    let left = tables.sram.left();
    ensure(read == left, || {
        format!("host {}: longest piece and free bytes are {read:?} (must be {left:?})", access.id)
    })
}
