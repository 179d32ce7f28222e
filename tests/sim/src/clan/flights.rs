//! Packets in flight between hosts.

use std::collections::BTreeMap;

use crate::engine::flight::Flight;

use super::packet::{HEAD, Letter, WRITE};

/// Packets in flight from one host to another, in order, word by word.
#[derive(Debug, Default)]
pub(super) struct Flights(BTreeMap<(u16, u16), Flight>);

/// Returns the indivisible parts of a packet.
fn parts(bytes: &[u8]) -> Vec<Vec<u8>> {
    match Letter::read(bytes) {
        Some((letter, true)) => letter.atoms().iter().map(Letter::write).collect(),
        _ => vec![bytes.to_vec()],
    }
}

impl Flights {
    /// Puts a packet in flight. It may be lost if `excused`.
    pub(super) fn send(&mut self, pair: (u16, u16), bytes: &[u8], excused: bool) {
        let flight = self.0.entry(pair).or_default();
        parts(bytes).into_iter().for_each(|part| flight.sent(part, excused));
    }

    /// Takes an arrived packet. Returns `false` if a part of it is not the next that was sent.
    pub(super) fn take(&mut self, pair: (u16, u16), bytes: &[u8]) -> bool {
        let flight = self.0.entry(pair).or_default();
        parts(bytes).iter().all(|part| flight.takes(part))
    }

    /// Excuses everything from or to a host whose port has gone down.
    pub(super) fn excuse(&mut self, host: u16) {
        let own = self.0.iter_mut().filter(|((source, to), _)| [*source, *to].contains(&host));
        own.for_each(|(_, flight)| flight.excuse());
    }

    /// Returns the number of words of an epoch in flight. Words of an earlier epoch were given up.
    pub(super) fn words(&self, pair: (u16, u16), epoch: u16) -> usize {
        let is_word =
            |atom: &[u8]| atom.len() > HEAD && atom[0] == WRITE && atom[2..4] == epoch.to_le_bytes();
        self.0.get(&pair).map_or(0, |flight| flight.count(is_word))
    }

    /// Returns two of the first hosts between which a packet is lost.
    pub(super) fn lost(&self, hosts: usize) -> Option<&(u16, u16)> {
        let reaches = |to: u16| usize::from(to) < hosts;
        let lost = self.0.iter().find(|((_, to), flight)| reaches(*to) && !flight.is_over());
        lost.map(|(pair, _)| pair)
    }
}
