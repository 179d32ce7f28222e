//! A ring of words, for ends that tell each other of messages by stores to the other's memory.
//!
//! | bytes of that memory | what |
//! |---|---|
//! | 0 | what a client wants |
//! | 2,048 | the ring: words, each with its turn, which says that it is new |
//! | 4,096 | the bytes of a message |

use std::hint::spin_loop;
use std::time::{Duration, Instant};

/// Where the ring is.
pub(crate) const RING: usize = 2048;
/// Its entries: more than can be under way, with words of control.
const ENTRIES: u64 = 256;
/// Where a message's bytes are.
pub(crate) const DATA: usize = RING + ENTRIES as usize * 8;
/// Looks at a word before the processor is yielded.
const LOOKS: u32 = 200;

/// The place of a word in the ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Where it is.
    pub(crate) at: usize,
    /// What tells that it is new: it is never 0.
    pub(crate) turn: u32,
}

impl Entry {
    /// That of a word which so many came before.
    pub(crate) fn of(number: u64) -> Self {
        Self { at: RING + (number % ENTRIES) as usize * 8, turn: (number / ENTRIES) as u32 + 1 }
    }

    /// What is stored there.
    pub(crate) fn told(self, word: u32) -> u64 {
        u64::from(self.turn) << 32 | u64::from(word)
    }

    /// The word, if what is there is new.
    pub(crate) fn word(self, found: u64) -> Option<u32> {
        ((found >> 32) as u32 == self.turn).then_some(found as u32)
    }
}

/// Looks until there is something, or time is up.
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
    fn an_entry_has_another_turn_each_time_and_none_is_a_messages_place() {
        let of = |number| (Entry::of(number).at, Entry::of(number).turn);
        assert_eq!((of(0), of(1)), ((2048, 1), (2056, 1)));
        assert_eq!((of(255), of(256)), ((4088, 1), (2048, 2)));
        assert_eq!(DATA, 4096);
    }

    #[test]
    fn a_word_of_the_turn_before_is_not_there_yet() {
        let (old, new) = (Entry::of(7), Entry::of(7 + ENTRIES));
        assert_eq!((new.word(old.told(5)), new.word(new.told(5)), old.word(0)), (None, Some(5), None));
    }
}
