//! Messages between operating systems about express memory, of kind `ULN_WIRE_EXPRESS`. `reason`
//! is the message's kind. A structure of this file follows the head, as the message's private data.
//! The protocol is in `docs/express.md`.
//!
//! The host with the lower id assigns the first half of the pages of a shared part; the other host
//! assigns the second half.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Requests a view of the receiver's area `to`. `from` is the sender's number for the view.
/// Followed by [`UlnExpressAsk`].
pub const ULN_EXPRESS_SAY_MAP: u32 = 1;
/// Grants the receiver's view `to`: area `from` has these pages. Followed by
/// [`UlnExpressPages`].
pub const ULN_EXPRESS_SAY_PAGES: u32 = 2;
/// Refuses the receiver's view `to`. Followed by [`UlnExpressRefused`].
pub const ULN_EXPRESS_SAY_REFUSED: u32 = 3;
/// The sender's area `from` has gone. The receiver must remove its view `to` of the area, and
/// confirm that.
pub const ULN_EXPRESS_SAY_GONE: u32 = 4;
/// The sender's view `from` has gone: no process there sees pages of area `to`. Sent once for each
/// view that may have existed.
pub const ULN_EXPRESS_SAY_UNMAP: u32 = 5;
/// Asks a host that was lost whether all its earlier views have gone.
pub const ULN_EXPRESS_SAY_SETTLE: u32 = 6;
/// Confirms that they have gone. The sender had to forget them before it could receive the
/// question.
pub const ULN_EXPRESS_SAY_SETTLED: u32 = 7;

/// Refused: the area does not exist, is not for this host, or has another key.
pub const ULN_EXPRESS_REFUSED_ACCESS: u32 = 1;
/// Refused: the area already has a view.
pub const ULN_EXPRESS_REFUSED_BUSY: u32 = 2;
/// Refused: the sender has other memory, or none with this host.
pub const ULN_EXPRESS_REFUSED_MEMORY: u32 = 3;

/// Maximum number of runs of pages in an area, because a message has no space for more.
pub const ULN_EXPRESS_RUNS: u32 = 30;

/// Asks for a view.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct UlnExpressAsk {
    /// The area's key.
    pub key: u64,
    /// The memory that the sender has with the receiver: `ULN_EXPRESS_REG_MEMORY`.
    pub memory: u64,
}

/// Consecutive pages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct UlnExpressRun {
    /// The first page, counted from the part's beginning.
    pub first: u32,
    /// Number of pages, at least 1.
    pub count: u32,
}

/// Pages of an area.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct UlnExpressPages {
    /// Number of runs, 1 to [`ULN_EXPRESS_RUNS`].
    pub runs: u32,
    /// Zero.
    pub reserved: u32,
    /// The runs, in their order in the area; zero behind the last.
    pub run: [UlnExpressRun; 30],
}

/// Why a view is refused.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct UlnExpressRefused {
    /// `ULN_EXPRESS_REFUSED_*`.
    pub why: u32,
    /// Zero.
    pub reserved: u32,
}
