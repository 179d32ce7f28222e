//! What operating systems say to each other about express memory, in messages of kind
//! `HAMLYN_WIRE_EXPRESS`: `reason` says what it is, and behind the head comes a structure of this
//! file, as the message's private data. The protocol is in `docs/express.md`.
//!
//! Of the part that two hosts share the first half of the pages is given out by the one with the
//! lower id, the other half by the other.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Asks for a view of area `to` of the receiver's: `from` is the sender's number for the view.
/// Behind it: [`HamlynExpressAsk`].
pub const HAMLYN_EXPRESS_SAY_MAP: u32 = 1;
/// View `to` of the receiver's may be: area `from` has these pages. Behind it:
/// [`HamlynExpressPages`].
pub const HAMLYN_EXPRESS_SAY_PAGES: u32 = 2;
/// View `to` of the receiver's may not be. Behind it: [`HamlynExpressRefused`].
pub const HAMLYN_EXPRESS_SAY_REFUSED: u32 = 3;
/// Area `from` of the sender's is no more: the receiver's view `to` must see it no more, and is to
/// be confirmed gone.
pub const HAMLYN_EXPRESS_SAY_GONE: u32 = 4;
/// View `from` of the sender's is no more: nobody there sees pages of area `to`. It is said of each
/// view that may have been, once.
pub const HAMLYN_EXPRESS_SAY_UNMAP: u32 = 5;
/// Asks a host that had been lost whether all views have gone that it had before.
pub const HAMLYN_EXPRESS_SAY_SETTLE: u32 = 6;
/// They have: who says so had to forget them to be able to hear the question.
pub const HAMLYN_EXPRESS_SAY_SETTLED: u32 = 7;

/// There is no such area, or not for this host, or not under this key.
pub const HAMLYN_EXPRESS_REFUSED_ACCESS: u32 = 1;
/// It has a view already.
pub const HAMLYN_EXPRESS_REFUSED_BUSY: u32 = 2;
/// The sender has other memory, or none with this host.
pub const HAMLYN_EXPRESS_REFUSED_MEMORY: u32 = 3;

/// How many runs of pages an area has at most, as a message has room for no more.
pub const HAMLYN_EXPRESS_RUNS: u32 = 30;

/// Asks for a view.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HamlynExpressAsk {
    /// The area's key.
    pub key: u64,
    /// The memory that the sender has with the receiver: `HAMLYN_EXPRESS_REG_MEMORY`.
    pub memory: u64,
}

/// Pages that follow each other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HamlynExpressRun {
    /// The first, counted from the part's beginning.
    pub first: u32,
    /// How many, at least 1.
    pub count: u32,
}

/// Pages of an area.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HamlynExpressPages {
    /// How many runs, 1 to [`HAMLYN_EXPRESS_RUNS`].
    pub runs: u32,
    /// Zero.
    pub reserved: u32,
    /// Which, in the order in which they lie in the area; zero behind the last.
    pub run: [HamlynExpressRun; 30],
}

/// Why there is no view.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HamlynExpressRefused {
    /// `HAMLYN_EXPRESS_REFUSED_*`.
    pub why: u32,
    /// Zero.
    pub reserved: u32,
}
