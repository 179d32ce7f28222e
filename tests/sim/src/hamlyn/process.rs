//! A process of a host, honest or hostile.

use crate::hamlyn::correspondent::Correspondent;
use crate::hamlyn::intruder::Intruder;
use crate::hamlyn::program::Program;

/// The intended kind of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// See [`Role::Honest`].
    Honest,
    /// See [`Role::Correspondent`].
    Correspondent,
    /// See [`Role::Hostile`].
    Hostile,
}

/// The actual state of a process.
#[derive(Debug)]
pub(crate) enum Role {
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
