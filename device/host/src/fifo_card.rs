//! A card for tests that snoops its machine's stores and can refuse stores and packets.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use hamlyn_card::card::{Bar, BarKind, Card, Identity, Place, Progress, Reading, Store, Widths};
use hamlyn_card::model::Model;
use hamlyn_card::ports::{Link, Packet, Ports, VolatileSlice};

/// The model, which is not in the catalogue.
pub(crate) static MODEL: Model = Model {
    name: "fifo",
    paper: "",
    about: "",
    settings: &[],
    bursts: None,
    make: |_| Ok(Box::new(Fifo(Arc::default()))),
};

/// Capacity of the card's FIFO. The card accepts no stores while it is full.
pub(crate) const FIFO: usize = 4;
pub(crate) const PACKET: usize = 256;
/// A write to this register stands for a store to a window page: it uses a FIFO entry.
pub(crate) const WINDOW: u64 = 0;
/// Watches the page with this number.
pub(crate) const WATCH: u64 = 8;
/// Whether packets are accepted.
pub(crate) const TAKES: u64 = 16;
/// Groups that the card joins.
pub(crate) const GROUPS: u64 = 24;
/// Destination of packets from now on.
pub(crate) const DESTINATION: u64 = 32;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    Read(u64),
    Write(u64, u64),
    Store(u64, Vec<u8>),
    Packet,
    Snoops(bool),
    Reset,
}

/// The card's state, as a test sees it.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) events: Vec<Event>,
    pub(crate) fifo: usize,
    pub(crate) most: usize,
    pub(crate) refuses_packets: bool,
    /// Discards the FIFO if an access has waited for the maximum time.
    pub(crate) makes_room: bool,
    /// The card does not snoop its machine's stores.
    pub(crate) has_window_alone: bool,
    pub(crate) watch: VecDeque<(u64, bool)>,
    /// Groups that have not been passed to the link yet.
    pub(crate) groups: Option<u64>,
    pub(crate) destination: Option<u16>,
    /// Time that the card needs to accept or send a packet.
    pub(crate) slowness: Duration,
}

impl Seen {
    fn work(&self) {
        let begun = Instant::now();
        while begun.elapsed() < self.slowness {}
    }
}

/// A card that sends a packet for each store, by default to host 1.
pub(crate) struct Fifo(pub(crate) Arc<Mutex<Seen>>);

impl Fifo {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap()
    }

    fn put(&self, event: Event) {
        let mut seen = self.seen();
        seen.events.push(event);
        seen.fifo += 1;
        seen.most = seen.most.max(seen.fifo);
    }
}

impl Card for Fifo {
    fn identity(&self) -> Identity {
        let kind = BarKind::Registers;
        Identity {
            protocol: 9,
            largest_packet: PACKET,
            ordered: false,
            vendor: 1,
            device: 2,
            class: 3,
            bars: vec![Bar { index: 0, size: 4096, wide: false, kind, widths: Widths::all() }],
            vectors: 1,
            posted: Vec::new(),
            snooped: (!self.seen().has_window_alone).then_some(16),
        }
    }

    fn register_read(&mut self, _: &Ports<'_>, _: u8, offset: u64, _: u8) -> Reading {
        self.seen().events.push(Event::Read(offset));
        Reading::Now(offset)
    }

    fn register_write(&mut self, _: &Ports<'_>, _: u8, offset: u64, _: u8, value: u64) {
        let event = Event::Write(offset, value);
        match offset {
            WINDOW => return self.put(event),
            WATCH => self.seen().watch.push_back((value, true)),
            TAKES => self.seen().refuses_packets = value == 0,
            GROUPS => self.seen().groups = Some(value),
            DESTINATION => self.seen().destination = Some(value as u16),
            _ => {}
        }
        self.seen().events.push(event);
    }

    fn store_seen(&mut self, _: &Ports<'_>, store: &Store) {
        self.put(Event::Store(store.address, store.bytes().to_vec()));
    }

    fn takes_stores(&self) -> bool {
        self.seen().fifo < FIFO
    }

    fn make_room(&mut self, _: &Ports<'_>) -> bool {
        let mut seen = self.seen();
        if seen.makes_room {
            seen.fifo = 0;
        }
        seen.makes_room
    }

    fn watch_change(&mut self) -> Option<(u64, bool)> {
        self.seen().watch.pop_front()
    }

    fn snooping_changed(&mut self, _: &Ports<'_>, snoops: bool) {
        self.seen().events.push(Event::Snoops(snoops));
    }

    fn transmit(&mut self, _: &Ports<'_>, link: &mut dyn Link) -> Progress {
        self.seen().work();
        if let Some(groups) = self.seen().groups.take() {
            link.set_groups(groups);
        }
        if self.seen().fifo == 0 {
            return Progress::Idle;
        }
        let to = self.seen().destination.unwrap_or(1);
        let mut bytes = [0; PACKET];
        if link.is_stopped(to) || !link.send(to, &[VolatileSlice::from(&mut bytes[..])]) {
            return Progress::LinkFull;
        }
        self.seen().fifo -= 1;
        Progress::Worked
    }

    fn packet_arrived(&mut self, _: &Ports<'_>, _: &Packet<'_>) {
        assert!(self.takes_packets(), "a packet came that the card does not take");
        let mut seen = self.seen();
        seen.work();
        seen.events.push(Event::Packet);
    }

    fn takes_packets(&self) -> bool {
        !self.seen().refuses_packets
    }

    fn sleep(&mut self, _: &Ports<'_>) -> bool {
        true
    }

    fn alarm(&self) -> Option<Duration> {
        None
    }

    fn tick(&mut self, _: &Ports<'_>) {}

    fn link_changed(&mut self, _: &Ports<'_>, _: Option<Place>) {}

    fn reset(&mut self, _: &Ports<'_>) {
        let mut seen = self.seen();
        (seen.fifo, seen.refuses_packets) = (0, false);
        seen.events.push(Event::Reset);
    }

    fn is_enabled(&self) -> bool {
        true
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let packets = self.seen().events.iter().filter(|event| **event == Event::Packet).count();
        vec![("packets", packets as u64)]
    }
}
