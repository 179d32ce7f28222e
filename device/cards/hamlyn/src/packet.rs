//! The packet header (section 2.2, Table 1).
//!
//! Every packet of a message carries the whole header, so packets may arrive in any order. Table
//! 1's first line, the destination host id, is in the fabric's header, which the switch uses for
//! routing. The metadata follows the header, and the data follows the metadata, without padding.

use std::mem::size_of;

use hamlyn_abi::hamlyn::request::{
    HAMLYN_FAST_MODE, HAMLYN_FETCH_ADD, HAMLYN_FETCH_COMPARE_SWAP, HAMLYN_MAX_METADATA, HamlynFetch,
};
use hamlyn_card::packet::{FieldNames, PacketField};
use hamlyn_card::packet_field;
use hamlyn_card::ports::{Packet, Pieces, VolatileSlice};
use vm_memory::VolatileMemory;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The receiver gets no notification.
pub(crate) const PACKET_SILENT: u32 = 1;
/// The receiver is interrupted if it sleeps.
pub(crate) const PACKET_INTERRUPT: u32 = 2;
/// The packet is a fetch-and-op, not a message: a [`HamlynFetch`] follows. `delta` is the sender's
/// number for it.
pub(crate) const PACKET_FETCH: u32 = 4;
/// The packet is the answer to a fetch-and-op: the word's previous value follows. `delta` is the
/// requester's number.
pub(crate) const PACKET_ANSWER: u32 = 8;
/// The packet was sent by a privileged terminus: the operating system's own (section 6.3).
pub(crate) const PACKET_PRIVILEGED: u32 = 16;
/// The packet is a retraction, not a message: `delta` packets of a message have been sent, and the
/// rest will not follow (section 2.5).
pub(crate) const PACKET_RETRACTION: u32 = 32;
/// Value of an answer's `offset` if the fetch-and-op was refused.
pub(crate) const ANSWER_REFUSED: u32 = 1;
/// Number of bytes of the message area that a fetch-and-op changes.
pub(crate) const FETCH_BYTES: u32 = 8;

/// Table 1, without its first line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct PacketHeader {
    pub(crate) slot: u32,
    pub(crate) metadata_index: u32,
    pub(crate) key: u64,
    /// Offset of this packet's data from the start of the message area, in bytes.
    pub(crate) offset: u32,
    /// Bytes of data in this packet.
    pub(crate) length: u32,
    /// Amount that this packet adds to the packet accumulator (section 2.5). In fast mode: the
    /// word.
    pub(crate) delta: u32,
    /// Bytes of metadata in this packet. Only the first packet of a message carries any.
    pub(crate) metadata_length: u32,
    pub(crate) flags: u32,
    /// Code of the fetch-and-op.
    pub(crate) operation: u32,
}

/// Size of the header on the wire, in bytes.
pub(crate) const HEADER_BYTES: usize = size_of::<PacketHeader>();

/// The header's fields, for traces.
pub(crate) const FIELDS: &[PacketField] = &[
    packet_field!(PacketHeader, slot),
    packet_field!(PacketHeader, metadata_index),
    packet_field!(PacketHeader, key),
    packet_field!(PacketHeader, offset),
    packet_field!(PacketHeader, length),
    packet_field!(PacketHeader, delta),
    packet_field!(PacketHeader, metadata_length),
    packet_field!(PacketHeader, flags).named(FieldNames::Bits(&[
        (PACKET_SILENT as u64, "SILENT"),
        (PACKET_INTERRUPT as u64, "INTERRUPT"),
        (PACKET_FETCH as u64, "FETCH"),
        (PACKET_ANSWER as u64, "ANSWER"),
        (PACKET_PRIVILEGED as u64, "PRIVILEGED"),
        (PACKET_RETRACTION as u64, "RETRACTION"),
    ])),
    packet_field!(PacketHeader, operation),
];

/// Returns the bytes behind a packet's header.
pub(crate) fn behind_header<'a>(packet: &Packet<'a>) -> Pieces<'a> {
    let mut bytes = packet.bytes;
    bytes.skip(HEADER_BYTES);
    bytes
}

/// A retraction with its destination.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Retraction {
    pub(crate) destination: u16,
    pub(crate) header: PacketHeader,
}

impl PacketHeader {
    /// Returns the size of the whole packet, in bytes.
    pub(crate) fn packet_bytes(&self) -> usize {
        HEADER_BYTES + self.metadata_length as usize + self.length as usize
    }

    pub(crate) fn is_fast_mode(&self) -> bool {
        self.metadata_index == HAMLYN_FAST_MODE
    }

    pub(crate) fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    /// Parses the header of a packet that arrived. Returns `None` if the packet is malformed or its
    /// size is not the one that the header states.
    #[inline]
    pub(crate) fn parse(packet: &Pieces<'_>) -> Option<Self> {
        let header = Self::read(packet.first()).or_else(|| Self::gather(*packet))?;
        if header.is_sound(packet.len()) { Some(header) } else { None }
    }

    /// Reads the header word by word, in the same way as its sender has written it (see the
    /// receiving half's `delivery`). The sender may have done so just before on this processor.
    /// Returns `None` if the piece is too short.
    #[inline]
    fn read(piece: &VolatileSlice<'_>) -> Option<Self> {
        let words = piece.get_array_ref::<u32>(0, HEADER_BYTES / 4).ok()?;
        let word = |index| u32::from_le(words.load(index));
        Some(Self {
            slot: word(0),
            metadata_index: word(1),
            key: u64::from(word(2)) | u64::from(word(3)) << 32,
            offset: word(4),
            length: word(5),
            delta: word(6),
            metadata_length: word(7),
            flags: word(8),
            operation: word(9),
        })
    }

    /// Returns the header of a packet whose first piece is shorter than a header.
    #[cold]
    fn gather(mut packet: Pieces<'_>) -> Option<Self> {
        let mut bytes = [0; HEADER_BYTES];
        packet.take_into(&mut bytes)?;
        Self::read(&VolatileSlice::from(&mut bytes[..]))
    }

    #[inline]
    fn is_sound(&self, packet_bytes: usize) -> bool {
        self.metadata_length <= HAMLYN_MAX_METADATA
            && self.is_of_a_kind()
            && !(self.is_fast_mode() && self.metadata_length != 0)
            && self.packet_bytes() == packet_bytes
    }

    /// Whether the packet is part of a message, a fetch-and-op, an answer or a retraction, and has
    /// no other flags set.
    fn is_of_a_kind(&self) -> bool {
        match self.flags & !PACKET_PRIVILEGED {
            PACKET_FETCH => self.is_fetch(),
            PACKET_ANSWER => self.is_answer(),
            PACKET_RETRACTION => self.is_retraction(),
            flags => flags & !(PACKET_SILENT | PACKET_INTERRUPT) == 0 && self.operation == 0,
        }
    }

    #[cold]
    fn is_fetch(self) -> bool {
        let operations = HAMLYN_FETCH_ADD..=HAMLYN_FETCH_COMPARE_SWAP;
        operations.contains(&self.operation)
            && self.length as usize == size_of::<HamlynFetch>()
            && self.metadata_length == 0
    }

    #[cold]
    fn is_answer(self) -> bool {
        let Self { delta, offset, .. } = self;
        let length = size_of::<u64>() as u32;
        offset <= ANSWER_REFUSED
            && self == Self { flags: PACKET_ANSWER, delta, offset, length, ..Self::default() }
    }

    /// Whether the packet takes back at least one packet's count and carries no bytes.
    #[cold]
    fn is_retraction(self) -> bool {
        let nothing_else = (self.length, self.metadata_length, self.operation) == (0, 0, 0);
        nothing_else && self.delta != 0 && !self.is_fast_mode()
    }

    /// Returns the number of bytes, from `offset` on, that the packet accesses.
    pub(crate) fn extent(&self) -> u32 {
        if self.has(PACKET_FETCH) { FETCH_BYTES } else { self.length }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parsed(packet: &mut [u8]) -> Option<PacketHeader> {
        PacketHeader::parse(&VolatileSlice::from(packet).into())
    }

    fn bytes_of(header: &PacketHeader) -> Vec<u8> {
        let mut bytes = header.as_bytes().to_vec();
        bytes.resize(header.packet_bytes(), 7);
        bytes
    }

    #[test]
    fn the_header_is_table_1_line_by_line() {
        assert_eq!(HEADER_BYTES, 40);
        let header =
            PacketHeader { slot: 1, metadata_index: 2, key: 3, offset: 4, length: 5, ..Default::default() };
        let mut words = header.as_bytes().chunks(4).map(|word| u32::from_le_bytes(word.try_into().unwrap()));
        assert!(words.by_ref().eq([1, 2, 3, 0, 4, 5, 0, 0, 0, 0]));
    }

    #[test]
    fn a_header_may_lie_in_pieces() {
        let header = PacketHeader { slot: 1, key: 2, length: 3, ..Default::default() };
        for cut in 0..=HEADER_BYTES + 3 {
            let mut bytes = bytes_of(&header);
            let (front, back) = bytes.split_at_mut(cut);
            let pieces = [VolatileSlice::from(front), VolatileSlice::from(back)];
            assert_eq!(PacketHeader::parse(&Pieces::new(&pieces)), Some(header), "cut at {cut}");
        }
    }

    #[test]
    fn malformed_packet_does_not_parse() {
        let good = PacketHeader { length: 10, metadata_length: 60, ..Default::default() };
        assert_eq!(parsed(&mut bytes_of(&good)), Some(good));
        for bad in [
            PacketHeader { metadata_length: 61, ..good },
            PacketHeader { flags: 64, ..good },
            PacketHeader { flags: PACKET_FETCH, operation: 1, ..good },
            PacketHeader { flags: PACKET_ANSWER, ..good },
            PacketHeader { operation: 1, ..good },
            PacketHeader { metadata_index: HAMLYN_FAST_MODE, ..good },
        ] {
            assert_eq!(parsed(&mut bytes_of(&bad)), None, "{bad:?}");
        }
        let mut short = bytes_of(&good);
        short.pop();
        assert_eq!(parsed(&mut short), None);
    }

    #[test]
    fn fetch_and_answer_with_extra_fields_are_refused() {
        let fetch = PacketHeader {
            flags: PACKET_FETCH,
            operation: 6,
            length: 16,
            slot: 3,
            key: 4,
            ..Default::default()
        };
        let answer =
            PacketHeader { flags: PACKET_ANSWER, delta: 9, offset: 1, length: 8, ..Default::default() };
        for good in [fetch, answer] {
            assert_eq!(parsed(&mut bytes_of(&good)), Some(good));
        }
        for bad in [
            PacketHeader { operation: 0, ..fetch },
            PacketHeader { operation: 7, ..fetch },
            PacketHeader { length: 8, ..fetch },
            PacketHeader { metadata_length: 1, ..fetch },
            PacketHeader { flags: PACKET_FETCH | PACKET_SILENT, ..fetch },
            PacketHeader { offset: 2, ..answer },
            PacketHeader { length: 16, ..answer },
            PacketHeader { flags: PACKET_ANSWER | PACKET_PRIVILEGED, ..answer },
            PacketHeader { slot: 1, ..answer },
            PacketHeader { key: 1, ..answer },
            PacketHeader { operation: 1, ..answer },
        ] {
            assert_eq!(parsed(&mut bytes_of(&bad)), None, "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_parse_safely(mut bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let length = bytes.len();
            if let Some(header) = parsed(&mut bytes) {
                prop_assert_eq!(header.packet_bytes(), length);
            }
        }
    }
}
