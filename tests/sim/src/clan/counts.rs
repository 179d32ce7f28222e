//! Words in flight, counted at both ends.

/// Words that a host has sent to another.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Spent {
    pub(super) epoch: u16,
    pub(super) words: u64,
    /// Limit of the count.
    pub(super) allowed: u64,
}

/// Words that have come from a host.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Come {
    pub(super) epoch: u16,
    pub(super) words: u64,
    /// Limit of the count that was granted to the host.
    pub(super) granted: u64,
    /// Its last question that was not answered: the count in it, and the number of words before it
    /// that are missing.
    pub(super) asked: Option<(u64, u64)>,
}

impl Come {
    pub(super) fn begin(self, epoch: u16, window: u64) -> Self {
        if self.granted > 0 && self.epoch == epoch {
            self
        } else {
            Self { epoch, granted: window, ..Self::default() }
        }
    }
}
