//! `DEVICE_GET_INFO`, `DEVICE_GET_REGION_INFO`, `DEVICE_GET_REGION_IO_FDS`: the device's regions.

use crate::harness::*;
use rustix::fs::{SealFlags, fcntl_get_seals, fstat};
use std::fs::File;
use vm_memory::{Bytes, FileOffset, MmapRegion, VolatileMemory};

fn region_info(index: u32, argsz: u32) -> Vec<u8> {
    [u32s(&[argsz, 0, index, 0]), u64s(&[0, 0])].concat()
}

#[test]
fn nine_regions_and_three_interrupt_types() {
    let mut harness = Harness::ready();
    assert_eq!(harness.call(GET_INFO, &u32s(&[16, 0, 0, 0])).ok(), u32s(&[16, 3, 9, 3]));
    assert_eq!(harness.call(GET_INFO, &u32s(&[15, 0, 0, 0])).errno(), EINVAL);
}

#[test]
fn each_region_has_its_size_and_flags() {
    let mut harness = Harness::ready();
    let wanted = [(64 << 10, 3), (0, 0), (1 << 20, 7), (0, 0), (8192, 3), (0, 0), (0, 0), (4096, 3), (0, 0)];
    for (index, (size, flags)) in (0..).zip(wanted) {
        let reply = harness.call(GET_REGION_INFO, &region_info(index, 32));
        assert!(reply.fds.is_empty(), "nothing to map with, before the areas are known");
        let body = reply.ok();
        assert_eq!((u64_at(&body, 16), u32_at(&body, 4), u32_at(&body, 8)), (size, flags, index));
        assert_eq!((body.len(), u64_at(&body, 24)), (32, 0));
    }
    for index in [9, u32::MAX] {
        assert_eq!(harness.call(GET_REGION_INFO, &region_info(index, 32)).errno(), EINVAL);
    }
    assert_eq!(harness.call(GET_REGION_INFO, &region_info(0, 31)).errno(), EINVAL);
}

#[test]
fn mapped_areas_are_listed_if_argsz_suffices() {
    let mut harness = Harness::ready();
    let needed = 32 + 16 + 2 * 16;
    for argsz in [32, needed - 1] {
        let body = harness.call(GET_REGION_INFO, &region_info(WINDOW, argsz)).ok();
        assert_eq!((body.len(), u32_at(&body, 0), u32_at(&body, 12)), (32, needed, 0), "argsz {argsz}");
        // QEMU refuses a region with the capabilities flag but without capabilities.
        assert_eq!(u32_at(&body, 4), 7, "mappable, but no capabilities yet");
    }
    for argsz in [needed, 4096] {
        let body = harness.call(GET_REGION_INFO, &region_info(WINDOW, argsz)).ok();
        assert_eq!(
            (body.len() as u32, u32_at(&body, 0), u32_at(&body, 12)),
            (needed, needed, 32),
            "argsz {argsz}"
        );
        assert_eq!(u32_at(&body, 4), 15);
        assert_eq!(body[32..40], [1, 0, 1, 0, 0, 0, 0, 0], "sparse mmap, version 1, the last capability");
        assert_eq!(u32_at(&body, 40), 2);
        let areas = [(u64_at(&body, 48), u64_at(&body, 56)), (u64_at(&body, 64), u64_at(&body, 72))];
        assert_eq!(areas, WINDOW_AREAS);
    }
}

#[test]
fn mapped_memory_is_shared_and_cannot_shrink() {
    let mut harness = Harness::ready();
    let mut reply = harness.call(GET_REGION_INFO, &region_info(WINDOW, 4096));
    let fd = reply.fds.remove(0);
    assert_eq!(fstat(&fd).unwrap().st_size, 1 << 20);
    assert!(fcntl_get_seals(&fd).unwrap().contains(SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL));
    let client = MmapRegion::<()>::from_file(FileOffset::new(File::from(fd), 0), 1 << 20).unwrap();
    let client = client.get_slice(0, 1 << 20).unwrap();
    client.write_obj(0x1234_5678_u32, 128 << 10).unwrap();
    let pages = harness.server.bus().pages(WINDOW as usize).unwrap();
    let order = std::sync::atomic::Ordering::Acquire;
    assert_eq!(pages.load_u32(128 << 10, order), Ok(0x1234_5678));
    pages.write_bytes(8, b"card").unwrap();
    assert_eq!(client.read_obj::<[u8; 4]>(8).unwrap(), *b"card");
}

#[test]
fn function_may_have_no_mapped_areas() {
    let mut description = description();
    description.bars.truncate(1);
    description.msix = None;
    let mut harness = Harness::with(description);
    harness.negotiate();
    for index in 0..9 {
        let reply = harness.call(GET_REGION_INFO, &region_info(index, 4096));
        assert!(reply.fds.is_empty());
        assert_eq!(u32_at(&reply.ok(), 4) & 0xc, 0, "neither mappable nor with capabilities");
    }
}

#[test]
fn no_region_has_descriptors_for_its_parts() {
    let mut harness = Harness::ready();
    let body = harness.call(GET_REGION_IO_FDS, &u32s(&[4096, 0, REGISTERS, 0])).ok();
    assert_eq!(body, u32s(&[16, 0, REGISTERS, 0]));
    assert_eq!(harness.call(GET_REGION_IO_FDS, &u32s(&[16, 0, 9, 0])).errno(), EINVAL);
    assert_eq!(harness.call(GET_REGION_IO_FDS, &u32s(&[15, 0, 0, 0])).errno(), EINVAL);
}
