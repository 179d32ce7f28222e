//! A ring of words, for ends that signal messages by stores to the peer's memory.
//!
//! | bytes of that memory | contents |
//! |---|---|
//! | 0 | a client's request |
//! | 2,048 | the ring: words, each with its turn, which marks it as new |
//! | 4,096 | the bytes of a message |

use std::hint::spin_loop;
use std::time::{Duration, Instant};

/// Offset of the ring.
pub(crate) const RING: usize = 2048;
/// Entries of the ring: more than the messages in flight and control words.
const ENTRIES: u64 = 256;
/// Offset of a message's bytes.
pub(crate) const DATA: usize = RING + ENTRIES as usize * 8;
/// Polls of a word between two yields of the processor.
const LOOKS: u32 = 200;

/// Location of a word in the ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Offset of the entry.
    pub(crate) at: usize,
    /// Marks the word as new; never 0.
    pub(crate) turn: u32,
}

impl Entry {
    /// Returns the entry of the word with this number.
    pub(crate) fn of(number: u64) -> Self {
        Self { at: RING + (number % ENTRIES) as usize * 8, turn: (number / ENTRIES) as u32 + 1 }
    }

    /// Returns the value to store for a word.
    pub(crate) fn told(self, word: u32) -> u64 {
        u64::from(self.turn) << 32 | u64::from(word)
    }

    /// Returns the word, if the stored value is new.
    pub(crate) fn word(self, found: u64) -> Option<u32> {
        ((found >> 32) as u32 == self.turn).then_some(found as u32)
    }
}

/// Polls until `look` returns a value, or the timeout expires.
pub(crate) fn poll<T>(
    timeout: Option<Duration>,
    mut look: impl FnMut() -> hamlyn::Result<Option<T>>,
) -> hamlyn::Result<Option<T>> {
    let until = timeout.map(|timeout| Instant::now() + timeout);
    loop {
        for _ in 0..LOOKS {
            if let Some(found) = look()? {
                return Ok(Some(found));
            }
            spin_loop();
        }
        if until.is_some_and(|until| Instant::now() >= until) {
            return Ok(None);
        }
        std::thread::yield_now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_change_turn_and_never_overlap_data() {
        let of = |number| (Entry::of(number).at, Entry::of(number).turn);
        assert_eq!((of(0), of(1)), ((2048, 1), (2056, 1)));
        assert_eq!((of(255), of(256)), ((4088, 1), (2048, 2)));
        assert_eq!(DATA, 4096);
    }

    #[test]
    fn word_of_previous_turn_is_ignored() {
        let (old, new) = (Entry::of(7), Entry::of(7 + ENTRIES));
        assert_eq!((new.word(old.told(5)), new.word(new.told(5)), old.word(0)), (None, Some(5), None));
    }
}
