//! Limits the time of a client's turn, and so the time that other clients wait.

use std::time::{Duration, Instant};

/// Duration of a turn: some hundred doorbells, or two dozen commands.
const TURN: Duration = Duration::from_micros(200);

/// The time of one turn.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    /// Time of the first check. A turn that does only one thing reads no clock.
    begun: Option<Instant>,
}

impl Budget {
    pub(crate) fn begin(&mut self) {
        self.begun.get_or_insert_with(Instant::now);
    }

    pub(crate) fn is_spent(&mut self) -> bool {
        let now = Instant::now();
        now.duration_since(*self.begun.get_or_insert(now)) >= TURN
    }
}
