//! What is on its way from one host to another: it comes in its order, and only such is missing as
//! a port took with it.
//!
//! Which of several equal packets has come nobody can tell, if some of them may be missing. So it
//! is kept how far the receiver may be: each place in the order at which all that has come fits.

use std::collections::{BTreeSet, VecDeque};

#[derive(Debug, Clone, PartialEq, Eq)]
struct Flying {
    bytes: Vec<u8>,
    /// A port has gone since, and may have taken it with it.
    excused: bool,
}

/// The packets between two hosts.
#[derive(Debug)]
pub(crate) struct Flight {
    sent: VecDeque<Flying>,
    /// How many of them may be behind the receiver.
    reached: BTreeSet<usize>,
}

impl Default for Flight {
    fn default() -> Self {
        Self { sent: VecDeque::new(), reached: BTreeSet::from([0]) }
    }
}

impl Flight {
    pub(crate) fn sent(&mut self, bytes: Vec<u8>, excused: bool) {
        self.sent.push_back(Flying { bytes, excused });
    }

    /// A port has gone: whatever is on its way may be missing.
    pub(crate) fn excuse(&mut self) {
        self.sent.iter_mut().for_each(|flying| flying.excused = true);
    }

    /// A packet has come. `false`: it is none that can be next.
    pub(crate) fn takes(&mut self, bytes: &[u8]) -> bool {
        let mut reached = BTreeSet::new();
        for place in &self.reached {
            for (index, flying) in self.sent.iter().enumerate().skip(*place) {
                if flying.bytes == bytes {
                    reached.insert(index + 1);
                }
                if !flying.excused {
                    break;
                }
            }
        }
        let Some(least) = reached.first().copied() else { return false };
        self.sent.drain(..least);
        self.reached = reached.into_iter().map(|place| place - least).collect();
        true
    }

    /// How many of a kind are on their way, and not lost with a port.
    pub(crate) fn count(&self, is_it: impl Fn(&[u8]) -> bool) -> usize {
        let last = self.reached.last().copied().unwrap_or_default();
        self.sent.iter().skip(last).filter(|flying| !flying.excused && is_it(&flying.bytes)).count()
    }

    /// Whether all that must come may have come.
    pub(crate) fn is_over(&self) -> bool {
        let last = self.reached.last().copied().unwrap_or_default();
        self.sent.iter().skip(last).all(|flying| flying.excused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flight(packets: &[(u8, bool)]) -> Flight {
        let mut flight = Flight::default();
        packets.iter().for_each(|(byte, excused)| flight.sent(vec![*byte], *excused));
        flight
    }

    #[test]
    fn packets_come_in_their_order_and_each_once() {
        let mut all = flight(&[(1, false), (2, false), (2, false)]);
        assert!(!all.takes(&[2]));
        assert!(all.takes(&[1]) && all.takes(&[2]));
        assert!(!all.is_over());
        assert!(all.takes(&[2]) && all.is_over());
        assert!(!all.takes(&[2]));
    }

    #[test]
    fn what_a_port_took_with_it_may_be_missing_and_nothing_else() {
        let mut some = flight(&[(1, true), (2, false), (3, false)]);
        assert!(!some.takes(&[3]));
        assert!(some.takes(&[2]) && !some.is_over());
        some.excuse();
        assert!(some.is_over());
    }

    /// The first of them came, or the second, or the third, which is the one that must come.
    #[test]
    fn which_of_several_equal_packets_has_come_is_left_open() {
        let mut equal =
            flight(&[(7, true), (8, true), (7, true), (8, true), (7, true), (8, false), (9, false)]);
        assert!(equal.takes(&[7]) && equal.takes(&[8]));
        assert!(!equal.is_over());
        assert!(equal.takes(&[9]) && equal.is_over());
        let mut two = flight(&[(7, true), (7, false), (9, false)]);
        assert!(two.takes(&[7]) && two.takes(&[7]) && two.takes(&[9]) && two.is_over());
    }
}
