//! Memory that a card shares with the processes that map it.

use std::cell::RefCell;
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use vm_memory::{MmapRegion, VolatileMemory, VolatileSlice};

use crate::engine::violation::Violation;

/// A range of the simulation's own memory. Callers make sure that offsets are in range and that
/// words are aligned.
pub(crate) trait Shared: Debug + Send + Sync {
    fn length(&self) -> usize;

    fn read(&self, at: usize, into: &mut [u8]);

    fn write(&self, at: usize, bytes: &[u8]);

    /// Loads a word (acquire).
    fn load(&self, at: usize) -> u32;

    /// Stores a word (release).
    fn store(&self, at: usize, value: u32);
}

/// Memory that no process has mapped.
#[derive(Debug)]
pub(crate) struct Region(MmapRegion);

impl Region {
    fn at(&self, at: usize, length: usize) -> VolatileSlice<'_> {
        self.0.get_slice(at, length).expect("bytes of the region")
    }
}

impl Shared for Region {
    fn length(&self) -> usize {
        self.0.size()
    }

    fn read(&self, at: usize, into: &mut [u8]) {
        self.at(at, into.len()).copy_to(into);
    }

    fn write(&self, at: usize, bytes: &[u8]) {
        self.at(at, bytes.len()).copy_from(bytes);
    }

    fn load(&self, at: usize) -> u32 {
        let word = self.0.get_atomic_ref::<AtomicU32>(at).expect("a word of the region");
        u32::from_le(word.load(Ordering::Acquire))
    }

    fn store(&self, at: usize, value: u32) {
        let word = self.0.get_atomic_ref::<AtomicU32>(at).expect("a word of the region");
        word.store(value.to_le(), Ordering::Release);
    }
}

/// Memory that earlier simulations of a thread have used.
pub(crate) type Pool<T> = RefCell<Vec<Arc<T>>>;

/// Returns memory that an earlier simulation of this thread may have used, with arbitrary contents.
/// Mapping and unmapping it for each simulation would cost more than the simulation.
pub(crate) fn recycled<T: Shared>(
    pool: &Pool<T>,
    length: u64,
    make: impl FnOnce(usize) -> Result<T, Violation>,
) -> Result<Arc<T>, Violation> {
    let mut pool = pool.borrow_mut();
    let fits = |shared: &&Arc<T>| shared.length() as u64 == length && Arc::strong_count(shared) == 1;
    if let Some(shared) = pool.iter().find(fits) {
        return Ok(shared.clone());
    }
    let shared = Arc::new(make(length as usize)?);
    pool.push(shared.clone());
    Ok(shared)
}

/// Returns a [`recycled`] region.
pub(crate) fn region(length: u64) -> Result<Arc<Region>, Violation> {
    thread_local! {
        static REGIONS: Pool<Region> = const { RefCell::new(Vec::new()) };
    }
    REGIONS.with(|regions| {
        recycled(regions, length, |length| MmapRegion::new(length).map(Region).map_err(Violation::new))
    })
}
