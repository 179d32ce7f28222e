//! Packets of hostile hosts, which bypass their cards.

use hamlyn_abi::shrimp::entry::SHRIMP_SYSTEM_PAGE;

use crate::engine::memory::PAGE;
use crate::engine::rng::Rng;

use super::mapping::{PAGES, Taste, some_offset};
use super::packet::{Letter, place, seal};

/// Makes up packets from a host to a victim.
#[derive(Debug)]
pub(super) struct Forgery {
    to: [u8; 2],
    from: [u8; 2],
    taste: Taste,
    /// The longest packet that a link takes.
    max_packet: usize,
}

impl Forgery {
    pub(super) fn new((host, victim): (u16, u16), columns: u16, taste: Taste, max_packet: usize) -> Self {
        let [to, from] = [victim, host].map(|host| place(host, columns).unwrap_or_default());
        Self { to, from, taste, max_packet }
    }

    /// Returns a packet that stores a byte to a page.
    pub(super) fn byte(&self, rng: &mut Rng, page: u32) -> Vec<u8> {
        let data = rng.bytes(1);
        Letter::new(self.to, self.from, u64::from(page) * PAGE + some_offset(rng), &data).write()
    }

    /// Returns a packet: noise, or valid except for one defect, or fully valid.
    pub(super) fn packet(&self, rng: &mut Rng) -> Vec<u8> {
        let page = match rng.below(10) {
            0 => SHRIMP_SYSTEM_PAGE,
            1 => rng.range(0, PAGES + 5).into(),
            2 => rng.next() >> rng.below(64) >> 12,
            _ => self.taste.page(rng).into(),
        };
        let (address, length) = (page * PAGE + some_offset(rng), some_length(rng));
        let length = length.min(PAGE - address % PAGE);
        let data = rng.bytes(length as usize);
        let mut letter = Letter::new(self.to, self.from, address, &data);
        match rng.below(8) {
            0 => {
                let length = rng.index(self.max_packet + 1);
                return rng.bytes(length);
            }
            1 => letter.to[rng.index(2)] ^= 1 << rng.below(8),
            2 => letter.from[rng.index(2)] ^= 1 << rng.below(8),
            3 => letter.length = rng.next() as u32 >> rng.below(32),
            4 => letter.address |= PAGE - 1 - rng.below(16),
            _ => {}
        }
        let mut bytes = letter.write();
        match rng.below(8) {
            0 => {
                let bit = rng.index(bytes.len() * 8);
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
            1 => bytes.truncate(rng.index(bytes.len())),
            2 => {
                // Truncated, with a new valid checksum.
                bytes.truncate(rng.index(bytes.len() - 4).max(1));
                bytes = seal(bytes);
            }
            _ => {}
        }
        bytes
    }
}

fn some_length(rng: &mut Rng) -> u64 {
    match rng.below(4) {
        0 => PAGE,
        1 => rng.range(1, 4096).into(),
        _ => rng.range(1, 16).into(),
    }
}
