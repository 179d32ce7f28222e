//! Connection data that the two ends of a channel exchange. Little-endian.

use crate::core::connection::MAX_PRIVATE;
use crate::core::place::PAGE;
use crate::error::{Error, Result};

/// Two letters, the version, zero.
const MAGIC: [u8; 4] = *b"CH\x02\x00";
/// Bytes before the address.
const HEAD: usize = 32;

/// One end: its requested capacity, the area of express memory that it receives in, if any, and its
/// address in the model's format.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Offer<'a> {
    pub(super) model: u32,
    pub(super) capacity: u64,
    /// The area's number and key.
    pub(super) area: Option<(u32, u64)>,
    pub(super) address: &'a [u8],
}

impl<'a> Offer<'a> {
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        debug_assert!(HEAD + self.address.len() <= MAX_PRIVATE);
        let mut bytes = MAGIC.to_vec();
        bytes.extend(self.model.to_le_bytes());
        bytes.extend(self.capacity.to_le_bytes());
        let (number, key) = self.area.unwrap_or_default();
        bytes.extend(u32::from(self.area.is_some()).to_le_bytes());
        bytes.extend(number.to_le_bytes());
        bytes.extend(key.to_le_bytes());
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
        let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|byte| head[at + byte]));
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        let (model_of_peer, capacity) = (word(4), long(8));
        let area = (word(16) != 0).then(|| (word(20), long(24)));
        if model_of_peer != model {
            return Err(Error::Malformed("an offer of a channel by another model's card"));
        }
        if capacity == 0 || capacity % PAGE as u64 != 0 {
            return Err(Error::Malformed("an offer of a channel with a ring of impossible length"));
        }
        Ok(Self { model, capacity, area, address })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn offer() -> Offer<'static> {
        Offer { model: 3, capacity: 61440, area: Some((7, 1 << 40)), address: b"where" }
    }

    #[test]
    fn offer_parses_only_for_its_model() {
        let bytes = offer().to_bytes();
        assert_eq!(Offer::from_bytes(&bytes, 3).unwrap(), offer());
        let without = Offer { area: None, ..offer() };
        assert_eq!(Offer::from_bytes(&without.to_bytes(), 3).unwrap(), without);
        assert!(Offer::from_bytes(&bytes, 4).unwrap_err().to_string().contains("another model"));
    }

    proptest! {
        #[test]
        fn corrupted_offer_is_parsed_or_refused(at in 0..37_usize, byte: u8, length in 0..50_usize) {
            let mut bytes = offer().to_bytes();
            bytes[at] = byte;
            bytes.resize(length, byte);
            if let Ok(read) = Offer::from_bytes(&bytes, 3) {
                prop_assert!(read.capacity != 0 && read.capacity % 4096 == 0);
            }
        }
    }
}
