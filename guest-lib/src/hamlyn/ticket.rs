//! Tickets: permission to write into a slot (section 3.2).

use std::fmt;
use std::ops::BitOr;
use std::str::FromStr;

use hamlyn_abi::hamlyn::request::{HAMLYN_FAST_MODE, HAMLYN_REQUEST_INTERRUPT, HAMLYN_REQUEST_SILENT};

use super::ticket_errors::{TICKET_SIZE, TICKET_VERSION, TicketError};
use crate::core::text::{read_hex, write_hex};
use crate::error::{self, Result};

/// Prefix of the text form; the digit is the version.
const PREFIX: &str = "hamlyn1:";
/// Magic number of the binary form.
const MAGIC: [u8; 2] = *b"HT";

/// Flags of messages sent with a ticket, in addition to the sender's own flags.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct TicketFlags(u32);

impl TicketFlags {
    /// The receiver gets no notification.
    pub const SILENT: Self = Self(HAMLYN_REQUEST_SILENT);
    /// The receiver is interrupted if it sleeps.
    pub const INTERRUPT: Self = Self(HAMLYN_REQUEST_INTERRUPT);

    /// Returns the bits as a request carries them.
    #[must_use]
    pub fn bits(self) -> u32 {
        self.0
    }

    fn from_bits(bits: u32) -> Option<Self> {
        (bits & !(HAMLYN_REQUEST_SILENT | HAMLYN_REQUEST_INTERRUPT) == 0).then_some(Self(bits))
    }
}

impl BitOr for TicketFlags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Permission to write into a part of a slot's message area. It is location-independent: it may be
/// sent in a message and used from any host (section 3.2).
///
/// The fields are public: only the key makes a ticket a capability, and the card checks everything
/// else.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ticket {
    /// Destination host id, 0 to 65,535.
    pub destination: u32,
    /// Slot number at the destination.
    pub slot: u32,
    /// Metadata entry for the message, or [`Ticket::FAST`].
    pub metadata_index: u32,
    /// Protection key.
    pub key: u64,
    /// Buffer base: offset of the first byte from the start of the message area.
    pub base: u32,
    /// Buffer bound: number of bytes from the base.
    pub length: u32,
    /// Flags that apply to every message.
    pub flags: TicketFlags,
}

impl Ticket {
    /// Metadata index of fast mode: single packets with a word of metadata (section 2.7).
    pub const FAST: u32 = HAMLYN_FAST_MODE;
    /// Size of the binary form, in bytes.
    pub const SIZE: usize = TICKET_SIZE;

    /// Returns true if messages use fast mode.
    #[must_use]
    pub fn is_fast(&self) -> bool {
        self.metadata_index == Self::FAST
    }

    /// Returns a ticket for `length` bytes of this ticket's buffer, starting at `offset`.
    ///
    /// # Errors
    /// [`error::Error::PastEnd`] if the range is not inside the buffer.
    pub fn part(&self, offset: u32, length: u32) -> Result<Self> {
        error::inside("ticket's buffer", offset.into(), length.into(), self.length.into())?;
        Ok(Self { base: self.base.saturating_add(offset), length, ..*self })
    }

    /// Returns the binary form, little-endian: `HT`, version, flags, destination, slot, metadata
    /// index, base, length, key, CRC-32 of everything before it.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        bytes[..2].copy_from_slice(&MAGIC);
        bytes[2..4].copy_from_slice(&TICKET_VERSION.to_le_bytes());
        let words =
            [self.flags.bits(), self.destination, self.slot, self.metadata_index, self.base, self.length];
        for (place, word) in bytes[4..28].chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes[28..36].copy_from_slice(&self.key.to_le_bytes());
        let sum = crc32fast::hash(&bytes[..36]);
        bytes[36..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Reads the binary form.
    ///
    /// # Errors
    /// [`TicketError`] with the reason if it is not valid.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, TicketError> {
        let length = bytes.len();
        let bytes: &[u8; Self::SIZE] = bytes.try_into().map_err(|_| TicketError::Size { length })?;
        if bytes[..2] != MAGIC {
            return Err(TicketError::Magic);
        }
        let version = u16::from_le_bytes([bytes[2], bytes[3]]);
        if version != TICKET_VERSION {
            return Err(TicketError::Version { version });
        }
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let (stored, computed) = (word(36), crc32fast::hash(&bytes[..36]));
        if stored != computed {
            return Err(TicketError::Checksum { stored, computed });
        }
        let destination = word(8);
        if destination > u32::from(u16::MAX) {
            return Err(TicketError::Destination { destination });
        }
        let flags = TicketFlags::from_bits(word(4)).ok_or(TicketError::Flags { flags: word(4) })?;
        Ok(Self {
            destination,
            slot: word(12),
            metadata_index: word(16),
            base: word(20),
            length: word(24),
            key: u64::from(word(28)) | u64::from(word(32)) << 32,
            flags,
        })
    }
}

/// The text form: `hamlyn1:` and the binary form in hexadecimal.
impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(f, PREFIX, &self.to_bytes())
    }
}

/// Shows everything except the key, which is a secret.
impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket")
            .field("destination", &self.destination)
            .field("slot", &self.slot)
            .field("metadata_index", &self.metadata_index)
            .field("base", &self.base)
            .field("length", &self.length)
            .field("flags", &self.flags)
            .finish_non_exhaustive()
    }
}

impl FromStr for Ticket {
    type Err = TicketError;

    fn from_str(text: &str) -> Result<Self, TicketError> {
        Self::from_bytes(&read_hex::<{ Self::SIZE }>(PREFIX, text)?)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tickets() -> impl Strategy<Value = Ticket> {
        let place = (0..=0xffff_u32, any::<u32>(), any::<u32>(), any::<u64>(), any::<u32>(), any::<u32>());
        (place, 0..4_u32).prop_map(|((destination, slot, metadata_index, key, base, length), flags)| Ticket {
            destination,
            slot,
            metadata_index,
            key,
            base,
            length,
            flags: TicketFlags(flags << 1),
        })
    }

    proptest! {
        #[test]
        fn both_forms_come_back(ticket in tickets()) {
            prop_assert_eq!(Ticket::from_bytes(&ticket.to_bytes()), Ok(ticket));
            prop_assert_eq!(ticket.to_string().parse(), Ok(ticket));
        }

        #[test]
        fn a_changed_byte_is_found(ticket in tickets(), at in 0..Ticket::SIZE, change in 1..=255_u8) {
            let mut bytes = ticket.to_bytes();
            bytes[at] ^= change;
            prop_assert!(Ticket::from_bytes(&bytes).is_err());
        }

        #[test]
        fn a_changed_character_is_found(ticket in tickets(), at in 0..88_usize, other in any::<char>()) {
            let mut text: Vec<char> = ticket.to_string().chars().collect();
            prop_assume!(text[at] != other);
            text[at] = other;
            prop_assert!(text.into_iter().collect::<String>().parse::<Ticket>().is_err());
        }

        #[test]
        fn a_cut_or_grown_ticket_is_refused(ticket in tickets(), length in 0..100_usize) {
            let mut text = ticket.to_string();
            prop_assume!(length != text.len());
            text.truncate(length);
            while text.len() < length {
                text.push('0');
            }
            prop_assert!(text.parse::<Ticket>().is_err());
            let mut bytes = ticket.to_bytes().to_vec();
            bytes.resize(length, 0);
            prop_assert_eq!(Ticket::from_bytes(&bytes).is_err(), length != Ticket::SIZE);
        }

        #[test]
        fn any_text_is_read_or_refused(text in ".*") {
            let _ = text.parse::<Ticket>();
            let _ = format!("{PREFIX}{text}").parse::<Ticket>();
        }
    }

    #[test]
    fn errors_name_object_value_and_limit() {
        let bytes = Ticket { destination: 70_000, ..sample() }.to_bytes();
        assert_eq!(
            Ticket::from_bytes(&bytes).unwrap_err().to_string(),
            "ticket destination 70000 is out of range (limit 65535)"
        );
        let bytes = Ticket { flags: TicketFlags(9), ..sample() }.to_bytes();
        assert_eq!(
            Ticket::from_bytes(&bytes).unwrap_err().to_string(),
            "ticket flags 0x9 mean nothing (limit 0x6)"
        );
        assert_eq!("hamlyn2:00".parse::<Ticket>(), Err(TicketError::Prefix));
        assert_eq!("hamlyn1:00".parse::<Ticket>(), Err(TicketError::Digits { digits: 2 }));
    }

    #[test]
    fn the_key_is_not_in_the_debug_form() {
        assert!(!format!("{:?}", Ticket { key: 123_454_321, ..sample() }).contains("123454321"));
    }

    #[test]
    fn a_part_lies_inside() {
        let part = sample().part(10, 20).unwrap();
        assert_eq!((part.base, part.length), (110, 20));
        assert!(sample().part(10, 991).is_err());
        assert!(sample().part(u32::MAX, u32::MAX).is_err());
    }

    fn sample() -> Ticket {
        Ticket {
            destination: 1,
            slot: 2,
            metadata_index: 3,
            key: 4,
            base: 100,
            length: 1000,
            flags: TicketFlags::default(),
        }
    }
}
