//! The state of a send buffer's last deliberate update.

use hamlyn_abi::shrimp::memory::{SHRIMP_BASE, SHRIMP_LEFT, SHRIMP_MAX_WAITING};

/// The last transfer that was started. All transfers before it are done: the engine was free when
/// this one was started.
#[derive(Debug, Default)]
pub(super) struct Transfer {
    /// Its base, while it is not known to be done.
    base: Option<usize>,
    /// Sequence number of the transfer.
    number: u64,
    /// The engine was seen working on it.
    was_seen: bool,
    /// Words left of another's transfer at the last poll, and the number of other transfers seen.
    left: u32,
    others: u32,
}

impl Transfer {
    pub(super) fn started(&mut self, base: usize) {
        *self = Self { base: Some(base), number: self.number + 1, ..Self::default() };
    }

    /// Returns the base and the sequence number, unless the transfer is known to be done.
    pub(super) fn pending(&self) -> Option<(usize, u64)> {
        Some((self.base?, self.number))
    }

    /// Processes the engine's answer at the transfer's base, and returns whether the transfer is
    /// done.
    ///
    /// If two processors saw a free engine at the same time, their transfers are queued. So another
    /// transfer may be ahead of this one, or behind it. At most [`SHRIMP_MAX_WAITING`] are ahead.
    pub(super) fn is_done(&mut self, answer: u32) -> bool {
        let left = answer & SHRIMP_LEFT;
        let done = if answer == 0 {
            true
        } else if answer & SHRIMP_BASE != 0 {
            self.was_seen = true;
            false
        } else {
            // The words left of one transfer only decrease, so an increase means the next transfer.
            self.others += u32::from(left > self.left || self.others == 0);
            self.left = left;
            self.was_seen || self.others > SHRIMP_MAX_WAITING
        };
        if done {
            self.base = None;
        }
        done
    }
}
