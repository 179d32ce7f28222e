//! The DART card (Osborne, *A Hybrid Deposit Model for Low Overhead Communication in High Speed
//! LANs*, 1994), on the chassis of the family: `docs/dart.md`.
//!
//! | content | section | file |
//! |---|---|---|
//! | identity and verbs | | here |
//! | connections' turns, where sending and execution meet | 3 | `traffic`, `turns`, `backlog` |
//! | messages as cells, and the packets that carry them | Figure 3 | `cells`, `packet` |
//! | the words of a block that a mask selects | Figure 3 | `blocks` |
//! | opcodes | Figure 2 | `opcode` |
//! | the Operation Logic | 3, Figure 5 | `logic` |
//! | the Connection Table | 3 | `connections`, `breaking` |
//! | the Endpoint Table, translations | 3 | `memory`, `endpoints`, `tlb`, `translations` |
//! | address registers, programs | 3 | `memory` |
//! | arriving packets and their execution | 2, 3 | `incoming`, `task`, `executing`, `access` |
//! | the Send Registers, and outgoing packets | 3 | `traffic/pages`, `outgoing` |
//! | queues of records, connections that wait for places in them | 1, 2 | `queues`, `waiters` |
//! | what the host is told | 1, 2 | `telling` |
//! | registers, and commands of the operating system | | `driver`, `traffic/commands` |
//! | settings and construction | | `model` |
//!
//! The card has three parts, each a type with private fields. `Memory` is what messages reach,
//! `Traffic` is the connections and their turns, `Telling` is what the host is told. The card hands
//! the others to the part that does the work.

mod access;
mod backlog;
mod blocks;
mod breaking;
mod cells;
mod connections;
mod driver;
mod endpoints;
mod executing;
mod incoming;
mod logic;
mod memory;
mod model;
mod opcode;
mod outgoing;
mod packet;
mod queues;
mod task;
mod telling;
mod tlb;
mod traffic;
mod translations;
mod turns;
mod waiters;

use std::time::Duration;

use hamlyn_abi::dart::connection::DART_PAGE_SIZE;
use hamlyn_abi::dart::identity::{DART_ABI_VERSION, DART_MODEL, DART_PCI_DEVICE};
use hamlyn_abi::dart::registers::DART_VECTOR_FIFO;
use hamlyn_abi::dart::statistics::DartStatistic;
use hamlyn_abi::family::identity::{ULN_PCI_CLASS, ULN_PCI_VENDOR};
use hamlyn_card::card::{Bar, Card, Identity, Place, Progress, Reading, Region, Widths};
use hamlyn_card::chassis::{Chassis, Constants};
use hamlyn_card::packet::PacketField;
use hamlyn_card::ports::{Link, Packet, Ports};

pub use self::backlog::TURN;
pub use self::cells::{BLOCK, CELL, CONNECTIONS, LONGEST, Malformed, Message, cells};
pub use self::logic::{Executed, Trap, Written, execute};
use self::memory::Memory;
pub use self::model::{MODEL, Options};
pub use self::opcode::{Addressing, Call, Comparison, Main, Opcode, Operation, Order, Source, Target};
use self::telling::Telling;
pub use self::tlb::Policy;
use self::traffic::{Around, Traffic};

/// Protocol number of the card's packets on the fabric: the same as its model number.
const PROTOCOL: u8 = DART_MODEL as u8;
const REGISTERS: u8 = 0;
const PAGES: u8 = 2;

/// The DART card.
#[derive(Debug)]
pub struct DartCard {
    options: Options,
    chassis: Chassis,
    memory: Memory,
    traffic: Traffic,
    telling: Telling,
}

impl DartCard {
    /// Creates a card at power-on.
    #[must_use]
    pub fn new(options: Options) -> Self {
        let constants = Constants {
            model: DART_MODEL,
            abi_version: DART_ABI_VERSION,
            vectors: DART_VECTOR_FIFO + 1,
            handshake_ms: options.handshake_ms,
        };
        Self {
            options,
            chassis: Chassis::new(constants),
            memory: Memory::new(&options),
            traffic: Traffic::new(options.connections),
            telling: Telling::new(options.queues),
        }
    }

    /// Returns the traffic, and the parts that it works with.
    fn traffic<'a>(&'a mut self, ports: &'a Ports<'a>) -> (&'a mut Traffic, Around<'a>) {
        let Self { traffic, memory, telling, .. } = self;
        (traffic, Around { ports, memory, telling })
    }
}

impl Card for DartCard {
    fn identity(&self) -> Identity {
        let pages = u64::from(self.options.connections) * u64::from(DART_PAGE_SIZE);
        Identity {
            protocol: PROTOCOL,
            largest_packet: packet::LARGEST,
            // Messages of a connection are executed in the order in which they were sent.
            ordered: true,
            vendor: ULN_PCI_VENDOR,
            device: DART_PCI_DEVICE,
            class: ULN_PCI_CLASS,
            bars: vec![Bar::registers(REGISTERS), Bar::trapped(PAGES, pages, Widths::DWORD | Widths::QWORD)],
            vectors: DART_VECTOR_FIFO as u16 + 1,
            posted: Vec::new(),
            snooped: None,
        }
    }

    fn register_read(&mut self, _: &Ports<'_>, bar: u8, offset: u64, width: u8) -> Reading {
        Reading::Now(match bar {
            REGISTERS => self.read_register(offset as u32),
            PAGES => self.traffic.page_read(&self.memory, offset, width),
            _ => 0,
        })
    }

    fn register_write(&mut self, ports: &Ports<'_>, bar: u8, offset: u64, width: u8, value: u64) {
        self.traffic.begin_turn();
        match bar {
            REGISTERS => self.write_register(ports, offset as u32, width, value),
            PAGES => {
                let (traffic, mut around) = self.traffic(ports);
                traffic.page_write(&mut around, offset, width, value);
            }
            _ => {}
        }
        self.traffic.end_turn(ports);
    }

    fn transmit(&mut self, ports: &Ports<'_>, link: &mut dyn Link) -> Progress {
        let (traffic, mut around) = self.traffic(ports);
        traffic.begin_turn();
        let progress = traffic.send_next(&mut around, link);
        traffic.end_turn(ports);
        progress
    }

    fn packet_arrived(&mut self, ports: &Ports<'_>, packet: &Packet<'_>) {
        let is_enabled = self.chassis.is_enabled();
        let (traffic, mut around) = self.traffic(ports);
        traffic.begin_turn();
        if is_enabled {
            traffic.arrive(&mut around, packet);
        } else {
            around.telling.count(DartStatistic::Discarded);
        }
        traffic.end_turn(ports);
    }

    fn sleep(&mut self, _: &Ports<'_>) -> bool {
        // All work comes with a store or a packet.
        true
    }

    fn alarm(&self) -> Option<Duration> {
        [self.chassis.deadline(), self.traffic.deadline()].into_iter().flatten().min()
    }

    fn tick(&mut self, ports: &Ports<'_>) {
        let now = ports.clock.now();
        let (traffic, mut around) = self.traffic(ports);
        traffic.begin_turn();
        traffic.tick(&mut around, now);
        if self.chassis.check_handshake(now) {
            self.telling.count(DartStatistic::HandshakeLapses);
        }
        self.traffic.end_turn(ports);
    }

    fn link_changed(&mut self, ports: &Ports<'_>, place: Option<Place>) {
        self.traffic.link_changed(ports, &mut self.telling, place);
        self.chassis.link_changed(ports, place);
    }

    fn reset(&mut self, _: &Ports<'_>) {
        self.memory = Memory::new(&self.options);
        self.telling = Telling::new(self.options.queues);
        self.traffic.reset();
        self.chassis.reset();
    }

    fn counts(&self) -> &[u64] {
        self.telling.counters().as_slice()
    }

    fn packet_fields(&self) -> &'static [PacketField] {
        packet::FIELDS
    }

    fn regions(&self) -> Vec<Region> {
        let (size, count) = (DART_PAGE_SIZE.into(), self.options.connections.into());
        vec![Region { bar: PAGES, name: "DART_SEND", start: 0, size, count }]
    }

    fn is_enabled(&self) -> bool {
        self.chassis.is_enabled()
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.telling.counters().named(DartStatistic::NAMES)
    }
}
