//! Pages of processes, which the operating system moves, removes and brings back at any time, and
//! their translations in the card.
//!
//! A frame is poisoned as soon as the card has acknowledged the invalidation of its translation.
//! From then on the card may not touch it.

use hamlyn_abi::dart::registers::*;

use crate::engine::memory::{NOWHERE, PAGE, Right};
use crate::engine::violation::{Violation, ensure};
use crate::engine::world::World;

use super::ledger::{Kind, Page};
use super::model::Dart;

/// The first page of each space.
pub(super) const FIRST: u64 = 0x7f_0000;
/// Pages of spaces 1 and 2.
pub(super) const PAGES: [u64; 2] = [5, 4];

impl World<Dart> {
    /// Creates the memory of a host's processes.
    pub(super) fn make_spaces(&mut self, host: usize) {
        let cards = self.hosts.len() as u64;
        let system = (0..cards).map(|page| (0, page));
        let spaces =
            (1..).zip(PAGES).flat_map(|(space, pages)| (FIRST..FIRST + pages).map(move |page| (space, page)));
        for page in system.chain(spaces) {
            self.bring(host, page, Kind::Writable);
        }
    }

    /// Makes a zeroed page present.
    fn bring(&mut self, host: usize, page: (u32, u64), kind: Kind) {
        let machine = &self.hosts[host].machine;
        let frame = machine.frames().take(&machine.memory);
        let spaces = &mut self.model.spaces[host];
        spaces.pages.insert(page, Page::There { frame, kind });
        spaces.contents.insert(page, vec![0; PAGE as usize]);
    }

    /// Tells the card what the driver knows of a page that a connection waits for.
    pub(super) fn fill(&mut self, host: usize, page: (u32, u64), writes: bool) -> Result<(), Violation> {
        self.settle(host)?;
        let found = self.model.spaces[host].pages.get(&page).copied().unwrap_or(Page::Hole);
        match found {
            Page::There { kind: Kind::CopyOnWrite, .. } if writes => {
                self.move_page(host, page, Kind::Writable)?;
                self.fill(host, page, writes)
            }
            Page::There { kind: Kind::ReadOnly, .. } if writes => self.refuse(host, page, writes),
            Page::There { frame, kind } => {
                let writable = kind == Kind::Writable;
                let machine = self.hosts[host].machine.clone();
                let known = self.model.ledgers[host].known.insert(page, (frame, writable));
                if known.is_none() {
                    machine.permit_page(frame, Right::Read, true);
                }
                if writable && known.is_none_or(|(_, writable)| !writable) {
                    machine.permit_page(frame, Right::Write, true);
                }
                let writable = if writable { DART_FRAME_WRITABLE } else { 0 };
                self.tell(host, page, frame | writable)
            }
            Page::Hole => self.refuse(host, page, writes),
            Page::Nowhere { frame } => {
                self.model.ledgers[host].nowhere.insert(page);
                self.tell(host, page, frame | DART_FRAME_WRITABLE)
            }
        }
    }

    fn refuse(&mut self, host: usize, (space, page): (u32, u64), writes: bool) -> Result<(), Violation> {
        // A page that is not writable fails only messages that wait to write. A page that is absent
        // fails all.
        let is_hole = !matches!(self.model.spaces[host].pages.get(&(space, page)), Some(Page::There { .. }));
        let refused = &mut self.model.ledgers[host].refused;
        refused.insert((space, page, true));
        if is_hole || !writes {
            refused.insert((space, page, false));
        }
        let for_writing = if is_hole || !writes { 0 } else { DART_FRAME_WRITABLE };
        self.tell(host, (space, page), DART_FRAME_NONE | for_writing)
    }

    fn tell(&mut self, host: usize, (space, page): (u32, u64), value: u64) -> Result<(), Violation> {
        let machine = self.hosts[host].machine.clone();
        machine.set(DART_REG_TLB_SPACE, space.into())?;
        machine.set(DART_REG_TLB_PAGE, page * PAGE)?;
        machine.set(DART_REG_TLB_FILL, value)?;
        self.model.fills += 1;
        self.settle(host)
    }

    /// Invalidates translations. Once that is acknowledged, the card no longer uses them.
    fn take_back(&mut self, host: usize, space: u32, first: u64, count: u64) -> Result<(), Violation> {
        self.settle(host)?;
        let machine = self.hosts[host].machine.clone();
        machine.set(DART_REG_TLB_SPACE, space.into())?;
        machine.set(DART_REG_TLB_PAGE, first * PAGE)?;
        machine.set(DART_REG_TLB_INVALIDATE, count)?;
        let said = machine.load(DART_REG_TLB_INVALIDATE)?;
        ensure(said == 0, || format!("host {host}: an invalidation is answered by {said}"))?;
        let ledger = &mut self.model.ledgers[host];
        let is_meant =
            |(other, page): &(u32, u64)| *other == space && *page >= first && *page - first < count;
        let (gone, left) =
            std::mem::take(&mut ledger.known).into_iter().partition(|(page, _)| is_meant(page));
        let gone: std::collections::BTreeMap<_, _> = gone;
        ledger.known = left;
        ledger.refused.retain(|(other, page, _)| !is_meant(&(*other, *page)));
        ledger.nowhere.retain(|page| !is_meant(page));
        for (_, (frame, writable)) in gone {
            machine.permit_page(frame, Right::Read, false);
            if writable {
                machine.permit_page(frame, Right::Write, false);
            }
        }
        self.model.taken_back += 1;
        self.settle(host)
    }

    /// Moves a page to another frame, and frees the old one.
    fn move_page(&mut self, host: usize, page: (u32, u64), kind: Kind) -> Result<(), Violation> {
        let Some(Page::There { frame: old, .. }) = self.model.spaces[host].pages.get(&page).copied() else {
            return Ok(());
        };
        self.take_back(host, page.0, page.1, 1)?;
        let machine = &self.hosts[host].machine;
        let frame = machine.frames().take_as_it_is();
        machine.memory.poke(frame, &machine.memory.peek(old, PAGE as usize));
        self.poison(host, old);
        self.model.spaces[host].pages.insert(page, Page::There { frame, kind });
        Ok(())
    }

    fn poison(&mut self, host: usize, frame: u64) {
        let machine = &self.hosts[host].machine;
        machine.memory.poke(frame, &[0xee; PAGE as usize]);
        machine.frames().give(frame);
    }

    /// Changes a random page or its translations, as the operating system.
    pub(super) fn shift_pages(&mut self, host: usize) -> Result<(), Violation> {
        let space = self.rng.range(1, 2);
        let page = (space, FIRST + self.rng.below(PAGES[space as usize - 1]));
        let found = self.model.spaces[host].pages.get(&page).copied().unwrap_or(Page::Hole);
        let kind = self.rng.pick(&[Kind::Writable, Kind::Writable, Kind::CopyOnWrite, Kind::ReadOnly]);
        let kind = kind.unwrap_or(Kind::Writable);
        match (found, self.rng.below(8)) {
            (Page::Hole, _) => {
                self.bring(host, page, kind);
                Ok(())
            }
            (Page::Nowhere { .. }, _) => {
                self.take_back(host, page.0, page.1, 1)?;
                self.bring(host, page, kind);
                Ok(())
            }
            (Page::There { .. }, 0..4) => self.move_page(host, page, kind),
            (Page::There { frame, .. }, 4) => {
                self.take_back(host, page.0, page.1, 1)?;
                self.poison(host, frame);
                let nowhere = Page::Nowhere { frame: NOWHERE + page.1 * PAGE };
                let gone = if self.rng.percent(50) { Page::Hole } else { nowhere };
                self.model.spaces[host].pages.insert(page, gone);
                Ok(())
            }
            (Page::There { frame, .. }, 5) => {
                self.take_back(host, page.0, page.1, 1)?;
                self.model.spaces[host].pages.insert(page, Page::There { frame, kind });
                Ok(())
            }
            // A larger range, or translations that the card was never told.
            (_, 6) => {
                let (first, count) = (page.1 - self.rng.below(3), self.rng.next() >> self.rng.below(64));
                self.take_back(host, space, first, count)
            }
            // Before the card asks.
            _ => self.fill(host, page, false),
        }
    }

    /// Serves some or all misses of a connection that waits for pages, as the driver. Returns
    /// whether there was one.
    pub(super) fn serve_misses(&mut self, host: usize, most: u64) -> Result<bool, Violation> {
        let Some(index) = self.model.ledgers[host].missing.pop_first() else { return Ok(false) };
        if !self.model.ledgers[host].ends.contains_key(&index) {
            return Ok(true);
        }
        for _ in 0..most {
            // Read again each time: a page is reported as not writable only while a message waits
            // to write to it.
            let (space, misses) = self.hosts[host].machine.misses(index)?;
            let Some((page, writes)) = self.rng.pick(&misses) else { return Ok(true) };
            self.fill(host, (space, page), writes)?;
        }
        // The rest is served later.
        self.model.ledgers[host].missing.insert(index);
        Ok(true)
    }

    /// Stores to memory as a process.
    pub(super) fn store_memory(&mut self, host: usize, page: (u32, u64), place: usize, bytes: &[u8]) {
        let spaces = &mut self.model.spaces[host];
        let Some(Page::There { frame, .. }) = spaces.pages.get(&page) else { return };
        let end = (place + bytes.len()).min(PAGE as usize);
        let bytes = &bytes[..end - place];
        self.hosts[host].machine.memory.poke(frame + place as u64, bytes);
        if let Some(contents) = spaces.contents.get_mut(&page) {
            contents[place..end].copy_from_slice(bytes);
        }
    }
}
