//! Reasons why a message was not executed.

use hamlyn::dart::Trap;

/// The receiver's card does not implement the operation.
pub const DART_TRAP_UNIMPLEMENTED: u32 = 1;
/// A register is not inside the connection's window.
pub const DART_TRAP_INDEX: u32 = 2;
/// The message's comparison held, and the message requested to be refused in that case.
pub const DART_TRAP_REFUSED: u32 = 3;
/// The connection may not write to the endpoint, or may not read it.
pub const DART_TRAP_RIGHT: u32 = 4;
/// The address is not a multiple of 4.
pub const DART_TRAP_MISALIGNED: u32 = 5;
/// A word is not inside the endpoint.
pub const DART_TRAP_BOUNDS: u32 = 6;
/// There is no memory, or it is not writable.
pub const DART_TRAP_NO_MEMORY: u32 = 7;

pub(crate) fn trap_number(trap: Trap) -> u32 {
    match trap {
        Trap::Unimplemented => DART_TRAP_UNIMPLEMENTED,
        Trap::Index => DART_TRAP_INDEX,
        Trap::Refused => DART_TRAP_REFUSED,
        Trap::Right => DART_TRAP_RIGHT,
        Trap::Misaligned => DART_TRAP_MISALIGNED,
        Trap::Bounds => DART_TRAP_BOUNDS,
        Trap::NoMemory => DART_TRAP_NO_MEMORY,
        _ => 0,
    }
}
