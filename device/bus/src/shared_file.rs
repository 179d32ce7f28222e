//! Files that hold guest memory, each mapped once and whole.

use rustix::fs::{FileType, OFlags, SealFlags, Stat, fcntl_get_seals, fcntl_getfl, fstat};
use rustix::io::Errno;
use std::cell::Cell;
use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use thiserror::Error;
use tracing::warn;
use vm_memory::{FileOffset, MmapRegion, VolatileMemory, VolatileSlice};

/// Why a file cannot hold guest memory.
#[derive(Debug, Error)]
pub(crate) enum SharedFileError {
    /// The kernel says nothing about it.
    #[error("the file of a DMA map cannot be examined: {0}")]
    Stat(#[source] Errno),
    /// A pipe, socket, device or directory.
    #[error("the file of a DMA map is not a regular file")]
    NotRegular,
    /// Touching the part past its end would kill this process.
    #[error("a DMA map reaches to {end:#x} in a file of {size:#x} bytes")]
    PastEnd {
        /// Where the map would end.
        end: u64,
        /// Where the file ends.
        size: u64,
    },
    /// A map that the device may write, in a file that may not be written.
    #[error("the file of a DMA map that the device may write is open for reading only")]
    ReadOnly,
    /// The peer has mapped the file for itself: what the device writes would never be seen by the guest.
    #[error("guest memory is private to QEMU: give its memory backend share=on")]
    Private,
    /// The file cannot be mapped.
    #[error("the file of a DMA map cannot be mapped: {0}")]
    Map(#[source] vm_memory::mmap::MmapRegionError),
}

/// The process at the other end of the socket: its memory maps tell whether it shares its memory.
#[derive(Debug)]
pub(crate) struct Peer {
    process: Option<i32>,
    /// Say once per client, not once per map, that something cannot be made sure.
    warned: Cell<bool>,
}

impl Peer {
    /// `process` is none if the peer's process cannot be seen from here.
    pub(crate) fn new(process: Option<i32>) -> Self {
        Peer { process, warned: Cell::new(false) }
    }

    fn warn_once(&self, reason: &str) {
        if !self.warned.replace(true) {
            warn!("{reason}");
        }
    }

    /// Has the peer mapped this file privately, and not shared?
    fn keeps_private(&self, stat: &Stat) -> bool {
        let maps = self.process.and_then(|process| fs::read_to_string(format!("/proc/{process}/maps")).ok());
        let Some(maps) = maps else {
            self.warn_once(
                "cannot tell whether the client shares its guest memory: if it does not, DMA goes nowhere",
            );
            return false;
        };
        let mappings = || maps.lines().filter_map(|line| mapping_kind(line, stat));
        mappings().any(|kind| kind == 'p') && !mappings().any(|kind| kind == 's')
    }
}

/// `p` or `s` if this line of `/proc/<pid>/maps` is a private or shared mapping of the file.
fn mapping_kind(line: &str, file: &Stat) -> Option<char> {
    let mut fields = line.split_ascii_whitespace();
    let kind = fields.nth(1)?.chars().nth(3)?;
    let (major, minor) = fields.nth(1)?.split_once(':')?;
    let major = u32::from_str_radix(major, 16).ok()?;
    let minor = u32::from_str_radix(minor, 16).ok()?;
    let inode: u64 = fields.next()?.parse().ok()?;
    (rustix::fs::makedev(major, minor) == file.st_dev && inode == file.st_ino).then_some(kind)
}

/// A file with guest memory, mapped from its beginning to its end.
///
/// Its size is checked when it is mapped. QEMU seals its memfd against shrinking; a file without that seal can be
/// cut short by whoever holds it, and touching what is gone then kills this process: the virtual machine that cut
/// its own memory loses its own card, nobody else's. Said once in the log.
#[derive(Debug)]
pub(crate) struct SharedFile {
    device: u64,
    inode: u64,
    writable: bool,
    pages: MmapRegion,
}

impl SharedFile {
    /// The file behind `fd`, which must reach to `end`. One of `known` is taken if it is the same file and suffices.
    pub(crate) fn open(
        fd: OwnedFd,
        end: u64,
        writable: bool,
        known: &[Arc<SharedFile>],
        peer: &Peer,
    ) -> Result<Arc<SharedFile>, SharedFileError> {
        let stat = fstat(&fd).map_err(SharedFileError::Stat)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(SharedFileError::NotRegular);
        }
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        if end > size {
            return Err(SharedFileError::PastEnd { end, size });
        }
        let open_for_writing = open_for_writing(&fd)?;
        if writable && !open_for_writing {
            return Err(SharedFileError::ReadOnly);
        }
        let suffices = |file: &&Arc<SharedFile>| {
            (file.device, file.inode) == (stat.st_dev, stat.st_ino)
                && file.pages.size() as u64 >= end
                && (file.writable || !writable)
        };
        if let Some(file) = known.iter().find(suffices) {
            return Ok(Arc::clone(file));
        }
        if peer.keeps_private(&stat) {
            return Err(SharedFileError::Private);
        }
        if !fcntl_get_seals(&fd).is_ok_and(|seals| seals.contains(SealFlags::SHRINK)) {
            peer.warn_once(
                "the guest's memory file is not sealed (memory-backend-memfd is): cut short, it takes this card with it",
            );
        }
        let pages = map(fd, size, open_for_writing)?;
        let (device, inode) = (stat.st_dev, stat.st_ino);
        Ok(Arc::new(SharedFile { device, inode, writable: open_for_writing, pages }))
    }

    /// A part of the file.
    pub(crate) fn slice(&self, offset: u64, length: u64) -> Option<VolatileSlice<'_>> {
        let offset = usize::try_from(offset).ok()?;
        let length = usize::try_from(length).ok()?;
        self.pages.get_slice(offset, length).ok()
    }
}

fn open_for_writing(fd: &OwnedFd) -> Result<bool, SharedFileError> {
    let flags = fcntl_getfl(fd).map_err(SharedFileError::Stat)?;
    Ok(flags & OFlags::ACCMODE == OFlags::RDWR)
}

fn map(fd: OwnedFd, size: u64, writable: bool) -> Result<MmapRegion, SharedFileError> {
    // A file larger than the address space fails to map; the kernel says so.
    let size = usize::try_from(size).unwrap_or(usize::MAX);
    let protection = if writable { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
    let file = FileOffset::new(File::from(fd), 0);
    MmapRegion::build(Some(file), size, protection, libc::MAP_SHARED | libc::MAP_NORESERVE)
        .map_err(SharedFileError::Map)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
    use rustix::pipe::pipe;

    fn memfd(size: u64) -> OwnedFd {
        let fd = memfd_create("guest", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&fd, size).unwrap();
        fd
    }

    fn me() -> Peer {
        Peer::new(Some(std::process::id() as i32))
    }

    fn client_mapping(fd: &OwnedFd, flags: i32) -> MmapRegion {
        let file = FileOffset::new(File::from(fd.try_clone().unwrap()), 0);
        MmapRegion::build(Some(file), 4096, libc::PROT_READ | libc::PROT_WRITE, flags).unwrap()
    }

    #[test]
    fn one_mapping_serves_all_maps_of_a_file() {
        let fd = memfd(16384);
        // The first map is of memory that the device may only read, as QEMU's are at boot.
        let first = SharedFile::open(fd.try_clone().unwrap(), 4096, false, &[], &me()).unwrap();
        let known = [first.clone()];
        let second = SharedFile::open(fd.try_clone().unwrap(), 16384, true, &known, &me()).unwrap();
        assert!(Arc::ptr_eq(&first, &second));
        ftruncate(&fd, 32768).unwrap();
        let grown = SharedFile::open(fd, 32768, true, &known, &me()).unwrap();
        assert!(!Arc::ptr_eq(&first, &grown));
        let other = SharedFile::open(memfd(4096), 4096, true, &known, &me()).unwrap();
        assert!(!Arc::ptr_eq(&first, &other));
    }

    #[test]
    fn a_private_mapping_is_refused_and_a_shared_one_is_not() {
        let fd = memfd(4096);
        let private = client_mapping(&fd, libc::MAP_PRIVATE);
        let refused = SharedFile::open(fd.try_clone().unwrap(), 4096, true, &[], &me()).unwrap_err();
        assert!(matches!(refused, SharedFileError::Private), "{refused}");
        assert!(refused.to_string().contains("share=on"));
        let shared = client_mapping(&fd, libc::MAP_SHARED);
        assert!(SharedFile::open(fd.try_clone().unwrap(), 4096, true, &[], &me()).is_ok());
        drop((private, shared));
        assert!(SharedFile::open(fd, 4096, true, &[], &me()).is_ok());
    }

    #[test]
    fn a_peer_that_cannot_be_seen_is_believed() {
        let fd = memfd(4096);
        let _private = client_mapping(&fd, libc::MAP_PRIVATE);
        let peer = Peer::new(None);
        assert!(SharedFile::open(fd, 4096, true, &[], &peer).is_ok());
        assert!(peer.warned.get());
    }

    #[test]
    fn only_regular_files_that_are_long_enough() {
        let past = SharedFile::open(memfd(4096), 4097, true, &[], &me()).unwrap_err();
        assert!(matches!(past, SharedFileError::PastEnd { end: 4097, size: 4096 }), "{past}");
        let (reader, _writer) = pipe().unwrap();
        let pipe = SharedFile::open(reader, 4096, true, &[], &me()).unwrap_err();
        assert!(matches!(pipe, SharedFileError::NotRegular), "{pipe}");
        let zero = File::open("/dev/zero").unwrap();
        assert!(SharedFile::open(zero.into(), 4096, false, &[], &me()).is_err());
    }

    #[test]
    fn a_read_only_file_is_mapped_for_reading_only() {
        let path = tempfile::NamedTempFile::new().unwrap();
        path.as_file().set_len(4096).unwrap();
        let open = || OwnedFd::from(File::open(path.path()).unwrap());
        assert!(matches!(SharedFile::open(open(), 4096, true, &[], &me()), Err(SharedFileError::ReadOnly)));
        assert!(SharedFile::open(open(), 4096, false, &[], &me()).is_ok());
    }
}
