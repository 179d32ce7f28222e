//! Contract between driver and library for CLAN cards: calls on an open `/dev/clanN`, besides those
//! of all cards.
//!
//! Errors besides those of all calls: `ENOSPC` (the card has no more of that object), `EBUSY` (a
//! port is taken, or another open object uses the object), `EADDRINUSE` (a group has a member on
//! this host).

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::clan::identity::CLAN_MODEL;
use crate::uapi::{CardArgument, CardQuery, UlnObject, card_call};

/// Opens an aperture of the caller's memory (section 3.2). Argument: [`ClanAperture`].
pub const CLAN_IOC_APERTURE_OPEN: u32 = card_call::<ClanAperture>(CLAN_MODEL, 0);
/// Closes an aperture. Argument: [`UlnObject`]. When it returns, no access reaches the
/// aperture's memory, and the memory is unpinned.
pub const CLAN_IOC_APERTURE_CLOSE: u32 = card_call::<UlnObject>(CLAN_MODEL, 1);
/// Opens a window onto an aperture of any host. Argument: [`ClanWindow`]. Does not check whether
/// the aperture exists: the first load or store shows that.
pub const CLAN_IOC_WINDOW_OPEN: u32 = card_call::<ClanWindow>(CLAN_MODEL, 2);
/// Closes a window. Argument: [`UlnObject`]. The window's number is its first page.
pub const CLAN_IOC_WINDOW_CLOSE: u32 = card_call::<UlnObject>(CLAN_MODEL, 3);
/// Opens an endpoint (section 3.1). Argument: [`ClanEndpoint`].
pub const CLAN_IOC_ENDPOINT_OPEN: u32 = card_call::<ClanEndpoint>(CLAN_MODEL, 4);
/// Closes an endpoint. Argument: [`UlnObject`]. Fails with `EBUSY` if a window names it. Its
/// peer is notified.
pub const CLAN_IOC_ENDPOINT_CLOSE: u32 = card_call::<UlnObject>(CLAN_MODEL, 5);
/// Opens an event queue (section 3.5). Argument: [`ClanEvents`].
pub const CLAN_IOC_EVENTS_OPEN: u32 = card_call::<ClanEvents>(CLAN_MODEL, 6);
/// Closes an event queue. Argument: [`UlnObject`].
pub const CLAN_IOC_EVENTS_CLOSE: u32 = card_call::<UlnObject>(CLAN_MODEL, 7);
/// Sleeps until one of the given bits of an endpoint is set. Argument: [`ClanWait`]. Fails with
/// `ETIMEDOUT`, or with `EINTR` if a signal handler has run.
pub const CLAN_IOC_WAIT: u32 = card_call::<ClanWait>(CLAN_MODEL, 8);
/// Sleeps until an event queue has more records than were taken. Argument: [`ClanEventsWait`].
/// Fails with `ETIMEDOUT` or `EINTR`. The file is readable while one of its event queues is not
/// empty, so `poll(2)` and similar calls can wait for it, too.
pub const CLAN_IOC_EVENTS_WAIT: u32 = card_call::<ClanEventsWait>(CLAN_MODEL, 9);
/// Sends a message to an endpoint of any host (section 3.1). Argument: [`ClanSend`]. Fails with
/// `EHOSTUNREACH` if the host does not exist or is lost, and with `EAGAIN` while the queues that
/// the message passes are full.
pub const CLAN_IOC_SEND: u32 = card_call::<ClanSend>(CLAN_MODEL, 10);
/// Sets an endpoint's peer. If both ends have set each other, each is notified when the other ends.
/// Argument: [`ClanPeer`].
pub const CLAN_IOC_PEER: u32 = card_call::<ClanPeer>(CLAN_MODEL, 11);
/// Sets the event queue of an endpoint. Argument: [`ClanEventsOf`]. Fails with `EBUSY` while
/// untaken records of other endpoints take the space in the queue.
pub const CLAN_IOC_EVENTS_OF: u32 = card_call::<ClanEventsOf>(CLAN_MODEL, 12);
/// Lets the driver execute DMA requests (section 3.4). Argument: [`ClanKick`].
pub const CLAN_IOC_KICK: u32 = card_call::<ClanKick>(CLAN_MODEL, 13);

/// Index into `UlnShareQuery`: apertures.
pub const CLAN_SHARE_APERTURES: u32 = 0;
/// Index into `UlnShareQuery`: window pages.
pub const CLAN_SHARE_WINDOW_PAGES: u32 = 1;
/// Index into `UlnShareQuery`: endpoints. An endpoint counts as its Tripwires divided by the
/// card's Tripwires for each endpoint, rounded up, at least 1. [`CLAN_DRIVERS_DMA`] adds 1. An
/// event queue counts as the number of endpoints that the card has for each event queue.
pub const CLAN_SHARE_ENDPOINTS: u32 = 2;
/// Maximum bytes of a process' aperture.
pub const CLAN_MAX_APERTURE: u64 = 1_073_741_824;
/// Maximum bytes of a window.
pub const CLAN_MAX_WINDOW: u64 = 8_388_608;

/// What a CLAN card reports about itself: the card's part of `UlnQuery`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ClanQuery {
    /// Out: apertures for processes.
    pub apertures: u32,
    /// Out: window pages for processes.
    pub window_pages: u32,
    /// Out: endpoints for processes.
    pub endpoints: u32,
    /// Out: Tripwires.
    pub tripwires: u32,
    /// Out: maximum bytes of data in a packet.
    pub burst: u32,
    /// Out: words that a host may have in flight to another.
    pub credits: u32,
}

impl CardQuery for ClanQuery {
    const MODEL: u32 = CLAN_MODEL;
}

/// An aperture.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ClanAperture {
    /// In: its address in the caller's memory, a multiple of 8. Its pages are pinned, and count
    /// against `RLIMIT_MEMLOCK`.
    pub address: u64,
    /// In: bytes, 1 to [`CLAN_MAX_APERTURE`].
    pub length: u64,
    /// Out: its key. With `CLAN_APERTURE_GROUP`, in: the group's key, which its members agree on.
    pub key: u64,
    /// In: `CLAN_APERTURE_READ`, `CLAN_APERTURE_WRITE`, both or none; or `CLAN_APERTURE_WRITE` and
    /// `CLAN_APERTURE_GROUP`.
    pub flags: u32,
    /// In: the group, 0 to 63, or 0.
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
    /// In: offset in the aperture of the window's first byte, a multiple of 8.
    pub offset: u64,
    /// In: bytes, 1 to [`CLAN_MAX_WINDOW`].
    pub length: u64,
    /// In: the aperture's host, or `CLAN_GROUP_HOST` and a group.
    pub host: u32,
    /// In: the aperture's number on that host.
    pub aperture: u32,
    /// In: an endpoint of the caller's, to which its faults are reported.
    pub endpoint: u32,
    /// Out: its number, which is its first page.
    pub window: u32,
    /// Out: offset for `mmap(2)` of the same file, shared, to map its pages.
    pub offset_of_pages: u64,
}

/// An endpoint.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ClanEndpoint {
    /// In: its port, 1 to 0xffff, or 0 for any free port. Out: its port. Ports below 1,024 need
    /// `CAP_NET_BIND_SERVICE`.
    pub port: u32,
    /// In: number of Tripwires, 0 to `CLAN_MAX_TRIPWIRES`.
    pub tripwires: u32,
    /// In: size of its queue of DMA requests: a power of two from `CLAN_MIN_REQUESTS` to
    /// `CLAN_MAX_REQUESTS`.
    pub requests: u32,
    /// In: an event queue of the caller's for its events, or `CLAN_NO_EVENTS`.
    pub events: u32,
    /// Out: its number.
    pub endpoint: u32,
    /// In: [`CLAN_DRIVERS_DMA`] or 0.
    pub flags: u32,
    /// Out: offset for `mmap(2)` of the same file, writable, shared, to map its page of the card.
    pub page_offset: u64,
    /// Out: offset to map its memory in the same way, readable and writable: 4,096 bytes and those
    /// of the requests.
    pub memory_offset: u64,
}

/// In [`ClanEndpoint::flags`]: the driver executes its requests ([`CLAN_IOC_KICK`]), not the card,
/// as with the paper's card.
pub const CLAN_DRIVERS_DMA: u32 = 1;

/// An event queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ClanEvents {
    /// In: number of records: a power of two from `CLAN_MIN_EVENTS` to `CLAN_MAX_EVENTS`.
    pub records: u32,
    /// Out: its number.
    pub queue: u32,
    /// Out: offset for `mmap(2)` of the same file, readable and writable, shared, to map its
    /// memory: 4,096 bytes and those of the records.
    pub memory_offset: u64,
}

/// Argument of [`CLAN_IOC_WAIT`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ClanWait {
    /// In: bits of the endpoint's bitmap (`CLAN_STATE_BITS`). Out: those of them that are set; the
    /// caller clears them.
    pub bits: u64,
    /// In: time-out in nanoseconds, 0 to return at once, or -1 for no time-out.
    pub timeout_ns: i64,
    /// In: the endpoint.
    pub endpoint: u32,
    /// Zero.
    pub reserved: u32,
}

/// Argument of [`CLAN_IOC_EVENTS_WAIT`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ClanEventsWait {
    /// In: time-out in nanoseconds, 0 to return at once, or -1 for no time-out.
    pub timeout_ns: i64,
    /// In: the event queue.
    pub queue: u32,
    /// In: number of records that were taken, modulo 2^32.
    pub taken: u32,
}

/// A message to send.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ClanSend {
    /// In: an endpoint of the caller's. The message carries its host and port.
    pub endpoint: u32,
    /// In: the receiver's host.
    pub host: u32,
    /// In: the receiver's port.
    pub port: u32,
    /// In: `CLAN_MESSAGE_*`, one that a process may send.
    pub kind: u32,
    /// In: the payload.
    pub data: [u64; 5],
}

/// A message in an endpoint's memory. Message `n`, counted from 0, is at `n` modulo the queue's
/// size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ClanMessage {
    /// `n + 1`, modulo 2^32. The driver writes it last.
    pub number: u32,
    /// `CLAN_MESSAGE_*`.
    pub kind: u32,
    /// The sender's host.
    pub host: u32,
    /// The sender's port.
    pub port: u32,
    /// The payload.
    pub data: [u64; 5],
    /// Zero.
    pub reserved: u64,
}

/// Requests a connection.
pub const CLAN_MESSAGE_CONNECT: u32 = 1;
/// Accepts a connection.
pub const CLAN_MESSAGE_ACCEPT: u32 = 2;
/// Refuses a connection.
pub const CLAN_MESSAGE_REFUSE: u32 = 3;
/// Ends a connection.
pub const CLAN_MESSAGE_CLOSE: u32 = 4;
/// Anything else that the two ends agree on.
pub const CLAN_MESSAGE_DATA: u32 = 5;
/// From the driver: the message with this payload was not delivered, because the endpoint does not
/// exist or had no space. For a connection request, also: its endpoint ended without an answer. If
/// too many messages wait for the sender's host, this one is not sent; the host that did not
/// deliver the message only logs it.
pub const CLAN_MESSAGE_UNDELIVERED: u32 = 6;
/// From the driver: the peer has ended, or its host is lost. If a connection request was in flight
/// to that host, this message has the request's payload.
pub const CLAN_MESSAGE_GONE: u32 = 7;

/// An endpoint's peer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ClanPeer {
    /// In: the endpoint.
    pub endpoint: u32,
    /// In: its peer's host.
    pub host: u32,
    /// In: its peer's port, or 0 if it no longer has a peer.
    pub port: u32,
    /// Zero.
    pub reserved: u32,
}

/// Argument of [`CLAN_IOC_EVENTS_OF`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ClanEventsOf {
    /// In: the endpoint.
    pub endpoint: u32,
    /// In: an event queue of the caller's, or `CLAN_NO_EVENTS`.
    pub events: u32,
}

/// Argument of [`CLAN_IOC_KICK`].
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
