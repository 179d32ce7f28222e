//! The recent events of a run, which a report shows.

use std::collections::VecDeque;

/// Number of events that a report shows.
const EVENTS: usize = 40;

/// The last events.
#[derive(Debug, Default)]
pub(crate) struct Events(VecDeque<String>);

impl Events {
    /// Records an event of a step.
    pub(crate) fn note(&mut self, step: u64, what: impl FnOnce() -> String) {
        if self.0.len() == EVENTS {
            self.0.pop_front();
        }
        self.0.push_back(format!("{step}: {}", what()));
    }

    pub(crate) fn take(&mut self) -> Vec<String> {
        self.0.drain(..).collect()
    }
}
