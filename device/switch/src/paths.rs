//! Adaptive routing: several paths to one output.
//!
//! Hamlyn takes the packets of a message in any order (section 2.5 of the paper), so that a fabric
//! may send each by the path that is least loaded. Here a path is a short queue inside the switch.
//! A packet takes the one with the fewest bytes, and which path is ahead is left to chance: to a
//! generator whose seed tells the whole order. No packet is held back for another: what lies on a
//! path goes as soon as the ring has room.
//!
//! **Order.** Packets of some protocols keep the order of each source. Such a packet takes the path
//! that has earlier ones of its source, if there are any, and may choose again once all of those
//! have left.

use std::collections::VecDeque;

use hamlyn_fabric::{Header, HostId, Producer, Protocol, RingError};
use vm_memory::VolatileSlice;

use crate::chance::Chance;

/// The most paths that an output can have.
pub const MAX_PATHS: u16 = 16;

/// Packets that one path holds.
const LENGTH: usize = 4;

/// Turns that each input has, on average, before the packets on the paths go: enough to meet, too
/// few to be late.
pub(crate) const TURNS: usize = 8;

#[derive(Debug)]
struct Packet {
    header: Header,
    payload: Vec<u8>,
    /// Its place among all packets that ever came to this output.
    number: u64,
    /// A later packet of the same source has gone already.
    overtaken: bool,
}

impl Packet {
    fn bytes(&self) -> usize {
        size_of::<Header>() + self.payload.len()
    }
}

/// A packet that has left for the ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gone {
    /// Bytes of its payload.
    pub(crate) length: usize,
    /// Whether a later packet of the same source went before it.
    pub(crate) overtaken: bool,
}

/// The paths to one output.
#[derive(Debug)]
pub(crate) struct Paths {
    paths: Vec<VecDeque<Packet>>,
    chance: Chance,
    /// Packets that ever came.
    came: u64,
    /// Protocols whose packets keep their order.
    ordered: Vec<Protocol>,
}

impl Paths {
    /// So many empty paths.
    pub(crate) fn new(count: u16, seed: u64, ordered: &[Protocol]) -> Paths {
        let paths = (0..count).map(|_| VecDeque::with_capacity(LENGTH)).collect();
        Paths { paths, chance: Chance::new(seed), came: 0, ordered: ordered.to_vec() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.paths.iter().all(VecDeque::is_empty)
    }

    /// Whether a path is free for a packet.
    pub(crate) fn has_room(&self, header: Header) -> bool {
        match self.path_behind(header) {
            Some(place) => self.is_free(place),
            None => (0..self.paths.len()).any(|place| self.is_free(place)),
        }
    }

    fn is_free(&self, place: usize) -> bool {
        self.paths[place].len() < LENGTH
    }

    /// The path that a packet has to take to stay behind the earlier ones of its source.
    fn path_behind(&self, header: Header) -> Option<usize> {
        if !self.ordered.contains(&header.protocol) {
            return None;
        }
        self.paths.iter().position(|path| path.iter().any(|earlier| earlier.header.source == header.source))
    }

    /// Copies a packet to the end of the least loaded path, or of the path that keeps its order.
    /// Returns `false` if the path is full.
    pub(crate) fn push(&mut self, header: Header, bytes: &VolatileSlice<'_>) -> bool {
        let Some(place) = self.choose(header) else { return false };
        let mut payload = vec![0; bytes.len()];
        bytes.copy_to(&mut payload[..]);
        self.paths[place].push_back(Packet { header, payload, number: self.came, overtaken: false });
        self.came += 1;
        true
    }

    fn choose(&mut self, header: Header) -> Option<usize> {
        if let Some(place) = self.path_behind(header) {
            return Some(place).filter(|&place| self.is_free(place));
        }
        // Among equals the first wins: begin anywhere.
        let (from, count) = (self.chance.below(self.paths.len()), self.paths.len());
        let places = (0..count).map(|step| (from + step) % count);
        let load = |&place: &usize| self.paths[place].iter().map(Packet::bytes).sum::<usize>();
        places.filter(|&place| self.is_free(place)).min_by_key(load)
    }

    /// Moves the first packet of any path into the ring. `None`: there is none, or no room for it.
    pub(crate) fn send(&mut self, ring: &mut Producer) -> Result<Option<Gone>, RingError> {
        let loaded = self.paths.iter().filter(|path| !path.is_empty()).count();
        let any = self.chance.below(loaded);
        let Some(path) = self.paths.iter_mut().filter(|path| !path.is_empty()).nth(any) else {
            return Ok(None);
        };
        let Some(first) = path.front() else { return Ok(None) };
        let Some(room) = ring.reserve(first.header, first.payload.len())? else { return Ok(None) };
        room.copy_from(&first.payload);
        ring.commit();
        let Some(packet) = path.pop_front() else { return Ok(None) };
        let others =
            self.paths.iter_mut().flatten().filter(|other| other.header.source == packet.header.source);
        others.filter(|other| other.number < packet.number).for_each(|earlier| earlier.overtaken = true);
        Ok(Some(Gone { length: packet.payload.len(), overtaken: packet.overtaken }))
    }

    /// The sources of the packets that are left.
    pub(crate) fn sources(&self) -> impl Iterator<Item = HostId> + '_ {
        self.paths.iter().flatten().map(|packet| packet.header.source)
    }
}

#[cfg(test)]
#[path = "paths_tests.rs"]
mod tests;
