//! The notification queues of a manager: one, until its receivers need more entries than it has
//! (section 2.6).

use std::sync::OnceLock;

use hamlyn_abi::hamlyn::notification::HAMLYN_QUEUE_MAX_ENTRIES;

use crate::error::Result;
use crate::hamlyn::attach::QueueWait;
use crate::hamlyn::notification::{Notification, NotificationQueue};

/// Maximum number of queues. Each is twice as long as the previous one, up to 65,536 entries, so
/// that this is enough for any card.
pub(super) const MOST: usize = 64;

/// The queues. Queues are only ever added, so that a thread taking notifications finds them without
/// a lock.
#[derive(Debug)]
pub(super) struct Queues {
    first: NotificationQueue,
    others: [OnceLock<NotificationQueue>; MOST - 1],
}

/// The next position in each queue. The first is stored without allocation, because it is usually
/// the only one.
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

    /// Returns the length of the next queue if it must have room for this number of entries.
    pub(super) fn next_length(last: u32, entries: u32) -> u32 {
        last.saturating_mul(2).max(entries).min(HAMLYN_QUEUE_MAX_ENTRIES)
    }

    /// Adds queue number `index`, from 1. It must not have been added before.
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

    /// Returns true if there is more than one queue.
    #[inline]
    pub(super) fn several(&self) -> bool {
        self.others[0].get().is_some()
    }

    /// Returns the next notification, and the number of its queue. The queues take turns; `turn` is
    /// the queue whose turn it is.
    #[inline]
    pub(super) fn recv(&self, turn: &mut usize) -> (usize, Result<Option<Notification>>) {
        if self.several() { self.recv_in_turn(turn) } else { (0, self.first.try_recv()) }
    }

    fn recv_in_turn(&self, turn: &mut usize) -> (usize, Result<Option<Notification>>) {
        let count = self.iter().count();
        for index in (*turn..count).chain(0..(*turn).min(count)) {
            match self.get(index).map(NotificationQueue::try_recv) {
                None | Some(Ok(None)) => {}
                Some(found) => {
                    *turn = index + 1;
                    return (index, found);
                }
            }
        }
        (0, Ok(None))
    }

    /// Returns true if any queue has a notification. Takes no lock.
    pub(super) fn have_some(&self) -> bool {
        self.iter().any(|queue| !queue.has_nothing())
    }

    /// Returns the next position in each queue.
    pub(super) fn awaited(&self) -> Awaited {
        let others = self.others().map(NotificationQueue::awaited).collect();
        Awaited { first: self.first.awaited(), others }
    }
}
