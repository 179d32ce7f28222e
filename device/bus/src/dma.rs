//! Guest memory as the card sees it: the table of DMA maps, and checked accesses through it.
//!
//! Guest memory is hostile. Its bytes can change while they are read, so a value is read once,
//! checked, and used from the copy. It can also vanish: a map is gone when the server has answered
//! `DMA_UNMAP`.
//!
//! The server is single-threaded, and every access ends before the next message is handled, so no
//! access is in progress then. Code that keeps state derived from guest memory across messages must
//! compare [`Dma::generation`].

use crate::memory::GuestMemory;
use crate::shared_file::{Known, Opened, Part, Region};
use hamlyn_door::Kept;
use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Weak};
use thiserror::Error;
use vm_memory::{AtomicAccess, Bytes, VolatileMemory, VolatileSlice};

pub(crate) use crate::shared_file::Peer;
use crate::shared_file::SharedFileError;

/// Maximum number of maps at a time (`max_dma_maps`).
pub const MAX_MAPS: usize = 65_535;

/// Maximum number of mapped regions, which maps share. A process can have only 65,530 mappings, and
/// that of a fabric can have 64 cards. Each file has at least one region, and costs a descriptor. A
/// QEMU machine has 256 memory slots, with at most one file each.
const MAX_REGIONS: usize = 512;

const PAGE: u64 = 4096;
const READABLE: u32 = 1 << 0;
const WRITABLE: u32 = 1 << 1;
/// The file of the map must be accessed by mapping, not by read and write. This server always does
/// so.
const BY_MAPPING: u32 = 1 << 2;

/// Why an access to guest memory is refused. No byte was changed.
#[derive(Debug, Error, Clone, Copy, PartialEq, Eq)]
#[error("guest range {address:#x}+{length:#x} {reason}")]
pub struct DmaError {
    /// First address of the access.
    pub address: u64,
    /// Length of the access in bytes.
    pub length: u64,
    /// The reason.
    pub reason: DmaErrorReason,
}

/// Reasons for refusing an access to guest memory.
#[derive(Debug, Error, Clone, Copy, PartialEq, Eq)]
pub enum DmaErrorReason {
    /// A part of the range is not mapped.
    #[error("is not mapped for DMA")]
    Unmapped,
    /// A part of the range is memory without a file.
    #[error("has no shared file: start QEMU with memory-backend-memfd,share=on")]
    NoSharedFile,
    /// A part of the range is not readable.
    #[error("is not readable by the device")]
    NotReadable,
    /// A part of the range is not writable.
    #[error("is not writable by the device")]
    NotWritable,
    /// Bus mastering is off: the guest has not allowed the function to access memory.
    #[error("is out of reach: the guest has not enabled bus mastering")]
    BusMasterOff,
    /// An atomic access is not naturally aligned.
    #[error("is not naturally aligned")]
    Misaligned,
    /// The range exceeds the end of the address space.
    #[error("wraps around")]
    Wraps,
}

/// Why a map or unmap is refused. Nothing has changed.
#[derive(Debug, Error)]
pub(crate) enum MapError {
    /// The flags have unknown bits.
    #[error("flags {0:#x} are unknown")]
    Flags(u32),
    /// The range is not whole pages, is empty, or wraps around.
    #[error("range {address:#x}+{size:#x} at file offset {offset:#x} is not whole pages (of {PAGE} bytes)")]
    Range {
        /// First address.
        address: u64,
        /// Size in bytes.
        size: u64,
        /// Offset in the file.
        offset: u64,
    },
    /// A part of the range is already mapped.
    #[error("range {address:#x}+{size:#x} overlaps a map")]
    Overlap {
        /// First address.
        address: u64,
        /// Size in bytes.
        size: u64,
    },
    /// The unmap would leave a part of a map.
    #[error("range {address:#x}+{size:#x} covers only a part of the map {map_address:#x}+{map_size:#x}")]
    Partial {
        /// First address of the range.
        address: u64,
        /// Size of the range in bytes.
        size: u64,
        /// First address of the map.
        map_address: u64,
        /// Size of the map in bytes.
        map_size: u64,
    },
    /// The table is full.
    #[error("{MAX_MAPS} maps exist already (limit {MAX_MAPS})")]
    TooMany,
    /// There are too many files, or too many distant parts of files.
    #[error("{MAX_REGIONS} files, or parts of files, hold guest memory already (limit {MAX_REGIONS})")]
    TooManyRegions,
    /// The file could not be examined and mapped in time.
    #[error("the file of a DMA map was not mapped in time")]
    Slow,
    /// The map requires a file, but there is none.
    #[error("no file descriptor came with a map that is to be reached by mapping")]
    NoDescriptor,
    /// A map has at most one file.
    #[error("{0} file descriptors came with a map (limit 1)")]
    Descriptors(usize),
    /// The file cannot be used.
    #[error(transparent)]
    File(#[from] SharedFileError),
}

/// A client's request for a map.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MapRequest {
    pub(crate) flags: u32,
    pub(crate) address: u64,
    pub(crate) size: u64,
    pub(crate) offset: u64,
}

/// A map in preparation, whose file the client's porter opens.
#[derive(Debug)]
pub(crate) struct Opening {
    fd: Kept<OwnedFd>,
    part: Part,
    known: Known,
    peer: Peer,
}

impl Opening {
    /// Opens the file. Only the client's porter calls this, because it may take time.
    pub(crate) fn open(self) -> Result<Opened, SharedFileError> {
        Region::open(self.fd, self.part, &self.known, self.peer)
    }
}

#[derive(Debug)]
struct Map {
    address: u64,
    size: u64,
    flags: u32,
    /// `None` is memory without a file (a flash chip, a neighbour's BAR, RAM of a QEMU without a
    /// memory backend).
    region: Option<Arc<Region>>,
    /// Offset of the map in the region.
    place: u64,
}

impl Map {
    /// Returns the last address. It is inclusive because a map may end with the address space.
    fn last(&self) -> u64 {
        self.address + (self.size - 1)
    }

    /// Whether the map contains the whole range. An empty range must begin in the map.
    fn holds(&self, address: u64, length: u64) -> bool {
        let skipped = address.wrapping_sub(self.address);
        skipped < self.size && length <= self.size - skipped
    }

    /// Returns the bytes from `address` on, at most `length`. The map must be checked, and must
    /// contain `address`.
    fn slice(&self, address: u64, length: u64) -> Option<VolatileSlice<'_>> {
        let skipped = address - self.address;
        let length = length.min(self.size - skipped);
        self.region.as_ref()?.slice(self.place + skipped, length)
    }
}

/// Guest memory that the function may access.
#[derive(Debug, Default)]
pub struct Dma {
    /// Disjoint, and ordered by address.
    maps: Vec<Map>,
    /// Regions with at least one map.
    regions: Vec<Weak<Region>>,
    /// The kind of memory that may be mapped.
    memory: GuestMemory,
    /// Index of the map of the last access. The next access is usually in the same map.
    recent: Cell<usize>,
    generation: u64,
    bus_master: bool,
}

macro_rules! numbers {
    ($read:ident, $write:ident, $load:ident, $store:ident, $type:ty) => {
        /// Reads a little-endian number at any address. Not atomic.
        pub fn $read(&self, address: u64) -> Result<$type, DmaError> {
            let mut bytes = [0; size_of::<$type>()];
            self.read_bytes(address, &mut bytes)?;
            Ok(<$type>::from_le_bytes(bytes))
        }

        /// Writes a little-endian number at any address. Not atomic.
        pub fn $write(&self, address: u64, value: $type) -> Result<(), DmaError> {
            self.write_bytes(address, &value.to_le_bytes())
        }

        /// Reads an aligned little-endian number atomically. Later reads see what the guest wrote
        /// before it.
        pub fn $load(&self, address: u64) -> Result<$type, DmaError> {
            let slice = self.aligned::<$type>(address, Access::Read)?;
            let order = std::sync::atomic::Ordering::Acquire;
            slice.load(0, order).map(<$type>::from_le).map_err(|_| misaligned::<$type>(address))
        }

        /// Writes an aligned little-endian number atomically. A guest that sees it also sees all
        /// earlier writes.
        pub fn $store(&self, address: u64, value: $type) -> Result<(), DmaError> {
            let slice = self.aligned::<$type>(address, Access::Write)?;
            let order = std::sync::atomic::Ordering::Release;
            slice.store(value.to_le(), 0, order).map_err(|_| misaligned::<$type>(address))
        }
    };
}

/// The kind of an access to guest memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Read only.
    Read,
    /// Write only.
    Write,
}

impl Dma {
    /// Copies guest memory into all of `destination`.
    pub fn read(&self, address: u64, destination: &VolatileSlice<'_>) -> Result<(), DmaError> {
        self.for_each_piece(address, destination.len() as u64, Access::Read, |done, piece| {
            if let Ok(part) = destination.subslice(done, piece.len()) {
                piece.copy_to_volatile_slice(part);
            }
        })
    }

    /// Copies `source` into guest memory.
    pub fn write(&self, address: u64, source: &VolatileSlice<'_>) -> Result<(), DmaError> {
        self.for_each_piece(address, source.len() as u64, Access::Write, |done, piece| {
            if let Ok(part) = source.subslice(done, piece.len()) {
                part.copy_to_volatile_slice(piece);
            }
        })
    }

    /// Copies guest memory into all of `destination`.
    pub fn read_bytes(&self, address: u64, destination: &mut [u8]) -> Result<(), DmaError> {
        self.for_each_piece(address, destination.len() as u64, Access::Read, |done, piece| {
            piece.copy_to(&mut destination[done..done + piece.len()]);
        })
    }

    /// Copies `source` into guest memory.
    pub fn write_bytes(&self, address: u64, source: &[u8]) -> Result<(), DmaError> {
        self.for_each_piece(address, source.len() as u64, Access::Write, |done, piece| {
            piece.copy_from(&source[done..done + piece.len()]);
        })
    }

    numbers!(read_u32, write_u32, load_u32_acquire, store_u32_release, u32);
    numbers!(read_u64, write_u64, load_u64_acquire, store_u64_release, u64);

    /// Passes the aligned 8 bytes at `address` to `change`, which may change them atomically. The
    /// change is also atomic for the guest's processors.
    pub fn change_u64<T>(&self, address: u64, change: impl FnOnce(&AtomicU64) -> T) -> Result<T, DmaError> {
        let word = self.slice(address, 8, Access::Write)?;
        let misaligned = |_| DmaError { address, length: 8, reason: DmaErrorReason::Misaligned };
        word.get_atomic_ref::<AtomicU64>(0).map(change).map_err(misaligned)
    }

    /// Checks that the whole range can be accessed in this way now.
    pub fn check(&self, address: u64, length: u64, access: Access) -> Result<(), DmaError> {
        self.first_map(address, length, access).map(|_| ())
    }

    /// Returns guest memory in place if the range lies in one map. A range over several maps is
    /// `Unmapped`.
    pub fn slice(&self, address: u64, length: u64, access: Access) -> Result<VolatileSlice<'_>, DmaError> {
        let unmapped = DmaError { address, length, reason: DmaErrorReason::Unmapped };
        let first = self.first_map(address, length, access)?;
        let slice = self.maps.get(first).and_then(|map| map.slice(address, length));
        slice.filter(|slice| slice.len() as u64 == length).ok_or(unmapped)
    }

    /// Returns a counter that changes whenever memory is removed.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns the number of maps.
    pub fn map_count(&self) -> usize {
        self.maps.len()
    }

    fn aligned<T: AtomicAccess>(&self, address: u64, access: Access) -> Result<VolatileSlice<'_>, DmaError> {
        let length = size_of::<T>() as u64;
        if address % length != 0 {
            Err(misaligned::<T>(address))
        } else {
            self.slice(address, length, access)
        }
    }

    /// Checks a whole range, and returns the index of the map in which it begins.
    #[inline]
    fn first_map(&self, address: u64, length: u64, access: Access) -> Result<usize, DmaError> {
        let recent = self.recent.get();
        let will_do = |map: &Map| map.holds(address, length) && map.allow(access).is_ok();
        if self.bus_master && self.maps.get(recent).is_some_and(will_do) {
            return Ok(recent);
        }
        self.look_up(address, length, access)
    }

    /// Slow path of `first_map`, for a range that is not inside the map of the last access.
    fn look_up(&self, address: u64, length: u64, access: Access) -> Result<usize, DmaError> {
        let refuse = |reason| DmaError { address, length, reason };
        if !self.bus_master {
            return Err(refuse(DmaErrorReason::BusMasterOff));
        }
        let Some(last) = address.checked_add(length.saturating_sub(1)) else {
            return Err(refuse(DmaErrorReason::Wraps));
        };
        let first = self.maps.partition_point(|map| map.last() < address);
        let mut at = first;
        let mut reached = address;
        loop {
            let map = self.maps.get(at).filter(|map| map.address <= reached);
            let map = map.ok_or(refuse(DmaErrorReason::Unmapped))?;
            map.allow(access).map_err(refuse)?;
            if map.last() >= last {
                break;
            }
            reached = map.last() + 1;
            at += 1;
        }
        self.recent.set(at);
        Ok(first)
    }

    /// Checks the whole range, then passes it to `handle` map by map, with the number of bytes
    /// before each piece.
    fn for_each_piece(
        &self,
        address: u64,
        length: u64,
        access: Access,
        mut handle: impl FnMut(usize, VolatileSlice<'_>),
    ) -> Result<(), DmaError> {
        if length == 0 {
            return Ok(());
        }
        let first = self.first_map(address, length, access)?;
        let mut done = 0;
        for map in &self.maps[first..] {
            if done == length {
                break;
            }
            let reason = DmaErrorReason::NoSharedFile;
            let piece =
                map.slice(address + done, length - done).ok_or(DmaError { address, length, reason })?;
            let count = piece.len() as u64;
            handle(done as usize, piece);
            done += count;
        }
        Ok(())
    }

    /// Checks a map before it is added. A map without a file is recorded at once, and accesses to
    /// it are refused with a reason. A map with a file must be opened and then
    /// [finished](Dma::finish), with no other call in between.
    pub(crate) fn prepare(
        &mut self,
        request: MapRequest,
        mut fds: Vec<Kept<OwnedFd>>,
        peer: Peer,
    ) -> Result<Option<Opening>, MapError> {
        self.place(request)?;
        let MapRequest { flags, size, offset, .. } = request;
        if fds.len() > 1 {
            return Err(MapError::Descriptors(fds.len()));
        }
        if fds.is_empty() && flags & BY_MAPPING != 0 {
            return Err(MapError::NoDescriptor);
        }
        let (Some(fd), false) = (fds.pop(), self.memory == GuestMemory::Unused) else {
            return self.insert(request, None).map(|()| None);
        };
        let part = Part { offset, size, writable: flags & WRITABLE != 0 };
        let known = Known { regions: self.known(), memory: self.memory };
        Ok(Some(Opening { fd, part, known, peer }))
    }

    /// Adds a map that was opened. Returns a remark for the user, if there is one.
    pub(crate) fn finish(
        &mut self,
        request: MapRequest,
        opened: Result<Opened, SharedFileError>,
    ) -> Result<Option<&'static str>, MapError> {
        let Opened { region, remark } = opened?;
        let known = self.known();
        if !known.iter().any(|other| Arc::ptr_eq(other, &region)) {
            if known.len() >= MAX_REGIONS {
                return Err(MapError::TooManyRegions);
            }
            self.regions.push(Arc::downgrade(&region));
        }
        self.insert(request, Some(region))?;
        Ok(remark)
    }

    fn known(&mut self) -> Vec<Arc<Region>> {
        self.regions.retain(|region| region.strong_count() > 0);
        self.regions.iter().filter_map(Weak::upgrade).collect()
    }

    /// Returns the index for a new map in the table.
    fn place(&self, request: MapRequest) -> Result<usize, MapError> {
        let MapRequest { flags, address, size, offset } = request;
        if flags & !(READABLE | WRITABLE | BY_MAPPING) != 0 {
            return Err(MapError::Flags(flags));
        }
        let whole_pages = size > 0 && [address, size, offset].iter().all(|value| value % PAGE == 0);
        let last = size.checked_sub(1).and_then(|rest| address.checked_add(rest));
        let (true, Some(last), Some(_)) = (whole_pages, last, offset.checked_add(size)) else {
            return Err(MapError::Range { address, size, offset });
        };
        let index = self.maps.partition_point(|map| map.last() < address);
        if self.maps.get(index).is_some_and(|map| map.address <= last) {
            return Err(MapError::Overlap { address, size });
        }
        if self.maps.len() >= MAX_MAPS { Err(MapError::TooMany) } else { Ok(index) }
    }

    fn insert(&mut self, request: MapRequest, region: Option<Arc<Region>>) -> Result<(), MapError> {
        let index = self.place(request)?;
        let MapRequest { flags, address, size, offset } = request;
        let place = region.as_ref().map_or(0, |region| region.place(offset));
        self.maps.insert(index, Map { address, size, flags, region, place });
        Ok(())
    }

    /// Removes all maps inside the range, of which there may be none. Fails without any effect if a
    /// map crosses the range's edge.
    pub(crate) fn unmap(&mut self, address: u64, size: u64) -> Result<(), MapError> {
        let Some(last) = size.checked_sub(1).and_then(|rest| address.checked_add(rest)) else {
            return Err(MapError::Range { address, size, offset: 0 });
        };
        let first = self.maps.partition_point(|map| map.last() < address);
        let end = self.maps.partition_point(|map| map.address <= last);
        let covered = |map: &&Map| map.address >= address && map.last() <= last;
        if let Some(map) = self.maps[first..end].iter().find(|map| !covered(map)) {
            let (map_address, map_size) = (map.address, map.size);
            return Err(MapError::Partial { address, size, map_address, map_size });
        }
        self.maps.drain(first..end);
        // The regions are unmapped by the porter that keeps them.
        self.generation += 1;
        Ok(())
    }

    /// Removes all guest memory.
    pub(crate) fn unmap_all(&mut self) {
        self.maps.clear();
        // The regions are unmapped by the porter that keeps them.
        self.generation += 1;
    }

    /// Whether the function uses memory at all.
    pub(crate) fn is_used(&self) -> bool {
        self.memory != GuestMemory::Unused
    }

    pub(crate) fn set_memory(&mut self, memory: GuestMemory) {
        self.memory = memory;
    }

    /// Records that the guest has enabled or disabled bus mastering.
    pub(crate) fn set_bus_master(&mut self, enabled: bool) {
        self.bus_master = enabled;
    }
}

impl Map {
    fn allow(&self, access: Access) -> Result<(), DmaErrorReason> {
        let (flag, reason) = match access {
            Access::Read => (READABLE, DmaErrorReason::NotReadable),
            Access::Write => (WRITABLE, DmaErrorReason::NotWritable),
        };
        if self.flags & flag == 0 {
            return Err(reason);
        }
        if self.region.is_none() { Err(DmaErrorReason::NoSharedFile) } else { Ok(()) }
    }
}

fn misaligned<T>(address: u64) -> DmaError {
    DmaError { address, length: size_of::<T>() as u64, reason: DmaErrorReason::Misaligned }
}

#[cfg(test)]
mod tests;
