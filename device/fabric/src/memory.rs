//! Memory that two processes share: a file without a name, sealed so that neither side can take it
//! away from the other.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{
    MemfdFlags, OFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fcntl_getfl, fstatfs, ftruncate,
    memfd_create,
};
use vm_memory::{FileOffset, MmapRegion};

/// Type that `statfs` reports for huge-page memory.
const HUGETLBFS_MAGIC: u64 = 0x9584_58f6;

/// Shared memory, mapped.
#[derive(Debug, Clone)]
pub struct Sealed {
    /// The file, to be passed on.
    pub file: Arc<File>,
    /// This process's mapping of it.
    pub region: Arc<MmapRegion>,
}

impl Sealed {
    /// Returns `bytes` bytes of zeros in a new file that no other process has yet. The name is for
    /// people who inspect a process.
    pub fn new(name: &str, bytes: usize) -> io::Result<Sealed> {
        Sealed::map(File::from(make(name, bytes as u64)?), bytes)
    }

    /// Adopts another process's memory and maps its first `bytes` bytes. Fails if it is not sealed,
    /// writable and large enough.
    pub fn adopt(memory: OwnedFd, bytes: usize) -> io::Result<Sealed> {
        Sealed::map(check(memory, "ring", bytes as u64)?, bytes)
    }

    fn map(file: File, wanted: usize) -> io::Result<Sealed> {
        let file = Arc::new(file);
        let region = MmapRegion::from_file(FileOffset::from_arc(file.clone(), 0), wanted);
        Ok(Sealed { file, region: Arc::new(region.map_err(io::Error::other)?) })
    }
}

/// Creates a file of `bytes` bytes of zeros whose size cannot be changed.
pub(crate) fn make(name: &str, bytes: u64) -> io::Result<OwnedFd> {
    let memory = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    ftruncate(&memory, bytes)?;
    fcntl_add_seals(&memory, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    Ok(memory)
}

/// Checks that another process's file is memory that cannot vanish, is large enough, and is
/// writable.
pub(crate) fn check(memory: OwnedFd, what: &str, wanted: u64) -> io::Result<File> {
    // The seals are checked first. Only memory files have seals, and this query does not go to a
    // file system, which might be another process that never answers. Without the seal the other
    // process could shrink the file, and our next access would raise SIGBUS.
    let seals =
        fcntl_get_seals(&memory).map_err(|_| io::Error::other(format!("{what} memory is not a memfd")))?;
    if !seals.contains(SealFlags::SHRINK) {
        return Err(io::Error::other(format!("{what} memory can shrink (it must be sealed)")));
    }
    // Huge pages are not accepted either: if none is left, our next access would raise SIGBUS, too.
    if fstatfs(&memory)?.f_type as u64 == HUGETLBFS_MAGIC {
        return Err(io::Error::other(format!("{what} memory is of huge pages (it must not be)")));
    }
    let unwritable = SealFlags::WRITE | SealFlags::FUTURE_WRITE;
    if fcntl_getfl(&memory)? & OFlags::ACCMODE != OFlags::RDWR || seals.intersects(unwritable) {
        return Err(io::Error::other(format!("{what} memory is for reading only (it must not be)")));
    }
    let file = File::from(memory);
    let size = file.metadata()?.len();
    if size < wanted {
        return Err(io::Error::other(format!("{what} memory has {size} bytes ({wanted} needed)")));
    }
    Ok(file)
}
