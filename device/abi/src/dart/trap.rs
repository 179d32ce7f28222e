//! Why a message was not executed, in the order of the checks. The message has changed nothing.

/// The card does not implement the operation, which is left to the software.
pub const DART_TRAP_UNIMPLEMENTED: u32 = 1;
/// It uses a register that is not in the connection's window.
pub const DART_TRAP_INDEX: u32 = 2;
/// Its comparison holds, and the message is then refused as it requested.
pub const DART_TRAP_REFUSED: u32 = 3;
/// The connection has no right to write to the endpoint, or to read from it.
pub const DART_TRAP_RIGHT: u32 = 4;
/// The address is not a multiple of 4.
pub const DART_TRAP_MISALIGNED: u32 = 5;
/// A word is not inside the endpoint.
pub const DART_TRAP_BOUNDS: u32 = 6;
/// The memory does not exist, or is not writable.
pub const DART_TRAP_NO_MEMORY: u32 = 7;
