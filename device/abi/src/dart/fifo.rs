//! The FIFO: what the driver is to look after.
//!
//! The card writes records to a ring in the driver's memory and raises
//! [`super::registers::DART_VECTOR_FIFO`] for the first. When the driver has taken what is there it
//! says so in [`super::registers::DART_REG_FIFO_TAKEN`], and the vector is raised again if there is
//! more by then. What has a record that is not taken yet gets no second one.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The most records of the FIFO.
pub const DART_MAX_FIFO: u32 = 131_072;
/// Bytes of a record.
pub const DART_FIFO_SIZE: u32 = 8;
/// In [`DartFifoRecord::what`], with a connection: it waits for pages
/// ([`super::command::DART_COMMAND_READ_MISSES`]).
pub const DART_FIFO_MISSES: u32 = 0x0000_0000;
/// In [`DartFifoRecord::what`], with a queue: it has records for who sleeps, or is an immediate
/// one.
pub const DART_FIFO_QUEUE: u32 = 0x4000_0000;
/// In [`DartFifoRecord::what`], with a connection of the operating system's: messages have been
/// executed. With any other: it had an exception that no queue takes
/// ([`super::connection::DART_STATE_EXCEPTIONS`]).
pub const DART_FIFO_ARRIVED: u32 = 0xc000_0000;
/// In [`DartFifoRecord::what`], with a connection: messages have left for who sleeps until they
/// have, or it is broken.
pub const DART_FIFO_LEFT: u32 = 0x8000_0000;

/// Something has happened. The `n`-th record, from 0, is at `n` modulo the ring's size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DartFifoRecord {
    /// `DART_FIFO_*`, and a number.
    pub what: u32,
    /// `n + 1`, modulo 2^32. The card writes it last.
    pub number: u32,
}
