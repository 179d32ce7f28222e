//! The DART card's commands, besides those that all cards have ([`crate::family::command`]).

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::family::area::UlnArea;

/// Opens endpoint `index`. Body: [`DartOpenEndpoint`].
pub const DART_COMMAND_OPEN_ENDPOINT: u32 = 1;
/// Closes an endpoint. Its connections must be closed first; otherwise the command fails with
/// `ULN_STATUS_IN_USE`.
pub const DART_COMMAND_CLOSE_ENDPOINT: u32 = 2;
/// Opens connection `index`. Body: [`DartOpenConnection`]. The driver must zero its state first.
pub const DART_COMMAND_OPEN_CONNECTION: u32 = 3;
/// Closes a connection. Once the command has completed, none of its messages accesses memory.
pub const DART_COMMAND_CLOSE_CONNECTION: u32 = 4;
/// Sets the connection at the other end, on the other host. Body: [`DartConnect`]. Before that,
/// messages are accepted, and none is sent.
pub const DART_COMMAND_CONNECT: u32 = 5;
/// Opens queue `index`. Body: [`DartOpenQueue`]. The driver must zero its memory first.
pub const DART_COMMAND_OPEN_QUEUE: u32 = 6;
/// Closes a queue. Connections that name it have no queue from then on.
pub const DART_COMMAND_CLOSE_QUEUE: u32 = 7;
/// Opens the FIFO. Body: [`DartOpenFifo`].
pub const DART_COMMAND_OPEN_FIFO: u32 = 8;
/// Closes the FIFO.
pub const DART_COMMAND_CLOSE_FIFO: u32 = 11;
/// Reads which pages connection `index` waits for. The answer is a body: [`DartMisses`].
pub const DART_COMMAND_READ_MISSES: u32 = 12;
/// Sets address registers, from `index` on. Body: [`DartValues`].
pub const DART_COMMAND_SET_REGISTERS: u32 = 13;
/// Sets entries of the programs, from `index` on. Body: [`DartProgram`].
pub const DART_COMMAND_SET_PROGRAM: u32 = 14;
/// Breaks connection `index`, because its other end has gone. Body: [`DartBreak`].
pub const DART_COMMAND_BREAK: u32 = 15;

/// In place of a queue's number: none.
pub const DART_NO_QUEUE: u32 = 0xffff_ffff;
/// In place of the peer's number: not known yet.
pub const DART_NO_PEER: u32 = 0xffff_ffff;
/// Maximum number of pages in [`DartMisses`]: those of the longest message, wherever it begins.
pub const DART_MAX_PAGES: u32 = 32;
/// Maximum number of values or entries in a command.
pub const DART_MAX_VALUES: u32 = 32;

/// In [`DartOpenEndpoint::flags`]: its memory is `area`, which does not move.
pub const DART_ENDPOINT_PINNED: u32 = 1;
/// In [`DartOpenConnection::flags`]: its messages may write to the endpoint.
pub const DART_CONNECTION_WRITE: u32 = 1;
/// In [`DartOpenConnection::flags`]: its messages may read from the endpoint.
pub const DART_CONNECTION_READ: u32 = 2;
/// In [`DartOpenConnection::flags`]: a connection of the operating system. Its other end is the
/// connection on the other host that has this host's number and the same key. Its messages access
/// only the page of the endpoint that has the sending host's number. Lost packets or a lost link do
/// not break it. It uses no credits and waits for nothing, and executed messages are reported in
/// the FIFO. A message that would have to wait, or to be answered, is skipped.
pub const DART_CONNECTION_SYSTEM: u32 = 4;
/// In [`DartOpenQueue::flags`]: each record interrupts. Without it, a record interrupts only if a
/// process sleeps on the queue.
pub const DART_QUEUE_IMMEDIATE: u32 = 1;
/// In [`DartMisses::pages`]: the page is to be written to.
pub const DART_PAGE_WRITES: u64 = 1;
/// In [`DartEntry::flags`]: the operand is that of the CALL
/// ([`super::control::DART_CALL_OPERAND`]).
pub const DART_ENTRY_OPERAND: u32 = 1;
/// Body of [`DART_COMMAND_OPEN_ENDPOINT`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DartOpenEndpoint {
    /// With [`DART_ENDPOINT_PINNED`], its memory; otherwise zero.
    pub area: UlnArea,
    /// Its base: a virtual address that is a multiple of 4; zero if it is pinned.
    pub base: u64,
    /// Bytes; zero if it is pinned.
    pub length: u64,
    /// The address space of the virtual address; zero if it is pinned.
    pub space: u32,
    /// [`DART_ENDPOINT_PINNED`] or 0.
    pub flags: u32,
}

/// Body of [`DART_COMMAND_OPEN_CONNECTION`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DartOpenConnection {
    /// Its state: [`super::connection::DART_STATE_SIZE`] bytes, described in [`super::connection`].
    pub state: UlnArea,
    /// Its endpoint.
    pub endpoint: u32,
    /// The other host.
    pub host: u32,
    /// The first of its address registers.
    pub register_base: u32,
    /// Number of address registers, up to [`super::connection::DART_MAX_REGISTERS`].
    pub register_bound: u32,
    /// The first entry of its program.
    pub program_base: u32,
    /// Number of program entries.
    pub program_bound: u32,
    /// The queue for the events of its messages, or [`DART_NO_QUEUE`] to report no events.
    pub events: u32,
    /// The queue for its exceptions. With [`DART_NO_QUEUE`], the card counts them in the state, and
    /// interrupts.
    pub exceptions: u32,
    /// Any of `DART_CONNECTION_*`.
    pub flags: u32,
    /// Zero.
    pub reserved: u32,
    /// Its key. A packet for the connection must carry it, so only the holder of the key can be the
    /// other end.
    pub key: u64,
}

/// Body of [`DART_COMMAND_CONNECT`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DartConnect {
    /// The key of the connection at its other end.
    pub key: u64,
    /// The number of the connection at its other end.
    pub peer: u32,
    /// Zero.
    pub reserved: u32,
}

/// Body of [`DART_COMMAND_OPEN_QUEUE`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DartOpenQueue {
    /// Its memory: a page of [`super::queue`], then `records` of [`super::queue::DartRecord`].
    pub memory: UlnArea,
    /// Number of records: a power of two from [`super::queue::DART_MIN_RECORDS`] to
    /// [`super::queue::DART_MAX_RECORDS`].
    pub records: u32,
    /// [`DART_QUEUE_IMMEDIATE`] or 0.
    pub flags: u32,
}

/// Body of [`DART_COMMAND_OPEN_FIFO`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DartOpenFifo {
    /// `records` of [`super::fifo::DartFifoRecord`], all zero.
    pub area: UlnArea,
    /// Number of records: a power of two, at least the number of queues plus three for each
    /// connection, and at most [`super::fifo::DART_MAX_FIFO`].
    pub records: u32,
    /// Zero.
    pub reserved: u32,
}

/// Answer of [`DART_COMMAND_READ_MISSES`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DartMisses {
    /// Address space of the pages.
    pub space: u32,
    /// Number of pages.
    pub count: u32,
    /// Virtual addresses, with [`DART_PAGE_WRITES`] if the page is to be written to.
    pub pages: [u64; 32],
}

/// Body of [`DART_COMMAND_BREAK`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DartBreak {
    /// Reason, which the owner finds in [`super::connection::DART_STATE_BROKEN`]; not 0.
    pub why: u32,
    /// Zero.
    pub reserved: u32,
}

/// Body of [`DART_COMMAND_SET_REGISTERS`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DartValues {
    /// Number of values.
    pub count: u32,
    /// Zero.
    pub reserved: u32,
    /// The new values.
    pub values: [u64; 32],
}

/// An entry of a program, which a [`super::control::DART_MAIN_CALL`] executes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DartEntry {
    /// The opcode.
    pub opcode: u32,
    /// [`DART_ENTRY_OPERAND`] or 0.
    pub flags: u32,
    /// The operand; zero if the entry takes the sender's operand.
    pub operand: u64,
}

/// Body of [`DART_COMMAND_SET_PROGRAM`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DartProgram {
    /// Number of entries.
    pub count: u32,
    /// Zero.
    pub reserved: u32,
    /// The new entries.
    pub entries: [DartEntry; 32],
}
