//! Contiguous mappings of several parts of a file.

use std::io;
use std::os::fd::AsFd;

use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous};

use super::{Access, Mapping};

impl Mapping {
    /// Maps parts of `file`, each an offset and a length in whole pages, contiguously in the given
    /// order.
    ///
    /// # Errors
    /// Those of `mmap(2)`; `EINVAL` for empty parts.
    pub fn of_file_parts(file: impl AsFd, parts: &[(u64, usize)], access: Access) -> io::Result<Self> {
        let length = parts.iter().map(|(_, length)| length).sum();
        let reserved = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory in use.
        let start = unsafe { mmap_anonymous(std::ptr::null_mut(), length, ProtFlags::empty(), reserved)? };
        let mapping = Self::new(start.cast(), length, access)?;
        let mut place = start.cast::<u8>();
        for (offset, length) in parts {
            let flags = MapFlags::SHARED | MapFlags::FIXED;
            // SAFETY: inside the mapping just made, which nothing uses yet.
            unsafe { mmap(place.cast(), *length, access.protection(), flags, file.as_fd(), *offset)? };
            place = place.wrapping_add(*length);
        }
        Ok(mapping)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: usize = 4096;

    #[test]
    fn parts_of_a_file_are_mapped_in_order() {
        let file = rustix::fs::memfd_create("parts-test", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&file, 4 * PAGE as u64).unwrap();
        let whole = Mapping::of_file(&file, 0, 4 * PAGE, Access::ReadWrite).unwrap();
        let parts = [(3 * PAGE as u64, PAGE), (0, 2 * PAGE)];
        let mapping = Mapping::of_file_parts(&file, &parts, Access::ReadWrite).unwrap();
        assert_eq!(mapping.length(), 3 * PAGE);
        for (here, there) in [(0, 3 * PAGE), (PAGE, 0), (3 * PAGE - 4, 2 * PAGE - 4)] {
            mapping.store_u32(here, here as u32 + 1);
            assert_eq!(whole.load_u32(there), here as u32 + 1);
        }
        assert!(Mapping::of_file_parts(&file, &[], Access::ReadWrite).is_err());
    }
}
