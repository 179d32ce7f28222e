//! The processes of a host, how they end and sleep, and the interrupts of its card.

use crate::engine::violation::{Violation, ensure};
use crate::hamlyn::correspondent::Correspondent;
use crate::hamlyn::process::{Process, Role};
use crate::hamlyn::program::Program;
use crate::hamlyn::world::Host;

impl Host {
    /// Returns an honest process that is alive.
    pub(super) fn program(&self, process: usize) -> Option<&Program> {
        self.processes.get(process).and_then(Process::program)
    }

    pub(super) fn program_mut(&mut self, process: usize) -> Option<&mut Program> {
        self.processes.get_mut(process).and_then(Process::program_mut)
    }

    /// Returns a live process of the library's upper layer.
    pub(super) fn correspondent(&self, process: usize) -> Option<&Correspondent> {
        self.processes.get(process).and_then(Process::correspondent)
    }

    pub(super) fn correspondent_mut(&mut self, process: usize) -> Option<&mut Correspondent> {
        self.processes.get_mut(process).and_then(Process::correspondent_mut)
    }

    /// Returns the process and terminus of a fetch-and-op: those of the honest process that asked,
    /// or else of the hostile one.
    pub(super) fn asker(&self, record: Option<usize>) -> Option<(u64, u32)> {
        self.processes.iter().find_map(|process| match (&process.role, record) {
            (Role::Honest(program), Some(record)) => {
                program.outlet.asks(record).then(|| (process.pid, program.outlet.terminus().number()))
            }
            (Role::Hostile(intruder), None) => Some((process.pid, intruder.terminus)),
            _ => None,
        })
    }

    /// Handles interrupts, and wakes the processes whose queues fired. Returns whether there was an
    /// interrupt, or other work for the operating system.
    pub(super) fn handle_interrupts(&mut self) -> Result<bool, Violation> {
        let handled = self.machine.handle_interrupts();
        let queues = handled.as_ref().map(|fired| fired.queues.as_slice());
        let looked = self.machine.look(queues.unwrap_or_default())?;
        let Some(fired) = handled else { return Ok(looked) };
        for process in &mut self.processes {
            let queue = process.program().map(|program| program.queue.number());
            if queue.is_some_and(|queue| fired.queues.contains(&queue)) {
                process.asleep = false;
            }
            process.correspondent_mut().into_iter().for_each(|program| program.wake(&fired.queues));
        }
        self.wake_senders(&fired.termini)?;
        Ok(true)
    }

    /// Wakes the programs whose termini fired. The requests that each waited for must be finished.
    fn wake_senders(&mut self, fired: &[u32]) -> Result<(), Violation> {
        for process in &mut self.processes {
            let Some(program) = process.program_mut() else { continue };
            let number = program.outlet.terminus().number();
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
    pub(super) fn check_dozers(&self) -> Result<(), Violation> {
        for (index, program) in (0..).zip(self.processes.iter().filter_map(|process| process.program())) {
            ensure(program.dozes.is_none(), || {
                let completed = self.machine.completed(program.outlet.terminus().number());
                format!(
                    "work has stopped, but host {} program {index} sleeps until {:?} requests are finished: {completed} are",
                    self.id, program.dozes
                )
            })?;
        }
        Ok(())
    }

    /// Ends a process. If `orderly`, the process itself frees all its objects; otherwise the driver
    /// does.
    pub(super) fn kill(&mut self, index: usize, orderly: bool) -> Result<(), Violation> {
        let Process { pid, role, asleep, .. } = &mut self.processes[index];
        *asleep = false;
        let role = std::mem::replace(role, Role::Dead);
        if !orderly {
            self.machine.tables().killed.insert(*pid);
            if let Role::Correspondent(program) = &role {
                program.says_nothing();
            }
        }
        if !orderly || matches!(role, Role::Hostile(_)) {
            self.machine.release(*pid)?;
        }
        match role {
            Role::Honest(program) => drop(program),
            Role::Correspondent(program) => drop(program),
            Role::Hostile(intruder) => intruder.free(&self.machine),
            Role::Dead => {}
        }
        ensure(!self.machine.tables().has_any_of(*pid), || {
            format!("host {}: process {index} has ended and left something open", self.id)
        })
    }
}
