//! An asynchronous event queue (section 3.5): what happens to any number of endpoints, in one ring
//! in its owner's memory.
//!
//! What can happen has a *source*: a Tripwire, an endpoint's DMA requests, its messages, its
//! faults. Each source has at most one record in the queue that is not taken, however often it
//! happens meanwhile; and a queue has a record for each source of the endpoints whose events come
//! there, and for each that others have left, so it is never full. The owner takes a record, stores
//! how many it has taken to [`CLAN_EVENTS_TAKEN`], issues a full barrier, and then looks what has
//! happened.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// In the queue's first page, u32, stored by the owner: how many records it has taken, modulo 2^32.
pub const CLAN_EVENTS_TAKEN: u32 = 0x000;
/// Bytes before the records.
pub const CLAN_EVENTS_HEAD: u32 = 4096;
/// The fewest records of a queue.
pub const CLAN_MIN_EVENTS: u32 = 16;
/// The most records of a queue.
pub const CLAN_MAX_EVENTS: u32 = 65536;
/// Bytes of a record.
pub const CLAN_EVENT_SIZE: u32 = 16;

/// A Tripwire has fired: `detail` is its number.
pub const CLAN_EVENT_TRIPWIRE: u32 = 1;
/// A DMA request that says so has ended; [`super::endpoint::CLAN_STATE_DONE`] says how many have.
pub const CLAN_EVENT_DMA: u32 = 2;
/// There is a message.
pub const CLAN_EVENT_MESSAGE: u32 = 3;
/// There was a fault.
pub const CLAN_EVENT_FAULT: u32 = 4;

/// Something has happened. The `n`-th record, from 0, is at `n` modulo the queue's size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ClanEvent {
    /// What: `CLAN_EVENT_*`.
    pub kind: u32,
    /// To which endpoint.
    pub endpoint: u32,
    /// More of it.
    pub detail: u32,
    /// `n + 1`, modulo 2^32. The card writes it last.
    pub number: u32,
}
