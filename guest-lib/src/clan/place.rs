//! Splits a byte range of a window into aligned accesses.

/// A naturally aligned access of 1, 2, 4 or 8 bytes, as a window supports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Access {
    pub(super) at: usize,
    pub(super) bytes: usize,
}

/// Returns the fewest accesses that cover `length` bytes starting at `at`, in ascending order.
pub(super) fn accesses(at: usize, length: usize) -> impl Iterator<Item = Access> {
    let end = at + length;
    let mut next = at;
    std::iter::from_fn(move || {
        let bytes = [8, 4, 2, 1].into_iter().find(|bytes| next % bytes == 0 && next + bytes <= end)?;
        let access = Access { at: next, bytes };
        next += bytes;
        Some(access)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ragged_ends_take_the_fewest_accesses() {
        let of = |at, length| accesses(at, length).map(|access| access.bytes).collect::<Vec<_>>();
        assert_eq!(of(0, 16), [8, 8]);
        assert_eq!(of(3, 13), [1, 4, 8]);
        assert_eq!(of(8, 7), [4, 2, 1]);
        assert!(of(5, 0).is_empty());
    }

    proptest! {
        #[test]
        fn accesses_cover_range_and_are_aligned(at in 0..5000_usize, length in 0..5000_usize) {
            let mut next = at;
            for access in accesses(at, length) {
                prop_assert_eq!(access.at, next);
                prop_assert_eq!(access.at % access.bytes, 0);
                next += access.bytes;
            }
            prop_assert_eq!(next, at + length);
        }
    }
}
