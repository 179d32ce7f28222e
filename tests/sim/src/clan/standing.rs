//! Which hosts are hostile, and whose traffic may be lost.

use crate::engine::rng::Rng;

/// The standing of all hosts.
#[derive(Debug)]
pub(super) struct Standing {
    /// Timeouts are so short that cards give up peers that are only slow.
    is_hasty: bool,
    /// For each host, whether it sends packets that bypass its card (`is_hostile`), whether it has
    /// no link yet, or its traffic may have been lost since (`is_lossy`), and whether its card was
    /// reset (`was_reset`).
    is_hostile: Vec<bool>,
    is_lossy: Vec<bool>,
    was_reset: Vec<bool>,
}

impl Standing {
    pub(super) fn new(rng: &mut Rng, cards: u16, is_hasty: bool) -> Self {
        let cards = usize::from(cards);
        let is_hostile = (0..cards).map(|_| rng.percent(15)).collect();
        Self { is_hasty, is_hostile, is_lossy: vec![true; cards], was_reset: vec![false; cards] }
    }

    pub(super) fn begin(&mut self, host: usize) {
        self.is_lossy[host] = false;
    }

    /// Notes that a host's port has gone down, or that the host has stopped. Its peers may have
    /// given it up for that.
    pub(super) fn lose(&mut self, host: usize) {
        self.is_lossy[host] = true;
    }

    pub(super) fn reset(&mut self, host: usize) {
        self.was_reset[host] = true;
        self.lose(host);
    }

    pub(super) fn is_hostile(&self, host: u16) -> bool {
        self.is_hostile[usize::from(host)]
    }

    /// Returns whether traffic between two hosts may have any contents, because one of them is
    /// hostile.
    pub(super) fn is_tainted(&self, one: u16, other: u16) -> bool {
        let is_hostile = |host: u16| self.is_hostile.get(usize::from(host)).copied().unwrap_or(true);
        is_hostile(one) || is_hostile(other)
    }

    /// Returns whether traffic between two hosts may have been lost.
    pub(super) fn is_in_trouble(&self, host: u16, peer: u32) -> bool {
        let is_lost = |host: u32| self.is_lossy.get(host as usize).copied().unwrap_or(true);
        self.is_hasty || is_lost(host.into()) || is_lost(peer) || self.is_tainted(host, peer as u16)
    }

    /// Returns whether traffic between two hosts was lost, so that credits have to be agreed upon
    /// again.
    pub(super) fn was_cut_off(&self, one: u16, other: u16) -> bool {
        self.was_reset[usize::from(one)] || self.was_reset[usize::from(other)]
    }
}
