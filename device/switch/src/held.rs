//! Packets that wait in the switch for an output without room: one queue for each source.
//!
//! A packet whose output has room goes from ring to ring and is never held. A packet is removed
//! from its input's ring if its output has no room, or if it would overtake others that wait. Then
//! the packets behind it can be forwarded. The queues of an output are served in turn.
//!
//! **How much.** A queue that holds more than [`Bounds::mark`] stops its source's card, which sends
//! no more to that host until the queue is empty. After the stop, at most a ring's worth still
//! arrives. [`Bounds::pair`] allows as much again for packets that ignore stops: an operating
//! system's own few packets. A card that ignores stops fills its own ring.
//!
//! A card can reach [`Bounds::input`] if it sends to nine or more hosts that accept nothing. At
//! each stop, a full ring must have been in flight to that host alone. Then the card waits for all
//! of them. A larger bound for each input would take gigabytes in a switch of 64 ports. A packet
//! that is [cut](crate::bursts) still takes as much of these bounds as before, with all its parts.

use std::collections::{BTreeMap, VecDeque};

use hamlyn_fabric::ring::record_bytes;
use hamlyn_fabric::{Geometry, Header};
use vm_memory::VolatileSlice;

/// Bounds of the bytes that may wait, counted as the packets' records in a ring.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// Bytes of one source for one output, above which the source's card is stopped.
    pub(crate) mark: usize,
    /// Bytes of one source for one output.
    pub(crate) pair: usize,
    /// Bytes of one source for all outputs.
    pub(crate) input: usize,
}

impl Bounds {
    /// Returns the bounds of a switch whose rings have this geometry.
    pub(crate) fn of(geometry: Geometry) -> Bounds {
        let Geometry { capacity, .. } = geometry;
        Bounds { mark: capacity / 16, pair: 2 * capacity, input: 8 * capacity }
    }

    /// Returns whether a packet with a payload of `length` bytes may be held. `pair` and `input`
    /// are the bytes already held of its source, for its output and for all outputs.
    pub(crate) fn admit(&self, pair: usize, input: usize, length: usize) -> bool {
        let bytes = bytes_of(length);
        pair + bytes <= self.pair && input + bytes <= self.input
    }
}

/// A held packet.
#[derive(Debug)]
pub(crate) struct Packet {
    pub(crate) header: Header,
    pub(crate) payload: Vec<u8>,
    /// Bytes of [`Bounds`] that it takes.
    bytes: usize,
}

impl Packet {
    /// Copies a packet out of a ring.
    pub(crate) fn copy(header: Header, payload: &VolatileSlice<'_>) -> Packet {
        let mut bytes = vec![0; payload.len()];
        payload.copy_to(&mut bytes[..]);
        Packet::new(header, bytes)
    }

    pub(crate) fn new(header: Header, payload: Vec<u8>) -> Packet {
        let bytes = bytes_of(payload.len());
        Packet { header, payload, bytes }
    }

    /// Returns the bytes of [`Bounds`] that it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Returns the bytes of [`Bounds`] that a packet with a payload of `length` bytes takes.
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
    /// By source; no queue is empty.
    queues: BTreeMap<usize, Queue>,
    /// The sources, in the order in which they are served.
    turns: VecDeque<usize>,
}

impl Held {
    pub(crate) fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// Returns the number of held packets.
    pub(crate) fn packets(&self) -> u64 {
        self.queues.values().map(|queue| queue.packets.len() as u64).sum()
    }

    /// Returns the bytes held of one source.
    pub(crate) fn bytes_from(&self, source: usize) -> usize {
        self.queues.get(&source).map_or(0, |queue| queue.bytes)
    }

    /// Returns whether packets of a source are held.
    pub(crate) fn has(&self, source: usize) -> bool {
        self.queues.contains_key(&source)
    }

    /// Returns whether packets of several sources are held.
    pub(crate) fn is_contended(&self) -> bool {
        self.turns.len() > 1
    }

    /// Returns the source that is served next.
    pub(crate) fn turn(&self) -> Option<usize> {
        self.turns.front().copied()
    }

    /// Returns each source with its number of packets and their bytes.
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

    /// Returns the packet that is served next.
    pub(crate) fn first(&mut self) -> Option<&mut Packet> {
        self.served()?.packets.front_mut()
    }

    fn served(&mut self) -> Option<&mut Queue> {
        let source = self.turns.front()?;
        self.queues.get_mut(source)
    }

    /// Replaces the next packet with the two that `cut` returns. Returns `false` if it returns
    /// none.
    pub(crate) fn cut_first(&mut self, cut: impl FnOnce(&Packet) -> Option<(Vec<u8>, Vec<u8>)>) -> bool {
        let Some(packets) = self.served().map(|queue| &mut queue.packets) else { return false };
        let Some(whole) = packets.front_mut() else { return false };
        let Some((payload, rest)) = cut(whole) else { return false };
        // Both parts together take what the whole did.
        let bytes = bytes_of(payload.len()).min(whole.bytes);
        let first = Packet { header: whole.header, payload, bytes };
        (whole.payload, whole.bytes) = (rest, whole.bytes - bytes);
        packets.push_front(first);
        true
    }

    /// Replaces the next packet and the following one of its source with the one that `join`
    /// returns. Returns `false` if it returns none.
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

    /// Removes the next packet, and passes the turn to the next source.
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
