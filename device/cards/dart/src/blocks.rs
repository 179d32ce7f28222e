//! The bytes of a message's blocks that the mask selects (Figure 3).

use std::ops::Range;

use crate::cells::BLOCK;

/// Size of the word that a bit of the mask deselects, in bytes.
pub(crate) const WORD: usize = 4;

/// Returns whether the mask selects the word of this byte.
fn is_selected(mask: u8, at: usize) -> bool {
    mask >> (at % BLOCK / WORD) & 1 == 0
}

/// Returns the range from the first selected byte of the first `length` bytes to behind the last.
/// The range is empty if all bytes are deselected.
pub(crate) fn span(mask: u8, length: usize) -> Range<usize> {
    let mut words = (0..length).step_by(WORD).filter(|at| is_selected(mask, *at));
    let Some(first) = words.next() else { return 0..0 };
    // The last selected word is in one of the last two blocks.
    let tail = (length / BLOCK).saturating_sub(1) * BLOCK;
    let last = (tail..length).step_by(WORD).rfind(|at| is_selected(mask, *at));
    first..(last.unwrap_or(first) + WORD).min(length)
}

/// Returns the runs of selected bytes among `bytes`, in order. `bytes` begins with a word.
pub(crate) fn runs(mask: u8, bytes: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let mut next = bytes.start;
    std::iter::from_fn(move || {
        let behind = |from: usize, selected: bool| match mask {
            0 if selected => bytes.end,
            _ => (from..bytes.end)
                .step_by(WORD)
                .find(|at| is_selected(mask, *at) != selected)
                .unwrap_or(bytes.end),
        };
        let start = behind(next, false);
        next = behind(start, true);
        (start < next).then_some(start..next)
    })
}

/// Returns how many of the first `length` bytes are selected.
pub(crate) fn selected(mask: u8, length: usize) -> usize {
    let whole = length / BLOCK;
    let rest: usize = runs(mask, whole * BLOCK..length).map(|run| run.len()).sum();
    whole * WORD * mask.count_zeros() as usize + rest
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(mask: u8, length: usize) -> Vec<Range<usize>> {
        runs(mask, 0..length).collect()
    }

    #[test]
    fn mask_deselects_words_of_each_block() {
        assert_eq!(all(0, 100), std::slice::from_ref(&(0..100)));
        assert_eq!(all(0xff, 100), []);
        assert_eq!(all(0b1000_0001, 70), [4..28, 36..60, 68..70]);
        assert_eq!(all(0b0111_1111, 64), [28..32, 60..64]);
        assert_eq!(all(0, 0), []);
    }

    proptest! {
        #[test]
        fn span_and_count_agree_with_runs(mask in any::<u8>(), length in 0..200_usize) {
            let runs = all(mask, length);
            let ends = runs.first().zip(runs.last()).map_or(0..0, |(first, last)| first.start..last.end);
            prop_assert_eq!(span(mask, length), ends);
            prop_assert_eq!(selected(mask, length), runs.iter().map(Range::len).sum::<usize>());
            for at in 0..length {
                prop_assert_eq!(runs.iter().any(|run| run.contains(&at)), is_selected(mask, at));
            }
        }
    }
}
