//! How a receiver waits, and how long.

use std::time::Duration;

use clap::ValueEnum;

/// A peer that is silent for so long is dead.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// How a receiver waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Wait {
    /// Looks without end: no system call, no interrupt
    Poll,
    /// Looks for a while, then yields the processor, and again: where there are more pollers than
    /// cores
    Yield,
    /// Goes to sleep at once
    Sleep,
    /// Looks for a while, then sleeps: the library's default
    Spin,
}
