//! A station whose card snoops stores and can refuse stores and packets: ordering and wake-ups.

use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use hamlyn_bus::GuestMemory;
use hamlyn_card::card::{Card, Place};
use hamlyn_card::ports::VolatileSlice;
use hamlyn_fabric::{Geometry, Header, HostId, Link, Protocol, message};
use hamlyn_snoop::{ConnectError, Machine, PAGE};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use vfio_user::Client;

use super::{Carried, Socket, Station};
use crate::fifo_card::{Event, FIFO, Fifo, PACKET, Seen, TAKES, WATCH, WINDOW};
use crate::rundir::snoop_path;
use crate::uplink::{Alone, Packets, Uplink};

const PATIENCE: Duration = Duration::from_secs(60);

/// A station with its environment.
struct Scene {
    station: Station,
    seen: Arc<Mutex<Seen>>,
    switch: Link,
    socket: PathBuf,
    _folder: tempfile::TempDir,
}

/// A thread of the machine, whose operations may wait for the station.
type Doing<T> = JoinHandle<T>;

impl Scene {
    fn new() -> Scene {
        Scene::with(Seen::default())
    }

    fn with(seen: Seen) -> Scene {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("card.sock");
        let seen = Arc::new(Mutex::new(seen));
        let card = Box::new(Fifo(seen.clone()));
        let packets = Packets::of(&card.identity()).unwrap();
        let (link, switch) = Link::pair(Geometry { capacity: 4096, max_packet: 512 }).unwrap();
        let uplink = Uplink::within(link, Place { host: 0, ports: 2 }, packets, None).unwrap();
        let mut station = Station::start(card, &socket, GuestMemory::Unused, uplink).unwrap();
        station.set_access_deadline(PATIENCE);
        Scene { station, seen, switch, socket, _folder: folder }
    }

    fn events(&self) -> Vec<Event> {
        std::mem::take(&mut self.seen.lock().unwrap().events)
    }

    fn readable(&self) -> Vec<Socket> {
        let waiters = self.station.waiters().map(|(socket, waiter)| (socket, waiter.unwrap()));
        waiters.filter(|(_, waiter)| is_readable(waiter)).map(|(socket, _)| socket).collect()
    }

    fn rings(&self) -> bool {
        self.station.function.uplink.link().and_then(Link::bell).is_some_and(is_readable)
    }

    fn hear(&mut self) {
        for socket in self.readable() {
            self.station.serve(socket).unwrap();
        }
        if self.rings() {
            self.station.function.uplink.hear();
        }
    }

    /// Runs the loop of a card's process until it would wait. Fails on a busy loop.
    fn rest(&mut self) {
        for _ in 0..10_000 {
            self.hear();
            let carried = self.station.turn(&mut Alone);
            if carried == Carried::Worked {
                continue;
            }
            let (full, takes_packets) = (carried == Carried::Full, self.station.takes_packets());
            let asleep = self.station.sleep(full) && self.station.function.uplink.sleep(full, takes_packets);
            if asleep && self.readable().is_empty() && !self.rings() {
                return;
            }
        }
        panic!("the station does not come to rest");
    }

    /// Calls `rest` until a condition is met.
    #[track_caller]
    fn until(&mut self, mut is_so: impl FnMut(&mut Scene) -> bool) {
        let start = Instant::now();
        while !is_so(self) {
            assert!(start.elapsed() < PATIENCE, "it does not come: {:?}", self.events());
            self.rest();
            thread::sleep(Duration::from_micros(100));
        }
    }

    fn done<T: Send + 'static>(&mut self, doing: Doing<T>) -> T {
        self.until(|_| doing.is_finished());
        doing.join().unwrap()
    }

    fn plugin(&mut self) -> Machine {
        let path = snoop_path(&self.socket);
        self.done(thread::spawn(move || Machine::connect(&path))).unwrap()
    }

    fn client(&mut self) -> Client {
        let socket = self.socket.clone();
        self.done(thread::spawn(move || Client::new(&socket).unwrap()))
    }

    /// Makes the machine write to registers.
    fn write(&mut self, mut client: Client, writes: &'static [(u64, u64)]) -> Client {
        self.done(thread::spawn(move || {
            store_to(&mut client, writes);
            client
        }))
    }

    /// Takes up to `most` packets from the card, in place of the switch.
    fn switch_takes(&mut self, most: usize) -> usize {
        let taken = (0..most).take_while(|_| {
            let is_there = self.switch.peek().unwrap().is_some();
            if is_there {
                self.switch.consume();
            }
            is_there
        });
        taken.count()
    }

    fn switch_sends(&mut self) -> bool {
        let (destination, source) = (HostId(0), HostId(1));
        let header = Header { destination, source, protocol: Protocol::parse(9).unwrap() };
        self.switch.send(header, &[VolatileSlice::from(&mut [0; PACKET][..])]).unwrap()
    }

    /// Fills the card and the link with stores.
    fn fill(&mut self, machine: &Machine) {
        while self.seen.lock().unwrap().fifo < FIFO {
            machine.tell(0, PAGE, b"fill");
            self.rest();
        }
        self.events();
    }
}

pub(crate) fn is_readable(fd: impl AsFd) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&now)).unwrap() > 0
}

fn store_to(client: &mut Client, writes: &[(u64, u64)]) {
    for (offset, value) in writes {
        client.region_write(0, *offset, &value.to_le_bytes()).unwrap();
    }
}

fn store(number: u64) -> Event {
    Event::Store(PAGE, number.to_le_bytes().to_vec())
}

#[test]
fn stores_come_before_the_access_that_follows_them() {
    let mut scene = Scene::new();
    let (machine, mut client) = (scene.plugin(), scene.client());
    let doing = thread::spawn(move || {
        for number in (0..3 * FIFO as u64).step_by(2) {
            machine.tell(0, PAGE, &number.to_le_bytes());
            machine.tell(0, PAGE, &(number + 1).to_le_bytes());
            client.region_write(0, 0x40, &number.to_le_bytes()).unwrap();
            client.region_read(0, 0x48, &mut [0; 8]).unwrap();
        }
    });
    let start = Instant::now();
    while !doing.is_finished() {
        assert!(start.elapsed() < PATIENCE, "{:?}", scene.events());
        // Stores are taken only when an access of the machine asks for it.
        scene.station.serve(Socket::Card).unwrap();
        scene.seen.lock().unwrap().fifo = 0;
    }
    let made = (0..3 * FIFO as u64).step_by(2);
    let wanted = made.flat_map(|at| [store(at), store(at + 1), Event::Write(0x40, at), Event::Read(0x48)]);
    assert_eq!(scene.events()[..12 * FIFO / 2], wanted.collect::<Vec<_>>());
}

#[test]
fn access_waits_for_space_and_earlier_stores() {
    let mut scene = Scene::new();
    let (machine, mut client) = (scene.plugin(), scene.client());
    scene.fill(&machine);
    for number in 0..2 * FIFO as u64 {
        machine.tell(0, PAGE, &number.to_le_bytes());
    }
    let doing = thread::spawn(move || {
        store_to(&mut client, &[(WINDOW, 1), (WINDOW, 2), (0x40, 3)]);
        client
    });
    scene.until(|scene| scene.station.is_held(Socket::Card));
    scene.rest();
    assert_eq!(scene.events(), [], "there is no room");
    scene.until(|scene| {
        scene.switch_takes(1);
        doing.is_finished()
    });
    let _client = doing.join().unwrap();
    let stores = (0..2 * FIFO as u64).map(store);
    let writes = [Event::Write(WINDOW, 1), Event::Write(WINDOW, 2), Event::Write(0x40, 3)];
    assert_eq!(scene.events(), stores.chain(writes).collect::<Vec<_>>());
    assert_eq!(scene.seen.lock().unwrap().most, FIFO, "the FIFO took more than it holds");
}

#[test]
fn accesses_also_wait_without_snooping() {
    let mut scene = Scene::with(Seen { has_window_alone: true, ..Seen::default() });
    assert!(!snoop_path(&scene.socket).exists());
    assert!(scene.station.counters().get("snooped").is_none(), "the counter is absent without snooping");
    let mut client = scene.client();
    let doing = thread::spawn(move || {
        store_to(&mut client, &[(WINDOW, 1); 100]);
        client
    });
    scene.until(|scene| scene.station.is_held(Socket::Card));
    assert_eq!(scene.seen.lock().unwrap().fifo, FIFO);
    scene.until(|scene| {
        scene.switch_takes(1);
        doing.is_finished()
    });
    assert_eq!(scene.seen.lock().unwrap().most, FIFO, "the FIFO took more than it holds");
    assert_eq!(scene.events().len(), 100);
    doing.join().unwrap();
}

#[test]
fn endless_stores_do_not_starve_register_accesses() {
    let mut scene = Scene::new();
    let (machine, mut client) = (scene.plugin(), scene.client());
    scene.fill(&machine);
    let doing = thread::spawn(move || store_to(&mut client, &[(0x40, 3)]));
    scene.until(|scene| scene.station.is_held(Socket::Card));
    // The ring is never empty from here on.
    for rounds in 0.. {
        assert!(rounds < 100_000, "the register is never written");
        machine.tell(0, PAGE, b"more");
        scene.switch_takes(1);
        if scene.rings() {
            scene.station.function.uplink.hear();
        }
        scene.station.turn(&mut Alone);
        if scene.events().contains(&Event::Write(0x40, 3)) {
            break;
        }
    }
    scene.done(doing);
}

#[test]
fn reset_makes_room_and_drops_earlier_stores() {
    let mut scene = Scene::new();
    let (machine, mut client) = (scene.plugin(), scene.client());
    scene.fill(&machine);
    machine.tell(0, PAGE, b"old");
    let _client = scene.done(thread::spawn(move || {
        client.reset().unwrap();
        client
    }));
    machine.tell(0, PAGE, b"new");
    scene.rest();
    let events = scene.events();
    assert_eq!(events[..2], [Event::Reset, Event::Store(PAGE, b"new".to_vec())], "{events:?}");
}

#[test]
fn plugin_can_be_replaced_after_it_leaves() {
    let mut scene = Scene::new();
    let (first, client) = (scene.plugin(), scene.client());
    let client = scene.write(client, &[(WATCH, 3)]);
    assert!(first.is_watched(3 * PAGE) && first.is_any_watched());
    first.begin();
    scene.rest();
    assert_eq!(scene.events(), [Event::Write(WATCH, 3), Event::Snoops(true)]);
    assert_eq!(scene.station.counters()["snooped"], true);
    let path = snoop_path(&scene.socket);
    let refused = scene.done(thread::spawn(move || Machine::connect(&path)));
    assert!(matches!(refused, Err(ConnectError::Refused { .. })), "{refused:?}");
    first.tell(0, 3 * PAGE, b"next to last");
    first.tell(0, 3 * PAGE, b"last");
    drop(first);
    scene.rest();
    let last = [&b"next to last"[..], b"last"].map(|bytes| Event::Store(3 * PAGE, bytes.to_vec()));
    assert_eq!(scene.events(), [&last[..], &[Event::Snoops(false)]].concat());
    assert_eq!(scene.station.counters()["snooped"], false);

    let client = scene.write(client, &[(WATCH, 4)]);
    let second = scene.plugin();
    assert!(second.is_watched(3 * PAGE) && second.is_watched(4 * PAGE));
    second.begin();
    second.tell(1, 4 * PAGE, b"more");
    scene.rest();
    let wanted = [Event::Write(WATCH, 4), Event::Snoops(true), Event::Store(4 * PAGE, b"more".to_vec())];
    let events = scene.events();
    assert!(events.len() == 3 && wanted.iter().all(|event| events.contains(event)), "{events:?}");
    drop(client);
}

#[test]
fn plugin_leaving_a_full_card_causes_no_wakeups() {
    let mut scene = Scene::new();
    let first = scene.plugin();
    scene.fill(&first);
    first.tell(0, PAGE, b"last");
    drop(first);
    scene.rest();
    assert_eq!(scene.events(), []);
    scene.until(|scene| {
        scene.switch_takes(1);
        scene.events().contains(&Event::Store(PAGE, b"last".to_vec()))
    });
    scene.plugin();
}

#[test]
fn corrupt_ring_ends_only_the_plugin() {
    let mut scene = Scene::new();
    let path = snoop_path(&scene.socket);
    let hostile = scene.done(thread::spawn(move || {
        let socket = message::connect(&path, PATIENCE).unwrap();
        let (_, memory) = message::receive(&socket, 256).unwrap();
        // The header declares a ring of 33 bytes.
        rustix::io::pwrite(&memory[0], &33_u64.to_le_bytes(), 0).unwrap();
        // The station may have looked at the ring already and have closed the connection.
        let sent = rustix::net::send(&socket, b"!", rustix::net::SendFlags::empty());
        assert!(matches!(sent, Ok(1) | Err(rustix::io::Errno::PIPE)), "{sent:?}");
        socket
    }));
    scene.rest();
    assert_eq!(scene.events(), []);
    // The place is free again, and the machine is served.
    let (next, client) = (scene.plugin(), scene.client());
    next.tell(0, PAGE, b"good");
    scene.write(client, &[(0x40, 1)]);
    assert_eq!(scene.events()[..2], [Event::Store(PAGE, b"good".to_vec()), Event::Write(0x40, 1)]);
    drop(hostile);
}

#[test]
fn packets_stay_in_ring_while_card_refuses_them() {
    let mut scene = Scene::new();
    let client = scene.client();
    let client = scene.write(client, &[(TAKES, 0)]);
    scene.events();
    let sent = (0..1000).take_while(|_| scene.switch_sends()).count();
    assert!(sent > 10 && sent < 1000, "the ring holds {sent}");
    scene.rest();
    assert_eq!(scene.events(), []);
    scene.write(client, &[(TAKES, 1)]);
    scene.rest();
    let events = scene.events();
    assert_eq!(events.iter().filter(|event| **event == Event::Packet).count(), sent);
    // From now on packets wake the card again.
    assert!(scene.switch_sends());
    scene.switch.bell.as_ref().unwrap().ring();
    scene.rest();
    assert_eq!(scene.events(), [Event::Packet]);
}

#[test]
fn blocked_destination_does_not_stop_senders_machine() {
    let mut scene = Scene::new();
    scene.station.set_access_deadline(Duration::from_millis(8));
    let (machine, mut client) = (scene.plugin(), scene.client());
    scene.fill(&machine);
    let doing = thread::spawn(move || {
        store_to(&mut client, &[(WINDOW, 1), (0x40, 2)]);
        let mut bytes = [0; 8];
        client.region_read(0, 0x48, &mut bytes).unwrap();
        (client, bytes)
    });
    let (client, bytes) = scene.done(doing);
    assert_eq!((scene.events(), bytes), (vec![], [0xff; 8]), "the card takes nothing");
    assert_eq!(scene.station.counters()["bus"]["expired_accesses"], 3);
    // Once the card accepts stores again, an access comes after the stores before it. The expired
    // accesses are forgotten.
    machine.tell(0, PAGE, b"next");
    scene.seen.lock().unwrap().fifo = 0;
    let _client = scene.write(client, &[(WINDOW, 3)]);
    assert_eq!(scene.events(), [Event::Store(PAGE, b"next".to_vec()), Event::Write(WINDOW, 3)]);
}

#[test]
fn access_is_made_after_more_stores_than_fit() {
    let mut scene = Scene::with(Seen { makes_room: true, ..Seen::default() });
    scene.station.set_access_deadline(Duration::from_millis(8));
    let (machine, mut client) = (scene.plugin(), scene.client());
    scene.fill(&machine);
    let stores = 0..5 * FIFO as u64;
    stores.clone().for_each(|number| machine.tell(0, PAGE, &number.to_le_bytes()));
    let doing = thread::spawn(move || {
        store_to(&mut client, &[(WINDOW, 1)]);
        let mut bytes = [0; 8];
        client.region_read(0, 0x48, &mut bytes).unwrap();
        (client, bytes)
    });
    let (_client, bytes) = scene.done(doing);
    let accesses = [Event::Write(WINDOW, 1), Event::Read(0x48)];
    assert_eq!(scene.events(), stores.map(store).chain(accesses).collect::<Vec<_>>());
    assert_eq!((u64::from_le_bytes(bytes), scene.seen.lock().unwrap().most), (0x48, FIFO));
    assert_eq!(scene.station.counters()["bus"]["expired_accesses"], 0);
}

#[test]
fn turn_ends_after_its_time_slice() {
    let slowness = Duration::from_micros(50);
    let mut scene = Scene::with(Seen { slowness, ..Seen::default() });
    while scene.switch_sends() {}
    assert_eq!(scene.station.turn(&mut Alone), Carried::Worked);
    // Each packet takes at least 50 us, and so does each check for a packet to send.
    let taken = scene.events().len();
    assert!((1..=5).contains(&taken), "{taken} packets in a turn");
}
