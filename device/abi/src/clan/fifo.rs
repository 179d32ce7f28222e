//! The FIFO (section 2.5): identifiers of Tripwires that have fired, if that is among their
//! actions; and endpoints and event queues on which a process sleeps, and to which something has
//! happened.
//!
//! The card writes records to a ring in the driver's memory and raises
//! [`super::registers::CLAN_VECTOR_FIFO`] for the first. When the driver has taken what is there it
//! says so in [`super::registers::CLAN_REG_FIFO_TAKEN`], and the vector is raised again if there is
//! more by then. A Tripwire, endpoint or queue that has a record which is not taken yet gets no
//! second one.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The most records of the FIFO.
pub const CLAN_MAX_FIFO: u32 = 524_288;
/// Bytes of a record.
pub const CLAN_FIFO_SIZE: u32 = 8;
/// In [`ClanFifoRecord::what`]: it is an event queue, not an endpoint.
pub const CLAN_FIFO_EVENTS: u32 = 0x8000_0000;

/// In [`ClanFifoRecord::what`]: a Tripwire has fired. Its endpoint is in the lower 16 bits, its
/// number at the endpoint above ([`CLAN_FIFO_NUMBER_SHIFT`]).
pub const CLAN_FIFO_TRIPWIRE: u32 = 0x4000_0000;
/// In [`ClanFifoRecord::what`] of a Tripwire: by how many bits its number is shifted.
pub const CLAN_FIFO_NUMBER_SHIFT: u32 = 16;

/// Something has happened. The `n`-th record, from 0, is at `n` modulo the ring's size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ClanFifoRecord {
    /// The endpoint, or [`CLAN_FIFO_EVENTS`] and the event queue, or [`CLAN_FIFO_TRIPWIRE`] and the
    /// Tripwire.
    pub what: u32,
    /// `n + 1`, modulo 2^32. The card writes it last.
    pub number: u32,
}
