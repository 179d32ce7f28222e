//! Notification queues: how a process learns of messages (section 2.6).

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hamlyn_abi::hamlyn::notification::{HAMLYN_NOTIFICATION_FAST, HamlynNotification};

use crate::core::polling::Polling;
use crate::error::{Error, Result};
use crate::hamlyn::attach::{Attachment, QueueParts, QueueWait};
use crate::hamlyn::cursor::{Cursor, Look, Sight};

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
    /// A message with a metadata entry, at this place: [`crate::Slot::entry_of`] turns it into an
    /// index.
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

/// A circular queue that the card alone writes and the process alone reads, with a cursor and wrap
/// flag each.
///
/// Cheap to clone; clones share the cursor, and each notification goes to one of them. The queue is
/// destroyed when its last clone and the last slot that names it are dropped.
///
/// A queue that is shorter than the messages that may be under way is overrun: older entries are
/// overwritten, and lost (section 2.6). That is never silent: whatever receives from it says once
/// how many were lost, and then goes on with the oldest that is still there. It cannot happen if
/// the queue has an entry for every metadata entry of its slots and they are in
/// [`crate::Mode::ParanoidOneShot`] (section 2.7), or senders keep to as many messages (section
/// 2.8).
#[derive(Debug, Clone)]
pub struct NotificationQueue {
    inner: Arc<QueueInner>,
}

#[derive(Debug)]
struct QueueInner {
    attachment: Arc<dyn Attachment>,
    parts: QueueParts,
    /// The cursor's place, index and pass, for looks that find nothing: those need no lock.
    awaited: AtomicU64,
    reader: Mutex<Reader>,
}

/// How far the process is.
#[derive(Debug, Default)]
struct Reader {
    cursor: Cursor,
    overruns: u64,
    lost: u64,
}

impl NotificationQueue {
    pub(crate) fn create(attachment: &Arc<dyn Attachment>, entries: u32) -> Result<Self> {
        let parts = attachment.create_queue(entries)?;
        let inner = QueueInner {
            attachment: attachment.clone(),
            parts,
            awaited: AtomicU64::new(0),
            reader: Mutex::default(),
        };
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

    /// How often the queue was found overrun, and how many notifications that has cost in all.
    #[must_use]
    pub fn overruns(&self) -> (u64, u64) {
        self.inner.read(|reader| (reader.overruns, reader.lost))
    }

    /// The next notification, if there is one: the paper's `h_recv`. Looks at memory alone.
    ///
    /// # Errors
    /// [`Error::Overrun`], once for what was lost.
    #[inline]
    pub fn recv(&self) -> Result<Option<Notification>> {
        if self.has_nothing() { Ok(None) } else { self.inner.take() }
    }

    /// The next notification: the paper's `h_recv_block`. Looks at memory for a while, then sleeps.
    ///
    /// Only a message that asks for an interrupt, by itself, its ticket or its slot, wakes a
    /// sleeper (section 2.6). `None` waits for ever.
    ///
    /// # Errors
    /// [`Error::TimedOut`], [`Error::Overrun`], [`Error::System`].
    pub fn recv_block(&self, timeout: Option<Duration>) -> Result<Notification> {
        self.recv_block_with(Polling::default(), timeout)
    }

    /// Like [`NotificationQueue::recv_block`], looking as often as told before it sleeps.
    ///
    /// # Errors
    /// Those of [`NotificationQueue::recv_block`].
    pub fn recv_block_with(&self, polling: Polling, timeout: Option<Duration>) -> Result<Notification> {
        if let Some(found) = polling.look(|| self.recv().transpose()) {
            return found;
        }
        let start = Instant::now();
        loop {
            let left = timeout.map(|limit| limit.saturating_sub(start.elapsed()));
            self.wait_for(self.awaited(), left)?;
            if let Some(found) = self.recv().transpose() {
                return found;
            }
            if left.is_some_and(|left| left.is_zero()) {
                return Err(timed_out(timeout));
            }
        }
    }

    /// The next notification, by looking at memory without ever sleeping: `polling.spins` looks,
    /// then the processor is yielded, and again. Needs no interrupt. `None` waits for ever.
    ///
    /// # Errors
    /// [`Error::TimedOut`], [`Error::Overrun`].
    pub fn recv_poll(&self, polling: Polling, timeout: Option<Duration>) -> Result<Notification> {
        let found = polling.wait(timeout, false, || self.recv().transpose());
        found.unwrap_or_else(|| Err(timed_out(timeout)))
    }

    /// Makes [`NotificationQueue::file`] readable once the next notification is there, or was
    /// overwritten. True if it is so already: then the file may not become readable for it.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn arm(&self) -> Result<bool> {
        self.inner.attachment.arm_queue(self.awaited())
    }

    /// A file descriptor for `poll(2)` and the like. It may stand for several queues of the card:
    /// look with [`NotificationQueue::recv`], and arm again before each wait.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn file(&self) -> Result<impl AsFd + '_> {
        self.inner.attachment.queue_file(self.number())
    }

    /// Whether [`NotificationQueue::recv`] would find nothing. Takes no lock.
    #[inline]
    pub(crate) fn has_nothing(&self) -> bool {
        self.inner.has_nothing()
    }

    /// The notification that comes next.
    pub(crate) fn awaited(&self) -> QueueWait {
        let (cursor, pass) = self.inner.read(|reader| reader.cursor.place());
        QueueWait { queue: self.number(), cursor, pass }
    }

    /// Sleeps until that notification is there or was taken, or time has run out. It may return
    /// early.
    pub(crate) fn wait_for(&self, awaited: QueueWait, timeout: Option<Duration>) -> Result<()> {
        self.inner.attachment.wait_queue(awaited, timeout)
    }
}

impl QueueInner {
    /// Whether there is no next notification: with the place and the entry's word together that is
    /// certain, whoever moves the cursor meanwhile. For the awaited entry is not taken before it is
    /// there, and never looks so again.
    #[inline]
    fn has_nothing(&self) -> bool {
        let awaited = self.awaited.load(Ordering::Acquire);
        let (index, pass) = (awaited as u32, (awaited >> 32) as u32);
        Sight::of(self.parts.entries.word(index), pass) == Sight::NotYet
    }

    /// The next notification, if nobody else takes it.
    fn take(&self) -> Result<Option<Notification>> {
        let entries = &self.parts.entries;
        self.read(|reader| {
            let found = reader.cursor.look(entries);
            let (index, pass) = reader.cursor.place();
            self.awaited.store(u64::from(index) | u64::from(pass) << 32, Ordering::Release);
            match found {
                Look::Nothing => Ok(None),
                Look::Notification(entry) => Ok(Some(entry.into())),
                Look::Lost(lost) => {
                    reader.overruns += 1;
                    reader.lost += lost;
                    Err(Error::Overrun { queue: self.parts.queue, lost, entries: entries.entries() })
                }
            }
        })
    }

    fn read<T>(&self, look: impl FnOnce(&mut Reader) -> T) -> T {
        look(&mut self.reader.lock().unwrap_or_else(PoisonError::into_inner))
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
