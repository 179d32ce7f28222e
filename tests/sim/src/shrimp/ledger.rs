//! The simulation's own account of each card: data to send, data taken in, and pending reports.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use hamlyn_abi::shrimp::statistics::{SHRIMP_STATISTICS, ShrimpStatistic};

use super::mapping::Table;
use super::packet::{Letter, OVERHEAD};

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
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) kind: Kind,
    pub(super) address: u64,
    pub(super) data: Vec<u8>,
    /// Its number among all items of the card.
    pub(super) number: u64,
}

/// A transfer that was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Transfer {
    pub(super) base: u64,
    pub(super) next: u64,
    /// Bytes left.
    pub(super) left: u64,
    /// It is a message of the operating system.
    pub(super) is_system: bool,
}

/// The Outgoing FIFO.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) pending: BTreeMap<u16, VecDeque<Item>>,
    numbered: u64,
    /// Bytes of data that wait, and the number of packets that hold them.
    bytes: u64,
    packets: u64,
    pub(super) threshold: u64,
    pub(super) is_over: bool,
    capacity: u64,
}

impl Outgoing {
    fn new(capacity: u64) -> Self {
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

    pub(super) fn capacity(&self) -> u64 {
        self.capacity
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pending.values().all(VecDeque::is_empty)
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

    /// Notes that a packet was sent.
    pub(super) fn sent(&mut self, data: u64) {
        self.packets = self.packets.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(data);
        self.is_over &= self.fill() > self.threshold / 2;
    }

    /// Returns whether the FIFO has just reached the threshold, so that the processor must be
    /// notified.
    pub(super) fn overruns(&mut self, has_room: bool) -> bool {
        let reached = !has_room && !self.is_over;
        self.is_over |= reached;
        reached
    }
}

/// Reports to the driver.
#[derive(Debug, Default)]
pub(super) struct Reports {
    /// Records of the queue; 0: it is closed.
    pub(super) records: u32,
    /// Records taken, modulo 2^32.
    pub(super) taken: u32,
    /// Pages of the records that are not taken.
    pub(super) untaken: VecDeque<u32>,
    /// Pages that have to be reported to the driver.
    pub(super) owed: BTreeSet<u32>,
    /// Pages whose next arrival is to be reported.
    pub(super) asked: BTreeSet<u32>,
    /// The vector was raised since the driver last took records.
    pub(super) raised: bool,
}

/// The account of a card.
#[derive(Debug)]
pub(super) struct Ledger {
    pub(super) table: Table,
    /// For each host, the page that its operating system stores to.
    pub(super) system: BTreeMap<u16, u64>,
    pub(super) outgoing: Outgoing,
    pub(super) merge_us: u64,
    pub(super) transfers: VecDeque<Transfer>,
    pub(super) incoming: VecDeque<(u16, Letter)>,
    pub(super) in_threshold: u64,
    pub(super) hold: bool,
    /// Time since which the card takes no packets because of the hold, in milliseconds.
    pub(super) full_since: Option<u64>,
    /// Start and end of earlier such times.
    pub(super) stops: Vec<(u64, u64)>,
    pub(super) reports: Reports,
    /// Pages whose stores the card has asked to see.
    pub(super) watched: BTreeSet<u64>,
    /// Number of times the vector for a full FIFO was raised.
    pub(super) full_raised: u64,
    counts: [u64; SHRIMP_STATISTICS as usize],
}

impl Ledger {
    pub(super) fn new(fifo: u64, merge_us: u64) -> Self {
        Self {
            table: Table::default(),
            system: BTreeMap::new(),
            outgoing: Outgoing::new(fifo),
            merge_us,
            transfers: VecDeque::new(),
            incoming: VecDeque::new(),
            in_threshold: fifo / 2,
            hold: false,
            full_since: None,
            stops: Vec::new(),
            reports: Reports::default(),
            watched: BTreeSet::new(),
            full_raised: 0,
            counts: [0; SHRIMP_STATISTICS as usize],
        }
    }

    pub(super) fn count(&mut self, statistic: ShrimpStatistic, more: u64) {
        self.counts[usize::from(statistic)] += more;
    }

    pub(super) fn counted(&self, statistic: ShrimpStatistic) -> u64 {
        self.counts[usize::from(statistic)]
    }

    /// Returns the number of bytes in the Incoming FIFO.
    pub(super) fn in_fill(&self) -> u64 {
        self.incoming.iter().map(|(_, letter)| OVERHEAD + letter.data.len() as u64).sum()
    }
}
