//! The DART card (Osborne, *A Hybrid Deposit Model for Low Overhead Communication in High Speed
//! LANs*, 1994), on the chassis of the family: `docs/dart.md`.
//!
//! | content | section | file |
//! |---|---|---|
//! | identity and verbs | | here |
//! | messages as cells, and the packets that carry them | Figure 3 | `cells`, `packet` |
//! | the words of a block that a mask selects | Figure 3 | `blocks` |
//! | opcodes | Figure 2 | `opcode` |
//! | the Operation Logic | 3, Figure 5 | `logic` |
//! | the Connection Table | 3 | `connections` |
//! | the Endpoint Table, translations | 3 | `endpoints`, `tlb` |
//! | arriving packets and their execution | 2, 3 | `incoming`, `executing`, `memory` |
//! | the Send Registers, and outgoing packets | 3 | `outgoing` |
//! | queues of records, connections that wait for places in them | 1, 2 | `queues`, `waiters` |
//! | registers, and commands of the operating system | | `driver`, `translations` |
//! | settings and construction | | `model` |

mod blocks;
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
mod tlb;
mod translations;
mod waiters;

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::time::Duration;

use hamlyn_abi::dart::command::DartEntry;
use hamlyn_abi::dart::connection::{DART_BROKEN_LINK, DART_DROPPED_BROKEN, DART_PAGE_SIZE};
use hamlyn_abi::dart::fifo::DART_FIFO_LEFT;
use hamlyn_abi::dart::identity::{DART_ABI_VERSION, DART_MODEL, DART_PCI_DEVICE};
use hamlyn_abi::dart::registers::DART_VECTOR_FIFO;
use hamlyn_abi::dart::statistics::{DART_STATISTICS, DartStatistic};
use hamlyn_abi::family::identity::{HAMLYN_PCI_CLASS, HAMLYN_PCI_VENDOR, HAMLYN_REGISTERS_SIZE};
use hamlyn_card::card::{Bar, BarKind, Card, Identity, Place, Progress, Reading, Widths};
use hamlyn_card::chassis::counters::Counters;
use hamlyn_card::chassis::fifo::Fifo;
use hamlyn_card::chassis::table::Table;
use hamlyn_card::chassis::{Chassis, Plate};
use hamlyn_card::ports::{Link, Packet, Ports};

pub use self::cells::{BLOCK, CELL, CONNECTIONS, LONGEST, Malformed, Message, cells};
use self::connections::Connection;
use self::endpoints::Endpoint;
pub use self::executing::TURN;
pub use self::logic::{Executed, Trap, Written, execute};
pub use self::model::{MODEL, Options};
pub use self::opcode::{Addressing, Call, Comparison, Main, Opcode, Operation, Order, Source, Target};
use self::queues::Queue;
pub use self::tlb::Policy;
use self::tlb::Tlb;
use self::translations::Told;
use self::waiters::Waiters;

/// Protocol number of the card's packets on the fabric: the same as its model number.
const PROTOCOL: u8 = DART_MODEL as u8;
const REGISTERS: u8 = 0;
const PAGES: u8 = 2;
/// Time after which a message that waits for a place in a queue is looked at again.
const SOON: Duration = Duration::from_millis(1);

/// The DART card.
#[derive(Debug)]
pub struct DartCard {
    chassis: Chassis,
    connections: Table<Connection>,
    endpoints: Table<Endpoint>,
    queues: Table<Queue>,
    registers: Vec<u64>,
    program: Vec<DartEntry>,
    tlb: Tlb,
    told: Told,
    fifo: Fifo,
    /// Connections that may have something to send, in the order of their turns, and the same for
    /// look-ups.
    turns: VecDeque<u32>,
    in_turn: HashSet<u32>,
    /// Connections whose host accepts no more for now, and the link's count of resumptions.
    stopped: BTreeSet<u32>,
    resumptions: u64,
    /// Connections with messages for which this turn was too short, and what is left of the turn.
    busy: VecDeque<u32>,
    turn_left: usize,
    /// Connections with a message that waits for places in a queue or for answers to leave, and
    /// when they are tried again.
    stuck: BTreeSet<u32>,
    waiters: Waiters,
    look: Option<Duration>,
    here: Option<Place>,
    options: Options,
    counters: Counters<{ DART_STATISTICS as usize }>,
}

impl DartCard {
    /// Creates a card at power-on.
    #[must_use]
    pub fn new(options: Options) -> Self {
        let plate = Plate {
            model: DART_MODEL,
            abi_version: DART_ABI_VERSION,
            vectors: DART_VECTOR_FIFO + 1,
            handshake_ms: options.handshake_ms,
        };
        Self {
            chassis: Chassis::new(plate),
            connections: Table::new(options.connections),
            endpoints: Table::new(options.endpoints),
            queues: Table::new(options.queues),
            registers: vec![0; options.registers as usize],
            program: vec![DartEntry::default(); options.program as usize],
            tlb: Tlb::new(options.tlb, options.policy),
            told: Told::default(),
            fifo: Fifo::default(),
            turns: VecDeque::new(),
            in_turn: HashSet::new(),
            stopped: BTreeSet::new(),
            resumptions: 0,
            busy: VecDeque::new(),
            turn_left: 0,
            stuck: BTreeSet::new(),
            waiters: Waiters::default(),
            look: None,
            here: None,
            options,
            counters: Counters::default(),
        }
    }

    fn count(&mut self, statistic: DartStatistic) {
        self.counters.add(statistic, 1);
    }

    /// Puts something that the driver must handle into the FIFO.
    fn tell(&mut self, ports: &Ports<'_>, what: u32) {
        // Only the driver is affected if the FIFO's memory is gone.
        let _ = self.fifo.put(ports.dma, what);
        self.interrupt(ports);
    }

    /// Interrupts if the FIFO holds something that was not yet reported to the driver.
    fn interrupt(&mut self, ports: &Ports<'_>) {
        if self.fifo.take_news() {
            self.count(DartStatistic::Interrupts);
            ports.interrupt.raise(DART_VECTOR_FIFO as u16);
        }
    }

    /// Breaks a connection, if it is not the operating system's: from now on it takes and sends
    /// nothing.
    fn break_off(&mut self, ports: &Ports<'_>, index: u32, why: u32) {
        let Some(Some(connection)) = self.connections.get_mut(index as usize) else { return };
        if connection.broken != 0 || connection.is_system {
            return;
        }
        // The connection breaks even if that cannot be reported to its owner's memory.
        let _ = connection.break_off(ports.dma, why);
        self.leave_queue(index);
        self.count(DartStatistic::Broken);
        self.drop_all(ports, index);
        self.tell(ports, DART_FIFO_LEFT | index);
    }

    /// Drops everything that a connection has to send.
    fn drop_all(&mut self, ports: &Ports<'_>, index: u32) {
        let Some(Some(connection)) = self.connections.get_mut(index as usize) else { return };
        match connection.drop_all() {
            0 => {}
            count => self.left(ports, index, count, Some(DART_DROPPED_BROKEN)),
        }
    }

    /// Continues with messages that waited for places in queues.
    fn go_on(&mut self, ports: &Ports<'_>) {
        let stuck = std::mem::take(&mut self.stuck);
        self.busy.retain(|index| !stuck.contains(index));
        self.busy.extend(stuck);
        self.run_busy(ports);
    }

    /// Sets the time of the next look at waiting messages, as long as there are any.
    fn set_look(&mut self, ports: &Ports<'_>) {
        match self.stuck.is_empty() {
            true => self.look = None,
            false => {
                self.look.get_or_insert_with(|| ports.clock.now() + SOON);
            }
        }
    }
}

impl Card for DartCard {
    fn identity(&self) -> Identity {
        let bar = |index, size, wide, widths| Bar { index, size, wide, kind: BarKind::Registers, widths };
        let pages = u64::from(self.options.connections) * u64::from(DART_PAGE_SIZE);
        Identity {
            protocol: PROTOCOL,
            largest_packet: packet::LARGEST,
            // Messages of a connection are executed in the order in which they were sent.
            ordered: true,
            vendor: HAMLYN_PCI_VENDOR,
            device: DART_PCI_DEVICE,
            class: HAMLYN_PCI_CLASS,
            bars: vec![
                bar(REGISTERS, HAMLYN_REGISTERS_SIZE.into(), false, Widths::DWORD | Widths::QWORD),
                bar(PAGES, pages.next_power_of_two(), true, Widths::DWORD | Widths::QWORD),
            ],
            vectors: DART_VECTOR_FIFO as u16 + 1,
            posted: Vec::new(),
            snooped: None,
        }
    }

    fn register_read(&mut self, _: &Ports<'_>, bar: u8, offset: u64, width: u8) -> Reading {
        Reading::Now(match bar {
            REGISTERS => self.read_register(offset as u32),
            PAGES => self.page_read(offset, width),
            _ => 0,
        })
    }

    fn register_write(&mut self, ports: &Ports<'_>, bar: u8, offset: u64, width: u8, value: u64) {
        self.turn_left = TURN;
        match bar {
            REGISTERS => self.write_register(ports, offset as u32, width, value),
            PAGES => self.page_write(ports, offset, width, value),
            _ => {}
        }
        self.set_look(ports);
    }

    fn transmit(&mut self, ports: &Ports<'_>, link: &mut dyn Link) -> Progress {
        self.turn_left = TURN;
        let progress = self.send_next(ports, link);
        self.set_look(ports);
        progress
    }

    fn packet_arrived(&mut self, ports: &Ports<'_>, packet: &Packet<'_>) {
        self.turn_left = TURN;
        self.take(ports, packet);
        self.set_look(ports);
    }

    fn sleep(&mut self, _: &Ports<'_>) -> bool {
        // All work comes with a store or a packet.
        true
    }

    fn alarm(&self) -> Option<Duration> {
        // Connections that had no turn left have another at once.
        let busy = (!self.busy.is_empty()).then_some(Duration::ZERO);
        [self.chassis.deadline(), self.look, busy].into_iter().flatten().min()
    }

    fn tick(&mut self, ports: &Ports<'_>) {
        let now = ports.clock.now();
        self.turn_left = TURN;
        self.run_busy(ports);
        if self.look.is_some_and(|look| look <= now) {
            self.look = None;
            self.go_on(ports);
        }
        if self.chassis.check_handshake(now) {
            self.count(DartStatistic::HandshakeLapses);
        }
        self.set_look(ports);
    }

    fn link_changed(&mut self, ports: &Ports<'_>, place: Option<Place>) {
        // Packets in flight on the earlier link are lost.
        for index in 0..self.options.connections {
            self.break_off(ports, index, DART_BROKEN_LINK);
            // The connections of operating systems stay, but their messages are dropped.
            self.drop_all(ports, index);
        }
        self.here = place;
        self.chassis.link_changed(ports, place);
    }

    fn reset(&mut self, _: &Ports<'_>) {
        let before = std::mem::replace(self, Self::new(self.options));
        (self.here, self.resumptions, self.chassis) = (before.here, before.resumptions, before.chassis);
        self.chassis.reset();
    }

    fn is_enabled(&self) -> bool {
        self.chassis.is_enabled()
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.counters.named(DartStatistic::NAMES)
    }
}
