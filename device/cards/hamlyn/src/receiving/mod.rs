//! The receiving half of the card: slots, notification queues, and what is done with a packet for
//! them.
//!
//! It does not use termini. Its callers pass in the counters, the words that are shared with the
//! driver, and the ports.

mod admission;
mod command;
mod delivery;
mod fetch;
mod metadata;
mod notification;
mod slot;

use hamlyn_card::chassis::table::Table;

use self::notification::Nqcb;
use self::slot::Slot;

/// The receiving half.
#[derive(Debug)]
pub(super) struct Receiving {
    slots: Table<Slot>,
    queues: Table<Nqcb>,
}

impl Receiving {
    pub(super) fn new(slots: u32, queues: u32) -> Self {
        Self { slots: Table::new(slots), queues: Table::new(queues) }
    }

    pub(super) fn reset(&mut self) {
        self.slots.close_all();
        self.queues.close_all();
    }

    /// Returns the number of slots, open or not.
    pub(super) fn slots(&self) -> u64 {
        self.slots.len() as u64
    }
}
