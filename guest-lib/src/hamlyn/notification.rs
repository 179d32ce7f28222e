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
use crate::hamlyn::errors::OverrunError;

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

    /// Returns the next notification. Blocks until there is one: busy-polls for a while, then
    /// sleeps.
    ///
    /// A sleeping caller is woken only by a message that requests an interrupt. The message itself,
    /// its ticket or its slot can request it (section 2.6).
    ///
    /// # Errors
    /// [`crate::OverrunError`], once per overrun; [`Error::System`].
    #[doc(alias = "h_recv_block")]
    pub fn recv(&self) -> Result<Notification> {
        self.recv_within(None)
    }

    /// Returns the next notification, or `None` if there is none. Reads only memory.
    ///
    /// # Errors
    /// [`crate::OverrunError`], once per overrun.
    #[doc(alias = "h_recv")]
    #[inline]
    pub fn try_recv(&self) -> Result<Option<Notification>> {
        if self.has_nothing() { Ok(None) } else { self.inner.take() }
    }

    /// Returns the next notification. Blocks for at most `timeout`.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; those of [`NotificationQueue::recv`].
    pub fn recv_timeout(&self, timeout: Duration) -> Result<Notification> {
        self.recv_within(Some(timeout))
    }

    pub(crate) fn recv_within(&self, timeout: Option<Duration>) -> Result<Notification> {
        self.wait_until(timeout, || self.try_recv().transpose())
    }

    /// Sets how long [`NotificationQueue::recv`] polls before it sleeps, for all clones.
    pub fn set_polling(&self, polling: Polling) {
        self.inner.poller.set(polling);
    }

    /// Returns the next notification. Blocks until there is one: busy-polls and never sleeps, but
    /// yields the processor between polls. Needs no interrupt.
    ///
    /// # Errors
    /// [`crate::OverrunError`].
    pub fn recv_polling(&self) -> Result<Notification> {
        self.poll_within(None)
    }

    /// Returns the next notification like [`NotificationQueue::recv_polling`]. Blocks for at most
    /// `timeout`.
    ///
    /// # Errors
    /// [`Error::TimedOut`], [`crate::OverrunError`].
    pub fn recv_polling_timeout(&self, timeout: Duration) -> Result<Notification> {
        self.poll_within(Some(timeout))
    }

    fn poll_within(&self, timeout: Option<Duration>) -> Result<Notification> {
        let found = poll_until(timeout, || self.try_recv().transpose());
        found.unwrap_or_else(|| Err(timed_out(timeout)))
    }

    /// Busy-polls for a while, then sleeps, until `look` finds something.
    fn wait_until<T>(
        &self,
        timeout: Option<Duration>,
        mut look: impl FnMut() -> Option<Result<T>>,
    ) -> Result<T> {
        let deadline = Deadline::new(timeout);
        let asleep = match self.inner.poller.poll(timeout, &mut look) {
            Ok(found) => return found,
            Err(asleep) => asleep,
        };
        loop {
            let left = deadline.left();
            self.wait_for(self.awaited(), left)?;
            if let Some(found) = look() {
                asleep.found();
                return found;
            }
            if left.is_some_and(|left| left.is_zero()) {
                return Err(timed_out(timeout));
            }
        }
    }

    /// Takes the notifications that are there, with one look, and appends them: at most `limit`.
    /// Returns their number. Blocks until there is one.
    ///
    /// # Errors
    /// Those of [`NotificationQueue::recv`]. Notifications before an overrun are returned first.
    pub fn recv_many(&self, into: &mut Vec<Notification>, limit: usize) -> Result<usize> {
        self.recv_many_within(into, limit, None)
    }

    /// Takes notifications like [`NotificationQueue::recv_many`], but does not block. Returns 0 if
    /// there is none.
    ///
    /// # Errors
    /// Those of [`NotificationQueue::try_recv`].
    pub fn try_recv_many(&self, into: &mut Vec<Notification>, limit: usize) -> Result<usize> {
        if self.has_nothing() { Ok(0) } else { self.inner.take_many(into, limit) }
    }

    /// Takes notifications like [`NotificationQueue::recv_many`]. Blocks for at most `timeout`.
    ///
    /// # Errors
    /// Those of [`NotificationQueue::recv_timeout`].
    pub fn recv_many_timeout(
        &self,
        into: &mut Vec<Notification>,
        limit: usize,
        timeout: Duration,
    ) -> Result<usize> {
        self.recv_many_within(into, limit, Some(timeout))
    }

    fn recv_many_within(
        &self,
        into: &mut Vec<Notification>,
        limit: usize,
        timeout: Option<Duration>,
    ) -> Result<usize> {
        if limit == 0 {
            return Ok(0);
        }
        self.wait_until(timeout, || match self.try_recv_many(into, limit) {
            Ok(0) => None,
            taken => Some(taken),
        })
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
    /// [`NotificationQueue::try_recv`], and arm again before each wait. With a driver older than
    /// this library, the queues of the card share one file.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn file(&self) -> Result<impl AsFd + '_> {
        self.inner.file()
    }

    /// Returns true if [`NotificationQueue::try_recv`] would find nothing. Takes no lock.
    #[inline]
    pub(crate) fn has_nothing(&self) -> bool {
        self.inner.has_nothing()
    }

    /// Passes the notifications that are there to `take`, with one look and at most a queue of
    /// them. An overrun is passed as an error. `take` must not use the queue.
    #[inline]
    pub(crate) fn take_all(&self, mut take: impl FnMut(Result<Notification>)) {
        if self.has_nothing() {
            return;
        }
        let (inner, entries) = (&*self.inner, &self.inner.parts.entries);
        inner.read(|reader| {
            for _ in 0..entries.entries() {
                match reader.cursor.look(entries) {
                    Look::Nothing => break,
                    Look::Notification(entry) => take(Ok(entry.into())),
                    Look::Lost(lost) => take(Err(inner.lose(reader, lost))),
                }
            }
            inner.publish(reader);
        });
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
        self.read(|reader| {
            let found = reader.cursor.look(&self.parts.entries);
            self.publish(reader);
            match found {
                Look::Nothing => Ok(None),
                Look::Notification(entry) => Ok(Some(entry.into())),
                Look::Lost(lost) => Err(self.lose(reader, lost)),
            }
        })
    }

    /// Takes the notifications that are there, at most `limit`. A loss that follows them is left to
    /// the next call.
    fn take_many(&self, into: &mut Vec<Notification>, limit: usize) -> Result<usize> {
        self.read(|reader| {
            let (mut taken, mut lost) = (0, None);
            while taken < limit {
                let before = reader.cursor;
                match reader.cursor.look(&self.parts.entries) {
                    Look::Nothing => break,
                    Look::Notification(entry) => into.push(entry.into()),
                    Look::Lost(count) => {
                        match taken {
                            0 => lost = Some(count),
                            _ => reader.cursor = before,
                        }
                        break;
                    }
                }
                taken += 1;
            }
            self.publish(reader);
            lost.map_or(Ok(taken), |lost| Err(self.lose(reader, lost)))
        })
    }

    /// Stores the cursor's place for looks without the lock.
    fn publish(&self, reader: &Reader) {
        let (index, pass) = reader.cursor.place();
        self.awaited.store(u64::from(index) | u64::from(pass) << 32, Ordering::Release);
    }

    /// Counts lost notifications, and returns the error that reports them.
    fn lose(&self, reader: &mut Reader, lost: u64) -> Error {
        reader.overruns += 1;
        reader.lost += lost;
        OverrunError { queue: self.parts.queue, lost, entries: self.parts.entries.entries() }.into()
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
