//! How long one client may keep the others waiting: its turns are bounded in time.

use std::time::{Duration, Instant};

/// Of one turn: some hundred doorbells, or two dozen commands.
const TURN: Duration = Duration::from_micros(200);

/// The time of one turn.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    /// The first time that somebody asked: a turn that does one thing looks at no clock.
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
