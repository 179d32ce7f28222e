//! The FIFO (section 2.5). It holds identifiers of Tripwires that have fired, if that is among
//! their actions. It also holds endpoints and event queues on which a process sleeps and that have
//! an event.
//!
//! The card writes records to a ring in the driver's memory, and raises
//! [`super::registers::CLAN_VECTOR_FIFO`] for the first. When the driver has taken the records, it
//! stores their number to [`super::registers::CLAN_REG_FIFO_TAKEN`]. If there are more by then, the
//! card raises the vector again. A Tripwire, endpoint or queue with an untaken record gets no
//! second one.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Maximum number of records in the FIFO.
pub const CLAN_MAX_FIFO: u32 = 524_288;
/// Bytes of a record.
pub const CLAN_FIFO_SIZE: u32 = 8;
/// In [`ClanFifoRecord::what`]: an event queue, not an endpoint.
pub const CLAN_FIFO_EVENTS: u32 = 0x8000_0000;

/// In [`ClanFifoRecord::what`]: a Tripwire has fired. Its endpoint is in the lower 16 bits; its
/// number in the endpoint is above them ([`CLAN_FIFO_NUMBER_SHIFT`]).
pub const CLAN_FIFO_TRIPWIRE: u32 = 0x4000_0000;
/// In [`ClanFifoRecord::what`] of a Tripwire: the bit position of its number.
pub const CLAN_FIFO_NUMBER_SHIFT: u32 = 16;

/// A record. Record `n`, counted from 0, is at `n` modulo the ring's size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ClanFifoRecord {
    /// The endpoint, [`CLAN_FIFO_EVENTS`] and the event queue, or [`CLAN_FIFO_TRIPWIRE`] and the
    /// Tripwire.
    pub what: u32,
    /// `n + 1`, modulo 2^32. The card writes it last.
    pub number: u32,
}
