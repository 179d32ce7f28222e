//! Tests of the parts together, by a net of cards that a thread plays.

mod connections;
mod endpoints;
mod events;
mod programs;
mod tripwires;

use std::time::Duration;

/// How long a test waits for what is sure to come.
const PATIENCE: Option<Duration> = Some(Duration::from_secs(60));
/// How long it waits for what does not come.
const HASTE: Option<Duration> = Some(Duration::from_millis(5));
