//! What is known of a descriptor's flags.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::foreign;

/// What is known of `O_NONBLOCK`. The bits above count changes.
const KNOWN: u32 = 3;
const UNKNOWN: u32 = 0;
const WAITS: u32 = 1;
const NEVER: u32 = 2;

#[derive(Debug, Default)]
pub(super) struct Flags(AtomicU32);

impl Flags {
    /// Whether the descriptor has `O_NONBLOCK`. The kernel is asked once after each change.
    pub(super) fn must_not_wait(&self, fd: RawFd) -> bool {
        let known = self.0.load(Ordering::SeqCst);
        if known & KNOWN != UNKNOWN {
            return known & KNOWN == NEVER;
        }
        let must_not = foreign::is_nonblocking(fd);
        let learnt = known | if must_not { NEVER } else { WAITS };
        // Fails if the flags have changed meanwhile: the next call asks again.
        let _ = self.0.compare_exchange(known, learnt, Ordering::SeqCst, Ordering::SeqCst);
        must_not
    }

    /// The program has changed the flags.
    pub(super) fn change(&self) {
        let change = |flags: u32| Some((flags | KNOWN).wrapping_add(1));
        let _ = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, change);
    }
}
