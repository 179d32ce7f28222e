//! Arguments that calls of all cards share: an object of the file, and a time-out.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::call::CardArgument;

/// `timeout_ns` of the calls that wait: no time-out.
pub const ULN_WAIT_FOREVER: i64 = -1;

/// Names an object of the file: for a Hamlyn card a terminus, queue or slot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct UlnObject {
    /// In: its number.
    pub index: u32,
    /// Zero.
    pub reserved0: u32,
    /// Zero.
    pub reserved1: u64,
}

impl CardArgument for UlnObject {}
