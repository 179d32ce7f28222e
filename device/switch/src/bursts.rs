//! Packets that are cut and joined on their way (section 2.2 of the CLAN paper).
//!
//! A packet that says where its first byte goes, and not how long it is, can be cut at any point,
//! and two that follow each other can be joined. Of which protocols that is true, and how it is
//! done, the switch is told: it knows no card ([`Bursts`]).
//!
//! **When.** A packet whose output has room waits for nobody, holds up nobody, and is left as it
//! is. Those that [wait](crate::held) are served in turn, source by source. While several sources
//! wait for an output, what is longer than a quantum is cut, and the rest waits for the next turn.
//! What waits of one source alone is joined again, as far as it follows each other, up to the
//! longest packet that the source has sent.
//!
//! In a [mesh](crate::mesh) nothing is held: packets are cut while others wait for their links, and
//! joined while they wait for one. On several [paths](crate::paths) the packets of one source keep
//! their order, so the parts do.
//!
//! **How much work.** A packet is cut in halves until the first is short enough, so that what is
//! cut off one by one does not have the rest copied each time. And a packet is joined with one that
//! is not too much shorter, so that a long one is not copied for each little one that follows it.
//! Only the packet whose turn it is is cut: a queue takes no more memory than its bounds say but
//! for a few headers.

use std::fmt::{self, Debug, Formatter};

use hamlyn_fabric::Protocol;

use crate::chance::Chance;
use crate::counters::PortCounters;
use crate::held::{Held, Packet};

/// Makes two packets of one that is longer than so many bytes, of which the first is not. `None`:
/// this one cannot be cut so.
pub type Cut = fn(&[u8], usize) -> Option<(Vec<u8>, Vec<u8>)>;
/// Makes one packet of two, of so many bytes at most. `None`: the second does not follow the first,
/// or they would be longer.
pub type Join = fn(&[u8], &[u8], usize) -> Option<Vec<u8>>;

/// How the packets of a protocol are cut and joined: the bytes behind the fabric's header.
#[derive(Clone, Copy)]
pub struct Bursts {
    /// Whose they are.
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

/// When packets that can be cut and joined are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// To so many bytes each while several sources wait for one output; 0: never.
    Quantum(usize),
    /// By chance, wherever one passes: for tests. The same every time for the same seed.
    Random(u64),
}

/// The quantum of a switch if nobody says otherwise, in bytes.
pub const QUANTUM: u32 = 1024;

impl Default for Policy {
    fn default() -> Policy {
        Policy::Quantum(QUANTUM as usize)
    }
}

/// How many times as long as the next a packet may be to be joined with it.
const MOST_TIMES: usize = 8;

#[derive(Debug)]
enum Way {
    Quantum(usize),
    Random(Chance),
}

/// Cuts and joins what waits.
#[derive(Debug)]
pub(crate) struct Cutter {
    bursts: Vec<Bursts>,
    way: Way,
}

impl Cutter {
    /// `None`: there is nothing to be cut, or it is not to be.
    pub(crate) fn new(bursts: &[Bursts], policy: Policy) -> Option<Cutter> {
        let way = match policy {
            Policy::Quantum(0) => return None,
            Policy::Quantum(bytes) => Way::Quantum(bytes),
            Policy::Random(seed) => Way::Random(Chance::new(seed)),
        };
        (!bursts.is_empty()).then(|| Cutter { bursts: bursts.to_vec(), way })
    }

    /// Whether each packet is to wait, so that it can be cut.
    pub(crate) fn wants_all(&self) -> bool {
        matches!(self.way, Way::Random(_))
    }

    fn of(&self, protocol: Protocol) -> Option<Bursts> {
        self.bursts.iter().find(|bursts| bursts.protocol == protocol).copied()
    }

    /// Whether packets of this protocol can be cut and joined.
    pub(crate) fn knows(&self, protocol: Protocol) -> bool {
        self.of(protocol).is_some()
    }

    /// Returns the two parts of a packet in a mesh, if it is to be cut where packets of other
    /// sources wait, or do not.
    pub(crate) fn cut_in_mesh(&mut self, packet: &Packet, is_contended: bool) -> Option<(Vec<u8>, Vec<u8>)> {
        let (bursts, length) = (self.of(packet.header.protocol)?, packet.payload.len());
        let most = match &mut self.way {
            Way::Quantum(quantum) => (is_contended && length > *quantum).then(|| half(length, *quantum)),
            Way::Random(chance) => (chance.below(2) == 0).then(|| chance.below(length)),
        };
        parts(packet, bursts, most?)
    }

    /// Returns what a packet in a mesh and the next of its source are together, if they are to be
    /// joined; `largest` is the longest that the source has sent.
    pub(crate) fn join_in_mesh(
        &mut self,
        (first, second): (&Packet, &Packet),
        is_contended: bool,
        largest: usize,
    ) -> Option<Vec<u8>> {
        let bursts = self.of(first.header.protocol)?;
        let is_wanted = match &mut self.way {
            Way::Quantum(_) => !is_contended,
            Way::Random(chance) => chance.below(2) == 0,
        };
        is_wanted.then(|| whole(first, second, bursts, largest)).flatten()
    }

    /// Cuts or joins the packet whose turn it is, if that is to be; `largest` is the longest that
    /// its source has sent.
    pub(crate) fn prepare(&mut self, held: &mut Held, largest: usize, counters: &mut PortCounters) {
        let Some(first) = held.first() else { return };
        let (protocol, mut length) = (first.header.protocol, first.payload.len());
        let Some(bursts) = self.of(protocol) else { return };
        match &mut self.way {
            Way::Quantum(quantum) if held.is_contended() => {
                while length > *quantum && cut(held, bursts, half(length, *quantum), counters) {
                    length = held.first().map_or(0, |first| first.payload.len());
                }
            }
            Way::Quantum(_) => while join(held, bursts, largest, counters) {},
            Way::Random(chance) => {
                while chance.below(2) == 0 && join(held, bursts, largest, counters) {}
                let length = held.first().map_or(0, |first| first.payload.len());
                if chance.below(2) == 0 {
                    cut(held, bursts, chance.below(length), counters);
                }
            }
        }
    }
}

/// How much of a packet is its first half: whole quanta, one at least.
fn half(length: usize, quantum: usize) -> usize {
    quantum * (length.div_ceil(quantum) / 2).max(1)
}

/// Returns the two parts of a packet, of which the first has at most `most` bytes.
fn parts(packet: &Packet, bursts: Bursts, most: usize) -> Option<(Vec<u8>, Vec<u8>)> {
    let parts = (bursts.cut)(&packet.payload, most)?;
    // Two that are as long as the one would be cut for ever.
    Some(parts).filter(|(first, rest)| first.len() <= most && rest.len() < packet.payload.len())
}

/// Returns the payload of two packets that follow each other, if it has at most `most` bytes.
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
