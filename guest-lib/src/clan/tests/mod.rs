//! Integration tests on a fake network, whose cards are played by a thread.

mod connections;
mod endpoints;
mod events;
mod programs;
mod tripwires;

use std::time::Duration;

/// Timeout for events that must occur.
const PATIENCE: Duration = Duration::from_secs(60);
/// Timeout for events that must not occur.
const HASTE: Duration = Duration::from_millis(5);
