//! What travels between two cards: a head, and the cells of a message.

use crc::{CRC_32_BZIP2, Crc, Table};
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
/// Credits alone.
pub(crate) const CREDITS: u32 = 2;
/// A message of the receiver's had a trap: this and its number. Behind it is that message's control
/// cell.
pub(crate) const TRAPPED: u32 = 16;

/// Bits of a packet's kind, above which is the window.
const WINDOW_SHIFT: u32 = 8;

/// Bytes of a head.
pub(crate) const HEAD: usize = size_of::<Head>();
/// The longest packet.
pub(crate) const LARGEST: usize = HEAD + cells::cells(LONGEST) * CELL;
/// Bytes that its checksum covers: the rest of it, and the control cell.
const COVERED: usize = HEAD - 4;

/// The head of a packet.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Head {
    /// The connection, as its receiver calls it.
    pub(crate) connection: U32,
    /// Counts the packets that go this way, from 0, modulo 2^32.
    pub(crate) number: U32,
    /// Cells of messages that went the other way and are done, modulo 2^32.
    pub(crate) done: U32,
    /// What it is in the lowest 8 bits, and the window of its sender's card above.
    kind: U32,
    /// The connection's key.
    pub(crate) key: U64,
    /// CRC-32 of what is before it, and of the control cell.
    check: U32,
}

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

    /// What the packet is.
    pub(crate) fn kind(&self) -> u32 {
        self.kind.get() & ((1 << WINDOW_SHIFT) - 1)
    }

    /// The window of its sender's card, in cells.
    pub(crate) fn window(&self) -> u32 {
        self.kind.get() >> WINDOW_SHIFT
    }

    /// The head of these cells, of which there may be none.
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

    /// Head and cells of what has arrived. `None`: it is no packet, or damaged.
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
