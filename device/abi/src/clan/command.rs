//! The CLAN card's operations, beside those that all cards have ([`crate::family::command`]).
//!
//! Objects have an *owner*, a number of the driver's: one object may use another only if it has the
//! same owner.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::family::area::HamlynArea;

/// Open an aperture: `index` is its number. Body: [`ClanOpenAperture`].
pub const CLAN_COMMAND_OPEN_APERTURE: u32 = 1;
/// Close an aperture. When it is answered nothing reaches its memory any more. Tripwires that watch
/// it are disabled.
pub const CLAN_COMMAND_CLOSE_APERTURE: u32 = 2;
/// Open a window: `index` is its first page. Body: [`ClanOpenWindow`].
pub const CLAN_COMMAND_OPEN_WINDOW: u32 = 3;
/// Close the window whose first page is `index`. What was stored before still goes; loads that wait
/// read as ones.
pub const CLAN_COMMAND_CLOSE_WINDOW: u32 = 4;
/// Open an endpoint: `index` is its number. Body: [`ClanOpenEndpoint`]. The driver has made its
/// memory zero.
pub const CLAN_COMMAND_OPEN_ENDPOINT: u32 = 5;
/// Close an endpoint. When it is answered nothing is written to its memory any more; its requests
/// have ended, wherever they were, and its Tripwires are disabled. Its windows must have been
/// closed before: else it is refused as in use.
pub const CLAN_COMMAND_CLOSE_ENDPOINT: u32 = 6;
/// Open an event queue: `index` is its number. Body: [`ClanOpenEvents`]. The driver has made its
/// memory zero.
pub const CLAN_COMMAND_OPEN_EVENTS: u32 = 7;
/// Close an event queue. Endpoints whose events went there have none from then on.
pub const CLAN_COMMAND_CLOSE_EVENTS: u32 = 8;
/// Open the FIFO. Body: [`ClanOpenFifo`].
pub const CLAN_COMMAND_OPEN_FIFO: u32 = 11;
/// Close the FIFO.
pub const CLAN_COMMAND_CLOSE_FIFO: u32 = 12;
/// Say where an endpoint's events go from now on: `index` is the endpoint. Body: [`ClanSetEvents`].
/// Refused as in use as long as records that other endpoints have left in the queue take the room.
pub const CLAN_COMMAND_SET_EVENTS: u32 = 13;

/// Instead of an event queue's number: none.
pub const CLAN_NO_EVENTS: u32 = 0xffff_ffff;
/// In [`ClanOpenWindow::flags`] and [`ClanOpenEndpoint::flags`]: what it sends is an operating
/// system's.
pub const CLAN_PRIVILEGED: u32 = 1;

/// Body of [`CLAN_COMMAND_OPEN_APERTURE`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ClanOpenAperture {
    /// Its memory, which begins at a multiple of 8.
    pub area: HamlynArea,
    /// Who reaches it must know this.
    pub key: u64,
    /// Whose it is.
    pub owner: u32,
    /// `CLAN_APERTURE_*`, any of them.
    pub flags: u32,
    /// With [`super::aperture::CLAN_APERTURE_GROUP`]: which group, of which there is no other
    /// member at this host. Else zero.
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
    /// Byte of the aperture that is its first, a multiple of 8.
    pub offset: u64,
    /// Bytes: as many pages as they need are the window's.
    pub length: u64,
    /// The aperture's host, or [`super::aperture::CLAN_GROUP_HOST`] and a group.
    pub host: u32,
    /// The aperture's number there.
    pub aperture: u32,
    /// The endpoint that hears of its faults.
    pub endpoint: u32,
    /// [`CLAN_PRIVILEGED`] or 0.
    pub flags: u32,
}

/// Body of [`CLAN_COMMAND_OPEN_ENDPOINT`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ClanOpenEndpoint {
    /// Its memory: a page of [`super::endpoint`], then `requests` of [`super::dma::ClanRequest`].
    pub memory: HamlynArea,
    /// Whose it is.
    pub owner: u32,
    /// How many Tripwires it has, 0 to [`super::endpoint::CLAN_MAX_TRIPWIRES`].
    pub tripwires: u32,
    /// How many requests its queue has room for, [`super::dma::CLAN_MIN_REQUESTS`] to
    /// [`super::dma::CLAN_MAX_REQUESTS`], a power of two.
    pub requests: u32,
    /// The event queue that its events go to, of the same owner, or [`CLAN_NO_EVENTS`].
    pub events: u32,
    /// [`CLAN_PRIVILEGED`] or 0. The requests of a privileged endpoint do not wait for a host: each
    /// write is done once the card has its bytes, and fails as timed out if too many wait for that
    /// host.
    pub flags: u32,
    /// An endpoint of the same owner that hears of its faults, or 0: it does itself.
    pub faults_to: u32,
}

/// Body of [`CLAN_COMMAND_OPEN_EVENTS`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ClanOpenEvents {
    /// Its memory: a page of [`super::event`], then `records` of [`super::event::ClanEvent`].
    pub memory: HamlynArea,
    /// Whose it is.
    pub owner: u32,
    /// Records, [`super::event::CLAN_MIN_EVENTS`] to [`super::event::CLAN_MAX_EVENTS`], a power of
    /// two.
    pub records: u32,
}

/// Body of [`CLAN_COMMAND_OPEN_FIFO`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ClanOpenFifo {
    /// `records` of [`super::fifo::ClanFifoRecord`], all zero.
    pub area: HamlynArea,
    /// Records, a power of two, at least as many as there are endpoints, event queues and Tripwires
    /// and at most [`super::fifo::CLAN_MAX_FIFO`].
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
