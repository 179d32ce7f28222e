//! A host: its machine, its way to the switch, and the processes on it.

use std::sync::Arc;

use hamlyn_card_hamlyn::HamlynOptions;

use crate::correspondent::Correspondent;
use crate::machine::Machine;
use crate::process::{Process, Role};
use crate::program::Program;
use crate::rng::Rng;
use crate::system::WellKnown;
use crate::uplink::Uplink;
use crate::violation::Violation;

/// A host.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) id: u16,
    pub(crate) machine: Arc<Machine>,
    pub(crate) uplink: Uplink,
    pub(crate) processes: Vec<Process>,
    /// The host has stopped: no process of it runs, nor its driver.
    pub(crate) stopped: bool,
    /// Nor does its card.
    pub(crate) frozen: bool,
    /// What its driver has left before any process starts: slots, termini, queues and pages.
    pub(crate) baseline: [usize; 4],
    /// Its link has been down.
    pub(crate) was_unplugged: bool,
}

impl Host {
    pub(crate) fn new(
        id: u16,
        options: HamlynOptions,
        rng: &mut Rng,
        well_known: Option<WellKnown>,
    ) -> Result<Self, Violation> {
        let machine = Arc::new(Machine::new(id, options, rng, well_known)?);
        Ok(Self {
            id,
            machine,
            uplink: Uplink::new(id),
            processes: Vec::new(),
            stopped: false,
            frozen: false,
            baseline: [0; 4],
            was_unplugged: false,
        })
    }

    /// An honest process that lives.
    pub(crate) fn program(&self, process: usize) -> Option<&Program> {
        self.processes.get(process).and_then(Process::program)
    }

    pub(crate) fn program_mut(&mut self, process: usize) -> Option<&mut Program> {
        self.processes.get_mut(process).and_then(Process::program_mut)
    }

    /// A process of the library's upper layer that lives.
    pub(crate) fn correspondent(&self, process: usize) -> Option<&Correspondent> {
        self.processes.get(process).and_then(Process::correspondent)
    }

    pub(crate) fn correspondent_mut(&mut self, process: usize) -> Option<&mut Correspondent> {
        self.processes.get_mut(process).and_then(Process::correspondent_mut)
    }

    /// The process and terminus of a fetch-and-op: the honest one that asked, else the hostile one.
    pub(crate) fn asker(&self, record: Option<usize>) -> Option<(u64, u32)> {
        self.processes.iter().find_map(|process| match (&process.role, record) {
            (Role::Honest(program), Some(record)) => {
                program.asks(record).then(|| (process.pid, program.terminus.number()))
            }
            (Role::Hostile(intruder), None) => Some((process.pid, intruder.terminus)),
            _ => None,
        })
    }

    /// Handles interrupts, and wakes whose queues fired. Returns whether there was an interrupt, or something else for the
    /// operating system.
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
        }
        self.wake_senders(&fired.termini)?;
        Ok(true)
    }
}
