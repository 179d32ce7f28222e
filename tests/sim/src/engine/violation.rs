//! What a simulation finds.

use std::fmt::Display;

use thiserror::Error;

/// Something that must not happen.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct Violation(String);

impl Violation {
    /// A violation, in words.
    pub fn new(what: impl Display) -> Self {
        Self(what.to_string())
    }
}

/// Makes a violation of a condition that does not hold.
pub(crate) fn ensure<D: Display>(holds: bool, what: impl FnOnce() -> D) -> Result<(), Violation> {
    if holds { Ok(()) } else { Err(Violation::new(what())) }
}
