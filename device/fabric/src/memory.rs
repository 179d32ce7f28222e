//! Memory that two processes share: a file without a name, sealed so that neither can take it away
//! from the other.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{
    MemfdFlags, OFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fcntl_getfl, fstatfs, ftruncate,
    memfd_create,
};
use vm_memory::{FileOffset, MmapRegion};

/// What `statfs` says of memory of huge pages.
const HUGETLBFS_MAGIC: u64 = 0x9584_58f6;

/// Shared memory, mapped.
#[derive(Debug, Clone)]
pub struct Sealed {
    /// The file, to be passed on.
    pub file: Arc<File>,
    /// Where this process sees it.
    pub region: Arc<MmapRegion>,
}

impl Sealed {
    /// So many bytes of zeros that nobody else knows. The name is for people who look at a process.
    pub fn new(name: &str, bytes: usize) -> io::Result<Sealed> {
        Sealed::map(File::from(make(name, bytes as u64)?), bytes)
    }

    /// The other process's memory, of which so many bytes are used. It must be what it says.
    pub fn adopt(memory: OwnedFd, bytes: usize) -> io::Result<Sealed> {
        Sealed::map(check(memory, "ring", bytes as u64)?, bytes)
    }

    fn map(file: File, wanted: usize) -> io::Result<Sealed> {
        let file = Arc::new(file);
        let region = MmapRegion::from_file(FileOffset::from_arc(file.clone(), 0), wanted);
        Ok(Sealed { file, region: Arc::new(region.map_err(io::Error::other)?) })
    }
}

/// So many bytes of zeros, whose size nobody can change.
pub(crate) fn make(name: &str, bytes: u64) -> io::Result<OwnedFd> {
    let memory = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    ftruncate(&memory, bytes)?;
    fcntl_add_seals(&memory, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    Ok(memory)
}

/// Whether another process's file is memory that can never vanish, is large enough, and may be
/// written.
pub(crate) fn check(memory: OwnedFd, what: &str, wanted: u64) -> io::Result<File> {
    // The seals are asked for first. Only memory files have them, and asking does not go to a file
    // system, which might be another process that never answers. Without the seal the other process
    // could shrink the file, and our next access would be a SIGBUS.
    let seals =
        fcntl_get_seals(&memory).map_err(|_| io::Error::other(format!("{what} memory is not a memfd")))?;
    if !seals.contains(SealFlags::SHRINK) {
        return Err(io::Error::other(format!("{what} memory can shrink (it must be sealed)")));
    }
    // Nor are huge pages good: when there is none left, our next access would be a SIGBUS, too.
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
