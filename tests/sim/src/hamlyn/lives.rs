//! Starting and ending processes.

use crate::engine::rng::Rng;
use crate::engine::violation::{Violation, ensure};
use crate::hamlyn::correspondent::Correspondent;
use crate::hamlyn::intruder::Intruder;
use crate::hamlyn::process::{Kind, Process, Role};
use crate::hamlyn::program::{Offer, Program};
use crate::hamlyn::world::{Host, World};

/// Maximum number of pages of a process.
const MOST_PAGES: usize = 52;

impl World {
    /// Starts the processes of a host.
    pub(crate) fn populate(&mut self, host: usize) -> Result<(), Violation> {
        for _ in 0..self.model.scenario.processes {
            self.start_process(host, Kind::Honest, None)?;
        }
        if self.model.scenario.streams || self.model.scenario.connections {
            self.start_process(host, Kind::Correspondent, None)?;
        }
        if self.model.scenario.forgers && self.rng.percent(60) {
            self.start_process(host, Kind::Hostile, None)?;
        }
        Ok(())
    }

    /// Starts a process, in place of a dead one if one is given.
    pub(crate) fn start_process(
        &mut self,
        host: usize,
        kind: Kind,
        instead_of: Option<usize>,
    ) -> Result<(), Violation> {
        let pid = self.model.next_pid;
        self.model.next_pid += 1;
        let at = &mut self.hosts[host];
        let Some((process, offer)) = at.spawn(&mut self.rng, pid, kind)? else { return Ok(()) };
        match instead_of {
            Some(index) => at.processes[index] = process,
            None => at.processes.push(process),
        }
        self.model.ledger.places.extend(offer.places);
        self.model.fetches.words.extend(offer.words);
        Ok(())
    }
}

impl Host {
    /// Starts a process. Returns `None` if the host has no room. The offer is for all other
    /// processes.
    pub(crate) fn spawn(
        &mut self,
        rng: &mut Rng,
        pid: u64,
        kind: Kind,
    ) -> Result<Option<(Process, Offer)>, Violation> {
        if !self.machine.tables().have_room(MOST_PAGES) {
            return Ok(None);
        }
        let (role, offer) = match kind {
            Kind::Hostile => {
                let Some(intruder) = Intruder::start(&self.machine, rng, pid)? else { return Ok(None) };
                (Role::Hostile(intruder), Offer::default())
            }
            Kind::Honest => {
                let (program, offer) = Program::start(&self.machine, rng, pid).map_err(Violation::new)?;
                (Role::Honest(Box::new(program)), offer)
            }
            Kind::Correspondent => {
                let program = Correspondent::start(&self.machine, pid).map_err(Violation::new)?;
                (Role::Correspondent(Box::new(program)), Offer::default())
            }
        };
        let process = Process { pid, kind, role, asleep: false, slow_until: 0 };
        Ok(Some((process, offer)))
    }

    /// Ends a process. If `orderly`, the process itself frees all its objects; otherwise the driver
    /// does.
    pub(crate) fn kill(&mut self, index: usize, orderly: bool) -> Result<(), Violation> {
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
