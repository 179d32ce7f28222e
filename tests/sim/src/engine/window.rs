//! A card's mapped BARs and its interrupt lines.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hamlyn_card::ports::{Interrupt, Window, Windows};

use crate::engine::shared::Shared;

/// A mapped BAR in pieces. Each piece may be mapped by a different process.
#[derive(Debug)]
pub(crate) struct Pages {
    bar: u8,
    /// Start offset and memory of each piece.
    pieces: Vec<(u64, Arc<dyn Shared>)>,
}

impl Pages {
    /// Creates a BAR from pieces that follow each other.
    pub(crate) fn new(bar: u8, pieces: impl IntoIterator<Item = Arc<dyn Shared>>) -> Self {
        let mut start = 0;
        let pieces = pieces.into_iter().map(|piece| {
            let at = start;
            start += piece.length() as u64;
            (at, piece)
        });
        Self { bar, pieces: pieces.collect() }
    }

    pub(crate) fn bar(&self) -> u8 {
        self.bar
    }

    /// Stores bytes, as a process that has mapped the BAR does.
    pub(crate) fn poke(&self, offset: u64, bytes: &[u8]) {
        let (piece, at) = self.at(offset);
        piece.write(at, bytes);
    }

    fn at(&self, offset: u64) -> (&dyn Shared, usize) {
        let index = self.pieces.partition_point(|(start, _)| *start <= offset) - 1;
        let (start, piece) = &self.pieces[index];
        (&**piece, (offset - start) as usize)
    }
}

impl Window for Pages {
    fn load(&self, offset: u64) -> u32 {
        let (piece, at) = self.at(offset);
        piece.load(at)
    }

    fn store(&self, offset: u64, value: u32) {
        let (piece, at) = self.at(offset);
        piece.store(at, value);
    }

    fn copy_out(&self, offset: u64, into: &mut [u8]) {
        let (piece, at) = self.at(offset);
        piece.read(at, into);
    }

    fn clear(&self, mut offset: u64, length: u64) {
        let end = offset + length;
        while offset < end {
            let (piece, at) = self.at(offset);
            let here = (end - offset).min((piece.length() - at) as u64);
            piece.write(at, &vec![0; here as usize]);
            offset += here;
        }
    }
}

/// All mapped BARs of a card.
#[derive(Debug)]
pub(crate) struct Bars(pub(crate) Vec<Pages>);

impl Bars {
    /// Returns the BAR with an index that the card's identity lists.
    pub(crate) fn of(&self, bar: u8) -> &Pages {
        self.0.iter().find(|pages| pages.bar == bar).expect("a BAR of the card's identity")
    }
}

impl Windows for Bars {
    fn load_from(&self, bar: u8, offset: u64) -> u32 {
        self.of(bar).load(offset)
    }

    fn store_to(&self, bar: u8, offset: u64, value: u32) {
        self.of(bar).store(offset, value);
    }

    fn copy_out_of(&self, bar: u8, offset: u64, into: &mut [u8]) {
        self.of(bar).copy_out(offset, into);
    }

    fn clear_in(&self, bar: u8, offset: u64, length: u64) {
        self.of(bar).clear(offset, length);
    }
}

/// Raised vectors that the driver has not handled yet.
#[derive(Debug, Default)]
pub(crate) struct Vectors(Mutex<Vec<u16>>);

impl Vectors {
    fn raised(&self) -> MutexGuard<'_, Vec<u16>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn take(&self) -> Vec<u16> {
        std::mem::take(&mut *self.raised())
    }

    pub(crate) fn count(&self, vector: u16) -> usize {
        self.raised().iter().filter(|raised| **raised == vector).count()
    }
}

impl Interrupt for Vectors {
    fn raise(&self, vector: u16) {
        self.raised().push(vector);
    }
}
