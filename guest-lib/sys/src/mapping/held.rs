//! A mapping's words at hand: each access is checked against their number, and against nothing
//! else.

use std::io;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64};

use super::{Access, Mapping};

/// All words of 8 bytes of a mapping that may be loaded and stored, which is kept.
///
/// What [`Mapping`] asks each time - what it is, and what it allows - was asked once: of those who
/// exchange a word at a time it is a good part of what they do.
#[derive(Debug, Clone)]
pub struct HeldWords {
    start: NonNull<AtomicU64>,
    count: usize,
    mapping: Arc<Mapping>,
}

// SAFETY: the mapping is, and nothing else is pointed to.
unsafe impl Send for HeldWords {}
// SAFETY: as above.
unsafe impl Sync for HeldWords {}

impl HeldWords {
    /// Those of a mapping; what is left of it behind the last of them is not reached.
    ///
    /// # Errors
    /// `EINVAL` if it may not be both loaded and stored.
    pub fn new(mapping: Arc<Mapping>) -> io::Result<Self> {
        let count = mapping.length() / size_of::<AtomicU64>();
        let start = mapping.first_of(count, Access::ReadWrite)?;
        Ok(Self { start, count, mapping })
    }

    /// Them.
    #[must_use]
    #[inline(always)]
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: `new` has checked that so many lie there, aligned; the mapping is kept, and
        // atomics may be changed by others.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.count) }
    }

    /// So many bytes of them from `offset` on.
    ///
    /// # Panics
    /// If these are not inside.
    #[must_use]
    #[inline(always)]
    pub fn cells(&self, offset: usize, length: usize) -> &[AtomicU8] {
        let all = self.count * size_of::<AtomicU64>();
        // SAFETY: the same bytes one by one.
        let cells = unsafe { std::slice::from_raw_parts(self.start.as_ptr() as *const AtomicU8, all) };
        &cells[offset..][..length]
    }

    /// What they are of.
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
    fn they_are_those_of_the_mapping() {
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
    fn who_may_not_do_both_has_none() {
        let file = rustix::fs::memfd_create("held", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&file, 4096).unwrap();
        let mapping = Mapping::of_file(&file, 0, 4096, Access::Read).unwrap();
        assert_eq!(HeldWords::new(Arc::new(mapping)).unwrap_err().raw_os_error(), Some(libc::EINVAL));
    }

    #[test]
    #[should_panic(expected = "out of range")]
    fn none_lies_behind_the_last() {
        let _ = HeldWords::new(Arc::new(Mapping::anonymous(4096).unwrap())).unwrap().cells(4090, 7);
    }
}
