//! Queues of records for processes.

use hamlyn_abi::dart::command::*;
use hamlyn_abi::dart::queue::*;

use crate::engine::area::Area;
use crate::engine::memory::{PAGE, Right};
use crate::engine::violation::{Violation, ensure};

use super::machine::Machine;
use super::packet::{BLOCK, Message};

/// A queue.
#[derive(Debug)]
pub(super) struct Queue {
    area: Area,
    written: u32,
    taken: u32,
    is_immediate: bool,
    /// `asleep`: its owner sleeps. `woken`: the driver was notified since.
    asleep: bool,
    woken: bool,
}

impl Queue {
    pub(super) fn open(machine: &Machine, number: u32, is_immediate: bool) -> Result<Self, Violation> {
        let length = u64::from(DART_QUEUE_HEAD + DART_MIN_RECORDS * DART_RECORD_SIZE);
        let area = Area::new(&machine.memory, &mut machine.frames(), 0, length);
        let queue = Self { area, written: 0, taken: 0, is_immediate, asleep: false, woken: false };
        queue.area.permit_lists(&machine.memory, true);
        queue.permit(machine, true);
        let flags = if is_immediate { DART_QUEUE_IMMEDIATE } else { 0 };
        let body = DartOpenQueue { memory: queue.area.abi(), records: DART_MIN_RECORDS, flags };
        machine.run(DART_COMMAND_OPEN_QUEUE, number, &body)?;
        Ok(queue)
    }

    fn permit(&self, machine: &Machine, allowed: bool) {
        let length = self.area.length - PAGE;
        self.area.permit(&machine.memory, Right::Read, DART_QUEUE_TAKEN.into(), 4, allowed);
        self.area.permit(&machine.memory, Right::Write, DART_QUEUE_HEAD.into(), length, allowed);
    }

    /// Frees its memory, which the card may no longer access.
    pub(super) fn forget(&self, machine: &Machine) {
        self.permit(machine, false);
        machine.forget_area(&self.area);
    }

    /// Returns the frames of its records.
    pub(super) fn frames(&self) -> &[u64] {
        &self.area.pages()[1..]
    }

    /// Returns the address of a record.
    pub(super) fn address(&self, number: u32) -> u64 {
        self.area.address((DART_QUEUE_HEAD + number % DART_MIN_RECORDS * DART_RECORD_SIZE).into())
    }

    pub(super) fn written(&self) -> u32 {
        self.written
    }

    /// Notes the number of records written. Returns how many notifications of the driver that is
    /// worth.
    pub(super) fn note_written(&mut self, written: u32) -> u32 {
        let more = written.wrapping_sub(std::mem::replace(&mut self.written, written));
        if self.is_immediate { more } else { 0 }
    }

    /// Returns whether a message finds no room for its record, once `written` records are written.
    pub(super) fn is_full(&self, written: u32, message: &Message, kind: u32) -> bool {
        let needed = 1 + parts(message, kind).len() as u32;
        written.wrapping_sub(self.taken) + needed > DART_MIN_RECORDS
    }

    /// Takes all records, unless the owner sleeps. Returns their number.
    pub(super) fn take(&mut self, machine: &Machine) -> u32 {
        if self.asleep && !self.woken {
            return 0;
        }
        (self.asleep, self.woken) = (false, false);
        let count = self.written.wrapping_sub(self.taken);
        self.taken = self.written;
        self.area.poke(&machine.memory, DART_QUEUE_TAKEN.into(), &self.taken.to_le_bytes());
        count
    }

    /// Puts the owner to sleep, unless the driver is notified anyway. Returns the number of records
    /// that the owner has taken.
    pub(super) fn doze(&mut self) -> Option<u32> {
        if self.is_immediate || self.asleep {
            return None;
        }
        (self.asleep, self.woken) = (true, false);
        Some(self.taken)
    }

    pub(super) fn wake(&mut self) {
        self.woken = true;
    }

    /// Checks that its owner does not sleep while there are records.
    pub(super) fn check_at_rest(&self, host: u16, number: u32) -> Result<(), Violation> {
        let sleeps = self.asleep && !self.woken && self.taken != self.written;
        ensure(!sleeps, || format!("host {host}: the owner of queue {number} sleeps, and it has records"))
    }
}

/// Returns the parts that follow the record of an exception: the data that is not in the record, if
/// a queue can hold it. No parts follow the record of an event.
pub(super) fn parts(message: &Message, kind: u32) -> Vec<Vec<u8>> {
    let in_record = if message.body.len() > BLOCK { BLOCK } else { 0 };
    let parts: Vec<_> = message.body[in_record..].chunks(DART_PART as usize).map(<[u8]>::to_vec).collect();
    let fits = kind != DART_RECORD_COMPARED && parts.len() < DART_MIN_RECORDS as usize;
    if fits { parts } else { Vec::new() }
}
