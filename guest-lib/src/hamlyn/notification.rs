//! Notification queues: how a process learns of arrived messages (section 2.6).

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use hamlyn_abi::hamlyn::notification::{HAMLYN_NOTIFICATION_FAST, HamlynNotification};

use crate::core::attach::QueueFile;
use crate::core::polling::{Poller, Polling, poll_until};
use crate::core::waiting::Deadline;
use crate::error::{Error, Result};
use crate::hamlyn::attach::{Attachment, QueueParts, QueueWait};
use crate::hamlyn::cursor::{Cursor, Look, Sight};

/// One arrived message (Table 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Notification {
    /// The slot that the message arrived in.
    pub slot: u32,
    /// The number that the slot's owner gave to the slot.
    pub notification_index: u32,
    /// How the message arrived.
    pub arrival: Arrival,
}

/// The kind of message, and where its metadata is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// A message with a metadata entry at this address. [`crate::Slot::entry_of`] turns the address
    /// into an index.
    Metadata(u64),
    /// A fast-mode message, with its word of metadata (section 2.7).
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

/// A circular queue that only the card writes and only the process reads. Each has its own cursor
/// and wrap flag.
///
/// Cheap to clone. All clones share one cursor, and each notification goes to only one of them. The
/// queue is destroyed when its last clone and the last slot that uses it are dropped.
///
/// A queue that is shorter than the number of messages in flight can overrun: the card overwrites
/// older entries, and those notifications are lost (section 2.6). Loss is never silent: the next
/// receive call reports once how many were lost, then continues with the oldest entry that is still
/// there.
///
/// The queue cannot overrun if it has an entry for every metadata entry of its slots and they are
/// in [`crate::Mode::ParanoidOneShot`] (section 2.7). The same holds if senders limit themselves to
/// that many messages (section 2.8).
#[derive(Debug, Clone)]
pub struct NotificationQueue {
    inner: Arc<QueueInner>,
}

#[derive(Debug)]
struct QueueInner {
    attachment: Arc<dyn Attachment>,
    parts: QueueParts,
    poller: Poller,
    /// The cursor's index and pass. A look that finds nothing needs only these, and no lock.
    awaited: AtomicU64,
    reader: Mutex<Reader>,
    /// The queue's own file, once it is opened.
    file: OnceLock<OwnedFd>,
}

/// The reader's state.
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
            poller: Poller::default(),
            awaited: AtomicU64::new(0),
            reader: Mutex::default(),
            file: OnceLock::new(),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Returns the queue's number on the card.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.inner.parts.queue
    }

    /// Returns the number of entries.
    #[must_use]
    pub fn entries(&self) -> u32 {
        self.inner.parts.entries.entries()
    }

    /// Returns the number of overruns that were detected, and the total number of notifications
    /// lost.
    #[must_use]
    pub fn overruns(&self) -> (u64, u64) {
        self.inner.read(|reader| (reader.overruns, reader.lost))
    }

    /// Returns the next notification, or `None` if there is none: the paper's `h_recv`. Reads only
    /// memory.
    ///
    /// # Errors
    /// [`Error::Overrun`], once per overrun.
    #[inline]
    pub fn recv(&self) -> Result<Option<Notification>> {
        if self.has_nothing() { Ok(None) } else { self.inner.take() }
    }

    /// Returns the next notification: the paper's `h_recv_block`. Busy-polls for a while, then
    /// sleeps. `None` waits forever.
    ///
    /// A sleeping caller is woken only by a message that requests an interrupt. The message itself,
    /// its ticket or its slot can request it (section 2.6).
    ///
    /// # Errors
    /// [`Error::TimedOut`], [`Error::Overrun`], [`Error::System`].
    pub fn recv_block(&self, timeout: Option<Duration>) -> Result<Notification> {
        let deadline = Deadline::new(timeout);
        let asleep = match self.inner.poller.poll(timeout, || self.recv().transpose()) {
            Ok(found) => return found,
            Err(asleep) => asleep,
        };
        loop {
            let left = deadline.left();
            self.wait_for(self.awaited(), left)?;
            if let Some(found) = self.recv().transpose() {
                asleep.found();
                return found;
            }
            if left.is_some_and(|left| left.is_zero()) {
                return Err(timed_out(timeout));
            }
        }
    }

    /// Sets how long [`NotificationQueue::recv_block`] polls before it sleeps, for all clones.
    pub fn set_polling(&self, polling: Polling) {
        self.inner.poller.set(polling);
    }

    /// Returns the next notification. Busy-polls and never sleeps, but yields the processor between
    /// polls. Needs no interrupt. `None` waits forever.
    ///
    /// # Errors
    /// [`Error::TimedOut`], [`Error::Overrun`].
    pub fn recv_poll(&self, timeout: Option<Duration>) -> Result<Notification> {
        let found = poll_until(timeout, || self.recv().transpose());
        found.unwrap_or_else(|| Err(timed_out(timeout)))
    }

    /// Makes [`NotificationQueue::file`] readable once the next notification has arrived or was
    /// overwritten. Returns true if that is already the case; the file may then not become readable
    /// for it.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn arm(&self) -> Result<bool> {
        self.arm_at(self.awaited())
    }

    /// Arms the file like [`NotificationQueue::arm`], for a notification at this position.
    pub(crate) fn arm_at(&self, awaited: QueueWait) -> Result<bool> {
        self.inner.attachment.arm_queue(awaited)
    }

    /// Returns the queue's file descriptor for `poll(2)` and the like. Check with
    /// [`NotificationQueue::recv`], and arm again before each wait. With a driver older than this
    /// library, the queues of the card share one file.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn file(&self) -> Result<impl AsFd + '_> {
        self.inner.file()
    }

    /// Returns true if [`NotificationQueue::recv`] would find nothing. Takes no lock.
    #[inline]
    pub(crate) fn has_nothing(&self) -> bool {
        self.inner.has_nothing()
    }

    /// Returns the position of the next notification.
    pub(crate) fn awaited(&self) -> QueueWait {
        let (cursor, pass) = self.inner.read(|reader| reader.cursor.place());
        QueueWait { queue: self.number(), cursor, pass }
    }

    /// Sleeps until the awaited notification has arrived or was taken, or the timeout expires. May
    /// return early.
    pub(crate) fn wait_for(&self, awaited: QueueWait, timeout: Option<Duration>) -> Result<()> {
        self.inner.attachment.wait_queue(awaited, timeout)
    }
}

impl QueueInner {
    fn file(&self) -> Result<QueueFile<'_>> {
        if let (None, Some(offset)) = (self.file.get(), self.parts.offset) {
            match self.attachment.object_file(offset, 0) {
                // If another thread has opened one meanwhile, that stays.
                Ok(file) => drop(self.file.set(file)),
                Err(Error::Unsupported(_)) => {}
                Err(error) => return Err(error),
            }
        }
        match self.file.get() {
            Some(file) => Ok(QueueFile::Borrowed(file.as_fd())),
            None => self.attachment.queue_file(self.parts.queue),
        }
    }

    /// Returns true if there is no next notification.
    ///
    /// The result is exact without the lock, even if another thread moves the cursor meanwhile. The
    /// awaited entry is not taken before it is written. Once written, its word never reads as
    /// `NotYet` again for that pass.
    #[inline]
    fn has_nothing(&self) -> bool {
        let awaited = self.awaited.load(Ordering::Acquire);
        let (index, pass) = (awaited as u32, (awaited >> 32) as u32);
        Sight::of(self.parts.entries.word(index), pass) == Sight::NotYet
    }

    /// Takes the next notification, unless another thread takes it first.
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
        // Fails if the card is gone; then there is no queue to destroy.
        let _ = self.attachment.destroy_queue(self.parts.queue);
    }
}

fn timed_out(timeout: Option<Duration>) -> Error {
    Error::TimedOut { what: "notification", after: timeout.unwrap_or_default() }
}
