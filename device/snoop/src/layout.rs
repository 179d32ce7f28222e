//! Layout of the memory that card and plugin share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use hamlyn_fabric::index::{Name, Words};
use thiserror::Error;
use vm_memory::{MmapRegion, VolatileMemory, VolatileSlice};

use crate::live::Board;
use crate::store::{PAGE, RECORD_BYTES};

const CACHE_LINE: usize = 64;
/// Bytes before the bit map.
const HEADER_BYTES: usize = PAGE as usize;
/// Offsets of the two words that are not the ring's, behind its four.
const WATCH: usize = 4 * CACHE_LINE;
const LIVE: usize = 5 * CACHE_LINE;

/// How many pages can be watched, and how many stores can wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Pages of guest-physical memory, from address 0 on.
    pub pages: u64,
    /// Number of stores in the ring, a power of two.
    pub records: u64,
}

impl Default for Size {
    /// 4 GiB; 32768 stores, which take 1 MiB.
    fn default() -> Size {
        Size { pages: 1 << 20, records: 1 << 15 }
    }
}

/// Invalid sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum SizeError {
    /// Too few or too many pages.
    #[error("{0} pages cannot be watched (from 1 to {MAX_PAGES})")]
    Pages(u64),
    /// Not a power of two, or out of range.
    #[error("a ring of {0} stores is not possible (a power of two from {MIN_RECORDS} to {MAX_RECORDS})")]
    Records(u64),
}

/// 1 TiB.
const MAX_PAGES: u64 = 1 << 28;
/// Two, because a store that crosses a page is two records.
const MIN_RECORDS: u64 = 2;
const MAX_RECORDS: u64 = 1 << 24;

impl Size {
    /// Checks the sizes.
    pub fn validate(self) -> Result<(), SizeError> {
        if !(1..=MAX_PAGES).contains(&self.pages) {
            return Err(SizeError::Pages(self.pages));
        }
        if !self.records.is_power_of_two() || !(MIN_RECORDS..=MAX_RECORDS).contains(&self.records) {
            return Err(SizeError::Records(self.records));
        }
        Ok(())
    }

    /// Returns the number of 64-bit words with one bit for each page.
    pub(crate) fn bit_words(self) -> usize {
        self.pages.div_ceil(64) as usize
    }

    /// Returns the ring's size in bytes.
    pub(crate) fn capacity(self) -> u64 {
        self.records * RECORD_BYTES as u64
    }

    /// Returns the offset of the records.
    fn ring(self) -> usize {
        (HEADER_BYTES + 8 * self.bit_words()).next_multiple_of(PAGE as usize)
    }

    /// Returns the memory's size in bytes.
    pub(crate) fn bytes(self) -> usize {
        self.ring() + self.capacity() as usize
    }
}

/// The memory, as seen by either side.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    region: Arc<MmapRegion>,
    pub(crate) size: Size,
}

impl Layout {
    /// Expects a valid size, and a region with at least that many bytes.
    pub(crate) fn new(region: Arc<MmapRegion>, size: Size) -> Layout {
        Layout { region, size }
    }

    #[inline]
    fn word(&self, offset: usize) -> &AtomicU64 {
        self.region.get_atomic_ref(offset).expect("the memory is as large as its size says")
    }

    /// Returns the watch word. Bit 0: whether any page is watched. The bits above it count the
    /// changes.
    #[inline]
    pub(crate) fn watch(&self) -> &AtomicU64 {
        self.word(WATCH)
    }

    /// Returns the bits of 64 pages, or `None` beyond the last.
    pub(crate) fn bits(&self, word: usize) -> Option<&AtomicU64> {
        (word < self.size.bit_words()).then(|| self.word(HEADER_BYTES + 8 * word))
    }

    /// Returns the record at a position of the ring.
    pub(crate) fn record(&self, position: u64) -> VolatileSlice<'_> {
        let offset = (position & (self.size.capacity() - 1)) as usize;
        let record = self.region.get_slice(self.size.ring() + offset, RECORD_BYTES);
        record.expect("positions are multiples of a record, and the ring is as large as its size says")
    }
}

impl Words for Layout {
    fn load(&self, name: Name, ordering: Ordering) -> u64 {
        self.word(name as usize * CACHE_LINE).load(ordering)
    }

    fn store(&self, name: Name, value: u64, ordering: Ordering) {
        self.word(name as usize * CACHE_LINE).store(value, ordering);
    }

    fn fence_between_store_and_look(&self) {
        fence(Ordering::SeqCst);
    }
}

impl Board for Layout {
    fn load_watch(&self, ordering: Ordering) -> u64 {
        self.watch().load(ordering)
    }

    fn load_live(&self, ordering: Ordering) -> u64 {
        self.word(LIVE).load(ordering)
    }

    fn store_live(&self, live: u64, ordering: Ordering) {
        self.word(LIVE).store(live, ordering);
    }

    fn fence_between_store_and_look(&self) {
        fence(Ordering::SeqCst);
    }
}
