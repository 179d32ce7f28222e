//! Remote reads in flight.

use crate::engine::area::Area;

use super::memories::Memories;
use super::packet::Letter;

/// The origin of a read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Origin {
    /// A load, by the card's number.
    Load(u64),
    /// A DMA request: its endpoint and serial number.
    Dma(u32, u64),
    /// The origin no longer exists.
    #[default]
    Gone,
}

/// A remote read in flight.
#[derive(Debug, Default)]
struct Reading {
    /// From which host, and to which.
    pair: (u16, u16),
    letter: Letter,
    origin: Origin,
    /// It has reached its host.
    arrived: bool,
    /// It might have the data that it asks for, until the aperture was closed.
    is_revoked: bool,
    /// Its host has refused it.
    is_refused: bool,
    /// The memory and the first byte in it, if it may have the data that it asks for.
    memory: Option<(Area, u64)>,
    /// The first moment of which the answer may show the contents.
    start: u64,
    data: Vec<u8>,
    /// Bytes that have left (`sent`), and come (`came`).
    sent: u64,
    came: u64,
    /// Number of pieces that came before it and are not in memory yet: it reads after them.
    behind: usize,
}

impl Reading {
    /// Returns whether a packet from its host has the next bytes that it asks for.
    fn can_be_answered(&self, letter: &Letter) -> bool {
        let asked = &self.letter;
        self.arrived
            && !self.is_refused
            && (asked.tag, asked.aperture) == (letter.tag, letter.aperture)
            && asked.offset + self.sent == letter.offset
            && !letter.data.is_empty()
            && self.sent + letter.data.len() as u64 <= asked.asked()
    }
}

/// The remote reads between all hosts.
#[derive(Debug, Default)]
pub(super) struct Readings(Vec<Reading>);

impl Readings {
    pub(super) fn ask(&mut self, pair: (u16, u16), letter: &Letter, origin: Origin) {
        self.0.push(Reading { pair, letter: letter.clone(), origin, ..Reading::default() });
    }

    /// Notes that a read has arrived. `memory` is what it may read, if it may, and `behind` the
    /// number of pieces that have arrived and are not in memory yet.
    pub(super) fn arrived(
        &mut self,
        pair: (u16, u16),
        letter: &Letter,
        memory: Option<(Area, u64)>,
        is_taken: bool,
        (start, behind): (u64, usize),
    ) {
        let name = |of: &Letter| (of.tag, of.key, of.aperture, of.offset, of.asked());
        let is_it = |reading: &Reading| {
            reading.pair == pair && !reading.arrived && name(&reading.letter) == name(letter)
        };
        let index = self.0.iter().position(is_it).unwrap_or_else(|| {
            // It is from a hostile host.
            self.ask(pair, letter, Origin::Gone);
            self.0.len() - 1
        });
        let reading = &mut self.0[index];
        reading.is_revoked |= !is_taken && memory.is_some();
        (reading.arrived, reading.memory, reading.start, reading.behind) = (true, memory, start, behind);
    }

    /// Notes that a piece of arrived data is in a host's memory. Reads that came after it find it
    /// there.
    pub(super) fn landed(&mut self, host: u16, memories: &Memories) {
        for reading in self.0.iter_mut().filter(|reading| reading.pair.1 == host && reading.behind > 0) {
            reading.behind -= 1;
            reading.start = memories.moment();
        }
    }

    /// Takes data that a card sends. Returns the pieces of memory that it is from, and the first
    /// moment at which it may have been there.
    pub(super) fn answer(&mut self, pair: (u16, u16), letter: &Letter) -> Option<(Vec<(u64, u64)>, u64)> {
        let is_it = |reading: &&mut Reading| {
            reading.pair == pair && reading.memory.is_some() && reading.can_be_answered(letter)
        };
        let reading = self.0.iter_mut().find(is_it)?;
        let ((area, place), length) = (reading.memory.as_ref()?, letter.data.len() as u64);
        let pieces = area.pieces(place + reading.sent, length);
        reading.sent += length;
        Some((pieces, reading.start))
    }

    /// Takes a refusal of a read that a card sends. Returns `false` if no read may be refused.
    pub(super) fn refuse(&mut self, pair: (u16, u16), letter: &Letter) -> bool {
        let is_it = |reading: &&mut Reading| {
            reading.pair == pair
                && reading.arrived
                && !reading.is_refused
                && (reading.letter.tag, reading.letter.aperture) == (letter.tag, letter.aperture)
                && (reading.memory.is_none() || reading.is_revoked)
        };
        let reading = self.0.iter_mut().find(is_it);
        reading.map(|reading| reading.is_refused = true).is_some()
    }

    /// Returns the read that an answer with this tag is for, if it is still awaited.
    fn awaited(
        &mut self,
        pair: (u16, u16),
        tag: u32,
        waits: impl Fn(Origin) -> bool,
    ) -> Option<&mut Reading> {
        let is_it = |reading: &&mut Reading| {
            (reading.pair, reading.letter.tag) == (pair, tag)
                && reading.came < reading.letter.asked()
                && waits(reading.origin)
        };
        self.0.iter_mut().find(is_it)
    }

    /// Returns whether a read from `pair.0` to `pair.1` waits for an answer. If that is data, it
    /// must be the next.
    pub(super) fn expects(
        &mut self,
        pair: (u16, u16),
        letter: &Letter,
        is_data: bool,
        waits: impl Fn(Origin) -> bool,
    ) -> bool {
        let length = letter.data.len() as u64;
        self.awaited(pair, letter.tag, waits).is_some_and(|reading| {
            let asked = &reading.letter;
            let (next, left) = (asked.offset + reading.came, asked.asked() - reading.came);
            !is_data || next == letter.offset && length <= left
        })
    }

    /// Takes data that has come. Once the last has come, returns the origin, and the read with all
    /// data.
    pub(super) fn take_data(
        &mut self,
        pair: (u16, u16),
        letter: &Letter,
        waits: impl Fn(Origin) -> bool,
    ) -> Option<(Origin, Letter)> {
        let reading = self.awaited(pair, letter.tag, waits)?;
        reading.came += letter.data.len() as u64;
        reading.data.extend_from_slice(&letter.data);
        (reading.came >= reading.letter.asked()).then(|| {
            let data = std::mem::take(&mut reading.data);
            (reading.origin, Letter { data, ..reading.letter })
        })
    }

    /// Takes a refusal that has come. Returns the origin of the read.
    pub(super) fn take_refusal(
        &mut self,
        pair: (u16, u16),
        tag: u32,
        waits: impl Fn(Origin) -> bool,
    ) -> Option<Origin> {
        let reading = self.awaited(pair, tag, waits)?;
        reading.came = reading.letter.asked();
        Some(reading.origin)
    }

    /// Notes that a card was reset: no process there waits.
    pub(super) fn reset(&mut self, host: u16) {
        for reading in self.0.iter_mut().filter(|reading| reading.pair.0 == host) {
            reading.origin = Origin::Gone;
        }
    }

    pub(super) fn tags(&self, pair: (u16, u16)) -> Vec<u32> {
        self.0.iter().filter(|one| one.pair == pair).map(|one| one.letter.tag).collect()
    }

    /// Returns a description of the reads to which a packet might be the answer.
    pub(super) fn describe(&self, pair: (u16, u16), tag: u32) -> String {
        let all = self.0.iter().filter(|one| (one.pair, one.letter.tag) == (pair, tag));
        format!("{:x?}", all.collect::<Vec<_>>())
    }
}
