//! The CLAN card's commands, besides those that all cards have ([`crate::family::command`]).
//!
//! Objects have an *owner*, a number that the driver chooses. An object may use another object only
//! if both have the same owner.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::family::area::UlnArea;

/// Opens aperture `index`. Body: [`ClanOpenAperture`].
pub const CLAN_COMMAND_OPEN_APERTURE: u32 = 1;
/// Closes an aperture. Once the command has completed, no access reaches its memory. Tripwires that
/// watch it are disabled.
pub const CLAN_COMMAND_CLOSE_APERTURE: u32 = 2;
/// Opens the window whose first page is `index`. Body: [`ClanOpenWindow`].
pub const CLAN_COMMAND_OPEN_WINDOW: u32 = 3;
/// Closes the window whose first page is `index`. Earlier stores are still sent; pending loads read
/// as ones.
pub const CLAN_COMMAND_CLOSE_WINDOW: u32 = 4;
/// Opens endpoint `index`. Body: [`ClanOpenEndpoint`]. The driver must zero its memory first.
pub const CLAN_COMMAND_OPEN_ENDPOINT: u32 = 5;
/// Closes an endpoint. Once the command has completed, the card no longer writes to its memory. All
/// its requests have ended, and its Tripwires are disabled. Its windows must be closed first;
/// otherwise the command fails with `ULN_STATUS_IN_USE`.
pub const CLAN_COMMAND_CLOSE_ENDPOINT: u32 = 6;
/// Opens event queue `index`. Body: [`ClanOpenEvents`]. The driver must zero its memory first.
pub const CLAN_COMMAND_OPEN_EVENTS: u32 = 7;
/// Closes an event queue. Endpoints that used it have no event queue from then on.
pub const CLAN_COMMAND_CLOSE_EVENTS: u32 = 8;
/// Opens the FIFO. Body: [`ClanOpenFifo`].
pub const CLAN_COMMAND_OPEN_FIFO: u32 = 11;
/// Closes the FIFO.
pub const CLAN_COMMAND_CLOSE_FIFO: u32 = 12;
/// Sets the event queue of endpoint `index`. Body: [`ClanSetEvents`]. Fails with
/// `ULN_STATUS_IN_USE` while records that other endpoints left in the queue take the space.
pub const CLAN_COMMAND_SET_EVENTS: u32 = 13;

/// In place of an event queue's number: none.
pub const CLAN_NO_EVENTS: u32 = 0xffff_ffff;
/// In [`ClanOpenWindow::flags`] and [`ClanOpenEndpoint::flags`]: its packets are sent as an
/// operating system's.
pub const CLAN_PRIVILEGED: u32 = 1;

/// Body of [`CLAN_COMMAND_OPEN_APERTURE`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ClanOpenAperture {
    /// Its memory, which begins at a multiple of 8.
    pub area: UlnArea,
    /// Each packet for the aperture must carry this key.
    pub key: u64,
    /// Its owner.
    pub owner: u32,
    /// Any of `CLAN_APERTURE_*`.
    pub flags: u32,
    /// With [`super::aperture::CLAN_APERTURE_GROUP`]: the group, which must have no other member on
    /// this host. Otherwise zero.
    pub group: u32,
    /// Zero.
    pub reserved: u32,
}

/// Body of [`CLAN_COMMAND_OPEN_WINDOW`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ClanOpenWindow {
    /// The aperture's key.
    pub key: u64,
    /// Offset in the aperture of the window's first byte, a multiple of 8.
    pub offset: u64,
    /// Bytes. The window gets as many pages as they need.
    pub length: u64,
    /// The aperture's host, or [`super::aperture::CLAN_GROUP_HOST`] and a group.
    pub host: u32,
    /// The aperture's number on that host.
    pub aperture: u32,
    /// The endpoint to which its faults are reported.
    pub endpoint: u32,
    /// [`CLAN_PRIVILEGED`] or 0.
    pub flags: u32,
}

/// Body of [`CLAN_COMMAND_OPEN_ENDPOINT`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ClanOpenEndpoint {
    /// Its memory: a page of [`super::endpoint`], then `requests` of [`super::dma::ClanRequest`].
    pub memory: UlnArea,
    /// Its owner.
    pub owner: u32,
    /// Number of Tripwires, 0 to [`super::endpoint::CLAN_MAX_TRIPWIRES`].
    pub tripwires: u32,
    /// Size of its request queue: a power of two from [`super::dma::CLAN_MIN_REQUESTS`] to
    /// [`super::dma::CLAN_MAX_REQUESTS`].
    pub requests: u32,
    /// The event queue for its events, of the same owner, or [`CLAN_NO_EVENTS`].
    pub events: u32,
    /// [`CLAN_PRIVILEGED`] or 0. Requests of a privileged endpoint do not wait for a host. Each
    /// write is done once the card has its bytes. It fails with a time-out if too many writes wait
    /// for that host.
    pub flags: u32,
    /// An endpoint of the same owner to which its faults are reported, or 0 for itself.
    pub faults_to: u32,
}

/// Body of [`CLAN_COMMAND_OPEN_EVENTS`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ClanOpenEvents {
    /// Its memory: a page of [`super::event`], then `records` of [`super::event::ClanEvent`].
    pub memory: UlnArea,
    /// Its owner.
    pub owner: u32,
    /// Number of records: a power of two from [`super::event::CLAN_MIN_EVENTS`] to
    /// [`super::event::CLAN_MAX_EVENTS`].
    pub records: u32,
}

/// Body of [`CLAN_COMMAND_OPEN_FIFO`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ClanOpenFifo {
    /// `records` of [`super::fifo::ClanFifoRecord`], all zero.
    pub area: UlnArea,
    /// Number of records: a power of two, at least the number of endpoints, event queues and
    /// Tripwires, and at most [`super::fifo::CLAN_MAX_FIFO`].
    pub records: u32,
    /// Zero.
    pub reserved: u32,
}

/// Body of [`CLAN_COMMAND_SET_EVENTS`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ClanSetEvents {
    /// The event queue, of the same owner, or [`CLAN_NO_EVENTS`].
    pub events: u32,
    /// Zero.
    pub reserved: u32,
}
