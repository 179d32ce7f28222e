//! Handles of receive buffers, by which other processes map send buffers to them.

use std::fmt;
use std::str::FromStr;

use hamlyn_abi::shrimp::uapi::SHRIMP_MAX_BUFFER;

use super::handle_error::{EACH, HEAD, HandleError, SIZE, VERSION};
use super::pieces::{MAX_BUFFER, PIECES, Piece, cut};
use crate::core::place::PAGE;
use crate::core::text::{TextError, read_hex, write_hex};

const MAGIC: [u8; 2] = *b"SH";
const PREFIX: &str = "shrimp2:";

/// The `receive-buf` and `destination` of section 2's `map`: the host and exports of some memory.
/// Every holder at a host that the owner allows may store there: the key is a secret.
///
/// A handle is passed on as text ([`fmt::Display`], [`FromStr`]), or as bytes in a connection's
/// private data.
///
/// The driver accepts at most 4 MiB in an export. A larger buffer has several exports, up to 4,
/// which the handle names.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Handle {
    /// The host id.
    pub node: u32,
    /// The number of the export at the host: of the first, if there are several.
    pub export: u32,
    /// The export's key.
    pub key: u64,
    /// Length of the buffer in bytes.
    pub length: u64,
    /// Offset of the buffer's first byte in its page. A byte arrives at the page offset at which it
    /// was stored (section 3.2).
    pub place: u32,
    /// Number and key of each of the other exports.
    more: [(u32, u64); PIECES - 1],
}

impl Handle {
    /// Size of the binary form, in bytes.
    pub const SIZE: usize = SIZE;

    /// Creates a handle from values that another program passed in a format of its own: a buffer of
    /// one export that begins at a page boundary.
    #[must_use]
    pub fn new(node: u32, export: u32, key: u64, length: u64) -> Self {
        Self { node, export, key, length, place: 0, more: [(0, 0); PIECES - 1] }
    }

    /// Creates the handle of a buffer that consists of these exports, in order.
    pub(super) fn of_exports(
        node: u32,
        place: usize,
        length: u64,
        mut exports: impl Iterator<Item = (u32, u64)>,
    ) -> Self {
        let mut next = || exports.next().unwrap_or_default();
        let (export, key) = next();
        Self {
            place: place as u32,
            more: [(); PIECES - 1].map(|()| next()),
            ..Self::new(node, export, key, length)
        }
    }

    /// Returns the page offset of a byte of the buffer.
    pub(super) fn place_of(&self, offset: u64) -> usize {
        ((u64::from(self.place) + offset) % PAGE as u64) as usize
    }

    /// Splits `length` bytes of the buffer from `offset` on into pieces, each in one export. The
    /// caller has checked the range.
    pub(super) fn pieces(self, offset: u64, length: u64) -> impl Iterator<Item = Piece> {
        let place = u64::from(self.place);
        cut(place + offset, length).map(move |(at, length)| {
            let index = (at / SHRIMP_MAX_BUFFER) as usize;
            let (export, key) = match index {
                0 => (self.export, self.key),
                index => self.more.get(index - 1).copied().unwrap_or_default(),
            };
            let begins = if index == 0 { place } else { at / SHRIMP_MAX_BUFFER * SHRIMP_MAX_BUFFER };
            Piece { export, key, offset: at - begins, length }
        })
    }

    /// Returns the binary form, little-endian: `SH`, version, a CRC-32 of all bytes with zero in
    /// its place, host, place, length. Number and key of each export follow, zero for unused
    /// exports.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        bytes[..2].copy_from_slice(&MAGIC);
        bytes[2..4].copy_from_slice(&VERSION.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.node.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.place.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.length.to_le_bytes());
        let exports = [(self.export, self.key)].into_iter().chain(self.more);
        for (bytes, (export, key)) in bytes[HEAD..].chunks_exact_mut(EACH).zip(exports) {
            bytes[..4].copy_from_slice(&export.to_le_bytes());
            bytes[4..].copy_from_slice(&key.to_le_bytes());
        }
        let sum = crc32fast::hash(&bytes);
        bytes[4..8].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Parses the binary form.
    ///
    /// # Errors
    /// [`HandleError`] describes the problem.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, HandleError> {
        let length = bytes.len();
        let mut bytes: [u8; Self::SIZE] = bytes.try_into().map_err(|_| HandleError::Size { length })?;
        if bytes[..2] != MAGIC {
            return Err(HandleError::Magic);
        }
        let version = u16::from_le_bytes([bytes[2], bytes[3]]);
        if version != VERSION {
            return Err(HandleError::Version { version });
        }
        let stored = word(&bytes, 4);
        bytes[4..8].fill(0);
        let computed = crc32fast::hash(&bytes);
        if stored != computed {
            return Err(HandleError::Checksum { stored, computed });
        }
        let export = |number: usize| {
            let at = HEAD + number * EACH;
            (word(&bytes, at), long(&bytes, at + 4))
        };
        let (place, length) = (word(&bytes, 12), long(&bytes, 16));
        let end = length.checked_add(place.into());
        if place as usize >= PAGE || end.is_none_or(|end| end > MAX_BUFFER) {
            return Err(HandleError::Range { place, length });
        }
        let exports = (0..PIECES).map(export);
        Ok(Self::of_exports(word(&bytes, 8), place as usize, length, exports))
    }

    /// Returns how many bytes of the binary form are in the text form, which omits unused exports.
    fn text_size(&self) -> usize {
        let end = self.length.saturating_add(self.place.into());
        HEAD + EACH * end.div_ceil(SHRIMP_MAX_BUFFER).clamp(1, PIECES as u64) as usize
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from(word(bytes, at)) | u64::from(word(bytes, at + 4)) << 32
}

/// The text form: `shrimp2:` and the binary form in hexadecimal, without unused exports.
impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(f, PREFIX, &self.to_bytes()[..self.text_size()])
    }
}

/// Prints everything but the keys, which are secrets.
impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle")
            .field("node", &self.node)
            .field("export", &self.export)
            .field("length", &self.length)
            .field("place", &self.place)
            .finish_non_exhaustive()
    }
}

impl FromStr for Handle {
    type Err = HandleError;

    fn from_str(text: &str) -> Result<Self, HandleError> {
        let digits = text.strip_prefix(PREFIX).ok_or(HandleError::Prefix)?.len();
        if !(2 * (HEAD + EACH)..=2 * Self::SIZE).contains(&digits) {
            return Err(HandleError::Digits { digits });
        }
        // Exports that the text omits are zero.
        let whole = format!("{text:0<width$}", width = PREFIX.len() + 2 * Self::SIZE);
        let bytes = read_hex::<{ Self::SIZE }>(PREFIX, &whole).map_err(|error| match error {
            TextError::Prefix => HandleError::Prefix,
            TextError::Digits { digits } => HandleError::Digits { digits },
            TextError::Digit { position } => HandleError::Digit { position },
        })?;
        let handle = Self::from_bytes(&bytes)?;
        if digits == 2 * handle.text_size() { Ok(handle) } else { Err(HandleError::Digits { digits }) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::core::connection::MAX_PRIVATE;

    fn handles() -> impl Strategy<Value = Handle> {
        let exports = proptest::collection::vec((any::<u32>(), any::<u64>()), PIECES);
        (any::<u32>(), 0..PAGE, 1..=MAX_BUFFER - PAGE as u64, exports).prop_map(
            |(node, place, length, exports)| {
                let needed = (place as u64 + length).div_ceil(SHRIMP_MAX_BUFFER) as usize;
                Handle::of_exports(node, place, length, exports.into_iter().take(needed))
            },
        )
    }

    proptest! {
        #[test]
        fn handle_round_trips_in_both_forms(handle in handles()) {
            prop_assert_eq!(Handle::from_bytes(&handle.to_bytes()), Ok(handle));
            prop_assert_eq!(handle.to_string().parse(), Ok(handle));
        }

        #[test]
        fn changed_byte_is_detected(handle in handles(), at in 0..Handle::SIZE, change in 1..=255_u8) {
            let mut bytes = handle.to_bytes();
            bytes[at] ^= change;
            prop_assert!(Handle::from_bytes(&bytes).is_err());
        }

        #[test]
        fn handle_of_wrong_size_is_refused(handle in handles(), length in 0..100_usize) {
            let mut bytes = handle.to_bytes().to_vec();
            bytes.resize(length, 0);
            prop_assert_eq!(Handle::from_bytes(&bytes).is_err(), length != Handle::SIZE);
        }

        #[test]
        fn arbitrary_text_does_not_panic(text in ".*") {
            let _ = text.parse::<Handle>();
            let _ = format!("{PREFIX}{text}").parse::<Handle>();
        }
    }

    #[test]
    fn handle_fits_into_private_data_and_hides_key() {
        // Together with two others.
        const { assert!(3 * Handle::SIZE <= MAX_PRIVATE) };
        assert!(!format!("{:?}", Handle::new(1, 2, 123_454_321, 4)).contains("123454321"));
        assert_eq!("hamlyn1:00".parse::<Handle>(), Err(HandleError::Prefix));
        assert_eq!("shrimp2:00".parse::<Handle>(), Err(HandleError::Digits { digits: 2 }));
    }

    #[test]
    fn text_has_only_needed_exports() {
        for (place, length, digits) in [(0, 4 << 20, 72), (16, 4 << 20, 96), (0, 16 << 20, 144)] {
            let handle = Handle::of_exports(1, place, length, (1..=4).map(|number| (number, 9)));
            assert_eq!(handle.to_string().len(), PREFIX.len() + digits, "{place} {length}");
        }
    }

    #[test]
    fn buffer_above_limit_is_refused() {
        for (place, length) in [(1, MAX_BUFFER), (PAGE, 1), (0, u64::MAX), (16, u64::MAX)] {
            let handle = Handle::of_exports(1, place, length, [(1, 2)].into_iter());
            let range = HandleError::Range { place: place as u32, length };
            assert_eq!(Handle::from_bytes(&handle.to_bytes()), Err(range));
        }
    }

    #[test]
    fn each_piece_has_export_and_offset() {
        const MIB: u64 = 1 << 20;
        let handle = Handle::of_exports(1, 16, 10 * MIB, [(5, 50), (6, 60), (7, 70)].into_iter());
        let pieces = |offset, length| {
            let pieces = handle.pieces(offset, length);
            pieces.map(|piece| (piece.export, piece.key, piece.offset, piece.length)).collect::<Vec<_>>()
        };
        assert_eq!(pieces(8, 100), [(5, 50, 8, 100)]);
        let whole = [(5, 50, 0, 4 * MIB - 16), (6, 60, 0, 4 * MIB), (7, 70, 0, 2 * MIB + 16)];
        assert_eq!(pieces(0, 10 * MIB), whole);
        assert_eq!(pieces(4 * MIB, 4 * MIB), [(6, 60, 16, 4 * MIB - 16), (7, 70, 0, 16)]);
        assert_eq!(handle.place_of(4 * MIB - 16), 0);
    }
}
