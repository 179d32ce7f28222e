//! Adaptive routing: several paths to one output.
//!
//! Hamlyn accepts the packets of a message in any order (section 2.5 of the paper). So a fabric may
//! send each by the least loaded path. Here a path is a short queue inside the switch. A packet
//! takes the path with the fewest bytes. Which path is served first is random, from a generator
//! whose seed determines the whole order. No packet is delayed for another: a packet on a path
//! leaves as soon as the ring has room.
//!
//! **Order.** Some protocols need the packets of each source in order. Such a packet takes the path
//! that still holds earlier packets of its source. It may take any path once all of those have
//! left.

use std::collections::VecDeque;

use hamlyn_fabric::{Header, HostId, Producer, Protocol, RingError};
use vm_memory::VolatileSlice;

use crate::chance::Chance;

/// The largest number of paths of an output.
pub const MAX_PATHS: u16 = 16;

/// Number of packets that one path holds.
const LENGTH: usize = 4;

/// Average number of turns of each input before packets leave the paths: enough for packets to meet
/// there, and too few to delay them.
pub(crate) const TURNS: usize = 8;

#[derive(Debug)]
struct Packet {
    header: Header,
    payload: Vec<u8>,
    /// Its sequence number among all packets to this output.
    number: u64,
    /// Whether a later packet of the same source has left already.
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
    /// Number of packets that have arrived.
    came: u64,
    /// Protocols whose packets stay in order.
    ordered: Vec<Protocol>,
}

impl Paths {
    /// Creates `count` empty paths.
    pub(crate) fn new(count: u16, seed: u64, ordered: &[Protocol]) -> Paths {
        let paths = (0..count).map(|_| VecDeque::with_capacity(LENGTH)).collect();
        Paths { paths, chance: Chance::new(seed), came: 0, ordered: ordered.to_vec() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.paths.iter().all(VecDeque::is_empty)
    }

    /// Returns whether a path has room for a packet.
    pub(crate) fn has_room(&self, header: Header) -> bool {
        match self.path_behind(header) {
            Some(place) => self.is_free(place),
            None => (0..self.paths.len()).any(|place| self.is_free(place)),
        }
    }

    fn is_free(&self, place: usize) -> bool {
        self.paths[place].len() < LENGTH
    }

    /// Returns the path that a packet must take to stay behind the earlier ones of its source.
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
        // The first of equally loaded paths wins, so start at a random one.
        let (from, count) = (self.chance.below(self.paths.len()), self.paths.len());
        let places = (0..count).map(|step| (from + step) % count);
        let load = |&place: &usize| self.paths[place].iter().map(Packet::bytes).sum::<usize>();
        places.filter(|&place| self.is_free(place)).min_by_key(load)
    }

    /// Moves the first packet of a random path into the ring. Returns `None` if there is none, or
    /// no room for it.
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

    /// Returns the sources of the remaining packets.
    pub(crate) fn sources(&self) -> impl Iterator<Item = HostId> + '_ {
        self.paths.iter().flatten().map(|packet| packet.header.source)
    }
}

#[cfg(test)]
#[path = "paths_tests.rs"]
mod tests;
