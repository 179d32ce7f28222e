//! The DMA engine's requests (section 3.4): a queue for each endpoint, in memory that its owner has
//! mapped.
//!
//! The owner writes request `n` at `n` modulo the queue's size, then the count to
//! [`super::endpoint::CLAN_STATE_PUT`], issues a full barrier, and looks at
//! [`super::endpoint::CLAN_STATE_IDLE`]: if that is 1, it stores to [`super::endpoint::CLAN_ENDPOINT_GO`]. It does not ring while the queue is not
//! empty. The engine serves the endpoints that have requests in turn, a packet for each. Requests
//! of one endpoint are carried out in their order, and their results are written, then
//! [`super::endpoint::CLAN_STATE_DONE`].
//!
//! A write has ended when its last packet has left; the other host has not said that it arrived.
//! What it refuses is a fault. A read has ended when its data has come, and then all that the
//! endpoint wrote to that host before has arrived.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The fewest requests of a queue.
pub const CLAN_MIN_REQUESTS: u32 = 16;
/// The most requests of a queue.
pub const CLAN_MAX_REQUESTS: u32 = 1024;
/// Bytes of a request.
pub const CLAN_REQUEST_SIZE: u32 = 64;
/// The longest request, in bytes.
pub const CLAN_MAX_TRANSFER: u64 = 1_073_741_824;

/// From local memory to an aperture.
pub const CLAN_DMA_WRITE: u32 = 1;
/// From an aperture to local memory.
pub const CLAN_DMA_READ: u32 = 2;

/// The next request belongs to this one: if this fails, that is skipped.
pub const CLAN_DMA_CHAIN: u32 = 1;
/// When it has ended, whatever came of it, that is an event of the endpoint, and
/// [`super::endpoint::CLAN_BIT_DMA`] is set.
pub const CLAN_DMA_NOTIFY: u32 = 2;

/// Result: not ended yet.
pub const CLAN_DMA_PENDING: u32 = 0;
/// Result: done.
pub const CLAN_DMA_DONE: u32 = 1;
/// Result: the request means nothing.
pub const CLAN_DMA_BAD_REQUEST: u32 = 2;
/// Result: the local aperture is not the owner's, or does not have all the bytes.
pub const CLAN_DMA_BAD_LOCAL: u32 = 3;
/// Result: the other host refuses a read.
pub const CLAN_DMA_REFUSED: u32 = 4;
/// Result: the other host has not answered a read in time, or there is no link.
pub const CLAN_DMA_TIMEOUT: u32 = 5;
/// Result: memory could not be reached, at either end.
pub const CLAN_DMA_MEMORY: u32 = 6;
/// Result: an earlier request of the chain failed.
pub const CLAN_DMA_SKIPPED: u32 = 7;

/// A request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ClanRequest {
    /// `CLAN_DMA_WRITE` or `CLAN_DMA_READ`.
    pub opcode: u32,
    /// `CLAN_DMA_CHAIN`, `CLAN_DMA_NOTIFY`, both or 0.
    pub flags: u32,
    /// The local memory: an aperture of the same owner, whatever that lets others do.
    pub local_aperture: u32,
    /// The aperture's host, or [`super::aperture::CLAN_GROUP_HOST`] and a group.
    pub host: u32,
    /// First byte of the local memory.
    pub local_offset: u64,
    /// The aperture's number at that host.
    pub aperture: u32,
    /// Written by the card: `CLAN_DMA_*`.
    pub result: u32,
    /// The aperture's key.
    pub key: u64,
    /// First byte of the aperture.
    pub offset: u64,
    /// Bytes, 1 to [`CLAN_MAX_TRANSFER`].
    pub length: u64,
    /// Zero.
    pub reserved: u64,
}
