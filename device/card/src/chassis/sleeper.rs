//! Who sleeps on an object of a card, and how the card wakes them.
//!
//! Driver and card share a word, `armed`, for each object. What the card has to tell is written
//! first, then comes a full barrier, then the look at that word. The driver stores the word, then
//! comes its barrier, then it looks once more for what it wants: at least one of them sees the
//! other.

use hamlyn_abi::family::sleep::{HAMLYN_ARMED_FIRED, HAMLYN_ARMED_NO, HAMLYN_ARMED_YES};

use crate::ports::{Interrupt, Mapped, barrier_before_last_look};

/// Where somebody says that they sleep, and what wakes them.
#[derive(Debug, Clone, Copy)]
pub struct Sleeper {
    armed: u64,
    pending: u64,
    vector: u16,
}

/// What was done about a sleeper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// Nobody sleeps, or not until this.
    Nobody,
    /// An interrupt was pending already, whose handler will find this as well.
    Coalesced,
    /// The vector was raised.
    Interrupted,
}

impl Sleeper {
    /// Somebody who is woken by `vector`. Their `armed` word and the vector's `pending` word are at
    /// these offsets of the window.
    #[must_use]
    pub fn new(armed: u64, pending: u64, vector: u16) -> Self {
        Self { armed, pending, vector }
    }

    /// Nobody sleeps yet.
    pub fn disarm(self, window: Mapped<'_>) {
        window.store(self.armed, HAMLYN_ARMED_NO);
    }

    /// Something is there: interrupts who sleeps.
    #[inline]
    pub fn wake(self, window: Mapped<'_>, interrupt: &dyn Interrupt) -> Wake {
        self.wake_if(window, interrupt, || true)
    }

    /// Something is there: interrupts who sleeps, if it is what they wait for. What they wait for
    /// is looked at behind the word that says that they sleep.
    #[inline]
    pub fn wake_if(
        self,
        window: Mapped<'_>,
        interrupt: &dyn Interrupt,
        wanted: impl FnOnce() -> bool,
    ) -> Wake {
        barrier_before_last_look();
        if window.load(self.armed) == HAMLYN_ARMED_YES && wanted() {
            self.fire(window, interrupt)
        } else {
            Wake::Nobody
        }
    }

    fn fire(self, window: Mapped<'_>, interrupt: &dyn Interrupt) -> Wake {
        window.store(self.armed, HAMLYN_ARMED_FIRED);
        barrier_before_last_look();
        if window.load(self.pending) != 0 {
            return Wake::Coalesced;
        }
        window.store(self.pending, 1);
        interrupt.raise(self.vector);
        Wake::Interrupted
    }
}
