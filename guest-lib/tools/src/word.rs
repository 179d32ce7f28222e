//! The word at the start of every message between two tools: a control word, or a number.

/// A client's request; its bytes follow.
pub(crate) const HELLO: u32 = u32::MAX;
/// The server is ready for what the client has requested.
pub(crate) const READY: u32 = u32::MAX - 1;

/// Flag of a number that confirms messages: the number of messages received. Without it, the number
/// is a message's own.
pub(crate) const CONFIRM: u32 = 1 << 31;
/// Flag of the last message.
pub(crate) const LAST: u32 = 1 << 30;
/// Bits of a number, which wraps.
const NUMBER: u32 = LAST - 1;

/// Returns the number of a message, or a count of messages, as a word.
pub(crate) fn number(count: u64) -> u32 {
    count as u32 & NUMBER
}

/// Returns how far the number in `word` is ahead of `count`; a huge value if it is behind.
pub(crate) fn ahead(word: u32, count: u64) -> u64 {
    u64::from(word.wrapping_sub(number(count)) & NUMBER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_wrap_and_never_equal_control_words() {
        let count = u64::from(LAST) * 3;
        assert_eq!(number(count - 1), LAST - 1);
        assert_eq!(number(count), 0);
        assert_eq!(ahead(number(count + 5), count - 3), 8);
        assert_eq!(ahead(number(count + 5) | LAST, count - 3), 8);
        assert!(ahead(number(count - 4), count - 3) > 1 << 29);
        for mark in [LAST, CONFIRM] {
            assert!([HELLO, READY].iter().all(|control| number(u64::MAX) | mark < *control));
        }
    }
}
