//! Well-known slots (section 6.3): their layout in memory, and requests to them.
//!
//! The slots are privileged and in paranoid one-shot mode, so a message cannot change while it is
//! read. A slot has a page: its places, then its metadata entries.

use hamlyn_abi::hamlyn::metadata::{HAMLYN_METADATA_SIZE, HamlynMetadataEntry};
use hamlyn_abi::hamlyn::request::HamlynRequest;
use hamlyn_abi::kernel::well_known::{ULN_WELL_KNOWN_KEY, ULN_WELL_KNOWN_PLACE_SIZE, ULN_WELL_KNOWN_PLACES};
use hamlyn_abi::kernel::wire::UlnWire;
use zerocopy::{FromZeros, IntoBytes};

/// Places of a slot: maximum number of unacknowledged messages in flight to a host.
pub const PLACES: u32 = ULN_WELL_KNOWN_PLACES;
/// Metadata entries of a slot: one for each message, and as many for acknowledgements.
pub const ENTRIES: u32 = 2 * PLACES;
/// Bytes of a slot's places, and offset of the metadata entries in its page.
pub const METADATA_OFFSET: u32 = PLACES * ULN_WELL_KNOWN_PLACE_SIZE;
/// Bytes of a slot's metadata entries.
pub const METADATA_LENGTH: u32 = ENTRIES * HAMLYN_METADATA_SIZE;

/// Returns the initial content of a slot's metadata entries.
#[must_use]
pub fn metadata() -> Vec<u8> {
    let entries = (0..ENTRIES).flat_map(|entry| {
        let entry = HamlynMetadataEntry {
            key: ULN_WELL_KNOWN_KEY,
            low: place_offset(entry).into(),
            high: (place_offset(entry) + place_length(entry)).into(),
            ..HamlynMetadataEntry::new_zeroed()
        };
        entry.as_bytes().to_vec()
    });
    entries.collect()
}

/// Returns the offset of an entry's place in the message area. Acknowledgements have no place.
#[must_use]
pub fn place_offset(entry: u32) -> u32 {
    if entry < PLACES { entry * ULN_WELL_KNOWN_PLACE_SIZE } else { 0 }
}

/// Returns the size of an entry's place in bytes.
#[must_use]
pub fn place_length(entry: u32) -> u32 {
    if entry < PLACES { ULN_WELL_KNOWN_PLACE_SIZE } else { 0 }
}

/// Returns the work-queue entry that sends a message from host `from` to an entry of its slot on
/// host `to`.
#[must_use]
pub fn request(from: u32, to: u32, entry: u32, wire: &UlnWire, data: &[u8]) -> Vec<u8> {
    let request = HamlynRequest {
        destination: to,
        slot: from,
        metadata_index: entry,
        key: ULN_WELL_KNOWN_KEY,
        offset: place_offset(entry),
        length: data.len() as u32,
        metadata_length: size_of::<UlnWire>() as u32,
        ..HamlynRequest::default()
    };
    [request.as_bytes(), wire.as_bytes(), data].concat()
}
