//! What driver and library agree on about CLAN cards: calls on an open `/dev/clanN`, beside those
//! that any card has.
//!
//! Errors beside those of all calls: `ENOSPC` (the card has no more of that), `EBUSY` (a port is
//! taken, or an object is used by another that is open), `EADDRINUSE` (a group has a member at this
//! host).

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::clan::identity::CLAN_MODEL;
use crate::uapi::{CardArgument, CardQuery, HamlynObject, card_call};

/// Opens an aperture of the caller's memory (section 3.2). Argument: [`ClanAperture`].
pub const CLAN_IOC_APERTURE_OPEN: u32 = card_call::<ClanAperture>(CLAN_MODEL, 0);
/// Closes an aperture. Argument: [`HamlynObject`]. When it returns nothing reaches its memory any
/// more, and it is unpinned.
pub const CLAN_IOC_APERTURE_CLOSE: u32 = card_call::<HamlynObject>(CLAN_MODEL, 1);
/// Opens a window onto an aperture of any host. Argument: [`ClanWindow`]. Whether there is such an
/// aperture is not asked: the first load or store tells.
pub const CLAN_IOC_WINDOW_OPEN: u32 = card_call::<ClanWindow>(CLAN_MODEL, 2);
/// Closes a window. Argument: [`HamlynObject`]; its number is its first page.
pub const CLAN_IOC_WINDOW_CLOSE: u32 = card_call::<HamlynObject>(CLAN_MODEL, 3);
/// Opens an endpoint (section 3.1). Argument: [`ClanEndpoint`].
pub const CLAN_IOC_ENDPOINT_OPEN: u32 = card_call::<ClanEndpoint>(CLAN_MODEL, 4);
/// Closes an endpoint. Argument: [`HamlynObject`]. `EBUSY` if a window names it. Its peer is told.
pub const CLAN_IOC_ENDPOINT_CLOSE: u32 = card_call::<HamlynObject>(CLAN_MODEL, 5);
/// Opens an event queue (section 3.5). Argument: [`ClanEvents`].
pub const CLAN_IOC_EVENTS_OPEN: u32 = card_call::<ClanEvents>(CLAN_MODEL, 6);
/// Closes an event queue. Argument: [`HamlynObject`].
pub const CLAN_IOC_EVENTS_CLOSE: u32 = card_call::<HamlynObject>(CLAN_MODEL, 7);
/// Sleeps until one of some bits of an endpoint is set. Argument: [`ClanWait`]. `ETIMEDOUT`;
/// `EINTR` if a signal's handler has run.
pub const CLAN_IOC_WAIT: u32 = card_call::<ClanWait>(CLAN_MODEL, 8);
/// Sleeps until an event queue has more records than were taken. Argument: [`ClanEventsWait`].
/// `ETIMEDOUT`; `EINTR`. The file is readable when one of its event queues is not empty, so that
/// `poll(2)` and the like wait for it, too.
pub const CLAN_IOC_EVENTS_WAIT: u32 = card_call::<ClanEventsWait>(CLAN_MODEL, 9);
/// Sends a message to an endpoint of any host (section 3.1). Argument: [`ClanSend`]. `EHOSTUNREACH`
/// if there is no such host, or it is lost; `EAGAIN` if there is no room for it now.
pub const CLAN_IOC_SEND: u32 = card_call::<ClanSend>(CLAN_MODEL, 10);
/// Says who an endpoint's peer is: each hears when the other ends, if both have said so. Argument:
/// [`ClanPeer`].
pub const CLAN_IOC_PEER: u32 = card_call::<ClanPeer>(CLAN_MODEL, 11);
/// Says where an endpoint's events go from now on. Argument: [`ClanEventsOf`]. `EBUSY`: records
/// that other endpoints have left in the queue take the room, until they are taken.
pub const CLAN_IOC_EVENTS_OF: u32 = card_call::<ClanEventsOf>(CLAN_MODEL, 12);
/// Has the driver carry out DMA requests (section 3.4). Argument: [`ClanKick`].
pub const CLAN_IOC_KICK: u32 = card_call::<ClanKick>(CLAN_MODEL, 13);

/// Index into `HamlynShareQuery`: apertures.
pub const CLAN_SHARE_APERTURES: u32 = 0;
/// Index into `HamlynShareQuery`: window pages.
pub const CLAN_SHARE_WINDOW_PAGES: u32 = 1;
/// Index into `HamlynShareQuery`: endpoints. One with more Tripwires than there are for each of all
/// endpoints counts as so many of these, one with [`CLAN_DRIVERS_DMA`] as one more, and an event
/// queue as as many as there are for each of all queues.
pub const CLAN_SHARE_ENDPOINTS: u32 = 2;
/// The most bytes of an aperture of a process.
pub const CLAN_MAX_APERTURE: u64 = 1_073_741_824;
/// The most bytes of a window.
pub const CLAN_MAX_WINDOW: u64 = 8_388_608;

/// What a CLAN card says of itself: the card's part of `HamlynQuery`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ClanQuery {
    /// Out: apertures of processes.
    pub apertures: u32,
    /// Out: window pages of processes.
    pub window_pages: u32,
    /// Out: endpoints of processes.
    pub endpoints: u32,
    /// Out: Tripwires.
    pub tripwires: u32,
    /// Out: the most bytes of data in a packet.
    pub burst: u32,
    /// Out: words that a host may have on their way to another.
    pub credits: u32,
}

impl CardQuery for ClanQuery {
    const MODEL: u32 = CLAN_MODEL;
}

/// An aperture.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ClanAperture {
    /// In: where it is in the caller's memory, a multiple of 8. Its pages are pinned, and count
    /// against `RLIMIT_MEMLOCK`.
    pub address: u64,
    /// In: its bytes, 1 to [`CLAN_MAX_APERTURE`].
    pub length: u64,
    /// Out: its key. With `CLAN_APERTURE_GROUP` in: the group's, which its members agree on.
    pub key: u64,
    /// In: `CLAN_APERTURE_READ`, `CLAN_APERTURE_WRITE`, both or none; or `CLAN_APERTURE_WRITE` and
    /// `CLAN_APERTURE_GROUP`.
    pub flags: u32,
    /// In: which group, 0 to 63, or 0.
    pub group: u32,
    /// Out: its number.
    pub aperture: u32,
    /// Zero.
    pub reserved: u32,
}

/// A window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ClanWindow {
    /// In: the aperture's key.
    pub key: u64,
    /// In: byte of the aperture that is its first, a multiple of 8.
    pub offset: u64,
    /// In: its bytes, 1 to [`CLAN_MAX_WINDOW`].
    pub length: u64,
    /// In: the aperture's host, or `CLAN_GROUP_HOST` and a group.
    pub host: u32,
    /// In: the aperture's number there.
    pub aperture: u32,
    /// In: an endpoint of the caller's, which hears of its faults.
    pub endpoint: u32,
    /// Out: its number: its first page.
    pub window: u32,
    /// Out: where to map its pages with `mmap(2)` of the same file, shared.
    pub offset_of_pages: u64,
}

/// An endpoint.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ClanEndpoint {
    /// In: its port, 1 to 0xffff, or 0 for any that is free. Out: its port. Ports below 1,024 are
    /// for `CAP_NET_BIND_SERVICE`.
    pub port: u32,
    /// In: how many Tripwires it has, 0 to `CLAN_MAX_TRIPWIRES`.
    pub tripwires: u32,
    /// In: how many DMA requests its queue has room for, `CLAN_MIN_REQUESTS` to
    /// `CLAN_MAX_REQUESTS`, a power of two.
    pub requests: u32,
    /// In: an event queue of the caller's that its events go to, or `CLAN_NO_EVENTS`.
    pub events: u32,
    /// Out: its number.
    pub endpoint: u32,
    /// In: [`CLAN_DRIVERS_DMA`] or 0.
    pub flags: u32,
    /// Out: where to map its page of the card with `mmap(2)` of the same file, writable, shared.
    pub page_offset: u64,
    /// Out: where to map its memory in the same way, readable and writable: 4,096 bytes and those
    /// of the requests.
    pub memory_offset: u64,
}

/// In [`ClanEndpoint::flags`]: its requests are not the card's to look for, but the driver's
/// ([`CLAN_IOC_KICK`]), as with the paper's card.
pub const CLAN_DRIVERS_DMA: u32 = 1;

/// An event queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ClanEvents {
    /// In: records, `CLAN_MIN_EVENTS` to `CLAN_MAX_EVENTS`, a power of two.
    pub records: u32,
    /// Out: its number.
    pub queue: u32,
    /// Out: where to map its memory with `mmap(2)` of the same file, readable and writable, shared:
    /// 4,096 bytes and those of the records.
    pub memory_offset: u64,
}

/// What to wait for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ClanWait {
    /// In: bits of the endpoint's bitmap (`CLAN_STATE_BITS`). Out: those of them that are set; the
    /// caller clears them.
    pub bits: u64,
    /// In: nanoseconds, 0 to look only, or -1 for ever.
    pub timeout_ns: i64,
    /// In: the endpoint.
    pub endpoint: u32,
    /// Zero.
    pub reserved: u32,
}

/// What to wait for in an event queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ClanEventsWait {
    /// In: nanoseconds, 0 to look only, or -1 for ever.
    pub timeout_ns: i64,
    /// In: the event queue.
    pub queue: u32,
    /// In: how many records were taken, modulo 2^32.
    pub taken: u32,
}

/// A message that is to be sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ClanSend {
    /// In: an endpoint of the caller's: the message says its host and port.
    pub endpoint: u32,
    /// In: the receiver's host.
    pub host: u32,
    /// In: its port.
    pub port: u32,
    /// In: `CLAN_MESSAGE_*`, of those that a process may send.
    pub kind: u32,
    /// In: the payload.
    pub data: [u64; 5],
}

/// A message in an endpoint's memory. The `n`-th, from 0, is at `n` modulo the queue's size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ClanMessage {
    /// `n + 1`, modulo 2^32. The driver writes it last.
    pub number: u32,
    /// `CLAN_MESSAGE_*`.
    pub kind: u32,
    /// The host that it is from.
    pub host: u32,
    /// The sender's port.
    pub port: u32,
    /// The payload.
    pub data: [u64; 5],
    /// Zero.
    pub reserved: u64,
}

/// Asks for a connection.
pub const CLAN_MESSAGE_CONNECT: u32 = 1;
/// Accepts one.
pub const CLAN_MESSAGE_ACCEPT: u32 = 2;
/// Refuses one.
pub const CLAN_MESSAGE_REFUSE: u32 = 3;
/// Ends one.
pub const CLAN_MESSAGE_CLOSE: u32 = 4;
/// Whatever else the two ends agree on.
pub const CLAN_MESSAGE_DATA: u32 = 5;
/// From the driver: the message that the payload was has not been delivered, as there is no such
/// endpoint or it had no room; or, of a request for a connection, its endpoint has ended without an
/// answer. If too much is still to be said to the sender's host this is not said, but only logged
/// where it was not delivered.
pub const CLAN_MESSAGE_UNDELIVERED: u32 = 6;
/// From the driver: the peer is no more, or its host is lost. If a request for a connection was on
/// its way to that host, this has its payload.
pub const CLAN_MESSAGE_GONE: u32 = 7;

/// An endpoint's peer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ClanPeer {
    /// In: the endpoint.
    pub endpoint: u32,
    /// In: its peer's host.
    pub host: u32,
    /// In: its peer's port, or 0: it has none any more.
    pub port: u32,
    /// Zero.
    pub reserved: u32,
}

/// Where an endpoint's events go.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ClanEventsOf {
    /// In: the endpoint.
    pub endpoint: u32,
    /// In: an event queue of the caller's, or `CLAN_NO_EVENTS`.
    pub events: u32,
}

/// Whose DMA requests the driver is to carry out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ClanKick {
    /// In: an endpoint with [`CLAN_DRIVERS_DMA`].
    pub endpoint: u32,
    /// Zero.
    pub reserved: u32,
}

impl CardArgument for ClanAperture {
    fn names(&self, piece: &mut dyn FnMut(u64, u64)) {
        piece(self.address, self.length);
    }
}

impl CardArgument for ClanWindow {}
impl CardArgument for ClanEndpoint {}
impl CardArgument for ClanEvents {}
impl CardArgument for ClanWait {}
impl CardArgument for ClanEventsWait {}
impl CardArgument for ClanSend {}
impl CardArgument for ClanPeer {}
impl CardArgument for ClanEventsOf {}
impl CardArgument for ClanKick {}
