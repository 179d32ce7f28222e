//! Queues of events and exceptions (sections 1 and 2): rings in their owner's memory, any number of
//! them.
//!
//! The record of an exception carries all data of its message. If there are more than 32 bytes,
//! `data` has the first 32. The rest of the `length` bytes is in [`DartPart`]s, in the places of
//! the next records. A queue of 2,048 records has room for any message.
//!
//! The owner takes records, and stores their number to [`DART_QUEUE_TAKEN`]. If a queue is full,
//! messages with a record for it wait; the card retries them within 1 ms.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::control::DartControl;

/// In the queue's first page, u32, stored by the owner: number of records that it has taken, modulo
/// 2^32.
pub const DART_QUEUE_TAKEN: u32 = 0x000;
/// Bytes before the records.
pub const DART_QUEUE_HEAD: u32 = 4096;
/// Minimum number of records in a queue.
pub const DART_MIN_RECORDS: u32 = 16;
/// Maximum number of records in a queue.
pub const DART_MAX_RECORDS: u32 = 65536;
/// Bytes of a record.
pub const DART_RECORD_SIZE: u32 = 64;

/// Kind: a message's comparison held, and the message was executed.
pub const DART_RECORD_COMPARED: u32 = 1;
/// Kind: a software exception. The software executes the message.
pub const DART_RECORD_EXCEPTION: u32 = 2;
/// Kind: a message was not executed. A `DART_TRAP_*` is added to this.
pub const DART_RECORD_TRAP: u32 = 16;
/// In the kind of an exception: the rest of the message's data does not fit even into the empty
/// queue, and is lost.
pub const DART_RECORD_CUT: u32 = 0x100;
/// Bytes of a message's data in each [`DartPart`].
pub const DART_PART: u32 = 60;

/// A record of a message. Record `n`, counted from 0, is at `n` modulo the queue's size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DartRecord {
    /// The message's control.
    pub control: DartControl,
    /// The data of its first cell.
    pub data: [u64; 4],
    /// Bytes of data of a message of several blocks, otherwise 0. If there are more than 32, `data`
    /// has the first of them.
    pub length: u32,
    /// The connection that the message arrived on.
    pub connection: u32,
    /// Kind of record, `DART_RECORD_*`.
    pub kind: u32,
    /// `n + 1`, modulo 2^32. The card writes it last.
    pub number: u32,
}

/// More data of an exception, behind its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DartPart {
    /// The data, padded with zeros.
    pub data: [u8; 60],
    /// Like the number of a record in this place.
    pub number: u32,
}

impl DartPart {
    /// Returns the number of parts that follow the record of an exception whose message has
    /// `length` bytes of data that are not a block.
    #[must_use]
    pub const fn count(length: u32) -> u32 {
        let in_record = if length > 32 { 32 } else { 0 };
        (length - in_record).div_ceil(DART_PART)
    }
}
