//! Packets of hostile hosts, which bypass their cards.

use crate::engine::rng::Rng;

use super::account::{Account, Shared};
use super::credits::Credits;
use super::packet::{
    ASKS, BEGINS, CREDIT, DATA, FROM_SYSTEM, GROUPS, HEAD, Letter, PROBE, READ, REFUSED, WRITE,
};

/// The kinds of forged packets; writes and reads are more frequent.
const KINDS: [u8; 10] = [WRITE, WRITE, WRITE, READ, READ, DATA, REFUSED, CREDIT, PROBE, GROUPS];

/// Makes up packets of a host for a victim.
#[derive(Debug)]
pub(super) struct Forgery<'a> {
    pub(super) host: u16,
    pub(super) victim: &'a Account,
    pub(super) shared: &'a Shared,
    pub(super) credits: &'a Credits,
    /// The longest packet that a link takes.
    pub(super) max_packet: usize,
}

impl Forgery<'_> {
    /// Returns a hostile host's packet: noise, or valid except for one defect, or fully valid.
    /// Other hosts send only noise.
    pub(super) fn packet(&self, rng: &mut Rng) -> Vec<u8> {
        let mut letter = self.some_letter(rng);
        if rng.percent(60) {
            self.credits.lie(rng, self.host, self.victim.id, &mut letter);
        }
        letter.data.truncate(self.max_packet - HEAD);
        if !self.shared.standing.is_hostile(self.host) {
            // Between two hosts that are not hostile, an invalid packet must change nothing. Its
            // epoch does not exist, as it takes no credits.
            letter.epoch |= 0xc000;
            let length = rng.index(self.max_packet + 1);
            let mut bytes = rng.bytes(length);
            if rng.percent(50) {
                bytes = letter.write();
                let bit = rng.index(bytes.len() * 8);
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
            return bytes;
        }
        match rng.below(12) {
            0 => letter.key ^= 1 << rng.below(64),
            1 => letter.aperture = rng.next() as u32 >> rng.below(32),
            2 => letter.offset = rng.next() >> rng.below(64),
            3 => letter.kind = rng.next() as u8,
            4 => letter.flags = rng.next() as u8,
            5 => letter.tag = rng.next() as u32,
            6 => letter.epoch = rng.next() as u16,
            7 => letter.data.truncate(rng.index(letter.data.len() + 1)),
            8 => letter.flags ^= FROM_SYSTEM,
            _ => {}
        }
        letter.write()
    }

    fn some_letter(&self, rng: &mut Rng) -> Letter {
        let apertures = self.victim.ledger.apertures().iter();
        let all: Vec<(u32, u64, u64)> =
            apertures.map(|(number, one)| (*number, one.key, one.area.length)).collect();
        let (aperture, key, most) = rng.pick(&all).unwrap_or((0, 0, 64));
        let offset = rng.below(most);
        let length = 1 + rng.below((most - offset).min(100));
        let kind = rng.pick(&KINDS).unwrap_or(WRITE);
        let data = match kind {
            WRITE | DATA => rng.bytes(length as usize),
            READ => (length as u32).to_le_bytes().to_vec(),
            REFUSED => [1, 0, 0, 0, rng.below(2) as u8, 0, 0, 0].to_vec(),
            _ => Vec::new(),
        };
        let any = rng.next() >> rng.below(64);
        let (offset, flags) = match kind {
            CREDIT | PROBE => (any, 0),
            GROUPS => (any, rng.pick(&[0, ASKS, BEGINS, ASKS | BEGINS]).unwrap_or(0)),
            _ => (offset, 0),
        };
        let epoch = rng.below(4) as u16;
        let tag = self.some_tag(rng, kind);
        Letter { kind, flags, epoch, tag, key, aperture, offset, data }
    }

    /// Returns a tag that a victim may take for an answer to a read that has left, or for a fault
    /// of an endpoint. Otherwise it is a number that no read has. Only the card knows the tag of a
    /// read that waits to leave.
    fn some_tag(&self, rng: &mut Rng, kind: u8) -> u32 {
        let all: Vec<u32> = match kind {
            DATA | REFUSED if rng.percent(60) => self.shared.readings.tags((self.victim.id, self.host)),
            REFUSED => self.victim.ledger.endpoints().values().map(|endpoint| endpoint.tag).collect(),
            _ => Vec::new(),
        };
        rng.pick(&all).unwrap_or(0x8000_0000 | rng.below(9) as u32)
    }
}
