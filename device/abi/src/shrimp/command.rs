//! The SHRIMP card's commands, besides those that all cards have ([`crate::family::command`]).

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::family::area::UlnArea;

/// Sets the page table entry of page `index`. Body: [`crate::shrimp::entry::ShrimpEntry`]. When the
/// command has completed, nothing that only the earlier entry allowed is in flight in this card.
/// Transfers from a part that is now mapped to another place, or unmapped, have ended, and nothing
/// more is deposited.
pub const SHRIMP_COMMAND_SET_ENTRY: u32 = 1;
/// Sets the page for messages of the operating system of host `index`. Body: [`ShrimpSystemPage`].
pub const SHRIMP_COMMAND_SET_SYSTEM_PAGE: u32 = 2;
/// Opens the arrival queue. Body: [`ShrimpOpenArrivals`].
pub const SHRIMP_COMMAND_OPEN_ARRIVALS: u32 = 3;
/// Closes the arrival queue.
pub const SHRIMP_COMMAND_CLOSE_ARRIVALS: u32 = 4;
/// Sets several entries: `index` is the number of entries, 1 to [`SHRIMP_MAX_ENTRIES`]. Body: that
/// many [`crate::shrimp::entry::ShrimpPageEntry`], each for another page. The card checks all
/// entries before it sets the first one. Each entry has the same effect as with
/// [`SHRIMP_COMMAND_SET_ENTRY`]. The card skips an entry that
/// [`crate::shrimp::entry::SHRIMP_ENTRY_UNLESS_BUSY`] refuses and sets the others. It writes a u64
/// to the body: bit `n` is set if entry `n` was skipped.
pub const SHRIMP_COMMAND_SET_ENTRIES: u32 = 5;

/// Maximum number of entries of [`SHRIMP_COMMAND_SET_ENTRIES`]: as many as fit in the command page.
pub const SHRIMP_MAX_ENTRIES: u32 = 45;

/// Body of [`SHRIMP_COMMAND_SET_SYSTEM_PAGE`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ShrimpSystemPage {
    /// The page: its address divided by 4,096. Each arrival for it is reported.
    pub page: u64,
    /// 1 if there is a page, otherwise 0.
    pub mapped: u32,
    /// Zero.
    pub reserved: u32,
}

/// Body of [`SHRIMP_COMMAND_OPEN_ARRIVALS`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ShrimpOpenArrivals {
    /// The queue: `records` of [`crate::shrimp::arrival::ShrimpArrival`], all zero.
    pub queue: UlnArea,
    /// Number of records: a power of two from [`crate::shrimp::arrival::SHRIMP_MIN_ARRIVALS`] to
    /// [`crate::shrimp::arrival::SHRIMP_MAX_ARRIVALS`].
    pub records: u32,
    /// Zero.
    pub reserved: u32,
}
