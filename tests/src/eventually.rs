//! Waits for events that are still pending.

use std::time::Duration;

use anyhow::{Result, bail};

/// Waits until a pending event has happened.
pub fn eventually(mut come: impl FnMut() -> Result<bool>, what: &str) -> Result<()> {
    for _ in 0..1200 {
        if come()? {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    bail!("still not after a minute: {what}")
}
