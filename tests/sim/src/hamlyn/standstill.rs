//! A card that takes nothing. It may stop only programs that have something for it (section 2.8).

use crate::engine::violation::{Violation, ensure};
use crate::hamlyn::program::{InFlight, Program};
use crate::hamlyn::world::World;

/// Rounds in which messages are made, to all hosts.
const ROUNDS_WITH_TRAFFIC: u32 = 60;
/// Maximum number of rounds. If the others are busy after that, they never come to rest.
const MOST_ROUNDS: u32 = 10_000;

impl World {
    /// Stalls one card while all hosts send to all.
    ///
    /// Programs that send nothing to it, and all traffic that is not for it, must come to rest
    /// meanwhile. The card goes on afterwards. Traffic that is owed to it is checked later with all
    /// other traffic.
    pub(crate) fn stand_still(&mut self) -> Result<(), Violation> {
        let still = self.rng.index(self.hosts.len());
        self.note(|| format!("card {still} stands still"));
        self.hosts[still].frozen = true;
        let before = self.model.ledger.delivered();
        let (mut round, mut idle) = (0, 0);
        while idle < 2 {
            ensure(round < MOST_ROUNDS, || format!("without card {still} the fabric never comes to rest"))?;
            let traffic = round < ROUNDS_WITH_TRAFFIC;
            if traffic {
                self.compose()?;
                self.compose()?;
            }
            idle = if self.round()? || traffic { 0 } else { idle + 1 };
            round += 1;
        }
        self.check_bystanders(still)?;
        if self.switch.counters().ports[still].waiting > 0 {
            self.model.bystanders += self.model.ledger.delivered() - before;
        }
        self.note(|| format!("card {still} goes on"));
        self.hosts[still].frozen = false;
        Ok(())
    }

    /// Checks that everything is done that does not involve the stalled card.
    fn check_bystanders(&mut self, still: usize) -> Result<(), Violation> {
        for host in (0..self.hosts.len()).filter(|host| *host != still) {
            for index in 0..self.hosts[host].processes.len() {
                let Some(program) = self.hosts[host].program(index) else { continue };
                ensure(
                    self.waits_for(program, still)
                        || program.in_flight.is_empty() && program.outbox.is_empty(),
                    || {
                        format!(
                            "host {host} process {index} has nothing for card {still}, which stands still, and yet {} requests are not finished and {} wait",
                            program.in_flight.len(),
                            program.outbox.len()
                        )
                    },
                )?;
            }
        }
        let late = self.model.ledger.owed_between(|host| host != still);
        ensure(late.is_none(), || {
            let late = late.map(|number| self.model.ledger.describe(number)).unwrap_or_default();
            format!("card {still} stands still, and what is sent past it does not arrive: {late}")
        })
    }

    /// Returns whether anything that a program has posted or will post is for a host, or may be.
    fn waits_for(&self, program: &Program, host: usize) -> bool {
        let is_for = |request: &InFlight| {
            // The results of a fetch-and-op, or of a message that must not arrive, are checked
            // elsewhere.
            request.part.is_none_or(|part| {
                let delivery = &self.model.ledger.deliveries[self.model.ledger.parts[part].delivery];
                self.model.ledger.places[delivery.place].host == host
            })
        };
        program.in_flight.iter().any(is_for)
            || program.outbox.iter().any(|errand| errand.ticket.destination as usize == host)
    }
}
