//! Layout of a ring in an area: a page of words, followed by the data.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU8, AtomicU64, fence};

use hamlyn_sys::{HeldWords, Mapping};

use super::pages::{PAGE, Pages};
use super::ring::{LOAD, STORE, Shared, Span, TAKE, Word};

/// Returns the offset of a word. The words that an end polls share a cache line, which the other
/// end writes for no other purpose.
#[inline(always)]
pub(crate) fn place(word: Word) -> usize {
    match word {
        Word::Written => 0,
        Word::Ended => 8,
        Word::Released => 64,
        Word::Left => 72,
        Word::ReaderSleeps => 128,
        Word::WriterSleeps => 192,
    }
}

const WORD: usize = size_of::<AtomicU64>();
/// Offset of the word that marks a live area, written by its creator. One zeroed page replaces all
/// pages of a revoked area. A process that has that page mapped may store to it, so the word is
/// only a hint.
const MADE: usize = 256;
/// Value of that word: "express" and the version of the layout.
const MADE_HERE: u64 = u64::from_le_bytes(*b"express\x01");

/// A ring's memory.
#[derive(Debug, Clone)]
pub(crate) struct RingMemory {
    memory: HeldWords,
}

impl RingMemory {
    /// Returns the size of an area for a ring of `capacity` bytes, in whole pages.
    pub(crate) fn area_for(capacity: u64) -> u64 {
        (PAGE as u64).saturating_add(capacity).checked_next_multiple_of(PAGE as u64).unwrap_or(u64::MAX)
    }

    /// Creates a ring in these pages. Returns `None` if there are fewer than two.
    pub(crate) fn of(pages: &Pages) -> Option<Self> {
        Self::over(pages.memory().clone())
    }

    /// Creates a ring in readable and writable memory of at least two whole pages. Returns `None`
    /// otherwise.
    pub(crate) fn over(memory: Arc<Mapping>) -> Option<Self> {
        let is_possible = memory.length() >= 2 * PAGE && memory.length() % PAGE == 0;
        is_possible.then(|| HeldWords::new(memory).ok().map(|memory| Self { memory })).flatten()
    }

    /// Returns the underlying mapping.
    pub(crate) fn mapping(&self) -> &Arc<Mapping> {
        self.memory.mapping()
    }

    /// Returns the ring's size in bytes.
    pub(crate) fn capacity(&self) -> u64 {
        (self.memory.mapping().length() - PAGE) as u64
    }

    /// Marks the area as live. The creator calls this before the area is mapped by the peer.
    pub(crate) fn make(&self) {
        self.at(MADE).store(MADE_HERE, Release);
    }

    /// Returns whether the area is live. If so, all earlier loads read the area and not its
    /// replacement.
    pub(crate) fn is_made(&self) -> bool {
        fence(Acquire);
        self.at(MADE).load(Relaxed) == MADE_HERE
    }

    /// Returns a message's data in place.
    #[inline]
    pub(crate) fn data(&self, span: Span) -> &[AtomicU8] {
        self.memory.cells(PAGE + span.at as usize, span.length as usize)
    }

    /// Returns the word at a multiple of 8.
    #[inline(always)]
    fn at(&self, offset: usize) -> &AtomicU64 {
        &self.memory.words()[offset / WORD]
    }
}

impl Shared for RingMemory {
    #[inline(always)]
    fn load(&self, word: Word) -> u64 {
        self.at(place(word)).load(LOAD)
    }

    #[inline(always)]
    fn store(&self, word: Word, value: u64) {
        self.at(place(word)).store(value, STORE);
    }

    #[inline]
    fn take(&self, word: Word) {
        self.at(place(word)).swap(0, TAKE);
    }

    #[inline(always)]
    fn barrier(&self) {
        hamlyn_sys::barrier::before_peer_check();
    }

    #[inline(always)]
    fn header(&self, at: u64) -> u64 {
        self.at(PAGE + at as usize).load(Relaxed)
    }

    #[inline(always)]
    fn set_header(&self, at: u64, value: u64) {
        self.at(PAGE + at as usize).store(value, Relaxed);
    }
}
