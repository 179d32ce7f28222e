//! The notification queues of a manager: one, until its receivers need more entries than that has (section 2.6).

use std::sync::OnceLock;

use hamlyn_abi::hamlyn::notification::HAMLYN_QUEUE_MAX_ENTRIES;

use crate::error::Result;
use crate::hamlyn::attach::QueueWait;
use crate::hamlyn::notification::{Notification, NotificationQueue};

/// The most queues. Each is twice as long as the one before, up to 65,536 entries, so that is enough for any card.
pub(super) const MOST: usize = 64;

/// Queues that are only ever added to, so that who takes notifications needs no lock to find them.
#[derive(Debug)]
pub(super) struct Queues([OnceLock<NotificationQueue>; MOST]);

impl Queues {
    pub(super) fn new(first: NotificationQueue) -> Self {
        let queues = Self([const { OnceLock::new() }; MOST]);
        let _ = queues.0[0].set(first);
        queues
    }

    /// How long the next queue should be, if it is to have room for so many more.
    pub(super) fn next_length(last: u32, entries: u32) -> u32 {
        last.saturating_mul(2).max(entries).min(HAMLYN_QUEUE_MAX_ENTRIES)
    }

    /// Adds queue number `index`, which nobody has added yet.
    pub(super) fn add(&self, index: usize, queue: NotificationQueue) {
        let _ = self.0[index].set(queue);
    }

    pub(super) fn get(&self, index: usize) -> Option<&NotificationQueue> {
        self.0.get(index)?.get()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &NotificationQueue> {
        self.0.iter().map_while(OnceLock::get)
    }

    /// Whether there is more than one.
    #[inline]
    pub(super) fn several(&self) -> bool {
        self.0[1].get().is_some()
    }

    /// The next notification, and the number of its queue. The queues take turns: `turn` is whose it is.
    #[inline]
    pub(super) fn recv(&self, turn: &mut usize) -> (usize, Result<Option<Notification>>) {
        match self.get(0) {
            Some(only) if !self.several() => (0, only.recv()),
            _ => self.recv_in_turn(turn),
        }
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
    pub(super) fn awaited(&self) -> Vec<QueueWait> {
        self.iter().map(NotificationQueue::awaited).collect()
    }
}
