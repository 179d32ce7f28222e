//! Data that has arrived and is to be written to memory, in order of arrival.

use std::collections::VecDeque;

use super::objects::{Accesses, Aperture};

/// Data to be written to memory.
#[derive(Debug)]
pub(super) struct Landing {
    address: u64,
    bytes: Vec<u8>,
    /// Accesses that are complete once it is written. They were made for other hosts or by this
    /// one.
    then: Option<Accesses>,
}

/// Bytes that were written.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) length: usize,
    /// The number of bytes of their landing that were written before.
    pub(super) before: usize,
    pub(super) accesses: Option<Accesses>,
    /// They are the last of their landing.
    pub(super) is_last: bool,
}

/// The arrived data of a card.
#[derive(Debug, Default)]
pub(super) struct Landings {
    waiting: VecDeque<Landing>,
    /// Bytes of the first landing that have been written.
    landed: usize,
}

impl Landings {
    /// Adds data for an aperture. Accesses by this host are complete with the last piece of memory,
    /// those of other hosts piece by piece.
    pub(super) fn add(&mut self, aperture: &Aperture, offset: u64, data: &[u8], accesses: Accesses) {
        let pieces = aperture.area.pieces(offset, data.len() as u64);
        let (mut rest, last) = (data, pieces.len());
        for (index, (address, length)) in pieces.into_iter().enumerate() {
            let at = accesses.offset + (data.len() - rest.len()) as u64;
            let (here, behind) = rest.split_at(length as usize);
            rest = behind;
            let then = match accesses.is_remote {
                true => (index + 1 == last).then_some(accesses),
                false => Some(Accesses { offset: at, length, ..accesses }),
            };
            self.waiting.push_back(Landing { address, bytes: here.to_vec(), then });
        }
    }

    pub(super) fn count(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn next(&self) -> Option<&Landing> {
        self.waiting.front()
    }

    pub(super) fn waiting(&self) -> &VecDeque<Landing> {
        &self.waiting
    }

    /// Takes the first bytes that were written to an address. `None` if they are not the next.
    pub(super) fn take(&mut self, address: u64, bytes: &[u8]) -> Option<Piece> {
        let (front, before) = (self.waiting.front()?, self.landed);
        let left = &front.bytes[before..];
        let length = left.len().min(bytes.len());
        if front.address + before as u64 != address || left[..length] != bytes[..length] {
            return None;
        }
        let (accesses, is_last) = (front.then, length == left.len());
        self.landed += length;
        if is_last {
            self.landed = 0;
            self.waiting.pop_front();
        }
        Some(Piece { length, before, accesses, is_last })
    }
}
