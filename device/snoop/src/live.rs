//! Whether stores are told.
//!
//! Code that tells of its stores is slower, so a machine's code does not while nothing is watched.
//! When something is, all code has to be translated again, which takes until the machine's next
//! interrupt: the plugin then writes that it is live. When nothing has been watched for a while it
//! takes that back, and has bare code again.
//!
//! The card writes what is watched, issues a full barrier, and looks whether the machine is live.
//! The machine writes that it is not, issues a full barrier, and looks whether anything is watched;
//! if so it stays live. So at least one of them sees the other: a card that has seen that the
//! machine is live, after it said what to watch, misses no store.

use std::sync::atomic::Ordering;

/// Access to the shared words.
pub(crate) trait Board {
    fn load_watch(&self, ordering: Ordering) -> u64;
    fn load_live(&self, ordering: Ordering) -> u64;
    fn store_live(&self, live: u64, ordering: Ordering);
    /// Orders our earlier store before our next load. The other side does the same with its own.
    fn fence_between_store_and_look(&self);
}

/// Whether anything is watched.
pub(crate) fn is_any(watch: u64) -> bool {
    watch & 1 != 0
}

/// The card's look.
pub(crate) fn is_live(board: &impl Board) -> bool {
    board.fence_between_store_and_look();
    board.load_live(Ordering::Acquire) == 1
}

/// The machine's stores are told from now on.
pub(crate) fn begin(board: &impl Board) {
    board.store_live(1, Ordering::Release);
}

/// The machine wants to tell no more. False: it has to, as something is watched.
pub(crate) fn end(board: &impl Board) -> bool {
    board.store_live(0, Ordering::Relaxed);
    board.fence_between_store_and_look();
    let may = !is_any(board.load_watch(Ordering::Acquire));
    if !may {
        begin(board);
    }
    may
}

#[cfg(test)]
#[path = "live_loom.rs"]
mod live_loom;
