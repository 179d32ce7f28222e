//! Data that a card has to send, in its Outgoing FIFO.

use std::collections::{BTreeMap, VecDeque};

use crate::engine::memory::PAGE;

use super::packet::{LARGEST, Letter, OVERHEAD};

/// Origin of data to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Single,
    /// A store in blocked-write mode: its time, and the longest delay after the previous store at
    /// which it may join it, in microseconds.
    Blocked {
        at: u64,
        within: u64,
    },
    /// A piece of a transfer.
    Update,
}

/// Bytes that a card has to send.
#[derive(Debug)]
struct Item {
    kind: Kind,
    address: u64,
    data: Vec<u8>,
    /// Its number among all items of the card.
    number: u64,
}

impl Item {
    /// Returns whether a store may be in the packet of this one.
    fn joins(&self, item: &Self) -> bool {
        let (Kind::Blocked { at: last, .. }, Kind::Blocked { at, within }) = (self.kind, item.kind) else {
            return false;
        };
        at - last <= within && item.number == self.number + 1 && item.address / PAGE == self.address / PAGE
    }
}

/// The Outgoing FIFO.
#[derive(Debug)]
pub(super) struct Outgoing {
    pending: BTreeMap<u16, VecDeque<Item>>,
    numbered: u64,
    /// Bytes of data that wait, and the number of packets that hold them.
    bytes: u64,
    packets: u64,
    threshold: u64,
    is_over: bool,
    capacity: u64,
}

impl Outgoing {
    pub(super) fn new(capacity: u64) -> Self {
        Self {
            pending: BTreeMap::new(),
            numbered: 0,
            bytes: 0,
            packets: 0,
            threshold: capacity / 2,
            is_over: false,
            capacity,
        }
    }

    pub(super) fn fill(&self) -> u64 {
        self.bytes + self.packets * OVERHEAD
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pending.values().all(VecDeque::is_empty)
    }

    pub(super) fn set_threshold(&mut self, threshold: u64) {
        self.threshold = threshold;
    }

    /// Returns whether the FIFO is below its threshold and any packet still fits.
    pub(super) fn has_room(&self) -> bool {
        let fill = self.fill();
        fill < self.threshold && fill + LARGEST as u64 <= self.capacity
    }

    /// Returns whether a store to a window fits. Across two parts it makes two packets.
    pub(super) fn fits(&self, width: u8) -> bool {
        self.fill() + 2 * OVERHEAD + u64::from(width) <= self.capacity
    }

    /// Adds data to send. It counts as a packet of its own until it is known to be merged.
    pub(super) fn add(&mut self, node: u16, kind: Kind, address: u64, data: Vec<u8>) {
        self.numbered += 1;
        self.bytes += data.len() as u64;
        self.packets += 1;
        let item = Item { kind, address, data, number: self.numbered };
        self.pending.entry(node).or_default().push_back(item);
    }

    /// Notes that `stores` of them were merged into the packets before them.
    pub(super) fn merged(&mut self, stores: u64) {
        self.packets = self.packets.saturating_sub(stores);
    }

    /// Removes the data of a packet that was sent to a host. Returns the number of stores in it, or
    /// `None` if it does not match.
    pub(super) fn take(&mut self, node: u16, letter: &Letter) -> Option<u64> {
        let queue = self.pending.get_mut(&node)?;
        let mut before: Option<Item> = None;
        let (mut taken, mut stores) = (0, 0);
        while taken < letter.data.len() || before.is_none() {
            let item = queue.pop_front()?;
            let here = letter.data.get(taken..taken + item.data.len())?;
            let follows = before.as_ref().is_none_or(|before| before.joins(&item));
            if !follows || here != item.data || item.address != letter.address + taken as u64 {
                return None;
            }
            taken += item.data.len();
            stores += 1;
            before = Some(item);
        }
        self.packets = self.packets.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(taken as u64);
        self.is_over &= self.fill() > self.threshold / 2;
        Some(stores)
    }

    /// Returns whether the FIFO has just reached the threshold, so that the processor must be
    /// notified.
    pub(super) fn overruns(&mut self) -> bool {
        let reached = !self.has_room() && !self.is_over;
        self.is_over |= reached;
        reached
    }
}
