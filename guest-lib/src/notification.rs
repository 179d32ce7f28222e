//! Notification queues: how a process learns of messages (section 2.6).

use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hamlyn_abi::hamlyn::notification::{HAMLYN_NOTIFICATION_FAST, HamlynNotification};
use hamlyn_abi::uapi::HamlynQueueWait;

use crate::attach::{Attachment, QueueParts};
use crate::error::{Error, Result};
use crate::polling::Polling;

/// One arrived message (Table 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Notification {
    /// The slot that it arrived in.
    pub slot: u32,
    /// The number that the slot's owner gave the slot.
    pub notification_index: u32,
    /// How it arrived.
    pub arrival: Arrival,
}

/// What a notification carries besides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// A message with a metadata entry, at this place: [`crate::Slot::entry_of`] turns it into an index.
    Metadata(u64),
    /// A fast-mode message, with its word (section 2.7).
    Fast(u32),
}

impl From<HamlynNotification> for Notification {
    fn from(entry: HamlynNotification) -> Self {
        let fast = entry.wrap & HAMLYN_NOTIFICATION_FAST != 0;
        let arrival =
            if fast { Arrival::Fast(entry.metadata as u32) } else { Arrival::Metadata(entry.metadata) };
        Self { slot: entry.slot, notification_index: entry.notification_index, arrival }
    }
}

/// A circular queue that the card alone writes and the process alone reads, with a cursor and wrap flag each.
///
/// Cheap to clone; clones share the cursor, and each notification goes to one of them. The queue is destroyed when
/// its last clone and the last slot that names it are dropped.
///
/// A queue that is shorter than the messages that may be under way is overrun: older entries are lost (section 2.6).
#[derive(Debug, Clone)]
pub struct NotificationQueue {
    inner: Arc<QueueInner>,
}

#[derive(Debug)]
struct QueueInner {
    attachment: Arc<dyn Attachment>,
    parts: QueueParts,
    cursor: Mutex<Cursor>,
}

/// Where the next notification will be, and the wrap flag that it will have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cursor {
    index: u32,
    wrap: bool,
}

impl Cursor {
    const START: Self = Self { index: 0, wrap: true };

    fn advance(&mut self, entries: u32) {
        self.index += 1;
        if self.index == entries {
            *self = Self { index: 0, wrap: !self.wrap };
        }
    }
}

impl NotificationQueue {
    pub(crate) fn create(attachment: &Arc<dyn Attachment>, entries: u32) -> Result<Self> {
        let parts = attachment.create_queue(entries)?;
        let inner = QueueInner { attachment: attachment.clone(), parts, cursor: Mutex::new(Cursor::START) };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Its number on the card.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.inner.parts.queue
    }

    /// How many entries it has.
    #[must_use]
    pub fn entries(&self) -> u32 {
        self.inner.parts.entries.entries()
    }

    /// The next notification, if there is one: the paper's `h_recv`. Looks at memory alone.
    #[must_use]
    pub fn recv(&self) -> Option<Notification> {
        let mut cursor = self.inner.lock();
        let entry = self.inner.parts.entries.entry(cursor.index, cursor.wrap)?;
        cursor.advance(self.entries());
        Some(entry.into())
    }

    /// The next notification: the paper's `h_recv_block`. Looks at memory for a while, then sleeps.
    ///
    /// Only a message that asks for an interrupt, by itself, its ticket or its slot, wakes a sleeper (section 2.6).
    /// `None` waits for ever.
    ///
    /// # Errors
    /// [`Error::TimedOut`], [`Error::System`].
    pub fn recv_block(&self, timeout: Option<Duration>) -> Result<Notification> {
        self.recv_block_with(Polling::default(), timeout)
    }

    /// Like [`NotificationQueue::recv_block`], looking as often as told before it sleeps.
    ///
    /// # Errors
    /// Those of [`NotificationQueue::recv_block`].
    pub fn recv_block_with(&self, polling: Polling, timeout: Option<Duration>) -> Result<Notification> {
        if let Some(found) = polling.look(|| self.recv()) {
            return Ok(found);
        }
        let start = Instant::now();
        loop {
            let left = timeout.map(|limit| limit.saturating_sub(start.elapsed()));
            self.inner.attachment.wait_queue(self.at_cursor(), left)?;
            if let Some(found) = self.recv() {
                return Ok(found);
            }
            if left.is_some_and(|left| left.is_zero()) {
                return Err(timed_out(timeout));
            }
        }
    }

    /// The next notification, by looking at memory without ever sleeping: `polling.spins` looks, then the processor
    /// is yielded, and again. Needs no interrupt. `None` waits for ever.
    ///
    /// # Errors
    /// [`Error::TimedOut`].
    pub fn recv_poll(&self, polling: Polling, timeout: Option<Duration>) -> Result<Notification> {
        polling.wait(timeout, false, || self.recv()).ok_or_else(|| timed_out(timeout))
    }

    /// Makes [`NotificationQueue::file`] readable once the next notification is there. True if it is there already:
    /// then the file may not become readable for it.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn arm(&self) -> Result<bool> {
        self.inner.attachment.arm_queue(self.at_cursor())
    }

    /// A file descriptor for `poll(2)` and the like. It may stand for several queues of the card: look with
    /// [`NotificationQueue::recv`], and arm again before each wait.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn file(&self) -> Result<impl AsFd + '_> {
        self.inner.attachment.queue_file(self.number())
    }

    fn at_cursor(&self) -> HamlynQueueWait {
        let cursor = *self.inner.lock();
        HamlynQueueWait {
            queue: self.number(),
            cursor: cursor.index,
            wrap: cursor.wrap.into(),
            ..HamlynQueueWait::default()
        }
    }
}

impl QueueInner {
    fn lock(&self) -> MutexGuard<'_, Cursor> {
        self.cursor.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for QueueInner {
    fn drop(&mut self) {
        // A card that is gone has no queue to destroy.
        let _ = self.attachment.destroy_queue(self.parts.queue);
    }
}

fn timed_out(timeout: Option<Duration>) -> Error {
    Error::TimedOut { what: "notification", after: timeout.unwrap_or_default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flag_toggles_behind_the_last_entry() {
        let mut cursor = Cursor::START;
        let seen: Vec<_> = (0..7)
            .map(|_| {
                let now = (cursor.index, cursor.wrap);
                cursor.advance(3);
                now
            })
            .collect();
        let (yes, no) = (true, false);
        assert_eq!(seen, [(0, yes), (1, yes), (2, yes), (0, no), (1, no), (2, no), (0, yes)]);
    }
}
