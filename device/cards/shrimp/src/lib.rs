//! The SHRIMP card (Blumrich and others, *Virtual memory mapped network interface for the SHRIMP
//! multicomputer*, ISCA '94), on the chassis of the family.
//!
//! | content | section | file |
//! |---|---|---|
//! | identity and verbs | | here |
//! | the page table, with pages split between two mappings | 3.1, 3.2, 4 | `nipt` |
//! | stores that are seen, and stores to window pages | 4, 4.1 | `stores` |
//! | the Outgoing FIFO, with blocked-write's merging | 4, 4.1 | `outgoing` |
//! | destinations that stop this host's processors | 4 | `slow` |
//! | command pages | 4.2 | `commands` |
//! | the engine for deliberate update | 4.3 | `engine` |
//! | arriving packets: checks, the Incoming FIFO, deposits | 3.1, 4 | `incoming` |
//! | the queue of reported arrivals | 4.2 | `arrivals` |
//! | a packet between two cards | 3.1 | `packet` |
//! | registers, and commands of the operating system | | `driver` |
//! | settings and construction | | `model` |

mod arrivals;
mod commands;
mod driver;
mod engine;
mod incoming;
mod model;
mod nipt;
mod outgoing;
mod packet;
mod slow;
mod stores;

use std::collections::HashMap;
use std::time::Duration;

use hamlyn_abi::family::identity::{ULN_PCI_CLASS, ULN_PCI_VENDOR};
use hamlyn_abi::shrimp::identity::{SHRIMP_ABI_VERSION, SHRIMP_MODEL, SHRIMP_PCI_DEVICE};
use hamlyn_abi::shrimp::registers::SHRIMP_VECTOR_OUTGOING;
use hamlyn_abi::shrimp::statistics::{SHRIMP_STATISTICS, ShrimpStatistic};
use hamlyn_card::card::{Bar, Card, Identity, Place, Progress, Reading, Region, Store, Widths};
use hamlyn_card::chassis::counters::Counters;
use hamlyn_card::chassis::{Chassis, Constants};
use hamlyn_card::packet::PacketField;
use hamlyn_card::ports::{Link, Packet, Ports};

use self::arrivals::Arrivals;
use self::engine::Engine;
use self::incoming::Incoming;
pub use self::model::{MODEL, Options};
use self::nipt::Nipt;
use self::outgoing::Outgoing;
use self::packet::Coordinates;
pub use self::packet::OVERHEAD as PACKET_OVERHEAD;

/// Protocol number of the card's packets on the fabric: the same as its model number.
const PROTOCOL: u8 = SHRIMP_MODEL as u8;
const REGISTERS: u8 = 0;
const MEMORY: u8 = 2;
/// Size of a page of host memory, in bytes.
const PAGE: u64 = 4096;

/// A place in another host's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Target {
    node: u16,
    address: u64,
}

/// The SHRIMP card.
#[derive(Debug)]
pub struct ShrimpCard {
    chassis: Chassis,
    nipt: Nipt,
    outgoing: Outgoing,
    /// How long a packet of blocked-write waits for the next store.
    merge_time: Duration,
    engine: Engine,
    incoming: Incoming,
    arrivals: Arrivals,
    /// Pages that receive the messages of other hosts' operating systems.
    system_pages: HashMap<u16, u64>,
    /// Number of columns of the mesh, and the place of this node in it.
    columns: u16,
    here: Option<Coordinates>,
    /// Whether the card sees stores on the host's bus.
    snoops: bool,
    options: Options,
    counters: Counters<{ SHRIMP_STATISTICS as usize }>,
}

impl ShrimpCard {
    /// Creates a card at power-on.
    #[must_use]
    pub fn new(options: Options) -> Self {
        let constants = Constants {
            model: SHRIMP_MODEL,
            abi_version: SHRIMP_ABI_VERSION,
            vectors: SHRIMP_VECTOR_OUTGOING + 1,
            handshake_ms: options.handshake_ms,
        };
        Self {
            chassis: Chassis::new(constants),
            nipt: Nipt::new(options.pages),
            outgoing: Outgoing::new(options.fifo as usize),
            merge_time: Duration::from_micros(options.merge_us.into()),
            engine: Engine::new(options.packet_size as usize),
            incoming: Incoming::new(options.fifo as usize),
            arrivals: Arrivals::default(),
            system_pages: HashMap::new(),
            columns: options.columns as u16,
            here: None,
            snoops: false,
            options,
            counters: Counters::default(),
        }
    }

    fn count(&mut self, statistic: ShrimpStatistic) {
        self.counters.add(statistic, 1);
    }

    /// Returns the size of the command pages, in bytes. The window pages begin behind them.
    fn commands_size(&self) -> u64 {
        u64::from(self.nipt.pages()) * PAGE
    }

    /// Lets the engine put data into the Outgoing FIFO while there is room (section 4.3). Returns
    /// whether it did something.
    fn run_engine(&mut self, ports: &Ports<'_>) -> bool {
        // Without a place in the mesh, the card cannot make packets. A transfer then waits until
        // there is a link again.
        if self.here.is_none() || self.engine.is_idle() || !self.outgoing.has_room() {
            return false;
        }
        let (step, done) = self.engine.step(&self.nipt, ports.dma);
        match step {
            engine::Step::Idle => return false,
            engine::Step::Cut => self.count(ShrimpStatistic::TransfersCut),
            engine::Step::Data(target, data) => {
                match self.places(target.node) {
                    Some(_) if self.outgoing.is_cut_off(target.node) => {
                        self.count(ShrimpStatistic::PacketsCutOff);
                    }
                    Some(places) => self.outgoing.put(target, places, &data),
                    None => {}
                }
                if done {
                    self.count(ShrimpStatistic::TransfersDone);
                }
            }
        }
        self.tell_if_full(ports);
        true
    }

    /// Returns the places of this node and another in the mesh. Returns `None` if this node has no
    /// place yet, or if the mesh would be too large.
    fn places(&self, node: u16) -> Option<[Coordinates; 2]> {
        Some([self.here?, Coordinates::of(node, self.columns)?])
    }

    /// Records whether the Outgoing FIFO stops this host's processors.
    fn look(&mut self, ports: &Ports<'_>) {
        self.outgoing.look(self.here.is_some(), &|| ports.clock.now());
    }

    /// Cuts off hosts that stop the processors of this host.
    fn judge(&mut self, ports: &Ports<'_>, now: Duration) {
        let (nodes, packets) = self.outgoing.judge(now);
        self.tell_of_cut(ports, &nodes, packets);
    }

    /// Interrupts the processor if hosts have been cut off.
    fn tell_of_cut(&mut self, ports: &Ports<'_>, nodes: &[u16], packets: usize) {
        if nodes.is_empty() {
            return;
        }
        tracing::debug!(?nodes, packets, "hosts that take too little are cut off");
        self.counters.add(ShrimpStatistic::PacketsCutOff, packets as u64);
        ports.interrupt.raise(SHRIMP_VECTOR_OUTGOING as u16);
        self.look(ports);
    }

    /// Interrupts the processor if the Outgoing FIFO has reached its threshold (section 4).
    fn tell_if_full(&mut self, ports: &Ports<'_>) {
        self.look(ports);
        if self.outgoing.take_overrun() {
            self.count(ShrimpStatistic::OutgoingFull);
            ports.interrupt.raise(SHRIMP_VECTOR_OUTGOING as u16);
        }
    }
}

impl Card for ShrimpCard {
    fn identity(&self) -> Identity {
        Identity {
            protocol: PROTOCOL,
            largest_packet: packet::LARGEST,
            // Stores arrive in the order in which they were made (section 4.1).
            ordered: true,
            vendor: ULN_PCI_VENDOR,
            device: SHRIMP_PCI_DEVICE,
            class: ULN_PCI_CLASS,
            bars: vec![
                Bar::registers(REGISTERS),
                Bar::trapped(MEMORY, 2 * self.commands_size(), Widths::all()),
            ],
            vectors: SHRIMP_VECTOR_OUTGOING as u16 + 1,
            posted: Vec::new(),
            snooped: Some(self.nipt.pages().into()),
        }
    }

    fn register_read(&mut self, ports: &Ports<'_>, bar: u8, offset: u64, width: u8) -> Reading {
        let value = match bar {
            REGISTERS => self.read_register(offset as u32),
            MEMORY if offset < self.commands_size() => self.engine.answer(offset).into(),
            MEMORY => self.load(ports, offset - self.commands_size(), width),
            _ => 0,
        };
        Reading::Now(if width == 8 { value } else { value & ((1 << (8 * width)) - 1) })
    }

    fn register_write(&mut self, ports: &Ports<'_>, bar: u8, offset: u64, width: u8, value: u64) {
        match bar {
            REGISTERS => self.write_register(ports, offset as u32, width, value),
            MEMORY if offset < self.commands_size() => self.command_page(ports, offset, width, value),
            MEMORY => self.store(ports, offset - self.commands_size(), width, value),
            _ => {}
        }
    }

    fn transmit(&mut self, ports: &Ports<'_>, link: &mut dyn Link) -> Progress {
        let ran = self.run_engine(ports);
        // The engine reads one piece in a turn, so that a processor sees the progress of a transfer
        // (section 4.3).
        let has_more = ran && !self.engine.is_idle();
        match self.outgoing.send_next(link) {
            Ok(data) => {
                self.look(ports);
                self.count(ShrimpStatistic::PacketsSent);
                self.counters.add(ShrimpStatistic::BytesSent, data as u64);
                if has_more { Progress::Yielded } else { Progress::Worked }
            }
            Err(_) if has_more && self.outgoing.has_room() => Progress::Yielded,
            Err(Progress::Idle) if ran => Progress::Worked,
            Err(progress) => progress,
        }
    }

    fn packet_arrived(&mut self, ports: &Ports<'_>, packet: &Packet<'_>) {
        self.take(packet);
        self.drain(ports);
    }

    fn takes_packets(&self) -> bool {
        self.incoming.has_room()
    }

    fn store_seen(&mut self, ports: &Ports<'_>, store: &Store) {
        self.count(ShrimpStatistic::StoresSeen);
        self.propagate(ports, store.address, store.bytes());
    }

    fn takes_stores(&self) -> bool {
        // Without a link there is nothing to wait for: the stores go nowhere.
        self.outgoing.has_room() || self.here.is_none()
    }

    fn make_room(&mut self, ports: &Ports<'_>) -> bool {
        let Some((nodes, packets)) = self.outgoing.make_room(ports.clock.now()) else { return false };
        self.tell_of_cut(ports, &nodes, packets);
        true
    }

    fn watch_change(&mut self) -> Option<(u64, bool)> {
        self.nipt.watch_change()
    }

    fn snooping_changed(&mut self, _: &Ports<'_>, snoops: bool) {
        self.snoops = snoops;
    }

    fn sleep(&mut self, _: &Ports<'_>) -> bool {
        // All work comes with a store or a packet.
        true
    }

    fn alarm(&self) -> Option<Duration> {
        let closing = self.outgoing.deadline(self.merge_time);
        let slow = self.outgoing.judgement();
        [self.chassis.deadline(), closing, slow, self.incoming.deadline()].into_iter().flatten().min()
    }

    fn tick(&mut self, ports: &Ports<'_>) {
        let now = ports.clock.now();
        if self.outgoing.deadline(self.merge_time).is_some_and(|deadline| deadline <= now) {
            self.outgoing.close();
        }
        if self.outgoing.judgement().is_some_and(|deadline| deadline <= now) {
            self.judge(ports, now);
        }
        if self.incoming.deadline().is_some_and(|deadline| deadline <= now) {
            tracing::debug!("HOLD has stopped the network for too long and ends");
            self.incoming.end_hold();
            self.drain(ports);
        }
        if self.chassis.check_handshake(now) {
            self.count(ShrimpStatistic::HandshakeLapses);
        }
    }

    fn link_changed(&mut self, ports: &Ports<'_>, place: Option<Place>) {
        self.here = place.and_then(|place| Coordinates::of(place.host, self.columns));
        self.look(ports);
        self.chassis.link_changed(ports, place);
    }

    fn reset(&mut self, ports: &Ports<'_>) {
        self.nipt.clear();
        self.chassis.reset();
        self.outgoing = self.outgoing.renewed();
        self.merge_time = Duration::from_micros(self.options.merge_us.into());
        self.engine.clear();
        self.incoming = self.incoming.renewed(ports.clock.now());
        self.arrivals = Arrivals::default();
        self.system_pages.clear();
        self.counters = Counters::default();
    }

    fn counts(&self) -> &[u64] {
        self.counters.as_slice()
    }

    fn packet_fields(&self) -> &'static [PacketField] {
        packet::FIELDS
    }

    fn regions(&self) -> Vec<Region> {
        let (start, count) = (self.commands_size(), self.nipt.pages().into());
        vec![
            Region { bar: MEMORY, name: "SHRIMP_COMMAND_PAGE", start: 0, size: PAGE, count },
            Region { bar: MEMORY, name: "SHRIMP_WINDOW_PAGE", start, size: PAGE, count },
        ]
    }

    fn is_enabled(&self) -> bool {
        self.chassis.is_enabled()
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.counters.named(ShrimpStatistic::NAMES)
    }
}
