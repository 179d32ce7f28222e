//! The Hamlyn manager: one per send terminus (section 3.3).

use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use hamlyn_sys::Mapping;

use crate::core::lend::Lendable;
use crate::core::polling::{Poller, Polling};
use crate::core::waiting::Deadline;
use crate::error::{Error, GivenBack, Result};
use crate::hamlyn::card::Card;
use crate::hamlyn::notification::NotificationQueue;
use crate::hamlyn::terminus::Terminus;

mod buffer;
mod end_point;
mod place;
mod queues;
mod receiver_class;
mod registry;
mod room_waiters;
mod sleepers;

pub use buffer::{Buffer, Sent};
pub use end_point::EndPoint;
pub(crate) use place::Place;
use queues::{Awaited, Queues};
pub use receiver_class::{Arrived, Ready, ReceiveClass, ReceiverClass};
use registry::{Registry, Room};
use room_waiters::RoomWaiters;
pub use sleepers::Waker;
use sleepers::{Sleeper, Sleepers};

/// Default number of entries of a manager's first notification queue.
const ENTRIES: u32 = 1024;
/// How long a thread sleeps in the driver at most. It then checks whether it must sleep in another
/// way, because the manager got its first waker or another queue.
const IN_DRIVER: Duration = Duration::from_secs(1);

/// Result of a waiter's look: what it waited for, or how it may sleep before it looks again.
pub(crate) type Look<T> = ControlFlow<T, Pause>;

/// How a waiter may sleep: until a notification arrives, and with these additional conditions.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Pause {
    /// Maximum sleep time.
    pub(crate) limit: Option<Duration>,
    /// Also wake when the card has completed requests: the waiter lacks room in the work queue, or
    /// the like.
    pub(crate) for_card: bool,
}

/// The manager of a send terminus. It owns the terminus, the notification queue of all receivers
/// that are registered with it, and the memory that is sent from (section 3.3).
///
/// Cheap to clone. It is destroyed when its last clone and the last of its receivers, senders and
/// buffers are dropped.
///
/// # Arrivals
/// A thread that waits for a message takes the next notification off the queue, whichever receiver
/// it is for. It hands the notification to that receiver, which records the arrival. Then the
/// thread checks whether its own message has arrived. So it does not matter which receiver a
/// process waits at, and [`Manager::poll`] serves all.
///
/// Receivers are slots in [`crate::Mode::ParanoidOneShot`], whose metadata entries are counted
/// against the queue. So no sender, however badly it behaves, can overrun the queue (section 2.7).
/// When the queue has no entry left for the next receiver, the manager opens another queue, twice
/// as long, next to it. So it can have as many receivers as the card has slots. Sleeping requires
/// one system call per queue.
///
/// # Threads
/// The paper's upper layer is not thread-safe, and making it so "remains a research topic". This
/// one is thread-safe. A lock makes taking a notification and recording its arrival one step. So
/// there are two cases for a thread that is about to sleep. It has seen what another thread
/// recorded for it, or it sleeps for a notification that has not been taken. The next notification
/// wakes every sleeping thread, whichever receiver it is for; one of the threads hands it to the
/// receiver. A message costs two uncontended locks. Threads that must not wait for each other need
/// separate managers, as processes would. [`Manager::waker`] ends a sleep without a message.
///
/// # Custom event loops
/// The manager's file ([`AsFd`]) is for `poll(2)`, `mio`, `tokio` and the like. It becomes readable
/// once something that [`Manager::arm`] was called for has arrived. It also becomes readable once
/// there is room for a sender that had none, or a waker was used. The file stays the same while the
/// manager lives. It may also become readable for other managers of the card. After a wake-up, call
/// [`Manager::poll_all`], query the receivers through their `try_` calls, and arm again before the
/// next wait.
#[derive(Debug, Clone)]
pub struct Manager {
    inner: Arc<Inner>,
}

/// State that changes with each notification.
#[derive(Debug, Default)]
struct Dispatch {
    /// The queue whose turn it is.
    turn: usize,
    ready: Ready,
    /// Number of notifications for which no receiver was found.
    unclaimed: u64,
}

#[derive(Debug)]
struct Inner {
    // Fields are dropped in this order: the terminus that sends the buffers' memory goes last.
    buffers: Arc<buffer::Pool>,
    registry: Registry,
    /// Held while a notification is taken and recorded.
    dispatch: Mutex<Dispatch>,
    /// Number of notifications that were dispatched.
    handed_on: AtomicU64,
    /// The value of `handed_on` that the loop of [`Manager::wait`] or [`Manager::arm`] knows of.
    /// What one receiver's `try_` call handed to another is news for the loop.
    told: AtomicU64,
    room_waiters: RoomWaiters,
    sleepers: Arc<Sleepers>,
    queues: Queues,
    terminus: Terminus,
    card: Card,
    poller: Poller,
}

impl Manager {
    /// Creates a manager with its own terminus and a notification queue of 1,024 entries.
    ///
    /// # Errors
    /// The errors of [`Manager::create_with`].
    pub fn create(card: &Card) -> Result<Self> {
        Self::create_with(card, ENTRIES, Polling::default())
    }

    /// Creates a manager whose first queue has this number of entries, 2 to 65,536, and whose
    /// waiters poll according to `polling` before they sleep. The queue is enough for that many
    /// metadata entries of all receivers together.
    ///
    /// # Errors
    /// The errors of [`Card::create_terminus`] and [`Card::create_queue`]; [`Error::System`] if the
    /// process has no file descriptor left.
    pub fn create_with(card: &Card, entries: u32, polling: Polling) -> Result<Self> {
        let sleepers = Sleepers::new()?;
        let (terminus, queue) = (card.create_terminus()?, card.create_queue(entries)?);
        watch(&sleepers, queue.file())?;
        watch(&sleepers, terminus.file())?;
        let inner = Inner {
            buffers: buffer::Pool::new(&terminus),
            registry: Registry::new(entries),
            dispatch: Mutex::default(),
            handed_on: AtomicU64::new(0),
            told: AtomicU64::new(0),
            room_waiters: RoomWaiters::default(),
            sleepers,
            queues: Queues::new(queue),
            terminus,
            card: card.clone(),
            poller: Poller::new(polling),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Returns the card.
    #[must_use]
    pub fn card(&self) -> &Card {
        &self.inner.card
    }

    /// Returns the terminus that this manager sends everything from.
    #[must_use]
    pub fn terminus(&self) -> &Terminus {
        &self.inner.terminus
    }

    /// Hands the next notification to its receiver: the paper's `poll_nowait`. Returns true if
    /// there was one.
    ///
    /// # Errors
    /// [`crate::OverrunError`]: every receiver has been notified of the loss, and reports it as
    /// well.
    pub fn poll(&self) -> Result<bool> {
        // Dropped after the lock is released. These may be the last references to their receivers,
        // which then take the lock to deregister.
        let (receiver, receivers);
        let mut one_step = self.dispatch();
        let Dispatch { turn, ready, unclaimed } = &mut *one_step;
        match self.inner.queues.recv(turn) {
            (_, Ok(None)) => Ok(false),
            (_, Ok(Some(notification))) => {
                receiver = self.inner.registry.find(&notification);
                match &receiver {
                    Some((receiver, entry, metadata)) => {
                        let arrived = Arrived { slot: notification.slot, entry: *entry, metadata };
                        receiver.process_arrival(&arrived, ready);
                    }
                    None => *unclaimed += 1,
                }
                self.handed_on();
                Ok(true)
            }
            (queue, Err(error)) => {
                receivers = self.inner.registry.all_of(queue);
                receivers.iter().for_each(|receiver| receiver.arrivals_lost(ready));
                // The receivers may have found messages whose notifications were lost.
                self.handed_on();
                Err(error)
            }
        }
    }

    /// Registers a receiver, so that metadata entries can refer to it by its own pointer
    /// ([`crate::MetadataEntry::set_receive_class`]). It is registered while the returned value
    /// lives. [`EndPoint::open`] does this for an end point's entries.
    #[must_use]
    pub fn register(&self, receiver: Weak<dyn ReceiverClass>) -> ReceiveClass {
        self.inner.registry.register(receiver)
    }

    /// Returns the number of notifications for which no receiver was found. Either the receiver had
    /// left, or a metadata entry's receive class pointer was changed to an invalid one.
    #[must_use]
    pub fn unclaimed(&self) -> u64 {
        self.dispatch().unclaimed
    }

    /// Waits for what an application's own receiver has recorded. Takes notifications and
    /// dispatches them until `look` returns a value, as the library's receivers do (section 3.3).
    /// Busy-polls for a while, then sleeps.
    ///
    /// # Errors
    /// The errors of `look`; [`Error::Woken`], [`crate::OverrunError`], [`Error::System`].
    pub fn wait_until<T>(
        &self,
        what: &'static str,
        mut look: impl FnMut() -> Result<Option<T>>,
    ) -> Result<T> {
        self.wait_for(what, None, |_| Ok(look()?.map_or(Look::Continue(Pause::default()), Look::Break)))
    }

    /// As [`Manager::wait_until`], but blocks for at most `timeout`. The error names `what`.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; those of [`Manager::wait_until`].
    pub fn wait_until_timeout<T>(
        &self,
        what: &'static str,
        timeout: Duration,
        mut look: impl FnMut() -> Result<Option<T>>,
    ) -> Result<T> {
        self.wait_for(what, Some(timeout), |_| {
            Ok(look()?.map_or(Look::Continue(Pause::default()), Look::Break))
        })
    }

    /// Dispatches all pending notifications. Returns how many there were.
    ///
    /// # Errors
    /// [`crate::OverrunError`], as for [`Manager::poll`].
    pub fn poll_all(&self) -> Result<usize> {
        let mut count = 0;
        // Take no more than the queues hold: a peer may send as fast as this loop runs.
        let limit: usize = self.inner.queues.iter().map(|queue| queue.entries() as usize).sum();
        while count < limit && self.poll()? {
            count += 1;
        }
        Ok(count)
    }

    /// Waits until this thread or another dispatches a notification. Busy-polls for a while, then
    /// sleeps. Returns at once in these cases; query all receivers and senders again:
    ///
    /// - A notification was dispatched since the last call, perhaps by one receiver's `try_` call
    ///   to another that had been queried before.
    /// - There is room in the work queue again for a sender whose `try_` call found none.
    /// - A [`Waker`] was used.
    ///
    /// Use only one loop per manager, with this or with [`Manager::arm`]: the manager keeps only
    /// one record of what its loop knows.
    ///
    /// # Errors
    /// [`crate::OverrunError`], [`Error::System`].
    pub fn wait(&self) -> Result<()> {
        self.wait_within(None)
    }

    /// As [`Manager::wait`], but blocks for at most `timeout`.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; those of [`Manager::wait`].
    pub fn wait_timeout(&self, timeout: Duration) -> Result<()> {
        self.wait_within(Some(timeout))
    }

    fn wait_within(&self, timeout: Option<Duration>) -> Result<()> {
        let handed_on = || self.inner.handed_on.load(Ordering::Relaxed);
        let before = handed_on();
        self.wait_for("notification", timeout, |_| {
            // Another waiting thread may have taken the news first.
            let news = self.has_news() || handed_on() != before || self.inner.sleepers.take_wake();
            let for_card = self.inner.terminus.inner.behind().is_some();
            Ok(if news { Look::Break(()) } else { Look::Continue(Pause { limit: None, for_card }) })
        })
    }

    /// Makes the manager's file readable once the next notification has arrived. If a sender's
    /// `try_` call found the work queue full, also once there is room in it.
    ///
    /// Returns true if that is already the case, if a notification was dispatched since the last
    /// call, or if a [`Waker`] was used. Then a receiver may have something new, so query all of
    /// them again. It polls according to [`Polling`] before it arms, so the loop need not poll
    /// itself.
    ///
    /// Use only one loop per manager, as for [`Manager::wait`].
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn arm(&self) -> Result<bool> {
        let Inner { queues, sleepers, room_waiters, .. } = &*self.inner;
        room_waiters.loop_sleeps(false);
        let news = || self.has_news() || sleepers.take_wake();
        // Finding something in memory needs no system call.
        let look = || news() || queues.have_some();
        // What was dispatched since the last call is news, too.
        if self.inner.poller.poll_before_arming(false, look) {
            return Ok(true);
        }
        let there = {
            let _one_step = self.dispatch();
            sleepers.silence();
            news() || self.arm_queues()?
        };
        room_waiters.loop_sleeps(true);
        let there = there || self.arm_room()?;
        room_waiters.loop_sleeps(!there);
        Ok(there)
    }

    /// Returns tokens in ascending order, so that a loop that serves many receivers and senders
    /// queries only these. A receiver's token is returned if something was dispatched to it since
    /// the last call. A sender's token is returned if it found the work queue full and may find
    /// room now.
    ///
    /// A receiver or sender with a token
    /// ([`crate::hamlyn::protocol::stream::StreamReceiver::set_token`] and the like) is returned
    /// once. It may turn out to have nothing. Query it until it has nothing left.
    #[must_use]
    pub fn ready(&self) -> Vec<u64> {
        self.inner.room_waiters.loop_sleeps(false);
        self.look_for_room();
        let mut ready = self.inner.room_waiters.take_ready();
        ready.extend(self.dispatch().ready.take());
        ready.into_iter().collect()
    }

    /// Returns a waker, which ends a sleep at this manager, from any thread. Create it before a
    /// thread sleeps: a sleep that began before the manager's first waker was created notices it
    /// within a second.
    #[must_use]
    pub fn waker(&self) -> Waker {
        self.inner.sleepers.waker()
    }

    /// Allocates `length` bytes of memory to send from without copying. The contents are
    /// unspecified.
    ///
    /// # Errors
    /// [`Error::WouldBlock`] if this requires more than the terminus' eight send buffers, and the
    /// card still gathers from memory that was given back; [`Error::Exhausted`] if it does not;
    /// [`Error::System`].
    pub fn allocate(&self, length: usize) -> Result<Buffer> {
        self.inner.buffers.allocate(length)
    }

    /// Makes the caller's own memory available to send from without copying: a `Vec<u8>`, a
    /// `Box<[u8]>`, or another crate's mapping. The library owns it until [`Buffer::take_back`]. It
    /// takes one of the terminus' eight send buffers. To send many messages, lend one piece of
    /// memory and send parts of it (`send_from`).
    ///
    /// # Errors
    /// The errors of [`Terminus::lend`]. On error the memory is given back.
    pub fn lend<T: Lendable>(&self, memory: T) -> Result<Buffer, GivenBack<T>> {
        self.inner.buffers.lend(memory)
    }

    /// Like [`Manager::lend`], for memory that is already mapped
    /// ([`crate::attach::Mapping::promised`]). For other languages.
    ///
    /// # Errors
    /// The errors of [`Manager::lend`].
    pub fn lend_mapping(&self, mapping: Mapping) -> Result<Buffer> {
        self.inner.buffers.lend_mapping(mapping)
    }

    /// Waits until `look` returns a value. `None` waits forever. The argument of `look` is true if
    /// this call is about to sleep: expensive checks are made only then.
    pub(crate) fn wait_for<T>(
        &self,
        what: &'static str,
        timeout: Option<Duration>,
        mut look: impl FnMut(bool) -> Result<Look<T>>,
    ) -> Result<T> {
        let deadline = Deadline::new(timeout);
        let found = self.inner.poller.poll(timeout, || match look(false) {
            Ok(Look::Break(found)) => Some(Ok(found)),
            Ok(Look::Continue(_)) => self.poll().err().map(Err),
            Err(error) => Some(Err(error)),
        });
        let asleep = match found {
            Ok(found) => return found,
            Err(asleep) => asleep,
        };
        let found = self.sleep_for(what, deadline, look)?;
        asleep.found();
        Ok(found)
    }

    /// Sleeps between the looks, once polling was in vain.
    fn sleep_for<T>(
        &self,
        what: &'static str,
        deadline: Deadline,
        mut look: impl FnMut(bool) -> Result<Look<T>>,
    ) -> Result<T> {
        // A caller that waits for the card as well as for messages sleeps on the file, which covers
        // both.
        let mut for_card = false;
        loop {
            let by_file = for_card || self.inner.queues.several() || self.inner.sleepers.has_waker();
            let sleeper = by_file.then(|| self.inner.sleepers.lie_down());
            // Anything recorded after this has its notification after `awaited`, so the sleep ends
            // at once.
            let awaited = {
                let _one_step = self.dispatch();
                self.inner.queues.awaited()
            };
            let pause = match look(true)? {
                Look::Break(found) => return Ok(found),
                Look::Continue(pause) => pause,
            };
            if self.inner.sleepers.take_wake() {
                return Err(Error::Woken { what });
            }
            let left = deadline.check(what)?;
            for_card = pause.for_card;
            let limit = pause.limit.into_iter().chain(left);
            match sleeper {
                Some(sleeper) => self.sleep_by_file(sleeper, for_card, limit.min(), &awaited)?,
                // Register as a sleeper first, then look again.
                None if for_card => {}
                None => self.inner.queues.first().wait_for(awaited.first, limit.chain([IN_DRIVER]).min())?,
            }
            // If the result is found in memory, the cause of the wake-up is not needed. The next
            // wait starts with that.
            if let Look::Break(found) = look(false)? {
                return Ok(found);
            }
            self.poll_all()?;
        }
    }

    /// Sleeps until any event that the manager's file covers.
    fn sleep_by_file(
        &self,
        sleeper: Sleeper<'_>,
        for_card: bool,
        mut limit: Option<Duration>,
        awaited: &Awaited,
    ) -> Result<()> {
        if for_card {
            let (there, most) = self.arm_for_card()?;
            if there {
                return Ok(());
            }
            limit = Some(limit.map_or(most, |limit| limit.min(most)));
        }
        sleeper.sleep(limit, || self.arm_for(awaited), || self.quiet_room())
    }

    /// Arms the queues for the next notification in each. Returns true if one has already arrived;
    /// some queues may then not be armed.
    fn arm_queues(&self) -> Result<bool> {
        self.arm_for(&self.inner.queues.awaited())
    }

    fn arm_for(&self, awaited: &Awaited) -> Result<bool> {
        for wait in awaited.iter() {
            if self.inner.card.attachment().arm_queue(*wait)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Records that something was dispatched. The caller holds the lock.
    #[inline]
    fn handed_on(&self) {
        self.inner.handed_on.fetch_add(1, Ordering::Relaxed);
        self.inner.sleepers.look_again();
    }

    /// Makes sleeping threads look again, because what they wait for was learned by other means
    /// than a message. Also marks the receiver or sender with this token as ready.
    pub(crate) fn look_again(&self, token: Option<u64>) {
        if token.is_some() {
            self.dispatch().ready.add(token);
            self.inner.handed_on.fetch_add(1, Ordering::Relaxed);
        }
        if self.inner.sleepers.has_waker() || self.inner.queues.several() {
            self.inner.sleepers.ring();
        }
    }

    /// Reserves room for the notifications of a receiver with this number of metadata entries.
    /// Opens one more queue if no queue has room.
    fn enter(&self, entries: u32) -> Result<Room> {
        self.inner.registry.enter(entries, |number, length| {
            let queue = self.inner.card.create_queue(length)?;
            watch(&self.inner.sleepers, queue.file())?;
            self.inner.queues.add(number, queue);
            Ok(())
        })
    }

    /// Returns true if something was dispatched that was not reported to the loop yet, or if there
    /// is room. Marks it as reported.
    fn has_news(&self) -> bool {
        self.look_for_room();
        let room = self.inner.room_waiters.take_news();
        let handed_on = self.inner.handed_on.load(Ordering::Relaxed);
        self.inner.told.swap(handed_on, Ordering::Relaxed) != handed_on || room
    }

    fn queue(&self, number: usize) -> Option<&NotificationQueue> {
        self.inner.queues.get(number)
    }

    fn registry(&self) -> &Registry {
        &self.inner.registry
    }

    fn dispatch(&self) -> MutexGuard<'_, Dispatch> {
        self.inner.dispatch.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AsFd for Manager {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.sleepers.as_fd()
    }
}

/// Makes the manager's file cover this one, too, if there is one: an older driver has none for
/// termini.
fn watch(sleepers: &Sleepers, file: Result<impl AsFd>) -> Result<()> {
    match file {
        Ok(file) => sleepers.add(file.as_fd()),
        Err(Error::Unsupported(_)) => Ok(()),
        Err(error) => Err(error),
    }
}
