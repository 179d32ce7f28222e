//! A process of a host, honest or hostile.

use crate::hamlyn::correspondent::Correspondent;
use crate::hamlyn::intruder::Intruder;
use crate::hamlyn::program::Program;

/// The intended kind of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// See [`Role::Honest`].
    Honest,
    /// See [`Role::Correspondent`].
    Correspondent,
    /// See [`Role::Hostile`].
    Hostile,
}

/// The actual state of a process.
#[derive(Debug)]
pub(super) enum Role {
    /// It uses only the library.
    Honest(Box<Program>),
    /// It has streams, connections and channels, and nothing else.
    Correspondent(Box<Correspondent>),
    /// It forges requests, gives its keys away and scribbles on its metadata.
    Hostile(Intruder),
    /// It has ended.
    Dead,
}

/// A process.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) pid: u64,
    pub(super) kind: Kind,
    pub(super) role: Role,
    pub(super) asleep: bool,
    /// It does not look at its queue before this step.
    pub(super) slow_until: u64,
}

impl Process {
    pub(super) fn is_alive(&self) -> bool {
        !matches!(self.role, Role::Dead)
    }

    pub(super) fn program(&self) -> Option<&Program> {
        if let Role::Honest(program) = &self.role { Some(program) } else { None }
    }

    pub(super) fn program_mut(&mut self) -> Option<&mut Program> {
        if let Role::Honest(program) = &mut self.role { Some(program) } else { None }
    }

    pub(super) fn correspondent(&self) -> Option<&Correspondent> {
        if let Role::Correspondent(program) = &self.role { Some(program) } else { None }
    }

    pub(super) fn correspondent_mut(&mut self) -> Option<&mut Correspondent> {
        if let Role::Correspondent(program) = &mut self.role { Some(program) } else { None }
    }
}
