//! An entry of the page table, the NIPT (sections 3.1, 3.2 and 4).
//!
//! A page may be split between two mappings, going out as well as coming in: part 0 is what is
//! below the split, part 1 the rest. A byte that is stored at an offset of a page arrives at the
//! same offset of the page that its part is mapped to.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Not mapped out.
pub const SHRIMP_MODE_NONE: u32 = 0;
/// Automatic update, single-write: each store is a packet, at once (section 4.1).
pub const SHRIMP_MODE_SINGLE: u32 = 1;
/// Automatic update, blocked-write: stores that follow each other are one packet (section 4.1).
pub const SHRIMP_MODE_BLOCKED: u32 = 2;
/// Deliberate update: what is sent is said by a command (section 4.3).
pub const SHRIMP_MODE_DELIBERATE: u32 = 3;

/// In [`ShrimpEntry::flags`]: a part that stays mapped out to where it is keeps its mode, which a
/// process may have changed.
pub const SHRIMP_ENTRY_KEEP_MODES: u64 = 1;
/// In [`ShrimpEntry::flags`], for part 0: it is mapped out, but nothing of it is sent until an
/// entry without this flag is set. Its stores are watched all the while. With
/// [`SHRIMP_ENTRY_KEEP_MODES`] it has its mode back then, wherever it is mapped to (section 4.4).
pub const SHRIMP_ENTRY_WITHHOLD_0: u64 = 2;
/// The same, for part 1.
pub const SHRIMP_ENTRY_WITHHOLD_1: u64 = 4;
/// In [`ShrimpEntry::flags`]: while a transfer from the page is under way or waits that the entry
/// would end, it is refused as in use. Without this the transfer ends.
pub const SHRIMP_ENTRY_UNLESS_BUSY: u64 = 8;

/// In [`ShrimpIn::flags`]: each arrival for the part is reported (section 4.2). Who wants to know
/// of the next one only asks for it by the page's command page.
pub const SHRIMP_IN_REPORT: u32 = 1;
/// How many hosts can store to a page: those with ids below this.
pub const SHRIMP_IN_NODES: u32 = 64;

/// In [`ShrimpOut::page`]: the page that the other host's operating system has for messages of this
/// one's, wherever that is.
pub const SHRIMP_SYSTEM_PAGE: u64 = 0x0008_0000_0000_0000;

/// Where a part of a page is mapped out to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ShrimpOut {
    /// The page there: its address divided by 4,096. Or [`SHRIMP_SYSTEM_PAGE`].
    pub page: u64,
    /// The host.
    pub node: u32,
    /// `SHRIMP_MODE_*`.
    pub mode: u32,
}

/// Whose stores a part of a page takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ShrimpIn {
    /// The hosts that they may come from: bit `n` is host `n`. If there is none, the part is not
    /// mapped in.
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
    /// Going out, by part.
    pub out: [ShrimpOut; 2],
    /// Coming in, by part.
    pub incoming: [ShrimpIn; 2],
    /// `SHRIMP_ENTRY_*`, any of them.
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
