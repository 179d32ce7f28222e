//! The Outgoing FIFO (section 4), with blocked-write's merging at its end (section 4.1).
//!
//! The packets of each destination keep their order. Packets to a host that takes nothing wait, and
//! packets to the others pass them. No receiver can observe the order between different receivers.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use hamlyn_abi::shrimp::entry::SHRIMP_IN_NODES;
use hamlyn_card::card::Progress;
use hamlyn_card::ports::{Link, VolatileSlice};

use crate::packet::{Coordinates, LARGEST, OVERHEAD, Packet};
use crate::slow::{self, Slow};
use crate::{PAGE, Target};

/// The most hosts that a page can receive from, and so the most destinations.
const HOSTS: usize = SHRIMP_IN_NODES as usize;

/// The Outgoing FIFO.
#[derive(Debug)]
pub(crate) struct Outgoing {
    /// Sealed packets by destination. No queue is empty.
    queues: BTreeMap<u16, Queue>,
    /// The destination whose turn it is.
    turn: u16,
    /// The packet that the next store may join, and the time of its last store.
    open: Option<(Packet, Duration)>,
    /// Bytes of all packets.
    fill: usize,
    capacity: usize,
    threshold: usize,
    /// The threshold was reached, and the fill has not been down to half of it since.
    is_over: bool,
    /// Destinations that take too little.
    slow: Slow,
}

/// The packets that wait for one destination.
#[derive(Debug, Default)]
struct Queue {
    /// Packets, with the number of data bytes in them.
    packets: VecDeque<(Vec<u8>, usize)>,
    /// Bytes of the packets.
    fill: usize,
    /// The queue is as old as the count of bytes that destinations take. A destination that emptied
    /// its queue since is not slow.
    is_counted: bool,
    /// Number of bytes that the destination has taken since.
    taken: usize,
}

/// The result of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Put {
    /// The store begins a packet.
    Begun,
    /// The store is in the packet of the previous one.
    Merged,
}

impl Outgoing {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            queues: BTreeMap::new(),
            turn: 0,
            open: None,
            fill: 0,
            capacity,
            threshold: capacity / 2,
            is_over: false,
            slow: Slow::default(),
        }
    }

    /// Returns the FIFO after a reset. A host that was cut off stays cut off.
    pub(crate) fn renewed(&self) -> Self {
        Self { slow: self.slow.renewed(), ..Self::new(self.capacity) }
    }

    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    pub(crate) fn fill(&self) -> usize {
        self.fill
    }

    pub(crate) fn threshold(&self) -> usize {
        self.threshold
    }

    pub(crate) fn set_threshold(&mut self, threshold: usize) {
        self.threshold = threshold.clamp(1, self.capacity);
    }

    /// Returns whether the fill is below the threshold and any packet fits. Only then does the card
    /// accept stores from the host's bus, and data for deliberate update.
    pub(crate) fn has_room(&self) -> bool {
        self.fill < self.threshold && self.fill + LARGEST <= self.capacity
    }

    /// Returns whether a store of `length` bytes fits in any case. The store may be in two parts of
    /// a page.
    pub(crate) fn fits(&self, length: usize) -> bool {
        self.fill + 2 * OVERHEAD + length <= self.capacity
    }

    /// Returns whether the threshold has been reached since the last call. The processor must then
    /// be interrupted.
    pub(crate) fn take_overrun(&mut self) -> bool {
        let reached = !self.has_room() && !self.is_over;
        self.is_over |= reached;
        reached
    }

    /// Closes the open packet, so that nothing can be merged into it.
    pub(crate) fn close(&mut self) {
        if let Some((packet, _)) = self.open.take() {
            self.queue(packet);
        }
    }

    fn queue(&mut self, packet: Packet) {
        let (node, data) = (packet.target.node, packet.data_length());
        let queue = self.queues.entry(node).or_default();
        let bytes = packet.seal();
        queue.fill += bytes.len();
        queue.packets.push_back((bytes, data));
    }

    /// Records whether stores are accepted. Called after every change that may affect that. Without
    /// a link no store waits.
    pub(crate) fn look(&mut self, is_linked: bool, now: &dyn Fn() -> Duration) {
        if is_linked && !self.has_room() {
            if self.slow.stopped(now()) {
                self.begin_count();
            }
        } else {
            self.slow.goes_on(self.fill <= self.threshold / 2, now);
        }
    }

    fn begin_count(&mut self) {
        for queue in self.queues.values_mut() {
            (queue.is_counted, queue.taken) = (true, 0);
        }
    }

    /// Returns when [`Outgoing::judge`] is next due.
    pub(crate) fn judgement(&self) -> Option<Duration> {
        self.slow.deadline()
    }

    /// Cuts off the destinations that have stopped the processors for too long. Returns them, and
    /// the number of discarded packets.
    pub(crate) fn judge(&mut self, now: Duration) -> (Vec<u16>, usize) {
        let Some(time) = self.slow.look(now) else { return (Vec::new(), 0) };
        // A destination with a smaller share does not fill the FIFO. There is always a destination
        // with at least this share.
        let fills = |queue: &Queue| queue.is_counted && queue.fill * HOSTS >= self.threshold;
        // Destinations behind a slow link share its bandwidth. Each must take its share of the
        // FIFO's part.
        let part = slow::part(self.capacity, time);
        let is_slow = |queue: &Queue| queue.taken * self.fill < part * queue.fill;
        let slow = self.queues.iter().filter(|(_, queue)| fills(queue) && is_slow(queue));
        let slow: Vec<u16> = slow.map(|(node, _)| *node).collect();
        self.begin_count();
        let discarded = slow.iter().map(|node| self.cut(*node, now)).sum();
        (slow, discarded)
    }

    /// Makes room for an access that is overdue: cuts off the destination that has the most bytes
    /// in the FIFO, unless it takes them fast. Returns the destinations that were cut off and the
    /// number of discarded packets, or `None` if no packets wait.
    pub(crate) fn make_room(&mut self, now: Duration) -> Option<(Vec<u16>, usize)> {
        self.close();
        let spared = self.slow.spared_above(self.capacity, now);
        let (node, queue) = self.queues.iter().max_by_key(|(_, queue)| queue.fill)?;
        if spared.is_some_and(|bytes| queue.taken > bytes) {
            return Some((Vec::new(), 0));
        }
        let node = *node;
        Some((vec![node], self.cut(node, now)))
    }

    /// Cuts a destination off. Returns the number of discarded packets.
    fn cut(&mut self, node: u16, now: Duration) -> usize {
        self.slow.cut(node, now);
        self.discard(node)
    }

    /// Discards the packets for a destination. Returns their number.
    fn discard(&mut self, node: u16) -> usize {
        self.close();
        let Some(queue) = self.queues.remove(&node) else { return 0 };
        self.fill -= queue.fill;
        self.is_over &= self.fill > self.threshold / 2;
        queue.packets.len()
    }

    /// Returns the hosts that are cut off, with a bit for each.
    pub(crate) fn cut_off(&self) -> u64 {
        self.slow.cut_off()
    }

    /// Returns whether stores for a host go nowhere.
    pub(crate) fn is_cut_off(&self, node: u16) -> bool {
        self.slow.is_cut_off(node)
    }

    /// Queues data as a packet of its own, behind all other packets.
    pub(crate) fn put(&mut self, target: Target, places: [Coordinates; 2], data: &[u8]) {
        self.close();
        let mut packet = Packet::new(target, places[0], places[1]);
        packet.append(data);
        self.fill += OVERHEAD + data.len();
        self.queue(packet);
    }

    /// Adds a store for blocked-write. It joins the open packet if it is consecutive, in the same
    /// page, and in time.
    pub(crate) fn merge(
        &mut self,
        target: Target,
        places: [Coordinates; 2],
        data: &[u8],
        (now, limit): (Duration, Duration),
    ) -> Put {
        if let Some((packet, last)) = &mut self.open {
            let follows = packet.target.node == target.node && packet.end() == target.address;
            let same_page = packet.target.address / PAGE == target.address / PAGE;
            if follows && same_page && now.saturating_sub(*last) <= limit {
                packet.append(data);
                *last = now;
                self.fill += data.len();
                self.close_if_full();
                return Put::Merged;
            }
        }
        self.close();
        let mut packet = Packet::new(target, places[0], places[1]);
        packet.append(data);
        self.fill += OVERHEAD + data.len();
        self.open = Some((packet, now));
        self.close_if_full();
        Put::Begun
    }

    /// At the threshold no store is accepted for which the open packet could wait.
    fn close_if_full(&mut self) {
        if !self.has_room() {
            self.close();
        }
    }

    /// Returns when the open packet is closed if no store comes.
    pub(crate) fn deadline(&self, limit: Duration) -> Option<Duration> {
        self.open.as_ref().map(|(_, last)| *last + limit)
    }

    /// Sends the next packet. The destinations take turns. Returns the number of its data bytes.
    pub(crate) fn send_next(&mut self, link: &mut dyn Link) -> Result<usize, Progress> {
        let mut progress = Progress::Idle;
        let order = self.queues.range(self.turn..).chain(self.queues.range(..self.turn));
        let destinations: Vec<u16> = order.map(|(node, _)| *node).collect();
        for node in destinations {
            let Some(queue) = self.queues.get_mut(&node) else { continue };
            let Some((packet, data)) = queue.packets.front_mut() else { continue };
            if link.is_stopped(node) || !link.send(node, &[VolatileSlice::from(&mut packet[..])]) {
                progress = Progress::LinkFull;
                continue;
            }
            let (bytes, data) = (packet.len(), *data);
            queue.packets.pop_front();
            queue.fill -= bytes;
            queue.taken += bytes;
            if queue.packets.is_empty() {
                self.queues.remove(&node);
            }
            self.fill -= bytes;
            self.is_over &= self.fill > self.threshold / 2;
            self.turn = node.wrapping_add(1);
            return Ok(data);
        }
        Err(progress)
    }
}
