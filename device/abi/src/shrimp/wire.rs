//! Messages between the drivers of two hosts about exports and mappings, of the card's own kind
//! (`ULN_WIRE_CARD`). `reason` is the message's kind. A structure of this file follows the head.
//!
//! A mapping is requested piece by piece, each with as many pages as fit into a message
//! ([`SHRIMP_SAY_MAP`], [`SHRIMP_SAY_PAGES`] or [`SHRIMP_SAY_REFUSED`]). [`SHRIMP_SAY_UNMAP`]
//! announces the end of a mapping. [`SHRIMP_SAY_GONE`] announces the end of an export;
//! [`SHRIMP_SAY_UNMAP`] answers it for each mapping (section 4.4). The exporter's pages are not
//! used for anything else before that, because stores may still be in flight. Messages and stores
//! of one host arrive in order, so earlier stores have arrived before the message.
//!
//! A page of an export may leave while the export stays. [`SHRIMP_SAY_INVALIDATE`] notifies its
//! mappings. They confirm by [`SHRIMP_SAY_INVALIDATED`] that they no longer store to it, and
//! request it by [`SHRIMP_SAY_AGAIN`] before they store again.
//!
//! Messages lie in a page that the sender has for each host ([`super::entry::SHRIMP_SYSTEM_PAGE`]),
//! as records of this file.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Requests pages of an export: `from` is the sender's mapping, `to` the export. Followed by
/// [`ShrimpAsk`].
pub const SHRIMP_SAY_MAP: u32 = 1;
/// Grants pages to mapping `to`, which are mapped in for it from now on. Followed by
/// [`ShrimpPages`].
pub const SHRIMP_SAY_PAGES: u32 = 2;
/// Refuses mapping `to`. Followed by [`ShrimpRefused`].
pub const SHRIMP_SAY_REFUSED: u32 = 3;
/// Mapping `from` has ended, or was never made: it sends nothing more.
pub const SHRIMP_SAY_UNMAP: u32 = 4;
/// Export `from` has ended. [`SHRIMP_SAY_UNMAP`] is expected for each mapping of it.
pub const SHRIMP_SAY_GONE: u32 = 5;

/// Mapping `to` must no longer store to pages of export `from`, which are to be used for something
/// else (section 4.4). Followed by [`ShrimpPart`]. If the mapping's process cannot be prevented
/// from storing, the mapping does not answer.
pub const SHRIMP_SAY_INVALIDATE: u32 = 6;
/// Mapping `from` no longer stores to pages of export `to`, and will ask before it does again.
/// Followed by [`ShrimpPart`].
pub const SHRIMP_SAY_INVALIDATED: u32 = 7;
/// Mapping `from` requests pages of export `to` that it had before, one request at a time. Followed
/// by [`ShrimpPart`]. The answer is the same as to [`SHRIMP_SAY_MAP`].
pub const SHRIMP_SAY_AGAIN: u32 = 8;

/// Refused: the export does not exist, is not for this host, or has another key.
pub const SHRIMP_REFUSED_ACCESS: u32 = 1;
/// Refused: the export is shorter.
pub const SHRIMP_REFUSED_RANGE: u32 = 2;
/// Refused: the export begins at another page offset.
pub const SHRIMP_REFUSED_PLACE: u32 = 3;
/// Refused: the export has too many mappings.
pub const SHRIMP_REFUSED_ROOM: u32 = 4;

/// Maximum number of pages in a message.
pub const SHRIMP_PIECE: u32 = 31;

/// Requests pages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ShrimpAsk {
    /// The export's key.
    pub key: u64,
    /// First byte of the export that is mapped.
    pub offset: u64,
    /// Bytes of the whole mapping.
    pub length: u64,
    /// The first requested page, counted from the mapping's first.
    pub first: u32,
    /// Page offset of the mapping's buffer.
    pub place: u32,
}

/// Pages of an export.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ShrimpPages {
    /// The first page, counted from the mapping's first.
    pub first: u32,
    /// Number of pages, 1 to [`SHRIMP_PIECE`].
    pub count: u32,
    /// The pages: addresses divided by 4,096.
    pub pages: [u64; 31],
}

/// Pages of a mapping.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ShrimpPart {
    /// The first page, counted from the mapping's first.
    pub first: u32,
    /// Number of pages, at least 1; 1 to [`SHRIMP_PIECE`] if they are requested again.
    pub count: u32,
}

/// Why pages are refused.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ShrimpRefused {
    /// `SHRIMP_REFUSED_*`.
    pub why: u32,
    /// Zero.
    pub reserved: u32,
}
