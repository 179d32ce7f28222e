//! The Hamlyn card, on the chassis of the family (`hamlyn_card::chassis`).
//!
//! | paper | file |
//! |---|---|
//! | 2.2 slots, Table 1 | `slot`, `packet`, `admission`; the chassis' `area` |
//! | 2.3 send termini | `terminus`, `request`, `gather`, `segment`, `scheduler`, `share` |
//! | 2.4 metadata area, 2.5 packet counting, Table 2 | `metadata` |
//! | 2.6 notification, Table 3 | `notification`, `sleepers`; the chassis' `sleeper` |
//! | 2.7 special modes | `admission`, `delivery`, `metadata` |
//! | 2.8 back-pressure, dead hosts | `aside`, `registers`; the chassis' `handshake` |
//! | 5.1 remote fetch-and-op | `fetch`, `tickets`, `answers` |
//! | 3.1 what only the operating system may do | `command`, `registers`; the chassis' `command`, `table` |

mod admission;
mod answers;
mod aside;
mod command;
mod delivery;
mod fetch;
mod gather;
mod metadata;
mod model;
mod notification;
mod options;
mod packet;
mod registers;
mod request;
mod scheduler;
mod segment;
mod share;
mod sleepers;
mod slot;
mod statistics;
mod terminus;
mod tickets;

use std::collections::VecDeque;
use std::time::Duration;

use hamlyn_abi::family::identity::{
    HAMLYN_PCI_CLASS, HAMLYN_PCI_DOORBELL_CLASS, HAMLYN_PCI_VENDOR, HAMLYN_REGISTERS_SIZE,
};
use hamlyn_abi::hamlyn::identity::{
    HAMLYN_ABI_VERSION, HAMLYN_MODEL_HAMLYN, HAMLYN_PCI_DEVICE, HAMLYN_PCI_DOORBELL,
};
use hamlyn_abi::hamlyn::statistics::Statistic;
use hamlyn_abi::hamlyn::window::HAMLYN_DOORBELL_SIZE;
use hamlyn_card::card::{Bar, BarKind, Card, Identity, Place, Posted, Progress, Reading, Widths};
use hamlyn_card::chassis::table::Table;
use hamlyn_card::chassis::{Chassis, Plate};
use hamlyn_card::ports::{Link, Packet, Ports};

use self::answers::Answers;
use self::aside::Aside;
pub use self::model::MODEL;
use self::notification::Nqcb;
pub use self::options::{HamlynOptions, OptionsError};
use self::sleepers::Control;
use self::slot::Slot;
use self::statistics::Counters;
use self::terminus::Terminus;
use self::tickets::Tickets;

/// What its packets are to the fabric.
const PROTOCOL: u8 = 1;
const REGISTERS: u8 = 0;
const WINDOWS: u8 = 2;
const DOORBELLS: u8 = 4;

/// The card: the tables in its SRAM and a few registers.
#[derive(Debug)]
pub struct HamlynCard {
    options: HamlynOptions,
    chassis: Chassis,
    termini: Table<Terminus>,
    slots: Table<Slot>,
    queues: Table<Nqcb>,
    control: Control,
    /// Termini at which the card looks unasked, in the order of their turns.
    awake: VecDeque<u32>,
    /// Those of them that wait for a host which takes nothing.
    aside: Aside,
    /// Fetch-and-ops of this host.
    tickets: Tickets,
    /// What it owes to those of others.
    answers: Answers,
    counters: Counters,
}

impl HamlynCard {
    /// A card at power-on.
    pub fn new(options: HamlynOptions) -> Result<Self, OptionsError> {
        let slots = Table::new(options.slots()?);
        let (termini, queues) = (Table::new(options.termini), Table::new(options.queues));
        Ok(Self {
            options,
            chassis: Chassis::new(Plate {
                model: HAMLYN_MODEL_HAMLYN,
                abi_version: HAMLYN_ABI_VERSION,
                vectors: options.vectors,
                handshake_ms: options.handshake_ms,
            }),
            termini,
            slots,
            queues,
            control: Control::new(&options),
            awake: VecDeque::new(),
            aside: Aside::default(),
            tickets: Tickets::default(),
            answers: Answers::default(),
            counters: Counters::default(),
        })
    }

    fn bars(&self) -> Vec<Bar> {
        let used = self.control.end();
        let doorbells = u64::from(self.options.termini) * u64::from(HAMLYN_DOORBELL_SIZE);
        let bar = |index, size: u64, wide, kind| Bar {
            index,
            size: size.next_power_of_two(),
            wide,
            kind,
            widths: Widths::DWORD | Widths::QWORD,
        };
        vec![
            bar(REGISTERS, HAMLYN_REGISTERS_SIZE.into(), false, BarKind::Registers),
            bar(WINDOWS, used, true, BarKind::Window { used }),
            bar(DOORBELLS, doorbells, true, BarKind::Registers),
        ]
    }
}

impl Card for HamlynCard {
    fn identity(&self) -> Identity {
        Identity {
            protocol: PROTOCOL,
            largest_packet: self.options.largest_packet(),
            // Packets are counted, not numbered (section 2.5).
            ordered: false,
            vendor: HAMLYN_PCI_VENDOR,
            device: HAMLYN_PCI_DEVICE,
            class: HAMLYN_PCI_CLASS,
            bars: self.bars(),
            vectors: self.options.vectors as u16,
            posted: vec![Posted {
                device: HAMLYN_PCI_DOORBELL,
                class: HAMLYN_PCI_DOORBELL_CLASS,
                bar: DOORBELLS,
            }],
        }
    }

    fn register_read(&mut self, _: &Ports<'_>, bar: u8, offset: u64, width: u8) -> Reading {
        let value = match bar {
            REGISTERS => self.read_register(offset as u32),
            DOORBELLS => self.chassis.scratch(),
            _ => 0,
        };
        Reading::Now(if width == 8 { value } else { value & u64::from(u32::MAX) })
    }

    fn register_write(&mut self, ports: &Ports<'_>, bar: u8, offset: u64, width: u8, value: u64) {
        match bar {
            REGISTERS => self.write_register(ports, offset as u32, width, value),
            DOORBELLS => self.ring(ports, offset),
            _ => {}
        }
    }

    fn transmit(&mut self, ports: &Ports<'_>, link: &mut dyn Link) -> Progress {
        self.look_aside(link);
        self.send_answer(link).unwrap_or_else(|| self.take_turns(ports, link))
    }

    fn packet_arrived(&mut self, ports: &Ports<'_>, packet: &Packet<'_>) {
        self.deliver(ports, packet);
    }

    fn sleep(&mut self, ports: &Ports<'_>) -> bool {
        self.fall_asleep(ports)
    }

    fn alarm(&self) -> Option<Duration> {
        [self.chassis.deadline(), self.tickets.deadline()].into_iter().flatten().min()
    }

    fn tick(&mut self, ports: &Ports<'_>) {
        self.check_handshake(ports);
        self.give_up(ports);
    }

    fn link_changed(&mut self, ports: &Ports<'_>, place: Option<Place>) {
        self.end_stops();
        self.chassis.link_changed(ports, place);
    }

    fn reset(&mut self, ports: &Ports<'_>) {
        // A guest needed a command for each object that it opened: a reset takes no longer than those did.
        self.termini.close_all();
        self.slots.close_all();
        self.queues.close_all();
        self.chassis.reset();
        self.awake.clear();
        self.aside = Aside::default();
        self.tickets = Tickets::default();
        self.answers = Answers::default();
        self.counters = Counters::default();
        ports.window(WINDOWS).clear(0, self.control.end());
    }

    fn is_enabled(&self) -> bool {
        self.chassis.is_enabled()
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.counters.named(Statistic::ALL.map(Statistic::name))
    }
}
