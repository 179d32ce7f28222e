//! Position up to which a ring is filled without a gap, when messages arrive in any order.

use std::collections::BTreeMap;

/// Positions count from the channel's start, in bytes.
#[derive(Debug)]
pub(super) struct Filled {
    capacity: u64,
    /// Maximum number of messages beyond a gap.
    limit: usize,
    /// Everything before this has arrived, in this number of messages modulo 2^32.
    until: u64,
    messages: u32,
    /// Start and end of the messages that have arrived beyond a gap.
    beyond: BTreeMap<u64, u64>,
    /// End of all messages, and how the sender ended.
    end: Option<(u64, u64)>,
}

/// A position that no ring has: the reader reports it as nonsense.
const NONSENSE: u64 = u64::MAX;

impl Filled {
    pub(super) fn new(capacity: u64, limit: u32) -> Self {
        Self { capacity, limit: limit as usize, until: 0, messages: 0, beyond: BTreeMap::new(), end: None }
    }

    /// Returns the position before which everything has arrived.
    pub(super) fn until(&self) -> u64 {
        self.until
    }

    /// Returns the number of messages that have arrived without a gap, modulo 2^32.
    pub(super) fn messages(&self) -> u32 {
        self.messages
    }

    /// Returns how the sender has ended, if everything that it sent has arrived; otherwise 0.
    pub(super) fn end(&self) -> u64 {
        self.end.filter(|(at, _)| *at == self.until).map_or(0, |(_, how)| how)
    }

    /// Records that these bytes have arrived.
    pub(super) fn fill(&mut self, start: u64, end: u64) {
        let is_new = start >= self.until && start < end && end - self.until <= self.capacity;
        if !is_new || self.beyond.len() >= self.limit {
            return self.spoil();
        }
        if start != self.until {
            self.beyond.insert(start, end);
            return;
        }
        let mut next = Some(end);
        while let Some(end) = next {
            self.until = end;
            self.messages = self.messages.wrapping_add(1);
            next = self.beyond.remove(&end);
        }
    }

    /// Records that the sender has ended at a position.
    pub(super) fn finish(&mut self, at: u64, how: u64) {
        self.end = Some((at, how));
    }

    /// Records that the peer has stated something impossible.
    pub(super) fn spoil(&mut self) {
        self.until = NONSENSE;
        self.beyond.clear();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn messages_count_without_gap_in_any_order(
            order in Just((0..32_u64).collect::<Vec<_>>()).prop_shuffle(),
            lengths in prop::collection::vec(1..20_u64, 32),
        ) {
            let ends: Vec<u64> = lengths.iter().scan(0, |end, length| { *end += length * 8; Some(*end) }).collect();
            let starts: Vec<u64> = ends.iter().zip(&lengths).map(|(end, length)| end - length * 8).collect();
            let mut filled = Filled::new(32 * 20 * 8, 32);
            filled.finish(ends[31], 1);
            let mut came = [false; 32];
            for message in order {
                prop_assert_eq!(filled.end(), 0);
                filled.fill(starts[message as usize], ends[message as usize]);
                came[message as usize] = true;
                let until = came.iter().position(|came| !came).map_or(ends[31], |first| starts[first]);
                prop_assert_eq!(filled.until(), until);
                let passed = came.iter().position(|came| !came).unwrap_or(32);
                prop_assert_eq!(filled.messages(), passed as u32);
            }
            prop_assert_eq!(filled.end(), 1);
        }
    }

    #[test]
    fn impossible_ranges_spoil_the_ring() {
        for (start, end) in [(8, 16), (16, 16), (24, 16), (16, 16 + 72)] {
            let mut filled = Filled::new(64, 8);
            filled.fill(0, 16);
            filled.fill(start, end);
            assert_eq!(filled.until(), NONSENSE, "{start}..{end}");
            // Nothing brings it back.
            filled.fill(16, 24);
            assert_eq!(filled.until(), NONSENSE);
        }
    }

    #[test]
    fn messages_beyond_a_gap_are_limited() {
        let mut filled = Filled::new(1 << 20, 3);
        for number in 1..=3 {
            filled.fill(16 * number, 16 * number + 8);
            assert_eq!(filled.until(), 0);
        }
        filled.fill(64, 72);
        assert_eq!(filled.until(), NONSENSE);
    }
}
