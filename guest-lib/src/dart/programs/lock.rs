//! A lock in another host's registers.

use std::time::Duration;

use super::Caller;
use crate::dart::{Operation, Source, Step, Target};
use crate::error::Result;

/// Time between two polls of a waiter, for each waiter ahead of it.
const TURN: Duration = Duration::from_micros(100);

/// The registers of the window that form a lock. Both are initially zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockRegisters {
    /// The next ticket.
    pub tickets: u8,
    /// The ticket that holds the lock.
    pub turn: u8,
}

/// A ticket lock, which is fair: a caller draws a ticket, and has the lock when its turn comes. The
/// software of the registers' host is not involved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lock {
    registers: LockRegisters,
}

impl Lock {
    /// Creates a lock from these registers.
    #[must_use]
    pub fn new(registers: LockRegisters) -> Self {
        Self { registers }
    }

    /// Blocks until this caller has the lock.
    ///
    /// # Errors
    /// The errors of [`Caller::ask`]: the state of the lock is then unknown.
    pub fn lock(&self, caller: &mut Caller) -> Result<()> {
        let (ticket, _) = caller.fetch(self.registers.tickets, Step::Increment, 0)?;
        loop {
            let before = ticket.wrapping_sub(self.turn(caller)?);
            if before == 0 {
                return Ok(());
            }
            std::thread::sleep(TURN.saturating_mul(before.min(100) as u32));
        }
    }

    /// Takes the lock if it is free. Returns whether it was taken.
    ///
    /// # Errors
    /// Same as [`Caller::ask`].
    pub fn try_lock(&self, caller: &mut Caller, own: u8) -> Result<bool> {
        let turn = self.turn(caller)?;
        // If no ticket was drawn since, the next ticket is the one whose turn it is.
        let found = caller.compare_and_swap(self.registers.tickets, own, turn, turn.wrapping_add(1))?;
        Ok(found == turn)
    }

    /// Releases the lock to the next waiter. When that has the lock, everything that this caller
    /// did at the host before is complete.
    ///
    /// # Errors
    /// Same as [`crate::dart::Connection::send`].
    pub fn unlock(&self, caller: &Caller) -> Result<()> {
        let next = Operation::registers(0).first(Step::Increment, Source::Operand, Target::I);
        caller.connection().try_send(&next.indices([self.registers.turn, 0, 0]), 0..0)
    }

    fn turn(&self, caller: &mut Caller) -> Result<u64> {
        Ok(caller.ask(&Operation::answer(0).indices([self.registers.turn, 0, 0]))?[0])
    }
}
