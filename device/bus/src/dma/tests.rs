use super::*;
use hamlyn_door::{Porter, Porters};
use proptest::prelude::*;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use vm_memory::VolatileSlice;

const READ_WRITE: u32 = READABLE | WRITABLE;

fn memfd(pages: u64) -> OwnedFd {
    let fd = memfd_create("guest", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
    ftruncate(&fd, pages * PAGE).unwrap();
    fcntl_add_seals(&fd, SealFlags::SHRINK).unwrap();
    fd
}

struct Guest {
    dma: Dma,
    memory: OwnedFd,
    porter: Porter,
}

impl Guest {
    fn new() -> Self {
        let mut dma = Dma::default();
        dma.set_bus_master(true);
        Guest { dma, memory: memfd(64), porter: Porters::new(1).hire().unwrap() }
    }

    fn lend(&mut self, request: MapRequest, fds: Vec<OwnedFd>) -> Result<(), MapError> {
        let fds = fds.into_iter().map(|fd| self.porter.keep(fd)).collect();
        match self.dma.prepare(request, fds, Peer::new(None))? {
            Some(opening) => self.dma.finish(request, opening.open()).map(drop),
            None => Ok(()),
        }
    }

    fn map(&mut self, flags: u32, page: u64, pages: u64, file_page: u64) -> Result<(), MapError> {
        let request =
            MapRequest { flags, address: page * PAGE, size: pages * PAGE, offset: file_page * PAGE };
        self.lend(request, vec![self.memory.try_clone().unwrap()])
    }
}

fn reason<T: std::fmt::Debug>(result: Result<T, DmaError>) -> DmaErrorReason {
    result.unwrap_err().reason
}

#[test]
fn range_may_span_adjacent_maps() {
    let mut guest = Guest::new();
    // The two pages are far apart in the file, and in reverse order.
    guest.map(READ_WRITE, 10, 1, 40).unwrap();
    guest.map(READ_WRITE, 11, 1, 3).unwrap();
    let start = 11 * PAGE - 3;
    guest.dma.write_bytes(start, b"abcdef").unwrap();
    let mut back = [0; 6];
    guest.dma.read_bytes(start, &mut back).unwrap();
    assert_eq!(&back, b"abcdef");
    let mut file = [0; 3];
    rustix::io::pread(&guest.memory, &mut file, 3 * PAGE).unwrap();
    assert_eq!(&file, b"def");
    assert_eq!(reason(guest.dma.slice(start, 6, Access::Read)), DmaErrorReason::Unmapped);
    assert_eq!(guest.dma.slice(start, 3, Access::Read).unwrap().len(), 3);
}

#[test]
fn a_refused_write_changes_no_byte() {
    let mut guest = Guest::new();
    guest.map(READ_WRITE, 1, 1, 0).unwrap();
    let end = 2 * PAGE;
    assert_eq!(reason(guest.dma.write_bytes(end - 2, b"abc")), DmaErrorReason::Unmapped);
    guest.map(READABLE, 2, 1, 1).unwrap();
    assert_eq!(reason(guest.dma.write_bytes(end - 2, b"abc")), DmaErrorReason::NotWritable);
    assert_eq!(guest.dma.read_u32(end - 2), Ok(0));
}

#[test]
fn volatile_slices_are_copied_both_ways() {
    let mut guest = Guest::new();
    guest.map(READ_WRITE, 0, 2, 0).unwrap();
    let mut source = *b"0123456789";
    let mut target = [0; 10];
    guest.dma.write(PAGE - 5, &VolatileSlice::from(&mut source[..])).unwrap();
    guest.dma.read(PAGE - 5, &VolatileSlice::from(&mut target[..])).unwrap();
    assert_eq!(&target, b"0123456789");
}

#[test]
fn numbers_are_little_endian_and_atomics_aligned() {
    let mut guest = Guest::new();
    guest.map(READ_WRITE, 0, 1, 0).unwrap();
    guest.dma.store_u32_release(8, 0x0102_0304).unwrap();
    let mut bytes = [0; 4];
    guest.dma.read_bytes(8, &mut bytes).unwrap();
    assert_eq!(bytes, [4, 3, 2, 1]);
    guest.dma.write_u64(13, u64::MAX).unwrap();
    assert_eq!(guest.dma.load_u64_acquire(16), Ok(0xff_ffff_ffff));
    assert_eq!(reason(guest.dma.load_u32_acquire(6)), DmaErrorReason::Misaligned);
    assert_eq!(reason(guest.dma.store_u64_release(4, 0)), DmaErrorReason::Misaligned);
}

#[test]
fn every_refusal_has_its_reason() {
    let mut guest = Guest::new();
    guest.map(WRITABLE, 0, 1, 0).unwrap();
    let no_file = MapRequest { flags: READ_WRITE, address: PAGE, size: PAGE, offset: 0 };
    guest.lend(no_file, vec![]).unwrap();
    assert_eq!(reason(guest.dma.read_u32(0)), DmaErrorReason::NotReadable);
    let refused = guest.dma.read_u32(PAGE).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "guest range 0x1000+0x4 has no shared file: start QEMU with memory-backend-memfd,share=on"
    );
    assert_eq!(reason(guest.dma.read_u32(u64::MAX)), DmaErrorReason::Wraps);
    assert_eq!(reason(guest.dma.check(2 * PAGE, 1, Access::Read)), DmaErrorReason::Unmapped);
    guest.dma.set_bus_master(false);
    assert_eq!(reason(guest.dma.write_u32(0, 1)), DmaErrorReason::BusMasterOff);
}

#[test]
fn maps_must_be_whole_pages_inside_their_file() {
    let mut guest = Guest::new();
    let bad = [(1, PAGE, 0), (0, PAGE + 1, 0), (0, PAGE, 1), (0, 0, 0), (PAGE.wrapping_neg(), 2 * PAGE, 0)];
    for (address, size, offset) in bad {
        let request = MapRequest { flags: READ_WRITE, address, size, offset };
        let refused = guest.lend(request, vec![memfd(4)]);
        assert!(matches!(refused, Err(MapError::Range { .. })), "{request:?}");
    }
    assert!(matches!(guest.map(READ_WRITE, 0, 2, 63), Err(MapError::File(_))));
    assert!(matches!(
        guest.map(READ_WRITE, 0, 1, u64::MAX / PAGE),
        Err(MapError::Range { .. } | MapError::File(_))
    ));
    assert!(matches!(guest.map(8, 0, 1, 0), Err(MapError::Flags(8))));
    let request = MapRequest { flags: READ_WRITE, address: 0, size: PAGE, offset: 0 };
    let two = vec![memfd(1), memfd(1)];
    assert!(matches!(guest.lend(request, two), Err(MapError::Descriptors(2))));
    assert_eq!(guest.dma.map_count(), 0);
    // The last page of the address space can be mapped like any other.
    guest.map(READ_WRITE, u64::MAX / PAGE, 1, 0).unwrap();
    guest.dma.write_u32(u64::MAX - 3, 5).unwrap();
    assert_eq!(guest.dma.read_u32(u64::MAX - 3), Ok(5));
}

#[test]
fn number_of_files_is_limited() {
    let mut guest = Guest::new();
    let mut map = |page: u64| {
        let request = MapRequest { flags: READ_WRITE, address: page * PAGE, size: PAGE, offset: 0 };
        guest.lend(request, vec![memfd(1)])
    };
    (0..MAX_REGIONS as u64).for_each(|page| map(page).unwrap());
    assert!(matches!(map(1000), Err(MapError::TooManyRegions)));
    guest.dma.unmap(0, PAGE).unwrap();
    let request = MapRequest { flags: READ_WRITE, address: 0, size: PAGE, offset: 0 };
    guest.lend(request, vec![memfd(1)]).unwrap();
}

#[test]
fn shared_bytes_count_once_towards_limit() {
    let mut guest = Guest::new();
    guest.dma.set_memory(GuestMemory::Sealed { limit: 70 * PAGE });
    guest.map(READ_WRITE, 0, 5, 0).unwrap();
    guest.map(READ_WRITE, 10, 64, 0).unwrap();
    let other = |guest: &mut Guest, size| {
        let request = MapRequest { flags: READ_WRITE, address: 1 << 40, size, offset: 0 };
        guest.lend(request, vec![memfd(64)])
    };
    let refused = other(&mut guest, 7 * PAGE);
    assert!(matches!(refused, Err(MapError::File(SharedFileError::TooMuch { .. }))), "{refused:?}");
    guest.dma.unmap(0, 5 * PAGE).unwrap();
    assert!(other(&mut guest, 7 * PAGE).is_err());
    guest.dma.unmap_all();
    other(&mut guest, 7 * PAGE).unwrap();
}

#[test]
fn maps_share_regions_and_regions_are_limited() {
    let mut guest = Guest::new();
    let gib = 1_u64 << 30;
    guest.memory = memfd(gib);
    let mut lend = |page: u64, offset| {
        let request = MapRequest { flags: READ_WRITE, address: page * PAGE, size: PAGE, offset };
        let memory = guest.memory.try_clone().unwrap();
        guest.lend(request, vec![memory])
    };
    (0..1000).for_each(|page| lend(page, page * PAGE).unwrap());
    (1..MAX_REGIONS as u64).for_each(|at| lend(1000 + at, at * gib).unwrap());
    assert!(matches!(lend(3000, 600 * gib), Err(MapError::TooManyRegions)));
}

#[test]
fn function_with_unused_memory_maps_nothing() {
    let mut guest = Guest::new();
    guest.dma.set_memory(GuestMemory::Unused);
    guest.map(READ_WRITE, 0, 64, 0).unwrap();
    assert_eq!(reason(guest.dma.read_u32(0)), DmaErrorReason::NoSharedFile);
}

#[test]
fn overlaps_are_refused_at_both_ends() {
    let mut guest = Guest::new();
    guest.map(READ_WRITE, 10, 4, 0).unwrap();
    for (page, pages) in [(8, 3), (13, 1), (10, 4), (11, 1), (0, 40)] {
        assert!(
            matches!(guest.map(READ_WRITE, page, pages, 0), Err(MapError::Overlap { .. })),
            "{page}+{pages}"
        );
    }
    guest.map(READ_WRITE, 14, 1, 0).unwrap();
    guest.map(READ_WRITE, 9, 1, 0).unwrap();
}

#[test]
fn unmap_takes_whole_maps_or_nothing() {
    let mut guest = Guest::new();
    for page in [1, 2, 3, 7] {
        guest.map(READ_WRITE, page, 1, page).unwrap();
    }
    guest.map(READ_WRITE, 10, 4, 0).unwrap();
    let before = guest.dma.generation();
    assert!(matches!(guest.dma.unmap(0, 12 * PAGE), Err(MapError::Partial { .. })));
    assert!(matches!(guest.dma.unmap(11 * PAGE, PAGE), Err(MapError::Partial { .. })));
    assert!(matches!(guest.dma.unmap(0, 0), Err(MapError::Range { .. })));
    assert_eq!((guest.dma.map_count(), guest.dma.generation()), (5, before));
    guest.dma.unmap(0, 5 * PAGE).unwrap();
    assert_eq!(guest.dma.map_count(), 2);
    assert_ne!(guest.dma.generation(), before);
    assert_eq!(reason(guest.dma.read_u32(PAGE)), DmaErrorReason::Unmapped);
    assert_eq!(guest.dma.read_u32(7 * PAGE), Ok(0));
    guest.dma.unmap(20 * PAGE, PAGE).unwrap();
    guest.dma.unmap_all();
    assert_eq!(guest.dma.map_count(), 0);
}

proptest! {
    /// Compares the table with a simple model: a set of pages.
    #[test]
    fn map_table_behaves_like_page_set(
        steps in proptest::collection::vec((any::<bool>(), 0_u64..24, 1_u64..6), 1..60),
        reads in proptest::collection::vec((0_u64..26 * PAGE, 1_u64..3 * PAGE), 20),
    ) {
        let mut guest = Guest::new();
        let mut maps: Vec<std::ops::Range<u64>> = Vec::new();
        for (add, page, pages) in steps {
            let range = page..page + pages;
            let touches = |map: &std::ops::Range<u64>| map.start < range.end && range.start < map.end;
            let inside = |map: &std::ops::Range<u64>| range.start <= map.start && map.end <= range.end;
            if add {
                let free = !maps.iter().any(touches);
                prop_assert_eq!(guest.map(READ_WRITE, page, pages, page).is_ok(), free);
                if free { maps.push(range); }
            } else {
                let whole = maps.iter().filter(|map| touches(map)).all(inside);
                prop_assert_eq!(guest.dma.unmap(page * PAGE, pages * PAGE).is_ok(), whole);
                if whole { maps.retain(|map| !touches(map)); }
            }
        }
        for (address, length) in reads {
            let page_is_mapped = |page| maps.iter().any(|map: &std::ops::Range<u64>| map.contains(&page));
            let mapped = (address / PAGE..=(address + length - 1) / PAGE).all(page_is_mapped);
            prop_assert_eq!(guest.dma.check(address, length, Access::Read).is_ok(), mapped);
            let mut bytes = vec![0; length as usize];
            prop_assert_eq!(guest.dma.read_bytes(address, &mut bytes).is_ok(), mapped);
        }
    }
}
