//! A card that takes nothing. It may stop only programs that have something for it (section 2.8).

use crate::engine::violation::{Violation, ensure};
use crate::hamlyn::ledger::Ledger;
use crate::hamlyn::program::Program;
use crate::hamlyn::world::Host;

/// Checks that everything is done that does not involve a stalled card.
pub(super) fn check_bystanders(hosts: &[Host], ledger: &Ledger, still: usize) -> Result<(), Violation> {
    for (host, at) in hosts.iter().enumerate().filter(|(host, _)| *host != still) {
        for index in 0..at.processes.len() {
            let Some(program) = at.program(index) else { continue };
            let is_done = program.outlet.in_flight() == 0 && program.outbox.is_empty();
            ensure(is_done || waits_for(program, ledger, still), || {
                format!(
                    "host {host} process {index} has nothing for card {still}, which stands still, and yet {} requests are not finished and {} wait",
                    program.outlet.in_flight(),
                    program.outbox.len()
                )
            })?;
        }
    }
    let late = ledger.owed_between(|host| host != still);
    ensure(late.is_none(), || {
        let late = late.map(|number| ledger.describe(number)).unwrap_or_default();
        format!("card {still} stands still, and what is sent past it does not arrive: {late}")
    })
}

/// Returns whether anything that a program has posted or will post is for a host, or may be.
fn waits_for(program: &Program, ledger: &Ledger, host: usize) -> bool {
    let is_for = |part: Option<usize>| {
        // The results of a fetch-and-op, or of a message that must not arrive, are checked
        // elsewhere.
        part.is_none_or(|part| {
            let delivery = &ledger.deliveries[ledger.parts[part].delivery];
            ledger.places[delivery.place].host == host
        })
    };
    program.outlet.parts_in_flight().any(is_for)
        || program.outbox.iter().any(|errand| errand.ticket.destination as usize == host)
}
