//! The Hamlyn card.
//!
//! | paper | file |
//! |---|---|
//! | 2.2 slots, Table 1 | `slot`, `area`, `packet` |
//! | 2.3 send termini | `terminus`, `request`, `gather`, `segment`, `scheduler`, `share` |
//! | 2.4 metadata area, 2.5 packet counting, Table 2 | `metadata` |
//! | 2.6 notification, Table 3 | `notification`, `sleepers` |
//! | 2.7 special modes | `delivery`, `metadata` |
//! | 2.8 back-pressure, dead hosts | `aside`, `handshake`, `registers` |
//! | 5.1 remote fetch-and-op | `fetch` |
//! | 3.1 what only the operating system may do | `command`, `registers` |

mod area;
mod aside;
mod command;
mod delivery;
mod fetch;
mod gather;
mod handshake;
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
mod table;
mod terminus;

use std::collections::VecDeque;
use std::time::Duration;

use hamlyn_abi::card::{
    HAMLYN_PCI_CLASS, HAMLYN_PCI_DEVICE, HAMLYN_PCI_DOORBELL, HAMLYN_PCI_DOORBELL_CLASS, HAMLYN_PCI_VENDOR,
    HAMLYN_REG_SCRATCH,
};
use hamlyn_abi::hamlyn::registers::{HAMLYN_REGISTERS_SIZE, HAMLYN_VECTOR_LINK};
use hamlyn_abi::hamlyn::request::HAMLYN_MAX_METADATA;
use hamlyn_abi::hamlyn::window::HAMLYN_DOORBELL_SIZE;

use self::aside::Aside;
use self::fetch::Fetches;
use self::handshake::Handshake;
pub use self::model::MODEL;
use self::notification::Nqcb;
pub use self::options::{HamlynOptions, OptionsError};
use self::sleepers::Control;
use self::slot::Slot;
use self::statistics::Counters;
use self::table::Table;
use self::terminus::Terminus;
use crate::card::{Bar, BarKind, Card, Doorbells, Identity, Place, Progress};
use crate::ports::{Link, Packet, Ports};

/// What the fabric calls its packets.
const PROTOCOL: u8 = 1;
const REGISTERS: u8 = 0;
const WINDOWS: u8 = 2;
const DOORBELLS: u8 = 4;

/// The card: the tables in its SRAM and a few registers.
#[derive(Debug)]
pub struct HamlynCard {
    options: HamlynOptions,
    termini: Table<Terminus>,
    slots: Table<Slot>,
    queues: Table<Nqcb>,
    control: Control,
    /// Termini at which the card looks unasked, in the order of their turns.
    awake: VecDeque<u32>,
    /// Those of them that wait for a host which takes nothing.
    aside: Aside,
    /// Off at power-on: arriving packets are discarded (section 2.8).
    enabled: bool,
    handshake: Handshake,
    fetches: Fetches,
    place: Option<Place>,
    /// How often the link has changed.
    link_changes: u32,
    scratch: u32,
    command_page: u64,
    command_status: u32,
    counters: Counters,
}

/// What a card has in its SRAM.
struct Tables {
    termini: Table<Terminus>,
    slots: Table<Slot>,
    queues: Table<Nqcb>,
}

impl HamlynCard {
    /// A card at power-on.
    pub fn new(options: HamlynOptions) -> Result<Self, OptionsError> {
        let slots = Table::new(options.slots()?);
        let (termini, queues) = (Table::new(options.termini), Table::new(options.queues));
        Ok(Self::with_tables(options, Tables { termini, slots, queues }))
    }

    /// The same, with tables in which nothing is open.
    fn with_tables(options: HamlynOptions, tables: Tables) -> Self {
        Self {
            options,
            termini: tables.termini,
            slots: tables.slots,
            queues: tables.queues,
            control: Control::new(&options),
            awake: VecDeque::new(),
            aside: Aside::default(),
            enabled: false,
            handshake: Handshake::new(options.handshake_ms),
            fetches: Fetches::default(),
            place: None,
            link_changes: 0,
            scratch: 0,
            command_page: 0,
            command_status: 0,
            counters: Counters::default(),
        }
    }

    /// The largest packet that the card sends and takes, in bytes, without the fabric's header.
    #[must_use]
    pub fn largest_packet(packet_size: u32) -> usize {
        packet::HEADER_BYTES + HAMLYN_MAX_METADATA as usize + packet_size as usize
    }
}

impl Card for HamlynCard {
    fn identity(&self) -> Identity {
        let used = self.control.end();
        let doorbells = u64::from(self.options.termini) * u64::from(HAMLYN_DOORBELL_SIZE);
        Identity {
            protocol: PROTOCOL,
            largest_packet: Self::largest_packet(self.options.packet_size),
            vendor: HAMLYN_PCI_VENDOR,
            device: HAMLYN_PCI_DEVICE,
            class: HAMLYN_PCI_CLASS,
            bars: vec![
                Bar {
                    index: REGISTERS,
                    size: HAMLYN_REGISTERS_SIZE.into(),
                    wide: false,
                    kind: BarKind::Registers,
                },
                Bar {
                    index: WINDOWS,
                    size: used.next_power_of_two(),
                    wide: true,
                    kind: BarKind::Window { used },
                },
                Bar {
                    index: DOORBELLS,
                    size: doorbells.next_power_of_two(),
                    wide: true,
                    kind: BarKind::Registers,
                },
            ],
            vectors: self.options.vectors as u16,
            doorbells: Some(Doorbells {
                device: HAMLYN_PCI_DOORBELL,
                class: HAMLYN_PCI_DOORBELL_CLASS,
                bar: DOORBELLS,
            }),
        }
    }

    fn register_read(&mut self, _: &Ports<'_>, bar: u8, offset: u64, width: u8) -> u64 {
        let value = match bar {
            REGISTERS => self.read_register(offset as u32),
            DOORBELLS => self.read_register(HAMLYN_REG_SCRATCH),
            _ => 0,
        };
        if width == 8 { value } else { value & u64::from(u32::MAX) }
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
        [self.handshake.deadline(), self.fetches.deadline()].into_iter().flatten().min()
    }

    fn tick(&mut self, ports: &Ports<'_>) {
        self.check_handshake(ports);
        self.give_up(ports);
    }

    fn link_changed(&mut self, ports: &Ports<'_>, place: Option<Place>) {
        // If the link was up before as well, this is another link: packets on their way on the first are lost.
        if place.is_some() || self.place.is_some() {
            self.link_changes = self.link_changes.wrapping_add(1);
        }
        self.place = place;
        self.end_stops();
        ports.interrupt.raise(HAMLYN_VECTOR_LINK as u16);
    }

    fn reset(&mut self, ports: &Ports<'_>) {
        self.termini.close_all();
        self.slots.close_all();
        self.queues.close_all();
        // A guest needed a command for each object that it opened: a reset takes no longer than those did.
        let tables = Tables {
            termini: std::mem::replace(&mut self.termini, Table::new(0)),
            slots: std::mem::replace(&mut self.slots, Table::new(0)),
            queues: std::mem::replace(&mut self.queues, Table::new(0)),
        };
        let (place, link_changes) = (self.place, self.link_changes);
        *self = Self { place, link_changes, ..Self::with_tables(self.options, tables) };
        ports.window.clear(0, self.control.end());
    }

    fn is_enabled(&self) -> bool {
        self.enabled
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.counters.named()
    }
}
