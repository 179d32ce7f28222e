//! A lock in another host's registers.

use std::time::Duration;

use super::Caller;
use crate::dart::{Operation, Source, Step, Target};
use crate::error::Result;

/// How long somebody waits before he asks again, for each who is before him.
const TURN: Duration = Duration::from_micros(100);

/// Which registers of the window a lock is: both are zero at first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockRegisters {
    /// The next ticket.
    pub tickets: u8,
    /// Whose turn it is.
    pub turn: u8,
}

/// A lock: who wants it draws a ticket, and has it when it is his turn, so that it comes to all in
/// order. The host whose registers these are has nothing to do with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lock {
    registers: LockRegisters,
}

impl Lock {
    /// The lock that is these registers.
    #[must_use]
    pub fn new(registers: LockRegisters) -> Self {
        Self { registers }
    }

    /// Waits until it is this caller's.
    ///
    /// # Errors
    /// Those of [`Caller::ask`]: then it is not known whose it is.
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

    /// Takes it if it is free.
    ///
    /// # Errors
    /// Those of [`Caller::ask`].
    pub fn try_lock(&self, caller: &mut Caller, own: u8) -> Result<bool> {
        let turn = self.turn(caller)?;
        // Nobody has drawn a ticket since: it is the next one whose turn it is.
        let found = caller.compare_and_swap(self.registers.tickets, own, turn, turn.wrapping_add(1))?;
        Ok(found == turn)
    }

    /// Gives it back: the next has it. What its owner did at that host before is done when he has
    /// it.
    ///
    /// # Errors
    /// Those of [`crate::dart::Connection::send`].
    pub fn unlock(&self, caller: &Caller) -> Result<()> {
        let next = Operation::registers(0).first(Step::Increment, Source::Operand, Target::I);
        caller.connection().send(&next.indices([self.registers.turn, 0, 0]), 0..0)
    }

    fn turn(&self, caller: &mut Caller) -> Result<u64> {
        Ok(caller.ask(&Operation::answer(0).indices([self.registers.turn, 0, 0]))?[0])
    }
}
