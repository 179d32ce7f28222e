//! Text forms of objects that processes pass to each other: a prefix with type and version,
//! followed by hexadecimal digits.

use std::fmt;

/// Writes the text form of `bytes`.
pub(crate) fn write_hex(f: &mut fmt::Formatter<'_>, prefix: &str, bytes: &[u8]) -> fmt::Result {
    f.write_str(prefix)?;
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

/// Parses the text form of `N` bytes.
pub(crate) fn read_hex<const N: usize>(prefix: &str, text: &str) -> Result<[u8; N], TextError> {
    let digits = text.strip_prefix(prefix).ok_or(TextError::Prefix)?.as_bytes();
    if digits.len() != 2 * N {
        return Err(TextError::Digits { digits: digits.len() });
    }
    let mut bytes = [0; N];
    for (position, digit) in digits.iter().enumerate() {
        let value = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return Err(TextError::Digit { position: prefix.len() + position }),
        };
        bytes[position / 2] = bytes[position / 2] << 4 | value;
    }
    Ok(bytes)
}

/// Why a text is not valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextError {
    /// The prefix is wrong.
    Prefix,
    /// There are too few or too many digits.
    Digits { digits: usize },
    /// A character is not a digit.
    Digit { position: usize },
}
