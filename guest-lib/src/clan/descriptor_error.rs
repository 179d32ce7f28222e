//! Reasons why a descriptor is invalid.

use crate::core::error_kind::{ErrorKind, debug_is_display, model_errors};

/// Size of the binary form, in bytes.
pub(super) const SIZE: usize = 32;
/// Version of the binary form.
pub(super) const VERSION: u8 = 1;

/// Reasons why a descriptor is invalid.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DescriptorError {
    /// The text does not start with the prefix of a descriptor.
    #[error("descriptor does not start with \"clan1:\"")]
    Prefix,
    /// The text is too short or too long.
    #[error("descriptor has {digits} digits instead of {}", 2 * SIZE)]
    Digits {
        /// Number of bytes after the prefix.
        digits: usize,
    },
    /// A character is not a digit.
    #[error("descriptor has something else than 0 to 9 and a to f at position {position}")]
    Digit {
        /// Its position in the text, in bytes.
        position: usize,
    },
    /// There are too few or too many bytes.
    #[error("descriptor has {length} bytes instead of {}", SIZE)]
    Size {
        /// The number of bytes.
        length: usize,
    },
    /// The bytes do not start with the magic letters of a descriptor.
    #[error("descriptor does not start with the letters CL")]
    Magic,
    /// The version is unknown.
    #[error("descriptor version {version} is not known (limit {VERSION})")]
    Version {
        /// The version in the descriptor.
        version: u8,
    },
    /// The access rights have unknown bits.
    #[error("descriptor rights {rights:#x} are not known (limit 0x3)")]
    Rights {
        /// The rights in the descriptor.
        rights: u8,
    },
    /// The checksum is wrong.
    #[error("descriptor checksum {stored:#010x} is wrong (computed {computed:#010x})")]
    Checksum {
        /// The checksum in the descriptor.
        stored: u32,
        /// The checksum computed from its bytes.
        computed: u32,
    },
}

model_errors!("clan", DescriptorError => |_| ErrorKind::Invalid);
debug_is_display!(DescriptorError);
