//! Stores of the host's processors to mapped-out pages (sections 4 and 4.1).

use hamlyn_abi::shrimp::entry::{SHRIMP_MODE_BLOCKED, SHRIMP_MODE_SINGLE};
use hamlyn_abi::shrimp::statistics::ShrimpStatistic;
use hamlyn_card::ports::{Ports, VolatileSlice};

use super::ShrimpCard;
use super::nipt::Part;
use super::outgoing::Put;

impl ShrimpCard {
    /// Sends the bytes of a store, as far as they are mapped out for automatic update. A store may
    /// cross from one part of a page to the other, and from one page to the next.
    pub(super) fn propagate(&mut self, ports: &Ports<'_>, mut address: u64, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let here = self.run_of(address, bytes.len());
            let (now, later) = bytes.split_at(here);
            if let Some(part) = self.nipt.part_out(address) {
                self.send(ports, &part, now);
            }
            (address, bytes) = (address + here as u64, later);
        }
        self.tell_if_full(ports);
    }

    /// Returns how many of the bytes from `address` on are in one part of one page.
    fn run_of(&self, address: u64, length: usize) -> usize {
        let split = self.nipt.part_end(address);
        length.min((split - address % super::PAGE) as usize)
    }

    fn send(&mut self, ports: &Ports<'_>, part: &Part, bytes: &[u8]) {
        let Some(places) = self.places(part.target.node) else { return };
        if self.outgoing.is_cut_off(part.target.node) {
            return self.count(ShrimpStatistic::PacketsCutOff);
        }
        match part.mode {
            SHRIMP_MODE_SINGLE => self.outgoing.put(part.target, places, bytes),
            SHRIMP_MODE_BLOCKED => {
                let time = (ports.clock.now(), self.merge_time);
                if self.outgoing.merge(part.target, places, bytes, time) == Put::Merged {
                    self.count(ShrimpStatistic::StoresMerged);
                }
            }
            _ => {}
        }
    }

    /// Handles a store to a window page: stores to the page itself, and then as if the store had
    /// been seen there.
    pub(super) fn store(&mut self, ports: &Ports<'_>, address: u64, width: u8, value: u64) {
        let mut bytes = value.to_le_bytes();
        let bytes = &mut bytes[..width.into()];
        let is_mapped = self.nipt.is_mapped_out(address, width.into());
        // A store here never makes a processor wait. A store that the FIFO cannot hold is not
        // carried out.
        let fits = self.outgoing.fits(width.into()) || !self.nipt.is_automatic(address);
        if !is_mapped || !fits || ports.dma.write(address, VolatileSlice::from(&mut *bytes)).is_err() {
            self.count(ShrimpStatistic::StoresRefused);
            return;
        }
        self.count(ShrimpStatistic::StoresToWindow);
        self.propagate(ports, address, bytes);
    }

    /// Handles a load from a window page: reads the page itself. A page that is not mapped out
    /// reads as zero.
    pub(super) fn load(&self, ports: &Ports<'_>, address: u64, width: u8) -> u64 {
        let mut bytes = [0; 8];
        if self.nipt.is_mapped_out(address, width.into()) {
            // A place that host memory does not have reads as zero as well.
            let _ = ports.dma.read(address, VolatileSlice::from(&mut bytes[..width.into()]));
        }
        u64::from_le_bytes(bytes)
    }
}
