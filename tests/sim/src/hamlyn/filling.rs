//! Filling a card's memory, and emptying it again.

use hamlyn_abi::family::area::UlnArea;
use hamlyn_abi::hamlyn::command::{HAMLYN_NO_QUEUE, HamlynOpenSlot};
use hamlyn_test_host::hamlyn::HamlynCommands;

use crate::engine::rng::Rng;
use crate::engine::violation::Violation;
use crate::hamlyn::around::Around;
use crate::hamlyn::driver::Objects;
use crate::hamlyn::room::{check_memory, has_memory, note_place};
use crate::hamlyn::sram::Object;
use crate::hamlyn::tables::vacancy;
use crate::hamlyn::tally::Tally;

/// Fills the memory of a card and empties it again.
pub(super) fn fill_memory(around: &mut Around<'_>, tally: &mut Tally) -> Result<(), Violation> {
    let host = around.rng.index(around.hosts.len());
    let machine = around.hosts[host].machine.clone();
    if machine.tables().running && fill(&machine, around.rng)? {
        tally.filled += 1;
        around.note(|| format!("host {host}: the card's memory was full"));
    }
    Ok(())
}

/// Opens slots until the card's memory is full or all slots are open, and closes them in random
/// order. Nothing else happens meanwhile. Returns whether the memory was full.
fn fill(machine: &Objects, rng: &mut Rng) -> Result<bool, Violation> {
    let mut tables = machine.tables();
    let area = UlnArea { length: 1, ..UlnArea::default() };
    let body = HamlynOpenSlot { area, queue: HAMLYN_NO_QUEUE, ..Default::default() };
    let mut own = Vec::new();
    let is_full = loop {
        let free: Vec<u32> = (0..tables.slots.len() as u32)
            .filter(|index| tables.slots[*index as usize].is_none() && !own.contains(index))
            .collect();
        let Some(index) = rng.pick(&free) else { break false };
        if !has_memory(machine, &tables, Object::Slot, index)? {
            break true;
        }
        let what = format_args!("to open slot {index}");
        machine.driver().must(what, |driver| driver.open_slot(index, &body))?;
        note_place(machine, &mut tables, Object::Slot, index)?;
        own.push(index);
    };
    if let Some(index) = vacancy(&tables.termini, rng) {
        if !tables.sram.has_room_for(Object::Terminus) {
            has_memory(machine, &tables, Object::Terminus, index)?;
        }
    }
    while !own.is_empty() {
        let index = own.swap_remove(rng.index(own.len()));
        machine.driver().must(format_args!("to close slot {index}"), |driver| driver.close_slot(index))?;
        tables.sram.forget(Object::Slot, index);
        check_memory(machine, &tables)?;
    }
    Ok(is_full)
}
