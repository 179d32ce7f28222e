//! The handshake timer (section 2.8): a card whose host has stopped discards what arrives, so that
//! the fabric stays live.

use std::time::Duration;

/// Runs while the card is enabled, unless the card was built without one.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Handshake {
    period: Option<Duration>,
    /// When it runs out.
    deadline: Option<Duration>,
}

impl Handshake {
    /// A timer that does not run yet. A period of 0: it never will.
    pub(super) fn new(period_ms: u32) -> Self {
        let period = (period_ms != 0).then(|| Duration::from_millis(period_ms.into()));
        Self { period, deadline: None }
    }

    /// The host is there: a whole period is left.
    pub(super) fn restart(&mut self, now: Duration) {
        self.deadline = self.period.map(|period| now + period);
    }

    pub(super) fn stop(&mut self) {
        self.deadline = None;
    }

    pub(super) fn deadline(&self) -> Option<Duration> {
        self.deadline
    }

    /// Whether the host failed to restart it in time.
    pub(super) fn has_lapsed(&self, now: Duration) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= now)
    }
}
