//! Splits transfers at page boundaries.

use crate::core::place::PAGE;

/// Size of a word, the unit of transfers, in bytes (section 4.3).
pub(super) const WORD: usize = 4;

/// The bytes that one command transfers: at most one page (section 4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    /// Offset of its first byte from the start of the first page.
    pub(super) at: usize,
    pub(super) words: u32,
}

/// Returns the pieces of `length` bytes from `at` on, in ascending order. Both must be multiples of
/// [`WORD`].
pub(super) fn pieces(at: usize, length: usize) -> impl Iterator<Item = Piece> {
    let end = at + length;
    let mut next = at;
    std::iter::from_fn(move || {
        let here = (PAGE - next % PAGE).min(end - next);
        let piece = Piece { at: next, words: (here / WORD) as u32 };
        next += here;
        (here > 0).then_some(piece)
    })
}

#[cfg(test)]
mod tests {
    use hamlyn_abi::shrimp::memory::SHRIMP_MAX_WORDS;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn range_across_pages_is_several_transfers() {
        let of = |at, length| pieces(at, length).map(|piece| (piece.at, piece.words)).collect::<Vec<_>>();
        assert_eq!(of(0, 0), []);
        assert_eq!(of(8, 4), [(8, 1)]);
        assert_eq!(of(4092, 8), [(4092, 1), (4096, 1)]);
        assert_eq!(of(100, 2 * 4096), [(100, 999), (4096, 1024), (8192, 25)]);
        assert_eq!(of(4096, 4096), [(4096, 1024)]);
    }

    proptest! {
        #[test]
        fn pieces_cover_range_and_stay_in_page(at in 0..5000_usize, length in 0..5000_usize) {
            let (at, length) = (at * WORD, length * WORD);
            let mut next = at;
            for piece in pieces(at, length) {
                prop_assert_eq!(piece.at, next);
                prop_assert!((1..=SHRIMP_MAX_WORDS).contains(&piece.words));
                next += piece.words as usize * WORD;
                prop_assert_eq!(piece.at / PAGE, (next - 1) / PAGE);
            }
            prop_assert_eq!(next, at + length);
        }
    }
}
