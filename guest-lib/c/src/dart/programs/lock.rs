//! A lock in another host's registers.

use std::ffi::c_int;

use hamlyn::dart::programs::{Lock, LockRegisters};

use super::caller::{dart_caller, register};
use crate::call::{Failure, call, given};

/// A lock: which registers of the other end's window it is, both zero at first. Who wants it draws
/// a ticket, and has it when it is his turn, so that it comes to all in order.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct dart_lock_registers {
    /// The next ticket.
    pub tickets: u8,
    /// Whose turn it is.
    pub turn: u8,
}

fn read(registers: Option<&dart_lock_registers>) -> Result<Lock, Failure> {
    let dart_lock_registers { tickets, turn } = *given(registers, "registers")?;
    Ok(Lock::new(LockRegisters { tickets, turn }))
}

/// Waits until the lock is this caller's. If an answer does not come it is not known whose it is.
/// It fails as dart_caller_ask does.
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

/// Takes the lock if it is free: returns 1 if it was, else 0. Register `own` of that window is for
/// this caller alone. It fails as dart_caller_ask does.
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

/// Gives the lock back: the next has it. What its owner did at that host before, by the same
/// connection, is done when he has it.
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
