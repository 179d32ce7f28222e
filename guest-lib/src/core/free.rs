//! Allocator of the free parts of a memory.

use std::collections::BTreeMap;

/// Free parts: their lengths by start offset. Adjacent parts are merged.
#[derive(Debug)]
pub(crate) struct Free(BTreeMap<usize, usize>);

impl Free {
    /// Creates an allocator with all of `size` free.
    pub(crate) fn all(size: usize) -> Self {
        Self(BTreeMap::from([(0, size)]))
    }

    /// Allocates from the first part that is long enough, and returns the start.
    pub(crate) fn take(&mut self, size: usize) -> Option<usize> {
        let (start, length) =
            self.0.iter().find(|(_, length)| **length >= size).map(|(start, length)| (*start, *length))?;
        self.0.remove(&start);
        if length > size {
            self.0.insert(start + size, length - size);
        }
        Some(start)
    }

    /// Frees an allocated part.
    pub(crate) fn give(&mut self, mut start: usize, mut size: usize) {
        if let Some(behind) = self.0.remove(&(start + size)) {
            size += behind;
        }
        if let Some((before, length)) = self.0.range(..start).next_back() {
            if before + length == start {
                (start, size) = (*before, length + size);
            }
        }
        self.0.insert(start, size);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_touch_become_one_again() {
        let mut free = Free::all(100);
        let parts = [40, 40, 20].map(|size| (free.take(size).unwrap(), size));
        assert_eq!(parts, [(0, 40), (40, 40), (80, 20)]);
        assert_eq!(free.take(1), None);
        for part in [0, 2, 1].map(|index| parts[index]) {
            free.give(part.0, part.1);
        }
        assert_eq!(free.take(100), Some(0));
    }
}
