//! Simulated time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hamlyn_card::ports::Clock;

/// A card's clock. The world sets it, in milliseconds.
#[derive(Debug, Default)]
pub(crate) struct SimClock(AtomicU64);

impl SimClock {
    pub(crate) fn set(&self, milliseconds: u64) {
        self.0.store(milliseconds, Ordering::Relaxed);
    }

    pub(crate) fn milliseconds(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Clock for SimClock {
    fn now(&self) -> Duration {
        Duration::from_millis(self.milliseconds())
    }
}
