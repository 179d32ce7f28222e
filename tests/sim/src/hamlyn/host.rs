//! The processes of a host, and the interrupts of its card.

use crate::engine::violation::Violation;
use crate::hamlyn::correspondent::Correspondent;
use crate::hamlyn::process::{Process, Role};
use crate::hamlyn::program::Program;
use crate::hamlyn::world::Host;

impl Host {
    /// Returns an honest process that is alive.
    pub(crate) fn program(&self, process: usize) -> Option<&Program> {
        self.processes.get(process).and_then(Process::program)
    }

    pub(crate) fn program_mut(&mut self, process: usize) -> Option<&mut Program> {
        self.processes.get_mut(process).and_then(Process::program_mut)
    }

    /// Returns a live process of the library's upper layer.
    pub(crate) fn correspondent(&self, process: usize) -> Option<&Correspondent> {
        self.processes.get(process).and_then(Process::correspondent)
    }

    pub(crate) fn correspondent_mut(&mut self, process: usize) -> Option<&mut Correspondent> {
        self.processes.get_mut(process).and_then(Process::correspondent_mut)
    }

    /// Returns the process and terminus of a fetch-and-op: those of the honest process that asked,
    /// or else of the hostile one.
    pub(crate) fn asker(&self, record: Option<usize>) -> Option<(u64, u32)> {
        self.processes.iter().find_map(|process| match (&process.role, record) {
            (Role::Honest(program), Some(record)) => {
                program.asks(record).then(|| (process.pid, program.terminus.number()))
            }
            (Role::Hostile(intruder), None) => Some((process.pid, intruder.terminus)),
            _ => None,
        })
    }

    /// Handles interrupts, and wakes the processes whose queues fired. Returns whether there was an
    /// interrupt, or other work for the operating system.
    pub(crate) fn handle_interrupts(&mut self) -> Result<bool, Violation> {
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
}
