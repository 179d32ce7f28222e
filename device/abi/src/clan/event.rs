//! An asynchronous event queue (section 3.5): a ring in its owner's memory, with the events of any
//! number of endpoints.
//!
//! Each event has a *source*: a Tripwire, or an endpoint's DMA requests, messages or faults. A
//! source has at most one untaken record in the queue, however often it fires meanwhile. The queue
//! has space for one record of each source of its endpoints, and for records that other endpoints
//! have left in it. So it is never full. The owner takes a record and stores the number of records
//! it has taken to [`CLAN_EVENTS_TAKEN`]. It issues a full barrier, and then looks at what has
//! happened.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// In the queue's first page, u32, stored by the owner: number of records that it has taken, modulo
/// 2^32.
pub const CLAN_EVENTS_TAKEN: u32 = 0x000;
/// Bytes before the records.
pub const CLAN_EVENTS_HEAD: u32 = 4096;
/// Minimum number of records in a queue.
pub const CLAN_MIN_EVENTS: u32 = 16;
/// Maximum number of records in a queue.
pub const CLAN_MAX_EVENTS: u32 = 65536;
/// Bytes of a record.
pub const CLAN_EVENT_SIZE: u32 = 16;

/// Event: a Tripwire has fired. `detail` is its number.
pub const CLAN_EVENT_TRIPWIRE: u32 = 1;
/// Event: a DMA request with [`super::dma::CLAN_DMA_NOTIFY`] has ended.
/// [`super::endpoint::CLAN_STATE_DONE`] has the number of requests that have ended.
pub const CLAN_EVENT_DMA: u32 = 2;
/// Event: there is a message.
pub const CLAN_EVENT_MESSAGE: u32 = 3;
/// Event: there was a fault.
pub const CLAN_EVENT_FAULT: u32 = 4;

/// An event. Record `n`, counted from 0, is at `n` modulo the queue's size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ClanEvent {
    /// Kind of event, `CLAN_EVENT_*`.
    pub kind: u32,
    /// The endpoint.
    pub endpoint: u32,
    /// Depends on the kind.
    pub detail: u32,
    /// `n + 1`, modulo 2^32. The card writes it last.
    pub number: u32,
}
