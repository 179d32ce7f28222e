//! What driver and library agree on about DART cards: calls on an open `/dev/dartN`, beside those
//! that any card has.
//!
//! Errors beside those of all calls: `ENOSPC` (the card has no more of that), `EBUSY` (an object is
//! used by another that is open).

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::dart::command::DartEntry;
use crate::dart::identity::DART_MODEL;
use crate::uapi::{CardArgument, CardQuery, HamlynObject, card_call};

/// Opens an endpoint (section 3): a region of the caller's virtual memory, of which nothing need be
/// there. Argument: [`DartEndpoint`].
pub const DART_IOC_ENDPOINT_OPEN: u32 = card_call::<DartEndpoint>(DART_MODEL, 0);
/// Closes an endpoint. Argument: [`HamlynObject`]. `EBUSY` if a connection names it.
pub const DART_IOC_ENDPOINT_CLOSE: u32 = card_call::<HamlynObject>(DART_MODEL, 1);
/// Opens a bank: address registers and entries of programs, of which connections have windows.
/// Argument: [`DartBank`].
pub const DART_IOC_BANK_OPEN: u32 = card_call::<DartBank>(DART_MODEL, 2);
/// Closes a bank. Argument: [`HamlynObject`]. `EBUSY` if a connection has a window of it.
pub const DART_IOC_BANK_CLOSE: u32 = card_call::<HamlynObject>(DART_MODEL, 3);
/// Opens a queue (sections 1 and 2). Argument: [`DartQueue`].
pub const DART_IOC_QUEUE_OPEN: u32 = card_call::<DartQueue>(DART_MODEL, 4);
/// Closes a queue. Argument: [`HamlynObject`]. Connections that name it have none from then on.
pub const DART_IOC_QUEUE_CLOSE: u32 = card_call::<HamlynObject>(DART_MODEL, 5);
/// Opens a connection (section 3): one end of a path to another host, or to the same. Argument:
/// [`DartConnection`].
pub const DART_IOC_CONNECTION_OPEN: u32 = card_call::<DartConnection>(DART_MODEL, 6);
/// Closes a connection. Argument: [`HamlynObject`]. When it returns nothing of it reaches memory
/// any more. Its other end is told.
pub const DART_IOC_CONNECTION_CLOSE: u32 = card_call::<HamlynObject>(DART_MODEL, 7);
/// Says which connection of the other host is at the other end, once. Argument: [`DartPeer`].
/// Messages are taken before, and none leaves.
pub const DART_IOC_CONNECT: u32 = card_call::<DartPeer>(DART_MODEL, 8);
/// Sets entries of a bank's programs. Argument: [`DartSetProgram`].
pub const DART_IOC_SET_PROGRAM: u32 = card_call::<DartSetProgram>(DART_MODEL, 9);
/// Sleeps until a queue has more records than were taken. Argument: [`DartQueueWait`]. `ETIMEDOUT`;
/// `EINTR` if a signal's handler has run. The file is readable when one of its queues is not empty,
/// so that `poll(2)` and the like wait for it, too.
pub const DART_IOC_QUEUE_WAIT: u32 = card_call::<DartQueueWait>(DART_MODEL, 10);
/// Sleeps until more messages of a connection have left than had, or it is broken. Argument:
/// [`DartLeftWait`]. `ETIMEDOUT`; `EINTR`.
pub const DART_IOC_LEFT_WAIT: u32 = card_call::<DartLeftWait>(DART_MODEL, 11);
/// Sleeps until a connection has had more exceptions that no queue took, or it is broken. Argument:
/// [`DartExceptionWait`]. `ETIMEDOUT`; `EINTR`.
pub const DART_IOC_EXCEPTION_WAIT: u32 = card_call::<DartExceptionWait>(DART_MODEL, 12);

/// Index into `HamlynShareQuery`: connections. An endpoint counts as as many as there are for each
/// of all endpoints.
pub const DART_SHARE_CONNECTIONS: u32 = 0;
/// Index into `HamlynShareQuery`: address registers. Of a bank with more entries than there are for
/// each of all registers, so many.
pub const DART_SHARE_REGISTERS: u32 = 1;
/// Index into `HamlynShareQuery`: queues.
pub const DART_SHARE_QUEUES: u32 = 2;
/// The most address registers of a bank.
pub const DART_MAX_BANK: u32 = 1024;
/// The most entries of a bank's programs.
pub const DART_MAX_ENTRIES: u32 = 256;
/// The most entries that a call sets.
pub const DART_SET_ENTRIES: u32 = 16;

/// What a DART card says of itself: the card's part of `HamlynQuery`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DartQuery {
    /// Out: connections of processes.
    pub connections: u32,
    /// Out: endpoints of processes.
    pub endpoints: u32,
    /// Out: address registers.
    pub registers: u32,
    /// Out: entries of all programs.
    pub program: u32,
    /// Out: queues.
    pub queues: u32,
    /// Out: translations that the card keeps.
    pub tlb: u32,
    /// Out: cells that a connection may have on their way.
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
    /// In: where it begins in the caller's memory, a multiple of 4.
    pub address: u64,
    /// In: its bytes, at least 1. It is a region of addresses: what is there when a message comes
    /// is what the message is about.
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
    /// In: how many address registers, 1 to [`DART_MAX_BANK`]. They are zero.
    pub registers: u32,
    /// In: how many entries of programs, 0 to [`DART_MAX_ENTRIES`]. They do nothing.
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
    /// In: records, `DART_MIN_RECORDS` to `DART_MAX_RECORDS`, a power of two.
    pub records: u32,
    /// In: `DART_QUEUE_IMMEDIATE` or 0.
    pub flags: u32,
    /// Out: its number.
    pub queue: u32,
    /// Zero.
    pub reserved: u32,
    /// Out: where to map its memory with `mmap(2)` of the same file, readable and writable, shared:
    /// `DART_QUEUE_HEAD` bytes and those of the records.
    pub memory_offset: u64,
}

/// A connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DartConnection {
    /// Out: its key: who has it, and the number, can be the other end.
    pub key: u64,
    /// In: an endpoint of the caller's.
    pub endpoint: u32,
    /// In: the other end's host.
    pub host: u32,
    /// In: a bank of the caller's.
    pub bank: u32,
    /// In: the first of the bank's registers that is in the window.
    pub first_register: u32,
    /// In: how many are, 0 to `DART_MAX_REGISTERS`.
    pub registers: u32,
    /// In: the first of the bank's entries that is in the program.
    pub first_entry: u32,
    /// In: how many are.
    pub entries: u32,
    /// In: a queue of the caller's for what its messages tell of, or `DART_NO_QUEUE`: then nobody
    /// is told.
    pub events: u32,
    /// In: a queue of the caller's for its exceptions, or `DART_NO_QUEUE`: then the card counts
    /// them in the state, and interrupts.
    pub exceptions: u32,
    /// In: `DART_CONNECTION_WRITE`, `DART_CONNECTION_READ`, both or none.
    pub flags: u32,
    /// Out: its number.
    pub connection: u32,
    /// Zero.
    pub reserved: u32,
    /// Out: where to map its page of the card with `mmap(2)` of the same file, writable, shared.
    pub page_offset: u64,
    /// Out: where to map the page that begins with its state in the same way, read-only.
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
    /// In: how many, 1 to [`DART_SET_ENTRIES`].
    pub count: u32,
    /// Zero.
    pub reserved: u32,
    /// In: what they become.
    pub entries: [DartEntry; 16],
}

/// What to wait for in a queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DartQueueWait {
    /// In: nanoseconds, 0 to look only, or -1 for ever.
    pub timeout_ns: i64,
    /// In: the queue.
    pub queue: u32,
    /// In: how many records were taken, modulo 2^32.
    pub taken: u32,
}

/// Which messages to wait for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DartLeftWait {
    /// In: nanoseconds, 0 to look only, or -1 for ever.
    pub timeout_ns: i64,
    /// In: the connection.
    pub connection: u32,
    /// In: how many had left, modulo 2^32.
    pub left: u32,
}

/// Which exceptions to wait for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DartExceptionWait {
    /// In: nanoseconds, 0 to look only, or -1 for ever.
    pub timeout_ns: i64,
    /// In: the connection.
    pub connection: u32,
    /// In: how many it had had, modulo 2^32.
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
