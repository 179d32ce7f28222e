//! A process of a host, honest or hostile: its beginning and its end.

use crate::correspondent::Correspondent;
use crate::host::Host;
use crate::intruder::Intruder;
use crate::program::{Offer, Program};
use crate::rng::Rng;
use crate::violation::{Violation, ensure};

/// Pages that a process takes at most.
const MOST_PAGES: usize = 52;

/// What a process is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// See [`Role::Honest`].
    Honest,
    /// See [`Role::Correspondent`].
    Correspondent,
    /// See [`Role::Hostile`].
    Hostile,
}

/// What a process is.
#[derive(Debug)]
pub(crate) enum Role {
    /// It keeps to what the library offers.
    Honest(Box<Program>),
    /// It has streams, and nothing else.
    Correspondent(Box<Correspondent>),
    /// It forges requests, gives its keys away and scribbles on its metadata.
    Hostile(Intruder),
    /// It is no more.
    Dead,
}

/// A process.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) pid: u64,
    pub(crate) kind: Kind,
    pub(crate) role: Role,
    pub(crate) asleep: bool,
    /// It does not look at its queue before this step.
    pub(crate) slow_until: u64,
}

impl Process {
    pub(crate) fn is_alive(&self) -> bool {
        !matches!(self.role, Role::Dead)
    }

    pub(crate) fn program(&self) -> Option<&Program> {
        if let Role::Honest(program) = &self.role { Some(program) } else { None }
    }

    pub(crate) fn program_mut(&mut self) -> Option<&mut Program> {
        if let Role::Honest(program) = &mut self.role { Some(program) } else { None }
    }

    pub(crate) fn correspondent(&self) -> Option<&Correspondent> {
        if let Role::Correspondent(program) = &self.role { Some(program) } else { None }
    }

    pub(crate) fn correspondent_mut(&mut self) -> Option<&mut Correspondent> {
        if let Role::Correspondent(program) = &mut self.role { Some(program) } else { None }
    }
}

impl Host {
    /// Starts a process; `None` if the host has no room. The offer is for all others.
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

    /// Ends a process. `orderly`: it gives back all that it has itself; else the driver takes it.
    pub(crate) fn kill(&mut self, index: usize, orderly: bool) -> Result<(), Violation> {
        let Process { pid, role, asleep, .. } = &mut self.processes[index];
        *asleep = false;
        let role = std::mem::replace(role, Role::Dead);
        if let (false, Role::Correspondent(program)) = (orderly, &role) {
            program.says_nothing();
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
