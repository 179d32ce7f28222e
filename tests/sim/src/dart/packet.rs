//! The packet format, according to the card's page in the documents.

use hamlyn_abi::dart::control::{DART_BLOCK, DartControl};
use zerocopy::{FromBytes, IntoBytes};

use super::calling::is_question;
use super::interpreter::is_implemented;

pub(super) const MESSAGE: u32 = 0;
pub(super) const ANSWER: u32 = 1;
pub(super) const CREDITS: u32 = 2;
pub(super) const TRAPPED: u32 = 16;
/// Bytes of a packet's head, of a cell, and of a cell's header.
const HEAD: usize = 28;
const CELL: usize = 53;
const HEADER: usize = 5;
/// Bytes of data of a control cell.
pub(super) const BLOCK: usize = DART_BLOCK as usize;
/// Maximum number of bytes that a message sends or asks for in this simulation.
pub(super) const LONGEST: usize = 2000;
/// The longest packet.
pub(super) const LARGEST: usize = HEAD + cells(LONGEST) * CELL;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) control: DartControl,
    pub(super) block: [u8; BLOCK],
    pub(super) body: Vec<u8>,
}

/// A packet, with its cells as they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Letter {
    pub(super) connection: u32,
    pub(super) number: u32,
    pub(super) done: u32,
    pub(super) kind: u32,
    /// Window of its sender's card.
    pub(super) window: u32,
    pub(super) key: u64,
    pub(super) cells: Vec<u8>,
}

/// Returns the number of cells of a message with a body of `body` bytes. If that is more than a
/// block, the first cell has the first block.
pub(super) const fn cells(body: usize) -> usize {
    match body {
        0 => 1,
        1..=BLOCK => 2,
        _ => 1 + (body - BLOCK + 8).div_ceil(48),
    }
}

/// Returns the CRC-32 that starts with the highest bit of each byte: the usual reflected CRC-32,
/// reflected.
fn crc_32(bytes: &[u8]) -> u32 {
    let mirrored: Vec<u8> = bytes.iter().map(|byte| byte.reverse_bits()).collect();
    crc32fast::hash(&mirrored).reverse_bits()
}

/// Returns a cell's header: 28 bits of connection, whether it is the last cell, and a CRC-8.
fn header(connection: u32, is_last: bool) -> [u8; HEADER] {
    let [a, b, c, d] = (connection << 4 | if is_last { 2 } else { 0 }).to_be_bytes();
    let divide = |rest: u8, byte: u8| {
        (0..8).fold(rest ^ byte, |rest, _| if rest & 0x80 == 0 { rest << 1 } else { rest << 1 ^ 7 })
    };
    [a, b, c, d, [a, b, c, d].into_iter().fold(0, divide) ^ 0x55]
}

impl Message {
    pub(super) fn cells(&self) -> usize {
        cells(self.body.len())
    }

    /// Returns the number of bytes that a READ_MULTIPLE asks for.
    pub(super) fn asked(&self) -> usize {
        let [a, b, c, d] = [16, 17, 18, 19].map(|at| self.block[at]);
        (u32::from_le_bytes([a, b, c, d]) as usize).min(65504)
    }

    /// Returns the number of bytes of its answer's body, if it is a question.
    pub(super) fn answer_length(&self) -> Option<usize> {
        let opcode = self.control.opcode;
        let asks = is_implemented(opcode) && is_question(opcode);
        asks.then(|| if matches!(opcode & 7, 4 | 6) { self.asked() } else { 0 })
    }

    /// Returns the number of cells of its answer.
    pub(super) fn answer_cells(&self) -> usize {
        self.answer_length().map_or(0, cells)
    }

    /// Returns the control of its answer.
    pub(super) fn answer_control(&self) -> DartControl {
        DartControl::read_from_bytes(&self.block[..16]).unwrap_or_default()
    }

    pub(super) fn write(&self, connection: u32) -> Vec<u8> {
        let (first, rest) = self.body.split_at(if self.body.len() > BLOCK { BLOCK } else { 0 });
        let block = if first.is_empty() { &self.block } else { first };
        let mut payload = [self.control.as_bytes(), block].concat();
        if !self.body.is_empty() {
            payload.extend(rest);
            payload.resize(self.cells() * 48 - 8, 0);
            payload.extend([first.len() as u8, 0]);
            payload.extend((rest.len() as u16).to_be_bytes());
            payload.extend(crc_32(&payload[48..]).to_be_bytes());
        }
        let last = payload.len() / 48 - 1;
        let cell = |(number, part): (usize, &[u8])| [&header(connection, number == last), part].concat();
        payload.chunks(48).enumerate().flat_map(cell).collect()
    }

    /// Reads the cells of a message for a connection.
    pub(super) fn read(connection: u32, bytes: &[u8]) -> Option<Self> {
        let count = bytes.len() / CELL;
        let are_headers = bytes
            .chunks(CELL)
            .enumerate()
            .all(|(at, cell)| cell.starts_with(&header(connection, at + 1 == count)));
        if count == 0 || bytes.len() % CELL != 0 || !are_headers {
            return None;
        }
        let payload: Vec<u8> = bytes.chunks(CELL).flat_map(|cell| &cell[HEADER..]).copied().collect();
        let (first, rest) = payload.split_at(48);
        let (control, data) = first.split_at(16);
        let mut block = [0; BLOCK];
        block.copy_from_slice(data);
        let mut body = Vec::new();
        if let Some((all, crc)) = rest.split_last_chunk::<4>() {
            let [first, zero, high, low] = *all.last_chunk()?;
            let behind = usize::from(u16::from_be_bytes([high, low]));
            let length = usize::from(first) + behind;
            let is_split = if length > BLOCK { usize::from(first) == BLOCK } else { first == 0 };
            let is_right = (1..=65504).contains(&length) && cells(length) == count;
            if !is_right || !is_split || zero != 0 || crc_32(all).to_be_bytes() != *crc {
                return None;
            }
            body.extend(&data[..first.into()]);
            body.extend(&rest[..behind]);
        }
        Some(Self { control: DartControl::read_from_bytes(control).ok()?, block, body })
    }
}

impl Letter {
    pub(super) fn write(&self) -> Vec<u8> {
        let words =
            [self.connection, self.number, self.done, self.kind | self.window << 8].map(u32::to_le_bytes);
        let mut bytes = [words.as_flattened(), &self.key.to_le_bytes()].concat();
        let first = &self.cells[..self.cells.len().min(CELL)];
        let check = crc_32(&[&bytes[..], first].concat());
        bytes.extend(check.to_le_bytes());
        bytes.extend(&self.cells);
        bytes
    }

    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let (head, cells) = bytes.split_at_checked(HEAD)?;
        let number = |from: usize, to: usize| {
            head[from..to].iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
        };
        let [connection, number_, done, kind] = [0, 4, 8, 12].map(|at| number(at, at + 4) as u32);
        let (kind, window, key) = (kind & 0xff, kind >> 8, number(16, 24));
        let letter = Self { connection, number: number_, done, kind, window, key, cells: cells.to_vec() };
        (letter.write() == bytes).then_some(letter)
    }
}
