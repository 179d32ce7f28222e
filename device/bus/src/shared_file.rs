//! Files that hold guest memory: examined and mapped by the client's porter, because a client
//! chooses what they are.

use crate::function::PAGE_SIZE;
use crate::memory::GuestMemory;
use hamlyn_door::Kept;
use rustix::fs::{OFlags, SealFlags, Stat, fcntl_get_seals, fcntl_getfl, fstat, fstatfs};
use rustix::io::Errno;
use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use thiserror::Error;
use vm_memory::{FileOffset, MmapRegion, VolatileMemory, VolatileSlice};

/// What is mapped around a part that is smaller, if there is room.
const AROUND: u64 = 1 << 30;

/// `statfs` of a file in huge pages of hugetlbfs.
const HUGETLBFS: u64 = 0x9584_58f6;

const UNSEEN: &str =
    "cannot tell whether the client shares its guest memory: if it does not, DMA goes nowhere";
const UNSEALED: &str = "the guest's memory file is not sealed (QEMU's memory-backend-memfd is, Cloud Hypervisor's memory is \
     not): cut short, it takes this process with it";
const HUGE: &str = "guest memory lies in hugetlbfs: a page that the host has not got takes this card with it";

/// Why a file cannot hold guest memory.
#[derive(Debug, Error)]
pub(crate) enum SharedFileError {
    /// The kernel says nothing about it.
    #[error("the file of a DMA map cannot be examined: {0}")]
    Stat(#[source] Errno),
    /// A pipe, socket, device or directory, or a file on a disk: an access could wait for its
    /// filesystem.
    #[error("the file of a DMA map is not memory: use memory-backend-memfd,share=on")]
    NotMemory,
    /// It can be cut short, which kills who touches what is gone.
    #[error(
        "the file of a DMA map is not sealed against shrinking: with QEMU use memory-backend-memfd,share=on; Cloud \
         Hypervisor cannot seal it: use `hamlyn card`, or trust all machines (fabric --trust-memory)"
    )]
    Unsealed,
    /// A page can be missing, which kills who touches it.
    #[error("the file of a DMA map is in hugetlbfs: use memory-backend-memfd,share=on without hugetlb")]
    Huge,
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
    /// More than a card may map.
    #[error("{size:#x} bytes more than the {mapped:#x} that are mapped (limit {limit:#x} for each card)")]
    TooMuch {
        /// Bytes that were asked for.
        size: u64,
        /// Bytes that are mapped.
        mapped: u64,
        /// Bytes that may be mapped.
        limit: u64,
    },
    /// The peer has mapped the file for itself: what the device writes would never be seen by the
    /// guest.
    #[error("guest memory is private to QEMU: give its memory backend share=on")]
    Private,
    /// The file cannot be mapped.
    #[error("the file of a DMA map cannot be mapped: {0}")]
    Map(#[source] vm_memory::mmap::MmapRegionError),
}

/// The process at the other end of the socket: its memory maps tell whether it shares its memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer {
    process: Option<i32>,
}

impl Peer {
    /// `process` is none if the peer's process cannot be seen from here.
    pub(crate) fn new(process: Option<i32>) -> Self {
        Peer { process }
    }

    /// Has the peer mapped this file privately, and not shared? None: that cannot be seen.
    fn keeps_private(self, stat: &Stat) -> Option<bool> {
        let maps = fs::read_to_string(format!("/proc/{}/maps", self.process?)).ok()?;
        let mappings = || maps.lines().filter_map(|line| mapping_kind(line, stat));
        Some(mappings().any(|kind| kind == 'p') && !mappings().any(|kind| kind == 's'))
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

/// A file with guest memory that was looked at once: maps of the same file share its descriptor.
#[derive(Debug)]
pub(crate) struct SharedFile {
    device: u64,
    inode: u64,
    writable: bool,
    file: Kept<FileOffset>,
}

/// A part of a file with guest memory, mapped.
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

    /// With what is around it in a file of `size` bytes: a virtual IOMMU makes a map of each page.
    fn widened(self, size: u64) -> Part {
        let offset = self.offset / AROUND * AROUND;
        let end =
            self.end().checked_next_multiple_of(AROUND).unwrap_or(u64::MAX).min(size / PAGE_SIZE * PAGE_SIZE);
        Part { offset, size: end.max(self.end()) - offset, ..self }
    }
}

/// What is mapped already.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    pub(crate) regions: Vec<Arc<Region>>,
    pub(crate) memory: GuestMemory,
}

impl Known {
    fn mapped(&self) -> u64 {
        self.regions.iter().map(|region| region.part.size).sum()
    }

    /// The part, with what is around it if there is room for that.
    fn allow(&self, part: Part, size: u64) -> Result<Part, SharedFileError> {
        let (mapped, limit) = (self.mapped(), self.memory.limit());
        let fits = |part: &Part| mapped.checked_add(part.size).is_some_and(|total| total <= limit);
        let fitting = [part.widened(size), part].into_iter().find(fits);
        fitting.ok_or(SharedFileError::TooMuch { size: part.size, mapped, limit })
    }
}

/// A mapped region, and what a person should know of it.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) region: Arc<Region>,
    pub(crate) remark: Option<&'static str>,
}

impl Region {
    /// Maps a part of the file behind `fd`, if none of the known regions has it. For the client's
    /// porter: this may take time.
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

    /// Where in it something is that it has, by its place in the file.
    pub(crate) fn place(&self, offset: u64) -> u64 {
        offset.saturating_sub(self.part.offset)
    }

    /// A part of the region.
    pub(crate) fn slice(&self, offset: u64, length: u64) -> Option<VolatileSlice<'_>> {
        let offset = usize::try_from(offset).ok()?;
        let length = usize::try_from(length).ok()?;
        self.pages.get_slice(offset, length).ok()
    }
}

impl SharedFile {
    fn map(&self, part: Part) -> Result<Kept<MmapRegion>, SharedFileError> {
        // More than the address space fails to map; the kernel says so.
        let size = usize::try_from(part.size).unwrap_or(usize::MAX);
        let protection = if self.writable { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
        // Failing, this drops but a reference to the file.
        let file = FileOffset::from_arc(Arc::clone(self.file.arc()), part.offset);
        MmapRegion::build(Some(file), size, protection, libc::MAP_SHARED | libc::MAP_NORESERVE)
            .map(|pages| self.file.porter().keep(pages))
            .map_err(SharedFileError::Map)
    }
}

/// Whether it can never be cut short. Asked first of all: only files that are memory have seals,
/// and this does not go to any filesystem.
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
    fn what_is_asked_for_is_mapped_with_what_is_around_it() {
        // Far more than anybody has room for.
        let fd = memfd(1 << 45);
        let first = open(&fd, 4096, false).unwrap().region;
        assert_eq!(first.pages.size() as u64, AROUND);
        let known = [first.clone()];
        // The first map is of memory that the device may only read, as QEMU's are at boot.
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
    fn what_is_around_is_left_out_where_there_is_no_room_for_it() {
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
    fn a_private_mapping_is_refused_and_a_shared_one_is_not() {
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
    fn a_peer_that_cannot_be_seen_is_believed() {
        let fd = memfd(4096);
        let _private = client_mapping(&fd, libc::MAP_PRIVATE);
        let opened = open_as(&fd, (0, 4096, true), &[], Peer::new(None), SEALED).unwrap();
        assert_eq!(opened.remark, Some(UNSEEN));
    }

    #[test]
    fn memory_that_can_vanish_is_for_the_trusted() {
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
    fn only_memory_that_is_long_enough() {
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
    fn a_read_only_file_is_mapped_for_reading_only() {
        let fd = memfd(4096);
        let read_only =
            File::open(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&fd))).unwrap();
        assert!(matches!(open(&read_only, 4096, true), Err(SharedFileError::ReadOnly)));
        let first = open(&read_only, 4096, false).unwrap().region;
        // A descriptor for reading is none for a map that is written.
        let second =
            open_as(&fd, (0, 4096, true), std::slice::from_ref(&first), me(), SEALED).unwrap().region;
        assert!(!Arc::ptr_eq(&first.file, &second.file));
    }
}
