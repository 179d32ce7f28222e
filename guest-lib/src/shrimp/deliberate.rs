//! Deliberate update (section 4.3): a locked compare-and-exchange starts the card's single engine,
//! or returns why it cannot.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use hamlyn_abi::shrimp::memory::*;
use rustix::thread::sched_yield;

use super::outlet::Outlet;
use super::place::{WORD, pieces};
use crate::core::place::multiple;
use crate::error::{Error, Result};

/// Interval at which a thread that waits for the engine checks that the card is still there.
const LIFE: Duration = Duration::from_millis(100);
/// Number of polls before a waiting thread starts to nap. After that, the other host accepts no
/// data, or other processes send a lot.
const LOOKS_BEFORE_NAP: u32 = 1000;
/// Duration of a nap.
const NAP: Duration = Duration::from_micros(50);

/// The current transfer of the card's engine, as a command page describes it (section 4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Underway {
    /// Number of 4-byte words that the engine still has to read.
    pub words_left: u32,
    /// Whether the transfer was started at the queried offset: the BASE flag.
    pub is_base: bool,
}

impl Underway {
    /// Returns `None` for a command page's answer that the engine is free.
    fn of(answer: u32) -> Option<Self> {
        (answer != 0).then_some(Self { words_left: answer & SHRIMP_LEFT, is_base: answer & SHRIMP_BASE != 0 })
    }
}

impl Outlet {
    /// Returns whether the engine is free.
    pub(super) fn is_free(&self) -> bool {
        self.commands.load_u32_acquire(0) == 0
    }

    /// Returns the engine's current transfer, queried at a byte of the buffer.
    pub(super) fn underway(&self, offset: usize) -> Result<Option<Underway>> {
        let at = self.at(offset, WORD)?;
        multiple("offset", offset, WORD)?;
        multiple("place in the page", at, WORD)?;
        Ok(Underway::of(self.commands.load_u32_acquire(at)))
    }

    /// Starts the transfer of these bytes, page by page. The next page is tried while the engine
    /// works on the one before. Calls `alive` from time to time.
    pub(super) fn send(&self, offset: usize, length: usize, alive: &dyn Fn() -> Result<()>) -> Result<()> {
        let at = self.at(offset, length)?;
        multiple("offset", offset, WORD)?;
        multiple("place in the page", at, WORD)?;
        multiple("length", length, WORD)?;
        let mut transfer = self.transfer.lock().unwrap_or_else(PoisonError::into_inner);
        let mut patience = Patience::new();
        for piece in pieces(at, length) {
            while let Err(answer) = self.commands.compare_exchange_u32(piece.at, 0, piece.words) {
                patience.back_off(answer, alive)?;
            }
            transfer.started(piece.at);
        }
        Ok(())
    }

    /// Blocks until the engine has finished all earlier transfers of this buffer.
    pub(super) fn wait_until_sent(
        &self,
        timeout: Option<Duration>,
        alive: &dyn Fn() -> Result<()>,
    ) -> Result<()> {
        let begun = Instant::now();
        let mut patience = Patience::new();
        let mut awaited = None;
        loop {
            let answer = {
                let mut transfer = self.transfer.lock().unwrap_or_else(PoisonError::into_inner);
                let Some((base, number)) = transfer.pending() else { return Ok(()) };
                if *awaited.get_or_insert(number) != number {
                    return Ok(());
                }
                let answer = self.commands.load_u32_acquire(base);
                if transfer.is_done(answer) {
                    return Ok(());
                }
                answer
            };
            if let Some(after) = timeout.filter(|limit| begun.elapsed() >= *limit) {
                return Err(Error::TimedOut { what: "end of a deliberate update", after });
            }
            patience.back_off(answer, alive)?;
        }
    }
}

/// Back-off of a thread that waits for the engine.
pub(super) struct Patience {
    looks: u32,
    asked: Instant,
}

impl Patience {
    pub(super) fn new() -> Self {
        Self { looks: 0, asked: Instant::now() }
    }

    /// Leaves the engine alone for as long as it may need for the remaining words (section 4.3).
    pub(super) fn back_off(&mut self, answer: u32, alive: &dyn Fn() -> Result<()>) -> Result<()> {
        if self.asked.elapsed() >= LIFE {
            alive()?;
            self.asked = Instant::now();
        }
        for _ in 0..(answer & SHRIMP_LEFT).min(SHRIMP_MAX_WORDS) {
            std::hint::spin_loop();
        }
        self.looks = self.looks.saturating_add(1);
        if self.looks < LOOKS_BEFORE_NAP {
            sched_yield();
        } else {
            std::thread::sleep(NAP);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use hamlyn_abi::shrimp::entry::SHRIMP_MODE_DELIBERATE;

    use super::super::fake::outlet;
    use super::*;
    use crate::core::place::PAGE;

    fn alive() -> Result<()> {
        Ok(())
    }

    const AT_ONCE: Option<Duration> = Some(Duration::ZERO);

    #[test]
    fn command_for_each_page_has_word_count() {
        let pages = outlet(8, 3 * PAGE, false, SHRIMP_MODE_DELIBERATE);
        assert!(pages.outlet.is_free());
        pages.outlet.send(4, 2 * PAGE, &alive).unwrap();
        assert_eq!(pages.commands.load_u32(12), 1021);
        assert_eq!(pages.commands.load_u32(PAGE), 1024);
        assert_eq!(pages.commands.load_u32(2 * PAGE), 3);
        let told = (0..4 * PAGE).step_by(4).filter(|at| pages.commands.load_u32(*at) != 0);
        assert_eq!(told.count(), 3);
    }

    #[test]
    fn underway_reports_engine_at_each_offset() {
        let pages = outlet(8, 100, false, SHRIMP_MODE_DELIBERATE);
        assert_eq!(pages.outlet.underway(4).unwrap(), None);
        pages.commands.store_u32(12, SHRIMP_BUSY | SHRIMP_BASE | 768);
        pages.commands.store_u32(16, SHRIMP_BUSY | 768);
        let described = |offset| pages.outlet.underway(offset).unwrap().unwrap();
        assert_eq!(described(4), Underway { words_left: 768, is_base: true });
        assert_eq!(described(8), Underway { words_left: 768, is_base: false });
        for offset in [2, 100, usize::MAX] {
            assert!(pages.outlet.underway(offset).is_err(), "{offset}");
        }
    }

    #[test]
    fn partial_words_and_outside_ranges_are_refused() {
        let pages = outlet(8, 100, false, SHRIMP_MODE_DELIBERATE);
        for (offset, length, reason) in [
            (2, 4, "offset 2 is not a multiple of 4"),
            (4, 6, "length 6 is not a multiple of 4"),
            (96, 8, "8 bytes at offset 96 reach past the end of the send buffer (limit 100)"),
        ] {
            assert_eq!(pages.outlet.send(offset, length, &alive).unwrap_err().to_string(), reason);
        }
        let odd = outlet(6, 100, false, SHRIMP_MODE_DELIBERATE);
        assert!(odd.outlet.send(0, 4, &alive).is_err());
        for commands in [&pages.commands, &odd.commands] {
            assert!((0..PAGE).step_by(4).all(|at| commands.load_u32(at) == 0));
        }
    }

    #[test]
    fn busy_engine_is_retried_until_free() {
        let pages = outlet(0, PAGE, false, SHRIMP_MODE_DELIBERATE);
        pages.commands.store_u32(16, SHRIMP_BUSY | 70);
        // The engine's transfer is done at the second check that the card is there.
        let asked = AtomicU32::new(0);
        let engine = || {
            if asked.fetch_add(1, Ordering::Relaxed) == 1 {
                pages.commands.store_u32(16, 0);
            }
            Ok(())
        };
        pages.outlet.send(16, 8, &engine).unwrap();
        assert_eq!((pages.commands.load_u32(16), asked.into_inner()), (2, 2));
    }

    #[test]
    fn wait_fails_when_card_is_gone() {
        let pages = outlet(0, PAGE, false, SHRIMP_MODE_DELIBERATE);
        let gone = || Err(Error::LinkDown);
        // A read of all ones: the bus has no device there.
        pages.commands.store_u32(0, u32::MAX);
        assert!(matches!(pages.outlet.send(0, 4, &gone), Err(Error::LinkDown)));
        pages.commands.store_u32(0, 0);
        pages.outlet.send(0, 4, &gone).unwrap();
        pages.commands.store_u32(0, u32::MAX);
        assert!(matches!(pages.outlet.wait_until_sent(None, &gone), Err(Error::LinkDown)));
    }

    #[test]
    fn transfer_is_sent_when_engine_dropped_it() {
        let pages = outlet(0, PAGE, false, SHRIMP_MODE_DELIBERATE);
        let says = |answer| pages.commands.store_u32(8, answer);
        let is_sent = || pages.outlet.wait_until_sent(AT_ONCE, &alive).is_ok();
        assert!(is_sent(), "nothing was to be sent");
        pages.outlet.send(8, 8, &alive).unwrap();
        says(SHRIMP_BUSY | SHRIMP_BASE | 2);
        assert!(!is_sent());
        let late = pages.outlet.wait_until_sent(AT_ONCE, &alive).unwrap_err();
        assert_eq!(late.to_string(), "no end of a deliberate update within 0ns");
        // Another transfer follows it.
        says(SHRIMP_BUSY | 9);
        assert!(is_sent());
        says(0);
        pages.outlet.send(8, 8, &alive).unwrap();
        says(0);
        assert!(is_sent());
    }

    #[test]
    fn transfers_ahead_are_waited_for() {
        let pages = outlet(0, PAGE, false, SHRIMP_MODE_DELIBERATE);
        pages.outlet.send(8, 8, &alive).unwrap();
        let is_sent = |left| {
            pages.commands.store_u32(8, SHRIMP_BUSY | left);
            pages.outlet.wait_until_sent(AT_ONCE, &alive).is_ok()
        };
        assert!(!is_sent(SHRIMP_WAITS | 900) && !is_sent(SHRIMP_WAITS | 10), "another is ahead");
        assert!(!is_sent(SHRIMP_BASE | 2));
        assert!(is_sent(900), "another is behind");
    }
}
