//! How a receiver waits, and how long.

use std::time::Duration;

use clap::ValueEnum;

/// A peer that is silent for this long counts as dead.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// How a receiver waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Wait {
    /// Polls without end: no system call, no interrupt
    Poll,
    /// Polls for a while, then yields the processor, and repeats: for more pollers than cores
    Yield,
    /// Sleeps at once
    Sleep,
    /// Polls for a while, then sleeps: the library's default
    Spin,
}
