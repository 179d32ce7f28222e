//! File pages in place of a mapping's own pages.

use std::io;
use std::os::fd::AsFd;

use rustix::mm::{MapFlags, mmap};

use super::{Keeper, Mapping};

/// Size of a page, in bytes.
const PAGE: usize = 4096;

impl Mapping {
    /// Replaces the bytes at `offset` by `length` bytes of `file` starting at byte `from`, shared
    /// with all other mappings of the file. Works on whole pages of memory that the mapping owns. A
    /// mapping can thus show scattered pages contiguously.
    ///
    /// # Errors
    /// `EINVAL` for partial pages, for pages out of bounds, and for application memory; those of
    /// `mmap(2)`.
    pub fn show(&self, offset: usize, file: impl AsFd, from: u64, length: usize) -> io::Result<()> {
        let inside = offset.checked_add(length).is_some_and(|end| end <= self.length);
        let whole = offset % PAGE == 0 && length % PAGE == 0 && from % PAGE as u64 == 0;
        if !matches!(self.keeper, Keeper::Kernel) || !inside || !whole {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let at = self.start.as_ptr().wrapping_add(offset).cast();
        let flags = MapFlags::SHARED | MapFlags::FIXED;
        // SAFETY: pages of the mapping itself, whose bytes are accessed as atomics only, any of
        // which may change.
        unsafe { mmap(at, length, self.access.protection(), flags, file.as_fd(), from)? };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

    use super::*;

    #[test]
    fn scattered_pages_are_contiguous_and_shared() {
        let file = memfd_create("shown-test", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&file, 4 * PAGE as u64).unwrap();
        let all = Mapping::of_file(&file, 0, 4 * PAGE, super::super::Access::ReadWrite).unwrap();
        let some = Mapping::anonymous(3 * PAGE).unwrap();
        some.show(0, &file, 2 * PAGE as u64, PAGE).unwrap();
        some.show(PAGE, &file, 0, PAGE).unwrap();
        some.write(PAGE - 4, b"side by ");
        assert_eq!(
            (all.load_u32(3 * PAGE - 4), all.load_u32(0)),
            (some.load_u32(PAGE - 4), some.load_u32(PAGE))
        );
        // Replace it by another page.
        some.show(0, &file, 3 * PAGE as u64, PAGE).unwrap();
        assert_eq!(some.load_u32(PAGE - 4), 0);
        for (offset, from, length) in
            [(PAGE, 0, 3 * PAGE), (1, 0, PAGE), (0, 1, PAGE), (0, 0, 1), (usize::MAX, 0, PAGE)]
        {
            assert_eq!(
                some.show(offset, &file, from, length).unwrap_err().raw_os_error(),
                Some(libc::EINVAL)
            );
        }
        assert!(Mapping::over(vec![0; PAGE]).show(0, &file, 0, PAGE).is_err());
    }
}
