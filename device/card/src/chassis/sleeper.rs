//! Waiters that sleep on a card's objects, and how the card wakes them.
//!
//! Driver and card share a word, `armed`, for each object. The card first writes its data, then
//! issues a full barrier, then reads `armed`. The driver stores `armed`, issues its barrier, then
//! checks for data once more. At least one of them sees the other's store.

use hamlyn_abi::family::sleep::{ULN_ARMED_FIRED, ULN_ARMED_NO, ULN_ARMED_YES};

use crate::ports::{Interrupt, Mapped, barrier_before_last_look};

/// The words of one waiter, and the vector that wakes it.
#[derive(Debug, Clone, Copy)]
pub struct Sleeper {
    armed: u64,
    pending: u64,
    vector: u16,
}

/// Result of a wake-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// No waiter sleeps, or its condition is not met.
    NotAsleep,
    /// An interrupt was already pending, whose handler will also find this.
    Coalesced,
    /// The vector was raised.
    Interrupted,
}

impl Sleeper {
    /// Creates a waiter that `vector` wakes. `armed` and `pending` are the offsets in the window of
    /// its `armed` word and of the vector's `pending` word.
    #[must_use]
    pub fn new(armed: u64, pending: u64, vector: u16) -> Self {
        Self { armed, pending, vector }
    }

    /// Marks the waiter as not sleeping.
    pub fn disarm(self, window: Mapped<'_>) {
        window.store(self.armed, ULN_ARMED_NO);
    }

    /// Interrupts the waiter if it sleeps. Call this after publishing the data.
    #[inline]
    pub fn wake(self, window: Mapped<'_>, interrupt: &dyn Interrupt) -> Wake {
        self.wake_if(window, interrupt, || true)
    }

    /// Interrupts the waiter if it sleeps and `wanted` returns true. `wanted` is called after the
    /// `armed` word was read.
    #[inline]
    pub fn wake_if(
        self,
        window: Mapped<'_>,
        interrupt: &dyn Interrupt,
        wanted: impl FnOnce() -> bool,
    ) -> Wake {
        barrier_before_last_look();
        if window.load(self.armed) == ULN_ARMED_YES && wanted() {
            self.fire(window, interrupt)
        } else {
            Wake::NotAsleep
        }
    }

    fn fire(self, window: Mapped<'_>, interrupt: &dyn Interrupt) -> Wake {
        window.store(self.armed, ULN_ARMED_FIRED);
        barrier_before_last_look();
        if window.load(self.pending) != 0 {
            return Wake::Coalesced;
        }
        window.store(self.pending, 1);
        interrupt.raise(self.vector);
        Wake::Interrupted
    }
}
