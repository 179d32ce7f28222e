//! The FIFO: events that need the driver.
//!
//! The card writes records to a ring in the driver's memory, and raises
//! [`super::registers::DART_VECTOR_FIFO`] for the first. When the driver has taken the records, it
//! stores their number to [`super::registers::DART_REG_FIFO_TAKEN`]. If there are more by then, the
//! card raises the vector again. A connection or queue with an untaken record gets no second one of
//! that kind.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Maximum number of records in the FIFO.
pub const DART_MAX_FIFO: u32 = 131_072;
/// Bytes of a record.
pub const DART_FIFO_SIZE: u32 = 8;
/// In [`DartFifoRecord::what`], with a connection: it waits for pages
/// ([`super::command::DART_COMMAND_READ_MISSES`]).
pub const DART_FIFO_MISSES: u32 = 0x0000_0000;
/// In [`DartFifoRecord::what`], with a queue: it has records for a sleeping process, or is an
/// immediate queue.
pub const DART_FIFO_QUEUE: u32 = 0x4000_0000;
/// In [`DartFifoRecord::what`], with a connection of the operating system: messages have been
/// executed. With any other connection: it had an exception that no queue took
/// ([`super::connection::DART_STATE_EXCEPTIONS`]).
pub const DART_FIFO_ARRIVED: u32 = 0xc000_0000;
/// In [`DartFifoRecord::what`], with a connection: a process sleeps until messages have left, and
/// they have left, or the connection is broken.
pub const DART_FIFO_LEFT: u32 = 0x8000_0000;

/// A record. Record `n`, counted from 0, is at `n` modulo the ring's size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DartFifoRecord {
    /// `DART_FIFO_*`, and the number of the connection or queue.
    pub what: u32,
    /// `n + 1`, modulo 2^32. The card writes it last.
    pub number: u32,
}
