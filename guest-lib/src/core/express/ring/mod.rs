//! One direction of a channel: one end writes records into shared memory, and the other end reads
//! them in place.
//!
//! **Records** follow each other at multiples of 8 bytes. A record has a header of 8 bytes, with
//! the length and the kind, and the data. A record is contiguous. If a message does not fit before
//! the ring's end, a *skip* of the rest of the ring precedes it. Once the reader has passed the
//! skip, the whole ring is free. So every message fits that is at most as long as the ring minus a
//! header.
//!
//! **Positions** count bytes of records and skips, and never wrap; the offset in the ring is the
//! position modulo its capacity. Each end owns its position and publishes it in a shared word. It
//! caches the other end's position, and refreshes the cache when the cached value leaves it nothing
//! to do. A reader publishes released bytes once they are a quarter of the ring, or when it finds
//! nothing to read.
//!
//! **Sleeping.** An end that finds nothing sets its sleep flag and then checks once more. An end
//! that moves its position then checks the other's flag. A full barrier lies between the two steps
//! on either side, so at least one end sees the other. The waker clears the flag and rings: once,
//! or rarely once too often.
//!
//! **Trust.** The other end may store anything at any time. So each word is loaded once, checked,
//! and then used, and no access leaves the ring's data. An invalid value is reported as
//! [`Nonsense`], permanently.
//!
//! Memory is accessed through [`Shared`], so that the same code runs under loom.

mod reader;
mod writer;

#[cfg(test)]
mod loom_tests;
#[cfg(test)]
mod tests;

use std::sync::atomic::Ordering;

pub(crate) use self::reader::Reader;
pub(crate) use self::writer::Writer;

/// Size of a header in bytes, and alignment of records.
pub(crate) const HEADER: u64 = 8;
const MESSAGE: u64 = 1;
const SKIP: u64 = 2;

/// The shared words of one ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Word {
    /// Total bytes written. Stored by the writer.
    Written,
    /// How the writer has ended, or 0. Polled together with [`Word::Written`].
    Ended,
    /// Total bytes released. Stored by the reader.
    Released,
    /// 1 once the reader has left. Polled together with [`Word::Released`].
    Left,
    /// 1 while the reader sleeps until there are records.
    ReaderSleeps,
    /// 1 while the writer sleeps until there is space.
    WriterSleeps,
}

/// Memory orders of loading, storing and clearing a word, in memory and under loom. The loom tests
/// fail if either of the first two is weaker.
pub(crate) const LOAD: Ordering = Ordering::Acquire;
pub(crate) const STORE: Ordering = Ordering::Release;
pub(crate) const TAKE: Ordering = Ordering::AcqRel;

/// Memory shared by both ends.
pub(crate) trait Shared {
    /// Loads a word. Later loads see what its writer stored before the word.
    fn load(&self, word: Word) -> u64;
    /// Stores a word. An end that sees it also sees all earlier stores.
    fn store(&self, word: Word, value: u64);
    /// Clears a word by an exchange. Later loads see what the other end stored before the cleared
    /// value.
    fn take(&self, word: Word);
    /// Orders our earlier stores before our later loads, for all observers.
    fn barrier(&self);
    /// Loads the header at an offset in the data.
    fn header(&self, at: u64) -> u64;
    /// Stores a header at an offset in the data.
    fn set_header(&self, at: u64, value: u64);
    /// Returns whether the writer may have written beyond this position, or ended.
    #[inline(always)]
    fn has_news(&self, written: u64) -> bool {
        self.load(Word::Written) != written || self.load(Word::Ended) != 0
    }
}

/// The other end has stored an impossible value. The channel has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Nonsense {
    /// Impossible number of written bytes.
    #[error(
        "it says to have written {value} bytes of a ring, which are from {last} to {limit} and a multiple of 8"
    )]
    Written {
        /// Value found.
        value: u64,
        /// Previous value.
        last: u64,
        /// Largest possible value.
        limit: u64,
    },
    /// Impossible number of released bytes.
    #[error(
        "it says to have released {value} bytes of a ring, which are from {last} to {limit} and a multiple of 8"
    )]
    Released {
        /// Value found.
        value: u64,
        /// Previous value.
        last: u64,
        /// Bytes written so far.
        limit: u64,
    },
    /// A record of unknown kind.
    #[error("the record at {position} is of kind {kind} (limit 2)")]
    Kind {
        /// Position of the record since the ring's creation.
        position: u64,
        /// Kind found.
        kind: u32,
    },
    /// A record longer than the written bytes, or than the rest of the ring.
    #[error("the record at {position} has {length} bytes (limit {limit})")]
    Length {
        /// Position of the record since the ring's creation.
        position: u64,
        /// Length found.
        length: u32,
        /// Largest possible length; for a skip, the required length.
        limit: u64,
    },
}

/// Location of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    /// Offset of its data in the ring's data, in bytes.
    pub(crate) at: u64,
    /// Bytes of data.
    pub(crate) length: u64,
    /// Position after the message.
    pub(crate) end: u64,
}

/// Returns the size of a message with its header.
#[inline]
fn size_of(length: u64) -> u64 {
    HEADER + length.next_multiple_of(HEADER)
}

/// Returns the size of the record that a header begins, `left` bytes before the ring's end. The
/// size of an invalid record is not more than that either.
pub(crate) fn record_size(header: u64, left: u64) -> u64 {
    match header >> 32 {
        SKIP => left,
        _ => size_of(u64::from(header as u32)).min(left),
    }
}

/// Returns the maximum message length of a ring whose reader returns credit in quarters.
pub(crate) fn half_of(capacity: u64) -> u64 {
    capacity / (2 * HEADER) * HEADER - HEADER
}

/// Wraps an offset at the end of the ring.
#[inline]
fn behind(place: u64, capacity: u64) -> u64 {
    if place == capacity { 0 } else { place }
}

/// Validates a position from the other end: between its previous value and the largest possible.
#[inline]
fn check(value: u64, last: u64, limit: u64) -> Option<u64> {
    ((last..=limit).contains(&value) && value % HEADER == 0).then_some(value)
}

/// Clears the other end's sleep flag after a store of our position. Returns whether to ring, also
/// if the other end clears the flag at the same time.
///
/// The other end may already have set its flag again, so that the new flag is cleared. On an
/// emulated processor an exchange is a load and a store, so this end cannot tell. A spurious ring
/// loses no wake-up.
#[inline]
fn must_ring(shared: &impl Shared, sleeper: Word) -> bool {
    shared.barrier();
    let sleeps = shared.load(sleeper) != 0;
    if sleeps {
        shared.take(sleeper);
    }
    sleeps
}
