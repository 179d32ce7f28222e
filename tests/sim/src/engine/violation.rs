//! The error that a simulation reports.

use std::fmt::Display;

use thiserror::Error;

/// An event or state that must not occur.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct Violation(String);

impl Violation {
    /// Creates a violation from its description.
    pub fn new(what: impl Display) -> Self {
        Self(what.to_string())
    }
}

/// Returns a violation if the condition does not hold.
pub(crate) fn ensure<D: Display>(holds: bool, what: impl FnOnce() -> D) -> Result<(), Violation> {
    if holds { Ok(()) } else { Err(Violation::new(what())) }
}
