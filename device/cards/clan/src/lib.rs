//! The CLAN card: under construction.
#![allow(dead_code, unused)]
mod model;
mod packet;

use std::time::Duration;

use hamlyn_abi::clan::endpoint::CLAN_ENDPOINT_SIZE;
use hamlyn_abi::clan::identity::{CLAN_ABI_VERSION, CLAN_MODEL, CLAN_PCI_DEVICE};
use hamlyn_abi::clan::registers::CLAN_VECTOR_FIFO;
use hamlyn_abi::family::identity::{HAMLYN_PCI_CLASS, HAMLYN_PCI_VENDOR, HAMLYN_REGISTERS_SIZE};
use hamlyn_card::card::{Bar, BarKind, Card, Identity, Place, Progress, Reading, Widths};
use hamlyn_card::chassis::{Chassis, Plate};
use hamlyn_card::ports::{Link, Packet, Ports};

pub use self::model::{MODEL, Options};
pub use self::packet::{OVERHEAD as PACKET_OVERHEAD, cut, join};

/// The card.
#[derive(Debug)]
pub struct ClanCard {
    chassis: Chassis,
    options: Options,
}

impl ClanCard {
    /// A card at power-on.
    #[must_use]
    pub fn new(options: Options) -> Self {
        let plate = Plate {
            model: CLAN_MODEL,
            abi_version: CLAN_ABI_VERSION,
            vectors: CLAN_VECTOR_FIFO + 1,
            handshake_ms: options.handshake_ms,
        };
        Self { chassis: Chassis::new(plate), options }
    }
}

impl Card for ClanCard {
    fn identity(&self) -> Identity {
        let bar = |index, size, wide, widths| Bar { index, size, wide, kind: BarKind::Registers, widths };
        let pages = u64::from(self.options.endpoints) + u64::from(self.options.window_pages);
        Identity {
            protocol: CLAN_MODEL as u8,
            largest_packet: packet::OVERHEAD + self.options.burst as usize,
            ordered: true,
            vendor: HAMLYN_PCI_VENDOR,
            device: CLAN_PCI_DEVICE,
            class: HAMLYN_PCI_CLASS,
            bars: vec![
                bar(0, HAMLYN_REGISTERS_SIZE.into(), false, Widths::DWORD | Widths::QWORD),
                bar(2, (pages * u64::from(CLAN_ENDPOINT_SIZE)).next_power_of_two(), true, Widths::all()),
            ],
            vectors: CLAN_VECTOR_FIFO as u16 + 1,
            posted: Vec::new(),
            snooped: None,
        }
    }
    fn register_read(&mut self, _: &Ports<'_>, _: u8, offset: u64, _: u8) -> Reading {
        Reading::Now(self.chassis.read(offset as u32).unwrap_or(0))
    }
    fn register_write(&mut self, _: &Ports<'_>, _: u8, _: u64, _: u8, _: u64) {}
    fn transmit(&mut self, _: &Ports<'_>, _: &mut dyn Link) -> Progress {
        Progress::Idle
    }
    fn packet_arrived(&mut self, _: &Ports<'_>, _: &Packet<'_>) {}
    fn sleep(&mut self, _: &Ports<'_>) -> bool {
        true
    }
    fn alarm(&self) -> Option<Duration> {
        None
    }
    fn tick(&mut self, _: &Ports<'_>) {}
    fn link_changed(&mut self, ports: &Ports<'_>, place: Option<Place>) {
        self.chassis.link_changed(ports, place);
    }
    fn reset(&mut self, _: &Ports<'_>) {
        self.chassis.reset();
    }
    fn is_enabled(&self) -> bool {
        self.chassis.is_enabled()
    }
    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}
