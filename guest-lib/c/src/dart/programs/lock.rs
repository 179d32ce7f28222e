//! A lock in another host's registers.

use hamlyn::dart::programs::{Lock, LockRegisters};

use super::caller::{dart_caller, register};
use crate::exported::exported;

/// The registers of the other end's window that form a lock. Both must be initially zero. The lock
/// is a fair ticket lock: a caller draws a ticket, and has the lock when its turn comes.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct dart_lock_registers {
    /// The next ticket.
    pub tickets: u8,
    /// The ticket that holds the lock.
    pub turn: u8,
}

impl dart_lock_registers {
    fn read(self) -> Lock {
        let Self { tickets, turn } = self;
        Lock::new(LockRegisters { tickets, turn })
    }
}

exported! {
/// Waits until this caller has the lock. If an answer does not arrive, the state of the lock is
/// unknown. Fails like dart_caller_ask.
fn dart_lock(caller: &mut dart_caller, registers: &dart_lock_registers) {
    registers.read().lock(&mut caller.0)?
}

/// Takes the lock if it is free. Returns 1 if it was taken, else 0. Register `own` of that window
/// must be used only by this caller. Fails like dart_caller_ask.
fn dart_try_lock(caller: &mut dart_caller, registers: &dart_lock_registers, own: u32) {
    registers.read().try_lock(&mut caller.0, register(own)?)?
}

/// Releases the lock to the next waiter. When that has the lock, everything that this caller did
/// before at that host, by the same connection, is complete.
fn dart_unlock(caller: &dart_caller, registers: &dart_lock_registers) {
    registers.read().unlock(&caller.0)?
}
}
