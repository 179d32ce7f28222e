//! The FIFO (section 2.5): endpoints and event queues on which somebody sleeps, and to which something has happened.
//!
//! The card writes records to a ring in the driver's memory and raises [`super::registers::CLAN_VECTOR_FIFO`] for the first. When the driver has
//! taken what is there it says so in [`super::registers::CLAN_REG_FIFO_TAKEN`], and the vector is raised again if there is more by then. An endpoint
//! or queue that has a record which is not taken yet gets no second one.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The most records of the FIFO.
pub const CLAN_MAX_FIFO: u32 = 131_072;
/// Bytes of a record.
pub const CLAN_FIFO_SIZE: u32 = 8;
/// In [`ClanFifoRecord::what`]: it is an event queue, not an endpoint.
pub const CLAN_FIFO_EVENTS: u32 = 0x8000_0000;

/// Something has happened. The `n`-th record, from 0, is at `n` modulo the ring's size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ClanFifoRecord {
    /// The endpoint, or [`CLAN_FIFO_EVENTS`] and the event queue.
    pub what: u32,
    /// `n + 1`, modulo 2^32. The card writes it last.
    pub number: u32,
}
