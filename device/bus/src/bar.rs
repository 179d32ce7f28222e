//! Memory that the guest maps: the pages of a BAR, shared through a sealed memfd.

use crate::description::PAGE_SIZE;
use rustix::fs::{
    FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, ftruncate, memfd_create,
};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use thiserror::Error;
use vm_memory::{Bytes, FileOffset, MmapRegion, VolatileMemory, VolatileSlice};

/// Ranges below this size are zeroed by writing. In larger ranges, whole pages are returned to the
/// system.
const FEW: u64 = 32 * PAGE_SIZE;

/// An access outside the window, or one that is not naturally aligned.
#[derive(Debug, Error, Clone, Copy, PartialEq, Eq)]
#[error("{length} bytes at offset {offset:#x} are misaligned or outside the window (size {limit:#x})")]
pub struct BoundsError {
    /// Offset from the start of the window.
    pub offset: u64,
    /// Length of the access in bytes.
    pub length: u64,
    /// Size of the window in bytes.
    pub limit: u64,
}

/// A window on the shared pages of one BAR. It is cheap to clone and to narrow: a card takes its
/// windows once and keeps them.
///
/// The guest may change any of these bytes at any time: read a value once, check it, use that copy.
/// Numbers are little-endian in memory, as everywhere on PCI.
#[derive(Debug, Clone)]
pub struct SharedPages {
    region: Arc<MmapRegion>,
    offset: usize,
    length: usize,
}

macro_rules! atomics {
    ($load:ident, $store:ident, $type:ty) => {
        /// Loads a little-endian number. `offset` must be a multiple of its size.
        ///
        /// # Panics
        /// If `ordering` is not valid for a load (`Release`, `AcqRel`).
        pub fn $load(&self, offset: u64, ordering: Ordering) -> Result<$type, BoundsError> {
            let slice = self.slice(offset, size_of::<$type>())?;
            slice.load(0, ordering).map(<$type>::from_le).map_err(|_| self.bounds(offset, slice.len()))
        }

        /// Stores a little-endian number. `offset` must be a multiple of its size.
        ///
        /// # Panics
        /// If `ordering` is not valid for a store (`Acquire`, `AcqRel`).
        pub fn $store(&self, offset: u64, value: $type, ordering: Ordering) -> Result<(), BoundsError> {
            let slice = self.slice(offset, size_of::<$type>())?;
            slice.store(value.to_le(), 0, ordering).map_err(|_| self.bounds(offset, slice.len()))
        }
    };
}

impl SharedPages {
    /// Allocates `size` zeroed bytes in a new memfd that cannot be shrunk or grown. If a page
    /// vanished, an access to it would kill the process, QEMU or this one.
    pub(crate) fn new(name: &str, size: u64) -> io::Result<Self> {
        let length = usize::try_from(size).map_err(io::Error::other)?;
        let memfd = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&memfd, size)?;
        fcntl_add_seals(&memfd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let file = FileOffset::new(File::from(memfd), 0);
        let region = MmapRegion::from_file(file, length).map_err(io::Error::other)?;
        Ok(SharedPages { region: Arc::new(region), offset: 0, length })
    }

    /// Returns the memfd, for a client that asks for the region.
    pub(crate) fn duplicate_fd(&self) -> io::Result<OwnedFd> {
        let file = self.region.file_offset().ok_or(io::ErrorKind::NotFound)?;
        Ok(file.file().try_clone()?.into())
    }

    /// Returns the size of the window in bytes.
    pub fn len(&self) -> u64 {
        self.length as u64
    }

    /// Whether the window is empty.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Returns a part of this window as a separate window.
    pub fn window(&self, offset: u64, length: u64) -> Result<SharedPages, BoundsError> {
        let start = self.start(offset, length)?;
        Ok(SharedPages { region: Arc::clone(&self.region), offset: start, length: length as usize })
    }

    /// Returns a part of this window's bytes.
    pub fn slice(&self, offset: u64, length: usize) -> Result<VolatileSlice<'_>, BoundsError> {
        let start = self.start(offset, length as u64)?;
        self.region.get_slice(start, length).map_err(|_| self.bounds(offset, length))
    }

    atomics!(load_u32, store_u32, u32);
    atomics!(load_u64, store_u64, u64);

    /// Copies bytes out. Not atomic: the guest may be writing them.
    pub fn read_bytes(&self, offset: u64, destination: &mut [u8]) -> Result<(), BoundsError> {
        self.slice(offset, destination.len())?.copy_to(destination);
        Ok(())
    }

    /// Copies bytes in. Not atomic: the guest may be reading them.
    pub fn write_bytes(&self, offset: u64, source: &[u8]) -> Result<(), BoundsError> {
        self.slice(offset, source.len())?.copy_from(source);
        Ok(())
    }

    /// Zeroes `length` bytes. In large ranges, whole pages are returned to the system. The time for
    /// that grows with the number of pages that were touched, but touching them took longer.
    pub fn clear(&self, offset: u64, length: u64) -> Result<(), BoundsError> {
        let start = self.start(offset, length)? as u64;
        let first = start.next_multiple_of(PAGE_SIZE);
        let last = (start + length) / PAGE_SIZE * PAGE_SIZE;
        let file = self.region.file_offset().filter(|_| last >= first + FEW);
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        if file.is_some_and(|file| fallocate(file.file(), flags, first, last - first).is_ok()) {
            self.zero(offset, first - start)?;
            let done = last - start;
            return self.zero(offset + done, length - done);
        }
        self.zero(offset, length)
    }

    fn zero(&self, offset: u64, length: u64) -> Result<(), BoundsError> {
        let zeroes = [0; 4096];
        for start in (0..length).step_by(zeroes.len()) {
            let count = zeroes.len().min((length - start) as usize);
            self.write_bytes(offset + start, &zeroes[..count])?;
        }
        Ok(())
    }

    fn start(&self, offset: u64, length: u64) -> Result<usize, BoundsError> {
        let end = offset.checked_add(length).filter(|end| *end <= self.len());
        match end {
            Some(_) => Ok(self.offset + offset as usize),
            None => Err(BoundsError { offset, length, limit: self.len() }),
        }
    }

    fn bounds(&self, offset: u64, length: usize) -> BoundsError {
        BoundsError { offset, length: length as u64, limit: self.len() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_share_bytes_and_are_bounded() {
        let pages = SharedPages::new("test", 8192).unwrap();
        let window = pages.window(4096, 64).unwrap();
        window.store_u32(4, 0x1234_5678, Ordering::Release).unwrap();
        let mut bytes = [0; 4];
        pages.read_bytes(4100, &mut bytes).unwrap();
        assert_eq!(bytes, [0x78, 0x56, 0x34, 0x12]);
        assert_eq!(pages.load_u64(4096, Ordering::Acquire), Ok(0x1234_5678_0000_0000));
        assert_eq!(
            window.load_u32(64, Ordering::Relaxed),
            Err(BoundsError { offset: 64, length: 4, limit: 64 })
        );
        assert!(window.window(1, 64).is_err());
        assert!(pages.slice(u64::MAX, 2).is_err());
    }

    #[test]
    fn misaligned_numbers_are_refused() {
        let pages = SharedPages::new("test", 4096).unwrap();
        assert!(pages.load_u32(2, Ordering::Acquire).is_err());
        assert!(pages.store_u64(4, 1, Ordering::Release).is_err());
        assert_eq!(pages.load_u64(0, Ordering::Relaxed), Ok(0));
    }

    #[test]
    fn clear_zeroes_exactly_its_range() {
        let pages = SharedPages::new("test", 1 << 20).unwrap();
        let all = vec![0xee; 1 << 20];
        for (offset, length) in
            [(1, 9000), (4096, 8192), (0, 1 << 20), (5000, 900_001), (70, 0), (3, 300_000)]
        {
            pages.write_bytes(0, &all).unwrap();
            // The window does not begin at the start of the file.
            let window = pages.window(100, (1 << 20) - 100).unwrap();
            let length = length.min(window.len() - offset);
            window.clear(offset, length).unwrap();
            let mut bytes = vec![0; 1 << 20];
            pages.read_bytes(0, &mut bytes).unwrap();
            let cleared = (100 + offset) as usize..(100 + offset + length) as usize;
            assert!(bytes.iter().enumerate().all(|(at, byte)| (*byte == 0) == cleared.contains(&at)));
        }
        assert!(pages.clear(1, 1 << 20).is_err());
    }

    #[test]
    fn clearing_many_pages_frees_touched_memory() {
        let pages = SharedPages::new("test", 64 << 20).unwrap();
        let memory = || rustix::fs::fstat(pages.duplicate_fd().unwrap()).unwrap().st_blocks;
        pages.clear(0, 64 << 20).unwrap();
        assert_eq!(memory(), 0, "nothing was touched");
        pages.write_bytes(1 << 20, &[1; 8192]).unwrap();
        assert_ne!(memory(), 0);
        pages.clear(0, 64 << 20).unwrap();
        assert_eq!(memory(), 0);
        assert_eq!(pages.load_u32(1 << 20, Ordering::Relaxed), Ok(0));
    }

    #[test]
    fn the_memfd_cannot_change_its_size() {
        let pages = SharedPages::new("test", 4096).unwrap();
        let fd = pages.duplicate_fd().unwrap();
        assert!(ftruncate(&fd, 0).is_err());
        assert!(ftruncate(&fd, 8192).is_err());
        assert!(fcntl_add_seals(&fd, SealFlags::WRITE).is_err());
    }
}
