//! Host memory and windows, as far as a recording has shown them.

use std::collections::HashMap;

const PAGE: usize = 4096;

/// A place: host memory, or the window of a BAR.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Space {
    Memory,
    Window(u8),
}

/// The bytes that were last seen at each place. Others are 0.
#[derive(Debug, Default)]
pub(crate) struct Image(HashMap<(Space, u64), Box<[u8; PAGE]>>);

impl Image {
    /// Remembers bytes.
    pub(crate) fn put(&mut self, space: Space, address: u64, mut bytes: &[u8]) {
        let mut address = address;
        while !bytes.is_empty() {
            let (page, start) = (address / PAGE as u64, (address % PAGE as u64) as usize);
            let count = bytes.len().min(PAGE - start);
            let (now, behind) = bytes.split_at(count);
            let page = self.0.entry((space, page)).or_insert_with(|| Box::new([0; PAGE]));
            page[start..start + count].copy_from_slice(now);
            (address, bytes) = (address.wrapping_add(count as u64), behind);
        }
    }

    /// Zeroes what is known of a range.
    pub(crate) fn clear(&mut self, space: Space, address: u64, length: u64) {
        let end = address.saturating_add(length);
        for ((_, page), bytes) in self.0.iter_mut().filter(|((other, _), _)| *other == space) {
            let start = page * PAGE as u64;
            let inside = |place: u64| (place.clamp(start, start + PAGE as u64) - start) as usize;
            bytes[inside(address)..inside(end)].fill(0);
        }
    }

    /// Returns bytes.
    pub(crate) fn get(&self, space: Space, address: u64, length: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(length);
        let mut address = address;
        while bytes.len() < length {
            let (page, start) = (address / PAGE as u64, (address % PAGE as u64) as usize);
            let count = (length - bytes.len()).min(PAGE - start);
            match self.0.get(&(space, page)) {
                Some(page) => bytes.extend_from_slice(&page[start..start + count]),
                None => bytes.resize(bytes.len() + count, 0),
            }
            address = address.wrapping_add(count as u64);
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_kept_by_space_across_pages() {
        let mut image = Image::default();
        image.put(Space::Memory, 4094, &[1, 2, 3, 4]);
        image.put(Space::Window(2), 4094, &[9]);
        assert_eq!(image.get(Space::Memory, 4093, 6), [0, 1, 2, 3, 4, 0]);
        assert_eq!(image.get(Space::Window(2), 4094, 2), [9, 0]);
        assert_eq!(image.get(Space::Memory, u64::MAX, 2), [0, 0]);
        image.clear(Space::Memory, 4095, 2);
        assert_eq!(image.get(Space::Memory, 4093, 6), [0, 1, 0, 0, 4, 0]);
    }
}
