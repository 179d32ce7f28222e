//! The operating system moves, removes and brings back pages of processes at any time, and tells
//! the card.
//!
//! A frame is poisoned as soon as the card has acknowledged the invalidation of its translation.
//! From then on the card may not touch it.

use hamlyn_abi::dart::registers::*;

use crate::engine::memory::{NOWHERE, PAGE};
use crate::engine::rng::Rng;
use crate::engine::violation::{Violation, ensure};

use super::account::Account;
use super::pages::{FIRST, Kind, PAGES, Page};

/// The part of an operating system that has a host's pages.
#[derive(Debug)]
pub(super) struct Pager<'a> {
    pub(super) account: &'a mut Account,
    pub(super) rng: &'a mut Rng,
}

impl Pager<'_> {
    /// Tells the card what the driver knows of a page that a connection waits for.
    fn fill(&mut self, page: (u32, u64), writes: bool) -> Result<(), Violation> {
        self.account.settle()?;
        match self.account.pages.get(page) {
            Page::There { kind: Kind::CopyOnWrite, .. } if writes => self.relocate(page, Kind::Writable)?,
            _ => {}
        }
        let value = self.account.pages.tell(page, writes);
        let machine = self.account.machine();
        machine.set(DART_REG_TLB_SPACE, page.0.into())?;
        machine.set(DART_REG_TLB_PAGE, page.1 * PAGE)?;
        machine.set(DART_REG_TLB_FILL, value)?;
        self.account.tally.fills += 1;
        self.account.settle()
    }

    /// Invalidates translations. Once that is acknowledged, the card no longer uses them.
    fn take_back(&mut self, space: u32, first: u64, count: u64) -> Result<(), Violation> {
        self.account.settle()?;
        let machine = self.account.machine();
        machine.set(DART_REG_TLB_SPACE, space.into())?;
        machine.set(DART_REG_TLB_PAGE, first * PAGE)?;
        machine.set(DART_REG_TLB_INVALIDATE, count)?;
        let said = machine.load(DART_REG_TLB_INVALIDATE)?;
        ensure(said == 0, || format!("host {}: an invalidation is answered by {said}", machine.id))?;
        self.account.pages.take_back(space, first, count);
        self.account.tally.taken_back += 1;
        self.account.settle()
    }

    /// Moves a page to another frame, and frees the old one.
    fn relocate(&mut self, page: (u32, u64), kind: Kind) -> Result<(), Violation> {
        self.take_back(page.0, page.1, 1)?;
        self.account.pages.relocate(page, kind);
        Ok(())
    }

    /// Changes a random page or its translations.
    pub(super) fn shift_pages(&mut self) -> Result<(), Violation> {
        let space = self.rng.range(1, 2);
        let page = (space, FIRST + self.rng.below(PAGES[space as usize - 1]));
        let found = self.account.pages.get(page);
        let kind = self.rng.pick(&[Kind::Writable, Kind::Writable, Kind::CopyOnWrite, Kind::ReadOnly]);
        let kind = kind.unwrap_or(Kind::Writable);
        match (found, self.rng.below(8)) {
            (Page::Hole, _) => self.account.pages.bring(page, kind),
            (Page::Nowhere { .. }, _) => {
                self.take_back(page.0, page.1, 1)?;
                self.account.pages.bring(page, kind);
            }
            (Page::There { .. }, 0..4) => self.relocate(page, kind)?,
            (Page::There { .. }, 4) => {
                self.take_back(page.0, page.1, 1)?;
                let nowhere = Page::Nowhere { frame: NOWHERE + page.1 * PAGE };
                let left = if self.rng.percent(50) { Page::Hole } else { nowhere };
                self.account.pages.change(page, left);
            }
            (Page::There { frame, .. }, 5) => {
                self.take_back(page.0, page.1, 1)?;
                self.account.pages.change(page, Page::There { frame, kind });
            }
            // A larger range, or translations that the card was never told.
            (_, 6) => {
                let (first, count) = (page.1 - self.rng.below(3), self.rng.next() >> self.rng.below(64));
                self.take_back(space, first, count)?;
            }
            // Before the card asks.
            _ => self.fill(page, false)?,
        }
        Ok(())
    }

    /// Serves some or all misses of a connection that waits for pages. Returns whether there was
    /// one.
    pub(super) fn serve_misses(&mut self, most: u64) -> Result<bool, Violation> {
        let Some(index) = self.account.missing.pop_first() else { return Ok(false) };
        if self.account.end(index).is_none() {
            return Ok(true);
        }
        for _ in 0..most {
            // Read again each time: a page is reported as not writable only while a message waits
            // to write to it.
            let (space, misses) = self.account.machine().misses(index)?;
            let Some((page, writes)) = self.rng.pick(&misses) else { return Ok(true) };
            self.fill((space, page), writes)?;
        }
        // The rest is served later.
        self.account.missing.insert(index);
        Ok(true)
    }
}
