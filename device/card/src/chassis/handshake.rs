//! The handshake timer (section 2.8): a card whose host has stopped discards incoming packets, so
//! that the fabric stays live.

use std::time::Duration;

/// Runs while the card is enabled, unless the card was built without a timer.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Handshake {
    period: Option<Duration>,
    /// When the timer expires.
    deadline: Option<Duration>,
}

impl Handshake {
    /// Creates a stopped timer. With a period of 0 it never runs.
    pub(super) fn new(period_ms: u32) -> Self {
        let period = (period_ms != 0).then(|| Duration::from_millis(period_ms.into()));
        Self { period, deadline: None }
    }

    /// Restarts the timer with a full period.
    pub(super) fn restart(&mut self, now: Duration) {
        self.deadline = self.period.map(|period| now + period);
    }

    pub(super) fn stop(&mut self) {
        self.deadline = None;
    }

    pub(super) fn deadline(&self) -> Option<Duration> {
        self.deadline
    }

    /// Whether the host failed to restart the timer in time.
    pub(super) fn has_lapsed(&self, now: Duration) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= now)
    }
}
