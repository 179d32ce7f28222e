//! The word that every message between two tools carries: what it is, or its number.

/// A client is there; what it wants is in the control bytes.
pub(crate) const HELLO: u32 = u32::MAX;
/// The server is ready for what the client asked.
pub(crate) const READY: u32 = u32::MAX - 1;
/// The client has what it wanted.
pub(crate) const BYE: u32 = u32::MAX - 2;

/// Mark of a number that confirms messages: so many have come. Without it, it is a message's own.
pub(crate) const CONFIRM: u32 = 1 << 31;
/// Mark of a message behind which no other comes.
pub(crate) const LAST: u32 = 1 << 30;
/// The bits of a number; it wraps.
const NUMBER: u32 = LAST - 1;

/// The number of a message or the sum of many, as a word.
pub(crate) fn number(count: u64) -> u32 {
    count as u32 & NUMBER
}

/// How far the number in `word` is ahead of `count`; far too many if it is behind.
pub(crate) fn ahead(word: u32, count: u64) -> u64 {
    u64::from(word.wrapping_sub(number(count)) & NUMBER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_wrap_and_are_never_a_word_of_control() {
        let count = u64::from(LAST) * 3;
        assert_eq!(number(count - 1), LAST - 1);
        assert_eq!(number(count), 0);
        assert_eq!(ahead(number(count + 5), count - 3), 8);
        assert_eq!(ahead(number(count + 5) | LAST, count - 3), 8);
        assert!(ahead(number(count - 4), count - 3) > 1 << 29);
        for mark in [LAST, CONFIRM] {
            assert!([HELLO, READY, BYE].iter().all(|control| number(u64::MAX) | mark < *control));
        }
    }
}
