//! A ring in an area: a page of words, and the data behind it.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU8, AtomicU64, fence};

use hamlyn_sys::{HeldWords, Mapping};

use super::pages::{PAGE, Pages};
use super::ring::{HEADER, LOAD, STORE, Shared, Span, TAKE, Word};

/// Where a word lies. What an end polls is on one cache line, with nothing that the other writes
/// for another reason.
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

/// Bytes of a word.
const WORD: usize = size_of::<AtomicU64>();
/// Where a word lies that says whether the area is there: its maker writes it, and the page that is
/// shown in the stead of all of an area's has zeros, until whoever has mapped it stores there: it
/// is a hint.
const MADE: usize = 256;
/// What it is: "express" and the layout's version.
const MADE_HERE: u64 = u64::from_le_bytes(*b"express\x01");

/// A ring's memory.
#[derive(Debug, Clone)]
pub(crate) struct RingMemory {
    memory: HeldWords,
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

    /// In memory of whole pages, two at least, that may be loaded and stored; none if it is not.
    pub(crate) fn over(memory: Arc<Mapping>) -> Option<Self> {
        let is_possible = memory.length() >= 2 * PAGE && memory.length() % PAGE == 0;
        is_possible.then(|| HeldWords::new(memory).ok().map(|memory| Self { memory })).flatten()
    }

    /// Returns the memory that it lies in.
    pub(crate) fn mapping(&self) -> &Arc<Mapping> {
        self.memory.mapping()
    }

    /// Bytes of the ring.
    pub(crate) fn capacity(&self) -> u64 {
        (self.memory.mapping().length() - PAGE) as u64
    }

    /// Says that it is there: its maker, before anybody maps it.
    pub(crate) fn make(&self) {
        self.at(MADE).store(MADE_HERE, Release);
    }

    /// Whether it is there. Whatever was loaded before was the area's then, and not what is shown
    /// in its stead.
    pub(crate) fn is_made(&self) -> bool {
        fence(Acquire);
        self.at(MADE).load(Relaxed) == MADE_HERE
    }

    /// A message's data in place.
    #[inline]
    pub(crate) fn data(&self, span: Span) -> &[AtomicU8] {
        self.memory.cells(PAGE + span.at as usize, span.length as usize)
    }

    /// The word at a multiple of 8.
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

/// Bytes of a ring for messages of so many.
pub(crate) fn capacity_for(longest: u64) -> u64 {
    RingMemory::area_for(longest.saturating_add(HEADER)).saturating_sub(PAGE as u64)
}
