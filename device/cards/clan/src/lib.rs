//! The CLAN card (Riddoch and others, *Tripwire: a synchronisation primitive for virtual memory
//! mapped communication*, 2000), on the chassis of the family.
//!
//! | content | section | file |
//! |---|---|---|
//! | identity and verbs | | here |
//! | packets between two cards, cut and joined | 2.2 | `packet` |
//! | outgoing packets, in order for each host | 2.1, 2.2, 2.5 | `peers`, `peer` |
//! | what became of an outgoing packet or a read | 2.1, 2.2 | `outgoing` |
//! | pending refusals of writes | 2.2 | `refusals` |
//! | credits, and how losses are found | 2.2 | `credits` |
//! | loads and stores of windows | 2.1 | `stores`, `windows` |
//! | pending remote reads | 2.1 | `reads` |
//! | arriving packets | 2.1 to 2.3, 5.2 | `incoming`, `burst` |
//! | apertures and their protection | 3.2 | `apertures` |
//! | words in order | 2.1 | `memory` |
//! | the DMA engine | 3.4 | `engine` |
//! | endpoints, their memory and their tags | 3.1 | `endpoints`, `tags` |
//! | Tripwires, and which of them watch a place | 2.5, 3.3 | `tripwires`, `cam` |
//! | event queues | 3.5 | `events` |
//! | notifications | 3.3, 3.5 | `telling` |
//! | registers, and commands of the operating system | | `driver` |
//! | settings and construction | | `model` |
//!
//! The card is made of parts, each a type with private fields: apertures, windows, endpoints with
//! all that their owners are told (`Telling`), Tripwires, the engine, the other hosts (`Peers`) and
//! pending reads. The card hands the others to the part that does the work. Parts that do not know
//! each other meet in `incoming` and `outgoing`.

mod apertures;
mod burst;
mod cam;
mod credits;
mod driver;
mod endpoints;
mod engine;
mod events;
mod incoming;
mod memory;
mod model;
mod outgoing;
mod packet;
mod peer;
mod peers;
mod reads;
mod refusals;
mod stores;
mod tags;
mod telling;
mod tripwires;
mod windows;

use std::time::Duration;

use hamlyn_abi::clan::endpoint::*;
use hamlyn_abi::clan::identity::{CLAN_ABI_VERSION, CLAN_MODEL, CLAN_PCI_DEVICE};
use hamlyn_abi::clan::registers::{CLAN_JOIN_LEAVING, CLAN_VECTOR_FIFO};
use hamlyn_abi::clan::statistics::ClanStatistic;
use hamlyn_abi::family::identity::{ULN_PCI_CLASS, ULN_PCI_VENDOR};
use hamlyn_card::card::{Bar, Card, Identity, Place, Progress, Reading, Region, Widths};
use hamlyn_card::chassis::{Chassis, Constants};
use hamlyn_card::packet::PacketField;
use hamlyn_card::ports::{Link, Packet, Ports};

use self::apertures::Apertures;
use self::burst::Burst;
use self::engine::{Around, Engine};
pub use self::model::{MODEL, Options};
pub use self::packet::{OVERHEAD as PACKET_OVERHEAD, cut, join};
use self::peers::Peers;
use self::reads::Reads;
use self::telling::Telling;
use self::tripwires::Tripwires;
use self::windows::Windows;

/// Protocol number of the card's packets on the fabric: the same as its model number.
const PROTOCOL: u8 = CLAN_MODEL as u8;
const REGISTERS: u8 = 0;
const PAGES: u8 = 2;
/// Size of a page of host memory, in bytes.
const PAGE: u64 = 4096;

/// The CLAN card.
#[derive(Debug)]
pub struct ClanCard {
    options: Options,
    chassis: Chassis,
    apertures: Apertures,
    windows: Windows,
    telling: Telling,
    tripwires: Tripwires,
    engine: Engine,
    peers: Peers,
    reads: Reads,
    /// Joined data that has arrived and is not yet written.
    burst: Option<Burst>,
    /// Where bursts are joined: `CLAN_JOIN_*`.
    join: u32,
}

impl ClanCard {
    /// Creates a card at power-on.
    #[must_use]
    pub fn new(options: Options) -> Self {
        let constants = Constants {
            model: CLAN_MODEL,
            abi_version: CLAN_ABI_VERSION,
            vectors: CLAN_VECTOR_FIFO + 1,
            handshake_ms: options.handshake_ms,
        };
        Self {
            options,
            chassis: Chassis::new(constants),
            apertures: Apertures::new(options.apertures),
            windows: Windows::new(options.window_pages),
            telling: Telling::new(&options),
            tripwires: Tripwires::new(options.endpoints),
            engine: Engine::new(options.endpoints),
            peers: Peers::new(options.credits, options.burst),
            reads: Reads::new(Duration::from_millis(options.read_timeout_ms.into())),
            burst: None,
            join: options.join,
        }
    }

    /// Returns the size of the endpoints' pages, in bytes. The window pages begin behind them.
    fn endpoints_size(&self) -> u64 {
        u64::from(self.options.endpoints) * u64::from(CLAN_ENDPOINT_SIZE)
    }

    /// Returns the engine, and the parts that it works with.
    fn engine<'a>(&'a mut self, ports: &'a Ports<'a>) -> (&'a mut Engine, Around<'a>) {
        let Self { engine, apertures, telling, peers, reads, .. } = self;
        (engine, Around { ports, apertures, telling, peers, reads })
    }

    /// Handles a store to an endpoint's page.
    fn endpoint_page(&mut self, ports: &Ports<'_>, offset: u64, width: u8, value: u64) {
        let size = u64::from(CLAN_ENDPOINT_SIZE);
        let (index, place) = ((offset / size) as u32, (offset % size) as u32);
        let Self { engine, tripwires, telling, apertures, .. } = self;
        if telling.endpoint(index).is_none() {
            return telling.count(ClanStatistic::TripwiresRefused);
        }
        match (place, width) {
            (CLAN_ENDPOINT_GO, _) => engine.look_for_requests(ports, telling, index),
            (CLAN_ENDPOINT_USE, 4) => {
                let (engine, mut around) = self.engine(ports);
                engine.begin_use(&mut around, index, value as u32);
            }
            (CLAN_ENDPOINT_INTEREST, 4) => telling.set_interest(ports, index, value as u32),
            _ => tripwires.store(ports, telling, apertures, (index, place), (width, value)),
        }
    }
}

impl Card for ClanCard {
    fn identity(&self) -> Identity {
        let pages = self.endpoints_size() + u64::from(self.options.window_pages) * PAGE;
        Identity {
            protocol: PROTOCOL,
            largest_packet: packet::OVERHEAD + self.options.burst as usize,
            // Reads and writes arrive in the order in which they were made (section 2.1).
            ordered: true,
            vendor: ULN_PCI_VENDOR,
            device: CLAN_PCI_DEVICE,
            class: ULN_PCI_CLASS,
            bars: vec![Bar::registers(REGISTERS), Bar::trapped(PAGES, pages, Widths::all())],
            vectors: CLAN_VECTOR_FIFO as u16 + 1,
            posted: Vec::new(),
            snooped: None,
        }
    }

    fn register_read(&mut self, ports: &Ports<'_>, bar: u8, offset: u64, width: u8) -> Reading {
        self.settle(ports);
        let value = match bar {
            REGISTERS => self.read_register(offset as u32),
            PAGES if offset >= self.endpoints_size() => {
                let place = (offset - self.endpoints_size(), width);
                let Self { windows, telling, peers, reads, .. } = self;
                return windows.load(ports, telling, peers, reads, place);
            }
            _ => 0,
        };
        Reading::Now(value)
    }

    fn late_reading(&mut self) -> Option<(u64, u64)> {
        self.reads.next_loaded()
    }

    fn register_write(&mut self, ports: &Ports<'_>, bar: u8, offset: u64, width: u8, value: u64) {
        self.settle(ports);
        match bar {
            REGISTERS => self.write_register(ports, offset as u32, width, value),
            PAGES if offset < self.endpoints_size() => self.endpoint_page(ports, offset, width, value),
            PAGES => {
                let store = (offset - self.endpoints_size(), width, value);
                let joins = self.join & CLAN_JOIN_LEAVING != 0;
                self.windows.store(ports, &mut self.telling, &mut self.peers, joins, store);
            }
            _ => {}
        }
    }

    fn transmit(&mut self, ports: &Ports<'_>, link: &mut dyn Link) -> Progress {
        self.settle(ports);
        self.send_next(ports, link)
    }

    fn packet_arrived(&mut self, ports: &Ports<'_>, packet: &Packet<'_>) {
        self.engine.stir();
        self.take(ports, packet);
    }

    fn sleep(&mut self, ports: &Ports<'_>) -> bool {
        // All work comes with a store or a packet.
        self.settle(ports);
        true
    }

    fn alarm(&self) -> Option<Duration> {
        let own = [self.chassis.deadline(), self.reads.deadline(), self.peers.deadline()];
        own.into_iter().flatten().min()
    }

    fn tick(&mut self, ports: &Ports<'_>) {
        self.settle(ports);
        let now = ports.clock.now();
        self.engine.stir();
        self.give_up(ports, now);
        if self.chassis.check_handshake(now) {
            self.telling.count(ClanStatistic::HandshakeLapses);
        }
    }

    fn link_changed(&mut self, ports: &Ports<'_>, place: Option<Place>) {
        self.settle(ports);
        // Packets in flight on the earlier link are lost.
        for (host, gone) in self.peers.take_all() {
            self.given_up(ports, host, gone);
        }
        for read in self.reads.give_up(|_| true) {
            self.read_failed(ports, &read, CLAN_FAULT_TIMEOUT);
        }
        self.reads.clear();
        self.peers.begin(place, ports.clock.now());
        self.chassis.link_changed(ports, place);
    }

    fn reset(&mut self, _: &Ports<'_>) {
        self.chassis.reset();
        self.burst = None;
        self.apertures.clear();
        self.windows.clear();
        self.telling.clear();
        self.tripwires.clear();
        self.engine.clear();
        self.peers.clear();
        self.reads.reset(Duration::from_millis(self.options.read_timeout_ms.into()));
        self.join = self.options.join;
    }

    fn counts(&self) -> &[u64] {
        self.telling.counters().as_slice()
    }

    fn packet_fields(&self) -> &'static [PacketField] {
        packet::FIELDS
    }

    fn regions(&self) -> Vec<Region> {
        let (endpoints, window) = (self.endpoints_size(), self.options.window_pages.into());
        let endpoint = u64::from(CLAN_ENDPOINT_SIZE);
        vec![
            Region {
                bar: PAGES,
                name: "CLAN_ENDPOINT",
                start: 0,
                size: endpoint,
                count: endpoints / endpoint,
            },
            Region { bar: PAGES, name: "CLAN_WINDOW_PAGE", start: endpoints, size: PAGE, count: window },
        ]
    }

    fn is_enabled(&self) -> bool {
        self.chassis.is_enabled()
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.telling.counters().named(ClanStatistic::NAMES)
    }
}
