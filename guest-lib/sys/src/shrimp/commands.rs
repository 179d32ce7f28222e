//! Command pages of a buffer: each word is a command for the same word of the buffer (section 4.2).

use std::io;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;

use crate::mapping::Mapping;

/// Words per page.
const PAGE: usize = 1024;

/// Commands by word number. Checking that a block of words lies within one page and within the
/// buffer takes a handful of instructions.
#[derive(Debug, Clone, Copy)]
pub struct Commands<'a> {
    start: NonNull<AtomicU32>,
    words: usize,
    mapping: PhantomData<&'a Mapping>,
}

// SAFETY: it stands for a shared reference to atomics in a mapping.
unsafe impl Send for Commands<'_> {}
// SAFETY: as above.
unsafe impl Sync for Commands<'_> {}

impl<'a> Commands<'a> {
    /// Creates the commands of a buffer of `words` words, which starts at the mapping's start.
    ///
    /// # Errors
    /// `EINVAL` if the mapping is smaller, or does not have whole pages.
    pub fn new(mapping: &'a Mapping, words: usize) -> io::Result<Self> {
        let all = mapping.length() / size_of::<u32>();
        if mapping.length() % (PAGE * size_of::<u32>()) != 0 || words > all {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let start = NonNull::from(mapping.words(0, all)).cast();
        Ok(Self { start, words, mapping: PhantomData })
    }

    /// Returns the command for a block of `words` words, at least one, starting at word `first`.
    /// Returns `None` if the block crosses a page or the end of the buffer.
    #[must_use]
    #[inline]
    pub fn of_block(&self, first: usize, words: u32) -> Option<&'a AtomicU32> {
        let last = first.wrapping_add(words as usize).wrapping_sub(1);
        if last >= self.words || first ^ last >= PAGE {
            return None;
        }
        // SAFETY: `last` is a word of the mapping, which has whole pages, and `first` is in the
        // same page. Both are aligned and mapped for as long as the mapping is borrowed. Atomics
        // may be changed by others, and any bytes are valid.
        Some(unsafe { self.start.add(first).as_ref() })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn only_blocks_within_a_page_have_commands() {
        let mapping = Mapping::anonymous(8192).unwrap();
        let commands = Commands::new(&mapping, 2000).unwrap();
        for (first, words) in [(0, 1), (0, 1024), (1023, 1), (1024, 976), (1999, 1)] {
            commands.of_block(first, words).unwrap().store(first as u32 + 7, Ordering::Relaxed);
            assert_eq!(mapping.load_u32(4 * first), first as u32 + 7);
        }
        for (first, words) in [
            (0, 1025),
            (1023, 2),
            (1024, 977),
            (1999, 2),
            (2000, 1),
            (usize::MAX, 1),
            (usize::MAX, 2),
            (5, u32::MAX),
            (0, 0),
        ] {
            assert!(commands.of_block(first, words).is_none(), "{first} {words}");
        }
        // The command of an empty block is useless, but valid to access.
        let _ = commands.of_block(2047, 0).map(|command| command.load(Ordering::Relaxed));
    }

    #[test]
    fn pages_that_are_not_whole_are_refused() {
        let mapping = Mapping::anonymous(8000).unwrap();
        assert!(Commands::new(&mapping, 100).is_err());
        let mapping = Mapping::anonymous(8192).unwrap();
        assert!(Commands::new(&mapping, 2048).is_ok() && Commands::new(&mapping, 2049).is_err());
    }
}
