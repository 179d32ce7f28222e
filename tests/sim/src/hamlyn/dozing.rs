//! Programs that sleep until their requests are finished.
//!
//! A lost wake-up shows when a fabric has come to rest: its victim still sleeps, and makes no more
//! requests.

use crate::engine::violation::{Violation, ensure};
use crate::hamlyn::world::Host;
use crate::hamlyn::world::World;

impl World {
    /// Puts a program to sleep until some of its requests are finished. Meanwhile it posts nothing
    /// and asks for nothing.
    pub(crate) fn doze(&mut self, host: usize, process: usize) -> Result<(), Violation> {
        // The step decides, so that the seed's other choices do not change.
        let chosen = (self.step + process as u64) % 4 == 0;
        let machine = self.hosts[host].machine.clone();
        let Some(program) = self.hosts[host].program_mut(process) else { return Ok(()) };
        if !chosen
            || !self.model.scenario.senders_sleep
            || program.dozes.is_some()
            || program.in_flight.is_empty()
        {
            return Ok(());
        }
        let number = program.terminus.number();
        let wanted = program.posted - self.step % program.in_flight.len() as u64;
        if machine.arm_terminus(number, wanted as u32) {
            return Ok(());
        }
        program.dozes = Some(wanted);
        self.model.dozed += 1;
        self.note(|| format!("host {host} process {process} sleeps until {wanted} requests are finished"));
        Ok(())
    }
}

impl Host {
    /// Wakes the programs whose termini fired. The requests that each waited for must be finished.
    pub(crate) fn wake_senders(&mut self, fired: &[u32]) -> Result<(), Violation> {
        for process in &mut self.processes {
            let Some(program) = process.program_mut() else { continue };
            let number = program.terminus.number();
            let Some(wanted) = program.dozes.filter(|_| fired.contains(&number)) else { continue };
            let completed = u64::from(self.machine.completed(number));
            ensure(completed >= wanted, || {
                format!(
                    "the card woke a program that waits for {wanted} requests, and {completed} are finished"
                )
            })?;
            program.dozes = None;
        }
        Ok(())
    }

    /// Checks that no program sleeps whose requests are finished.
    pub(crate) fn check_dozers(&self) -> Result<(), Violation> {
        for (index, program) in (0..).zip(self.processes.iter().filter_map(|process| process.program())) {
            ensure(program.dozes.is_none(), || {
                let completed = self.machine.completed(program.terminus.number());
                format!(
                    "work has stopped, but host {} program {index} sleeps until {:?} requests are finished: {completed} are",
                    self.id, program.dozes
                )
            })?;
        }
        Ok(())
    }
}
