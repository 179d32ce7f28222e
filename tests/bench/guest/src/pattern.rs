//! Data that identifies the message it came with.
//!
//! A transfer counts only if it is complete. Bytes that are the same in every message look correct
//! even if most messages never arrived, so each message has different bytes.

/// One bit of each byte: whether the place has been used an odd number of times. So no byte of a
/// message equals the byte that the previous message left there, or the zero of fresh memory.
const TURN: u64 = 0x0101_0101_0101_0101;
/// Difference between two neighbouring words of a message: odd, so that no two words are equal.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
const WORD: usize = 8;

/// The bytes of one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pattern {
    first: u64,
    turn: u64,
}

impl Pattern {
    /// Returns the bytes of message `number`, which goes to a place that was used `turn` times
    /// before.
    #[must_use]
    pub fn new(number: u64, turn: u64) -> Self {
        Self { first: mixed(number), turn: if turn % 2 == 0 { TURN } else { 0 } }
    }

    /// Returns the word at byte offset `8 * index`.
    fn word(self, index: u64) -> u64 {
        let word = self.first.wrapping_add(index.wrapping_mul(STEP));
        word & !TURN | self.turn
    }

    /// Returns the words from byte `offset` on, which is a multiple of 8.
    fn words(self, offset: usize) -> impl Iterator<Item = u64> {
        ((offset / WORD) as u64..).map(move |index| self.word(index))
    }

    /// Writes the message's bytes from `offset` on, which is a multiple of 8.
    ///
    /// Works word by word, like [`Pattern::wrong`]: an emulated processor does this for every byte
    /// of a transfer.
    pub fn fill(self, offset: usize, bytes: &mut [u8]) {
        let last = self.word(((offset + bytes.len()) / WORD) as u64).to_le_bytes();
        let mut whole = bytes.chunks_exact_mut(WORD);
        for (to, word) in whole.by_ref().zip(self.words(offset)) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        let rest = whole.into_remainder();
        rest.copy_from_slice(&last[..rest.len()]);
    }

    /// Returns the position in the message of the first byte that is not the message's own. `bytes`
    /// begins at `offset` in the message.
    #[must_use]
    pub fn wrong(self, offset: usize, bytes: &[u8]) -> Option<usize> {
        let whole = bytes.chunks_exact(WORD).zip(self.words(offset));
        let right = whole.take_while(|(found, word)| **found == word.to_le_bytes()).count();
        let found = bytes[WORD * right..].iter().take(WORD);
        let expected = self.word((offset / WORD + right) as u64).to_le_bytes();
        let byte = found.zip(expected).position(|(found, expected)| *found != expected)?;
        Some(offset + WORD * right + byte)
    }
}

/// Maps neighbouring numbers to unrelated words (the end of splitmix64).
fn mixed(number: u64) -> u64 {
    let mut word = number.wrapping_add(1).wrapping_mul(STEP);
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// Returns the two ends of a message of `length` bytes that [`mark`] writes. In a short message
/// they cover all of it.
#[must_use]
pub fn ends(length: usize) -> [std::ops::Range<usize>; 2] {
    let long = length.min(WORD);
    [0..long, length - long..length]
}

/// Returns the bytes at both ends of message `number` of a ping-pong.
#[must_use]
pub fn mark_of(number: u64) -> [u8; WORD] {
    mixed(number).to_le_bytes()
}

/// Writes a message's number to both of its ends.
pub fn mark(bytes: &mut [u8], number: u64) {
    // Backwards, so that the start is intact in a message of fewer than 16 bytes.
    for end in ends(bytes.len()).into_iter().rev() {
        let length = end.len();
        bytes[end].copy_from_slice(&mark_of(number)[..length]);
    }
}

/// Checks by both ends that these bytes are message `number`.
///
/// # Errors
/// Fails with a text that names the message if its bytes differ.
pub fn check_mark(bytes: &[u8], number: u64) -> Result<(), String> {
    let (mut expected, [start, end]) = (vec![0; 2 * WORD], ends(bytes.len()));
    let wrong = if bytes.len() < 2 * WORD {
        mark(&mut expected[..bytes.len()], number);
        bytes != &expected[..bytes.len()]
    } else {
        let mark = mark_of(number);
        bytes[start] != mark || bytes[end] != mark
    };
    if wrong { Err(format!("message {number} brought other bytes than its own")) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(number: u64, turn: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        Pattern::new(number, turn).fill(0, &mut bytes);
        bytes
    }

    #[test]
    fn every_byte_differs_from_previous_message() {
        let mut before = vec![0; 1000];
        for turn in 0..300 {
            let bytes = message(turn * 7 + 3, turn, 1000);
            let same = bytes.iter().zip(&before).position(|(byte, old)| byte == old);
            assert_eq!(same, None, "turn {turn}");
            before = bytes;
        }
    }

    #[test]
    fn misplaced_message_is_detected_at_every_offset() {
        let places: Vec<Vec<u8>> = (0..64).map(|number| message(number, 0, 4096)).collect();
        for (number, bytes) in (0..).zip(&places) {
            assert_eq!(Pattern::new(number, 0).wrong(0, bytes), None);
            // The same words further on do not match either: data that arrived at the wrong offset.
            for other in (0..64).filter(|other| *other != number) {
                let found = Pattern::new(other, 0);
                assert!((0..4096).step_by(8).all(|at| found.wrong(at, &bytes[at..at + 8]).is_some()));
            }
            assert!(Pattern::new(number, 0).wrong(0, &bytes[8..]).is_some());
        }
    }

    #[test]
    fn the_first_wrong_byte_is_named() {
        for length in [1, 7, 8, 9, 64, 999] {
            for at in 0..length {
                let mut bytes = message(5, 2, length);
                bytes[at] ^= 0x10;
                assert_eq!(Pattern::new(5, 2).wrong(0, &bytes), Some(at), "{length} bytes");
            }
        }
        let whole = message(9, 1, 100);
        assert_eq!(Pattern::new(9, 1).wrong(64, &whole[64..]), None);
        let mut part = vec![0; 36];
        Pattern::new(9, 1).fill(64, &mut part);
        assert_eq!(part, whole[64..]);
    }

    #[test]
    fn ping_pong_number_is_at_both_ends() {
        for length in [0, 1, 4, 8, 12, 16, 17, 4096] {
            let mut bytes = vec![0; length];
            mark(&mut bytes, 3);
            assert_eq!(check_mark(&bytes, 3), Ok(()));
            assert_eq!(check_mark(&bytes, 4).is_err(), length > 0, "{length} bytes");
            if length > 0 {
                for at in [0, length - 1] {
                    let mut torn = bytes.clone();
                    torn[at] ^= 1;
                    assert!(check_mark(&torn, 3).is_err(), "byte {at} of {length}");
                }
            }
        }
    }
}
