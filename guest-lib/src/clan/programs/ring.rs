//! Index arithmetic of a distributed queue (section 4.2): empty when the indexes are equal, full
//! when one slot is left.

use crate::error::{Error, Result, at_most};

/// A ring of `size` slots, one of which stays empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ring {
    size: u64,
}

impl Ring {
    /// Creates a ring.
    ///
    /// # Errors
    /// [`Error::Invalid`] if nothing fits.
    pub(super) fn new(size: usize) -> Result<Self> {
        if size < 2 {
            return Err(Error::Invalid("a queue has room for at least one, and one place more"));
        }
        Ok(Self { size: size as u64 })
    }

    /// Returns the capacity.
    pub(super) fn most(self) -> u64 {
        self.size - 1
    }

    /// Fails if an index that the peer has stored is not in the ring.
    pub(super) fn check(self, name: &'static str, index: u64) -> Result<u64> {
        at_most(name, index, self.size - 1)?;
        Ok(index)
    }

    /// Returns the number of elements between two checked indexes.
    pub(super) fn used(self, read_i: u64, write_i: u64) -> u64 {
        if write_i >= read_i { write_i - read_i } else { self.size - read_i + write_i }
    }

    /// Returns the number of elements that there is still room for.
    pub(super) fn free(self, read_i: u64, write_i: u64) -> u64 {
        self.most() - self.used(read_i, write_i)
    }

    /// Advances an index by `count`, at most the number of slots.
    pub(super) fn on(self, index: u64, count: u64) -> u64 {
        (index + count) % self.size
    }

    /// Returns how many of `count` elements from an index are before the ring's end.
    pub(super) fn straight(self, index: u64, count: u64) -> u64 {
        count.min(self.size - index)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ring_is_full_when_one_slot_is_left() {
        let ring = Ring::new(4).unwrap();
        assert_eq!((ring.used(2, 2), ring.free(2, 2)), (0, 3));
        assert_eq!((ring.used(2, 1), ring.free(2, 1)), (3, 0));
        assert_eq!((ring.on(3, 1), ring.straight(3, 2), ring.most()), (0, 1, 3));
        assert!(Ring::new(1).is_err() && Ring::new(0).is_err());
    }

    #[test]
    fn invalid_index_is_refused() {
        let ring = Ring::new(4).unwrap();
        assert_eq!(ring.check("lazy_read_i", 3).unwrap(), 3);
        assert_eq!(
            ring.check("lazy_read_i", 4).unwrap_err().to_string(),
            "lazy_read_i 4 is out of range (limit 3)"
        );
        assert!(ring.check("lazy_read_i", u64::MAX).is_err());
    }

    proptest! {
        /// Compares the ring with a model whose counters do not wrap.
        #[test]
        fn ring_counts_like_unbounded_queue(size in 2..50_usize, steps in prop::collection::vec((any::<bool>(), 0..60_u64), 0..200)) {
            let ring = Ring::new(size).unwrap();
            let (mut read, mut write) = (0_u64, 0_u64);
            let (mut read_i, mut write_i) = (0, 0);
            for (put, count) in steps {
                prop_assert_eq!(ring.used(read_i, write_i), write - read);
                prop_assert_eq!(ring.free(read_i, write_i), size as u64 - 1 - (write - read));
                if put {
                    let count = count.min(ring.free(read_i, write_i));
                    prop_assert!(write_i + ring.straight(write_i, count) <= size as u64);
                    write += count;
                    write_i = ring.on(write_i, count);
                } else {
                    let count = count.min(ring.used(read_i, write_i));
                    read += count;
                    read_i = ring.on(read_i, count);
                }
                prop_assert_eq!((read_i, write_i), (read % size as u64, write % size as u64));
            }
        }

        #[test]
        fn peer_index_stays_within_ring(size in 2..1_000_000_usize, own in any::<u64>(), other in any::<u64>()) {
            let ring = Ring::new(size).unwrap();
            let own = own % size as u64;
            if let Ok(other) = ring.check("lazy_write_i", other) {
                prop_assert!(ring.used(own, other) <= ring.most() && ring.free(own, other) <= ring.most());
            } else {
                prop_assert!(other >= size as u64);
            }
        }
    }
}
