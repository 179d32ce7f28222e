//! Whether stores are reported.
//!
//! Code that reports its stores is slower, so a machine's code does not report while nothing is
//! watched. When something is watched, all code has to be translated again, which takes until the
//! machine's next interrupt. The plugin then sets the live word. When nothing has been watched for
//! a while, it clears the word and goes back to plain code.
//!
//! The card writes what is watched, issues a full barrier, and reads whether the machine is live.
//! The machine clears the live word, issues a full barrier, and reads whether anything is watched;
//! if so, it stays live. So at least one of them sees the other's write. If the card finds the
//! machine live after writing what to watch, it misses no store.

use std::sync::atomic::Ordering;

/// Access to the shared words.
pub(crate) trait Board {
    fn load_watch(&self, ordering: Ordering) -> u64;
    fn load_live(&self, ordering: Ordering) -> u64;
    fn store_live(&self, live: u64, ordering: Ordering);
    /// Orders our earlier store before our next load. The other side does the same with its own.
    fn fence_between_store_and_look(&self);
}

/// Returns whether anything is watched.
pub(crate) fn is_any(watch: u64) -> bool {
    watch & 1 != 0
}

/// Returns whether the machine is live, for the card.
pub(crate) fn is_live(board: &impl Board) -> bool {
    board.fence_between_store_and_look();
    board.load_live(Ordering::Acquire) == 1
}

/// Sets the live word: the machine reports its stores from now on.
pub(crate) fn begin(board: &impl Board) {
    board.store_live(1, Ordering::Release);
}

/// Tries to clear the live word. Returns false if the machine has to stay live, because something
/// is watched.
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
