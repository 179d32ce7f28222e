//! The words by which driver and card tell each other who sleeps and which interrupts are pending.
//!
//! They lie in a window that the driver maps; where, each card says. Each is 4 bytes, in a cache
//! line of its own.

/// Distance between two vectors' pending words, in bytes.
pub const HAMLYN_PENDING_STRIDE: u32 = 64;
/// Distance between two objects' armed words, in bytes.
pub const HAMLYN_ARMED_STRIDE: u32 = 64;

/// `armed`: nobody sleeps on the object; the card does not interrupt.
pub const HAMLYN_ARMED_NO: u32 = 0;
/// `armed`, stored by the driver: the owner sleeps; what it waits for interrupts.
pub const HAMLYN_ARMED_YES: u32 = 1;
/// `armed`, stored by the card: what the sleeper waits for has come since.
pub const HAMLYN_ARMED_FIRED: u32 = 2;
