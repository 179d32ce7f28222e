//! The packet format, according to the card's page in the documents.

use crate::engine::memory::PAGE;

/// Bytes before the data and after it.
const HEAD: usize = 16;
const TAIL: usize = 4;
/// Bytes in addition to the data.
pub(super) const OVERHEAD: u64 = (HEAD + TAIL) as u64;
/// The longest packet.
pub(super) const LARGEST: usize = HEAD + TAIL + PAGE as usize;

/// Contents of a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Letter {
    pub(super) to: [u8; 2],
    pub(super) from: [u8; 2],
    pub(super) length: u32,
    pub(super) address: u64,
    pub(super) data: Vec<u8>,
}

/// Returns column and row of a host, if a mesh can have that many.
pub(super) fn place(host: u16, columns: u16) -> Option<[u8; 2]> {
    Some([u8::try_from(host % columns).ok()?, u8::try_from(host / columns).ok()?])
}

fn word(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// Appends the checksum to a packet.
pub(super) fn seal(mut bytes: Vec<u8>) -> Vec<u8> {
    let crc = crc32fast::hash(&bytes);
    bytes.extend(crc.to_le_bytes());
    bytes
}

impl Letter {
    /// Creates a packet of these bytes, as a card does.
    pub(super) fn new(to: [u8; 2], from: [u8; 2], address: u64, data: &[u8]) -> Self {
        Self { to, from, length: data.len() as u32, address, data: data.to_vec() }
    }

    /// Reads a packet. Also returns whether the checksum is valid. `None` if it is too short or too
    /// long for a packet.
    pub(super) fn read(bytes: &[u8]) -> Option<(Self, bool)> {
        if bytes.len() <= HEAD + TAIL || bytes.len() > LARGEST {
            return None;
        }
        let (body, crc) = bytes.split_at(bytes.len() - TAIL);
        let letter = Self {
            to: [body[0], body[1]],
            from: [body[2], body[3]],
            length: word(&body[4..8]) as u32,
            address: word(&body[8..HEAD]),
            data: body[HEAD..].to_vec(),
        };
        Some((letter, u64::from(crc32fast::hash(body)) == word(crc)))
    }

    pub(super) fn write(&self) -> Vec<u8> {
        let (length, address) = (self.length.to_le_bytes(), self.address.to_le_bytes());
        seal([&self.to[..], &self.from, &length, &address, &self.data].concat())
    }

    /// Returns whether its length field is correct, and none of it is beyond the end of a page.
    pub(super) fn is_whole(&self) -> bool {
        let length = self.data.len() as u64;
        u64::from(self.length) == length && self.address % PAGE + length <= PAGE
    }
}
