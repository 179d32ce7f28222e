//! One link, and the worms that wait for it.

use std::collections::VecDeque;

use hamlyn_fabric::HostId;

/// Counters of a link since the switch started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Packets that have passed through it.
    pub packets: u64,
    /// Flits of these packets.
    pub flits: u64,
    /// Cycles in which a head had to wait for this link.
    pub waits: u64,
}

impl LinkCounters {
    pub(super) fn passed(&mut self, flits: usize) {
        self.packets += 1;
        self.flits += flits as u64;
    }
}

/// A worm that uses a link or waits for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Claim {
    pub(super) worm: u64,
    pub(super) source: HostId,
}

/// A link from a node to a router, from router to router, or from a router to its node.
#[derive(Debug, Default)]
pub(super) struct Link {
    /// The worm whose flits are in this link.
    pub(super) owner: Option<u64>,
    /// The worms that wait for this link, in the order in which they get it.
    pub(super) waiting: VecDeque<Claim>,
    pub(super) counters: LinkCounters,
}

impl Link {
    /// Returns whether no worm uses this link or waits for it.
    pub(super) fn is_unclaimed(&self) -> bool {
        self.owner.is_none() && self.waiting.is_empty()
    }

    /// Returns whether a worm gets the link if it asks now.
    pub(super) fn is_next(&self, worm: u64) -> bool {
        self.owner.is_none() && self.waiting.front().is_none_or(|first| first.worm == worm)
    }

    /// Returns whether worms of other sources wait for this link.
    pub(super) fn is_contended(&self, source: HostId) -> bool {
        self.waiting.iter().any(|claim| claim.source != source)
    }

    /// Grants the link to a worm if the link is free and this worm is next. Otherwise queues the
    /// worm.
    pub(super) fn grant(&mut self, claim: Claim) -> bool {
        if self.is_next(claim.worm) {
            self.waiting.pop_front();
            self.owner = Some(claim.worm);
            return true;
        }
        if !self.waiting.contains(&claim) {
            self.waiting.push_back(claim);
        }
        self.counters.waits += 1;
        false
    }

    /// Queues the rest of a worm that was cut. It comes before all later worms of its source, so
    /// that none overtakes it.
    pub(super) fn queue_rest(&mut self, rest: Claim) {
        let later = self.waiting.iter().position(|claim| claim.source == rest.source);
        self.waiting.insert(later.unwrap_or(self.waiting.len()), rest);
    }

    /// Queues the rest of a worm directly behind the worm itself, which gets the link next.
    pub(super) fn queue_behind(&mut self, first: Claim, rest: Claim) {
        if self.waiting.front() != Some(&first) {
            self.waiting.push_front(first);
        }
        self.waiting.insert(1, rest);
    }
}
