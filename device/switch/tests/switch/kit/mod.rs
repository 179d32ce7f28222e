//! Simplified cards, and a switch on its own thread.

use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::thread::JoinHandle;
use std::time::Duration;

use hamlyn_fabric::{Bell, Geometry, Header, Heard, HostId, Link, Protocol, Request, Traffic, connect};
use hamlyn_switch::{Options, Switch, SwitchCounters};
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::Rng;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, recv, recvmsg, send, socket_with,
};

/// Longer than any step takes. No test has to wait this long in order to pass.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn small() -> Options {
    let geometry = Geometry { capacity: 64 << 10, max_packet: 4096 };
    Options { geometry, attach_timeout: PATIENCE, ..Options::default() }
}

pub(crate) fn readable(descriptors: &[impl AsFd], timeout: Duration) -> bool {
    let timeout = Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: timeout.subsec_nanos().into() };
    let mut fds: Vec<_> = descriptors.iter().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
    poll(&mut fds, Some(&timeout)).unwrap() > 0
}

/// A switch on its own thread.
pub(crate) struct Running {
    directory: tempfile::TempDir,
    path: std::path::PathBuf,
    stop: Bell,
    thread: Option<JoinHandle<SwitchCounters>>,
}

impl Running {
    pub(crate) fn start(options: Options) -> Running {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("switch");
        let mut switch = Switch::bind(&path, options).unwrap();
        let (stop, stopped) = Bell::pair().unwrap();
        let thread = std::thread::spawn(move || {
            switch.run(stopped.as_fd()).unwrap();
            switch.counters()
        });
        Running { directory, path, stop, thread: Some(thread) }
    }

    pub(crate) fn path(&self) -> &Path {
        assert!(self.directory.path().exists());
        &self.path
    }

    pub(crate) fn stop(mut self) -> SwitchCounters {
        self.stop.ring();
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.ring();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Returns the traffic of all cards in these tests.
pub(crate) fn traffic() -> Traffic {
    Traffic { protocol: Protocol::parse(1).unwrap(), ordered: false }
}

pub(crate) fn request(host: Option<u16>) -> Request {
    Request { host: host.map(HostId), traffic: traffic(), express: false }
}

/// One end of a link, used like a card does.
pub(crate) struct Card {
    pub(crate) host: HostId,
    /// The source that its packets claim.
    pub(crate) claim: HostId,
    pub(crate) bytes_received: u64,
    link: Link,
}

impl Card {
    pub(crate) fn new(host: HostId, link: Link) -> Card {
        Card { host, claim: host, bytes_received: 0, link }
    }

    pub(crate) fn attach(running: &Running, wanted: Option<u16>) -> Card {
        Card::connect(running.path(), wanted)
    }

    /// Attaches. Retries while the port's last card is not detached yet.
    pub(crate) fn connect(path: &Path, wanted: Option<u16>) -> Card {
        loop {
            match connect(path, request(wanted), PATIENCE) {
                Ok(attached) => return Card::new(attached.host, attached.link),
                Err(error) if error.to_string().contains("taken") || error.to_string().contains("full") => {
                    std::thread::yield_now();
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    pub(crate) fn link(&mut self) -> &mut Link {
        &mut self.link
    }

    /// Sends `payload`, padded with zeros up to `length`, if there is room.
    pub(crate) fn send(&mut self, destination: HostId, payload: &[u8], length: usize) -> bool {
        let header = Header { destination, source: self.claim, protocol: traffic().protocol };
        let Some(room) = self.link.reserve(header, length).unwrap() else { return false };
        let mut bytes = payload.to_vec();
        bytes.resize(length, 0);
        room.copy_from(&bytes);
        self.link.commit();
        true
    }

    pub(crate) fn send_when_room(&mut self, destination: HostId, payload: &[u8]) {
        while !self.send(destination, payload, payload.len()) {
            assert!(self.room_comes(PATIENCE), "no room");
        }
    }

    /// Returns whether the ring becomes half empty in time.
    pub(crate) fn room_comes(&mut self, timeout: Duration) -> bool {
        while self.link.sleep_for_room().unwrap() {
            if !readable(&[self.link.bell().unwrap()], timeout) {
                return false;
            }
            self.link.hear();
        }
        true
    }

    pub(crate) fn has_packet(&mut self, timeout: Duration) -> bool {
        while self.link.sleep_for_records().unwrap() {
            if !readable(&[self.link.bell().unwrap()], timeout) {
                return false;
            }
            self.link.hear();
        }
        true
    }

    /// Takes the oldest packet, if there is one, and returns its source and payload.
    pub(crate) fn take(&mut self) -> Option<(HostId, Vec<u8>)> {
        let record = self.link.peek().unwrap()?;
        let header = record.header().unwrap();
        assert_eq!(header.destination, self.host);
        let mut payload = vec![0; record.payload.len()];
        record.payload.copy_to(&mut payload[..]);
        self.link.consume();
        self.bytes_received += payload.len() as u64;
        Some((header.source, payload))
    }

    pub(crate) fn receive(&mut self) -> (HostId, Vec<u8>) {
        assert!(self.has_packet(PATIENCE), "no packet for host {}", self.host);
        self.take().unwrap()
    }

    pub(crate) fn is_cut_off(&self, timeout: Duration) -> bool {
        loop {
            match self.link.hear() {
                Heard::End(_) => return true,
                Heard::Ring => {}
                Heard::Nothing if !readable(&[self.link.bell().unwrap()], timeout) => return false,
                Heard::Nothing => {}
            }
        }
    }
}

/// Cards on one thread that send packets of all sizes to all ports, and check what they receive.
pub(crate) struct Mill {
    pub(crate) cards: Vec<Card>,
    pub(crate) ports: usize,
    /// Number of packets from each card to each port, at most 64.
    pub(crate) rounds: u64,
    /// Whether each sender's packets must arrive in order.
    pub(crate) ordered: bool,
    pub(crate) random: SplitMix64,
}

impl Mill {
    /// Sends and receives everything, and returns the cards.
    pub(crate) fn run(mut self) -> Vec<Card> {
        let wanted = self.ports as u64 * self.rounds;
        let (mut sent, mut got) = (vec![0u64; self.cards.len()], vec![0u64; self.cards.len()]);
        // One bit for each packet's number.
        let mut seen = vec![vec![0u64; self.ports]; self.cards.len()];
        while sent.iter().chain(&got).any(|&count| count < wanted) {
            let mut progress = false;
            for index in 0..self.cards.len() {
                while sent[index] < wanted && self.send_one(index, sent[index]) {
                    sent[index] += 1;
                    progress = true;
                }
                while let Some((source, payload)) = self.cards[index].take() {
                    let seen = &mut seen[index][source.index()];
                    let number = check(&payload, source);
                    assert!(*seen >> number & 1 == 0, "packet {number} from {source} came twice");
                    assert!(!self.ordered || *seen >> number == 0, "packet {number} from {source} is late");
                    *seen |= 1 << number;
                    got[index] += 1;
                    progress = true;
                }
            }
            if !progress {
                self.rest(&sent, wanted);
            }
        }
        self.cards
    }

    fn send_one(&mut self, index: usize, count: u64) -> bool {
        let length = (1 + self.random.next_u64() % 4096) as usize;
        let card = &mut self.cards[index];
        let (step, number) = ((count / self.rounds) as usize, count % self.rounds);
        let destination = HostId(((card.host.index() + step) % self.ports) as u16);
        let payload = pattern(card.host, number, length);
        card.send(destination, &payload, length)
    }

    /// Waits until there is something to do.
    fn rest(&mut self, sent: &[u64], wanted: u64) {
        let mut asleep = true;
        for (card, &sent) in self.cards.iter_mut().zip(sent) {
            asleep &= card.link.sleep_for_records().unwrap();
            asleep &= sent == wanted || card.link.sleep_for_room().unwrap();
        }
        if asleep {
            let bells: Vec<_> = self.cards.iter().map(|card| card.link.bell().unwrap()).collect();
            assert!(readable(&bells, PATIENCE), "a packet or a wake-up was lost");
            self.cards.iter().for_each(|card| _ = card.link.hear());
        }
    }
}

/// Returns the number, and bytes that depend on sender, number and offset.
fn pattern(source: HostId, number: u64, length: usize) -> Vec<u8> {
    let byte = |index| (usize::from(source.0) * 3 + number as usize * 5 + index * 7) as u8;
    std::iter::once(number as u8).chain((1..length).map(byte)).collect()
}

/// Checks that a packet is what was sent, and returns its number.
fn check(payload: &[u8], source: HostId) -> u64 {
    let number = u64::from(payload[0]);
    // Not `assert_eq`, which would print thousands of bytes.
    assert!(
        payload == pattern(source, number, payload.len()),
        "packet {number} from {source} is not what was sent"
    );
    number
}

/// Connects without sending anything.
pub(crate) fn raw_connect(running: &Running) -> OwnedFd {
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    rustix::net::connect(&socket, &SocketAddrUnix::new(running.path()).unwrap()).unwrap();
    socket
}

/// Sends a message and returns the answer as text.
pub(crate) fn ask(running: &Running, message: &[u8]) -> String {
    let socket = raw_connect(running);
    send(&socket, message, SendFlags::empty()).unwrap();
    listen_to(&socket)
}

pub(crate) fn listen_to(socket: &OwnedFd) -> String {
    assert!(readable(&[socket], PATIENCE), "no answer");
    let mut bytes = [0; 1000];
    let (length, _) = recv(socket, &mut bytes[..], RecvFlags::empty()).unwrap();
    String::from_utf8_lossy(&bytes[..length]).into_owned()
}

/// Attaches a misbehaving card, and returns its socket and the descriptors it received.
pub(crate) fn raw_card(running: &Running, port: u16) -> (OwnedFd, Vec<OwnedFd>) {
    let hello = [b"HMLN\x06\x00".as_slice(), &port.to_le_bytes(), &[1, 0, 0, 0]].concat();
    loop {
        let socket = raw_connect(running);
        send(&socket, &hello, SendFlags::empty()).unwrap();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut bytes = [0; 1000];
        recvmsg(&socket, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)
            .unwrap();
        let descriptors: Vec<OwnedFd> = ancillary
            .drain()
            .filter_map(|message| match message {
                RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
                _ => None,
            })
            .flatten()
            .collect();
        // The port's last card may not be detached yet.
        if descriptors.len() == 1 {
            return (socket, descriptors);
        }
    }
}

/// Waits until the switch ends the connection, perhaps after sending a reason.
pub(crate) fn hangs_up(socket: &OwnedFd) -> bool {
    loop {
        assert!(readable(&[socket], PATIENCE), "it is not cut off");
        match recv(socket, &mut [0u8; 1][..], RecvFlags::empty()) {
            Ok((0, _)) | Err(_) => return true,
            // This was a ring.
            Ok(_) => {}
        }
    }
}
