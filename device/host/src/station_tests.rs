//! A station whose card defers reads, and a client that waits for them.

use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use hamlyn_bus::GuestMemory;
use hamlyn_card::card::{Bar, BarKind, Card, Identity, Place, Progress, Reading, Widths};
use hamlyn_card::ports::{Link, Packet, Pieces, Ports, VolatileSlice};
use hamlyn_fabric::express::{Form, Holding, Memory, Part, Shape};
use hamlyn_fabric::{Geometry, HostId};
use vfio_user::Client;

use super::{Carried, Socket, Station};
use crate::rundir::{express_path, express_paths};
use crate::uplink::{Alone, Packets, Uplink};

/// The card's state, as a test sees it.
#[derive(Debug, Default)]
struct Seen {
    waiting: Vec<u64>,
    answers: Vec<(u64, u64)>,
    /// The card answers reads when it ticks.
    ticks: bool,
    /// Number of calls to transmit. With `yields`, each call leaves the rest for the next turn.
    transmits: u32,
    yields: bool,
}

/// A card whose registers contain their own offset twice, and which defers all reads.
struct Slow(Arc<Mutex<Seen>>);

impl Slow {
    fn answer(&self) {
        let mut seen = self.0.lock().unwrap();
        // In reverse order: the number identifies the read.
        let answers: Vec<_> = seen.waiting.drain(..).rev().map(|at| (at, at << 32 | at)).collect();
        seen.answers.extend(answers);
    }
}

impl Card for Slow {
    fn identity(&self) -> Identity {
        let kind = BarKind::Registers;
        Identity {
            protocol: 9,
            largest_packet: 64,
            ordered: false,
            vendor: 1,
            device: 2,
            class: 3,
            bars: vec![Bar { index: 0, size: 4096, wide: false, kind, widths: Widths::all() }],
            vectors: 1,
            posted: Vec::new(),
            snooped: None,
        }
    }

    fn register_read(&mut self, _: &Ports<'_>, _: u8, offset: u64, _: u8) -> Reading {
        self.0.lock().unwrap().waiting.push(offset);
        Reading::Later(offset)
    }

    fn late_reading(&mut self) -> Option<(u64, u64)> {
        let mut seen = self.0.lock().unwrap();
        (!seen.answers.is_empty()).then(|| seen.answers.remove(0))
    }

    fn register_write(&mut self, _: &Ports<'_>, _: u8, _: u64, _: u8, _: u64) {}

    fn transmit(&mut self, _: &Ports<'_>, _: &mut dyn Link) -> Progress {
        let mut seen = self.0.lock().unwrap();
        seen.transmits += 1;
        if seen.yields { Progress::Yielded } else { Progress::Idle }
    }

    fn packet_arrived(&mut self, _: &Ports<'_>, _: &Packet<'_>) {
        self.answer();
    }

    fn sleep(&mut self, _: &Ports<'_>) -> bool {
        true
    }

    fn alarm(&self) -> Option<Duration> {
        self.0.lock().unwrap().ticks.then_some(Duration::ZERO)
    }

    fn tick(&mut self, _: &Ports<'_>) {
        self.answer();
    }

    fn link_changed(&mut self, _: &Ports<'_>, _: Option<Place>) {}

    fn reset(&mut self, _: &Ports<'_>) {}

    fn is_enabled(&self) -> bool {
        true
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

/// Starts a station for such a card, with `socket` for its client.
fn station(seen: &Arc<Mutex<Seen>>, socket: &Path) -> Station {
    station_with(seen, socket, None)
}

fn station_with(seen: &Arc<Mutex<Seen>>, socket: &Path, express: Option<Holding>) -> Station {
    let card = Box::new(Slow(seen.clone()));
    let packets = Packets::of(&card.identity()).unwrap();
    let (link, _) = hamlyn_fabric::Link::quiet_pair(Geometry::default()).unwrap();
    let uplink = Uplink::within(link, Place { host: 0, ports: 4 }, packets, express).unwrap();
    Station::start(card, socket, GuestMemory::Unused, uplink).unwrap()
}

/// Returns the holding of host 0 of four.
fn holding(form: Form) -> Holding {
    let shape = Shape::new(form, 4, Part::default()).unwrap();
    Memory::new(shape).unwrap().holding(HostId(0)).unwrap()
}

#[test]
fn sockets_of_a_killed_card_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("card.sock");
    let paths =
        |peers: &[Option<u16>]| -> Vec<_> { peers.iter().map(|peer| express_path(&socket, *peer)).collect() };
    let there = || -> Vec<_> { express_paths(&socket).filter(|path| path.exists()).collect() };
    let cases = [
        (None, paths(&[])),
        (Some(holding(Form::Shared)), paths(&[None])),
        (Some(holding(Form::Isolated)), paths(&[Some(1), Some(2), Some(3)])),
    ];
    for (holding, expected) in cases {
        // Sockets of listeners that no longer exist.
        for path in
            [&socket, &express_path(&socket, None)].into_iter().chain(&paths(&[Some(0), Some(2), Some(63)]))
        {
            drop(UnixListener::bind(path).unwrap());
        }
        let station = station_with(&Arc::default(), &socket, holding);
        assert_eq!(there(), expected);
        assert!(there().iter().all(|path| UnixStream::connect(path).is_ok()));
        drop(station);
        assert_eq!(there(), [""; 0].map(PathBuf::from));
    }
}

#[test]
fn each_express_function_has_its_own_socket() {
    use hamlyn_abi::family::express::ULN_EXPRESS_REG_PARTS;
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("card.sock");
    let mut station = station_with(&Arc::default(), &socket, Some(holding(Form::Isolated)));
    let quiet: Vec<Socket> = station.sockets().map(|(socket, _)| socket).filter(|at| at.is_quiet()).collect();
    assert_eq!(quiet, [0, 1, 2].map(Socket::Express));
    for (number, peer) in (0..).zip(1..4) {
        let path = express_path(&socket, Some(peer));
        let client = thread::spawn(move || {
            let mut client = Client::new(&path).unwrap();
            (0..4u64).find(|host| {
                let mut place = [0; 8];
                client.region_read(0, u64::from(ULN_EXPRESS_REG_PARTS) + 8 * host, &mut place).unwrap();
                u64::from_le_bytes(place) != 0
            })
        });
        let start = Instant::now();
        while !client.is_finished() {
            assert!(
                start.elapsed() < Duration::from_secs(60),
                "the function with the part for {peer} is deaf"
            );
            station.serve(Socket::of(Socket::Express(number).number())).unwrap();
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(client.join().unwrap(), Some(peer.into()));
    }
    assert!((0..Socket::MOST).all(|number| Socket::of(number).number() == number));
}

/// Serves while a client reads two registers, and calls `meanwhile` whenever a read is deferred.
/// Returns the values that the client has read.
fn read_both(ticks: bool, mut meanwhile: impl FnMut(&mut Station)) -> [u64; 2] {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("card.sock");
    let seen = Arc::new(Mutex::new(Seen { ticks, ..Seen::default() }));
    let mut station = station(&seen, &socket);
    let got = Arc::new(AtomicUsize::new(0));
    let client = thread::spawn({
        let got = got.clone();
        move || {
            let mut client = Client::new(&socket).unwrap();
            [(0x10, 8), (0x20, 4)].map(|(offset, width)| {
                let mut value = [0; 8];
                client.region_read(0, offset, &mut value[..width]).unwrap();
                got.fetch_add(1, Ordering::Release);
                u64::from_le_bytes(value)
            })
        }
    });
    let start = Instant::now();
    let patient = || assert!(start.elapsed() < Duration::from_secs(60), "the client gets no answer");
    while !client.is_finished() {
        patient();
        station.serve(Socket::Card).unwrap();
        let before = got.load(Ordering::Acquire);
        if !seen.lock().unwrap().waiting.is_empty() {
            // `meanwhile` alone must cause the answer, without another look at the socket.
            meanwhile(&mut station);
            while got.load(Ordering::Acquire) == before {
                patient();
                thread::yield_now();
            }
        }
        thread::sleep(Duration::from_millis(1));
    }
    client.join().unwrap()
}

#[test]
fn deferred_read_is_answered_once_card_has_value() {
    assert_eq!(read_both(true, Station::tick), [0x10_0000_0010, 0x20], "by its clock");
    let by_a_packet = read_both(false, |station| {
        let mut bytes = [0; 4];
        let bytes = Pieces::from(VolatileSlice::from(&mut bytes[..]));
        station.packet_arrived(&Packet { source: 1, bytes });
    });
    assert_eq!(by_a_packet, [0x10_0000_0010, 0x20], "by a packet");
}

#[test]
fn card_that_yields_ends_the_turn() {
    let folder = tempfile::tempdir().unwrap();
    let seen = Arc::new(Mutex::new(Seen { yields: true, ..Seen::default() }));
    let mut station = station(&seen, &folder.path().join("card.sock"));
    for turn in 1..=3 {
        assert_eq!(station.turn(&mut Alone), Carried::Worked, "it is not left to sleep");
        assert_eq!(seen.lock().unwrap().transmits, turn);
    }
    seen.lock().unwrap().yields = false;
    assert_eq!(station.turn(&mut Alone), Carried::Idle);
}
