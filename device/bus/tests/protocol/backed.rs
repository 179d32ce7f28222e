//! A BAR that is part of a file from outside: the areas are the file's bytes, and the rest of the
//! file is not accessible.

use crate::harness::*;
use hamlyn_bus::{Backing, BackingError, Server, ServerError};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fstat, ftruncate, memfd_create};
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;

/// The file ends with the last area, so it is smaller than the BAR.
const FILE: u64 = WINDOW_AREAS[1].0 + WINDOW_AREAS[1].1;
/// Offset of a gap between the areas.
const GAP: u64 = 8 << 10;

fn memory(bytes: u64, seals: SealFlags) -> OwnedFd {
    let memory = memfd_create("test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
    ftruncate(&memory, bytes).unwrap();
    fcntl_add_seals(&memory, seals).unwrap();
    memory
}

fn backed() -> (Harness, Arc<File>) {
    let file = Arc::new(File::from(memory(FILE, SealFlags::SHRINK)));
    let backing = Backing { bar: WINDOW as usize, file: file.clone() };
    let mut harness = Harness::over(description(), Some(backing));
    harness.negotiate();
    (harness, file)
}

fn write(region: u32, offset: u64, data: &[u8]) -> Vec<u8> {
    [access(region, offset, data.len() as u32), data.to_vec()].concat()
}

#[test]
fn client_gets_the_file_and_its_areas() {
    let (mut harness, file) = backed();
    let info = [u32s(&[4096, 0, WINDOW, 0]), u64s(&[0, 0])].concat();
    let mut reply = harness.call(GET_REGION_INFO, &info);
    assert_eq!(reply.fds.len(), 1);
    let (handed, own) = (fstat(reply.fds.remove(0)).unwrap(), file.metadata().unwrap());
    assert_eq!((handed.st_dev, handed.st_ino), (own.dev(), own.ino()));
    let body = reply.ok();
    assert_eq!((u64_at(&body, 16), u64_at(&body, 24), u32_at(&body, 40)), (1 << 20, 0, 2));
    assert_eq!((u64_at(&body, 64), u64_at(&body, 72)), WINDOW_AREAS[1]);
    assert!(harness.server.bus().pages(WINDOW as usize).is_none(), "the server has not mapped it");
}

#[test]
fn messages_access_the_same_bytes() {
    let (mut harness, file) = backed();
    let place = WINDOW_AREAS[1].0;
    file.write_all_at(b"other machine", place + 3).unwrap();
    let body = harness.call(REGION_READ, &access(WINDOW, place + 3, 13)).ok();
    assert_eq!(&body[16..], b"other machine");
    harness.call(REGION_WRITE, &write(WINDOW, FILE - 5, b"hello")).ok();
    let mut bytes = [0; 5];
    file.read_exact_at(&mut bytes, FILE - 5).unwrap();
    assert_eq!(&bytes, b"hello");
    assert!(harness.function.events.is_empty(), "the function is not asked");
}

#[test]
fn file_contents_between_areas_are_inaccessible() {
    let (mut harness, file) = backed();
    file.write_all_at(&[0xee; 4096], GAP).unwrap();
    // The function answers with the offset.
    let body = harness.call(REGION_READ, &access(WINDOW, GAP, 4)).ok();
    assert_eq!(u32_at(&body, 16), GAP as u32);
    harness.call(REGION_WRITE, &write(WINDOW, GAP, &[1, 2, 3, 4])).ok();
    assert_eq!(harness.function.events.len(), 2);
    // No access may cross the edge of an area.
    for (offset, count) in [(4092, 8), (WINDOW_AREAS[1].0 - 4, 8), (FILE - 4, 8)] {
        let read = harness.call(REGION_READ, &access(WINDOW, offset, count)).ok();
        assert_eq!(read[16..], vec![0xff; count as usize]);
        harness.call(REGION_WRITE, &write(WINDOW, offset, &vec![7; count as usize])).ok();
    }
    let mut bytes = [0; 4096];
    file.read_exact_at(&mut bytes, GAP).unwrap();
    assert_eq!(bytes, [0xee; 4096]);
    assert_eq!(file.metadata().unwrap().len(), FILE);
}

#[test]
fn unsealed_or_short_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |bar: usize, file: OwnedFd| {
        let backing = Backing { bar, file: Arc::new(file.into()) };
        match Server::bind_over(&folder.path().join("function"), description(), Some(backing)) {
            Err(ServerError::Backing(error)) => Some(error),
            other => other.map(|_| None).unwrap(),
        }
    };
    let window = WINDOW as usize;
    let sealed = || memory(FILE, SealFlags::SHRINK);
    let shared = sealed();
    let read_only = File::open(format!("/proc/self/fd/{}", shared.as_raw_fd())).unwrap();
    assert!(matches!(refused(1, sealed()), Some(BackingError::Bar(1))));
    assert!(matches!(refused(window, memory(FILE, SealFlags::GROW)), Some(BackingError::Unsealed(2))));
    assert!(matches!(refused(window, tempfile::tempfile().unwrap().into()), Some(BackingError::Unsealed(2))));
    assert!(matches!(refused(window, read_only.into()), Some(BackingError::ReadOnly(2))));
    let sealed_for_good = memory(FILE, SealFlags::SHRINK | SealFlags::FUTURE_WRITE);
    assert!(matches!(refused(window, sealed_for_good), Some(BackingError::ReadOnly(2))));
    let short = refused(window, memory(FILE - 4096, SealFlags::SHRINK)).unwrap();
    assert_eq!(
        short.to_string(),
        "the file behind BAR 2 has 0x2f000 bytes, and its mapped areas end at 0x30000"
    );
    assert!(refused(window, sealed()).is_none());
}
