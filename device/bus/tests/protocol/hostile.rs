//! A client whose descriptors block any thread that touches them. Here that is the client's porter.
//! The thread that serves others is this test's own thread, so a test that hangs has failed.

use crate::harness::*;
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::io::{ReadWriteFlags, ioctl_fionbio, preadv2, write};
use rustix::net::sockopt::{set_socket_linger, set_socket_send_buffer_size};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::{IoSliceMut, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{JoinHandle, spawn};
use std::time::{Duration, Instant};

const EVENTFD: u32 = 4;
const TRIGGER: u32 = 32;
const MSIX: u32 = 2;

/// How long the kernel takes to give up: longer than any of these tests.
const LINGER: Duration = Duration::from_secs(600);

/// Ends the process if a test hangs, because the blocked thread is the test's own.
struct Watchdog(Arc<AtomicBool>);

impl Watchdog {
    fn new() -> Self {
        let done = Arc::new(AtomicBool::new(false));
        let seen = done.clone();
        spawn(move || {
            let begun = Instant::now();
            while !seen.load(Ordering::SeqCst) {
                if begun.elapsed() > Duration::from_secs(60) {
                    eprintln!("the thread that serves others hangs");
                    std::process::abort();
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        Watchdog(done)
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Returns a connection whose close waits for data that is never read, and the other end, whose
/// close ends that.
fn lingering() -> (OwnedFd, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (other, _) = listener.accept().unwrap();
    set_socket_send_buffer_size(&stream, 1 << 16).unwrap();
    set_socket_linger(&stream, Some(LINGER)).unwrap();
    stream.set_nonblocking(true).unwrap();
    while stream.write(&[0; 1 << 16]).is_ok() {}
    stream.set_nonblocking(false).unwrap();
    (stream.into(), other)
}

/// Checks that messages and the next client are served while a descriptor is slow to close.
fn goes_on(harness: &mut Harness, other: TcpStream) {
    harness.turns();
    let mut next = Client::connect(&harness.server);
    std::mem::swap(&mut harness.client, &mut next);
    // The previous client disconnects, and its descriptors are not closed yet.
    drop(next);
    eventually(|| {
        harness.turns();
        harness.server.counters().clients > 1 && harness.server.has_client()
    });
    harness.negotiate();
    harness.call(GET_INFO, &u32s(&[16, 0, 0, 0])).ok();
    drop(other);
}

#[test]
fn slow_close_of_descriptor_does_not_block() {
    let _watchdog = Watchdog::new();
    for command in [GET_INFO, DMA_MAP, SET_IRQS, 99] {
        let mut harness = Harness::ready();
        let (stuck, other) = lingering();
        harness.send(command, 0, &u32s(&[16, 0, 0, 0]), &[stuck.as_fd()]);
        drop(stuck);
        goes_on(&mut harness, other);
    }
}

#[test]
fn slow_close_of_excess_descriptors_does_not_block() {
    let _watchdog = Watchdog::new();
    let mut harness = Harness::ready();
    let (stuck, other) = lingering();
    let plain = event();
    let fds: Vec<_> = (0..39).map(|_| plain.as_fd()).chain([stuck.as_fd()]).collect();
    harness.send(GET_INFO, 0, &u32s(&[16, 0, 0, 0]), &fds);
    drop(fds);
    drop(stuck);
    goes_on(&mut harness, other);
}

#[test]
fn slow_close_of_unread_descriptors_does_not_block() {
    let _watchdog = Watchdog::new();
    let mut harness = Harness::ready();
    let (stuck, other) = lingering();
    // The descriptor comes after the message that ends the connection.
    harness.client.send_raw(&message(1, GET_INFO, 3, 0, &[]), &[]);
    harness.client.send_raw(&[0], &[stuck.as_fd()]);
    drop(stuck);
    goes_on(&mut harness, other);
}

#[test]
fn slow_close_of_refused_client_does_not_block() {
    let _watchdog = Watchdog::new();
    let mut harness = Harness::ready();
    let (stuck, other) = lingering();
    let second = Client::connect(&harness.server);
    second.send_raw(&[0], &[stuck.as_fd()]);
    drop(stuck);
    eventually(|| {
        harness.turns();
        harness.server.counters().clients_refused == 1
    });
    goes_on(&mut harness, other);
}

#[test]
fn client_with_too_many_pending_closes_is_disconnected() {
    let _watchdog = Watchdog::new();
    let mut harness = Harness::ready();
    let (stuck, other) = lingering();
    let plain = event();
    harness.send(99, NO_REPLY, &[], &[stuck.as_fd()]);
    drop(stuck);
    for round in 0.. {
        assert!(round < 1000, "{} descriptors are kept", round * 16);
        if !harness.server.has_client() {
            break;
        }
        harness.send(99, NO_REPLY, &[], &[plain.as_fd(); 16]);
        harness.turns();
    }
    eventually(|| harness.client.is_closed());
    goes_on(&mut harness, other);
}

/// State that the attackers on an eventfd share with their victim.
#[derive(Default)]
struct Fight {
    rounds: AtomicU64,
    /// Number of interrupts.
    progress: AtomicU64,
    end: AtomicBool,
}

fn drain(eventfd: &OwnedFd) {
    let mut count = [0; 8];
    let _ = preadv2(eventfd, &mut [IoSliceMut::new(&mut count)], u64::MAX, ReadWriteFlags::NOWAIT);
}

/// Leaves room for a few signals in an eventfd, and makes it blocking.
fn leave_room(eventfd: &OwnedFd, few: u64) {
    ioctl_fionbio(eventfd, true).unwrap();
    drain(eventfd);
    let _ = write(eventfd, &(u64::MAX - 1 - few).to_ne_bytes());
    ioctl_fionbio(eventfd, false).unwrap();
}

/// Leaves room again and again, until the victim makes no more progress.
fn leaves_room(eventfd: OwnedFd, fight: Arc<Fight>) -> JoinHandle<()> {
    spawn(move || {
        while !fight.end.load(Ordering::SeqCst) {
            leave_room(&eventfd, 8);
            fight.rounds.fetch_add(1, Ordering::SeqCst);
            let (before, begun) = (fight.progress.load(Ordering::SeqCst), Instant::now());
            while fight.progress.load(Ordering::SeqCst) < before + 100 && !fight.end.load(Ordering::SeqCst) {
                if begun.elapsed() > Duration::from_secs(10) {
                    return;
                }
                std::thread::yield_now();
            }
        }
    })
}

/// Fills the room.
fn takes_room(eventfd: OwnedFd, fight: Arc<Fight>) -> JoinHandle<()> {
    spawn(move || {
        while !fight.end.load(Ordering::SeqCst) {
            let _ = write(&eventfd, &1_u64.to_ne_bytes());
        }
    })
}

#[test]
fn concurrently_filled_eventfd_does_not_block() {
    let _watchdog = Watchdog::new();
    let mut harness = Harness::ready();
    harness.enable_bus_master();
    let (eventfd, quiet) = (eventfd(0, EventfdFlags::CLOEXEC).unwrap(), event());
    let fds = [eventfd.as_fd(), quiet.as_fd()];
    harness.call_with_fds(SET_IRQS, &u32s(&[20, EVENTFD | TRIGGER, MSIX, 0, 2]), &fds).ok();
    let fight = Arc::new(Fight::default());
    let drainer = leaves_room(eventfd.try_clone().unwrap(), fight.clone());
    let filler = takes_room(eventfd.try_clone().unwrap(), fight.clone());
    // In many of these rounds the room is gone after it was checked.
    while fight.rounds.load(Ordering::SeqCst) < 300 {
        harness.server.bus().interrupts.interrupt(0).unwrap();
        fight.progress.fetch_add(1, Ordering::SeqCst);
    }
    fight.end.store(true, Ordering::SeqCst);
    drainer.join().unwrap();
    while !filler.is_finished() {
        drain(&eventfd);
    }
    leave_room(&eventfd, 0);
    harness.server.bus().interrupts.interrupt(0).unwrap();
    // The client disconnects while its eventfd is full. The next client is served, and gets its
    // interrupts.
    harness.client = Client::connect(&harness.server);
    eventually(|| {
        harness.turns();
        harness.server.counters().clients > 1 && harness.server.has_client()
    });
    harness.negotiate();
    harness.enable_bus_master();
    harness.call_with_fds(SET_IRQS, &u32s(&[20, EVENTFD | TRIGGER, MSIX, 0, 1]), &[quiet.as_fd()]).ok();
    harness.server.bus().interrupts.interrupt(0).unwrap();
    harness.pump();
    assert_eq!(signals(&quiet), 1);
}

/// Each send to the client and each receive from it walks over all waiters that poll its socket.
#[test]
fn client_with_slow_wakeups_is_disconnected() {
    let _watchdog = Watchdog::new();
    let most = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: most.maximum, ..most }).unwrap();
    let mut harness = Harness::ready();
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
    let copies: Vec<_> = (0..8000).map(|_| harness.client.stream.try_clone().unwrap()).collect();
    for copy in &copies {
        epoll::add(&epoll, copy, epoll::EventData::new_u64(0), epoll::EventFlags::IN).unwrap();
    }
    for round in 0.. {
        assert!(round < 1000, "it is still served");
        harness.send(GET_INFO, 0, &u32s(&[16, 0, 0, 0]), &[]);
        harness.turns();
        harness.client.receive();
        if !harness.server.has_client() {
            break;
        }
    }
    drop((epoll, copies));
    // The client is refused for a while, and then accepted again.
    harness.client = Client::connect(&harness.server);
    harness.turns();
    assert!(!harness.server.has_client());
    eventually(|| {
        harness.turns();
        harness.server.has_client()
    });
    harness.negotiate();
}
