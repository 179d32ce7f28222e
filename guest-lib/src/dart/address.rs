//! Addresses of connections.

use std::fmt;
use std::str::FromStr;

use crate::core::error_kind::{ErrorKind, debug_is_display, model_errors};
use crate::core::text::{TextError, read_hex, write_hex};

const MAGIC: [u8; 2] = *b"DA";
const VERSION: u8 = 1;
const PREFIX: &str = "dart1:";

/// The address of a connection: its host, its number there, and its key. Every holder can become
/// the other end; the key is a secret.
///
/// An address is passed on as text ([`fmt::Display`], [`FromStr`]), or as 24 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Address {
    pub(super) host: u32,
    pub(super) number: u32,
    pub(super) key: u64,
}

impl Address {
    /// Size of the binary form, in bytes.
    pub const SIZE: usize = 24;

    /// Creates an address from values that another program passed in a format of its own.
    #[must_use]
    pub fn new(host: u32, number: u32, key: u64) -> Self {
        Self { host, number, key }
    }

    /// Returns the connection's host.
    #[must_use]
    pub fn host(&self) -> u32 {
        self.host
    }

    /// Returns the connection's number at its host.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Returns the binary form.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        bytes[..2].copy_from_slice(&MAGIC);
        bytes[2] = VERSION;
        bytes[4..8].copy_from_slice(&self.host.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.number.to_le_bytes());
        bytes[12..20].copy_from_slice(&self.key.to_le_bytes());
        let sum = crc32fast::hash(&bytes[..20]);
        bytes[20..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Parses the binary form.
    ///
    /// # Errors
    /// [`AddressError`] describes the problem.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, AddressError> {
        let length = bytes.len();
        let bytes: &[u8; Self::SIZE] = bytes.try_into().map_err(|_| AddressError::Size { length })?;
        if bytes[..2] != MAGIC || bytes[3] != 0 {
            return Err(AddressError::Magic);
        }
        if bytes[2] != VERSION {
            return Err(AddressError::Version { version: bytes[2] });
        }
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let (stored, computed) = (word(20), crc32fast::hash(&bytes[..20]));
        if stored != computed {
            return Err(AddressError::Checksum { stored, computed });
        }
        Ok(Self { host: word(4), number: word(8), key: u64::from(word(12)) | u64::from(word(16)) << 32 })
    }
}

/// The text form: `dart1:` and the binary form in hexadecimal.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(f, PREFIX, &self.to_bytes())
    }
}

/// Prints everything but the key, which is a secret.
impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Address");
        shown.field("host", &self.host).field("number", &self.number).finish_non_exhaustive()
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let bytes = read_hex::<{ Self::SIZE }>(PREFIX, text).map_err(|error| match error {
            TextError::Prefix => AddressError::Prefix,
            TextError::Digits { digits } => AddressError::Digits { digits },
            TextError::Digit { position } => AddressError::Digit { position },
        })?;
        Self::from_bytes(&bytes)
    }
}

/// Reasons why an address is invalid.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// The text does not start with the prefix of an address.
    #[error("address does not start with \"dart1:\"")]
    Prefix,
    /// The text is too short or too long.
    #[error("address has {digits} digits instead of {}", 2 * Address::SIZE)]
    Digits {
        /// Number of bytes after the prefix.
        digits: usize,
    },
    /// A character is not a digit.
    #[error("address has something else than 0 to 9 and a to f at position {position}")]
    Digit {
        /// Its position in the text, in bytes.
        position: usize,
    },
    /// There are too few or too many bytes.
    #[error("address has {length} bytes instead of {}", Address::SIZE)]
    Size {
        /// The number of bytes.
        length: usize,
    },
    /// The bytes do not start with the magic letters of an address.
    #[error("address does not start with the letters DA")]
    Magic,
    /// The version is unknown.
    #[error("address version {version} is not known (limit {VERSION})")]
    Version {
        /// The version in the address.
        version: u8,
    },
    /// The checksum is wrong.
    #[error("address checksum {stored:#010x} is wrong (computed {computed:#010x})")]
    Checksum {
        /// The checksum in the address.
        stored: u32,
        /// The checksum computed from its bytes.
        computed: u32,
    },
}

model_errors!("dart", AddressError => |_| ErrorKind::Invalid);
debug_is_display!(AddressError);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn addresses() -> impl Strategy<Value = Address> {
        any::<(u32, u32, u64)>().prop_map(|(host, number, key)| Address::new(host, number, key))
    }

    proptest! {
        #[test]
        fn address_round_trips_in_both_forms(address in addresses()) {
            prop_assert_eq!(Address::from_bytes(&address.to_bytes()), Ok(address));
            prop_assert_eq!(address.to_string().parse(), Ok(address));
        }

        #[test]
        fn changed_byte_is_detected(address in addresses(), at in 0..Address::SIZE, change in 1..=255_u8) {
            let mut bytes = address.to_bytes();
            bytes[at] ^= change;
            prop_assert!(Address::from_bytes(&bytes).is_err());
        }

        #[test]
        fn arbitrary_text_does_not_panic(text in ".*") {
            let _ = text.parse::<Address>();
            let _ = format!("{PREFIX}{text}").parse::<Address>();
        }
    }

    #[test]
    fn debug_output_hides_key() {
        let text = format!("{:?}", Address::new(1, 64, 123_454_321));
        assert!(!text.contains("123454321"), "{text}");
        assert_eq!("clan1:00".parse::<Address>(), Err(AddressError::Prefix));
    }
}
