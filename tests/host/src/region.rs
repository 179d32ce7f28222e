//! Memory of this process, and memory shared with all processes that map the same file.

use std::fs::File;
use std::io;

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use vm_memory::{FileOffset, MmapRegion};

/// Creates an in-memory file of `bytes` zeros. It backs a card's host, and programs map it as well.
pub fn shared_file(bytes: usize) -> io::Result<File> {
    let file = File::from(memfd_create("host", MemfdFlags::CLOEXEC)?);
    ftruncate(&file, bytes as u64)?;
    Ok(file)
}

pub(crate) fn zeros(bytes: usize) -> io::Result<MmapRegion> {
    MmapRegion::new(bytes).map_err(io::Error::other)
}

pub(crate) fn mapped(file: &File, bytes: usize) -> io::Result<MmapRegion> {
    MmapRegion::from_file(FileOffset::new(file.try_clone()?, 0), bytes).map_err(io::Error::other)
}
