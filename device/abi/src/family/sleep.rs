//! Words by which the driver shows which objects have sleeping owners, and the card which
//! interrupts are pending.
//!
//! They are in a window that the driver maps; each card defines their offsets. Each is 4 bytes, in
//! a cache line of its own.

/// Distance between two vectors' pending words, in bytes.
pub const ULN_PENDING_STRIDE: u32 = 64;
/// Distance between two objects' armed words, in bytes.
pub const ULN_ARMED_STRIDE: u32 = 64;

/// `armed`: no process sleeps on the object; the card does not interrupt.
pub const ULN_ARMED_NO: u32 = 0;
/// `armed`, stored by the driver: the owner sleeps. The event that it waits for interrupts.
pub const ULN_ARMED_YES: u32 = 1;
/// `armed`, stored by the card: the event that the owner waits for has occurred since.
pub const ULN_ARMED_FIRED: u32 = 2;
