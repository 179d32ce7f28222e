//! Packets between two cards: a head, and the cells of a message.

use std::mem::offset_of;

use crc::{CRC_32_BZIP2, Crc, Table};
use hamlyn_card::packet::{FieldNames, PacketField};
use hamlyn_card::packet_field;
use hamlyn_card::ports::Pieces;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::cells::{self, CELL, LONGEST};
use crate::connections::Peer;

static CRC_32: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&CRC_32_BZIP2);

/// A message.
pub(crate) const MESSAGE: u32 = 0;
/// An answer.
pub(crate) const ANSWER: u32 = 1;
/// Only credits.
pub(crate) const CREDITS: u32 = 2;
/// A message of the receiver had a trap: this plus the trap's number. That message's control cell
/// follows.
pub(crate) const TRAPPED: u32 = 16;

/// Number of bits of a packet's kind. The window is above them.
const WINDOW_SHIFT: u32 = 8;

/// Size of a head, in bytes.
pub(crate) const HEAD: usize = size_of::<Head>();
/// Size of the longest packet, in bytes.
pub(crate) const LARGEST: usize = HEAD + cells::cells(LONGEST) * CELL;
/// Number of the head's bytes that the checksum covers: all before it. The checksum also covers the
/// control cell.
const COVERED: usize = HEAD - 4;

/// The head of a packet.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Head {
    /// The receiver's number of the connection.
    pub(crate) connection: U32,
    /// Number of the packet in this direction, from 0, modulo 2^32.
    pub(crate) number: U32,
    /// Number of cells of messages in the other direction that are done, modulo 2^32.
    pub(crate) done: U32,
    /// The kind in the lowest 8 bits, and the window of the sender's card above.
    kind: U32,
    /// The connection's key.
    pub(crate) key: U64,
    /// CRC-32 of what is before it, and of the control cell.
    check: U32,
}

/// The head's fields, for traces. `kind` and `window` share a word.
pub(crate) const FIELDS: &[PacketField] = &[
    packet_field!(Head, connection),
    packet_field!(Head, number),
    packet_field!(Head, done),
    PacketField { bytes: 1, ..packet_field!(Head, kind) }.named(FieldNames::Values(&[
        (MESSAGE as u64, "MESSAGE"),
        (ANSWER as u64, "ANSWER"),
        (CREDITS as u64, "CREDITS"),
    ])),
    PacketField { name: "window", offset: offset_of!(Head, kind) + 1, bytes: 3, names: FieldNames::None },
    packet_field!(Head, key),
    packet_field!(Head, check),
];

impl Head {
    pub(crate) fn new(peer: Peer, number: u32, done: u32, (kind, window): (u32, u32)) -> Self {
        Self {
            connection: peer.number.into(),
            number: number.into(),
            done: done.into(),
            kind: (kind | window << WINDOW_SHIFT).into(),
            key: peer.key.into(),
            check: 0.into(),
        }
    }

    /// Returns the kind of the packet.
    pub(crate) fn kind(&self) -> u32 {
        self.kind.get() & ((1 << WINDOW_SHIFT) - 1)
    }

    /// Returns the window of the sender's card, in cells.
    pub(crate) fn window(&self) -> u32 {
        self.kind.get() >> WINDOW_SHIFT
    }

    /// Returns the head for these cells, with its checksum. There may be no cells.
    pub(crate) fn of_cells(mut self, cells: &[u8]) -> Self {
        self.check = self.checksum(cells).into();
        self
    }

    fn checksum(&self, cells: &[u8]) -> u32 {
        let mut digest = CRC_32.digest();
        digest.update(&self.as_bytes()[..COVERED]);
        digest.update(&cells[..cells.len().min(CELL)]);
        digest.finalize()
    }

    /// Returns the head and the cells of a packet that has arrived, or `None` if it is malformed or
    /// damaged.
    pub(crate) fn take(mut bytes: Pieces<'_>) -> Option<(Self, Vec<u8>)> {
        if bytes.len() > LARGEST {
            return None;
        }
        let mut head = [0; HEAD];
        bytes.take_into(&mut head)?;
        let head = Self::read_from_bytes(&head).ok()?;
        let mut cells = vec![0; bytes.len()];
        bytes.take_into(&mut cells)?;
        (head.checksum(&cells) == head.check.get()).then_some((head, cells))
    }
}
