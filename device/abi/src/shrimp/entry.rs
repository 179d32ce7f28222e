//! An entry of the page table, the NIPT (sections 3.1, 3.2 and 4).
//!
//! In each direction, out and in, a page may be split between two mappings: part 0 is below the
//! split, part 1 is the rest. A byte that is stored at an offset of a page arrives at the same
//! offset of the page that its part is mapped to.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Not mapped out.
pub const SHRIMP_MODE_NONE: u32 = 0;
/// Automatic update, single-write: each store is sent at once as a packet (section 4.1).
pub const SHRIMP_MODE_SINGLE: u32 = 1;
/// Automatic update, blocked-write: consecutive stores are sent as one packet (section 4.1).
pub const SHRIMP_MODE_BLOCKED: u32 = 2;
/// Deliberate update: a command names what is sent (section 4.3).
pub const SHRIMP_MODE_DELIBERATE: u32 = 3;

/// In [`ShrimpEntry::flags`]: a part that stays mapped to the same place keeps its mode, which a
/// process may have changed.
pub const SHRIMP_ENTRY_KEEP_MODES: u64 = 1;
/// In [`ShrimpEntry::flags`], for part 0: it is mapped out, but the card sends nothing of it until
/// an entry without this flag is set. The card still watches its stores. With
/// [`SHRIMP_ENTRY_KEEP_MODES`], the part then gets its mode back, wherever it is mapped to (section
/// 4.4).
pub const SHRIMP_ENTRY_WITHHOLD_0: u64 = 2;
/// Like [`SHRIMP_ENTRY_WITHHOLD_0`], for part 1.
pub const SHRIMP_ENTRY_WITHHOLD_1: u64 = 4;
/// In [`ShrimpEntry::flags`]: refuses the entry as in use while it would end a running or waiting
/// transfer from the page. Without this flag the transfer ends.
pub const SHRIMP_ENTRY_UNLESS_BUSY: u64 = 8;
/// In [`ShrimpEntry::flags`]: transfers from the page are the operating system's own. Those of
/// processes do not take their places in the queue of the engine for deliberate update.
pub const SHRIMP_ENTRY_SYSTEM: u64 = 16;

/// In [`ShrimpIn::flags`]: each arrival for the part is reported (section 4.2). To be notified of
/// only the next arrival, use the page's command page.
pub const SHRIMP_IN_REPORT: u32 = 1;
/// Number of hosts that can store to a page: those with ids below this.
pub const SHRIMP_IN_NODES: u32 = 64;

/// In [`ShrimpOut::page`]: the page that the other host's operating system has for messages of this
/// host's, wherever it is.
pub const SHRIMP_SYSTEM_PAGE: u64 = 0x0008_0000_0000_0000;

/// Destination of a part of a page that is mapped out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ShrimpOut {
    /// The destination page: its address divided by 4,096, or [`SHRIMP_SYSTEM_PAGE`].
    pub page: u64,
    /// The destination host.
    pub node: u32,
    /// `SHRIMP_MODE_*`.
    pub mode: u32,
}

/// The hosts that may store to a part of a page.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ShrimpIn {
    /// The hosts: bit `n` is host `n`. If none is set, the part is not mapped in.
    pub nodes: u64,
    /// `SHRIMP_IN_REPORT` or 0.
    pub flags: u32,
    /// Zero.
    pub reserved: u32,
}

/// An entry. One that is all zero maps nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ShrimpEntry {
    /// First byte of the second part going out, 0 to 4,096.
    pub split_out: u32,
    /// First byte of the second part coming in, 0 to 4,096.
    pub split_in: u32,
    /// Outgoing mappings, by part.
    pub out: [ShrimpOut; 2],
    /// Incoming mappings, by part.
    pub incoming: [ShrimpIn; 2],
    /// Any of `SHRIMP_ENTRY_*`.
    pub flags: u64,
}

/// A page and its entry, for [`crate::shrimp::command::SHRIMP_COMMAND_SET_ENTRIES`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ShrimpPageEntry {
    /// The page: its address divided by 4,096.
    pub page: u32,
    /// Zero.
    pub reserved: u32,
    /// The page's entry.
    pub entry: ShrimpEntry,
}
