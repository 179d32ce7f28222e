//! Files with guest memory. The client's porter examines and maps them, because the client chooses
//! the files.

use crate::description::PAGE_SIZE;
use crate::memory::GuestMemory;
use hamlyn_door::Kept;
use rustix::fs::{OFlags, SealFlags, Stat, fcntl_get_seals, fcntl_getfl, fstat, fstatfs};
use rustix::io::Errno;
use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use thiserror::Error;
use vm_memory::{FileOffset, MmapRegion, VolatileMemory, VolatileSlice};

/// A smaller part is mapped together with the rest of a block of this size, if the limit allows.
const AROUND: u64 = 1 << 30;

/// `f_type` in `statfs` of a file in hugetlbfs.
const HUGETLBFS: u64 = 0x9584_58f6;

const UNSEEN: &str =
    "cannot tell whether the client shares its guest memory: if it does not, DMA goes nowhere";
const UNSEALED: &str = "the guest's memory file is not sealed (QEMU's memory-backend-memfd is, Cloud Hypervisor's memory is \
     not): cut short, it takes this process with it";
const HUGE: &str = "guest memory lies in hugetlbfs: a page that the host has not got takes this card with it";

/// Why a file cannot hold guest memory.
#[derive(Debug, Error)]
pub(crate) enum SharedFileError {
    /// The kernel does not report the file's state.
    #[error("the file of a DMA map cannot be examined: {0}")]
    Stat(#[source] Errno),
    /// The file is a pipe, socket, device or directory, or is on a disk: an access could wait for
    /// its filesystem.
    #[error("the file of a DMA map is not memory: use memory-backend-memfd,share=on")]
    NotMemory,
    /// The file can be truncated. An access to the missing part would kill the process.
    #[error(
        "the file of a DMA map is not sealed against shrinking: with QEMU use memory-backend-memfd,share=on; Cloud \
         Hypervisor cannot seal it: use `hamlyn card`, or trust all machines (fabric --trust-memory)"
    )]
    Unsealed,
    /// A page can be missing. An access to it would kill the process.
    #[error("the file of a DMA map is in hugetlbfs: use memory-backend-memfd,share=on without hugetlb")]
    Huge,
    /// An access past the file's end would kill this process.
    #[error("a DMA map reaches to {end:#x} in a file of {size:#x} bytes")]
    PastEnd {
        /// End of the map.
        end: u64,
        /// End of the file.
        size: u64,
    },
    /// The device may write the map, but the file is not writable.
    #[error("the file of a DMA map that the device may write is open for reading only")]
    ReadOnly,
    /// The map would exceed the limit of a card.
    #[error("{size:#x} bytes more than the {mapped:#x} that are mapped (limit {limit:#x} for each card)")]
    TooMuch {
        /// Bytes requested.
        size: u64,
        /// Bytes mapped.
        mapped: u64,
        /// Maximum number of bytes mapped.
        limit: u64,
    },
    /// The peer has mapped the file privately, so the guest would never see what the device writes.
    #[error("guest memory is private to QEMU: give its memory backend share=on")]
    Private,
    /// The file cannot be mapped.
    #[error("the file of a DMA map cannot be mapped: {0}")]
    Map(#[source] vm_memory::mmap::MmapRegionError),
}

/// The process at the other end of the socket. Its memory maps show whether it shares its memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer {
    process: Option<i32>,
}

impl Peer {
    /// `process` is `None` if the peer's process is not visible from here.
    pub(crate) fn new(process: Option<i32>) -> Self {
        Peer { process }
    }

    /// Whether the peer has mapped this file privately, and not shared. Returns `None` if that
    /// cannot be seen.
    fn keeps_private(self, stat: &Stat) -> Option<bool> {
        let maps = fs::read_to_string(format!("/proc/{}/maps", self.process?)).ok()?;
        let mappings = || maps.lines().filter_map(|line| mapping_kind(line, stat));
        Some(mappings().any(|kind| kind == 'p') && !mappings().any(|kind| kind == 's'))
    }
}

/// Returns `p` or `s` if this line of `/proc/<pid>/maps` is a private or shared mapping of the
/// file.
fn mapping_kind(line: &str, file: &Stat) -> Option<char> {
    let mut fields = line.split_ascii_whitespace();
    let kind = fields.nth(1)?.chars().nth(3)?;
    let (major, minor) = fields.nth(1)?.split_once(':')?;
    let major = u32::from_str_radix(major, 16).ok()?;
    let minor = u32::from_str_radix(minor, 16).ok()?;
    let inode: u64 = fields.next()?.parse().ok()?;
    (rustix::fs::makedev(major, minor) == file.st_dev && inode == file.st_ino).then_some(kind)
}

/// A file with guest memory that was examined once. Maps of the same file share its descriptor.
#[derive(Debug)]
pub(crate) struct SharedFile {
    device: u64,
    inode: u64,
    writable: bool,
    file: Kept<FileOffset>,
}

/// A mapped part of a file with guest memory.
#[derive(Debug)]
pub(crate) struct Region {
    pub(crate) file: Arc<SharedFile>,
    part: Part,
    pages: Kept<MmapRegion>,
}

/// The part of a file that a client wants mapped.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part {
    pub(crate) offset: u64,
    pub(crate) size: u64,
    pub(crate) writable: bool,
}

impl Part {
    fn end(self) -> u64 {
        self.offset.saturating_add(self.size)
    }

    /// Returns this part extended by its surroundings, in a file of `size` bytes. A virtual IOMMU
    /// makes one map per page.
    fn widened(self, size: u64) -> Part {
        let offset = self.offset / AROUND * AROUND;
        let end =
            self.end().checked_next_multiple_of(AROUND).unwrap_or(u64::MAX).min(size / PAGE_SIZE * PAGE_SIZE);
        Part { offset, size: end.max(self.end()) - offset, ..self }
    }
}

/// The existing mappings, and the limits.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    pub(crate) regions: Vec<Arc<Region>>,
    pub(crate) memory: GuestMemory,
}

impl Known {
    fn mapped(&self) -> u64 {
        self.regions.iter().map(|region| region.part.size).sum()
    }

    /// Returns the extended part if the limit allows that, or else the part itself.
    fn allow(&self, part: Part, size: u64) -> Result<Part, SharedFileError> {
        let (mapped, limit) = (self.mapped(), self.memory.limit());
        let fits = |part: &Part| mapped.checked_add(part.size).is_some_and(|total| total <= limit);
        let fitting = [part.widened(size), part].into_iter().find(fits);
        fitting.ok_or(SharedFileError::TooMuch { size: part.size, mapped, limit })
    }
}

/// A mapped region, and a remark for the user.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) region: Arc<Region>,
    pub(crate) remark: Option<&'static str>,
}

impl Region {
    /// Maps a part of the file behind `fd`, unless a known region contains it. Only the client's
    /// porter calls this, because it may take time.
    pub(crate) fn open(
        fd: Kept<OwnedFd>,
        part: Part,
        known: &Known,
        peer: Peer,
    ) -> Result<Opened, SharedFileError> {
        let sealed = is_sealed(&fd)?;
        let huge = fstatfs(&*fd).map_err(SharedFileError::Stat)?.f_type as u64 == HUGETLBFS;
        let mut remark = match (sealed, huge, known.memory) {
            (true, false, _) => None,
            (false, _, GuestMemory::Sealed { .. }) => return Err(SharedFileError::Unsealed),
            (_, true, GuestMemory::Sealed { .. }) => return Err(SharedFileError::Huge),
            (_, true, _) => Some(HUGE),
            (false, ..) => Some(UNSEALED),
        };
        let stat = fstat(&*fd).map_err(SharedFileError::Stat)?;
        let (size, end) = (u64::try_from(stat.st_size).unwrap_or(0), part.end());
        if end > size {
            return Err(SharedFileError::PastEnd { end, size });
        }
        let open_for_writing = open_for_writing(&fd)?;
        if part.writable && !open_for_writing {
            return Err(SharedFileError::ReadOnly);
        }
        let same = |region: &&Arc<Region>| {
            let file = &region.file;
            (file.device, file.inode) == (stat.st_dev, stat.st_ino) && (file.writable || !part.writable)
        };
        let mut same = known.regions.iter().filter(same).peekable();
        let file = same.peek().map(|region| &region.file);
        let file = match file {
            Some(file) => {
                let file = Arc::clone(file);
                if let Some(region) = same.find(|region| region.has(part)) {
                    return Ok(Opened { region: Arc::clone(region), remark });
                }
                file
            }
            None => {
                match peer.keeps_private(&stat) {
                    Some(true) => return Err(SharedFileError::Private),
                    Some(false) => {}
                    None => remark = remark.or(Some(UNSEEN)),
                }
                let (device, inode) = (stat.st_dev, stat.st_ino);
                let file = fd.map(|fd| FileOffset::new(File::from(fd), 0));
                Arc::new(SharedFile { device, inode, writable: open_for_writing, file })
            }
        };
        let part = known.allow(part, size)?;
        let pages = file.map(part)?;
        Ok(Opened { region: Arc::new(Region { file, part, pages }), remark })
    }

    fn has(&self, part: Part) -> bool {
        self.part.offset <= part.offset && part.end() <= self.part.end()
    }

    /// Returns the offset in the region of an offset in the file.
    pub(crate) fn place(&self, offset: u64) -> u64 {
        offset.saturating_sub(self.part.offset)
    }

    /// Returns a part of the region's bytes.
    pub(crate) fn slice(&self, offset: u64, length: u64) -> Option<VolatileSlice<'_>> {
        let offset = usize::try_from(offset).ok()?;
        let length = usize::try_from(length).ok()?;
        self.pages.get_slice(offset, length).ok()
    }
}

impl SharedFile {
    fn map(&self, part: Part) -> Result<Kept<MmapRegion>, SharedFileError> {
        // The kernel refuses mappings that are larger than the address space.
        let size = usize::try_from(part.size).unwrap_or(usize::MAX);
        let protection = if self.writable { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
        // If this fails, it drops only a reference to the file.
        let file = FileOffset::from_arc(Arc::clone(self.file.arc()), part.offset);
        MmapRegion::build(Some(file), size, protection, libc::MAP_SHARED | libc::MAP_NORESERVE)
            .map(|pages| self.file.porter().keep(pages))
            .map_err(SharedFileError::Map)
    }
}

/// Whether the file can never be truncated. This must be the first check: only memory files have
/// seals, and the call does not access any filesystem.
fn is_sealed(fd: &OwnedFd) -> Result<bool, SharedFileError> {
    match fcntl_get_seals(fd) {
        Ok(seals) => Ok(seals.contains(SealFlags::SHRINK)),
        Err(Errno::INVAL | Errno::BADF) => Err(SharedFileError::NotMemory),
        Err(error) => Err(SharedFileError::Stat(error)),
    }
}

fn open_for_writing(fd: &OwnedFd) -> Result<bool, SharedFileError> {
    let flags = fcntl_getfl(fd).map_err(SharedFileError::Stat)?;
    Ok(flags & OFlags::ACCMODE == OFlags::RDWR)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hamlyn_door::{Porter, Porters};
    use rustix::fs::{MemfdFlags, fcntl_add_seals, ftruncate, memfd_create};
    use rustix::pipe::pipe;
    use std::os::fd::AsFd;
    use std::sync::LazyLock;

    const SEALED: GuestMemory = GuestMemory::Sealed { limit: u64::MAX };
    const TRUSTED: GuestMemory = GuestMemory::Trusted { limit: u64::MAX };

    static PORTER: LazyLock<Porter> = LazyLock::new(|| Porters::new(1).hire().unwrap());

    fn memfd(size: u64) -> OwnedFd {
        let fd = memfd_create("guest", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&fd, size).unwrap();
        fcntl_add_seals(&fd, SealFlags::SHRINK).unwrap();
        fd
    }

    fn me() -> Peer {
        Peer::new(Some(std::process::id() as i32))
    }

    fn open_as(
        fd: &impl AsFd,
        (offset, size, writable): (u64, u64, bool),
        regions: &[Arc<Region>],
        peer: Peer,
        memory: GuestMemory,
    ) -> Result<Opened, SharedFileError> {
        let fd = PORTER.keep(fd.as_fd().try_clone_to_owned().unwrap());
        let known = Known { regions: regions.to_vec(), memory };
        Region::open(fd, Part { offset, size, writable }, &known, peer)
    }

    fn open(fd: &impl AsFd, size: u64, writable: bool) -> Result<Opened, SharedFileError> {
        open_as(fd, (0, size, writable), &[], me(), SEALED)
    }

    fn client_mapping(fd: &OwnedFd, flags: i32) -> MmapRegion {
        let file = FileOffset::new(File::from(fd.try_clone().unwrap()), 0);
        MmapRegion::build(Some(file), 4096, libc::PROT_READ | libc::PROT_WRITE, flags).unwrap()
    }

    #[test]
    fn mapping_is_widened_to_surrounding_memory() {
        // Far more than fits.
        let fd = memfd(1 << 45);
        let first = open(&fd, 4096, false).unwrap().region;
        assert_eq!(first.pages.size() as u64, AROUND);
        let known = [first.clone()];
        // The device may only read the memory of the first map, as with QEMU's maps at boot.
        let inside = open_as(&fd, (AROUND - 4096, 4096, true), &known, me(), SEALED).unwrap().region;
        assert!(Arc::ptr_eq(&first, &inside));
        let place = (1 << 44) + 4096;
        let second = open_as(&fd, (place, 2 * AROUND, true), &known, me(), SEALED).unwrap().region;
        assert_eq!(second.pages.size() as u64, 3 * AROUND);
        assert!(Arc::ptr_eq(&first.file, &second.file));
        rustix::io::pwrite(&fd, &[7], place + 5).unwrap();
        let mut byte = [0_u8];
        second.slice(second.place(place) + 5, 1).unwrap().copy_to(&mut byte);
        assert_eq!(byte, [7]);
        assert!(second.slice(3 * AROUND, 1).is_none());
        let other = open_as(&memfd(4096), (0, 4096, true), &known, me(), SEALED).unwrap().region;
        assert!(!Arc::ptr_eq(&first.file, &other.file));
        assert_eq!(other.pages.size(), 4096, "not past the end");
    }

    #[test]
    fn mapping_is_not_widened_beyond_limit() {
        let fd = memfd(1 << 45);
        let memory = GuestMemory::Sealed { limit: AROUND + 8192 };
        let first = open_as(&fd, (0, 4096, true), &[], me(), memory).unwrap().region;
        let known = [first.clone()];
        let second = open_as(&fd, (1 << 44, 8192, true), &known, me(), memory).unwrap().region;
        assert_eq!((first.pages.size() as u64, second.pages.size()), (AROUND, 8192));
        let refused = open_as(&fd, (1 << 43, 4096, true), &[first, second], me(), memory).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "0x1000 bytes more than the 0x40002000 that are mapped (limit 0x40002000 for each card)"
        );
    }

    #[test]
    fn private_mapping_is_refused_and_shared_accepted() {
        let fd = memfd(4096);
        let private = client_mapping(&fd, libc::MAP_PRIVATE);
        let refused = open(&fd, 4096, true).unwrap_err();
        assert!(matches!(refused, SharedFileError::Private), "{refused}");
        assert!(refused.to_string().contains("share=on"));
        let shared = client_mapping(&fd, libc::MAP_SHARED);
        assert!(open(&fd, 4096, true).is_ok());
        drop((private, shared));
        assert!(open(&fd, 4096, true).unwrap().remark.is_none());
    }

    #[test]
    fn map_of_invisible_peer_is_accepted() {
        let fd = memfd(4096);
        let _private = client_mapping(&fd, libc::MAP_PRIVATE);
        let opened = open_as(&fd, (0, 4096, true), &[], Peer::new(None), SEALED).unwrap();
        assert_eq!(opened.remark, Some(UNSEEN));
    }

    #[test]
    fn memory_that_can_vanish_needs_trust() {
        let unsealed = memfd_create("guest", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&unsealed, 4096).unwrap();
        let tmpfs = tempfile::tempfile_in("/dev/shm").unwrap();
        tmpfs.set_len(4096).unwrap();
        for fd in [unsealed, tmpfs.into()] {
            let refused = open(&fd, 4096, true).unwrap_err();
            assert!(matches!(refused, SharedFileError::Unsealed), "{refused}");
            assert_eq!(open_as(&fd, (0, 4096, true), &[], me(), TRUSTED).unwrap().remark, Some(UNSEALED));
        }
        let Ok(huge) =
            memfd_create("guest", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | MemfdFlags::HUGETLB)
        else {
            return;
        };
        ftruncate(&huge, 4 << 20).unwrap();
        fcntl_add_seals(&huge, SealFlags::SHRINK).unwrap();
        let refused = open(&huge, 4 << 20, true).unwrap_err();
        assert!(matches!(refused, SharedFileError::Huge), "{refused}");
    }

    #[test]
    fn short_or_non_memory_files_are_refused() {
        let past = open(&memfd(4096), 4097, true).unwrap_err();
        assert!(matches!(past, SharedFileError::PastEnd { end: 4097, size: 4096 }), "{past}");
        let (reader, _writer) = pipe().unwrap();
        let (zero, proc) = (File::open("/dev/zero").unwrap(), File::open("/proc/self/maps").unwrap());
        for fd in [reader, zero.into(), proc.into(), File::open("/").unwrap().into()] {
            for memory in [SEALED, TRUSTED] {
                let refused = open_as(&fd, (0, 4096, false), &[], me(), memory).unwrap_err();
                assert!(matches!(refused, SharedFileError::NotMemory), "{refused}");
            }
        }
    }

    #[test]
    fn read_only_file_is_mapped_read_only() {
        let fd = memfd(4096);
        let read_only =
            File::open(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&fd))).unwrap();
        assert!(matches!(open(&read_only, 4096, true), Err(SharedFileError::ReadOnly)));
        let first = open(&read_only, 4096, false).unwrap().region;
        // A read-only descriptor cannot be used for a writable map.
        let second =
            open_as(&fd, (0, 4096, true), std::slice::from_ref(&first), me(), SEALED).unwrap().region;
        assert!(!Arc::ptr_eq(&first.file, &second.file));
    }
}
