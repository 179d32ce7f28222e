//! The DART card's operations, beside those that all cards have ([`crate::family::command`]).

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::family::area::HamlynArea;

/// Open an endpoint: `index` is its number. Body: [`DartOpenEndpoint`].
pub const DART_COMMAND_OPEN_ENDPOINT: u32 = 1;
/// Close an endpoint. Its connections must have been closed before: else it is refused as in use.
pub const DART_COMMAND_CLOSE_ENDPOINT: u32 = 2;
/// Open a connection: `index` is its number. Body: [`DartOpenConnection`]. The driver has made its
/// state zero.
pub const DART_COMMAND_OPEN_CONNECTION: u32 = 3;
/// Close a connection. When it is answered nothing of it reaches memory any more.
pub const DART_COMMAND_CLOSE_CONNECTION: u32 = 4;
/// Say which connection of the other host is at the other end. Body: [`DartConnect`]. Messages are
/// taken before, and none leaves.
pub const DART_COMMAND_CONNECT: u32 = 5;
/// Open a queue: `index` is its number. Body: [`DartOpenQueue`]. The driver has made its memory
/// zero.
pub const DART_COMMAND_OPEN_QUEUE: u32 = 6;
/// Close a queue. Connections that name it have none from then on.
pub const DART_COMMAND_CLOSE_QUEUE: u32 = 7;
/// Open the FIFO. Body: [`DartOpenFifo`].
pub const DART_COMMAND_OPEN_FIFO: u32 = 8;
/// Close the FIFO.
pub const DART_COMMAND_CLOSE_FIFO: u32 = 11;
/// Ask which pages connection `index` waits for. The answer is a body: [`DartMisses`].
pub const DART_COMMAND_READ_MISSES: u32 = 12;
/// Set address registers, from `index` on. Body: [`DartValues`].
pub const DART_COMMAND_SET_REGISTERS: u32 = 13;
/// Set entries of the programs, from `index` on. Body: [`DartProgram`].
pub const DART_COMMAND_SET_PROGRAM: u32 = 14;
/// Break connection `index` off: its other end is no more. Body: [`DartBreak`].
pub const DART_COMMAND_BREAK: u32 = 15;

/// Instead of a queue's number: none.
pub const DART_NO_QUEUE: u32 = 0xffff_ffff;
/// Instead of the peer's number: it is not known yet.
pub const DART_NO_PEER: u32 = 0xffff_ffff;
/// The most pages of [`DartMisses`]: those of the longest message, wherever it begins.
pub const DART_MAX_PAGES: u32 = 32;
/// The most values or entries of a command.
pub const DART_MAX_VALUES: u32 = 32;

/// In [`DartOpenEndpoint::flags`]: its memory is `area`, which stays where it is.
pub const DART_ENDPOINT_PINNED: u32 = 1;
/// In [`DartOpenConnection::flags`]: its messages may write to the endpoint.
pub const DART_CONNECTION_WRITE: u32 = 1;
/// In [`DartOpenConnection::flags`]: its messages may read from the endpoint.
pub const DART_CONNECTION_READ: u32 = 2;
/// In [`DartOpenConnection::flags`]: the operating system's. Its other end is that host's
/// connection with the number of this host, and the same key. Its messages reach only the page of
/// the endpoint that has the number of the host that they are from. It is not broken when packets
/// are lost or the link goes, nobody pays or waits for anything, and what has been executed is told
/// in the FIFO. A message that would have to wait, or be answered, is passed over.
pub const DART_CONNECTION_SYSTEM: u32 = 4;
/// In [`DartOpenQueue::flags`]: each record interrupts; else those that somebody sleeps for.
pub const DART_QUEUE_IMMEDIATE: u32 = 1;
/// In [`DartMisses::pages`]: it is to be written to.
pub const DART_PAGE_WRITES: u64 = 1;
/// In [`DartEntry::flags`]: the operand is the one that the CALL has
/// ([`super::control::DART_CALL_OPERAND`]).
pub const DART_ENTRY_OPERAND: u32 = 1;
/// Body of [`DART_COMMAND_OPEN_ENDPOINT`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DartOpenEndpoint {
    /// With [`DART_ENDPOINT_PINNED`], its memory; else zero.
    pub area: HamlynArea,
    /// Its first byte, a virtual address that is a multiple of 4; zero if it is pinned.
    pub base: u64,
    /// Bytes; zero if it is pinned.
    pub length: u64,
    /// Whose virtual address: its address space; zero if it is pinned.
    pub space: u32,
    /// [`DART_ENDPOINT_PINNED`] or 0.
    pub flags: u32,
}

/// Body of [`DART_COMMAND_OPEN_CONNECTION`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DartOpenConnection {
    /// [`super::connection::DART_STATE_SIZE`] bytes, of [`super::connection`].
    pub state: HamlynArea,
    /// Its endpoint.
    pub endpoint: u32,
    /// The other host.
    pub host: u32,
    /// The first of its address registers.
    pub register_base: u32,
    /// How many there are, up to [`super::connection::DART_MAX_REGISTERS`].
    pub register_bound: u32,
    /// The first entry of its program.
    pub program_base: u32,
    /// How many there are.
    pub program_bound: u32,
    /// The queue for what its messages tell of, or [`DART_NO_QUEUE`]: then nobody is told.
    pub events: u32,
    /// The queue for its exceptions, or [`DART_NO_QUEUE`]: then the card counts them in the state,
    /// and interrupts.
    pub exceptions: u32,
    /// `DART_CONNECTION_*`, any of them.
    pub flags: u32,
    /// Zero.
    pub reserved: u32,
    /// What packets must have to be for it: who has this is its other end.
    pub key: u64,
}

/// Body of [`DART_COMMAND_CONNECT`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DartConnect {
    /// The key of the connection at its other end.
    pub key: u64,
    /// That one's number.
    pub peer: u32,
    /// Zero.
    pub reserved: u32,
}

/// Body of [`DART_COMMAND_OPEN_QUEUE`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DartOpenQueue {
    /// Its memory: a page of [`super::queue`], then `records` of [`super::queue::DartRecord`].
    pub memory: HamlynArea,
    /// Records, [`super::queue::DART_MIN_RECORDS`] to [`super::queue::DART_MAX_RECORDS`], a power
    /// of two.
    pub records: u32,
    /// [`DART_QUEUE_IMMEDIATE`] or 0.
    pub flags: u32,
}

/// Body of [`DART_COMMAND_OPEN_FIFO`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DartOpenFifo {
    /// `records` of [`super::fifo::DartFifoRecord`], all zero.
    pub area: HamlynArea,
    /// Records, a power of two, at least as many as there are queues and three for each connection,
    /// and at most [`super::fifo::DART_MAX_FIFO`].
    pub records: u32,
    /// Zero.
    pub reserved: u32,
}

/// Answer of [`DART_COMMAND_READ_MISSES`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DartMisses {
    /// Whose pages they are.
    pub space: u32,
    /// How many.
    pub count: u32,
    /// Virtual addresses, and [`DART_PAGE_WRITES`].
    pub pages: [u64; 32],
}

/// Body of [`DART_COMMAND_BREAK`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DartBreak {
    /// Why: what its owner finds in [`super::connection::DART_STATE_BROKEN`], not 0.
    pub why: u32,
    /// Zero.
    pub reserved: u32,
}

/// Body of [`DART_COMMAND_SET_REGISTERS`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DartValues {
    /// How many.
    pub count: u32,
    /// Zero.
    pub reserved: u32,
    /// What they become.
    pub values: [u64; 32],
}

/// An entry of a program: what a [`super::control::DART_MAIN_CALL`] executes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DartEntry {
    /// The opcode.
    pub opcode: u32,
    /// [`DART_ENTRY_OPERAND`] or 0.
    pub flags: u32,
    /// The operand; zero if it is the sender's.
    pub operand: u64,
}

/// Body of [`DART_COMMAND_SET_PROGRAM`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DartProgram {
    /// How many.
    pub count: u32,
    /// Zero.
    pub reserved: u32,
    /// What they become.
    pub entries: [DartEntry; 32],
}
