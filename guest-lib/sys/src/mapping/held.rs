//! Direct access to a mapping's words: each access is only checked against their number.

use std::io;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64};

use super::{Access, Mapping};

/// All words of 8 bytes of a readable and writable mapping, which is kept alive.
///
/// [`Mapping`] checks its kind and its allowed access each time; here they were checked once. For
/// programs that exchange single words these checks are a significant part of the cost.
#[derive(Debug, Clone)]
pub struct HeldWords {
    start: NonNull<AtomicU64>,
    count: usize,
    mapping: Arc<Mapping>,
}

// SAFETY: the mapping is `Send`, and there are no other pointers.
unsafe impl Send for HeldWords {}
// SAFETY: as above.
unsafe impl Sync for HeldWords {}

impl HeldWords {
    /// Creates the view of a mapping. A partial word at its end is not accessible.
    ///
    /// # Errors
    /// `EINVAL` if loads or stores are not allowed.
    pub fn new(mapping: Arc<Mapping>) -> io::Result<Self> {
        let count = mapping.length() / size_of::<AtomicU64>();
        let start = mapping.first_of(count, Access::ReadWrite)?;
        Ok(Self { start, count, mapping })
    }

    /// Returns the words.
    #[must_use]
    #[inline(always)]
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: `new` has checked that `count` words lie there, aligned. The mapping is kept
        // alive, and atomics may be changed by others.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.count) }
    }

    /// Returns `length` bytes of the words, starting at `offset`.
    ///
    /// # Panics
    /// If the bytes are out of bounds.
    #[must_use]
    #[inline(always)]
    pub fn cells(&self, offset: usize, length: usize) -> &[AtomicU8] {
        let all = self.count * size_of::<AtomicU64>();
        // SAFETY: the same bytes one by one.
        let cells = unsafe { std::slice::from_raw_parts(self.start.as_ptr() as *const AtomicU8, all) };
        &cells[offset..][..length]
    }

    /// Returns the mapping of the words.
    #[must_use]
    pub fn mapping(&self) -> &Arc<Mapping> {
        &self.mapping
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    #[test]
    fn held_words_are_those_of_the_mapping() {
        let mapping = Arc::new(Mapping::anonymous(4096).unwrap());
        let held = HeldWords::new(mapping.clone()).unwrap();
        held.words()[511].store(0x0102_0304_0506_0708, Relaxed);
        assert_eq!(mapping.load_u64(4088), 0x0102_0304_0506_0708);
        let cells: Vec<u8> = held.cells(4090, 3).iter().map(|cell| cell.load(Relaxed)).collect();
        assert_eq!((cells, held.words().len()), (vec![6, 5, 4], 512));
        drop(mapping);
        assert_eq!(held.cells(4096, 0).len(), 0);
    }

    #[test]
    fn read_only_mapping_has_no_held_words() {
        let file = rustix::fs::memfd_create("held", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&file, 4096).unwrap();
        let mapping = Mapping::of_file(&file, 0, 4096, Access::Read).unwrap();
        assert_eq!(HeldWords::new(Arc::new(mapping)).unwrap_err().raw_os_error(), Some(libc::EINVAL));
    }

    #[test]
    #[should_panic(expected = "out of range")]
    fn cells_past_last_word_panic() {
        let _ = HeldWords::new(Arc::new(Mapping::anonymous(4096).unwrap())).unwrap().cells(4090, 7);
    }
}
