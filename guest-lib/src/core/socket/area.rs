//! Page lists, which tell the card where a piece of memory lies.

use hamlyn_abi::family::area::UlnArea;

/// Size of a page, in bytes.
const PAGE: u64 = 4096;
/// Addresses per page.
const PER_PAGE: u64 = PAGE / 8;

/// Returns the number of pages of directory and lists for `length` bytes at `address`.
pub(crate) fn list_pages(address: u64, length: u64) -> usize {
    (1 + pages(address, length).div_ceil(PER_PAGE)) as usize
}

/// Returns the number of pages that `length` bytes at `address` touch.
fn pages(address: u64, length: u64) -> u64 {
    (address % PAGE + length).div_ceil(PAGE)
}

/// Returns the contents of directory and lists for memory that is contiguous for the card. `lists`
/// is the address of directory and lists.
pub(crate) fn page_lists(address: u64, length: u64, lists: u64) -> (UlnArea, Vec<u8>) {
    let first = address - address % PAGE;
    let list_count = list_pages(address, length) as u64 - 1;
    let mut words: Vec<u64> = (1..=list_count).map(|list| lists + list * PAGE).collect();
    words.resize(PER_PAGE as usize, 0);
    words.extend((0..pages(address, length)).map(|page| first + page * PAGE));
    let bytes = words.into_iter().flat_map(u64::to_le_bytes).collect();
    let area = UlnArea { directory: lists, length, first: (address % PAGE) as u32, reserved: 0 };
    (area, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Translates byte `index` of an area as the card does.
    fn translate(area: &UlnArea, bytes: &[u8], index: u64) -> u64 {
        let word = |address: u64| {
            let at = (address - area.directory) as usize;
            u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
        };
        let at = u64::from(area.first) + index;
        let list = word(area.directory + at / PAGE / PER_PAGE * 8);
        word(list + at / PAGE % PER_PAGE * 8) + at % PAGE
    }

    #[test]
    fn every_byte_is_found() {
        let lists = 0x7000_0000;
        for (address, length) in
            [(0x1000, 1), (0x1fff, 2), (0x12_3456, 5 << 20), (0x10_0000, 2 << 20), (5, 4096)]
        {
            let (area, bytes) = page_lists(address, length, lists);
            assert!(bytes.len() <= list_pages(address, length) * PAGE as usize);
            for index in [0, 1, length / 2, length - 1] {
                if index < length {
                    assert_eq!(
                        translate(&area, &bytes, index),
                        address + index,
                        "{address:#x} {length} {index}"
                    );
                }
            }
        }
    }
}
