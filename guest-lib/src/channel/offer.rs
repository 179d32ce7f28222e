//! Connection data that the two ends of a channel exchange when cards carry it. Little-endian.

use crate::core::connection::MAX_PRIVATE;
use crate::core::place::PAGE;
use crate::error::{Error, Result};

/// Two letters, the version, zero.
const MAGIC: [u8; 4] = *b"CH\x01\x00";
/// Bytes before the address.
const HEAD: usize = 16;

/// One end: its requested capacity, and its address in the model's format.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Offer<'a> {
    pub(super) model: u32,
    pub(super) capacity: u64,
    pub(super) address: &'a [u8],
}

impl<'a> Offer<'a> {
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        debug_assert!(HEAD + self.address.len() <= MAX_PRIVATE);
        let mut bytes = MAGIC.to_vec();
        bytes.extend(self.model.to_le_bytes());
        bytes.extend(self.capacity.to_le_bytes());
        bytes.extend(self.address);
        bytes
    }

    /// Parses the offer of a peer whose card has this model.
    pub(super) fn from_bytes(bytes: &'a [u8], model: u32) -> Result<Self> {
        let other = Error::Malformed("an offer that is not of a channel, or of another version");
        let (head, address) = bytes.split_first_chunk::<HEAD>().ok_or(other)?;
        if head[..4] != MAGIC {
            return Err(Error::Malformed("an offer that is not of a channel, or of another version"));
        }
        let [model_of_peer, low, high] =
            [4, 8, 12].map(|at| u32::from_le_bytes(std::array::from_fn(|byte| head[at + byte])));
        let capacity = u64::from(low) | u64::from(high) << 32;
        if model_of_peer != model {
            return Err(Error::Malformed("an offer of a channel by another model's card"));
        }
        if capacity == 0 || capacity % PAGE as u64 != 0 {
            return Err(Error::Malformed("an offer of a channel with a ring of impossible length"));
        }
        Ok(Self { model, capacity, address })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn offer() -> Offer<'static> {
        Offer { model: 3, capacity: 61440, address: b"where" }
    }

    #[test]
    fn offer_parses_only_for_its_model() {
        let bytes = offer().to_bytes();
        assert_eq!(Offer::from_bytes(&bytes, 3).unwrap(), offer());
        assert!(Offer::from_bytes(&bytes, 4).unwrap_err().to_string().contains("another model"));
    }

    proptest! {
        #[test]
        fn corrupted_offer_is_parsed_or_refused(at in 0..21_usize, byte: u8, length in 0..30_usize) {
            let mut bytes = offer().to_bytes();
            bytes[at] = byte;
            bytes.resize(length, byte);
            if let Ok(read) = Offer::from_bytes(&bytes, 3) {
                prop_assert!(read.capacity != 0 && read.capacity % 4096 == 0);
            }
        }
    }
}
