//! A packet in flight from card to card (section 2.2). The fabric's own header precedes it and
//! holds the hosts.
//!
//! ```text
//! | kind | flags | epoch | tag | key | aperture | CRC-32 | offset | data ...
//!    1      1       2      4     8       4          4        8
//! ```
//!
//! The header holds the place of the first byte, but not the length. So a packet may be cut between
//! any two words on its way, and two that follow each other may be joined. The CRC covers the whole
//! packet, with 0 in its own place. It is computed again after each cut or join.

use hamlyn_card::packet::{FieldNames, PacketField};
use hamlyn_card::packet_field;
use hamlyn_card::ports::Pieces;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

/// Number of bytes in front of the data.
pub const OVERHEAD: usize = size_of::<Header>();
/// Number of bytes of a word.
pub(crate) const WORD: u64 = 8;

/// Data for an aperture.
pub(crate) const WRITE: u8 = 1;
/// Requests data. 4 bytes of data hold the number of bytes, and the answer carries the same `tag`.
pub(crate) const READ: u8 = 2;
/// Requested data. `tag` is the requester's; `offset` and `aperture` are as requested.
pub(crate) const DATA: u8 = 3;
/// Refuses a write or read, whose `tag`, `aperture` and `offset` it carries. 8 bytes of data hold
/// the reason, `CLAN_FAULT_*`, and whether it was a read.
pub(crate) const REFUSED: u8 = 4;
/// Grants credits: `offset` is the number of words that the receiver may have sent, of the count
/// that it began with `epoch`.
pub(crate) const CREDIT: u8 = 5;
/// Asks for credits: `offset` is the number of words that have been sent.
pub(crate) const PROBE: u8 = 6;
/// Announces the groups that the sender is a member of: `offset` has a bit for each.
pub(crate) const GROUPS: u8 = 7;

/// In `flags`: the packet is an operating system's.
pub(crate) const FROM_SYSTEM: u8 = 1;
/// In `flags` of a write: the packet is a copy for a member of a group, whose number is in
/// `aperture`.
pub(crate) const TO_GROUP: u8 = 2;
/// In `flags` of [`GROUPS`]: the receiver answers with its own groups.
pub(crate) const ASKS: u8 = 4;
/// In `flags` of [`GROUPS`]: the sender's card begins anew, and has counted no words so far.
pub(crate) const BEGINS: u8 = 8;

/// The header in front of the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Header {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    /// The count of credits that the sender's words belong to.
    pub(crate) epoch: U16,
    /// In writes, the sender's endpoint. In reads, the number of the read.
    pub(crate) tag: U32,
    pub(crate) key: U64,
    pub(crate) aperture: U32,
    pub(crate) crc: U32,
    pub(crate) offset: U64,
}

/// The header's fields, for traces.
pub(crate) const FIELDS: &[PacketField] = &[
    packet_field!(Header, kind).named(FieldNames::Values(&[
        (WRITE as u64, "WRITE"),
        (READ as u64, "READ"),
        (DATA as u64, "DATA"),
        (REFUSED as u64, "REFUSED"),
        (CREDIT as u64, "CREDIT"),
        (PROBE as u64, "PROBE"),
        (GROUPS as u64, "GROUPS"),
    ])),
    packet_field!(Header, flags).named(FieldNames::Bits(&[
        (FROM_SYSTEM as u64, "FROM_SYSTEM"),
        (TO_GROUP as u64, "TO_GROUP"),
        (ASKS as u64, "ASKS"),
        (BEGINS as u64, "BEGINS"),
    ])),
    packet_field!(Header, epoch),
    packet_field!(Header, tag),
    packet_field!(Header, key),
    packet_field!(Header, aperture),
    packet_field!(Header, crc),
    packet_field!(Header, offset),
];

/// Why a packet is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    Malformed,
    BadChecksum,
}

/// Copies a packet out, once, and checks it. Returns its header and its data.
pub(crate) fn take(mut packet: Pieces<'_>, most: usize) -> Result<(Header, Vec<u8>), Fault> {
    let mut header = Header::new_zeroed();
    let length =
        packet.len().checked_sub(OVERHEAD).filter(|length| *length <= most).ok_or(Fault::Malformed)?;
    packet.take_into(header.as_mut_bytes()).ok_or(Fault::Malformed)?;
    let mut data = vec![0; length];
    packet.take_into(&mut data).ok_or(Fault::Malformed)?;
    if header.crc.get() != checksum(&header, &data) {
        return Err(Fault::BadChecksum);
    }
    Ok((header, data))
}

/// Returns the packet's bytes, with their checksum.
pub(crate) fn seal(mut header: Header, data: &[u8]) -> Vec<u8> {
    header.crc = checksum(&header, data).into();
    let mut bytes = Vec::with_capacity(OVERHEAD + data.len());
    bytes.extend_from_slice(header.as_bytes());
    bytes.extend_from_slice(data);
    bytes
}

fn checksum(header: &Header, data: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(Header { crc: 0.into(), ..*header }.as_bytes());
    hasher.update(data);
    hasher.finalize()
}

/// Parses a packet that may be cut: a write, or a piece of an answer. Its offset is the place of
/// its first byte.
fn parse(bytes: &[u8]) -> Option<(Header, &[u8])> {
    let (header, data) = Header::read_from_prefix(bytes).ok()?;
    let may_be_cut = matches!(header.kind, WRITE | DATA) && header.crc.get() == checksum(&header, data);
    may_be_cut.then_some((header, data))
}

/// Cuts a packet between two words, so that the first part has at most `most` bytes in all. Returns
/// `None` if the packet is short enough or cannot be cut.
#[must_use]
pub fn cut(bytes: &[u8], most: usize) -> Option<(Vec<u8>, Vec<u8>)> {
    if bytes.len() <= most {
        return None;
    }
    let (header, data) = parse(bytes)?;
    let (room, start) = ((most.checked_sub(OVERHEAD)?) as u64, header.offset.get());
    // The last word that ends within the room.
    let end = start.checked_add(room)? / WORD * WORD;
    let length = end.checked_sub(start).filter(|length| *length > 0)? as usize;
    let (first, second) = data.split_at_checked(length).filter(|(_, second)| !second.is_empty())?;
    let behind = Header { offset: end.into(), ..header };
    Some((seal(header, first), seal(behind, second)))
}

/// Joins two packets, if the second follows the first between two words and the whole has at most
/// `most` bytes. Otherwise returns `None`.
#[must_use]
pub fn join(first: &[u8], second: &[u8], most: usize) -> Option<Vec<u8>> {
    if first.len() + second.len() > most + OVERHEAD {
        return None;
    }
    let ((header, data), (next, more)) = (parse(first)?, parse(second)?);
    let end = header.offset.get().checked_add(data.len() as u64).filter(|end| end % WORD == 0)?;
    let follows = Header { offset: end.into(), crc: next.crc, ..header } == next;
    follows.then(|| seal(header, &[data, more].concat()))
}

impl Header {
    /// Returns a header with nothing but its kind.
    pub(crate) fn of(kind: u8) -> Self {
        Self { kind, ..Self::new_zeroed() }
    }

    /// Returns whether the packet is a copy for a member of a group.
    pub(crate) fn is_copy(&self) -> bool {
        self.flags & TO_GROUP != 0
    }

    /// Returns the header of an answer to this packet.
    pub(crate) fn answer(&self, kind: u8) -> Self {
        Self { tag: self.tag, aperture: self.aperture, offset: self.offset, ..Self::of(kind) }
    }
}
