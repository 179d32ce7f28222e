//! The packet format, according to the card's page in the documents, and the words of a packet.

use hamlyn_abi::clan::aperture::{CLAN_GROUP_HOST, CLAN_GROUPS};
use hamlyn_abi::clan::statistics::ClanStatistic as Counter;

/// Bytes before the data.
pub(super) const HEAD: usize = 32;

/// Data for an aperture.
pub(super) const WRITE: u8 = 1;
/// Asks for data.
pub(super) const READ: u8 = 2;
/// Data that was asked for.
pub(super) const DATA: u8 = 3;
/// A write or read was refused.
pub(super) const REFUSED: u8 = 4;
/// Number of words that the receiver of this packet may have sent.
pub(super) const CREDIT: u8 = 5;
/// Asks for credits.
pub(super) const PROBE: u8 = 6;
/// Announces the groups of a host.
pub(super) const GROUPS: u8 = 7;

/// In `flags`: from an operating system.
pub(super) const FROM_SYSTEM: u8 = 1;
/// In `flags`: a copy for a member of a group. The group's number replaces the aperture's.
pub(super) const TO_GROUP: u8 = 2;
/// In `flags` of an announcement: the receiver answers with its own.
pub(super) const ASKS: u8 = 4;
/// In `flags` of an announcement: its card has begun anew.
pub(super) const BEGINS: u8 = 8;

/// Returns the group that a host of a descriptor stands for, if any.
pub(super) fn group_of(host: u32) -> Option<u32> {
    host.checked_sub(CLAN_GROUP_HOST).filter(|group| *group < CLAN_GROUPS)
}

/// Contents of a packet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Letter {
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) epoch: u16,
    pub(super) tag: u32,
    pub(super) key: u64,
    pub(super) aperture: u32,
    pub(super) offset: u64,
    pub(super) data: Vec<u8>,
}

/// Returns the bytes of a packet's indivisible parts.
pub(super) fn parts(bytes: &[u8]) -> Vec<Vec<u8>> {
    match Letter::read(bytes) {
        Some((letter, true)) => letter.atoms().iter().map(Letter::write).collect(),
        _ => vec![bytes.to_vec()],
    }
}

/// Splits a range at word boundaries. Returns the start and the length of each piece.
pub(super) fn words(offset: u64, length: u64) -> impl Iterator<Item = (u64, u64)> {
    let (mut at, end) = (offset, offset + length);
    std::iter::from_fn(move || {
        let here = (8 - at % 8).min(end - at);
        let piece = (at, here);
        at += here;
        (here > 0).then_some(piece)
    })
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut number = [0; N];
    number.copy_from_slice(&bytes[at..at + N]);
    number
}

impl Letter {
    /// Reads a packet. Also returns whether the checksum is valid. `None` if it is too short for a
    /// packet.
    pub(super) fn read(bytes: &[u8]) -> Option<(Self, bool)> {
        let (head, data) = bytes.split_at_checked(HEAD)?;
        let letter = Self {
            kind: head[0],
            flags: head[1],
            epoch: u16::from_le_bytes(number(head, 2)),
            tag: u32::from_le_bytes(number(head, 4)),
            key: u64::from_le_bytes(number(head, 8)),
            aperture: u32::from_le_bytes(number(head, 16)),
            offset: u64::from_le_bytes(number(head, 24)),
            data: data.to_vec(),
        };
        let is_sound = u32::from_le_bytes(number(head, 20)) == letter.checksum();
        Some((letter, is_sound))
    }

    /// Returns the packet's bytes.
    pub(super) fn write(&self) -> Vec<u8> {
        let mut bytes = self.unsealed();
        bytes[20..24].copy_from_slice(&self.checksum().to_le_bytes());
        bytes
    }

    fn unsealed(&self) -> Vec<u8> {
        let mut bytes = vec![self.kind, self.flags];
        bytes.extend(self.epoch.to_le_bytes());
        bytes.extend(self.tag.to_le_bytes());
        bytes.extend(self.key.to_le_bytes());
        bytes.extend(self.aperture.to_le_bytes());
        bytes.extend([0; 4]);
        bytes.extend(self.offset.to_le_bytes());
        bytes.extend(&self.data);
        bytes
    }

    fn checksum(&self) -> u32 {
        crc32fast::hash(&self.unsealed())
    }

    /// Returns whether it may be cut and joined on its way.
    pub(super) fn is_burst(&self) -> bool {
        matches!(self.kind, WRITE | DATA)
    }

    /// Returns whether the end of its bytes does not overflow.
    pub(super) fn is_bounded(&self) -> bool {
        self.offset.checked_add(self.data.len() as u64 + 8).is_some()
    }

    /// Returns its indivisible parts: a burst consists of words.
    pub(super) fn atoms(&self) -> Vec<Self> {
        if !self.is_burst() || !self.is_bounded() || self.data.is_empty() {
            return vec![self.clone()];
        }
        let atom = |(offset, length): (u64, u64)| {
            let start = (offset - self.offset) as usize;
            let data = self.data[start..start + length as usize].to_vec();
            Self { offset, data, ..*self }
        };
        words(self.offset, self.data.len() as u64).map(atom).collect()
    }

    /// Returns the number of bytes that a read asks for.
    pub(super) fn asked(&self) -> u64 {
        match *self.data.as_slice() {
            [a, b, c, d] => u32::from_le_bytes([a, b, c, d]).into(),
            _ => 0,
        }
    }

    /// Returns the contents of a grant that answers a question: the count in the question, and the
    /// number of lost words.
    pub(super) fn answer(&self) -> Option<(u64, u64)> {
        let data: &[u8; 16] = self.data.as_slice().try_into().ok()?;
        let long =
            |at: usize| data[at..at + 8].iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte));
        Some((long(0), long(8)))
    }

    /// Returns why a write or read is invalid, if it is.
    pub(super) fn nonsense(&self) -> Option<Counter> {
        let means = match self.kind {
            WRITE => !self.data.is_empty() && self.offset.checked_add(self.data.len() as u64).is_some(),
            _ => self.data.len() == 4 && (1..=65536).contains(&self.asked()) && self.flags & TO_GROUP == 0,
        };
        (!means).then_some(Counter::Malformed)
    }

    /// Returns the reason of a refusal, and whether a read was refused.
    pub(super) fn refusal(&self) -> Option<(u32, bool)> {
        let data: &[u8; 8] = self.data.as_slice().try_into().ok()?;
        let [a, b, c, d, rest @ ..] = *data;
        Some((u32::from_le_bytes([a, b, c, d]), rest != [0; 4]))
    }

    /// Describes it for the report.
    pub(super) fn brief(&self) -> String {
        let Self { kind, tag, aperture, offset, data, .. } = self;
        let kinds = ["?", "WRITE", "READ", "DATA", "REFUSED", "CREDIT", "PROBE", "GROUPS"];
        let kind = kinds.get(usize::from(*kind)).unwrap_or(&"?");
        format!("{kind} tag {tag} aperture {aperture} offset {offset:#x}, {} bytes", data.len())
    }
}
