//! The DMA engine's requests (section 3.4): a queue for each endpoint, in memory that its owner has
//! mapped.
//!
//! The owner writes request `n` at `n` modulo the queue's size, then stores the count to
//! [`super::endpoint::CLAN_STATE_PUT`]. It issues a full barrier and reads
//! [`super::endpoint::CLAN_STATE_IDLE`]. If that is 1, it stores to
//! [`super::endpoint::CLAN_ENDPOINT_GO`]. So it does not ring while the queue is not empty. The
//! engine serves the endpoints that have requests in turn, one packet each. It executes the
//! requests of one endpoint in order. It writes their results, then
//! [`super::endpoint::CLAN_STATE_DONE`].
//!
//! A write completes when its last packet has left; the other host has not confirmed that it
//! arrived. If the other host refuses it, that is a fault. A read completes when its data has
//! arrived; then all earlier writes of the endpoint to that host have arrived as well.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Minimum number of requests in a queue.
pub const CLAN_MIN_REQUESTS: u32 = 16;
/// Maximum number of requests in a queue.
pub const CLAN_MAX_REQUESTS: u32 = 1024;
/// Bytes of a request.
pub const CLAN_REQUEST_SIZE: u32 = 64;
/// Maximum length of a request, in bytes.
pub const CLAN_MAX_TRANSFER: u64 = 1_073_741_824;

/// From local memory to an aperture.
pub const CLAN_DMA_WRITE: u32 = 1;
/// From an aperture to local memory.
pub const CLAN_DMA_READ: u32 = 2;

/// Request flag: the next request belongs to this one, and is skipped if this one fails.
pub const CLAN_DMA_CHAIN: u32 = 1;
/// Request flag: its completion, successful or not, is an event of the endpoint and sets
/// [`super::endpoint::CLAN_BIT_DMA`].
pub const CLAN_DMA_NOTIFY: u32 = 2;

/// Result: not completed yet.
pub const CLAN_DMA_PENDING: u32 = 0;
/// Result: done.
pub const CLAN_DMA_DONE: u32 = 1;
/// Result: the request is invalid.
pub const CLAN_DMA_BAD_REQUEST: u32 = 2;
/// Result: the local aperture has another owner, or does not contain all the bytes.
pub const CLAN_DMA_BAD_LOCAL: u32 = 3;
/// Result: the other host refused a read.
pub const CLAN_DMA_REFUSED: u32 = 4;
/// Result: the other host did not answer a read in time, or the link is down.
pub const CLAN_DMA_TIMEOUT: u32 = 5;
/// Result: memory could not be accessed, at either end.
pub const CLAN_DMA_MEMORY: u32 = 6;
/// Result: an earlier request of the chain failed.
pub const CLAN_DMA_SKIPPED: u32 = 7;

/// A request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ClanRequest {
    /// `CLAN_DMA_WRITE` or `CLAN_DMA_READ`.
    pub opcode: u32,
    /// [`CLAN_DMA_CHAIN`], [`CLAN_DMA_NOTIFY`], both or 0.
    pub flags: u32,
    /// The local memory: an aperture of the same owner, whatever access it gives to other hosts.
    pub local_aperture: u32,
    /// The aperture's host, or [`super::aperture::CLAN_GROUP_HOST`] and a group.
    pub host: u32,
    /// Offset of the first byte in the local aperture.
    pub local_offset: u64,
    /// The aperture's number on that host.
    pub aperture: u32,
    /// Written by the card: `CLAN_DMA_*`.
    pub result: u32,
    /// The aperture's key.
    pub key: u64,
    /// Offset of the first byte in the remote aperture.
    pub offset: u64,
    /// Bytes, 1 to [`CLAN_MAX_TRANSFER`].
    pub length: u64,
    /// Zero.
    pub reserved: u64,
}
