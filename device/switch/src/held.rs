//! Packets that wait in the switch for an output without room: a queue for each source.
//!
//! A packet whose output has room goes from ring to ring and never comes here. One whose output has
//! none, or who would overtake others that wait for it, is taken out of its input's ring, so that
//! what is behind it can go on. The queues of an output are served in turn.
//!
//! **How much.** A queue that holds more than [`Bounds::mark`] stops its source's card, which sends
//! no more to that host until the queue is empty. Then no more than a ring's worth still comes, and
//! [`Bounds::pair`] has as much again for what does not mind stops, an operating system's own few
//! packets. A card that sends on all the same fills its own ring. One with packets for nine hosts
//! or more that take nothing, each of which stopped when a full ring was under way to it alone,
//! comes to [`Bounds::input`] and waits then for all of them: more for each input would be
//! gigabytes for a switch of 64. A packet that is [cut](crate::bursts) takes as much of these as
//! before, with all its parts.

use std::collections::{BTreeMap, VecDeque};

use hamlyn_fabric::ring::record_bytes;
use hamlyn_fabric::{Geometry, Header};
use vm_memory::VolatileSlice;

/// How many bytes may wait, as the packets' records take them in a ring.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// Of one source for one output, before the source's card is stopped.
    pub(crate) mark: usize,
    /// Of one source for one output.
    pub(crate) pair: usize,
    /// Of one source for all outputs.
    pub(crate) input: usize,
}

impl Bounds {
    /// The bounds of a switch whose rings have this geometry.
    pub(crate) fn of(geometry: Geometry) -> Bounds {
        let Geometry { capacity, .. } = geometry;
        Bounds { mark: capacity / 16, pair: 2 * capacity, input: 8 * capacity }
    }

    /// Whether a packet with a payload of this length may wait, if so much of its source waits for
    /// its output already, and for all outputs together.
    pub(crate) fn admit(&self, pair: usize, input: usize, length: usize) -> bool {
        let bytes = bytes_of(length);
        pair + bytes <= self.pair && input + bytes <= self.input
    }
}

/// A packet that waits.
#[derive(Debug)]
pub(crate) struct Packet {
    pub(crate) header: Header,
    pub(crate) payload: Vec<u8>,
    /// What it takes of [`Bounds`].
    bytes: usize,
}

impl Packet {
    /// A copy of a packet in a ring.
    pub(crate) fn copy(header: Header, payload: &VolatileSlice<'_>) -> Packet {
        let mut bytes = vec![0; payload.len()];
        payload.copy_to(&mut bytes[..]);
        Packet::new(header, bytes)
    }

    pub(crate) fn new(header: Header, payload: Vec<u8>) -> Packet {
        let bytes = bytes_of(payload.len());
        Packet { header, payload, bytes }
    }

    /// What it takes of [`Bounds`].
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// How much of the [`Bounds`] a packet takes, by the length of its payload.
pub(crate) fn bytes_of(length: usize) -> usize {
    record_bytes(length) as usize
}

#[derive(Debug, Default)]
struct Queue {
    packets: VecDeque<Packet>,
    bytes: usize,
}

/// The queues of one output.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// By source; none is empty.
    queues: BTreeMap<usize, Queue>,
    /// The sources, in the order of their turns.
    turns: VecDeque<usize>,
}

impl Held {
    pub(crate) fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// Packets that wait.
    pub(crate) fn packets(&self) -> u64 {
        self.queues.values().map(|queue| queue.packets.len() as u64).sum()
    }

    /// What waits of one source.
    pub(crate) fn bytes_from(&self, source: usize) -> usize {
        self.queues.get(&source).map_or(0, |queue| queue.bytes)
    }

    /// Whether anything waits of a source.
    pub(crate) fn has(&self, source: usize) -> bool {
        self.queues.contains_key(&source)
    }

    /// Whether packets of several sources wait.
    pub(crate) fn is_contended(&self) -> bool {
        self.turns.len() > 1
    }

    /// Whose turn it is.
    pub(crate) fn turn(&self) -> Option<usize> {
        self.turns.front().copied()
    }

    /// Each source with its number of packets and their bytes.
    pub(crate) fn sources(&self) -> impl Iterator<Item = (usize, u64, usize)> + '_ {
        self.queues.iter().map(|(&source, queue)| (source, queue.packets.len() as u64, queue.bytes))
    }

    /// Appends a packet to its source's queue.
    pub(crate) fn push(&mut self, source: usize, packet: Packet) {
        let queue = self.queues.entry(source).or_default();
        if queue.packets.is_empty() {
            self.turns.push_back(source);
        }
        queue.bytes += packet.bytes();
        queue.packets.push_back(packet);
    }

    /// The packet whose turn it is.
    pub(crate) fn first(&mut self) -> Option<&mut Packet> {
        self.served()?.packets.front_mut()
    }

    fn served(&mut self) -> Option<&mut Queue> {
        let source = self.turns.front()?;
        self.queues.get_mut(source)
    }

    /// Puts two packets in the place of that one, as `cut` makes them. `false`: it makes none.
    pub(crate) fn cut_first(&mut self, cut: impl FnOnce(&Packet) -> Option<(Vec<u8>, Vec<u8>)>) -> bool {
        let Some(packets) = self.served().map(|queue| &mut queue.packets) else { return false };
        let Some(whole) = packets.front_mut() else { return false };
        let Some((payload, rest)) = cut(whole) else { return false };
        // Both together take what the whole did.
        let bytes = bytes_of(payload.len()).min(whole.bytes);
        let first = Packet { header: whole.header, payload, bytes };
        (whole.payload, whole.bytes) = (rest, whole.bytes - bytes);
        packets.push_front(first);
        true
    }

    /// Puts one packet in the place of that one and the next of its source, as `join` makes it.
    /// `false`: it makes none.
    pub(crate) fn join_first(&mut self, join: impl FnOnce(&Packet, &Packet) -> Option<Vec<u8>>) -> bool {
        let Some(packets) = self.served().map(|queue| &mut queue.packets) else { return false };
        let (Some(first), Some(second)) = (packets.front(), packets.get(1)) else { return false };
        let Some(payload) = join(first, second) else { return false };
        let Some(first) = packets.pop_front() else { return false };
        if let Some(whole) = packets.front_mut() {
            (whole.payload, whole.bytes) = (payload, whole.bytes + first.bytes);
        }
        true
    }

    /// Takes that packet out, and gives the turn to the next source.
    pub(crate) fn pop(&mut self) {
        let Some(source) = self.turns.pop_front() else { return };
        let Some(queue) = self.queues.get_mut(&source) else { return };
        if let Some(packet) = queue.packets.pop_front() {
            queue.bytes -= packet.bytes();
        }
        if queue.packets.is_empty() {
            self.queues.remove(&source);
        } else {
            self.turns.push_back(source);
        }
    }
}
