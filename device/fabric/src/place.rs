//! Layout of a ring in shared memory, and access to its words and data.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use vm_memory::{MmapRegion, VolatileMemory, VolatileSlice};

use crate::geometry::Geometry;
use crate::groups::Roll;
use crate::index::{Name, Words};
use crate::stop::{BIT_WORDS, Board};

pub(crate) const CACHE_LINE: usize = 64;
/// Offset of the stop bits of one ring: after its indices.
const STOP_BITS: usize = 4 * CACHE_LINE;
/// Offset of the count of resumptions.
const RESUMPTIONS: usize = STOP_BITS + 8 * BIT_WORDS;
/// Offset of the producer's group memberships.
const GROUPS: usize = RESUMPTIONS + CACHE_LINE;
/// Bytes before a ring's data.
const INDEX_BYTES: usize = GROUPS + CACHE_LINE;

/// Returns the bytes of shared memory that a ring takes.
pub(crate) fn ring_bytes(geometry: Geometry) -> usize {
    INDEX_BYTES + geometry.capacity
}

/// A ring's location in a mapping.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) region: Arc<MmapRegion>,
    pub(crate) base: usize,
    pub(crate) geometry: Geometry,
}

impl Place {
    /// Returns the ring at `base`. The geometry must be valid.
    pub(crate) fn new(region: Arc<MmapRegion>, base: usize, geometry: Geometry) -> io::Result<Place> {
        let end = base + ring_bytes(geometry);
        if end > region.size() || base % CACHE_LINE != 0 {
            return Err(io::Error::other(format!("ring ends at {end} (limit {})", region.size())));
        }
        Ok(Place { region, base, geometry })
    }

    fn word(&self, name: Name) -> &AtomicU64 {
        self.word_at(name as usize * CACHE_LINE)
    }

    fn word_at(&self, offset: usize) -> &AtomicU64 {
        let word = self.region.get_atomic_ref(self.base + offset);
        word.expect("`new` has checked that the index lines lie in the mapping")
    }

    /// Returns a range of the data, which must not wrap, or `None` if it lies outside.
    pub(crate) fn data(&self, offset: u64, length: usize) -> Option<VolatileSlice<'_>> {
        let offset = usize::try_from(offset).ok()?;
        if offset.checked_add(length)? > self.geometry.capacity {
            return None;
        }
        self.region.get_slice(self.base + INDEX_BYTES + offset, length).ok()
    }

    pub(crate) fn offset(&self, position: u64) -> u64 {
        position & (self.geometry.capacity as u64 - 1)
    }

    /// Returns the bytes from a position to the end of the ring.
    pub(crate) fn rest(&self, position: u64) -> u64 {
        self.geometry.capacity as u64 - self.offset(position)
    }
}

impl Words for Place {
    fn load(&self, name: Name, ordering: Ordering) -> u64 {
        self.word(name).load(ordering)
    }

    fn store(&self, name: Name, value: u64, ordering: Ordering) {
        self.word(name).store(value, ordering);
    }

    fn fence_between_store_and_look(&self) {
        fence(Ordering::SeqCst);
    }
}

impl Board for Place {
    fn load_bits(&self, word: usize, ordering: Ordering) -> u64 {
        self.word_at(STOP_BITS + 8 * word).load(ordering)
    }

    fn store_bits(&self, word: usize, bits: u64, ordering: Ordering) {
        self.word_at(STOP_BITS + 8 * word).store(bits, ordering);
    }

    fn load_resumptions(&self, ordering: Ordering) -> u64 {
        self.word_at(RESUMPTIONS).load(ordering)
    }

    fn store_resumptions(&self, count: u64, ordering: Ordering) {
        self.word_at(RESUMPTIONS).store(count, ordering);
    }
}

impl Roll for Place {
    fn load_groups(&self, ordering: Ordering) -> u64 {
        self.word_at(GROUPS).load(ordering)
    }

    fn store_groups(&self, groups: u64, ordering: Ordering) {
        self.word_at(GROUPS).store(groups, ordering);
    }
}
