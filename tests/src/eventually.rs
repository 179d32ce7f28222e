//! Waits for events that are still pending.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// Time after which an event counts as missing. It only bounds a hang, so it is longer than
/// anything takes on a loaded host.
pub const PATIENCE: Duration = Duration::from_secs(600);

/// Waits until a pending event has happened.
pub fn eventually(mut come: impl FnMut() -> Result<bool>, what: &str) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while !come()? {
        if Instant::now() > deadline {
            bail!("still not after {PATIENCE:?}: {what}");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}
