//! The echo card, on the chassis of the family: the smallest complete card. `docs/new-card.md`
//! builds it step by step.
//!
//! | content | file |
//! |---|---|
//! | identity and verbs | here |
//! | registers, commands and doorbells | `driver` |
//! | a mailbox: outbox and inbox | `mailbox` |
//! | a message between two cards | `packet` |
//! | settings and construction | `model` |

mod driver;
mod mailbox;
mod model;
mod packet;

use std::time::Duration;

use hamlyn_abi::echo::identity::{ECHO_ABI_VERSION, ECHO_MODEL, ECHO_PCI_DEVICE};
use hamlyn_abi::echo::registers::ECHO_VECTOR;
use hamlyn_abi::echo::statistics::{ECHO_STATISTICS, EchoStatistic};
use hamlyn_abi::echo::window::{ECHO_CONTROL_SIZE, ECHO_DOORBELL_SIZE, ECHO_OUTBOX_SIZE};
use hamlyn_abi::family::identity::{ULN_PCI_CLASS, ULN_PCI_VENDOR};
use hamlyn_card::card::{Bar, Card, Identity, Place, Progress, Reading, Region, Widths};
use hamlyn_card::chassis::counters::Counters;
use hamlyn_card::chassis::table::Table;
use hamlyn_card::chassis::{Chassis, Constants};
use hamlyn_card::packet::PacketField;
use hamlyn_card::ports::{Link, Packet, Ports};

use self::mailbox::Mailbox;
pub use self::model::MODEL;

/// Protocol number of the card's packets on the fabric: the same as its model number.
const PROTOCOL: u8 = ECHO_MODEL as u8;
const REGISTERS: u8 = 0;
const OUTBOXES: u8 = 2;
const DOORBELLS: u8 = 4;

/// The card: a table of mailboxes.
#[derive(Debug)]
pub struct EchoCard {
    chassis: Chassis,
    mailboxes: Table<Mailbox>,
    /// The mailbox whose turn it is to send.
    turn: u32,
    counters: Counters<{ ECHO_STATISTICS as usize }>,
}

impl EchoCard {
    /// Creates a card at power-on, with `mailboxes` mailboxes.
    #[must_use]
    pub fn new(mailboxes: u32, handshake_ms: u32) -> Self {
        let constants = Constants {
            model: ECHO_MODEL,
            abi_version: ECHO_ABI_VERSION,
            vectors: ECHO_VECTOR + 1,
            handshake_ms,
        };
        Self {
            chassis: Chassis::new(constants).with_coherent_windows(true),
            mailboxes: Table::new(mailboxes),
            turn: 0,
            counters: Counters::default(),
        }
    }

    /// Returns the offset of the control page in the window: behind the outboxes.
    fn control(&self) -> u64 {
        self.mailboxes.len() as u64 * u64::from(ECHO_OUTBOX_SIZE)
    }

    fn window_bytes(&self) -> u64 {
        self.control() + u64::from(ECHO_CONTROL_SIZE)
    }
}

impl Card for EchoCard {
    fn identity(&self) -> Identity {
        let doorbells = self.mailboxes.len() as u64 * u64::from(ECHO_DOORBELL_SIZE);
        Identity {
            protocol: PROTOCOL,
            largest_packet: packet::LARGEST,
            // Each message is one packet, so parts of different messages cannot be confused.
            ordered: false,
            vendor: ULN_PCI_VENDOR,
            device: ECHO_PCI_DEVICE,
            class: ULN_PCI_CLASS,
            bars: vec![
                Bar::registers(REGISTERS),
                Bar::window(OUTBOXES, self.window_bytes()),
                Bar::trapped(DOORBELLS, doorbells, Widths::DWORD | Widths::QWORD),
            ],
            vectors: ECHO_VECTOR as u16 + 1,
            posted: Vec::new(),
            snooped: None,
        }
    }

    fn register_read(&mut self, _: &Ports<'_>, bar: u8, offset: u64, width: u8) -> Reading {
        let value = match bar {
            REGISTERS => self.read_register(offset as u32),
            // Lets a driver find out which card the doorbells belong to.
            DOORBELLS => self.chassis.scratch(),
            _ => 0,
        };
        Reading::Now(if width == 8 { value } else { value & u64::from(u32::MAX) })
    }

    fn register_write(&mut self, ports: &Ports<'_>, bar: u8, offset: u64, width: u8, value: u64) {
        match bar {
            REGISTERS => self.write_register(ports, offset as u32, width, value),
            DOORBELLS => self.ring(ports, (offset / u64::from(ECHO_DOORBELL_SIZE)) as u32),
            _ => {}
        }
    }

    fn transmit(&mut self, ports: &Ports<'_>, link: &mut dyn Link) -> Progress {
        self.send_next(ports, link)
    }

    fn packet_arrived(&mut self, ports: &Ports<'_>, packet: &Packet<'_>) {
        let delivered = if self.chassis.is_enabled() {
            self.deliver(ports, packet)
        } else {
            Err(EchoStatistic::Discarded)
        };
        self.counters.add(delivered.err().unwrap_or(EchoStatistic::Received), 1);
    }

    fn sleep(&mut self, _: &Ports<'_>) -> bool {
        // The card never polls for work: each message comes with a doorbell.
        true
    }

    fn alarm(&self) -> Option<Duration> {
        self.chassis.deadline()
    }

    fn tick(&mut self, ports: &Ports<'_>) {
        if self.chassis.check_handshake(ports.clock.now()) {
            self.counters.add(EchoStatistic::HandshakeLapses, 1);
        }
    }

    fn link_changed(&mut self, ports: &Ports<'_>, place: Option<Place>) {
        self.chassis.link_changed(ports, place);
    }

    fn reset(&mut self, ports: &Ports<'_>) {
        self.mailboxes.close_all();
        self.turn = 0;
        self.chassis.reset();
        self.counters = Counters::default();
        ports.window(OUTBOXES).clear(0, self.window_bytes());
    }

    fn counts(&self) -> &[u64] {
        self.counters.as_slice()
    }

    fn packet_fields(&self) -> &'static [PacketField] {
        packet::FIELDS
    }

    fn regions(&self) -> Vec<Region> {
        let count = self.mailboxes.len() as u64;
        let [outbox, control, doorbell] =
            [ECHO_OUTBOX_SIZE, ECHO_CONTROL_SIZE, ECHO_DOORBELL_SIZE].map(u64::from);
        vec![
            Region { bar: OUTBOXES, name: "ECHO_OUTBOX", start: 0, size: outbox, count },
            Region { bar: OUTBOXES, name: "ECHO_CONTROL", start: self.control(), size: control, count: 1 },
            Region { bar: DOORBELLS, name: "ECHO_DOORBELL", start: 0, size: doorbell, count },
        ]
    }

    fn is_enabled(&self) -> bool {
        self.chassis.is_enabled()
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.counters.named(EchoStatistic::NAMES)
    }
}
