//! Filling a card's memory, and emptying it again.

use hamlyn_abi::family::area::UlnArea;
use hamlyn_abi::hamlyn::command::{HAMLYN_NO_QUEUE, HamlynOpenSlot};
use hamlyn_test_host::hamlyn::HamlynCommands;

use crate::engine::rng::Rng;
use crate::engine::violation::Violation;
use crate::hamlyn::machine::Machine;
use crate::hamlyn::sram::Object;
use crate::hamlyn::tables::vacancy;
use crate::hamlyn::world::World;

impl Machine {
    /// Opens slots until the card's memory is full or all slots are open, and closes them in random
    /// order. Nothing else happens meanwhile. Returns whether the memory was full.
    pub(crate) fn fill_memory(&self, rng: &mut Rng) -> Result<bool, Violation> {
        let mut tables = self.tables();
        let area = UlnArea { length: 1, ..UlnArea::default() };
        let body = HamlynOpenSlot { area, queue: HAMLYN_NO_QUEUE, ..Default::default() };
        let mut own = Vec::new();
        let is_full = loop {
            let free: Vec<u32> = (0..tables.slots.len() as u32)
                .filter(|index| tables.slots[*index as usize].is_none() && !own.contains(index))
                .collect();
            let Some(index) = rng.pick(&free) else { break false };
            if !self.has_memory(&tables, Object::Slot, index)? {
                break true;
            }
            let what = format_args!("to open slot {index}");
            self.driver().must(what, |driver| driver.open_slot(index, &body))?;
            self.note_place(&mut tables, Object::Slot, index)?;
            own.push(index);
        };
        if let Some(index) = vacancy(&tables.termini, rng) {
            if !tables.sram.has_room_for(Object::Terminus) {
                self.has_memory(&tables, Object::Terminus, index)?;
            }
        }
        while !own.is_empty() {
            let index = own.swap_remove(rng.index(own.len()));
            self.driver().must(format_args!("to close slot {index}"), |driver| driver.close_slot(index))?;
            tables.sram.forget(Object::Slot, index);
            self.check_memory(&tables)?;
        }
        Ok(is_full)
    }
}

impl World {
    /// Fills the memory of a card and empties it again.
    pub(crate) fn fill_memory(&mut self) -> Result<(), Violation> {
        let host = self.rng.index(self.hosts.len());
        let machine = self.hosts[host].machine.clone();
        if machine.tables().running && machine.fill_memory(&mut self.rng)? {
            self.model.filled += 1;
            self.note(|| format!("host {host}: the card's memory was full"));
        }
        Ok(())
    }
}
