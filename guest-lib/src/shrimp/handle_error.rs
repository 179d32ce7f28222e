//! Reasons why a handle is invalid.

use crate::core::error_kind::{ErrorKind, debug_is_display, model_errors};

use super::pieces::{MAX_BUFFER, PIECES};

/// Size of the fields before the exports, and of each export, in bytes.
pub(super) const HEAD: usize = 24;
pub(super) const EACH: usize = 12;
/// Size of the binary form, in bytes.
pub(super) const SIZE: usize = HEAD + PIECES * EACH;
/// Version of the binary form.
pub(super) const VERSION: u16 = 2;

/// Reasons why a handle is invalid.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HandleError {
    /// The text does not start with the prefix of a handle.
    #[error("handle does not start with \"shrimp2:\"")]
    Prefix,
    /// The text is too short or too long.
    #[error("handle has {digits} digits, not {} and {} for each export", 2 * HEAD, 2 * EACH)]
    Digits {
        /// Number of bytes after the prefix.
        digits: usize,
    },
    /// A character is not a digit.
    #[error("handle has something else than 0 to 9 and a to f at position {position}")]
    Digit {
        /// Its position in the text, in bytes.
        position: usize,
    },
    /// There are too few or too many bytes.
    #[error("handle has {length} bytes instead of {}", SIZE)]
    Size {
        /// The number of bytes.
        length: usize,
    },
    /// The bytes do not start with the magic letters of a handle.
    #[error("handle does not start with the letters SH")]
    Magic,
    /// The version is unknown.
    #[error("handle version {version} is not known (limit {VERSION})")]
    Version {
        /// The version in the handle.
        version: u16,
    },
    /// The checksum is wrong.
    #[error("handle checksum {stored:#010x} is wrong (computed {computed:#010x})")]
    Checksum {
        /// The checksum in the handle.
        stored: u32,
        /// The checksum computed from its bytes.
        computed: u32,
    },
    /// A buffer cannot have this place and length.
    #[error(
        "handle has {length} bytes from byte {place} of a page on (limit {MAX_BUFFER} bytes from the page's start)"
    )]
    Range {
        /// Offset of the buffer's first byte in its page.
        place: u32,
        /// Length of the buffer in bytes.
        length: u64,
    },
}

model_errors!("shrimp", HandleError => |_| ErrorKind::Invalid);
debug_is_display!(HandleError);
