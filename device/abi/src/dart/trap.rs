//! Why a message was not executed, in the order in which it is looked for. It has changed nothing.

/// The card has no such operation: it is the software's.
pub const DART_TRAP_UNIMPLEMENTED: u32 = 1;
/// A register that it uses is not in the connection's window.
pub const DART_TRAP_INDEX: u32 = 2;
/// Its comparison holds, and it said that it is refused then.
pub const DART_TRAP_REFUSED: u32 = 3;
/// The connection may not write to the endpoint, or read from it.
pub const DART_TRAP_RIGHT: u32 = 4;
/// The address is no multiple of 4.
pub const DART_TRAP_MISALIGNED: u32 = 5;
/// A word is not inside the endpoint.
pub const DART_TRAP_BOUNDS: u32 = 6;
/// There is no memory, or it cannot be written to.
pub const DART_TRAP_NO_MEMORY: u32 = 7;
