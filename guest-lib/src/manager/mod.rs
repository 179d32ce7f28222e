//! The Hamlyn manager: one for each send terminus (section 3.3).

use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::card::Card;
use crate::error::{Error, Result};
use crate::notification::NotificationQueue;
use crate::polling::Polling;
use crate::terminus::Terminus;

mod buffer;
mod place;
mod registry;

pub use buffer::{Buffer, Sent};
pub(crate) use place::Place;
pub(crate) use registry::Receiver;
use registry::Registry;

/// Entries of a manager's notification queue, if nothing is said.
const ENTRIES: u32 = 1024;

/// What a waiter's look gave: what it waited for, or how long it may sleep before it must look again (`None`: until a
/// notification comes).
pub(crate) type Look<T> = ControlFlow<T, Option<Duration>>;

/// The manager of a send terminus: it owns the terminus, the notification queue of all receivers that are registered
/// with it, and the memory that is sent from (section 3.3).
///
/// Cheap to clone; it goes when its last clone and the last of its receivers, senders and buffers are dropped.
///
/// # Arrivals
/// Whoever waits for a message takes the next notification off the queue, whoever it is for, and hands it to its
/// receiver, which records the arrival; then it looks whether its own has come. So it does not matter which receiver
/// a process waits at, and [`Manager::poll`] serves all.
///
/// Receivers are slots in [`crate::Mode::ParanoidOneShot`], whose metadata entries are counted against the queue:
/// nobody who sends, however rude, makes it overrun (section 2.7).
///
/// # Threads
/// The paper's upper layer is not thread-safe, and to make it so "remains a research topic". This one is: a lock
/// around taking a notification and recording its arrival makes the two one step, so a thread that is about to sleep
/// has either seen what another recorded for it, or sleeps for a notification that has not been taken. Every sleeping
/// thread is woken by the next notification, whoever it is for; one of them hands it on. A message costs two
/// uncontended locks, and threads that should not wait for each other have a manager each, as processes would.
#[derive(Debug, Clone)]
pub struct Manager {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    // Dropped in this order: what the buffers' memory is sent by goes last.
    buffers: Arc<buffer::Pool>,
    registry: Registry,
    /// Held while a notification is taken and recorded.
    dispatch: Mutex<()>,
    /// How many notifications have been handed on.
    handed_on: AtomicU64,
    /// How many the loop of [`Manager::wait`] or [`Manager::arm`] knows of: what a receiver's `try_` call handed to another
    /// is news for it.
    told: AtomicU64,
    queue: NotificationQueue,
    terminus: Terminus,
    card: Card,
    polling: Polling,
}

impl Manager {
    /// Creates a manager with a terminus of its own and a notification queue of 1,024 entries.
    ///
    /// # Errors
    /// Those of [`Card::create_terminus`] and [`Card::create_queue`].
    pub fn create(card: &Card) -> Result<Self> {
        Self::create_with(card, ENTRIES, Polling::default())
    }

    /// Creates a manager whose queue has so many entries, 2 to 65,536, and whose waiters look as often as told before
    /// they sleep. All its receivers together can have as many metadata entries.
    ///
    /// # Errors
    /// Those of [`Card::create_terminus`] and [`Card::create_queue`].
    pub fn create_with(card: &Card, entries: u32, polling: Polling) -> Result<Self> {
        let (terminus, queue) = (card.create_terminus()?, card.create_queue(entries)?);
        let inner = Inner {
            buffers: buffer::Pool::new(&terminus),
            registry: Registry::new(entries),
            dispatch: Mutex::new(()),
            handed_on: AtomicU64::new(0),
            told: AtomicU64::new(0),
            queue,
            terminus,
            card: card.clone(),
            polling,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The card.
    #[must_use]
    pub fn card(&self) -> &Card {
        &self.inner.card
    }

    /// The terminus that everything of this manager's is sent from.
    #[must_use]
    pub fn terminus(&self) -> &Terminus {
        &self.inner.terminus
    }

    /// Hands the next notification to its receiver: the paper's `poll_nowait`. Whether there was one.
    ///
    /// # Errors
    /// [`Error::Overrun`]: every receiver has been told, and says so, too.
    pub fn poll(&self) -> Result<bool> {
        // Dropped behind the lock: they may be the last of their receivers, which then take the lock to leave.
        let (receiver, receivers);
        let _one_step = self.dispatch();
        match self.inner.queue.recv() {
            Ok(None) => Ok(false),
            Ok(Some(notification)) => {
                receiver = self.inner.registry.find(notification.notification_index);
                if let Some(receiver) = &receiver {
                    receiver.process_arrival(&notification);
                }
                self.inner.handed_on.fetch_add(1, Ordering::Relaxed);
                Ok(true)
            }
            Err(error) => {
                receivers = self.inner.registry.all();
                receivers.iter().for_each(|receiver| receiver.arrivals_lost());
                // They may have found what they were not told of.
                self.inner.handed_on.fetch_add(1, Ordering::Relaxed);
                Err(error)
            }
        }
    }

    /// Hands on all notifications that are there. How many there were.
    ///
    /// # Errors
    /// [`Error::Overrun`], as [`Manager::poll`].
    pub fn poll_all(&self) -> Result<usize> {
        let mut count = 0;
        // No more than the queue holds: somebody may be sending as fast as this goes.
        while count < self.inner.queue.entries() as usize && self.poll()? {
            count += 1;
        }
        Ok(count)
    }

    /// Waits until a notification is handed on, by this thread or another: looks at memory for a while, then sleeps.
    /// `None` waits for ever. Returns at once if one was handed on since the last call, perhaps by one receiver's `try_`
    /// call to another that had been asked before: ask all once more.
    ///
    /// One loop for each manager, by this or by [`Manager::arm`]: what it knows of is remembered once.
    ///
    /// # Errors
    /// [`Error::TimedOut`], [`Error::Overrun`], [`Error::System`].
    pub fn wait(&self, timeout: Option<Duration>) -> Result<()> {
        let handed_on = || self.inner.handed_on.load(Ordering::Relaxed);
        let before = handed_on();
        self.wait_for("notification", timeout, |_| {
            // Another thread that waits may have been told of it first.
            let news = self.has_news() || handed_on() != before;
            Ok(if news { Look::Break(()) } else { Look::Continue(None) })
        })
    }

    /// Makes [`Manager::file`] readable once the next notification is there. True if it is already, or if one was handed
    /// on since the last call: a receiver may have something that it had not when it was asked, so ask all once more.
    ///
    /// One loop for each manager, as for [`Manager::wait`].
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn arm(&self) -> Result<bool> {
        let _one_step = self.dispatch();
        Ok(self.has_news() || self.inner.queue.arm()?)
    }

    /// A file descriptor for `poll(2)`, `mio`, `tokio` and the like. Whoever is woken calls [`Manager::poll_all`],
    /// asks its receivers by their `try_` calls, and arms again before it waits.
    ///
    /// It may become readable for other managers of the card, too.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn file(&self) -> Result<impl AsFd + '_> {
        self.inner.queue.file()
    }

    /// Memory to send from without copying, `length` bytes, whose contents are of no meaning yet.
    ///
    /// # Errors
    /// [`Error::WouldBlock`] if it would take more than the terminus' eight send buffers, [`Error::System`].
    pub fn allocate(&self, length: usize) -> Result<Buffer> {
        self.inner.buffers.allocate(length)
    }

    /// Waits until `look` gives something. `None` waits for ever. `look` is told whether this is about to sleep: what
    /// takes long is looked at then only.
    pub(crate) fn wait_for<T>(
        &self,
        what: &'static str,
        timeout: Option<Duration>,
        mut look: impl FnMut(bool) -> Result<Look<T>>,
    ) -> Result<T> {
        let found = self.inner.polling.look(|| match look(false) {
            Ok(Look::Break(found)) => Some(Ok(found)),
            Ok(Look::Continue(_)) => self.poll().err().map(Err),
            Err(error) => Some(Err(error)),
        });
        if let Some(found) = found {
            return found;
        }
        let start = Instant::now();
        loop {
            // What is recorded after this has its notification behind `awaited`, so the sleep is over at once.
            let awaited = {
                let _one_step = self.dispatch();
                self.inner.queue.awaited()
            };
            let nap = match look(true)? {
                Look::Break(found) => return Ok(found),
                Look::Continue(nap) => nap,
            };
            let left = timeout.map(|limit| limit.saturating_sub(start.elapsed()));
            if left.is_some_and(|left| left.is_zero()) {
                return Err(Error::TimedOut { what, after: timeout.unwrap_or_default() });
            }
            self.inner.queue.wait_for(awaited, nap.into_iter().chain(left).min())?;
            self.poll_all()?;
        }
    }

    /// Whether something was handed on that the loop has not been told of. Now it has.
    fn has_news(&self) -> bool {
        let handed_on = self.inner.handed_on.load(Ordering::Relaxed);
        self.inner.told.swap(handed_on, Ordering::Relaxed) != handed_on
    }

    pub(crate) fn queue(&self) -> &NotificationQueue {
        &self.inner.queue
    }

    fn registry(&self) -> &Registry {
        &self.inner.registry
    }

    fn dispatch(&self) -> MutexGuard<'_, ()> {
        self.inner.dispatch.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
