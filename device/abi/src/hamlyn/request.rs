//! A transmission request (section 2.3): an entry of a terminus' work queue.
//!
//! The 64-byte [`HamlynRequest`] is followed by a body of up to [`HAMLYN_BODY_SIZE`] bytes:
//!
//! * direct I/O: the metadata, padded with arbitrary bytes to a multiple of 8 bytes, then the data;
//! * DMA ([`HAMLYN_REQUEST_DMA`]): `gather_count` tuples ([`HamlynGather`]). The bytes they name,
//!   one after the other, are the metadata and then the data. With
//!   [`HAMLYN_REQUEST_INLINE_METADATA`] the metadata is in the body before the tuples, padded to a
//!   multiple of 16 bytes, and the tuples name only data (the redesign that section 6.2 asks for);
//! * fetch-and-op ([`HAMLYN_REQUEST_FETCH`]): a [`HamlynFetch`].
//!
//! A remote fetch-and-op is an extension; section 5.1 mentions that the first proposal of Hamlyn
//! had one. It changes the 8 bytes at `offset` in the message area atomically. The slot must allow
//! it, and the receiving card checks it like a packet of 8 bytes. The card posts no notification.
//! The request completes once the answer has arrived: the previous value of the word is in the
//! terminus' status words. Later requests of the same terminus wait for that.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Size of an entry's body, in bytes.
pub const HAMLYN_BODY_SIZE: u32 = 448;
/// Maximum metadata in a message, in bytes (Table 2).
pub const HAMLYN_MAX_METADATA: u32 = 60;
/// Maximum number of tuples in a DMA request without metadata in the body.
pub const HAMLYN_MAX_GATHER: u32 = 28;
/// Number of send buffers of a terminus: base and bound pairs named by a tag (section 2.3).
pub const HAMLYN_SEND_BUFFERS: u32 = 8;

/// The data is gathered from send buffers.
pub const HAMLYN_REQUEST_DMA: u32 = 1;
/// The receiver gets no notification: data movement and notification are separate (section 1).
pub const HAMLYN_REQUEST_SILENT: u32 = 2;
/// The receiver is interrupted if it is sleeping (section 2.6).
pub const HAMLYN_REQUEST_INTERRUPT: u32 = 4;
/// With [`HAMLYN_REQUEST_DMA`]: the metadata is in the body, before the tuples.
pub const HAMLYN_REQUEST_INLINE_METADATA: u32 = 8;
/// Remote fetch-and-op of `operation`, without other flags or metadata. `delta` is 0, `length` 16,
/// and `offset` a multiple of 8.
pub const HAMLYN_REQUEST_FETCH: u32 = 16;
/// All valid bits; a request with any other bit is refused.
pub const HAMLYN_REQUEST_FLAGS: u32 = 31;

/// Operation: adds the operand to the word, modulo 2^64.
pub const HAMLYN_FETCH_ADD: u32 = 1;
/// Operation: bitwise AND of the word and the operand.
pub const HAMLYN_FETCH_AND: u32 = 2;
/// Operation: bitwise OR of the word and the operand.
pub const HAMLYN_FETCH_OR: u32 = 3;
/// Operation: bitwise XOR of the word and the operand.
pub const HAMLYN_FETCH_XOR: u32 = 4;
/// Operation: replaces the word with the operand.
pub const HAMLYN_FETCH_SWAP: u32 = 5;
/// Operation: replaces the word with the operand if the word is `compare`; otherwise leaves it
/// unchanged.
pub const HAMLYN_FETCH_COMPARE_SWAP: u32 = 6;

/// Metadata index that selects fast mode (section 2.7): one packet, whose `delta` is a word for the
/// notification.
pub const HAMLYN_FAST_MODE: u32 = 0xffff_ffff;

/// The head of a work-queue entry, similar to a packet header (Table 1).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HamlynRequest {
    /// Destination host id, 0 to 65,535.
    pub destination: u32,
    /// Slot number at the destination.
    pub slot: u32,
    /// Index of the metadata entry within the slot's metadata area, or [`HAMLYN_FAST_MODE`].
    pub metadata_index: u32,
    /// `HAMLYN_REQUEST_*` bits.
    pub flags: u32,
    /// The slot's (in paranoid modes: the metadata entry's) protection key.
    pub key: u64,
    /// Offset of the data in the message area, in bytes.
    pub offset: u32,
    /// Bytes of data in the message, without metadata.
    pub length: u32,
    /// Initial value Y of the packet counter (section 2.5): 0 for a separate message. In fast mode:
    /// the word.
    pub delta: u32,
    /// Metadata bytes, 0 to [`HAMLYN_MAX_METADATA`].
    pub metadata_length: u32,
    /// For DMA: number of tuples in the body.
    pub gather_count: u32,
    /// With [`HAMLYN_REQUEST_FETCH`]: `HAMLYN_FETCH_*`. Otherwise zero.
    pub operation: u32,
    /// Zero.
    pub reserved0: u64,
    /// Zero.
    pub reserved1: u64,
}

/// A piece of a send buffer, from which a part of a message is gathered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HamlynGather {
    /// Send-buffer tag, 0 to 7.
    pub tag: u32,
    /// Zero.
    pub reserved: u32,
    /// Offset in the send buffer, in bytes.
    pub offset: u32,
    /// Bytes.
    pub length: u32,
}

/// Body of a fetch-and-op.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HamlynFetch {
    /// The operand of the operation.
    pub operand: u64,
    /// For [`HAMLYN_FETCH_COMPARE_SWAP`]: the expected value of the word. Otherwise ignored.
    pub compare: u64,
}
