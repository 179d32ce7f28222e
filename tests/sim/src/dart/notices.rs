//! The FIFO, which notifies the driver.

use std::collections::BTreeMap;

use hamlyn_abi::dart::registers::{DART_REG_FIFO_TAKEN, DART_VECTOR_FIFO};

use crate::engine::violation::Violation;

use super::machine::Machine;

/// Notifications of the driver.
#[derive(Debug, Default)]
pub(super) struct Notices {
    /// For each value of a record, the maximum number of times the driver may be notified of it. It
    /// is once for each sleeper, each connection that breaks, and each record of an immediate
    /// queue.
    reasons: BTreeMap<u32, u32>,
    /// Records that the driver has taken.
    taken: u32,
    is_called: bool,
}

impl Notices {
    /// Notes whether the card has raised the FIFO's vector.
    pub(super) fn note_vector(&mut self, machine: &Machine) {
        self.is_called |= machine.vectors.take().contains(&(DART_VECTOR_FIFO as u16));
    }

    /// Returns whether the driver was called since the last call of this.
    pub(super) fn take_call(&mut self) -> bool {
        std::mem::take(&mut self.is_called)
    }

    /// Adds reasons to notify the driver of `what`.
    pub(super) fn give_reasons(&mut self, what: u32, count: u32) {
        *self.reasons.entry(what).or_default() += count;
    }

    /// Uses up the reason of a record.
    pub(super) fn take_reason(&mut self, host: u16, what: u32) -> Result<(), Violation> {
        let left = self.reasons.get_mut(&what).filter(|left| **left > 0);
        let without =
            || Violation::new(format!("host {host}: the driver is told of {what:#x} for no reason"));
        *left.ok_or_else(without)? -= 1;
        Ok(())
    }

    /// Takes the next record, if there is one.
    pub(super) fn next(&mut self, machine: &Machine) -> Option<u32> {
        let record = machine.record(self.taken)?;
        self.taken += 1;
        Some(record)
    }

    /// Tells the card how many records were taken.
    pub(super) fn acknowledge(&self, machine: &Machine) -> Result<(), Violation> {
        machine.store(0, DART_REG_FIFO_TAKEN.into(), 4, self.taken.into())
    }
}
