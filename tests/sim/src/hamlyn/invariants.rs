//! Invariants of a fabric that has come to rest.
//!
//! Invariants of a single step are checked in that step: of memory in `memory`, of a packet in
//! `judge`, of a message in `ledger`. This module has those that hold only when nothing moves.
//! Until then a message that has not arrived may be anywhere on its way. A packet that was sent may
//! be in a ring, and be counted at neither end.

use hamlyn_abi::hamlyn::statistics::Statistic;

use crate::engine::violation::{Violation, ensure};
use crate::hamlyn::world::World;

impl World {
    /// Checks that no work is left after work has stopped.
    pub(crate) fn check_rest(&mut self) -> Result<(), Violation> {
        for host in 0..self.hosts.len() {
            self.check_host(host)?;
        }
        if let Some((number, _)) = self.model.ledger.owed() {
            return Err(Violation::new(format!(
                "work has stopped, but this is owed: {}",
                self.model.ledger.describe(number)
            )));
        }
        if let Some(lost) = self.model.fetches.lost() {
            return Err(Violation::new(format!("a fetch-and-op was not answered, for no reason: {lost}")));
        }
        self.check_streams()?;
        self.check_connections_at_rest()?;
        self.check_cards()
    }

    /// Ends all processes, and checks that nothing is left open and no page is lost.
    pub(crate) fn check_baseline(&mut self) -> Result<(), Violation> {
        for host in &mut self.hosts {
            (0..host.processes.len()).try_for_each(|process| host.kill(process, true))?;
            let free = host.machine.tables().free();
            let baseline = host.machine.tables().baseline;
            ensure(free == baseline, || {
                format!(
                    "host {}: slots, termini, queues and pages free at the end: {free:?} (must be {baseline:?})",
                    host.id
                )
            })?;
            host.machine.check_express_at_rest()?;
        }
        Ok(())
    }

    /// Checks that every queue of a host is empty, and that all requests that its processes posted
    /// are finished.
    fn check_host(&mut self, number: usize) -> Result<(), Violation> {
        let host = &mut self.hosts[number];
        host.check_dozers()?;
        for index in 0..host.processes.len() {
            let Some(program) = host.program(index) else { continue };
            ensure(program.in_flight.is_empty() && program.outbox.is_empty(), || {
                format!(
                    "work has stopped, but host {number} process {index} has posted {}, {} are not finished and {} wait",
                    program.posted,
                    program.in_flight.len(),
                    program.outbox.len()
                )
            })?;
        }
        Ok(())
    }

    /// Checks that each card has accounted for each packet, unless a reset has cleared its
    /// counters.
    fn check_cards(&self) -> Result<(), Violation> {
        for (number, host) in self.hosts.iter().enumerate() {
            if host.machine.tables().was_reset {
                continue;
            }
            let counters = host.machine.counters();
            let count = |statistic: Statistic| counters[statistic as usize];
            let refused: u64 = counters[Statistic::RefusedPacket as usize..].iter().sum();
            let known = count(Statistic::PacketsReceived) + count(Statistic::Discarded) + refused;
            let handed = host.uplink.taken - host.uplink.strange;
            ensure(known == handed, || {
                format!("host {number} was handed {handed} packets and accounts for {known}")
            })?;
            let sent = host.uplink.sent - host.uplink.injected;
            ensure(count(Statistic::PacketsSent) == sent, || {
                format!("host {number} sent {sent} packets and counts {}", count(Statistic::PacketsSent))
            })?;
        }
        Ok(())
    }
}
