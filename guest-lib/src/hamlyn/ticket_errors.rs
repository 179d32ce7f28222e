//! Errors of tickets, and of seeds and shares, which hold tickets.

use crate::core::error_kind::{ErrorKind, debug_is_display, model_errors};
use crate::core::text::TextError;

/// Size of a ticket in binary form, in bytes.
pub(super) const TICKET_SIZE: usize = 40;
/// Version of a ticket's binary form.
pub(super) const TICKET_VERSION: u16 = 1;
/// Size of a seed in binary form, in bytes.
pub(super) const SEED_SIZE: usize = TICKET_SIZE + 12;
/// Size of a share in binary form, in bytes.
pub(super) const SHARE_SIZE: usize = TICKET_SIZE + 12;
/// Maximum number of tickets in a seed.
pub(super) const MAX_TICKETS: u32 = 65536;
/// Maximum number of parts that a share can be divided into at a time.
pub(super) const MAX_PARTS: usize = 65536;

/// Why a ticket is not valid.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TicketError {
    /// The text does not have a ticket's prefix.
    #[error("ticket does not start with \"hamlyn1:\"")]
    Prefix,
    /// The text is too short or too long.
    #[error("ticket has {digits} digits instead of {}", 2 * TICKET_SIZE)]
    Digits {
        /// Number of bytes after the prefix.
        digits: usize,
    },
    /// A character is not a digit.
    #[error("ticket has something else than 0 to 9 and a to f at position {position}")]
    Digit {
        /// Position in the text, in bytes.
        position: usize,
    },
    /// There are too few or too many bytes.
    #[error("ticket has {length} bytes instead of {}", TICKET_SIZE)]
    Size {
        /// Number of bytes.
        length: usize,
    },
    /// The bytes do not start with a ticket's magic number.
    #[error("ticket does not start with the letters HT")]
    Magic,
    /// The version is not known.
    #[error("ticket version {version} is not known (limit {TICKET_VERSION})")]
    Version {
        /// The version.
        version: u16,
    },
    /// The ticket is corrupted.
    #[error("ticket checksum {stored:#010x} is wrong (computed {computed:#010x})")]
    Checksum {
        /// Checksum in the ticket.
        stored: u32,
        /// Checksum of its bytes.
        computed: u32,
    },
    /// The destination is not a host id.
    #[error("ticket destination {destination} is out of range (limit 65535)")]
    Destination {
        /// The destination.
        destination: u32,
    },
    /// Undefined flag bits are set.
    #[error("ticket flags {flags:#x} mean nothing (limit 0x6)")]
    Flags {
        /// All flag bits.
        flags: u32,
    },
}

/// Why a seed is not valid.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SeedError {
    /// The text does not have a seed's prefix.
    #[error("seed does not start with \"hamlynseed1:\"")]
    Prefix,
    /// The text is too short or too long.
    #[error("seed has {digits} digits instead of {}", 2 * SEED_SIZE)]
    Digits {
        /// Number of bytes after the prefix.
        digits: usize,
    },
    /// A character is not a digit.
    #[error("seed has something else than 0 to 9 and a to f at position {position}")]
    Digit {
        /// Position in the text, in bytes.
        position: usize,
    },
    /// There are too few or too many bytes.
    #[error("seed has {length} bytes instead of {}", SEED_SIZE)]
    Size {
        /// Number of bytes.
        length: usize,
    },
    /// The bytes do not start with a seed's magic number.
    #[error("seed does not start with the letters HG and version 1")]
    Magic,
    /// The seed is corrupted.
    #[error("seed checksum {stored:#010x} is wrong (computed {computed:#010x})")]
    Checksum {
        /// Checksum in the seed.
        stored: u32,
        /// Checksum of its bytes.
        computed: u32,
    },
    /// There are no tickets, or too many.
    #[error("{tickets} tickets in a seed are out of range (limits 1 and {})", MAX_TICKETS)]
    Tickets {
        /// Number of tickets.
        tickets: u32,
    },
    /// The buffers have no bytes.
    #[error("the seed's tickets open no bytes")]
    Empty,
    /// The tickets exceed the largest possible message area or metadata area.
    #[error("the seed's tickets reach past the end of any area")]
    Extent,
    /// The ticket is not valid.
    #[error(transparent)]
    Ticket(#[from] TicketError),
}

/// Why a share is not valid, or cannot be divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShareError {
    /// Packets are not counted in fast mode.
    #[error("a fast-mode ticket cannot be shared by a group")]
    Fast,
    /// 0 parts, or too many.
    #[error("a share cannot be divided into {parts} parts (limit 1 to {})", MAX_PARTS)]
    Parts {
        /// Number of parts.
        parts: usize,
    },
    /// The parts' sizes do not add up to the share's size.
    #[error("parts of {given} bytes in all do not divide a share of {available} bytes")]
    Bytes {
        /// Bytes of the parts.
        given: u64,
        /// Bytes of the share.
        available: u64,
    },
    /// The counter value is too small.
    #[error("counter value {available} is too small for what it must serve (limit {needed})")]
    Counter {
        /// Minimum that would be sufficient.
        needed: u64,
        /// The counter value of the share.
        available: u64,
    },
    /// The text does not have a share's prefix.
    #[error("share does not start with \"hamlynshare1:\"")]
    Prefix,
    /// The text is too short or too long.
    #[error("share has {digits} digits instead of {}", 2 * SHARE_SIZE)]
    Digits {
        /// Number of bytes after the prefix.
        digits: usize,
    },
    /// A character is not a digit.
    #[error("share has something else than 0 to 9 and a to f at position {position}")]
    Digit {
        /// Position in the text, in bytes.
        position: usize,
    },
    /// There are too few or too many bytes.
    #[error("share has {length} bytes instead of {}", SHARE_SIZE)]
    Size {
        /// Number of bytes.
        length: usize,
    },
    /// The bytes do not start with the magic number of a share of this version.
    #[error("share does not start with the letters HS and version 1")]
    Magic,
    /// The share is corrupted.
    #[error("share checksum {stored:#010x} is wrong (computed {computed:#010x})")]
    Checksum {
        /// Checksum in the share.
        stored: u32,
        /// Checksum of its bytes.
        computed: u32,
    },
    /// The ticket is not valid.
    #[error(transparent)]
    Ticket(#[from] TicketError),
}

macro_rules! from_text_error {
    ($($error:ident),+) => {
        $(impl From<TextError> for $error {
            fn from(error: TextError) -> Self {
                match error {
                    TextError::Prefix => $error::Prefix,
                    TextError::Digits { digits } => $error::Digits { digits },
                    TextError::Digit { position } => $error::Digit { position },
                }
            }
        })+
    };
}

from_text_error!(TicketError, SeedError, ShareError);

model_errors!("hamlyn", TicketError => |_| ErrorKind::Invalid, SeedError => |_| ErrorKind::Invalid, ShareError => |_| ErrorKind::Invalid);
debug_is_display!(TicketError, SeedError);
