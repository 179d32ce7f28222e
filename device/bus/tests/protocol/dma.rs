//! `DMA_MAP` and `DMA_UNMAP`: adding and removing guest memory.

use crate::harness::*;
use hamlyn_bus::{DmaErrorReason, GuestMemory};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::pipe::pipe;
use std::fs::File;
use std::io::{Read, Seek};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use vm_memory::{FileOffset, MmapRegion};

const READ: u32 = 1;
const READ_WRITE: u32 = 3;
const PAGE: u64 = 4096;

fn with_memory(pages: u64) -> (Harness, OwnedFd) {
    let mut harness = Harness::ready();
    harness.enable_bus_master();
    harness.take_events();
    (harness, memfd(pages * PAGE))
}

fn word_in_file(file: &OwnedFd, offset: u64) -> u32 {
    let mut bytes = [0; 4];
    rustix::io::pread(file, &mut bytes, offset).unwrap();
    u32::from_le_bytes(bytes)
}

#[test]
fn the_device_reads_and_writes_the_clients_file() {
    let (mut harness, memory) = with_memory(16);
    harness.map(READ_WRITE, 2 * PAGE, 0x10_0000, 4 * PAGE, &[memory.as_fd()]).ok();
    assert_eq!(harness.take_events(), [Event::Memory]);
    rustix::io::pwrite(&memory, &41_u32.to_le_bytes(), 2 * PAGE + 12).unwrap();
    harness.write(REGISTERS, INCREMENT, &(0x10_000c_u64).to_le_bytes()).ok();
    assert_eq!(word_in_file(&memory, 2 * PAGE + 12), 42);
    assert_eq!(harness.function.errors, [""; 0]);
}

#[test]
fn bus_mastering_off_means_no_access() {
    let (mut harness, memory) = with_memory(1);
    harness.map(READ_WRITE, 0, 0, PAGE, &[memory.as_fd()]).ok();
    harness.write(CONFIG, 4, &[2, 0]).ok();
    harness.write(REGISTERS, INCREMENT, &[0; 8]).ok();
    assert!(harness.function.errors[0].contains("bus mastering"), "{:?}", harness.function.errors);
    assert_eq!(word_in_file(&memory, 0), 0);
    harness.enable_bus_master();
    harness.write(REGISTERS, INCREMENT, &[0; 8]).ok();
    assert_eq!(word_in_file(&memory, 0), 1);
}

#[test]
fn read_only_memory_is_not_written() {
    let (mut harness, memory) = with_memory(1);
    harness.map(READ, 0, 0, PAGE, &[memory.as_fd()]).ok();
    harness.write(REGISTERS, INCREMENT, &[0; 8]).ok();
    assert!(harness.function.errors[0].contains("not writable"), "{:?}", harness.function.errors);
    assert_eq!(word_in_file(&memory, 0), 0);
}

#[test]
fn access_to_fileless_memory_fails_with_reason() {
    let (mut harness, _) = with_memory(1);
    harness.map(READ_WRITE, 0, 0x1000, PAGE, &[]).ok();
    harness.write(REGISTERS, INCREMENT, &0x1000_u64.to_le_bytes()).ok();
    assert!(harness.function.errors[0].contains("share=on"), "{:?}", harness.function.errors);
    assert_eq!(harness.map(READ_WRITE, 0, 0x1000, PAGE, &[]).errno(), EEXIST);
    harness.call(DMA_UNMAP, &dma_unmap(0, 0x1000, PAGE)).ok();
    assert_eq!(harness.server.bus().dma.map_count(), 0);
}

#[test]
fn large_memory_without_a_file_is_logged_once() {
    let log = Arc::new(tempfile::tempfile().unwrap());
    let subscriber = tracing_subscriber::fmt().with_writer(log.clone()).with_ansi(false).finish();
    // The server runs in this thread.
    tracing::subscriber::with_default(subscriber, || {
        let (mut harness, _) = with_memory(1);
        let large: u64 = 64 << 20;
        harness.map(READ_WRITE, 0, 0, large - PAGE, &[]).ok();
        for place in 1..4_u64 {
            harness.map(READ_WRITE, 0, place << 30, large, &[]).ok();
        }
    });
    let (mut file, mut text) = (&*log, String::new());
    file.rewind().unwrap();
    file.read_to_string(&mut text).unwrap();
    let lines: Vec<_> = text.lines().filter(|line| line.contains("no shared file")).collect();
    assert_eq!(lines.len(), 1, "{text}");
    assert!(lines[0].contains("64 MiB at guest address 0x40000000 have no shared file"), "{text}");
}

#[test]
fn wrong_maps_are_refused_and_change_nothing() {
    let (mut harness, memory) = with_memory(4);
    let fd = [memory.as_fd()];
    assert_eq!(harness.map(READ_WRITE, 0, 1, PAGE, &fd).errno(), EINVAL, "address");
    assert_eq!(harness.map(READ_WRITE, 0, 0, PAGE + 8, &fd).errno(), EINVAL, "size");
    assert_eq!(harness.map(READ_WRITE, 0, 0, 0, &fd).errno(), EINVAL, "empty");
    assert_eq!(harness.map(READ_WRITE, 7, 0, PAGE, &fd).errno(), EINVAL, "offset");
    assert_eq!(harness.map(READ_WRITE, 0, 0, 5 * PAGE, &fd).errno(), EINVAL, "past the end of the file");
    assert_eq!(harness.map(READ_WRITE, u64::MAX - 4095, 0, 2 * PAGE, &fd).errno(), EINVAL, "offset wraps");
    assert_eq!(harness.map(READ_WRITE, 0, u64::MAX - 4095, 2 * PAGE, &fd).errno(), EINVAL, "address wraps");
    assert_eq!(harness.map(0x13, 0, 0, PAGE, &fd).errno(), EINVAL, "flags");
    assert_eq!(harness.map(READ_WRITE | 4, 0, 0, PAGE, &[]).errno(), EINVAL, "nothing to map");
    assert_eq!(harness.map(READ_WRITE, 0, 0, PAGE, &[fd[0], fd[0]]).errno(), EINVAL, "two files");
    let (reader, _writer) = pipe().unwrap();
    assert_eq!(harness.map(READ_WRITE, 0, 0, PAGE, &[reader.as_fd()]).errno(), EINVAL, "a pipe");
    let mut short = dma_map(READ_WRITE, 0, 0, PAGE);
    short[0] = 31;
    assert_eq!(harness.call_with_fds(DMA_MAP, &short, &fd).errno(), EINVAL, "argsz");
    assert_eq!(harness.server.bus().dma.map_count(), 0);
    assert_eq!(harness.take_events(), []);
}

#[test]
fn overlapping_maps_are_refused() {
    let (mut harness, memory) = with_memory(8);
    let fd = [memory.as_fd()];
    harness.map(READ_WRITE, 0, 4 * PAGE, 4 * PAGE, &fd).ok();
    for (first, count) in [(4, 4), (3, 2), (7, 1), (0, 100), (5, 1)] {
        assert_eq!(harness.map(READ_WRITE, 0, first * PAGE, count * PAGE, &[]).errno(), EEXIST);
    }
    harness.map(READ_WRITE, 0, 8 * PAGE, PAGE, &fd).ok();
}

#[test]
fn private_guest_memory_is_refused() {
    let (mut harness, memory) = with_memory(1);
    let file = FileOffset::new(File::from(memory.try_clone().unwrap()), 0);
    let private =
        MmapRegion::<()>::build(Some(file), 4096, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE)
            .unwrap();
    assert_eq!(harness.map(READ_WRITE, 0, 0, PAGE, &[memory.as_fd()]).errno(), EINVAL);
    drop(private);
    harness.map(READ_WRITE, 0, 0, PAGE, &[memory.as_fd()]).ok();
}

#[test]
fn one_unmap_may_cover_many_maps() {
    let (mut harness, memory) = with_memory(64);
    for page in 0..64 {
        harness.map(READ_WRITE, page * PAGE, page * PAGE, PAGE, &[memory.as_fd()]).ok();
    }
    let generation = harness.server.bus().dma.generation();
    let request = dma_unmap(0, 0, 48 * PAGE);
    assert_eq!(harness.call(DMA_UNMAP, &request).ok(), request);
    assert_eq!(harness.server.bus().dma.map_count(), 16);
    assert_ne!(harness.server.bus().dma.generation(), generation);
    let refused = harness.server.bus().dma.read_u32(0).unwrap_err();
    assert_eq!(refused.reason, DmaErrorReason::Unmapped);
    assert_eq!(harness.server.bus().dma.read_u32(50 * PAGE), Ok(0));
}

#[test]
fn unmap_all_removes_everything() {
    let (mut harness, memory) = with_memory(2);
    harness.map(READ_WRITE, 0, 0, PAGE, &[memory.as_fd()]).ok();
    harness.map(READ_WRITE, PAGE, 1 << 40, PAGE, &[memory.as_fd()]).ok();
    harness.call(DMA_UNMAP, &dma_unmap(2, 0, 0)).ok();
    assert_eq!(harness.server.bus().dma.map_count(), 0);
}

#[test]
fn wrong_unmaps_are_refused_without_effect() {
    let (mut harness, memory) = with_memory(4);
    harness.map(READ_WRITE, 0, 0, 4 * PAGE, &[memory.as_fd()]).ok();
    assert_eq!(harness.call(DMA_UNMAP, &dma_unmap(0, 0, PAGE)).errno(), EINVAL, "a part");
    assert_eq!(harness.call(DMA_UNMAP, &dma_unmap(0, PAGE, 8 * PAGE)).errno(), EINVAL, "another part");
    assert_eq!(harness.call(DMA_UNMAP, &dma_unmap(0, 0, 0)).errno(), EINVAL, "empty");
    assert_eq!(harness.call(DMA_UNMAP, &dma_unmap(0, u64::MAX, 2)).errno(), EINVAL, "wraps");
    assert_eq!(harness.call(DMA_UNMAP, &dma_unmap(1, 0, 4 * PAGE)).errno(), EOPNOTSUPP, "dirty pages");
    let mut short = dma_unmap(0, 0, 4 * PAGE);
    short[0] = 23;
    assert_eq!(harness.call(DMA_UNMAP, &short).errno(), EINVAL, "argsz");
    assert_eq!(harness.server.bus().dma.read_u32(0), Ok(0));
    harness.call(DMA_UNMAP, &dma_unmap(0, 100 * PAGE, PAGE)).ok();
    harness.call(DMA_UNMAP, &dma_unmap(0, 0, 4 * PAGE)).ok();
}

/// Returns how many bytes of a file are mapped in this process.
fn mapped_here(file: &OwnedFd) -> u64 {
    let inode = rustix::fs::fstat(file).unwrap().st_ino.to_string();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let of_file = maps.lines().filter(|line| line.split_ascii_whitespace().nth(4) == Some(&inode));
    let bytes = |line: &str| {
        let (first, rest) = line.split_once('-').unwrap();
        let end = rest.split_once(' ').unwrap().0;
        u64::from_str_radix(end, 16).unwrap() - u64::from_str_radix(first, 16).unwrap()
    };
    of_file.map(bytes).sum()
}

#[test]
fn memory_is_unmapped_with_its_last_map() {
    let (mut harness, memory) = with_memory(1 << 33);
    let gib = 1 << 30;
    harness.map(READ_WRITE, 0, 0, PAGE, &[memory.as_fd()]).ok();
    harness.map(READ_WRITE, PAGE, 4 * PAGE, PAGE, &[memory.as_fd()]).ok();
    assert_eq!(mapped_here(&memory), gib, "with what is around it");
    harness.map(READ_WRITE, 1 << 44, PAGE, PAGE, &[memory.as_fd()]).ok();
    assert_eq!(mapped_here(&memory), 2 * gib);
    rustix::io::pwrite(&memory, &41_u32.to_le_bytes(), 1 << 44).unwrap();
    harness.write(REGISTERS, INCREMENT, &PAGE.to_le_bytes()).ok();
    assert_eq!(word_in_file(&memory, 1 << 44), 42);
    harness.call(DMA_UNMAP, &dma_unmap(0, 0, 2 * PAGE)).ok();
    assert_eq!(mapped_here(&memory), gib);
    harness.call(DMA_UNMAP, &dma_unmap(0, 4 * PAGE, PAGE)).ok();
    assert_eq!(mapped_here(&memory), 0);
}

#[test]
fn sparse_files_cannot_exceed_the_memory_limit() {
    let mut harness = Harness::ready();
    let tib = 1_u64 << 40;
    harness.server.set_guest_memory(GuestMemory::Sealed { limit: 2 * tib });
    let files: Vec<_> = (0..23).map(|_| memfd(6 * tib)).collect();
    let refused = |harness: &mut Harness, at: u64, size| {
        let reply = harness.map(READ_WRITE, 0, at * 6 * tib, size, &[files[at as usize].as_fd()]);
        reply.error
    };
    assert_eq!(refused(&mut harness, 0, 6 * tib), ENOSPC);
    for at in 1..3 {
        assert_eq!(refused(&mut harness, at, tib), 0);
    }
    for at in 3..23 {
        assert_eq!(refused(&mut harness, at, tib), ENOSPC);
    }
    assert_eq!(files.iter().map(mapped_here).sum::<u64>(), 2 * tib);
}

#[test]
fn unsealed_memory_is_refused_unless_trusted() {
    let (mut harness, _) = with_memory(1);
    let unsealed = memfd_create("guest", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
    ftruncate(&unsealed, PAGE).unwrap();
    assert_eq!(harness.map(READ_WRITE, 0, 0, PAGE, &[unsealed.as_fd()]).errno(), EINVAL);
    // A server of only one machine may accept it.
    harness.server.set_guest_memory(GuestMemory::Trusted { limit: PAGE });
    harness.map(READ_WRITE, 0, 0, PAGE, &[unsealed.as_fd()]).ok();
    harness.write(REGISTERS, INCREMENT, &[0; 8]).ok();
    assert_eq!(word_in_file(&unsealed, 0), 1);
}

#[test]
fn mapping_flag_is_accepted() {
    let (mut harness, memory) = with_memory(1);
    harness.map(READ_WRITE | 4, 0, 0, PAGE, &[memory.as_fd()]).ok();
    harness.write(REGISTERS, INCREMENT, &[0; 8]).ok();
    assert_eq!(word_in_file(&memory, 0), 1);
    // The flag for access by read and write calls instead of a mapping is not supported.
    assert_eq!(harness.map(READ_WRITE | 8, 0, PAGE, PAGE, &[memory.as_fd()]).errno(), EINVAL);
}

#[test]
fn messages_after_a_map_wait_for_it() {
    let (mut harness, memory) = with_memory(1);
    let map = message(1, DMA_MAP, 48, 0, &dma_map(READ_WRITE, 0, 0, PAGE));
    let body = [access(REGISTERS, INCREMENT, 8), vec![0; 8]].concat();
    let increment = message(2, REGION_WRITE, 40, 0, &body);
    for round in 1..100 {
        harness.client.send_raw(&map, &[memory.as_fd()]);
        harness.client.send_raw(&increment, &[]);
        harness.pump();
        assert_eq!((1..3).map(|_| harness.client.receive().unwrap().id).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(word_in_file(&memory, 0), round);
        harness.call(DMA_UNMAP, &dma_unmap(0, 0, PAGE)).ok();
    }
    assert_eq!(harness.function.errors, [""; 0]);
}

#[test]
fn disconnect_unmaps_the_clients_memory() {
    let (mut harness, memory) = with_memory(1);
    harness.map(READ_WRITE, 0, 0, PAGE, &[memory.as_fd()]).ok();
    harness.reconnect();
    assert_eq!(harness.server.bus().dma.map_count(), 0);
}
