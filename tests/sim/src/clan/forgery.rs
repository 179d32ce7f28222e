//! Packets of hostile hosts, which bypass their cards.

use hamlyn_fabric::{Header, HostId, Protocol};

use crate::engine::violation::Violation;
use crate::engine::world::World;

use super::model::Clan;
use super::packet::{ASKS, CREDIT, DATA, FROM_SYSTEM, GROUPS, Letter, PROBE, READ, REFUSED, WRITE};

/// The kinds of forged packets; writes and reads are more frequent.
const KINDS: [u8; 10] = [WRITE, WRITE, WRITE, READ, READ, DATA, REFUSED, CREDIT, PROBE, GROUPS];

impl World<Clan> {
    /// Sends a hostile host's packet: noise, or valid except for one defect, or fully valid. Links
    /// of other hosts get only noise.
    pub(super) fn forge(&mut self, host: usize) -> Result<(), Violation> {
        let victim = self.rng.index(self.hosts.len());
        let mut letter = self.some_letter(host, victim);
        if self.rng.percent(60) {
            self.lie(host as u16, victim as u16, &mut letter);
        }
        letter.data.truncate(self.max_packet - super::packet::HEAD);
        if !self.model.is_hostile[host] {
            // Between two hosts that are not hostile, an invalid packet must change nothing. Its
            // epoch does not exist, as it takes no credits.
            letter.epoch |= 0xc000;
            let length = self.rng.index(self.max_packet + 1);
            let mut bytes = self.rng.bytes(length);
            if self.rng.percent(50) {
                bytes = letter.write();
                let bit = self.rng.index(bytes.len() * 8);
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
            return self.inject(host, victim, &bytes);
        }
        match self.rng.below(12) {
            0 => letter.key ^= 1 << self.rng.below(64),
            1 => letter.aperture = self.rng.next() as u32 >> self.rng.below(32),
            2 => letter.offset = self.rng.next() >> self.rng.below(64),
            3 => letter.kind = self.rng.next() as u8,
            4 => letter.flags = self.rng.next() as u8,
            5 => letter.tag = self.rng.next() as u32,
            6 => letter.epoch = self.rng.next() as u16,
            7 => letter.data.truncate(self.rng.index(letter.data.len() + 1)),
            8 => letter.flags ^= FROM_SYSTEM,
            _ => {}
        }
        self.inject(host, victim, &letter.write())
    }

    fn inject(&mut self, host: usize, victim: usize, bytes: &[u8]) -> Result<(), Violation> {
        let protocol = self.hosts[host].machine.with_card(|card, _| card.identity().protocol)?;
        let protocol = Protocol::parse(protocol).map_err(Violation::new)?;
        let to = HostId(victim as u16);
        // The switch overwrites the source.
        let header = Header { destination: to, source: to, protocol };
        if self.hosts[host].uplink.inject(header.to_bytes(), bytes)? {
            let excused = !self.hosts[victim].uplink.is_up();
            let flight = self.model.flying.entry((host as u16, victim as u16)).or_default();
            match Letter::read(bytes) {
                Some((letter, true)) => {
                    letter.atoms().iter().for_each(|atom| flight.sent(atom.write(), excused));
                }
                _ => flight.sent(bytes.to_vec(), excused),
            }
            self.model.forged += 1;
        }
        Ok(())
    }

    fn some_letter(&mut self, host: usize, victim: usize) -> Letter {
        let apertures = self.model.ledgers[victim].apertures.iter();
        let all: Vec<(u32, u64, u64)> =
            apertures.map(|(number, one)| (*number, one.key, one.area.length)).collect();
        let (aperture, key, most) = self.rng.pick(&all).unwrap_or((0, 0, 64));
        let offset = self.rng.below(most);
        let length = 1 + self.rng.below((most - offset).min(100));
        let kind = self.rng.pick(&KINDS).unwrap_or(WRITE);
        let data = match kind {
            WRITE | DATA => self.rng.bytes(length as usize),
            READ => (length as u32).to_le_bytes().to_vec(),
            REFUSED => [1, 0, 0, 0, self.rng.below(2) as u8, 0, 0, 0].to_vec(),
            _ => Vec::new(),
        };
        let any = self.rng.next() >> self.rng.below(64);
        let (offset, flags) = match kind {
            CREDIT | PROBE => (any, 0),
            GROUPS => (any, if self.rng.percent(50) { ASKS } else { 0 }),
            _ => (offset, 0),
        };
        let epoch = self.rng.below(4) as u16;
        let tag = self.some_tag(host, victim, kind);
        Letter { kind, flags, epoch, tag, key, aperture, offset, data }
    }

    /// Returns a tag that a victim may take for an answer to a read that has left, or for a fault
    /// of an endpoint. Otherwise it is a number that no read has. Only the card knows the tag of a
    /// read that waits to leave.
    fn some_tag(&mut self, host: usize, victim: usize, kind: u8) -> u32 {
        let asked = self
            .model
            .readings
            .iter()
            .filter(|one| (usize::from(one.asker), usize::from(one.server)) == (victim, host));
        let all: Vec<u32> = match kind {
            DATA | REFUSED if self.rng.percent(60) => asked.map(|one| one.tag).collect(),
            REFUSED => self.model.ledgers[victim].endpoints.values().map(|endpoint| endpoint.tag).collect(),
            _ => Vec::new(),
        };
        self.rng.pick(&all).unwrap_or(0x8000_0000 | self.rng.below(9) as u32)
    }
}
