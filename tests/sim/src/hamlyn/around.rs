//! What every action of a simulation uses: the seed's decisions, the hosts, time, and the record of
//! events.

use crate::engine::events::Events;
use crate::engine::rng::Rng;
use crate::hamlyn::process::Process;
use crate::hamlyn::scenario::Scenario;
use crate::hamlyn::world::Host;

/// What every action uses.
#[derive(Debug)]
pub(super) struct Around<'a> {
    pub(super) rng: &'a mut Rng,
    pub(super) hosts: &'a mut [Host],
    pub(super) scenario: &'a Scenario,
    pub(super) step: u64,
    /// The time in milliseconds.
    pub(super) now: u64,
    pub(super) events: &'a mut Events,
}

impl Around<'_> {
    /// Lends it to another action.
    pub(super) fn lend(&mut self) -> Around<'_> {
        let Self { rng, hosts, scenario, step, now, events } = self;
        Around { rng, hosts, scenario, step: *step, now: *now, events }
    }

    /// Records an event for the report.
    pub(super) fn note(&mut self, what: impl FnOnce() -> String) {
        self.events.note(self.step, what);
    }

    /// Returns all live honest processes, each with its host.
    pub(super) fn senders(&self) -> Vec<(usize, usize)> {
        self.processes(|process| process.program().is_some())
    }

    /// Returns a random live honest process.
    pub(super) fn a_sender(&mut self) -> Option<(usize, usize)> {
        let senders = self.senders();
        self.rng.pick(&senders)
    }

    /// Returns all live correspondents, each with its host.
    pub(super) fn correspondents(&self) -> Vec<(usize, usize)> {
        self.processes(|process| process.correspondent().is_some())
    }

    fn processes(&self, is_such: fn(&Process) -> bool) -> Vec<(usize, usize)> {
        let all = self.hosts.iter().enumerate().flat_map(|(host, at)| {
            at.processes
                .iter()
                .enumerate()
                .filter(move |(_, process)| is_such(process))
                .map(move |(index, _)| (host, index))
        });
        all.collect()
    }

    /// Returns the hosts without a link.
    pub(super) fn down(&self) -> Vec<usize> {
        (0..self.hosts.len()).filter(|host| !self.hosts[*host].uplink.is_up()).collect()
    }
}
