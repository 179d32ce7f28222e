//! Queues of what a host is told of (sections 1 and 2): a ring in its owner's memory, of which
//! there can be any number.
//!
//! The record of an exception carries all of its message's data. `data` has the first 32 bytes if
//! there are more; the rest of `length` bytes is in [`DartPart`]s, which take the places of the
//! next records. A queue of 2,048 records has room for any message.
//!
//! The owner takes records, and stores how many to [`DART_QUEUE_TAKEN`]. If a queue is full,
//! messages that have something for it wait, and are looked at again within 1 ms.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::control::DartControl;

/// In the queue's first page, u32, stored by the owner: how many records he has taken, modulo 2^32.
pub const DART_QUEUE_TAKEN: u32 = 0x000;
/// Bytes before the records.
pub const DART_QUEUE_HEAD: u32 = 4096;
/// The fewest records of a queue.
pub const DART_MIN_RECORDS: u32 = 16;
/// The most records of a queue.
pub const DART_MAX_RECORDS: u32 = 65536;
/// Bytes of a record.
pub const DART_RECORD_SIZE: u32 = 64;

/// A message's comparison held; it has been executed.
pub const DART_RECORD_COMPARED: u32 = 1;
/// A software exception: the software is to do what the message says.
pub const DART_RECORD_EXCEPTION: u32 = 2;
/// A message was not executed: this and a `DART_TRAP_*`.
pub const DART_RECORD_TRAP: u32 = 16;
/// In the kind of an exception: the queue has fewer records than the rest of the message's data
/// takes, which is lost.
pub const DART_RECORD_CUT: u32 = 0x100;
/// Bytes of a message's data in each [`DartPart`].
pub const DART_PART: u32 = 60;

/// What a message has to tell. The `n`-th record, from 0, is at `n` modulo the queue's size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DartRecord {
    /// The message's control.
    pub control: DartControl,
    /// The data of its first cell.
    pub data: [u64; 4],
    /// Bytes of data of a message of several blocks, of which `data` has the first if there are
    /// more than 32; else 0.
    pub length: u32,
    /// Whose message it is.
    pub connection: u32,
    /// `DART_RECORD_*`.
    pub kind: u32,
    /// `n + 1`, modulo 2^32. The card writes it last.
    pub number: u32,
}

/// Data of the exception whose record is before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DartPart {
    /// The data, and zeros behind its end.
    pub data: [u8; 60],
    /// As that of a record in its place.
    pub number: u32,
}

impl DartPart {
    /// Returns how many follow the record of an exception whose message has `length` bytes of data
    /// that are not a block.
    #[must_use]
    pub const fn count(length: u32) -> u32 {
        let in_record = if length > 32 { 32 } else { 0 };
        (length - in_record).div_ceil(DART_PART)
    }
}
