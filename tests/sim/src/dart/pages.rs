//! Pages of a host's address spaces: where they are, what they contain, and what the card was told
//! of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hamlyn_abi::dart::registers::*;
use hamlyn_abi::family::area::UlnArea;

use crate::engine::area::Area;
use crate::engine::memory::{PAGE, Right};
use crate::engine::violation::{Violation, ensure};

use super::machine::Machine;
use super::terms::Piece;

/// The first page of each space.
pub(super) const FIRST: u64 = 0x7f_0000;
/// Pages of spaces 1 and 2.
pub(super) const PAGES: [u64; 2] = [5, 4];

/// State of a page of an address space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Page {
    Hole,
    /// The driver believes that the page is present, but its frame cannot be accessed.
    Nowhere {
        frame: u64,
    },
    /// Present in that frame. It is writable, read-only, or writable only after it is copied.
    There {
        frame: u64,
        kind: Kind,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Writable,
    ReadOnly,
    CopyOnWrite,
}

/// A host's pages, by space and number. A reset of the card forgets only what the card was told.
#[derive(Debug)]
pub(super) struct Pages {
    machine: Arc<Machine>,
    pages: BTreeMap<(u32, u64), Page>,
    contents: BTreeMap<(u32, u64), Vec<u8>>,
    /// Translations that the card was told and that were not invalidated: frames, and whether they
    /// are writable.
    known: BTreeMap<(u32, u64), (u64, bool)>,
    /// Pages that the driver reported as absent, for reading or writing, while a message waited.
    refused: BTreeSet<(u32, u64, bool)>,
    /// Pages that the driver reported to be in frames that cannot be accessed, and has not
    /// invalidated.
    nowhere: BTreeSet<(u32, u64)>,
    /// The memory for messages of operating systems.
    pinned: Option<Area>,
}

impl Pages {
    /// Creates the memory of a host's processes, and a page for each host's operating system.
    pub(super) fn new(machine: Arc<Machine>, hosts: u16) -> Self {
        let mut pages = Self {
            machine,
            pages: BTreeMap::new(),
            contents: BTreeMap::new(),
            known: BTreeMap::new(),
            refused: BTreeSet::new(),
            nowhere: BTreeSet::new(),
            pinned: None,
        };
        (0..hosts.into()).for_each(|page| pages.bring((0, page), Kind::Writable));
        for (space, count) in (1..).zip(PAGES) {
            (FIRST..FIRST + count).for_each(|page| pages.bring((space, page), Kind::Writable));
        }
        pages
    }

    /// Makes a zeroed page present.
    pub(super) fn bring(&mut self, page: (u32, u64), kind: Kind) {
        let frame = self.machine.frames().take(&self.machine.memory);
        self.pages.insert(page, Page::There { frame, kind });
        self.contents.insert(page, vec![0; PAGE as usize]);
    }

    /// Returns where a page is.
    pub(super) fn get(&self, page: (u32, u64)) -> Page {
        self.pages.get(&page).copied().unwrap_or(Page::Hole)
    }

    /// Returns the frame of a page, if it is present.
    fn frame(&self, page: (u32, u64)) -> Option<u64> {
        match self.get(page) {
            Page::There { frame, .. } => Some(frame),
            Page::Hole | Page::Nowhere { .. } => None,
        }
    }

    /// Changes where a page is that the card does not know. Poisons and frees the frame that it
    /// leaves.
    pub(super) fn change(&mut self, page: (u32, u64), state: Page) {
        let old = self.frame(page);
        self.pages.insert(page, state);
        if let Some(old) = old.filter(|old| self.frame(page) != Some(*old)) {
            self.machine.memory.poke(old, &[0xee; PAGE as usize]);
            self.machine.frames().give(old);
        }
    }

    /// Moves a page that the card does not know to another frame.
    pub(super) fn relocate(&mut self, page: (u32, u64), kind: Kind) {
        let Some(old) = self.frame(page) else { return };
        let frame = self.machine.frames().take_as_it_is();
        self.machine.memory.poke(frame, &self.machine.memory.peek(old, PAGE as usize));
        self.change(page, Page::There { frame, kind });
    }

    /// Returns what the driver tells the card of a page that a message waits for. The card may then
    /// use the page.
    pub(super) fn tell(&mut self, (space, page): (u32, u64), writes: bool) -> u64 {
        match self.get((space, page)) {
            // A page that is not writable fails only messages that wait to write.
            Page::There { kind: Kind::ReadOnly, .. } if writes => {
                self.refused.insert((space, page, true));
                DART_FRAME_NONE | DART_FRAME_WRITABLE
            }
            Page::There { frame, kind } => {
                let writable = kind == Kind::Writable;
                self.let_in((space, page), frame, writable);
                frame | if writable { DART_FRAME_WRITABLE } else { 0 }
            }
            Page::Hole => {
                self.refused.extend([(space, page, true), (space, page, false)]);
                DART_FRAME_NONE
            }
            Page::Nowhere { frame } => {
                self.nowhere.insert((space, page));
                frame | DART_FRAME_WRITABLE
            }
        }
    }

    fn let_in(&mut self, page: (u32, u64), frame: u64, writable: bool) {
        let known = self.known.insert(page, (frame, writable));
        if known.is_none() {
            self.machine.permit_page(frame, Right::Read, true);
        }
        if writable && known.is_none_or(|(_, writable)| !writable) {
            self.machine.permit_page(frame, Right::Write, true);
        }
    }

    /// Notes that translations were invalidated. The card may no longer use them.
    pub(super) fn take_back(&mut self, space: u32, first: u64, count: u64) {
        let is_meant =
            |(other, page): &(u32, u64)| *other == space && *page >= first && *page - first < count;
        self.refused.retain(|(other, page, _)| !is_meant(&(*other, *page)));
        self.nowhere.retain(|page| !is_meant(page));
        self.known.retain(|page, known| {
            let stays = !is_meant(page);
            if !stays {
                forbid(&self.machine, *known);
            }
            stays
        });
    }

    /// Pins the pages of operating systems, and returns their area.
    pub(super) fn pin(&mut self) -> UlnArea {
        let pages: Vec<(u32, u64)> = self.pages.keys().copied().filter(|(space, _)| *space == 0).collect();
        let frames: Vec<u64> = pages.iter().filter_map(|page| self.frame(*page)).collect();
        pages.iter().zip(&frames).for_each(|(page, frame)| self.let_in(*page, *frame, true));
        let length = frames.len() as u64 * PAGE;
        let area = Area::over(&self.machine.memory, &mut self.machine.frames(), frames, 0, length);
        area.permit_lists(&self.machine.memory, true);
        self.pinned.insert(area).abi()
    }

    /// Forgets what the card was told: it was reset, and may no longer use any page.
    pub(super) fn reset(&mut self) {
        self.refused.clear();
        self.nowhere.clear();
        std::mem::take(&mut self.known).into_values().for_each(|known| forbid(&self.machine, known));
        if let Some(area) = self.pinned.take() {
            area.permit_lists(&self.machine.memory, false);
            area.give_lists_back(&mut self.machine.frames());
        }
    }

    /// Returns the frame of a page that the card was told.
    pub(super) fn known(&self, page: (u32, u64)) -> Option<u64> {
        self.known.get(&page).map(|(frame, _)| *frame)
    }

    /// Returns whether the card was told where a page is that a message reads or writes.
    pub(super) fn is_known(&self, page: (u32, u64), writes: bool) -> bool {
        self.known.get(&page).is_some_and(|(_, writable)| *writable || !writes)
    }

    /// Returns whether a page was reported as absent for a message that reads or writes it.
    pub(super) fn is_refused(&self, (space, page): (u32, u64), writes: bool) -> bool {
        self.nowhere.contains(&(space, page))
            || [false, writes].iter().any(|writes| self.refused.contains(&(space, page, *writes)))
    }

    /// Forgets the absent pages that the driver has reported to waiting messages, once no message
    /// waits.
    pub(super) fn forget_refusals(&mut self) {
        self.refused.clear();
    }

    /// Returns the frames of all pages.
    pub(super) fn frames(&self) -> impl Iterator<Item = u64> {
        self.pages.keys().filter_map(|page| self.frame(*page))
    }

    /// Returns the contents of a piece, whether or not its page is present.
    pub(super) fn contents(&self, piece: &Piece) -> Option<&[u8]> {
        self.contents.get(&piece.page)?.get(piece.place..piece.place + piece.length)
    }

    /// Returns the bytes of these pieces, if their pages are present.
    pub(super) fn bytes(&self, pieces: &[Piece]) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        for piece in pieces {
            self.frame(piece.page)?;
            bytes.extend(self.contents(piece)?);
        }
        Some(bytes)
    }

    /// Notes bytes that the card has written.
    pub(super) fn note_written(&mut self, page: (u32, u64), place: usize, written: &[u8]) {
        if let Some(bytes) = self.contents.get_mut(&page) {
            bytes[place..place + written.len()].copy_from_slice(written);
        }
    }

    /// Stores to memory as a process, up to the end of a page.
    pub(super) fn store(&mut self, page: (u32, u64), place: usize, bytes: &[u8]) {
        let Some(frame) = self.frame(page) else { return };
        let bytes = &bytes[..bytes.len().min(PAGE as usize - place)];
        self.machine.memory.poke(frame + place as u64, bytes);
        self.note_written(page, place, bytes);
    }

    /// Checks that the memory has the values written there.
    pub(super) fn check(&self) -> Result<(), Violation> {
        let host = self.machine.id;
        for (page, contents) in &self.contents {
            let Some(frame) = self.frame(*page) else { continue };
            let is = self.machine.memory.peek(frame, PAGE as usize);
            ensure(is == *contents, || format!("host {host}: page {page:x?} is not what was written there"))?;
        }
        Ok(())
    }
}

/// Forbids the card to use a frame that it was told.
fn forbid(machine: &Machine, (frame, writable): (u64, bool)) {
    machine.permit_page(frame, Right::Read, false);
    if writable {
        machine.permit_page(frame, Right::Write, false);
    }
}
