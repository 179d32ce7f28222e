//! Sending by programs.

use hamlyn_abi::hamlyn::window::HAMLYN_WORK_QUEUE_USABLE;

use crate::engine::violation::Violation;
use crate::hamlyn::around::Around;
use crate::hamlyn::fetches::Fetches;
use crate::hamlyn::ledger::Ledger;
use crate::hamlyn::outlet::{Errand, Truth};
use crate::hamlyn::program::Program;
use crate::hamlyn::tally::Tally;

/// Posts the messages of programs, and takes note of finished requests.
pub(super) struct Poster<'a> {
    pub(super) around: Around<'a>,
    pub(super) ledger: &'a mut Ledger,
    pub(super) fetches: &'a mut Fetches,
    pub(super) tally: &'a mut Tally,
}

impl Poster<'_> {
    /// Posts the next waiting message, if there is room for it.
    pub(super) fn post_next(&mut self, host: usize, process: usize) -> Result<bool, Violation> {
        let machine = self.around.hosts[host].machine.clone();
        let awake = |program: &&mut Program| program.dozes.is_none();
        let Some(program) = self.around.hosts[host].program_mut(process).filter(awake) else {
            return Ok(false);
        };
        let Some(errand) = program.outbox.pop_front() else { return Ok(false) };
        let Errand { part: number, ticket, .. } = errand;
        let part = &self.ledger.parts[number];
        let delivery = &self.ledger.deliveries[part.delivery];
        let busy = program.outlet.busy(&machine);
        let posted = program.outlet.post(self.around.rng, &errand, part, delivery, busy)?;
        if !posted {
            self.tally.blocked += u64::from(busy >= u64::from(HAMLYN_WORK_QUEUE_USABLE));
            program.outbox.push_front(errand);
            return Ok(false);
        }
        self.around.note(|| {
            format!("host {host} process {process} posts part {number} to host {}", ticket.destination)
        });
        Ok(true)
    }

    /// Takes note of the requests that are finished, and overwrites their buffers at once.
    pub(super) fn collect(&mut self, host: usize, process: usize) -> Result<bool, Violation> {
        let at = &mut self.around.hosts[host];
        let awake = |program: &&mut Program| program.dozes.is_none();
        let Some(program) = at.processes[process].program_mut().filter(awake) else { return Ok(false) };
        let mut truth = Truth {
            completed: u64::from(at.machine.completed(program.outlet.terminus().number())),
            now: at.machine.clock.milliseconds(),
            ledger: self.ledger,
            fetches: self.fetches,
        };
        let outlet = &mut program.outlet;
        outlet
            .collect(self.around.rng, &mut truth)
            .map_err(|violation| Violation::new(format!("host {host} process {process}: {violation}")))
    }
}
