//! A lock in another host's registers.

use std::ffi::c_int;

use hamlyn::dart::programs::{Lock, LockRegisters};

use super::caller::{dart_caller, register};
use crate::call::{Failure, call, given};

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

fn read(registers: Option<&dart_lock_registers>) -> Result<Lock, Failure> {
    let dart_lock_registers { tickets, turn } = *given(registers, "registers")?;
    Ok(Lock::new(LockRegisters { tickets, turn }))
}

/// Waits until this caller has the lock. If an answer does not arrive, the state of the lock is
/// unknown. Fails like dart_caller_ask.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_lock(
    caller: Option<&mut dart_caller>,
    registers: Option<&dart_lock_registers>,
) -> c_int {
    call(|| {
        let caller = given(caller, "caller")?;
        Ok(read(registers)?.lock(&mut caller.0).map(|()| 0)?)
    })
}

/// Takes the lock if it is free. Returns 1 if it was taken, else 0. Register `own` of that window
/// must be used only by this caller. Fails like dart_caller_ask.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_try_lock(
    caller: Option<&mut dart_caller>,
    registers: Option<&dart_lock_registers>,
    own: u32,
) -> c_int {
    call(|| {
        let caller = given(caller, "caller")?;
        Ok(read(registers)?.try_lock(&mut caller.0, register(own)?)?.into())
    })
}

/// Releases the lock to the next waiter. When that has the lock, everything that this caller did
/// before at that host, by the same connection, is complete.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_unlock(
    caller: Option<&dart_caller>,
    registers: Option<&dart_lock_registers>,
) -> c_int {
    call(|| {
        let caller = given(caller, "caller")?;
        Ok(read(registers)?.unlock(&caller.0).map(|()| 0)?)
    })
}
