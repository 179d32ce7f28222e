//! Seeds: what a sender is created from (section 3.3).

use std::fmt;
use std::str::FromStr;

use super::ticket::Ticket;
use super::ticket_errors::{MAX_TICKETS, SEED_SIZE, SeedError};
use crate::core::text::{read_hex, write_hex};
use crate::error::Result;

/// Prefix of the text form; the digit is the version.
const PREFIX: &str = "hamlynseed1:";
/// Magic number of the binary form: two letters and the version.
const MAGIC: [u8; 4] = *b"HG\x01\x00";
/// Number of bytes that the checksum covers.
const COVERED: usize = SEED_SIZE - 4;

/// A receiver gives a seed to its sender: tickets for buffers that already exist. A sender of the
/// same protocol is created from the seed, on this host or another (section 3.3).
///
/// Like a [`Ticket`], it is location-independent and a capability.
#[derive(Clone, PartialEq, Eq)]
pub struct Seed {
    /// The ticket of the first buffer. The other buffers follow it, in the area and among the
    /// metadata entries.
    first: Ticket,
    /// Number of tickets.
    tickets: u32,
}

impl Seed {
    /// Size of the binary form, in bytes.
    pub const SIZE: usize = SEED_SIZE;
    /// Maximum number of tickets in a seed.
    pub const MAX_TICKETS: u32 = MAX_TICKETS;

    /// Creates a seed with `tickets` tickets, one per buffer.
    pub(crate) fn new(first: Ticket, tickets: u32) -> Result<Self, SeedError> {
        if tickets == 0 || tickets > Self::MAX_TICKETS {
            return Err(SeedError::Tickets { tickets });
        }
        if first.length == 0 {
            return Err(SeedError::Empty);
        }
        let last = u64::from(tickets) - 1;
        let end = u64::from(first.base) + u64::from(first.length) * u64::from(tickets);
        if end > 1 << 32 || u64::from(first.metadata_index) + last >= u64::from(Ticket::FAST) {
            return Err(SeedError::Extent);
        }
        Ok(Self { first, tickets })
    }

    /// Returns the size of a buffer, in bytes.
    #[must_use]
    pub fn record_size(&self) -> u32 {
        self.first.length
    }

    /// Returns the destination host of the tickets.
    pub(crate) fn destination(&self) -> u32 {
        self.first.destination
    }

    /// Returns the tickets.
    pub fn tickets(&self) -> impl Iterator<Item = Ticket> + '_ {
        (0..self.tickets).map(|index| Ticket {
            metadata_index: self.first.metadata_index + index,
            base: self.first.base + self.first.length * index,
            ..self.first
        })
    }

    /// Returns the binary form, little-endian: `HG`, version, the first ticket, the number of
    /// tickets, CRC-32 of everything before it.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..COVERED - 4].copy_from_slice(&self.first.to_bytes());
        bytes[COVERED - 4..COVERED].copy_from_slice(&self.tickets.to_le_bytes());
        let sum = crc32fast::hash(&bytes[..COVERED]);
        bytes[COVERED..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Reads the binary form.
    ///
    /// # Errors
    /// [`SeedError`] with the reason if it is not valid.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, SeedError> {
        let length = bytes.len();
        let bytes: &[u8; Self::SIZE] = bytes.try_into().map_err(|_| SeedError::Size { length })?;
        if bytes[..4] != MAGIC {
            return Err(SeedError::Magic);
        }
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let (stored, computed) = (word(COVERED), crc32fast::hash(&bytes[..COVERED]));
        if stored != computed {
            return Err(SeedError::Checksum { stored, computed });
        }
        Self::new(Ticket::from_bytes(&bytes[4..COVERED - 4])?, word(COVERED - 4))
    }
}

/// The text form: `hamlynseed1:` and the binary form in hexadecimal.
impl fmt::Display for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(f, PREFIX, &self.to_bytes())
    }
}

/// Shows everything except the key, which is a secret.
impl fmt::Debug for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seed").field("first", &self.first).field("tickets", &self.tickets).finish()
    }
}

impl FromStr for Seed {
    type Err = SeedError;

    fn from_str(text: &str) -> Result<Self, SeedError> {
        Self::from_bytes(&read_hex::<{ Self::SIZE }>(PREFIX, text)?)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::hamlyn::ticket::TicketFlags;

    fn ticket(base: u32, length: u32, metadata_index: u32) -> Ticket {
        let flags = TicketFlags::INTERRUPT;
        Ticket { destination: 7, slot: 8, metadata_index, key: 123_454_321, base, length, flags }
    }

    proptest! {
        #[test]
        fn both_forms_come_back(base: u16, length in 1..=u16::MAX, index: u16, tickets in 1..=65536_u32) {
            let seed = Seed::new(ticket(base.into(), length.into(), index.into()), tickets).unwrap();
            prop_assert_eq!(Seed::from_bytes(&seed.to_bytes()), Ok(seed.clone()));
            prop_assert_eq!(seed.to_string().parse(), Ok(seed.clone()));
            prop_assert_eq!(seed.tickets().count(), tickets as usize);
        }

        #[test]
        fn a_changed_byte_is_found(at in 0..Seed::SIZE, change in 1..=255_u8) {
            let mut bytes = Seed::new(ticket(0, 64, 0), 16).unwrap().to_bytes();
            bytes[at] ^= change;
            prop_assert!(Seed::from_bytes(&bytes).is_err());
        }

        /// A forged seed with correct checksums gives tickets or an error.
        #[test]
        fn any_forgery_is_read_or_refused(base: u32, length: u32, index: u32, tickets: u32) {
            let forged = Seed { first: ticket(base, length, index), tickets };
            if let Ok(seed) = Seed::from_bytes(&forged.to_bytes()) {
                prop_assert!(seed.tickets().count() <= 65536);
            }
        }

        #[test]
        fn any_text_is_read_or_refused(text in ".*") {
            let _ = text.parse::<Seed>();
            let _ = format!("{PREFIX}{text}").parse::<Seed>();
        }
    }

    #[test]
    fn tickets_lie_side_by_side() {
        let seed = Seed::new(ticket(100, 64, 3), 3).unwrap();
        let places: Vec<_> = seed.tickets().map(|ticket| (ticket.base, ticket.metadata_index)).collect();
        assert_eq!(places, [(100, 3), (164, 4), (228, 5)]);
    }

    #[test]
    fn limits_are_named() {
        let error = |ticket, tickets| Seed::new(ticket, tickets).unwrap_err().to_string();
        assert_eq!(error(ticket(0, 1, 0), 0), "0 tickets in a seed are out of range (limits 1 and 65536)");
        assert_eq!(error(ticket(0, 1 << 20, 0), 4097), "the seed's tickets reach past the end of any area");
        assert!(Seed::new(ticket(0, 1 << 20, 0), 4096).is_ok());
        assert_eq!(Seed::new(ticket(0, 1, u32::MAX - 1), 2), Err(SeedError::Extent));
        assert_eq!(error(ticket(0, 0, 0), 2), "the seed's tickets open no bytes");
    }

    #[test]
    fn the_key_is_not_in_the_debug_form() {
        assert!(!format!("{:?}", Seed::new(ticket(0, 1, 0), 1).unwrap()).contains("123454321"));
    }
}
