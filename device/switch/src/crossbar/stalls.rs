//! Detection of cards that accept nothing while others wait for them.

use std::time::Duration;

use crate::output::Output;
use crate::refusal::Lost;

/// Number of checks of each output within the time-out. A switch that was itself stopped for a
/// while checks only once when it resumes, so the cards are not penalized.
const LOOKS: u32 = 8;

/// How long a card may accept nothing, and when it is checked next.
#[derive(Debug, Clone, Copy)]
pub(super) struct StallCheck {
    timeout: Duration,
    next: Duration,
}

impl StallCheck {
    pub(super) fn new(timeout: Duration) -> StallCheck {
        StallCheck { timeout, next: Duration::ZERO }
    }

    /// Returns the time between two checks.
    pub(super) fn interval(&self) -> Duration {
        self.timeout / LOOKS
    }

    /// Returns whether the next check is due.
    pub(super) fn is_due(&mut self, now: Duration) -> bool {
        let due = now >= self.next;
        if due {
            self.next = now + self.interval();
        }
        due
    }

    /// Checks an output's card, which must take `demand` bytes within the time-out if packets wait
    /// for it. Returns why it must be detached.
    pub(super) fn check(&self, output: &mut Output, demand: Option<u64>) -> Option<Lost> {
        match output.is_stuck(LOOKS, demand) {
            Ok(is_stuck) => is_stuck.then_some(Lost::Stalled(self.timeout)),
            Err(error) => Some(Lost::Corrupt(error)),
        }
    }
}
