//! Contract between driver and library for DART cards: calls on an open `/dev/dartN`, besides those
//! of all cards.
//!
//! Errors besides those of all calls: `ENOSPC` (the card has no more of that object), `EBUSY`
//! (another open object uses the object).

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::dart::command::DartEntry;
use crate::dart::identity::DART_MODEL;
use crate::uapi::{CardArgument, CardQuery, UlnObject, card_call};

/// Opens an endpoint (section 3): a region of the caller's virtual memory. None of its pages need
/// be present. Argument: [`DartEndpoint`].
pub const DART_IOC_ENDPOINT_OPEN: u32 = card_call::<DartEndpoint>(DART_MODEL, 0);
/// Closes an endpoint. Argument: [`UlnObject`]. Fails with `EBUSY` if a connection names it.
pub const DART_IOC_ENDPOINT_CLOSE: u32 = card_call::<UlnObject>(DART_MODEL, 1);
/// Opens a bank of address registers and program entries. Connections have windows into it.
/// Argument: [`DartBank`].
pub const DART_IOC_BANK_OPEN: u32 = card_call::<DartBank>(DART_MODEL, 2);
/// Closes a bank. Argument: [`UlnObject`]. Fails with `EBUSY` if a connection has a window into
/// it.
pub const DART_IOC_BANK_CLOSE: u32 = card_call::<UlnObject>(DART_MODEL, 3);
/// Opens a queue (sections 1 and 2). Argument: [`DartQueue`].
pub const DART_IOC_QUEUE_OPEN: u32 = card_call::<DartQueue>(DART_MODEL, 4);
/// Closes a queue. Argument: [`UlnObject`]. Connections that name it have no queue from then on.
pub const DART_IOC_QUEUE_CLOSE: u32 = card_call::<UlnObject>(DART_MODEL, 5);
/// Opens a connection (section 3): one end of a path to another host, or to the same host.
/// Argument: [`DartConnection`].
pub const DART_IOC_CONNECTION_OPEN: u32 = card_call::<DartConnection>(DART_MODEL, 6);
/// Closes a connection. Argument: [`UlnObject`]. When it returns, none of its messages accesses
/// memory. Its other end is notified.
pub const DART_IOC_CONNECTION_CLOSE: u32 = card_call::<UlnObject>(DART_MODEL, 7);
/// Sets the connection at the other end, on the other host, once. Argument: [`DartPeer`]. Before
/// that, messages are accepted, and none is sent.
pub const DART_IOC_CONNECT: u32 = card_call::<DartPeer>(DART_MODEL, 8);
/// Sets entries of a bank's programs. Argument: [`DartSetProgram`].
pub const DART_IOC_SET_PROGRAM: u32 = card_call::<DartSetProgram>(DART_MODEL, 9);
/// Sleeps until a queue has more records than were taken. Argument: [`DartQueueWait`]. Fails with
/// `ETIMEDOUT`, or with `EINTR` if a signal handler has run. The file is readable while one of its
/// queues is not empty, so `poll(2)` and similar calls can wait for it, too.
pub const DART_IOC_QUEUE_WAIT: u32 = card_call::<DartQueueWait>(DART_MODEL, 10);
/// Sleeps until more messages of a connection have left than given, or it is broken. Argument:
/// [`DartLeftWait`]. Fails with `ETIMEDOUT` or `EINTR`.
pub const DART_IOC_LEFT_WAIT: u32 = card_call::<DartLeftWait>(DART_MODEL, 11);
/// Sleeps until a connection has had more exceptions that no queue took than given, or it is
/// broken. Argument: [`DartExceptionWait`]. Fails with `ETIMEDOUT` or `EINTR`.
pub const DART_IOC_EXCEPTION_WAIT: u32 = card_call::<DartExceptionWait>(DART_MODEL, 12);

/// Index into `UlnShareQuery`: connections. An endpoint counts as the number of connections that
/// the card has for each endpoint.
pub const DART_SHARE_CONNECTIONS: u32 = 0;
/// Index into `UlnShareQuery`: address registers. A bank counts as its registers. If it has
/// relatively more program entries, it counts as its entries, scaled by the card's ratio of
/// registers to entries.
pub const DART_SHARE_REGISTERS: u32 = 1;
/// Index into `UlnShareQuery`: queues.
pub const DART_SHARE_QUEUES: u32 = 2;
/// Maximum number of address registers in a bank.
pub const DART_MAX_BANK: u32 = 1024;
/// Maximum number of program entries in a bank.
pub const DART_MAX_ENTRIES: u32 = 256;
/// Maximum number of entries that one call sets.
pub const DART_SET_ENTRIES: u32 = 16;

/// What a DART card reports about itself: the card's part of `UlnQuery`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DartQuery {
    /// Out: connections for processes.
    pub connections: u32,
    /// Out: endpoints for processes.
    pub endpoints: u32,
    /// Out: address registers.
    pub registers: u32,
    /// Out: entries of all programs.
    pub program: u32,
    /// Out: queues.
    pub queues: u32,
    /// Out: translations in the card's TLB.
    pub tlb: u32,
    /// Out: cells that a connection may have in flight.
    pub window: u32,
    /// Zero.
    pub reserved: u32,
}

impl CardQuery for DartQuery {
    const MODEL: u32 = DART_MODEL;
}

/// An endpoint.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DartEndpoint {
    /// In: its first byte in the caller's memory, a multiple of 4.
    pub address: u64,
    /// In: bytes, at least 1. The endpoint is a region of addresses: a message applies to the
    /// memory that is mapped there when it arrives.
    pub length: u64,
    /// Out: its number.
    pub endpoint: u32,
    /// Zero.
    pub reserved: u32,
}

/// A bank.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DartBank {
    /// In: number of address registers, 1 to [`DART_MAX_BANK`]. Their initial value is zero.
    pub registers: u32,
    /// In: number of program entries, 0 to [`DART_MAX_ENTRIES`]. Initially they do nothing.
    pub entries: u32,
    /// Out: its number.
    pub bank: u32,
    /// Zero.
    pub reserved: u32,
}

/// A queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DartQueue {
    /// In: number of records: a power of two from `DART_MIN_RECORDS` to `DART_MAX_RECORDS`.
    pub records: u32,
    /// In: `DART_QUEUE_IMMEDIATE` or 0.
    pub flags: u32,
    /// Out: its number.
    pub queue: u32,
    /// Zero.
    pub reserved: u32,
    /// Out: offset for `mmap(2)` of the same file, readable and writable, shared, to map its
    /// memory: `DART_QUEUE_HEAD` bytes and those of the records.
    pub memory_offset: u64,
}

/// A connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DartConnection {
    /// Out: its key. The holder of the key and the number can be the other end.
    pub key: u64,
    /// In: an endpoint of the caller's.
    pub endpoint: u32,
    /// In: the host of the other end.
    pub host: u32,
    /// In: a bank of the caller's.
    pub bank: u32,
    /// In: the bank's first register in the window.
    pub first_register: u32,
    /// In: number of registers in the window, 0 to `DART_MAX_REGISTERS`.
    pub registers: u32,
    /// In: the bank's first entry in the program.
    pub first_entry: u32,
    /// In: number of entries in the program.
    pub entries: u32,
    /// In: a queue of the caller's for the events of its messages, or `DART_NO_QUEUE` to report no
    /// events.
    pub events: u32,
    /// In: a queue of the caller's for its exceptions. With `DART_NO_QUEUE`, the card counts them
    /// in the state, and interrupts.
    pub exceptions: u32,
    /// In: `DART_CONNECTION_WRITE`, `DART_CONNECTION_READ`, both or none.
    pub flags: u32,
    /// Out: its number.
    pub connection: u32,
    /// Zero.
    pub reserved: u32,
    /// Out: offset for `mmap(2)` of the same file, writable, shared, to map its page of the card.
    pub page_offset: u64,
    /// Out: offset to map the page that begins with its state in the same way, read-only.
    pub state_offset: u64,
}

/// A connection's other end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DartPeer {
    /// In: the other end's key.
    pub key: u64,
    /// In: the connection.
    pub connection: u32,
    /// In: the other end's number.
    pub peer: u32,
}

/// Entries of a bank's programs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DartSetProgram {
    /// In: the bank.
    pub bank: u32,
    /// In: the first of its entries.
    pub first: u32,
    /// In: number of entries, 1 to [`DART_SET_ENTRIES`].
    pub count: u32,
    /// Zero.
    pub reserved: u32,
    /// In: the new entries, as the card has them: little-endian.
    pub entries: [DartEntry; 16],
}

/// Argument of [`DART_IOC_QUEUE_WAIT`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DartQueueWait {
    /// In: time-out in nanoseconds, 0 to return at once, or -1 for no time-out.
    pub timeout_ns: i64,
    /// In: the queue.
    pub queue: u32,
    /// In: number of records that were taken, modulo 2^32.
    pub taken: u32,
}

/// Argument of [`DART_IOC_LEFT_WAIT`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DartLeftWait {
    /// In: time-out in nanoseconds, 0 to return at once, or -1 for no time-out.
    pub timeout_ns: i64,
    /// In: the connection.
    pub connection: u32,
    /// In: number of messages known to have left, modulo 2^32.
    pub left: u32,
}

/// Argument of [`DART_IOC_EXCEPTION_WAIT`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DartExceptionWait {
    /// In: time-out in nanoseconds, 0 to return at once, or -1 for no time-out.
    pub timeout_ns: i64,
    /// In: the connection.
    pub connection: u32,
    /// In: known number of exceptions, modulo 2^32.
    pub exceptions: u32,
}

impl CardArgument for DartEndpoint {
    fn names(&self, piece: &mut dyn FnMut(u64, u64)) {
        piece(self.address, self.length);
    }
}

impl CardArgument for DartBank {}
impl CardArgument for DartQueue {}
impl CardArgument for DartConnection {}
impl CardArgument for DartPeer {}
impl CardArgument for DartSetProgram {}
impl CardArgument for DartQueueWait {}
impl CardArgument for DartLeftWait {}
impl CardArgument for DartExceptionWait {}
