//! What holds when a fabric has come to rest.
//!
//! What can be said of a single step is checked in that step: of memory in `memory`, of a packet in `judge`, of a
//! message in `ledger`. Here is what can be said only when nothing moves any more: until then a message that has not
//! arrived may be anywhere on its way, and a packet that was sent may lie in a ring and be counted at neither end.

use hamlyn_abi::hamlyn::statistics::Statistic;

use crate::violation::{Violation, ensure};
use crate::world::World;

impl World {
    /// Work has stopped: there must be none.
    pub(crate) fn check_rest(&mut self) -> Result<(), Violation> {
        for host in 0..self.hosts.len() {
            self.check_host(host)?;
        }
        if let Some((number, _)) = self.ledger.owed() {
            return Err(Violation::new(format!(
                "work has stopped, but this is owed: {}",
                self.ledger.describe(number)
            )));
        }
        if let Some(lost) = self.fetches.lost() {
            return Err(Violation::new(format!("a fetch-and-op was not answered, for no reason: {lost}")));
        }
        self.check_streams()?;
        self.check_connections_at_rest()?;
        self.check_balance()
    }

    /// All processes end: nothing is left open, and no page is lost.
    pub(crate) fn check_baseline(&mut self) -> Result<(), Violation> {
        for host in &mut self.hosts {
            (0..host.processes.len()).try_for_each(|process| host.kill(process, true))?;
            let free = host.machine.tables().free();
            ensure(free == host.baseline, || {
                format!(
                    "host {}: slots, termini, queues and pages free at the end: {free:?} (must be {:?})",
                    host.id, host.baseline
                )
            })?;
        }
        Ok(())
    }

    /// Every queue of a host is empty, and its processes have had answers to all that they posted.
    fn check_host(&mut self, number: usize) -> Result<(), Violation> {
        let host = &mut self.hosts[number];
        let staged = host.uplink.stage.len();
        ensure(staged == 0 && !host.uplink.draw()?, || {
            format!("work has stopped, but packets for host {number} wait")
        })?;
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

    /// No packet is lost between two counters: what went into the switch came out, or was counted as dropped.
    fn check_balance(&self) -> Result<(), Violation> {
        let ports = self.switch.counters().ports;
        let sum = |counter: fn(&hamlyn_switch::PortCounters) -> u64| ports.iter().map(counter).sum::<u64>();
        let sent: u64 = self.hosts.iter().map(|host| host.uplink.sent).sum();
        let taken: u64 = self.hosts.iter().map(|host| host.uplink.taken).sum();
        let (arrived, forwarded) = (sum(|port| port.packets_in), sum(|port| port.packets_out));
        let orphaned = sum(|port| port.orphaned);
        ensure(sent == arrived + orphaned, || {
            format!("cards sent {sent} packets: the switch took {arrived}, and {orphaned} were orphaned")
        })?;
        let dropped = sum(|port| port.dropped_absent + port.dropped_malformed);
        ensure(arrived == forwarded + dropped, || {
            format!("the switch took {arrived} packets: it forwarded {forwarded} and dropped {dropped}")
        })?;
        let undelivered = sum(|port| port.undelivered);
        ensure(forwarded == taken + undelivered, || {
            format!(
                "the switch forwarded {forwarded} packets: cards took {taken}, {undelivered} were in rings that went"
            )
        })?;
        self.check_cards()
    }

    /// Each card has accounted for each packet, unless a reset has cleared its counters.
    fn check_cards(&self) -> Result<(), Violation> {
        for (number, host) in self.hosts.iter().enumerate() {
            if host.machine.tables().was_reset {
                continue;
            }
            let counters = host.machine.counters();
            let count = |statistic: Statistic| counters[statistic as usize];
            let refused: u64 = counters[Statistic::RefusedPacket as usize..].iter().sum();
            let known = count(Statistic::PacketsReceived) + count(Statistic::Discarded) + refused;
            ensure(known == host.uplink.taken, || {
                format!(
                    "host {number} took {} packets from its link and accounts for {known}",
                    host.uplink.taken
                )
            })?;
            let sent = host.uplink.sent - host.uplink.injected;
            ensure(count(Statistic::PacketsSent) == sent, || {
                format!("host {number} sent {sent} packets and counts {}", count(Statistic::PacketsSent))
            })?;
        }
        Ok(())
    }
}
