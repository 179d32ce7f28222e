//! Faults and bits that the card reports to an endpoint.

use hamlyn_abi::clan::endpoint::*;

use crate::engine::violation::{Violation, ensure};

/// Fields of a fault, in the order in which the card writes them before it increments the count.
const PARTS: [u32; 4] =
    [CLAN_STATE_FAULTS_BEGUN, CLAN_STATE_FAULT_USE, CLAN_STATE_FAULT_REASON, CLAN_STATE_FAULT_OFFSET];

/// A possible cause of an endpoint's fault: reason, host, aperture and offset.
pub(super) type Cause = (u32, u32, u32, u64);

/// Returns a word that a card has written.
pub(super) fn word(bytes: &[u8]) -> Option<u32> {
    bytes.try_into().ok().map(u32::from_le_bytes)
}

/// The faults of an endpoint.
#[derive(Debug, Default)]
pub(super) struct Faults {
    count: u32,
    words: [u8; 24],
    /// Fields of the next fault that the card has written so far.
    parts: Vec<u32>,
    causes: Vec<Cause>,
    /// Faults that must have been reported.
    owed: u32,
}

impl Faults {
    /// Notes a fault that may be reported, and must be if `is_owed`.
    pub(super) fn permit(&mut self, cause: Cause, is_owed: bool) {
        self.causes.push(cause);
        self.owed += u32::from(is_owed);
    }

    /// Takes a field of the next fault. Returns whether it is the next in order.
    pub(super) fn note(&mut self, at: u32, bytes: &[u8]) -> bool {
        let is_right = match at {
            CLAN_STATE_FAULTS_BEGUN => word(bytes) == Some(self.count.wrapping_add(1)),
            CLAN_STATE_FAULT_USE => bytes.len() == 4,
            _ => {
                let start = (at - CLAN_STATE_FAULTS) as usize;
                let words = self.words.get_mut(start..start + bytes.len());
                words.map(|words| words.copy_from_slice(bytes)).is_some()
            }
        };
        self.parts.push(at);
        is_right && PARTS.starts_with(&self.parts)
    }

    /// Returns the cause that the card has written.
    pub(super) fn said(&self) -> Cause {
        let [reason, peer, aperture] = [4, 8, 12].map(|at| word(&self.words[at..at + 4]).unwrap_or(0));
        let offset = self.words[16..24].iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte));
        (reason, peer, aperture, offset)
    }

    /// Takes the new count of faults. Returns whether the fault was known before: that of a tick
    /// which reports a loss is not. `None` if it is not the next, or not complete.
    pub(super) fn end(&mut self, count: &[u8], is_new: bool) -> Option<bool> {
        let next = self.count.wrapping_add(1);
        if word(count) != Some(next) || std::mem::take(&mut self.parts) != PARTS {
            return None;
        }
        self.count = next;
        let cause = self.said();
        let known = self.causes.iter().position(|known| *known == cause && !is_new);
        Some(known.map(|known| self.causes.remove(known)).is_some())
    }

    pub(super) fn check(&self, host: u16, number: u32) -> Result<(), Violation> {
        let Self { count, owed, .. } = self;
        ensure(count >= owed, || format!("host {host}: endpoint {number} heard of {count} faults of {owed}"))
    }
}

/// The bitmap of an endpoint.
#[derive(Debug, Default)]
pub(super) struct Bits {
    /// Bits that must be set.
    due: u64,
    /// The halves of the bitmap: the card's (`card`) and its owner's (`cleared`).
    card: u64,
    cleared: u64,
    /// Bits that a process waits for.
    armed: u64,
}

impl Bits {
    /// Sets a bit. Returns whether a process waits for it.
    pub(super) fn set(&mut self, bit: u32) -> bool {
        self.due |= 1 << bit;
        let is_awaited = self.armed & 1 << bit != 0;
        self.armed = if is_awaited { 0 } else { self.armed };
        is_awaited
    }

    /// Clears bits as the owner. Returns the owner's half.
    pub(super) fn clear(&mut self, bits: u64) -> u64 {
        self.due &= !bits;
        self.cleared = self.cleared & !bits | self.card & bits;
        self.cleared
    }

    /// Arms bits for a sleeper, if none are armed. Returns whether one of them is set.
    pub(super) fn arm(&mut self, bits: u64) -> Option<bool> {
        if self.armed != 0 {
            return None;
        }
        let is_set = self.due & bits != 0;
        self.armed = if is_set { 0 } else { bits };
        Some(is_set)
    }

    /// Takes a word of the bitmap that the card has stored. The card may set one bit that was not
    /// set, and clears none.
    pub(super) fn note(&mut self, at: u32, word: u32) -> bool {
        let shift = 8 * (at - CLAN_STATE_BITS);
        let before = self.card;
        self.card = before & !(u64::from(u32::MAX) << shift) | u64::from(word) << shift;
        let changed = before ^ self.card;
        at % 4 == 0 && changed.count_ones() <= 1 && changed & (before ^ self.cleared) == 0
    }

    /// Returns the bits that must be set.
    pub(super) fn due(&self) -> u64 {
        self.due
    }
}
