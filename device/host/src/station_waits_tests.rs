//! A station whose card sees stores and does not always take what comes: in which order that is,
//! and who is woken.

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

/// A station, and all around it.
struct Scene {
    station: Station,
    seen: Arc<Mutex<Seen>>,
    switch: Link,
    socket: PathBuf,
    _folder: tempfile::TempDir,
}

/// A machine's other threads: what they do, one thing after the other, may wait for the station.
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

    /// What a card's process does, until it would wait. What never comes to rest is a busy loop.
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

    /// Rests again and again until something is so.
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

    /// Has the machine store to registers.
    fn write(&mut self, mut client: Client, writes: &'static [(u64, u64)]) -> Client {
        self.done(thread::spawn(move || {
            store_to(&mut client, writes);
            client
        }))
    }

    /// Takes so many packets from the card, the switch's part.
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

    /// The card has no room for another store, nor has the link.
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
        // Nobody looks for stores but who is asked by the machine.
        scene.station.serve(Socket::Card).unwrap();
        scene.seen.lock().unwrap().fifo = 0;
    }
    let made = (0..3 * FIFO as u64).step_by(2);
    let wanted = made.flat_map(|at| [store(at), store(at + 1), Event::Write(0x40, at), Event::Read(0x48)]);
    assert_eq!(scene.events()[..12 * FIFO / 2], wanted.collect::<Vec<_>>());
}

#[test]
fn an_access_waits_for_room_and_takes_none_of_it_from_the_stores_before_it() {
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
fn a_card_with_a_window_alone_has_its_accesses_wait_as_well() {
    let mut scene = Scene::with(Seen { has_window_alone: true, ..Seen::default() });
    assert!(!snoop_path(&scene.socket).exists());
    assert!(scene.station.counters().get("snooped").is_none(), "nobody need be told that");
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
fn a_processor_that_stores_without_end_keeps_no_other_from_the_registers() {
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
fn a_reset_makes_room_and_ends_what_was_stored_before() {
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
fn a_plugin_that_leaves_is_missed_and_another_may_come() {
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
fn a_plugin_that_leaves_while_there_is_no_room_wakes_nobody() {
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
fn nonsense_in_the_ring_ends_the_plugin_alone() {
    let mut scene = Scene::new();
    let path = snoop_path(&scene.socket);
    let hostile = scene.done(thread::spawn(move || {
        let socket = message::connect(&path, PATIENCE).unwrap();
        let (_, memory) = message::receive(&socket, 256).unwrap();
        // The ring is said to have 33 bytes.
        rustix::io::pwrite(&memory[0], &33_u64.to_le_bytes(), 0).unwrap();
        rustix::net::send(&socket, b"!", rustix::net::SendFlags::empty()).unwrap();
        socket
    }));
    scene.rest();
    assert_eq!(scene.events(), []);
    // Its place is free, and the machine is served.
    let (next, client) = (scene.plugin(), scene.client());
    next.tell(0, PAGE, b"good");
    scene.write(client, &[(0x40, 1)]);
    assert_eq!(scene.events()[..2], [Event::Store(PAGE, b"good".to_vec()), Event::Write(0x40, 1)]);
    drop(hostile);
}

#[test]
fn packets_stay_in_the_ring_while_the_card_takes_none() {
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
    // From now on it is woken again.
    assert!(scene.switch_sends());
    scene.switch.bell.as_ref().unwrap().ring();
    scene.rest();
    assert_eq!(scene.events(), [Event::Packet]);
}

#[test]
fn destination_that_takes_nothing_does_not_stop_its_senders_machine() {
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
    // Once it takes something again, an access comes after the stores before it: none of those that
    // expired is remembered.
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
fn turn_ends_after_its_time_whatever_there_is_to_do() {
    let slowness = Duration::from_micros(50);
    let mut scene = Scene::with(Seen { slowness, ..Seen::default() });
    while scene.switch_sends() {}
    assert_eq!(scene.station.turn(&mut Alone), Carried::Worked);
    // Each packet takes 50 us at least, and so does a look whether there is one to send.
    let taken = scene.events().len();
    assert!((1..=5).contains(&taken), "{taken} packets in a turn");
}
