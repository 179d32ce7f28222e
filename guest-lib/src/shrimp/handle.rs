//! What names a receive buffer to those who may map theirs to it.

use std::fmt;
use std::str::FromStr;

use crate::core::text::{TextError, read_hex, write_hex};

const MAGIC: [u8; 2] = *b"SH";
const VERSION: u16 = 1;
const PREFIX: &str = "shrimp1:";

/// The `receive-buf` and `destination` of section 2's `map`: which memory of which host. Who has it, and is one of the hosts
/// that the owner allows, may store there: the key is a secret.
///
/// It is handed on as text ([`fmt::Display`], [`FromStr`]), or as bytes in a connection's private data.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Handle {
    /// The host id.
    pub node: u32,
    /// The number of the export there.
    pub export: u32,
    /// The export's key.
    pub key: u64,
    /// Bytes of the buffer.
    pub length: u64,
}

impl Handle {
    /// Size of the binary form, in bytes.
    pub const SIZE: usize = 32;

    /// A handle of what another program told in its own way.
    #[must_use]
    pub fn new(node: u32, export: u32, key: u64, length: u64) -> Self {
        Self { node, export, key, length }
    }

    /// The binary form: little-endian; `SH`, version, host, export, key, length, CRC-32 of all before it.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        bytes[..2].copy_from_slice(&MAGIC);
        bytes[2..4].copy_from_slice(&VERSION.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.node.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.export.to_le_bytes());
        bytes[12..20].copy_from_slice(&self.key.to_le_bytes());
        bytes[20..28].copy_from_slice(&self.length.to_le_bytes());
        let sum = crc32fast::hash(&bytes[..28]);
        bytes[28..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Reads the binary form.
    ///
    /// # Errors
    /// [`HandleError`] says what is wrong with it.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, HandleError> {
        let length = bytes.len();
        let bytes: &[u8; Self::SIZE] = bytes.try_into().map_err(|_| HandleError::Size { length })?;
        if bytes[..2] != MAGIC {
            return Err(HandleError::Magic);
        }
        let version = u16::from_le_bytes([bytes[2], bytes[3]]);
        if version != VERSION {
            return Err(HandleError::Version { version });
        }
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        let (stored, computed) = (word(28), crc32fast::hash(&bytes[..28]));
        if stored != computed {
            return Err(HandleError::Checksum { stored, computed });
        }
        Ok(Self { node: word(4), export: word(8), key: long(12), length: long(20) })
    }
}

/// The text form: `shrimp1:` and the binary form in hexadecimal.
impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(f, PREFIX, &self.to_bytes())
    }
}

/// Everything but the key, which is a secret.
impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle")
            .field("node", &self.node)
            .field("export", &self.export)
            .field("length", &self.length)
            .finish_non_exhaustive()
    }
}

impl FromStr for Handle {
    type Err = HandleError;

    fn from_str(text: &str) -> Result<Self, HandleError> {
        let bytes = read_hex::<{ Self::SIZE }>(PREFIX, text).map_err(|error| match error {
            TextError::Prefix => HandleError::Prefix,
            TextError::Digits { digits } => HandleError::Digits { digits },
            TextError::Digit { position } => HandleError::Digit { position },
        })?;
        Self::from_bytes(&bytes)
    }
}

/// What is wrong with a handle.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HandleError {
    /// The text does not start as a handle does.
    #[error("handle does not start with \"shrimp1:\"")]
    Prefix,
    /// The text is too short or too long.
    #[error("handle has {digits} digits instead of {}", 2 * Handle::SIZE)]
    Digits {
        /// Bytes behind the prefix.
        digits: usize,
    },
    /// A character is not a digit.
    #[error("handle has something else than 0 to 9 and a to f at position {position}")]
    Digit {
        /// Its position in the text, in bytes.
        position: usize,
    },
    /// The bytes are too few or too many.
    #[error("handle has {length} bytes instead of {}", Handle::SIZE)]
    Size {
        /// How many.
        length: usize,
    },
    /// The bytes do not start as a handle does.
    #[error("handle does not start with the letters SH")]
    Magic,
    /// It is of another version.
    #[error("handle version {version} is not known (limit {VERSION})")]
    Version {
        /// Which.
        version: u16,
    },
    /// It was changed on the way.
    #[error("handle checksum {stored:#010x} is wrong (computed {computed:#010x})")]
    Checksum {
        /// What it carries.
        stored: u32,
        /// What its bytes give.
        computed: u32,
    },
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::core::connection::MAX_PRIVATE;

    fn handles() -> impl Strategy<Value = Handle> {
        (any::<u32>(), any::<u32>(), any::<u64>(), any::<u64>())
            .prop_map(|(node, export, key, length)| Handle::new(node, export, key, length))
    }

    proptest! {
        #[test]
        fn both_forms_come_back(handle in handles()) {
            prop_assert_eq!(Handle::from_bytes(&handle.to_bytes()), Ok(handle));
            prop_assert_eq!(handle.to_string().parse(), Ok(handle));
        }

        #[test]
        fn a_changed_byte_is_found(handle in handles(), at in 0..Handle::SIZE, change in 1..=255_u8) {
            let mut bytes = handle.to_bytes();
            bytes[at] ^= change;
            prop_assert!(Handle::from_bytes(&bytes).is_err());
        }

        #[test]
        fn a_cut_or_grown_handle_is_refused(handle in handles(), length in 0..100_usize) {
            let mut bytes = handle.to_bytes().to_vec();
            bytes.resize(length, 0);
            prop_assert_eq!(Handle::from_bytes(&bytes).is_err(), length != Handle::SIZE);
        }

        #[test]
        fn any_text_is_read_or_refused(text in ".*") {
            let _ = text.parse::<Handle>();
            let _ = format!("{PREFIX}{text}").parse::<Handle>();
        }
    }

    #[test]
    fn it_fits_into_private_data_and_keeps_its_key_to_itself() {
        const { assert!(Handle::SIZE <= MAX_PRIVATE) };
        assert!(!format!("{:?}", Handle::new(1, 2, 123_454_321, 4)).contains("123454321"));
        assert_eq!("hamlyn1:00".parse::<Handle>(), Err(HandleError::Prefix));
        assert_eq!("shrimp1:00".parse::<Handle>(), Err(HandleError::Digits { digits: 2 }));
    }
}
