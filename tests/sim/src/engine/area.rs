//! Areas of scattered pages, and the allocator of their pages.

use hamlyn_abi::family::area::UlnArea;

use crate::engine::memory::{Memory, PAGE, Right};
use crate::engine::rng::Rng;

/// The free pages of a host. Pages are allocated in random order, so areas are scattered and pages
/// soon change owners.
#[derive(Debug)]
pub(crate) struct Frames {
    free: Vec<u64>,
    rng: Rng,
}

impl Frames {
    /// Starts with all of `frames` pages free, except the first, so that no area has address 0.
    pub(crate) fn new(rng: Rng, frames: u64) -> Self {
        Self { free: (1..frames).map(|frame| frame * PAGE).collect(), rng }
    }

    /// Allocates a zeroed page. The caller makes sure that a page is free.
    pub(crate) fn take(&mut self, memory: &Memory) -> u64 {
        let page = self.take_as_it_is();
        memory.poke(page, &[0; PAGE as usize]);
        page
    }

    /// Allocates a page without zeroing it, for a caller that fills it.
    pub(crate) fn take_as_it_is(&mut self) -> u64 {
        let index = self.rng.index(self.free.len());
        self.free.swap_remove(index)
    }

    pub(crate) fn give(&mut self, page: u64) {
        self.free.push(page);
    }

    pub(crate) fn left(&self) -> usize {
        self.free.len()
    }
}

/// An area as it is described to the card: the driver's page lists, and the pages.
#[derive(Debug, Clone)]
pub(crate) struct Area {
    directory: u64,
    list: u64,
    pages: Vec<u64>,
    first: u64,
    pub(crate) length: u64,
}

impl Area {
    /// Creates an area of `length` bytes that starts at byte `first` of the first page. Unused
    /// entries of the driver's lists are invalid addresses: a card that reads too far is caught.
    pub(crate) fn over(
        memory: &Memory,
        frames: &mut Frames,
        pages: Vec<u64>,
        first: u64,
        length: u64,
    ) -> Self {
        let (directory, list) = (frames.take_as_it_is(), frames.take_as_it_is());
        for page in [directory, list] {
            memory.poke(page, &[0xee; PAGE as usize]);
        }
        memory.poke(directory, &list.to_le_bytes());
        for (i, page) in pages.iter().enumerate() {
            memory.poke(list + 8 * i as u64, &page.to_le_bytes());
        }
        Self { directory, list, pages, first, length }
    }

    /// Like [`Area::over`], but with newly allocated pages.
    pub(crate) fn new(memory: &Memory, frames: &mut Frames, first: u64, length: u64) -> Self {
        let pages = (0..(first + length).div_ceil(PAGE)).map(|_| frames.take(memory)).collect();
        Self::over(memory, frames, pages, first, length)
    }

    /// Frees the pages of the driver's lists.
    pub(crate) fn give_lists_back(&self, frames: &mut Frames) {
        frames.give(self.directory);
        frames.give(self.list);
    }

    /// Unmaps and frees the pages of the area.
    pub(crate) fn give_pages_back(&self, memory: &Memory, frames: &mut Frames) {
        for page in &self.pages {
            memory.unmap(*page);
            frames.give(*page);
        }
    }

    pub(crate) fn abi(&self) -> UlnArea {
        UlnArea { directory: self.directory, length: self.length, first: self.first as u32, reserved: 0 }
    }

    pub(crate) fn pages(&self) -> &[u64] {
        &self.pages
    }

    /// Returns the host address of byte `offset`.
    pub(crate) fn address(&self, offset: u64) -> u64 {
        let byte = self.first + offset;
        self.pages[(byte / PAGE) as usize] + byte % PAGE
    }

    /// Returns the addresses and lengths of the pieces of `offset..offset + length`. The range must
    /// be inside the area.
    pub(crate) fn pieces(&self, mut offset: u64, length: u64) -> Vec<(u64, u64)> {
        let end = offset + length;
        let mut pieces = Vec::new();
        while offset < end {
            let here = (PAGE - (self.first + offset) % PAGE).min(end - offset);
            pieces.push((self.address(offset), here));
            offset += here;
        }
        pieces
    }

    pub(crate) fn poke(&self, memory: &Memory, offset: u64, bytes: &[u8]) {
        let mut rest = bytes;
        for (address, length) in self.pieces(offset, bytes.len() as u64) {
            let (here, behind) = rest.split_at(length as usize);
            memory.poke(address, here);
            rest = behind;
        }
    }

    pub(crate) fn peek(&self, memory: &Memory, offset: u64, length: u64) -> Vec<u8> {
        let pieces = self.pieces(offset, length);
        pieces.into_iter().flat_map(|(address, length)| memory.peek(address, length as usize)).collect()
    }

    /// Allows or forbids the card to read the page lists.
    pub(crate) fn permit_lists(&self, memory: &Memory, allowed: bool) {
        for page in [self.directory, self.list] {
            memory.permit(Right::Read, page, PAGE, allowed);
        }
    }

    /// Allows or forbids the card to use part of the area.
    pub(crate) fn permit(&self, memory: &Memory, right: Right, offset: u64, length: u64, allowed: bool) {
        for (address, length) in self.pieces(offset, length) {
            memory.permit(right, address, length, allowed);
        }
    }
}
