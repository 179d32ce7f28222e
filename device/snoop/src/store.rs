//! A store, and its record in the ring.
//!
//! | byte | field |
//! |---|---|
//! | 0 | guest-physical address, little-endian u64 |
//! | 8 | the value, as it lies in memory from that address on; 16 bytes, of which the first are it |
//! | 24 | its width in bytes, 1 to 16, little-endian u32 |
//! | 28 | the processor's number, little-endian u32 |

use thiserror::Error;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::layout::PAGE;

/// Bytes of a record.
pub(crate) const RECORD_BYTES: usize = size_of::<Record>();
/// Bytes of the widest store. A wider one is several.
pub(crate) const WIDEST: usize = 16;

/// A store to ordinary memory. It lies in one page: one that crosses a page is two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Store {
    /// The processor that made it.
    pub processor: u32,
    /// The guest-physical address of its first byte.
    pub address: u64,
    width: u8,
    value: [u8; WIDEST],
}

/// Why a record is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum RecordError {
    /// No store has so many bytes.
    #[error("a store of {0} bytes is told (from 1 to {WIDEST})")]
    Width(u32),
    /// It would reach into the next page.
    #[error("a store of {width} bytes at {address:#x} is told, which is not in one page")]
    Crosses {
        /// Its first byte.
        address: u64,
        /// Its bytes.
        width: u8,
    },
    /// There is no such page.
    #[error("a store to page {page} is told (limit {limit})")]
    Page {
        /// Which.
        page: u64,
        /// How many there are.
        limit: u64,
    },
}

#[derive(Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Record {
    address: U64,
    value: [u8; WIDEST],
    width: U32,
    processor: U32,
}

impl Store {
    /// A store of these bytes, of which there are at most 16; they lie in one page.
    pub(crate) fn new(processor: u32, address: u64, bytes: &[u8]) -> Store {
        let mut value = [0; WIDEST];
        let width = bytes.len().min(WIDEST);
        value[..width].copy_from_slice(&bytes[..width]);
        Store { processor, address, width: width as u8, value }
    }

    /// The bytes that it wrote, 1 to 16.
    pub fn bytes(&self) -> &[u8] {
        &self.value[..usize::from(self.width)]
    }

    /// The number of the page that it is in.
    pub fn page(&self) -> u64 {
        self.address / PAGE
    }

    pub(crate) fn to_record(self) -> [u8; RECORD_BYTES] {
        let record = Record {
            address: self.address.into(),
            value: self.value,
            width: u32::from(self.width).into(),
            processor: self.processor.into(),
        };
        zerocopy::transmute!(record)
    }

    /// Checks a record that was copied out.
    pub(crate) fn parse(record: [u8; RECORD_BYTES], pages: u64) -> Result<Store, RecordError> {
        let record: Record = zerocopy::transmute!(record);
        let (address, width) = (record.address.get(), record.width.get());
        if !(1..=WIDEST as u32).contains(&width) {
            return Err(RecordError::Width(width));
        }
        if address / PAGE >= pages {
            return Err(RecordError::Page { page: address / PAGE, limit: pages });
        }
        if address % PAGE + u64::from(width) > PAGE {
            return Err(RecordError::Crosses { address, width: width as u8 });
        }
        Ok(Store::new(record.processor.get(), address, &record.value[..width as usize]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_record_has_32_bytes() {
        assert_eq!(RECORD_BYTES, 32);
    }

    proptest! {
        #[test]
        fn a_store_comes_as_it_was_made(
            page in 0u64..100, offset in 0u64..PAGE, bytes in prop::collection::vec(any::<u8>(), 1..=16), processor: u32,
        ) {
            let offset = offset.min(PAGE - bytes.len() as u64);
            let store = Store::new(processor, page * PAGE + offset, &bytes);
            let parsed = Store::parse(store.to_record(), 100).unwrap();
            prop_assert_eq!(parsed, store);
            prop_assert_eq!(parsed.bytes(), &bytes[..]);
            prop_assert_eq!(parsed.page(), page);
        }

        #[test]
        fn whatever_a_record_says_a_store_makes_sense(record: [u8; 32], width in 0u8..20, pages in 1u64..1 << 28) {
            let mut near = record;
            // Most random ones are refused at once.
            near[5..8].fill(0);
            near[24..28].copy_from_slice(&[width, 0, 0, 0]);
            for record in [record, near] {
                if let Ok(store) = Store::parse(record, pages) {
                    prop_assert!((1..=16).contains(&store.bytes().len()));
                    prop_assert!(store.page() < pages);
                    prop_assert_eq!((store.address + store.bytes().len() as u64 - 1) / PAGE, store.page());
                    prop_assert_eq!(store.bytes(), &record[8..8 + store.bytes().len()]);
                }
            }
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_name() {
        let with = |address: u64, width: u32| {
            let mut record = Store::new(0, address, &[1]).to_record();
            record[24..28].copy_from_slice(&width.to_le_bytes());
            Store::parse(record, 4)
        };
        assert_eq!(with(0, 0), Err(RecordError::Width(0)));
        assert_eq!(with(0, 17), Err(RecordError::Width(17)));
        assert_eq!(with(4 * PAGE, 1), Err(RecordError::Page { page: 4, limit: 4 }));
        assert_eq!(with(u64::MAX, 1), Err(RecordError::Page { page: u64::MAX / PAGE, limit: 4 }));
        assert_eq!(with(PAGE - 1, 2), Err(RecordError::Crosses { address: PAGE - 1, width: 2 }));
        assert!(with(PAGE - 16, 16).is_ok() && with(4 * PAGE - 1, 1).is_ok());
    }
}
