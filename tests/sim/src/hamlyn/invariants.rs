//! Invariants of a fabric that has come to rest.
//!
//! Invariants of a single step are checked in that step: of memory in `memory`, of a packet in
//! `judge`, of a message in `ledger`. This module has those that hold only when nothing moves.
//! Until then a message that has not arrived may be anywhere on its way. A packet that was sent may
//! be in a ring, and be counted at neither end.

use hamlyn_abi::hamlyn::statistics::Statistic;

use crate::engine::violation::{Violation, ensure};
use crate::hamlyn::areas;
use crate::hamlyn::fetches::Fetches;
use crate::hamlyn::ledger::Ledger;
use crate::hamlyn::world::Host;

/// Checks that no work of programs is left after work has stopped.
pub(super) fn check_work(hosts: &[Host], ledger: &Ledger, fetches: &Fetches) -> Result<(), Violation> {
    hosts.iter().try_for_each(check_host)?;
    if let Some((number, _)) = ledger.owed() {
        return Err(Violation::new(format!(
            "work has stopped, but this is owed: {}",
            ledger.describe(number)
        )));
    }
    let lost = fetches.lost();
    ensure(lost.is_none(), || {
        format!("a fetch-and-op was not answered, for no reason: {}", lost.unwrap_or_default())
    })
}

/// Ends all processes, and checks that nothing is left open and no page is lost.
pub(super) fn check_baseline(hosts: &mut [Host]) -> Result<(), Violation> {
    for host in hosts {
        (0..host.processes.len()).try_for_each(|process| host.kill(process, true))?;
        let free = host.machine.tables().free();
        let baseline = host.machine.tables().baseline;
        ensure(free == baseline, || {
            format!(
                "host {}: slots, termini, queues and pages free at the end: {free:?} (must be {baseline:?})",
                host.id
            )
        })?;
        areas::check_at_rest(&host.machine)?;
    }
    Ok(())
}

/// Checks that every queue of a host is empty, and that all requests that its processes posted are
/// finished.
fn check_host(host: &Host) -> Result<(), Violation> {
    host.check_dozers()?;
    for index in 0..host.processes.len() {
        let Some(program) = host.program(index) else { continue };
        ensure(program.outlet.in_flight() == 0 && program.outbox.is_empty(), || {
            format!(
                "work has stopped, but host {} process {index} has posted {}, {} are not finished and {} wait",
                host.id,
                program.outlet.posted(),
                program.outlet.in_flight(),
                program.outbox.len()
            )
        })?;
    }
    Ok(())
}

/// Checks that each card has accounted for each packet, unless a reset has cleared its
/// counters.
pub(super) fn check_cards(hosts: &[Host]) -> Result<(), Violation> {
    for (number, host) in hosts.iter().enumerate() {
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
