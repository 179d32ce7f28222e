//! Refused writes: which endpoints have to be told of them.

use std::collections::{BTreeMap, BTreeSet};

use super::standing::Standing;

/// Refused writes between all hosts.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    /// Endpoints that have to be told that writes were refused (`due`), now or ever (`ever`): the
    /// refusing host, the endpoint's host, the endpoint.
    due: BTreeSet<(u16, u16, u32)>,
    ever: BTreeSet<(u16, u16, u32)>,
    /// The last epoch of a host's packets to another (`epochs`), and the epochs that were given up
    /// (`over`). The endpoints that sent in those have been told.
    epochs: BTreeMap<(u16, u16), u16>,
    over: BTreeSet<(u16, u16, u16)>,
    /// Endpoints that have written to a host: their own host, that host, the endpoint.
    writers: BTreeSet<(u16, u16, u32)>,
}

impl Refusals {
    pub(super) fn sent(&mut self, host: u16, to: u16, epoch: u16) {
        self.epochs.insert((host, to), epoch);
    }

    /// Notes that an open endpoint has written to another host.
    pub(super) fn wrote(&mut self, host: u16, to: u16, tag: u32) {
        self.writers.insert((host, to, tag));
    }

    pub(super) fn can_refuse(&self, host: u16, other: u16, tag: u32) -> bool {
        self.writers.contains(&(host, other, tag))
    }

    /// Notes that a host has refused a write. Its endpoint has to be told of it if `is_heard`.
    pub(super) fn refuse(&mut self, host: u16, source: u16, (tag, epoch): (u32, u16), is_heard: bool) {
        self.ever.insert((host, source, tag));
        if is_heard && !self.over.contains(&(source, host, epoch)) {
            self.due.insert((host, source, tag));
        }
    }

    /// Notes that an endpoint is told of a refusal. Returns `false` if nothing was refused to it.
    pub(super) fn tell(&mut self, host: u16, to: u16, tag: u32) -> bool {
        self.due.remove(&(host, to, tag)) || self.ever.contains(&(host, to, tag))
    }

    /// Notes that an endpoint was told of a loss: it need not be told of writes that were refused
    /// there. `is_given_up` tells whether its host has given up the other.
    pub(super) fn lose(&mut self, host: u16, peer: u16, tag: u32, is_given_up: bool) {
        if is_given_up {
            let epoch = self.epochs.get(&(host, peer));
            self.over.extend(epoch.map(|epoch| (host, peer, *epoch)));
        }
        self.due.remove(&(peer, host, tag));
    }

    /// Excuses everything from or to a host whose port has gone down, or whose card was reset. The
    /// host's endpoints have been told of a loss. They need not be told of refusals of the same
    /// writes, if those still come.
    pub(super) fn excuse(&mut self, host: u16) {
        self.due.retain(|(refuser, sender, _)| ![*refuser, *sender].contains(&host));
        let own = self.epochs.iter().filter(|((sender, _), _)| *sender == host);
        self.over.extend(own.map(|((sender, to), epoch)| (*sender, *to, *epoch)));
        self.writers.retain(|(own, ..)| *own != host);
    }

    pub(super) fn forget_endpoint(&mut self, host: u16, tag: u32) {
        self.due.retain(|told| (told.1, told.2) != (host, tag));
        self.writers.retain(|(own, _, writer)| (*own, *writer) != (host, tag));
    }

    /// Returns whether an endpoint of a host waits to be told by a host that is not hostile.
    pub(super) fn is_owed(&self, host: usize, standing: &Standing) -> bool {
        let mut due = self.due.iter();
        due.any(|(refuser, sender, _)| {
            usize::from(*sender) == host && !standing.is_tainted(*refuser, *sender)
        })
    }

    pub(super) fn untold(&self, standing: &Standing) -> Option<&(u16, u16, u32)> {
        self.due.iter().find(|(one, other, _)| !standing.is_tainted(*one, *other))
    }
}
