//! Cutting and joining of packets inside the switch (section 2.2 of the CLAN paper).
//!
//! Some packets carry the address of their first byte but not their length. Such a packet can be
//! cut at any point, and two consecutive ones can be joined. The switch does not know the cards:
//! [`Bursts`] defines which protocols allow this, and how it is done.
//!
//! **When.** A packet whose output has room does not wait, delays no other packet, and is left as
//! it is. Packets that [wait](crate::held) are served in turn, source by source. While several
//! sources wait for an output, packets longer than a quantum are cut, and the rest waits for the
//! next turn. If packets of only one source wait, consecutive ones are joined again, up to the
//! longest packet that the source has sent.
//!
//! In a [mesh](crate::mesh) no packet is held. Packets are cut while others wait for their links,
//! and joined while they wait for a link. On several [paths](crate::paths) the packets of one
//! source keep their order, so the parts do, too.
//!
//! **How much work.** A packet is cut in halves until the first part is short enough. So the rest
//! is not copied again for each part that is cut off. A packet is joined only with one that is not
//! too much shorter. So a long packet is not copied for each short one that follows it. Only the
//! packet that is served next is cut, so a queue exceeds its memory bounds by only a few headers.

use std::fmt::{self, Debug, Formatter};

use hamlyn_fabric::Protocol;

use crate::chance::Chance;
use crate::counters::PortCounters;
use crate::held::{Held, Packet};

/// Cuts a packet in two. The first part has at most the given number of bytes. Returns `None` if
/// the packet cannot be cut like this.
pub type Cut = fn(&[u8], usize) -> Option<(Vec<u8>, Vec<u8>)>;
/// Joins two packets into one of at most the given number of bytes. Returns `None` if the second
/// does not follow the first, or the result would be longer.
pub type Join = fn(&[u8], &[u8], usize) -> Option<Vec<u8>>;

/// How the packets of a protocol are cut and joined. The functions get the bytes after the fabric's
/// header.
#[derive(Clone, Copy)]
pub struct Bursts {
    /// Protocol of the packets.
    pub protocol: Protocol,
    /// See [`Cut`].
    pub cut: Cut,
    /// See [`Join`].
    pub join: Join,
}

impl Debug for Bursts {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        to.debug_struct("Bursts").field("protocol", &self.protocol).finish_non_exhaustive()
    }
}

/// When packets are cut and joined, if their protocol allows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// Cuts to this many bytes each while several sources wait for one output; 0: never.
    Quantum(usize),
    /// Cuts and joins at random, wherever a packet passes: for tests. The same seed gives the same
    /// result.
    Random(u64),
}

/// The default quantum of a switch, in bytes.
pub const QUANTUM: u32 = 1024;

impl Default for Policy {
    fn default() -> Policy {
        Policy::Quantum(QUANTUM as usize)
    }
}

/// Largest ratio of a packet's length to the next one's for the two to be joined.
const MOST_TIMES: usize = 8;

#[derive(Debug)]
enum Cutting {
    Quantum(usize),
    Random(Chance),
}

/// Cuts and joins waiting packets.
#[derive(Debug)]
pub(crate) struct Cutter {
    bursts: Vec<Bursts>,
    cutting: Cutting,
}

impl Cutter {
    /// Returns `None` if no packets can be cut, or the policy disables cutting.
    pub(crate) fn new(bursts: &[Bursts], policy: Policy) -> Option<Cutter> {
        let cutting = match policy {
            Policy::Quantum(0) => return None,
            Policy::Quantum(bytes) => Cutting::Quantum(bytes),
            Policy::Random(seed) => Cutting::Random(Chance::new(seed)),
        };
        (!bursts.is_empty()).then(|| Cutter { bursts: bursts.to_vec(), cutting })
    }

    /// Returns whether every packet must be held, so that it can be cut.
    pub(crate) fn wants_all(&self) -> bool {
        matches!(self.cutting, Cutting::Random(_))
    }

    fn of(&self, protocol: Protocol) -> Option<Bursts> {
        self.bursts.iter().find(|bursts| bursts.protocol == protocol).copied()
    }

    /// Returns whether packets of this protocol can be cut and joined.
    pub(crate) fn knows(&self, protocol: Protocol) -> bool {
        self.of(protocol).is_some()
    }

    /// Returns the two parts of a packet in a mesh, or `None` to leave it whole. `is_contended`:
    /// packets of other sources wait for the same links.
    pub(crate) fn cut_in_mesh(&mut self, packet: &Packet, is_contended: bool) -> Option<(Vec<u8>, Vec<u8>)> {
        let (bursts, length) = (self.of(packet.header.protocol)?, packet.payload.len());
        let most = match &mut self.cutting {
            Cutting::Quantum(quantum) => (is_contended && length > *quantum).then(|| half(length, *quantum)),
            Cutting::Random(chance) => (chance.below(2) == 0).then(|| chance.below(length)),
        };
        parts(packet, bursts, most?)
    }

    /// Joins a packet in a mesh with the next one of its source, if they should be joined.
    /// `largest` is the length of the longest packet that the source has sent.
    pub(crate) fn join_in_mesh(
        &mut self,
        (first, second): (&Packet, &Packet),
        is_contended: bool,
        largest: usize,
    ) -> Option<Vec<u8>> {
        let bursts = self.of(first.header.protocol)?;
        let is_wanted = match &mut self.cutting {
            Cutting::Quantum(_) => !is_contended,
            Cutting::Random(chance) => chance.below(2) == 0,
        };
        is_wanted.then(|| whole(first, second, bursts, largest)).flatten()
    }

    /// Cuts or joins the packet that is served next, if the policy requires it. `largest` is the
    /// length of the longest packet that its source has sent.
    pub(crate) fn prepare(&mut self, held: &mut Held, largest: usize, counters: &mut PortCounters) {
        let Some(first) = held.first() else { return };
        let (protocol, mut length) = (first.header.protocol, first.payload.len());
        let Some(bursts) = self.of(protocol) else { return };
        match &mut self.cutting {
            Cutting::Quantum(quantum) if held.is_contended() => {
                while length > *quantum && cut(held, bursts, half(length, *quantum), counters) {
                    length = held.first().map_or(0, |first| first.payload.len());
                }
            }
            Cutting::Quantum(_) => while join(held, bursts, largest, counters) {},
            Cutting::Random(chance) => {
                while chance.below(2) == 0 && join(held, bursts, largest, counters) {}
                let length = held.first().map_or(0, |first| first.payload.len());
                if chance.below(2) == 0 {
                    cut(held, bursts, chance.below(length), counters);
                }
            }
        }
    }
}

/// Returns the size of a packet's first half: whole quanta, at least one.
fn half(length: usize, quantum: usize) -> usize {
    quantum * (length.div_ceil(quantum) / 2).max(1)
}

/// Returns the two parts of a packet. The first has at most `most` bytes.
fn parts(packet: &Packet, bursts: Bursts, most: usize) -> Option<(Vec<u8>, Vec<u8>)> {
    let parts = (bursts.cut)(&packet.payload, most)?;
    // Parts as long as the whole would be cut forever.
    Some(parts).filter(|(first, rest)| first.len() <= most && rest.len() < packet.payload.len())
}

/// Returns the joined payload of two consecutive packets, if it has at most `most` bytes.
fn whole(first: &Packet, second: &Packet, bursts: Bursts, most: usize) -> Option<Vec<u8>> {
    if first.payload.len() > MOST_TIMES * second.payload.len() || first.header != second.header {
        return None;
    }
    (bursts.join)(&first.payload, &second.payload, most).filter(|whole| whole.len() <= most)
}

fn cut(held: &mut Held, bursts: Bursts, most: usize, counters: &mut PortCounters) -> bool {
    let is_cut = held.cut_first(|packet| parts(packet, bursts, most));
    counters.cut += u64::from(is_cut);
    is_cut
}

fn join(held: &mut Held, bursts: Bursts, most: usize, counters: &mut PortCounters) -> bool {
    let is_joined = held.join_first(|first, second| whole(first, second, bursts, most));
    counters.joined += u64::from(is_joined);
    is_joined
}

#[cfg(test)]
#[path = "bursts_tests.rs"]
pub(crate) mod tests;
