//! Transfers of deliberate update that were started.

use std::collections::VecDeque;

use hamlyn_abi::shrimp::entry::{SHRIMP_MODE_DELIBERATE, ShrimpEntry};
use hamlyn_abi::shrimp::memory::*;

use crate::engine::memory::PAGE;

use super::mapping::{Table, goes_on};

/// A transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Transfer {
    pub(super) base: u64,
    pub(super) next: u64,
    /// Bytes left.
    pub(super) left: u64,
    /// It is a message of the operating system.
    is_system: bool,
}

impl Transfer {
    /// Returns whether the change of a page's entry ends it.
    pub(super) fn ends(&self, page: u32, before: &ShrimpEntry, now: &ShrimpEntry) -> bool {
        let rest = self.next..self.next + self.left;
        self.base / PAGE == u64::from(page) && !goes_on(&rest, before, now)
    }
}

/// The transfers of a card, the current one first.
#[derive(Debug, Default)]
pub(super) struct Transfers(VecDeque<Transfer>);

impl Transfers {
    pub(super) fn front(&self) -> Option<&Transfer> {
        self.0.front()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns what the command page of an address says.
    pub(super) fn says(&self, address: u64) -> u32 {
        self.front().map_or(0, |transfer| {
            let base = if transfer.base == address { SHRIMP_BASE } else { 0 };
            let waits = self.0.iter().skip(1).any(|transfer| transfer.base == address);
            let waits = if waits { SHRIMP_WAITS } else { 0 };
            SHRIMP_BUSY | base | waits | transfer.left.div_ceil(4) as u32
        })
    }

    /// Starts a transfer. Returns `false` if it is refused.
    pub(super) fn start(&mut self, table: &Table, address: u64, words: u32) -> bool {
        let left = u64::from(words) * 4;
        let way = table.way(address).filter(|way| way.mode == SHRIMP_MODE_DELIBERATE);
        let is_system = way.is_some_and(|way| way.is_system);
        let fits = words <= SHRIMP_MAX_WORDS && table.is_one_part(address, left);
        let is_started = way.is_some() && fits && self.may_wait(address, is_system);
        let transfer = Transfer { base: address, next: address, left, is_system };
        self.0.extend(is_started.then_some(transfer));
        is_started
    }

    /// Returns whether a transfer may be queued. Transfers of processes have 64 places, one per
    /// page; those of an operating system have one per address.
    fn may_wait(&self, address: u64, is_system: bool) -> bool {
        let mut waiting = self.0.iter().skip(1);
        if is_system {
            return waiting.all(|transfer| transfer.base != address);
        }
        let theirs = self.0.iter().filter(|transfer| !transfer.is_system).count();
        theirs <= SHRIMP_MAX_WAITING as usize
            && waiting.all(|transfer| transfer.base / PAGE != address / PAGE)
    }

    /// Notes that the current transfer has sent its next bytes. Returns whether it is done.
    pub(super) fn advance(&mut self, length: u64) -> bool {
        let front = self.0.front_mut().map(|transfer| {
            (transfer.next, transfer.left) = (transfer.next + length, transfer.left - length);
            transfer.left == 0
        });
        let is_done = front == Some(true);
        if is_done {
            self.0.pop_front();
        }
        is_done
    }

    pub(super) fn cut_front(&mut self) {
        self.0.pop_front();
    }

    pub(super) fn any(&self, is_it: impl Fn(&Transfer) -> bool) -> bool {
        self.0.iter().any(is_it)
    }

    /// Ends transfers. Returns their number.
    pub(super) fn cut(&mut self, is_it: impl Fn(&Transfer) -> bool) -> u64 {
        let before = self.0.len();
        self.0.retain(|transfer| !is_it(transfer));
        (before - self.0.len()) as u64
    }
}
