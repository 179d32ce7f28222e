//! The Hamlyn card, on the chassis of the family (`hamlyn_card::chassis`).
//!
//! The card has two halves, each in a folder with its own verbs and private fields. `sending` takes
//! requests and makes packets of them. `receiving` checks packets and deposits them. Neither half
//! depends on the other: they meet only in `arrival`. The card itself owns what both need: the
//! chassis, the counters and the words about sleepers.
//!
//! | paper | file |
//! |---|---|
//! | 2.2 slots, Table 1 | `receiving/slot`, `receiving/admission`, `packet`; the chassis' `area` |
//! | 2.3 send termini | `sending/`: `terminus`, `request`, `gather`, `segment` |
//! | 2.3 scheduling of termini | `sending/`: `scheduler`, `allowance` |
//! | 2.4 metadata area, 2.5 packet counting, Table 2 | `receiving/metadata` |
//! | 2.6 notification, Table 3 | `receiving/notification`, `sleepers`; the chassis' `sleeper` |
//! | 2.7 special modes | `receiving/`: `admission`, `delivery`, `metadata` |
//! | 2.8 back-pressure, dead hosts | `sending/parked`, `registers`; the chassis' `handshake` |
//! | 5.1 remote fetch-and-op | `arrival`, `receiving/fetch`, `sending/tickets`, `sending/answers` |
//! | 2.6, 6.6 the interface card's SRAM | `sram` |
//! | 3.1 commands of the operating system | `command`, here and in each half |
//! | 3.1 registers of the operating system | `registers`; the chassis' `command`, `table` |

mod arrival;
mod command;
mod model;
mod options;
mod packet;
mod receiving;
mod registers;
mod sending;
mod sleepers;
mod sram;
mod statistics;

use std::time::Duration;

use hamlyn_abi::family::identity::{ULN_PCI_CLASS, ULN_PCI_DOORBELL_CLASS, ULN_PCI_VENDOR};
use hamlyn_abi::hamlyn::identity::{
    HAMLYN_ABI_VERSION, HAMLYN_MODEL, HAMLYN_PCI_DEVICE, HAMLYN_PCI_DOORBELL,
};
use hamlyn_abi::hamlyn::statistics::Statistic;
use hamlyn_abi::hamlyn::window::{HAMLYN_DOORBELL_SIZE, HAMLYN_WINDOW_SIZE};
use hamlyn_card::card::{Bar, Card, Identity, Place, Posted, Progress, Reading, Region, Widths};
use hamlyn_card::chassis::{Chassis, Constants};
use hamlyn_card::packet::PacketField;
use hamlyn_card::ports::{Link, Packet, Ports};

pub use self::model::MODEL;
pub use self::options::{HamlynOptions, OptionsError};
use self::receiving::Receiving;
use self::sending::Sending;
use self::sleepers::Control;
use self::sram::Sram;
use self::statistics::Counters;

/// Protocol number of the card's packets on the fabric.
const PROTOCOL: u8 = 1;
const REGISTERS: u8 = 0;
const WINDOWS: u8 = 2;
const DOORBELLS: u8 = 4;

/// The card: a chassis, two halves, the SRAM that holds their objects, and what both halves need.
#[derive(Debug)]
pub struct HamlynCard {
    options: HamlynOptions,
    chassis: Chassis,
    sram: Sram,
    sending: Sending,
    receiving: Receiving,
    control: Control,
    counters: Counters,
}

impl HamlynCard {
    /// Creates a card at power-on. Fails if an option is out of range.
    pub fn new(options: HamlynOptions) -> Result<Self, OptionsError> {
        let slots = options.slots()?;
        Ok(Self {
            options,
            chassis: Chassis::new(Constants {
                model: HAMLYN_MODEL,
                abi_version: HAMLYN_ABI_VERSION,
                vectors: options.vectors,
                handshake_ms: options.handshake_ms,
            })
            .with_coherent_windows(options.coherent_windows),
            sram: Sram::new(options.sram_size, options.directory(slots)),
            sending: Sending::new(&options),
            receiving: Receiving::new(slots, options.queues),
            control: Control::new(&options),
            counters: Counters::default(),
        })
    }

    fn bars(&self) -> Vec<Bar> {
        let doorbells = u64::from(self.options.termini) * u64::from(HAMLYN_DOORBELL_SIZE);
        vec![
            Bar::registers(REGISTERS),
            Bar::window(WINDOWS, self.control.end()),
            Bar::trapped(DOORBELLS, doorbells, Widths::DWORD | Widths::QWORD),
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
            vendor: ULN_PCI_VENDOR,
            device: HAMLYN_PCI_DEVICE,
            class: ULN_PCI_CLASS,
            bars: self.bars(),
            vectors: self.options.vectors as u16,
            posted: vec![Posted {
                device: HAMLYN_PCI_DOORBELL,
                class: ULN_PCI_DOORBELL_CLASS,
                bar: DOORBELLS,
            }],
            snooped: None,
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
        self.sending.transmit(ports, link, &mut self.counters)
    }

    fn packet_arrived(&mut self, ports: &Ports<'_>, packet: &Packet<'_>) {
        self.arrive(ports, packet);
    }

    fn sleep(&mut self, ports: &Ports<'_>) -> bool {
        self.sending.fall_asleep(ports)
    }

    fn alarm(&self) -> Option<Duration> {
        [self.chassis.deadline(), self.sending.deadline()].into_iter().flatten().min()
    }

    fn tick(&mut self, ports: &Ports<'_>) {
        self.check_handshake(ports);
        self.sending.give_up(ports, &mut self.counters);
    }

    fn link_changed(&mut self, ports: &Ports<'_>, place: Option<Place>) {
        self.sending.end_stops();
        self.chassis.link_changed(ports, place);
    }

    fn reset(&mut self, ports: &Ports<'_>) {
        // A reset takes no longer than the commands that opened the objects: a guest needed one
        // command for each object.
        self.sending.reset();
        self.receiving.reset();
        self.sram.reset();
        self.chassis.reset();
        self.counters = Counters::default();
        ports.window(WINDOWS).clear(0, self.control.end());
    }

    fn counts(&self) -> &[u64] {
        self.counters.as_slice()
    }

    fn packet_fields(&self) -> &'static [PacketField] {
        packet::FIELDS
    }

    fn regions(&self) -> Vec<Region> {
        let termini = self.options.termini.into();
        let [window, doorbell] = [HAMLYN_WINDOW_SIZE, HAMLYN_DOORBELL_SIZE].map(u64::from);
        let windows = Region { bar: WINDOWS, name: "HAMLYN_WINDOW", start: 0, size: window, count: termini };
        let doorbells =
            Region { bar: DOORBELLS, name: "HAMLYN_DOORBELL", start: 0, size: doorbell, count: termini };
        [windows, doorbells].into_iter().chain(self.control.regions()).collect()
    }

    fn is_enabled(&self) -> bool {
        self.chassis.is_enabled()
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.counters.named(Statistic::NAMES)
    }
}
