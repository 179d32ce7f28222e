//! Messages as ATM cells (Figure 3): a control cell, and AAL5 cells behind it for a longer message.
//!
//! Headers and trailers are in network byte order, as in ATM. The control is little-endian.

use crc::{CRC_8_I_432_1, CRC_32_BZIP2, Crc, Table};
use hamlyn_abi::dart::control::{DART_BLOCK, DartControl};
use thiserror::Error;
use zerocopy::{FromBytes, IntoBytes};

/// Size of a cell, in bytes.
pub const CELL: usize = 53;
/// Size of its payload, in bytes.
const PAYLOAD: usize = 48;
const HEADER: usize = CELL - PAYLOAD;
const CONTROL: usize = size_of::<DartControl>();
/// Number of data bytes in the control cell.
pub const BLOCK: usize = DART_BLOCK as usize;
/// Size of the trailer at the end of the last cell behind the control cell, in bytes. It holds the
/// number of body bytes in the control cell, 0, the length and the CRC-32.
const TRAILER: usize = 8;
/// The most bytes of a body: whole blocks, as far as the trailer's length can express them.
pub const LONGEST: usize = (u16::MAX as usize - CONTROL) / BLOCK * BLOCK;
/// Number of connections that a header can name.
pub const CONNECTIONS: u32 = hamlyn_abi::dart::connection::DART_NUMBERS;
/// In a header: the cell is the last of its message.
const LAST: u32 = 1 << 1;

/// AAL5's CRC-32, which begins with a byte's highest bit.
static CRC_32: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&CRC_32_BZIP2);
static CRC_8: Crc<u8> = Crc::<u8>::new(&CRC_8_I_432_1);

const _: () = assert!(CONTROL + BLOCK == PAYLOAD);

/// A message of any connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// What the message does.
    pub control: DartControl,
    /// The data of the control cell. If the body is longer than this, its first bytes.
    pub block: [u8; BLOCK],
    /// The data of a message of several blocks.
    pub body: Vec<u8>,
}

/// Cells that are not a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Malformed {
    /// The bytes are not whole cells.
    #[error("{0} bytes are no cells of {CELL}")]
    Bytes(usize),
    /// The CRC-8 of a header does not match.
    #[error("the header of cell {0} is damaged")]
    Header(usize),
    /// A cell belongs to another connection, or is wrongly marked as the last or not the last.
    #[error("cell {0} belongs to another message")]
    Stray(usize),
    /// The number of cells does not fit the trailer's length, or the length is too large.
    #[error("{cells} cells are not those of {length} bytes")]
    Length {
        /// Number of cells behind the control cell.
        cells: usize,
        /// The length in the trailer.
        length: usize,
    },
    /// The CRC-32 does not match.
    #[error("the bytes behind the control cell are damaged")]
    Body,
}

/// Returns the number of cells of a message with a body of `body` bytes.
#[must_use]
pub const fn cells(body: usize) -> usize {
    if body == 0 { 1 } else { 1 + (body - in_first(body) + TRAILER).div_ceil(PAYLOAD) }
}

/// Returns how many bytes of a body are in the control cell: a block, if the body is longer than
/// that.
const fn in_first(body: usize) -> usize {
    if body > BLOCK { BLOCK } else { 0 }
}

fn header(connection: u32, is_last: bool) -> [u8; HEADER] {
    let word = (connection << 4 | if is_last { LAST } else { 0 }).to_be_bytes();
    let [a, b, c, d] = word;
    [a, b, c, d, CRC_8.checksum(&word)]
}

impl Message {
    /// Appends the message, as cells for a connection of its receiver. The caller has checked that
    /// the body is not longer than [`LONGEST`]: there are no cells for such a body.
    pub fn encode(&self, connection: u32, to: &mut Vec<u8>) {
        to.reserve(cells(self.body.len()) * CELL);
        let (first, rest) = self.body.split_at(in_first(self.body.len()));
        to.extend(header(connection, self.body.is_empty()));
        to.extend(self.control.as_bytes());
        to.extend(if first.is_empty() { &self.block } else { first });
        if rest.is_empty() {
            return;
        }
        let padded = (rest.len() + TRAILER).next_multiple_of(PAYLOAD);
        let mut body = Vec::with_capacity(padded);
        body.extend(rest);
        body.resize(padded - TRAILER, 0);
        body.extend([first.len() as u8, 0]);
        body.extend((rest.len() as u16).to_be_bytes());
        body.extend(CRC_32.checksum(&body).to_be_bytes());
        let (headers, last) =
            ([false, true].map(|is_last| header(connection, is_last)), padded / PAYLOAD - 1);
        for (number, payload) in body.chunks_exact(PAYLOAD).enumerate() {
            to.extend(headers[usize::from(number == last)]);
            to.extend(payload);
        }
    }

    /// Returns the data for which the control cell has no room.
    pub(crate) fn behind_block(&self) -> &[u8] {
        &self.body[in_first(self.body.len())..]
    }

    /// Decodes the cells of a message for a connection.
    pub fn decode(connection: u32, bytes: &[u8]) -> Result<Self, Malformed> {
        let count = bytes.len() / CELL;
        if count == 0 || bytes.len() % CELL != 0 {
            return Err(Malformed::Bytes(bytes.len()));
        }
        for (number, cell) in bytes.chunks_exact(CELL).enumerate() {
            let (&[a, b, c, d, check], _) = cell.split_first_chunk().ok_or(Malformed::Bytes(bytes.len()))?;
            if CRC_8.checksum(&[a, b, c, d]) != check {
                return Err(Malformed::Header(number));
            }
            let expected = connection << 4 | if number + 1 == count { LAST } else { 0 };
            if u32::from_be_bytes([a, b, c, d]) != expected {
                return Err(Malformed::Stray(number));
            }
        }
        let (first, rest) = bytes.split_at(CELL);
        let (control, block) = first[HEADER..].split_at(CONTROL);
        let mut message = Self {
            control: DartControl::read_from_bytes(control).unwrap_or_default(),
            block: [0; BLOCK],
            body: Vec::with_capacity(rest.len()),
        };
        message.block.copy_from_slice(block);
        message.body.extend(if rest.is_empty() { &[][..] } else { block });
        rest.chunks_exact(CELL).for_each(|cell| message.body.extend(&cell[HEADER..]));
        message.take_trailer(count - 1)?;
        Ok(message)
    }

    /// Reduces the body, which begins with the block, to the bytes that the trailer names.
    fn take_trailer(&mut self, cells: usize) -> Result<(), Malformed> {
        let Some((rest, &[first, zero, high, low, a, b, c, d])) = self.body.split_last_chunk() else {
            return Ok(());
        };
        let length = usize::from(first) + usize::from(u16::from_be_bytes([high, low]));
        let is_first = usize::from(first) == in_first(length) && zero == 0;
        if !is_first || length == 0 || length > LONGEST || self::cells(length) != cells + 1 {
            return Err(Malformed::Length { cells, length });
        }
        if CRC_32.checksum(&self.body[BLOCK..rest.len() + 4]) != u32::from_be_bytes([a, b, c, d]) {
            return Err(Malformed::Body);
        }
        self.body.truncate(BLOCK + length - usize::from(first));
        self.body.drain(..BLOCK - usize::from(first));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CONNECTION: u32 = 0x0abc_def1;

    fn message(body: Vec<u8>) -> Message {
        let control = DartControl { opcode: 2, mask: 1, indices: [3, 4, 5], operand: 6 };
        let block = body.first_chunk().copied().filter(|_| body.len() > BLOCK);
        Message { control, block: block.unwrap_or(std::array::from_fn(|at| at as u8)), body }
    }

    fn encoded(message: &Message) -> Vec<u8> {
        let mut bytes = Vec::new();
        message.encode(CONNECTION, &mut bytes);
        bytes
    }

    #[test]
    fn message_of_one_block_is_an_atm_cell() {
        let cell = encoded(&message(Vec::new()));
        assert_eq!(cell.len(), CELL);
        // 28 bits of path and channel, and a payload type that marks the last cell. The HEC is
        // computed independently: x^8 + x^2 + x + 1, then 0x55.
        let word = [0xab, 0xcd, 0xef, 0x12];
        let divide = |rest: u8, byte: u8| {
            (0..8).fold(rest ^ byte, |rest, _| if rest & 0x80 == 0 { rest << 1 } else { rest << 1 ^ 7 })
        };
        assert_eq!(cell[..4], word);
        assert_eq!(cell[4], word.into_iter().fold(0, divide) ^ 0x55);
        assert_eq!(cell[5..21], [2, 0, 0, 0, 1, 3, 4, 5, 6, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(cell[21..], std::array::from_fn::<u8, 32, _>(|at| at as u8));
    }

    #[test]
    fn bodies_have_the_fewest_cells() {
        assert_eq!([0, 1, 32, 33, 64, 72, 73, 120, 121].map(cells), [1, 2, 2, 2, 2, 2, 3, 3, 4]);
        assert_eq!((LONGEST, cells(LONGEST)), (65504, 1366));
        let longest = message(vec![7; LONGEST]);
        assert_eq!(Message::decode(CONNECTION, &encoded(&longest)), Ok(longest));
    }

    #[test]
    fn first_cell_carries_block_of_long_body() {
        let bytes = encoded(&message((0..64).collect()));
        assert_eq!(bytes.len(), 2 * CELL);
        assert_eq!(bytes[21..CELL], std::array::from_fn::<u8, BLOCK, _>(|at| at as u8));
        assert_eq!(bytes[CELL + HEADER..][..32], std::array::from_fn::<u8, BLOCK, _>(|at| at as u8 + 32));
        // A short body does not fit there beside its length.
        let short = encoded(&message(vec![7; 32]));
        assert_eq!((short.len(), short[CELL + HEADER], short[2 * CELL - TRAILER]), (2 * CELL, 7, 0));
    }

    #[test]
    fn malformed_cells_are_refused_by_name() {
        let bytes = encoded(&message(vec![1; 120]));
        let refused = |connection, bytes: &[u8]| Message::decode(connection, bytes).unwrap_err();
        assert_eq!(refused(CONNECTION, &[]), Malformed::Bytes(0));
        assert_eq!(refused(CONNECTION, &bytes[1..]), Malformed::Bytes(bytes.len() - 1));
        assert_eq!(refused(CONNECTION + 1, &bytes), Malformed::Stray(0));
        assert_eq!(refused(CONNECTION, &bytes[..2 * CELL]), Malformed::Stray(1));
        let said = refused(CONNECTION, &[&bytes[..CELL], &bytes[2 * CELL..]].concat());
        assert_eq!(said.to_string(), "1 cells are not those of 120 bytes");
    }

    proptest! {
        #[test]
        fn decode_inverts_encode(body in proptest::collection::vec(any::<u8>(), 0..500)) {
            let message = message(body);
            prop_assert_eq!(Message::decode(CONNECTION, &encoded(&message)), Ok(message));
        }

        #[test]
        fn flipped_bit_in_header_or_body_is_detected(
            body in proptest::collection::vec(any::<u8>(), 1..500),
            bit in any::<prop::sample::Index>(),
        ) {
            let mut bytes = encoded(&message(body));
            let bit = bit.index(bytes.len() * 8);
            // The payload of the control cell has no check of its own, as in ATM: the links below
            // have theirs.
            prop_assume!(!(HEADER * 8..CELL * 8).contains(&bit));
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(Message::decode(CONNECTION, &bytes).is_err());
        }
    }
}
