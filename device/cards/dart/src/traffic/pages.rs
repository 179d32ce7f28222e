//! Stores and loads of a connection's page (section 3): its Send Registers, and the address
//! registers of its window.

use hamlyn_abi::dart::connection::{
    DART_DROPPED_BROKEN, DART_PAGE_REGISTERS, DART_PAGE_SIZE, DART_SEND_CONTROL, DART_SEND_DATA,
    DART_SEND_DATA_SHIFT, DART_SEND_LENGTH, DART_SEND_OFFSET,
};

use super::{Around, Traffic};
use crate::memory::Memory;

/// The value of a load from a place of a connection's page where nothing is.
const ONES: u64 = u64::MAX;

/// Returns the connection whose page contains a byte of the pages, and the byte's place in it.
fn place(offset: u64) -> (u32, u32) {
    let size = u64::from(DART_PAGE_SIZE);
    ((offset / size) as u32, (offset % size) as u32)
}

impl Traffic {
    /// Handles a store to a connection's page.
    pub(crate) fn page_write(&mut self, around: &mut Around<'_>, offset: u64, width: u8, value: u64) {
        let (index, place) = place(offset);
        let Some(connection) = self.connections.at_mut(index) else { return };
        match (place, width) {
            (DART_SEND_CONTROL..=DART_SEND_OFFSET, 8) => {
                connection.sending.registers[place as usize / 8] = value;
            }
            (DART_SEND_LENGTH, 4 | 8) => self.send(around, index, u32::try_from(value).unwrap_or(u32::MAX)),
            (DART_SEND_DATA, 8) => {
                connection.sending.registers[DART_SEND_OFFSET as usize / 8] = value >> DART_SEND_DATA_SHIFT;
                self.send(around, index, (value & ((1 << DART_SEND_DATA_SHIFT) - 1)) as u32);
            }
            (DART_PAGE_REGISTERS.., 8) => {
                if let Some(register) = self.register(index, place) {
                    around.memory.set_register(register, value);
                }
            }
            _ => tracing::debug!(offset, value, "a store to nothing of a connection's page"),
        }
    }

    /// Sends a message with the contents of a connection's Send Registers and `length` bytes of
    /// data.
    fn send(&mut self, around: &mut Around<'_>, index: u32, length: u32) {
        let Some(connection) = self.connections.at_mut(index) else { return };
        let is_cut = connection.is_system && self.here.is_none();
        match if is_cut { Err(DART_DROPPED_BROKEN) } else { connection.put(length) } {
            Ok(()) => self.stir(index),
            Err(why) => {
                let told = connection.left(around.ports, around.telling, 1, Some(why));
                connection.note(around.ports, &mut self.backlog, around.telling, told);
            }
        }
    }

    /// Handles a load from a connection's page.
    pub(crate) fn page_read(&self, memory: &Memory, offset: u64, width: u8) -> u64 {
        let (index, place) = place(offset);
        let register = if width == 8 { self.register(index, place) } else { None };
        register.and_then(|register| memory.register(register)).unwrap_or(ONES)
    }

    /// Returns the address register at this place of a connection's page.
    fn register(&self, index: u32, place: u32) -> Option<usize> {
        let number = place.checked_sub(DART_PAGE_REGISTERS)? as usize / 8;
        let connection = self.connections.at(index)?;
        (number < connection.window.len()).then_some(connection.window.start + number)
    }
}
