//! The crate `vfio_user` as the client: an independent implementation of the protocol.

use crate::harness::*;
use hamlyn_bus::{GuestMemory, Server};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use vfio_user::Client as Peer;
use vm_memory::{Bytes, FileOffset, MmapRegion, VolatileMemory};

/// Runs a server in a thread while `client` uses it. Returns the function's records.
fn with_server(client: impl FnOnce(&std::path::Path)) -> Scratch {
    with_server_for(GuestMemory::default(), client)
}

/// Like `with_server`, for a client with this kind of memory.
pub(crate) fn with_server_for(memory: GuestMemory, client: impl FnOnce(&std::path::Path)) -> Scratch {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("function");
    let mut server = Server::bind(&path, description()).unwrap();
    server.set_guest_memory(memory);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let function = scope.spawn(|| serve(server, &done));
        // A failed client must not leave the server's thread running.
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| client(&path)));
        done.store(true, Ordering::Release);
        let function = function.join().unwrap();
        result.unwrap();
        function
    })
}

fn serve(mut server: Server, done: &AtomicBool) -> Scratch {
    let mut function = Scratch::default();
    while !done.load(Ordering::Acquire) {
        let tick = rustix::time::Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
        let mut wait =
            [rustix::event::PollFd::from_borrowed_fd(server.as_fd(), rustix::event::PollFlags::IN)];
        rustix::event::poll(&mut wait, Some(&tick)).unwrap();
        server.process(&mut function).unwrap();
        for token in std::mem::take(&mut function.late) {
            server.complete_read(token, &[0x5a; 4]).unwrap();
        }
    }
    function
}

#[test]
fn peer_sees_the_described_regions() {
    with_server(|path| {
        let client = Peer::new(path).unwrap();
        let sizes: Vec<_> = (0..9).map(|index| client.region(index).unwrap().size).collect();
        assert_eq!(sizes, [64 << 10, 0, 1 << 20, 0, 8192, 0, 0, 4096, 0]);
        let window = client.region(WINDOW).unwrap();
        let areas: Vec<_> = window.sparse_areas.iter().map(|area| (area.offset, area.size)).collect();
        assert_eq!(areas, WINDOW_AREAS);
        assert!(client.region(REGISTERS).unwrap().file_offset.is_none());
    });
}

#[test]
fn peer_reads_writes_and_waits_for_late_answers() {
    let function = with_server(|path| {
        let mut client = Peer::new(path).unwrap();
        let mut word = [0; 4];
        client.region_read(REGISTERS, 0x44, &mut word).unwrap();
        assert_eq!(word, [0x44, 0, 0, 0]);
        client.region_write(REGISTERS, 0x48, &[1, 2, 3, 4]).unwrap();
        client.region_read(REGISTERS, LATE, &mut word).unwrap();
        assert_eq!(word, [0x5a; 4]);
        client.region_read(CONFIG, 0, &mut word).unwrap();
        assert_eq!(word, [0xf4, 0x1a, 0x5a, 0x5a]);
    });
    let wanted = [Event::Read(0, 0x44, 4), Event::Write(0, 0x48, vec![1, 2, 3, 4]), Event::Read(0, LATE, 4)];
    assert_eq!(function.events[..3], wanted);
}

#[test]
fn peer_maps_the_same_window_memory() {
    with_server(|path| {
        let mut client = Peer::new(path).unwrap();
        let (offset, size) = WINDOW_AREAS[1];
        let file = client.region(WINDOW).unwrap().file_offset.as_ref().unwrap();
        let file = FileOffset::new(file.file().try_clone().unwrap(), file.start() + offset);
        let mapped = MmapRegion::<()>::from_file(file, size as usize).unwrap();
        mapped.get_slice(0, 4096).unwrap().write_slice(b"store", 100).unwrap();
        let mut bytes = [0; 5];
        client.region_read(WINDOW, offset + 100, &mut bytes).unwrap();
        assert_eq!(&bytes, b"store");
    });
}

#[test]
fn peer_shares_memory_takes_interrupts_and_resets() {
    let memory = memfd(8192);
    let event: OwnedFd = event();
    let function = with_server(|path| {
        let mut client = Peer::new(path).unwrap();
        client.dma_map(4096, 0x8000, 4096, memory.as_raw_fd()).unwrap();
        client.region_write(CONFIG, 4, &[6, 0]).unwrap();
        client.region_write(REGISTERS, INCREMENT, &0x8010_u64.to_le_bytes()).unwrap();
        let mut word = [0; 4];
        rustix::io::pread(&memory, &mut word, 4096 + 0x10).unwrap();
        assert_eq!(word, [1, 0, 0, 0]);

        let info = client.get_irq_info(2).unwrap();
        assert_eq!((info.count, info.flags & 1), (u32::from(VECTORS), 1));
        client.set_irqs(2, 4 | 32, 1, 1, &[event.as_raw_fd()]).unwrap();
        client.region_write(REGISTERS, RING, &1_u32.to_le_bytes()).unwrap();
        eventually(|| signals(&event) == 1);

        client.dma_unmap(0x8000, 4096).unwrap();
        client.region_write(REGISTERS, INCREMENT, &0x8010_u64.to_le_bytes()).unwrap();
        client.reset().unwrap();
        client.region_read(CONFIG, 4, &mut word).unwrap();
        assert_eq!(word[0], 0, "bus mastering is off after a reset");
    });
    assert_eq!(function.errors.len(), 1, "{:?}", function.errors);
    assert!(function.errors[0].contains("not mapped"), "{:?}", function.errors);
}

/// The crate's client, which is Cloud Hypervisor's, waits for a full body whatever the reply's
/// header says.
#[test]
fn peer_gets_a_reply_to_every_access() {
    with_server(|path| {
        let mut client = Peer::new(path).unwrap();
        let mut bytes = [0; 8];
        client.region_read(REGISTERS, 0, &mut bytes[..1]).unwrap();
        client.region_read(REGISTERS, 4, &mut bytes[1..]).unwrap();
        assert_eq!(bytes, [0xff; 8]);
        client.region_write(REGISTERS, 1, &[7; 3]).unwrap();
        client.region_read(REGISTERS, 64 << 10, &mut bytes).unwrap();
        client.region_write(REGISTERS, 64 << 10, &bytes).unwrap();
        client.region_read(REGISTERS, 0x44, &mut bytes[..4]).unwrap();
        assert_eq!(bytes[..4], [0x44, 0, 0, 0]);
    });
}

#[test]
fn peers_can_connect_one_after_another() {
    let function = with_server(|path| {
        for _ in 0..3 {
            let mut client = Peer::new(path).unwrap();
            let mut word = [0; 4];
            client.region_read(REGISTERS, 4, &mut word).unwrap();
            client.shutdown().unwrap();
        }
    });
    let reads = function.events.iter().filter(|event| matches!(event, Event::Read(..))).count();
    assert_eq!(reads, 3);
}
