//! Deliberate-update transfer (sections 4.3 and 5.2): a block of memory is sent when it is
//! complete, with one locked instruction for each page that it touches.
//!
//! A block inside one page is sent at once, if the engine is free. A block that crosses pages is
//! sent page by page: the next page is tried while the engine works on the one before. So this is
//! [`SendBuffer::send`] with the fewest instructions, for exclusive use of the buffer.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hamlyn_abi::shrimp::memory::SHRIMP_MAX_WORDS;
use hamlyn_sys::look;
use hamlyn_sys::shrimp::commands::Commands;

use super::super::deliberate::Patience;
use super::super::outlet::Outlet;
use super::super::place::{WORD, pieces};
use super::super::send_buffer::{Mode, SendBuffer};
use super::super::transfer;
use crate::core::place::PAGE;
use crate::error::{Error, Result, inside};

/// Checks that the card is still there.
type Alive<'a> = &'a (dyn Fn() -> Result<()> + Sync);

/// Sends blocks of a buffer.
pub struct Sender<'a> {
    buffer: &'a SendBuffer,
    commands: Commands<'a>,
    /// The command of the last transfer.
    last: &'a AtomicU32,
}

impl<'a> Sender<'a> {
    /// Creates a sender for a buffer that is mapped for deliberate update, and begins at a page
    /// boundary.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the buffer does not meet these conditions.
    pub fn new(buffer: &'a mut SendBuffer) -> Result<Self> {
        if buffer.mode() != Mode::Deliberate {
            return Err(Error::Invalid("blocks are sent of a buffer that is mapped for deliberate update"));
        }
        if !buffer.outlet().begins_with_page() {
            return Err(Error::Invalid(
                "blocks are sent of a buffer that begins where a page and its memory do",
            ));
        }
        let commands = commands(buffer.outlet())?;
        Ok(Self { buffer, commands, last: &buffer.outlet().commands.words(0, 1)[0] })
    }

    /// Returns the buffer in place. Stores to it are not sent before [`Sender::send`].
    #[must_use]
    pub fn words(&self) -> &'a [AtomicU64] {
        self.buffer.outlet().memory().long_words(0, self.buffer.len() / 8)
    }

    /// Stores bytes. The bytes of a block that is being sent must not change before
    /// [`Sender::wait`].
    ///
    /// # Errors
    /// [`Error::PastEnd`].
    pub fn write(&self, offset: usize, from: &[u8]) -> Result<()> {
        self.buffer.write(offset, from)
    }

    /// Sends a block of `words` words of 4 bytes, starting at word `first`. Returns when the last
    /// page's transfer has begun.
    ///
    /// # Errors
    /// [`Error::PastEnd`]; [`Error::System`] if the card is gone: some of the block may then be
    /// sent.
    #[inline]
    pub fn send(&mut self, first: usize, words: u32) -> Result<()> {
        if let Some(command) = self.commands.of_block(first, words) {
            self.last = command;
            if exchange(command, words).is_ok() {
                return Ok(());
            }
        }
        self.last = send_pages(self.buffer, first, words)?;
        Ok(())
    }

    /// Returns whether the card has read the last block. False only means that its engine is busy,
    /// maybe with another transfer.
    #[must_use]
    #[inline]
    pub fn is_done(&self) -> bool {
        look(self.last) == 0
    }

    /// Blocks until the card has read all blocks that were sent. Then memory may be changed, and
    /// later stores arrive after them.
    ///
    /// # Errors
    /// Same as [`SendBuffer::wait_until_sent`].
    pub fn wait(&self) -> Result<()> {
        self.wait_within(None)
    }

    /// As [`Sender::wait`], but blocks for at most `timeout`.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; those of [`Sender::wait`].
    pub fn wait_timeout(&self, timeout: Duration) -> Result<()> {
        self.wait_within(Some(timeout))
    }

    fn wait_within(&self, timeout: Option<Duration>) -> Result<()> {
        wait(self.last, timeout, &|| self.buffer.is_there())?;
        self.buffer.check()
    }
}

#[cold]
#[inline(never)]
fn send_pages(buffer: &SendBuffer, first: usize, words: u32) -> Result<&AtomicU32> {
    start_each(buffer.outlet(), first, words, &|| buffer.is_there())
}

/// Returns the commands of a buffer.
fn commands(outlet: &Outlet) -> Result<Commands<'_>> {
    Commands::new(&outlet.commands, outlet.len() / WORD).map_err(Error::system("lay out command pages"))
}

/// Starts a transfer for each page of a block, while the engine works on the one before. Returns
/// the command of the last transfer.
fn start_each<'a>(outlet: &'a Outlet, first: usize, words: u32, alive: Alive<'_>) -> Result<&'a AtomicU32> {
    let (bytes, length) = (u64::from(words) * WORD as u64, outlet.len() as u64);
    inside("send buffer", (first as u64).saturating_mul(WORD as u64), bytes, length)?;
    let commands = outlet.commands.words(0, outlet.commands.length() / WORD);
    let mut patience = Patience::new();
    let mut last = &commands[0];
    for piece in pieces(first * WORD, bytes as usize) {
        last = &commands[piece.at / WORD];
        while let Err(answer) = exchange(last, piece.words) {
            patience.back_off(answer, alive)?;
        }
    }
    Ok(last)
}

/// Starts a transfer if the engine is free.
#[inline]
fn exchange(command: &AtomicU32, words: u32) -> std::result::Result<u32, u32> {
    command.compare_exchange(0, words, Ordering::AcqRel, Ordering::Acquire)
}

fn wait(last: &AtomicU32, timeout: Option<Duration>, alive: Alive<'_>) -> Result<()> {
    let begun = Instant::now();
    let mut patience = Patience::new();
    loop {
        let answer = last.load(Ordering::Acquire);
        if transfer::is_done(answer) {
            return Ok(());
        }
        if let Some(after) = timeout.filter(|limit| begun.elapsed() >= *limit) {
            return Err(Error::TimedOut { what: "end of a deliberate update", after });
        }
        patience.back_off(answer, alive)?;
    }
}

const _: () = assert!(SHRIMP_MAX_WORDS as usize * WORD == PAGE && SHRIMP_MAX_WORDS.is_power_of_two());

#[cfg(test)]
mod tests {
    use hamlyn_abi::shrimp::entry::SHRIMP_MODE_DELIBERATE;
    use hamlyn_abi::shrimp::memory::{SHRIMP_BASE, SHRIMP_BUSY};
    use proptest::prelude::*;

    use super::super::super::fake::{Pages, outlet};
    use super::*;

    fn alive() -> Result<()> {
        Ok(())
    }

    fn pages() -> Pages {
        outlet(0, 3 * PAGE + 400, false, SHRIMP_MODE_DELIBERATE)
    }

    /// Sends a block like [`Sender::send`].
    fn send<'a>(pages: &'a Pages, first: usize, words: u32, alive: Alive<'_>) -> Result<&'a AtomicU32> {
        let command = commands(&pages.outlet)?.of_block(first, words);
        match command.filter(|command| exchange(command, words).is_ok()) {
            Some(command) => Ok(command),
            None => start_each(&pages.outlet, first, words, alive),
        }
    }

    /// Returns the commands that were given, by their word.
    fn given(pages: &Pages) -> Vec<(usize, u32)> {
        let all = (0..4 * PAGE / WORD).map(|word| (word, pages.commands.load_u32(word * WORD)));
        all.filter(|(_, command)| *command != 0).collect()
    }

    proptest! {
        #[test]
        fn block_needs_one_command_per_page(first in 0..4000_usize, words in 1..4000_u32) {
            let pages = pages();
            let sent = send(&pages, first, words, &alive);
            let end = first + words as usize;
            prop_assert_eq!(sent.is_ok(), end <= (3 * PAGE + 400) / WORD);
            let mut next = first;
            for (word, count) in given(&pages) {
                prop_assert_eq!(word, next);
                next += count as usize;
                prop_assert_eq!(word * WORD / PAGE, (next - 1) * WORD / PAGE);
            }
            prop_assert_eq!(next, if sent.is_ok() { end } else { first });
        }
    }

    #[test]
    fn block_outside_buffer_is_refused() {
        let pages = pages();
        let refused = send(&pages, 3172, 1, &alive).err().unwrap().to_string();
        assert_eq!(refused, "4 bytes at offset 12688 reach past the end of the send buffer (limit 12688)");
        for (first, words) in
            [(3171, 2), (usize::MAX, 1), (usize::MAX, 2), (0, u32::MAX), (usize::MAX / 4, 9)]
        {
            assert!(send(&pages, first, words, &alive).is_err(), "{first} {words}");
        }
        for first in [0, 1, 1024] {
            send(&pages, first, 0, &alive).unwrap();
        }
        assert_eq!(given(&pages), []);
    }

    #[test]
    fn busy_engine_is_retried_and_waited_for() {
        let pages = pages();
        pages.commands.store_u32(16, SHRIMP_BUSY | 70);
        let engine = || {
            pages.commands.store_u32(16, 0);
            Ok(())
        };
        let last = send(&pages, 4, 2, &engine).unwrap();
        assert_eq!(given(&pages), [(4, 2)]);
        pages.commands.store_u32(16, SHRIMP_BUSY | SHRIMP_BASE | 2);
        let late = wait(last, Some(Duration::ZERO), &alive).unwrap_err();
        assert!(late.is_timed_out());
        wait(last, None, &engine).unwrap();
        // Reads of all ones: there is no card.
        pages.commands.store_u32(16, u32::MAX);
        assert!(matches!(send(&pages, 4, 2, &|| Err(Error::LinkDown)), Err(Error::LinkDown)));
        assert!(matches!(wait(last, None, &|| Err(Error::LinkDown)), Err(Error::LinkDown)));
    }
}
