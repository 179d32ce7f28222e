//! A store, and its record in the ring.
//!
//! | byte | field |
//! |---|---|
//! | 0 | guest-physical address, little-endian u64 |
//! | 8 | 16 bytes: the value, as in memory from that address on; the first `width` are used |
//! | 24 | its width in bytes, 1 to 16, little-endian u32 |
//! | 28 | the processor's number, little-endian u32 |

use thiserror::Error;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Bytes of a page of guest memory.
pub const PAGE: u64 = 4096;
/// Bytes of a record.
pub(crate) const RECORD_BYTES: usize = size_of::<Record>();
/// Bytes of the widest store. A wider one is split into several.
pub(crate) const WIDEST: usize = 16;

/// A store to ordinary memory, within one page. A store that crosses a page is split into two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Store {
    /// The processor that made it.
    pub processor: u32,
    /// The guest-physical address of its first byte.
    pub address: u64,
    width: u8,
    value: [u8; WIDEST],
}

/// Why a record is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum RecordError {
    /// Invalid width of a store.
    #[error("a store of {0} bytes is told (from 1 to {WIDEST})")]
    Width(u32),
    /// The store would extend into the next page.
    #[error("a store of {width} bytes at {address:#x} is told, which is not in one page")]
    Crosses {
        /// Address of its first byte.
        address: u64,
        /// Width in bytes.
        width: u8,
    },
    /// The page does not exist.
    #[error("a store to page {page} is told (limit {limit})")]
    Page {
        /// The page.
        page: u64,
        /// Number of pages.
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
    /// Creates a store of at most 16 bytes in one page.
    pub(crate) fn new(processor: u32, address: u64, bytes: &[u8]) -> Store {
        let mut value = [0; WIDEST];
        let width = bytes.len().min(WIDEST);
        value[..width].copy_from_slice(&bytes[..width]);
        Store { processor, address, width: width as u8, value }
    }

    /// Returns the bytes that were written, 1 to 16.
    pub fn bytes(&self) -> &[u8] {
        &self.value[..usize::from(self.width)]
    }

    /// Returns the number of the page.
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

    /// Checks a record that was copied out of the ring.
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
        fn store_survives_round_trip_through_record(
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
        fn any_parsed_record_is_a_valid_store(record: [u8; 32], width in 0u8..20, pages in 1u64..1 << 28) {
            let mut near = record;
            // Most random records would be refused at once.
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
    fn invalid_records_are_refused_with_reason() {
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
