//! Which bytes of a message's blocks the mask leaves (Figure 3).

use std::ops::Range;

use crate::cells::BLOCK;

/// Bytes of a word that a bit of the mask deselects.
const WORD: usize = 4;

/// The runs of bytes that are left of the first `length`, in order.
pub(crate) fn runs(mask: u8, length: usize) -> Vec<Range<usize>> {
    if mask == 0 {
        return std::iter::once(0..length).filter(|all| !all.is_empty()).collect();
    }
    let mut runs: Vec<Range<usize>> = Vec::new();
    for start in (0..length).step_by(WORD).filter(|start| mask >> (start % BLOCK / WORD) & 1 == 0) {
        let end = (start + WORD).min(length);
        match runs.last_mut() {
            Some(last) if last.end == start => last.end = end,
            _ => runs.push(start..end),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_deselects_words_of_each_block() {
        assert_eq!((runs(0, 100).len(), runs(0, 100)[0].clone()), (1, 0..100));
        assert_eq!(runs(0xff, 100), []);
        assert_eq!(runs(0b1000_0001, 70), [4..28, 36..60, 68..70]);
        assert_eq!(runs(0b0111_1111, 64), [28..32, 60..64]);
        assert_eq!(runs(0, 0), []);
    }
}
