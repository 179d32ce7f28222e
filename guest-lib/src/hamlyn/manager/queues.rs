//! The notification queues of a manager: one, until its receivers need more entries than that has
//! (section 2.6).

use std::sync::OnceLock;

use hamlyn_abi::hamlyn::notification::HAMLYN_QUEUE_MAX_ENTRIES;

use crate::error::Result;
use crate::hamlyn::attach::QueueWait;
use crate::hamlyn::notification::{Notification, NotificationQueue};

/// The most queues. Each is twice as long as the one before, up to 65,536 entries, so that is
/// enough for any card.
pub(super) const MOST: usize = 64;

/// Queues that are only ever added to, so that who takes notifications needs no lock to find them.
#[derive(Debug)]
pub(super) struct Queues {
    first: NotificationQueue,
    others: [OnceLock<NotificationQueue>; MOST - 1],
}

/// What comes next in each queue. To say so of the first takes no memory, as that is the only one
/// mostly.
#[derive(Debug)]
pub(super) struct Awaited {
    pub(super) first: QueueWait,
    others: Vec<QueueWait>,
}

impl Awaited {
    pub(super) fn iter(&self) -> impl Iterator<Item = &QueueWait> {
        std::iter::once(&self.first).chain(&self.others)
    }
}

impl Queues {
    pub(super) fn new(first: NotificationQueue) -> Self {
        Self { first, others: [const { OnceLock::new() }; MOST - 1] }
    }

    /// How long the next queue should be, if it is to have room for so many more.
    pub(super) fn next_length(last: u32, entries: u32) -> u32 {
        last.saturating_mul(2).max(entries).min(HAMLYN_QUEUE_MAX_ENTRIES)
    }

    /// Adds queue number `index`, from 1, which nobody has added yet.
    pub(super) fn add(&self, index: usize, queue: NotificationQueue) {
        let _ = self.others[index - 1].set(queue);
    }

    pub(super) fn first(&self) -> &NotificationQueue {
        &self.first
    }

    pub(super) fn get(&self, index: usize) -> Option<&NotificationQueue> {
        index.checked_sub(1).map_or(Some(&self.first), |other| self.others.get(other)?.get())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &NotificationQueue> {
        std::iter::once(&self.first).chain(self.others())
    }

    fn others(&self) -> impl Iterator<Item = &NotificationQueue> {
        self.others.iter().map_while(OnceLock::get)
    }

    /// Whether there is more than one.
    #[inline]
    pub(super) fn several(&self) -> bool {
        self.others[0].get().is_some()
    }

    /// The next notification, and the number of its queue. The queues take turns: `turn` is whose
    /// it is.
    #[inline]
    pub(super) fn recv(&self, turn: &mut usize) -> (usize, Result<Option<Notification>>) {
        if self.several() { self.recv_in_turn(turn) } else { (0, self.first.recv()) }
    }

    fn recv_in_turn(&self, turn: &mut usize) -> (usize, Result<Option<Notification>>) {
        let count = self.iter().count();
        for index in (*turn..count).chain(0..(*turn).min(count)) {
            match self.get(index).map(NotificationQueue::recv) {
                None | Some(Ok(None)) => {}
                Some(found) => {
                    *turn = index + 1;
                    return (index, found);
                }
            }
        }
        (0, Ok(None))
    }

    /// Whether a look would find anything. Takes no lock.
    pub(super) fn have_some(&self) -> bool {
        self.iter().any(|queue| !queue.has_nothing())
    }

    /// What comes next, in each.
    pub(super) fn awaited(&self) -> Awaited {
        let others = self.others().map(NotificationQueue::awaited).collect();
        Awaited { first: self.first.awaited(), others }
    }
}
