//! The state of a send buffer's last deliberate update.

use hamlyn_abi::shrimp::memory::{SHRIMP_BASE, SHRIMP_WAITS};

/// The last transfer that was started. All transfers before it are done: the engine was free when
/// this one was started.
#[derive(Debug, Default)]
pub(super) struct Transfer {
    /// Its base, while it is not known to be done.
    base: Option<usize>,
    /// Sequence number of the transfer.
    number: u64,
}

impl Transfer {
    pub(super) fn started(&mut self, base: usize) {
        *self = Self { base: Some(base), number: self.number + 1 };
    }

    /// Returns the base and the sequence number, unless the transfer is known to be done.
    pub(super) fn pending(&self) -> Option<(usize, u64)> {
        Some((self.base?, self.number))
    }

    /// Processes the engine's answer at the transfer's base, and returns whether the transfer is
    /// done.
    pub(super) fn is_done(&mut self, answer: u32) -> bool {
        let done = is_done(answer);
        if done {
            self.base = None;
        }
        done
    }
}

/// Returns whether a transfer is done, from the engine's answer at its base. If two processors saw
/// a free engine at the same time, their transfers are queued: it may be under way, or wait.
pub(super) fn is_done(answer: u32) -> bool {
    answer & (SHRIMP_BASE | SHRIMP_WAITS) == 0
}
