//! The data that the two ends of a channel exchange when they connect. Little-endian.

use hamlyn_abi::family::area::ULN_MAX_AREA;

use crate::core::express::ring::HEADER;
use crate::error::{Error, Result};
use crate::hamlyn::ticket::Ticket;

/// Two letters, the version, zeros.
const MAGIC: [u8; 8] = *b"HX\x02\x00\x00\x00\x00\x00";
const SIZE: usize = 32 + Ticket::SIZE;

/// How one end receives: in an area of express memory. The ticket wakes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Offer {
    /// Size of its ring, in bytes.
    pub(super) capacity: u64,
    pub(super) area: u32,
    pub(super) key: u64,
    pub(super) ticket: Ticket,
}

impl Offer {
    pub(super) fn to_bytes(&self) -> [u8; SIZE] {
        let mut bytes = [0; SIZE];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..16].copy_from_slice(&self.capacity.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.area.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.key.to_le_bytes());
        bytes[32..].copy_from_slice(&self.ticket.to_bytes());
        bytes
    }

    /// Decodes an offer. `host` is the host that sent it: no peer may make this side ring a third
    /// host.
    pub(super) fn from_bytes(bytes: &[u8], host: u32) -> Result<Self> {
        let bytes: &[u8; SIZE] = bytes
            .try_into()
            .map_err(|_| Error::Malformed("an offer of a channel that is too short or long"))?;
        if bytes[..8] != MAGIC {
            return Err(Error::Malformed("an offer that is none of a channel, or of another version"));
        }
        let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]));
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        let capacity = long(8);
        if !(2 * HEADER..=ULN_MAX_AREA).contains(&capacity) || capacity % HEADER != 0 {
            return Err(Error::Malformed("an offer of a channel with a ring of impossible length"));
        }
        let ticket = Ticket::from_bytes(&bytes[32..])?;
        if ticket.destination != host {
            return Err(Error::Malformed("an offer of a channel that leads to another host"));
        }
        Ok(Self { capacity, area: word(16), key: long(24), ticket })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::hamlyn::ticket::TicketFlags;

    fn offer() -> Offer {
        let flags = TicketFlags::default();
        let ticket =
            Ticket { destination: 1, slot: 2, metadata_index: 3, key: 4, base: 0, length: 16, flags };
        Offer { capacity: 65536, area: 7, key: 1 << 40, ticket }
    }

    #[test]
    fn offer_is_accepted_only_from_its_own_host() {
        let bytes = offer().to_bytes();
        assert!(bytes.len() <= crate::MAX_PRIVATE);
        assert_eq!(Offer::from_bytes(&bytes, 1).unwrap(), offer());
        let other = Offer::from_bytes(&bytes, 2).unwrap_err();
        assert_eq!(other.to_string(), "the peer sent an offer of a channel that leads to another host");
    }

    proptest! {
        #[test]
        fn anything_is_read_or_refused(at in 0..SIZE, byte: u8, length in 0..SIZE + 2) {
            let mut bytes = offer().to_bytes().to_vec();
            bytes[at] = byte;
            let _ = Offer::from_bytes(&bytes, 1);
            bytes.resize(length, byte);
            prop_assert!(length == SIZE || Offer::from_bytes(&bytes, 1).is_err());
        }
    }
}
