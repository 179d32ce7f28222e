//! A transmission request (section 2.3): an entry of a terminus' work queue.
//!
//! The 64-byte [`HamlynRequest`] is followed by a body of up to [`HAMLYN_BODY_SIZE`] bytes:
//!
//! * direct I/O: the metadata, padded with anything to a multiple of 8 bytes, then the data;
//! * DMA ([`HAMLYN_REQUEST_DMA`]): `gather_count` tuples ([`HamlynGather`]). The bytes they name,
//!   one after the other, are the metadata and then the data. With
//!   [`HAMLYN_REQUEST_INLINE_METADATA`] the metadata is in the body, padded to a multiple of 16
//!   bytes, before the tuples, and the tuples name data alone (the redesign that section 6.2 wishes
//!   for);
//! * fetch-and-op ([`HAMLYN_REQUEST_FETCH`]): a [`HamlynFetch`].
//!
//! A remote fetch-and-op is an extension; section 5.1 says that the first proposal of Hamlyn had
//! one. The 8 bytes at `offset` in the message area are changed in one piece, after the checks that
//! a packet of 8 bytes would pass, and if the slot allows it. Nothing is notified. The request is
//! finished with once the answer is there: the word as it was is in the terminus' status words.
//! Later requests of the same terminus wait for that.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Size of an entry's body, in bytes.
pub const HAMLYN_BODY_SIZE: u32 = 448;
/// The most metadata a message carries, in bytes (Table 2).
pub const HAMLYN_MAX_METADATA: u32 = 60;
/// The most tuples a DMA request gathers from, when no metadata is in the body.
pub const HAMLYN_MAX_GATHER: u32 = 28;
/// Send buffers a terminus may have: base and bound pairs named by a tag (section 2.3).
pub const HAMLYN_SEND_BUFFERS: u32 = 8;

/// The data is gathered from send buffers.
pub const HAMLYN_REQUEST_DMA: u32 = 1;
/// The receiver gets no notification: data movement and notification are separate (section 1).
pub const HAMLYN_REQUEST_SILENT: u32 = 2;
/// The receiver is interrupted if it sleeps (section 2.6).
pub const HAMLYN_REQUEST_INTERRUPT: u32 = 4;
/// With [`HAMLYN_REQUEST_DMA`]: the metadata is in the body, before the tuples.
pub const HAMLYN_REQUEST_INLINE_METADATA: u32 = 8;
/// Remote fetch-and-op of `operation`, on its own: no other flag, no metadata, `delta` 0, `length`
/// 16, `offset` a multiple of 8.
pub const HAMLYN_REQUEST_FETCH: u32 = 16;
/// All bits that mean something; a request with another is refused.
pub const HAMLYN_REQUEST_FLAGS: u32 = 31;

/// Operation: the word plus the operand, modulo 2^64.
pub const HAMLYN_FETCH_ADD: u32 = 1;
/// Operation: the word and the operand, bit by bit.
pub const HAMLYN_FETCH_AND: u32 = 2;
/// Operation: the word or the operand, bit by bit.
pub const HAMLYN_FETCH_OR: u32 = 3;
/// Operation: the word exclusive-or the operand, bit by bit.
pub const HAMLYN_FETCH_XOR: u32 = 4;
/// Operation: the operand.
pub const HAMLYN_FETCH_SWAP: u32 = 5;
/// Operation: the operand if the word is `compare`, else the word as it is.
pub const HAMLYN_FETCH_COMPARE_SWAP: u32 = 6;

/// Metadata index that asks for fast mode (section 2.7): one packet, whose `delta` carries a word
/// for the notification.
pub const HAMLYN_FAST_MODE: u32 = 0xffff_ffff;

/// The head of a work-queue entry: basically a packet header (Table 1).
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
    /// Where the data goes, in bytes from the start of the message area.
    pub offset: u32,
    /// Data bytes in the message, metadata not counted.
    pub length: u32,
    /// Initial value Y of the packet counter (section 2.5): 0 for a message on its own. In fast
    /// mode: the word.
    pub delta: u32,
    /// Metadata bytes, 0 to [`HAMLYN_MAX_METADATA`].
    pub metadata_length: u32,
    /// Tuples in the body, for DMA.
    pub gather_count: u32,
    /// `HAMLYN_FETCH_*`, with [`HAMLYN_REQUEST_FETCH`]; else zero.
    pub operation: u32,
    /// Zero.
    pub reserved0: u64,
    /// Zero.
    pub reserved1: u64,
}

/// Where a part of a message comes from: a piece of a send buffer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HamlynGather {
    /// Send-buffer tag, 0 to 7.
    pub tag: u32,
    /// Zero.
    pub reserved: u32,
    /// Start, in bytes from the start of the send buffer.
    pub offset: u32,
    /// Bytes.
    pub length: u32,
}

/// Body of a fetch-and-op.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HamlynFetch {
    /// What the word is changed with.
    pub operand: u64,
    /// What the word must be, for [`HAMLYN_FETCH_COMPARE_SWAP`]; else not looked at.
    pub compare: u64,
}
