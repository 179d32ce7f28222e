//! Packets of hostile hosts, which bypass their cards.

use hamlyn_abi::shrimp::entry::SHRIMP_SYSTEM_PAGE;
use hamlyn_fabric::{Header, HostId, Protocol};

use crate::engine::memory::PAGE;
use crate::engine::violation::Violation;
use crate::engine::world::World;

use super::mapping::PAGES;
use super::model::Shrimp;
use super::packet::{Letter, place, seal};

impl World<Shrimp> {
    /// Sends a hostile host's packet: noise, or valid except for one defect, or fully valid.
    pub(super) fn forge(&mut self, host: usize) -> Result<(), Violation> {
        let victim = self.rng.index(self.hosts.len());
        let bytes = self.some_packet(host as u16, victim as u16);
        self.inject(host, victim, bytes)
    }

    /// Stores a byte to each page of another host, to cause many reports.
    pub(super) fn sprinkle(&mut self, host: usize) -> Result<(), Violation> {
        let victim = self.rng.index(self.hosts.len());
        let (to, from) = self.places(host as u16, victim as u16);
        for page in 1..=self.model.taste.pages {
            let data = self.rng.bytes(1);
            let letter = Letter::new(to, from, u64::from(page) * PAGE + self.some_offset(), &data);
            self.inject(host, victim, letter.write())?;
        }
        Ok(())
    }

    fn places(&self, host: u16, victim: u16) -> ([u8; 2], [u8; 2]) {
        let columns = self.model.columns;
        (place(victim, columns).unwrap_or_default(), place(host, columns).unwrap_or_default())
    }

    fn inject(&mut self, host: usize, victim: usize, bytes: Vec<u8>) -> Result<(), Violation> {
        let protocol = self.hosts[host].machine.with_card(|card, _| card.identity().protocol)?;
        let protocol = Protocol::parse(protocol).map_err(Violation::new)?;
        let to = HostId(victim as u16);
        // The switch overwrites the source.
        let header = Header { destination: to, source: to, protocol };
        if self.hosts[host].uplink.inject(header.to_bytes(), &bytes)? {
            let excused = !self.hosts[victim].uplink.is_up();
            self.model.flying.entry((host as u16, victim as u16)).or_default().sent(bytes, excused);
            self.model.forged += 1;
        }
        Ok(())
    }

    fn some_packet(&mut self, host: u16, victim: u16) -> Vec<u8> {
        let (to, from) = self.places(host, victim);
        let page = match self.rng.below(10) {
            0 => SHRIMP_SYSTEM_PAGE,
            1 => self.rng.range(0, PAGES + 5).into(),
            2 => self.rng.next() >> self.rng.below(64) >> 12,
            _ => self.some_page().into(),
        };
        let (address, length) = (page * PAGE + self.some_offset(), self.some_length());
        let length = length.min(PAGE - address % PAGE);
        let data = self.rng.bytes(length as usize);
        let mut letter = Letter::new(to, from, address, &data);
        match self.rng.below(8) {
            0 => {
                let length = self.rng.index(self.max_packet + 1);
                return self.rng.bytes(length);
            }
            1 => letter.to[self.rng.index(2)] ^= 1 << self.rng.below(8),
            2 => letter.from[self.rng.index(2)] ^= 1 << self.rng.below(8),
            3 => letter.length = self.rng.next() as u32 >> self.rng.below(32),
            4 => letter.address |= PAGE - 1 - self.rng.below(16),
            _ => {}
        }
        let mut bytes = letter.write();
        match self.rng.below(8) {
            0 => {
                let bit = self.rng.index(bytes.len() * 8);
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
            1 => bytes.truncate(self.rng.index(bytes.len())),
            2 => {
                // Truncated, with a new valid checksum.
                bytes.truncate(self.rng.index(bytes.len() - 4).max(1));
                bytes = seal(bytes);
            }
            _ => {}
        }
        bytes
    }

    fn some_length(&mut self) -> u64 {
        match self.rng.below(4) {
            0 => PAGE,
            1 => self.rng.range(1, 4096).into(),
            _ => self.rng.range(1, 16).into(),
        }
    }
}
