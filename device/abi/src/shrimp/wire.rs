//! What the drivers of two hosts say to each other about exports and mappings, in messages of the
//! card's own (`HAMLYN_WIRE_CARD`): `reason` says what it is, and behind the head comes a structure
//! of this file.
//!
//! A mapping is asked for piece by piece, as a message has room for the pages of one
//! ([`SHRIMP_SAY_MAP`], [`SHRIMP_SAY_PAGES`] or [`SHRIMP_SAY_REFUSED`]). Its own end is told by
//! [`SHRIMP_SAY_UNMAP`]; the export's by [`SHRIMP_SAY_GONE`], and answered by [`SHRIMP_SAY_UNMAP`]
//! for each mapping of it (section 4.4): the exporter's pages are not used for anything else before
//! that, as stores may still be on their way. Messages and stores of one host come in order, so
//! what was stored before comes before.
//!
//! A page of an export may leave while the export stays: its mappings are told so by
//! [`SHRIMP_SAY_INVALIDATE`], say by [`SHRIMP_SAY_INVALIDATED`] that they store to it no more, and
//! ask for it by [`SHRIMP_SAY_AGAIN`] before they do again.
//!
//! Messages lie in a page that the sender has for each host ([`super::entry::SHRIMP_SYSTEM_PAGE`]),
//! as records of this file.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Asks for pages of an export: `from` is the sender's mapping, `to` the export. Behind it:
/// [`ShrimpAsk`].
pub const SHRIMP_SAY_MAP: u32 = 1;
/// Pages for mapping `to`, which are mapped in for it from now on. Behind it: [`ShrimpPages`].
pub const SHRIMP_SAY_PAGES: u32 = 2;
/// None for mapping `to`. Behind it: [`ShrimpRefused`].
pub const SHRIMP_SAY_REFUSED: u32 = 3;
/// Mapping `from` is no more, or never came to be: nothing more comes of it.
pub const SHRIMP_SAY_UNMAP: u32 = 4;
/// Export `from` is no more. [`SHRIMP_SAY_UNMAP`] is awaited for each mapping of it.
pub const SHRIMP_SAY_GONE: u32 = 5;

/// Mapping `to` must store no more to pages of export `from`, which are to be used for something
/// else (section 4.4). Behind it: [`ShrimpPart`]. A mapping whose process cannot be kept from
/// storing does not answer.
pub const SHRIMP_SAY_INVALIDATE: u32 = 6;
/// Mapping `from` stores no more to pages of export `to`, and asks before it does again. Behind it:
/// [`ShrimpPart`].
pub const SHRIMP_SAY_INVALIDATED: u32 = 7;
/// Mapping `from` wants pages of export `to` again that it had, one request at a time. Behind it:
/// [`ShrimpPart`]. The answer is that to [`SHRIMP_SAY_MAP`].
pub const SHRIMP_SAY_AGAIN: u32 = 8;

/// There is no such export, or not for this host, or not under this key.
pub const SHRIMP_REFUSED_ACCESS: u32 = 1;
/// It is shorter.
pub const SHRIMP_REFUSED_RANGE: u32 = 2;
/// It begins at another offset of a page.
pub const SHRIMP_REFUSED_PLACE: u32 = 3;
/// There are too many mappings of it.
pub const SHRIMP_REFUSED_ROOM: u32 = 4;

/// How many pages a message names.
pub const SHRIMP_PIECE: u32 = 31;

/// Asks for pages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ShrimpAsk {
    /// The export's key.
    pub key: u64,
    /// First byte of the export.
    pub offset: u64,
    /// Bytes, of the whole mapping.
    pub length: u64,
    /// The first page that is asked for, counted from the mapping's first.
    pub first: u32,
    /// Where in a page the mapping's buffer begins.
    pub place: u32,
}

/// Pages of an export.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ShrimpPages {
    /// The first page, counted from the mapping's first.
    pub first: u32,
    /// How many, 1 to [`SHRIMP_PIECE`].
    pub count: u32,
    /// Which: addresses divided by 4,096.
    pub pages: [u64; 31],
}

/// Pages of a mapping.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ShrimpPart {
    /// The first, counted from the mapping's first.
    pub first: u32,
    /// How many, at least 1; 1 to [`SHRIMP_PIECE`] that are wanted again.
    pub count: u32,
}

/// Why there are none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ShrimpRefused {
    /// `SHRIMP_REFUSED_*`.
    pub why: u32,
    /// Zero.
    pub reserved: u32,
}
