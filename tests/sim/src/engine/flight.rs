//! Packets in flight from one host to another. They arrive in order, and only packets that were in
//! flight when a port went down may be missing.
//!
//! If some of several equal packets may be missing, it is ambiguous which of them has arrived. So
//! this module keeps every place in the order that is consistent with the packets seen so far.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

#[derive(Debug, Clone, PartialEq, Eq)]
struct Flying {
    bytes: Vec<u8>,
    /// A port has gone down since, and may have dropped it.
    excused: bool,
}

/// The packets between two hosts.
#[derive(Debug)]
struct Flight {
    sent: VecDeque<Flying>,
    /// All possible numbers of leading packets that the receiver is past.
    reached: BTreeSet<usize>,
}

impl Default for Flight {
    fn default() -> Self {
        Self { sent: VecDeque::new(), reached: BTreeSet::from([0]) }
    }
}

impl Flight {
    fn sent(&mut self, bytes: Vec<u8>, excused: bool) {
        self.sent.push_back(Flying { bytes, excused });
    }

    /// Excuses all packets in flight: a port has gone down and may have dropped them.
    fn excuse(&mut self) {
        self.sent.iter_mut().for_each(|flying| flying.excused = true);
    }

    /// Takes an arrived packet. Returns `false` if it cannot be the next one.
    fn takes(&mut self, bytes: &[u8]) -> bool {
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

    /// Returns the number of packets in flight of a kind, without those that may be lost with a
    /// port.
    fn count(&self, is_it: impl Fn(&[u8]) -> bool) -> usize {
        let last = self.reached.last().copied().unwrap_or_default();
        self.sent.iter().skip(last).filter(|flying| !flying.excused && is_it(&flying.bytes)).count()
    }

    /// Returns whether all packets that must arrive may have arrived.
    fn is_over(&self) -> bool {
        let last = self.reached.last().copied().unwrap_or_default();
        self.sent.iter().skip(last).all(|flying| flying.excused)
    }
}

/// Packets in flight from one host to another, by pairs of hosts.
#[derive(Debug, Default)]
pub(crate) struct Flights(BTreeMap<(u16, u16), Flight>);

impl Flights {
    /// Puts the parts of a packet in flight. They may be lost if `excused`.
    pub(crate) fn send(&mut self, pair: (u16, u16), parts: impl IntoIterator<Item = Vec<u8>>, excused: bool) {
        let flight = self.0.entry(pair).or_default();
        parts.into_iter().for_each(|part| flight.sent(part, excused));
    }

    /// Takes the parts of an arrived packet. Returns `false` if one is not the next that was sent.
    pub(crate) fn take(
        &mut self,
        pair: (u16, u16),
        parts: impl IntoIterator<Item = impl AsRef<[u8]>>,
    ) -> bool {
        let flight = self.0.entry(pair).or_default();
        parts.into_iter().all(|part| flight.takes(part.as_ref()))
    }

    /// Excuses everything from or to a host whose port has gone down.
    pub(crate) fn excuse(&mut self, host: u16) {
        let own = self.0.iter_mut().filter(|((source, to), _)| [*source, *to].contains(&host));
        own.for_each(|(_, flight)| flight.excuse());
    }

    /// Returns the number of packets of a kind in flight, without those that may be lost.
    pub(crate) fn count(&self, pair: (u16, u16), is_it: impl Fn(&[u8]) -> bool) -> usize {
        self.0.get(&pair).map_or(0, |flight| flight.count(is_it))
    }

    /// Returns two of the first `hosts` hosts between which a packet is lost.
    pub(crate) fn lost(&self, hosts: usize) -> Option<&(u16, u16)> {
        let lost = self.0.iter().find(|((_, to), flight)| usize::from(*to) < hosts && !flight.is_over());
        lost.map(|(pair, _)| pair)
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
    fn packets_arrive_once_and_in_order() {
        let mut all = flight(&[(1, false), (2, false), (2, false)]);
        assert!(!all.takes(&[2]));
        assert!(all.takes(&[1]) && all.takes(&[2]));
        assert!(!all.is_over());
        assert!(all.takes(&[2]) && all.is_over());
        assert!(!all.takes(&[2]));
    }

    #[test]
    fn only_a_lost_port_excuses_missing_packets() {
        let mut some = flight(&[(1, true), (2, false), (3, false)]);
        assert!(!some.takes(&[3]));
        assert!(some.takes(&[2]) && !some.is_over());
        some.excuse();
        assert!(some.is_over());
    }

    /// The first of them came, or the second, or the third, which is the one that must come.
    #[test]
    fn equal_packets_are_ambiguous() {
        let mut equal =
            flight(&[(7, true), (8, true), (7, true), (8, true), (7, true), (8, false), (9, false)]);
        assert!(equal.takes(&[7]) && equal.takes(&[8]));
        assert!(!equal.is_over());
        assert!(equal.takes(&[9]) && equal.is_over());
        let mut two = flight(&[(7, true), (7, false), (9, false)]);
        assert!(two.takes(&[7]) && two.takes(&[7]) && two.takes(&[9]) && two.is_over());
    }
}
