//! A ring in an area: a page of words, and the data behind it.

use std::sync::Arc;
use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use hamlyn_sys::Mapping;

use super::pages::{PAGE, Pages};
use super::ring::{HEADER, Shared, Span, Word};

/// Where a word lies. What an end polls is on one cache line, with nothing that the other writes for another reason.
fn place(word: Word) -> usize {
    match word {
        Word::Written => 0,
        Word::Ended => 8,
        Word::Released => 64,
        Word::ReaderSleeps => 128,
        Word::WriterSleeps => 192,
    }
}

/// Where a word lies that says whether the area is there: its maker writes it, and memory in its stead has zero.
const MADE: usize = 256;
/// What it is: "express" and the layout's version.
const MADE_HERE: u64 = u64::from_le_bytes(*b"express\x01");

/// A ring's memory.
#[derive(Debug, Clone)]
pub(crate) struct RingMemory {
    memory: Arc<Mapping>,
}

impl RingMemory {
    /// Bytes of an area for a ring of so many, in whole pages.
    pub(crate) fn area_for(capacity: u64) -> u64 {
        (PAGE as u64).saturating_add(capacity).checked_next_multiple_of(PAGE as u64).unwrap_or(u64::MAX)
    }

    /// In these pages, two at least; none if there are fewer.
    pub(crate) fn of(pages: &Pages) -> Option<Self> {
        Self::over(pages.memory().clone())
    }

    /// In memory of whole pages, two at least; none if it is not.
    pub(crate) fn over(memory: Arc<Mapping>) -> Option<Self> {
        (memory.length() >= 2 * PAGE && memory.length() % PAGE == 0).then_some(Self { memory })
    }

    /// Bytes of the ring.
    pub(crate) fn capacity(&self) -> u64 {
        (self.memory.length() - PAGE) as u64
    }

    /// Says that it is there: its maker, before anybody maps it.
    pub(crate) fn make(&self) {
        self.memory.store_u64_release(MADE, MADE_HERE);
    }

    /// Whether it is there.
    pub(crate) fn is_made(&self) -> bool {
        self.memory.load_u64(MADE) == MADE_HERE
    }

    /// A message's data in place.
    #[inline]
    pub(crate) fn data(&self, span: Span) -> &[AtomicU8] {
        self.memory.cells(PAGE + span.at as usize, span.length as usize)
    }

    fn word(&self, word: Word) -> &std::sync::atomic::AtomicU64 {
        &self.memory.long_words(place(word), 1)[0]
    }
}

impl Shared for RingMemory {
    #[inline]
    fn load(&self, word: Word) -> u64 {
        self.word(word).load(Acquire)
    }

    #[inline]
    fn store(&self, word: Word, value: u64) {
        self.word(word).store(value, Release);
    }

    #[inline]
    fn take(&self, word: Word) -> u64 {
        self.word(word).swap(0, AcqRel)
    }

    #[inline]
    fn barrier(&self) {
        hamlyn_sys::barrier::before_peer_check();
    }

    #[inline]
    fn header(&self, at: u64) -> u64 {
        self.memory.long_words(PAGE + at as usize, 1)[0].load(Relaxed)
    }

    #[inline]
    fn set_header(&self, at: u64, value: u64) {
        self.memory.long_words(PAGE + at as usize, 1)[0].store(value, Relaxed);
    }
}

/// Bytes of a ring for messages of so many.
pub(crate) fn capacity_for(longest: u64) -> u64 {
    RingMemory::area_for(longest.saturating_add(HEADER)).saturating_sub(PAGE as u64)
}
