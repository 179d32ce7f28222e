//! Memory that two processes share: a file without a name, sealed so that neither can take it away from the other.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstatfs, ftruncate, memfd_create};
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
        let memory = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&memory, bytes as u64)?;
        fcntl_add_seals(&memory, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Sealed::map(memory, bytes)
    }

    /// The other process's memory, of which so many bytes are used. It must be what it says.
    pub fn adopt(memory: OwnedFd, bytes: usize) -> io::Result<Sealed> {
        // The seals are asked for first. Only memory files have them, and asking does not go to a file system, which might be
        // another process that never answers. Without the seal the other process could shrink the file, and our next access
        // would be a SIGBUS.
        match fcntl_get_seals(&memory) {
            Ok(seals) if seals.contains(SealFlags::SHRINK) => {}
            Ok(_) => return Err(io::Error::other("ring memory can shrink (it must be sealed)")),
            Err(_) => return Err(io::Error::other("ring memory is not a memfd")),
        }
        // Nor are huge pages good: when there is none left, our next access would be a SIGBUS, too.
        if fstatfs(&memory)?.f_type as u64 == HUGETLBFS_MAGIC {
            return Err(io::Error::other("ring memory is of huge pages (it must not be)"));
        }
        Sealed::map(memory, bytes)
    }

    fn map(memory: OwnedFd, wanted: usize) -> io::Result<Sealed> {
        let file = Arc::new(File::from(memory));
        let size = file.metadata()?.len();
        if size < wanted as u64 {
            return Err(io::Error::other(format!("ring memory has {size} bytes ({wanted} needed)")));
        }
        let region = MmapRegion::from_file(FileOffset::from_arc(file.clone(), 0), wanted);
        Ok(Sealed { file, region: Arc::new(region.map_err(io::Error::other)?) })
    }
}
