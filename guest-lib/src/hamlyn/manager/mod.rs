//! The Hamlyn manager: one for each send terminus (section 3.3).

use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use hamlyn_sys::Mapping;

use crate::core::lend::Lendable;
use crate::core::polling::Polling;
use crate::error::{Error, GivenBack, Result};
use crate::hamlyn::card::Card;
use crate::hamlyn::notification::NotificationQueue;
use crate::hamlyn::terminus::Terminus;

mod behind;
mod buffer;
mod end_point;
mod place;
mod queues;
mod receiver_class;
mod registry;
mod sleepers;

use behind::Behind;
pub use buffer::{Buffer, Sent};
pub use end_point::EndPoint;
pub(crate) use place::Place;
use queues::{Awaited, Queues};
pub use receiver_class::{Arrived, ReceiveClass, ReceiverClass};
pub use registry::Ready;
use registry::{Registry, Room};
pub use sleepers::Waker;
use sleepers::{Sleeper, Sleepers};

/// Entries of a manager's first notification queue, if nothing is said.
const ENTRIES: u32 = 1024;
/// How long a thread sleeps in the driver: then it looks whether it has to sleep in another way
/// now, for the manager has got its first waker, or another queue.
const IN_DRIVER: Duration = Duration::from_secs(1);

/// What a waiter's look gave: what it waited for, or how it may sleep before it must look again.
pub(crate) type Look<T> = ControlFlow<T, Pause>;

/// How a waiter may sleep: until a notification comes, or as this says besides.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Pause {
    /// No longer than this.
    pub(crate) limit: Option<Duration>,
    /// Until the card has finished with requests: it is room in the work queue that is missing, or
    /// the like.
    pub(crate) for_card: bool,
}

/// The manager of a send terminus: it owns the terminus, the notification queue of all receivers
/// that are registered with it, and the memory that is sent from (section 3.3).
///
/// Cheap to clone; it goes when its last clone and the last of its receivers, senders and buffers
/// are dropped.
///
/// # Arrivals
/// Whoever waits for a message takes the next notification off the queue, whoever it is for, and
/// hands it to its receiver, which records the arrival; then it looks whether its own has come. So
/// it does not matter which receiver a process waits at, and [`Manager::poll`] serves all.
///
/// Receivers are slots in [`crate::Mode::ParanoidOneShot`], whose metadata entries are counted
/// against the queue: nobody who sends, however rude, makes it overrun (section 2.7). When the
/// queue has no entry left for the next receiver, the manager opens another of twice the length,
/// beside it. So it has as many receivers as the card has slots; to sleep takes a system call for
/// each queue.
///
/// # Threads
/// The paper's upper layer is not thread-safe, and to make it so "remains a research topic". This
/// one is: a lock around taking a notification and recording its arrival makes the two one step, so
/// a thread that is about to sleep has either seen what another recorded for it, or sleeps for a
/// notification that has not been taken. Every sleeping thread is woken by the next notification,
/// whoever it is for; one of them hands it on. A message costs two uncontended locks, and threads
/// that should not wait for each other have a manager each, as processes would. [`Manager::waker`]
/// ends a sleep without a message.
///
/// # Loops of one's own
/// Its file ([`AsFd`]) is for `poll(2)`, `mio`, `tokio` and the like: readable once something has
/// come that [`Manager::arm`] was called for, there is room for a sender that had none, or a waker
/// was used. It stays the same for as long as the manager lives. It may become readable for other
/// managers of the card, too. Whoever is woken calls [`Manager::poll_all`], asks its receivers by
/// their `try_` calls, and arms again before it waits.
#[derive(Debug, Clone)]
pub struct Manager {
    inner: Arc<Inner>,
}

/// What changes with each notification.
#[derive(Debug, Default)]
struct Dispatch {
    /// Whose queue's turn it is.
    turn: usize,
    ready: Ready,
    /// Notifications that led to no receiver.
    unclaimed: u64,
}

#[derive(Debug)]
struct Inner {
    // Dropped in this order: what the buffers' memory is sent by goes last.
    buffers: Arc<buffer::Pool>,
    registry: Registry,
    /// Held while a notification is taken and recorded.
    dispatch: Mutex<Dispatch>,
    /// How many notifications have been handed on.
    handed_on: AtomicU64,
    /// How many the loop of [`Manager::wait`] or [`Manager::arm`] knows of: what a receiver's
    /// `try_` call handed to another is news for it.
    told: AtomicU64,
    behind: Behind,
    sleepers: Arc<Sleepers>,
    queues: Queues,
    terminus: Terminus,
    card: Card,
    polling: Polling,
}

impl Manager {
    /// Creates a manager with a terminus of its own and a notification queue of 1,024 entries.
    ///
    /// # Errors
    /// Those of [`Manager::create_with`].
    pub fn create(card: &Card) -> Result<Self> {
        Self::create_with(card, ENTRIES, Polling::default())
    }

    /// Creates a manager whose first queue has so many entries, 2 to 65,536, and whose waiters look
    /// as often as told before they sleep. As many metadata entries as all its receivers have can
    /// do with that queue.
    ///
    /// # Errors
    /// Those of [`Card::create_terminus`] and [`Card::create_queue`]; [`Error::System`] if the
    /// process has no file left.
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
            behind: Behind::default(),
            sleepers,
            queues: Queues::new(queue),
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

    /// Hands the next notification to its receiver: the paper's `poll_nowait`. Whether there was
    /// one.
    ///
    /// # Errors
    /// [`Error::Overrun`]: every receiver has been told, and says so, too.
    pub fn poll(&self) -> Result<bool> {
        // Dropped behind the lock: they may be the last of their receivers, which then take the
        // lock to leave.
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
                // They may have found what they were not told of.
                self.handed_on();
                Err(error)
            }
        }
    }

    /// Has a receiver found by a pointer of its own in metadata entries
    /// ([`crate::MetadataEntry::set_receive_class`]), for as long as what this gives lives.
    /// [`EndPoint::open`] does it for an end point's entries.
    #[must_use]
    pub fn register(&self, receiver: Weak<dyn ReceiverClass>) -> ReceiveClass {
        self.inner.registry.register(receiver)
    }

    /// How many notifications led to no receiver: it had gone before, or somebody has changed a
    /// metadata entry's receive class pointer to one that there is not.
    #[must_use]
    pub fn unclaimed(&self) -> u64 {
        self.dispatch().unclaimed
    }

    /// Waits for what a receiver of one's own has recorded: takes notifications and hands them on
    /// until `look` gives something, as the library's receivers do (section 3.3). It looks at
    /// memory for a while, then sleeps; `None` waits for ever. `what` is what the error names.
    ///
    /// # Errors
    /// Those of `look`; [`Error::TimedOut`], [`Error::Woken`], [`Error::Overrun`],
    /// [`Error::System`].
    pub fn receive<T>(
        &self,
        what: &'static str,
        timeout: Option<Duration>,
        mut look: impl FnMut() -> Result<Option<T>>,
    ) -> Result<T> {
        self.wait_for(what, timeout, |_| Ok(look()?.map_or(Look::Continue(Pause::default()), Look::Break)))
    }

    /// Hands on all notifications that are there. How many there were.
    ///
    /// # Errors
    /// [`Error::Overrun`], as [`Manager::poll`].
    pub fn poll_all(&self) -> Result<usize> {
        let mut count = 0;
        // No more than the queues hold: somebody may be sending as fast as this goes.
        let limit: usize = self.inner.queues.iter().map(|queue| queue.entries() as usize).sum();
        while count < limit && self.poll()? {
            count += 1;
        }
        Ok(count)
    }

    /// Waits until a notification is handed on, by this thread or another: looks at memory for a
    /// while, then sleeps. `None` waits for ever. Returns at once if one was handed on since the
    /// last call, perhaps by one receiver's `try_` call to another that had been asked before, if
    /// there is room again in the work queue for a sender whose `try_` call found none, or if a
    /// [`Waker`] was used: ask all once more.
    ///
    /// One loop for each manager, by this or by [`Manager::arm`]: what it knows of is remembered
    /// once.
    ///
    /// # Errors
    /// [`Error::TimedOut`], [`Error::Overrun`], [`Error::System`].
    pub fn wait(&self, timeout: Option<Duration>) -> Result<()> {
        let handed_on = || self.inner.handed_on.load(Ordering::Relaxed);
        let before = handed_on();
        self.wait_for("notification", timeout, |_| {
            // Another thread that waits may have been told of it first.
            let news = self.has_news() || handed_on() != before || self.inner.sleepers.take_wake();
            let for_card = self.inner.terminus.inner.behind().is_some();
            Ok(if news { Look::Break(()) } else { Look::Continue(Pause { limit: None, for_card }) })
        })
    }

    /// Makes the manager's file readable once the next notification is there, or, if a sender's
    /// `try_` call found the work queue full, once there is room in it. True if it is so already,
    /// or if a notification was handed on since the last call, or a [`Waker`] was used: a receiver
    /// may have something that it had not when it was asked, so ask all once more. It looks as
    /// often as [`Polling`] says before it arms, so a loop needs no looking of its own.
    ///
    /// One loop for each manager, as for [`Manager::wait`].
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn arm(&self) -> Result<bool> {
        let Inner { queues, sleepers, behind, .. } = &*self.inner;
        behind.loop_sleeps(false);
        let news = || (self.has_news() || sleepers.take_wake()).then_some(());
        // What is found in memory needs no system call.
        if self.inner.polling.look(|| news().or_else(|| queues.have_some().then_some(()))).is_some() {
            return Ok(true);
        }
        let there = {
            let _one_step = self.dispatch();
            sleepers.silence();
            news().is_some() || self.arm_queues()?
        };
        behind.loop_sleeps(true);
        let there = there || self.arm_room()?;
        behind.loop_sleeps(!there);
        Ok(there)
    }

    /// The tokens of those to whom something was handed on since the last call, and of senders that
    /// found the work queue full and may find room now, in rising order: a loop that serves many
    /// asks these, and not all. Who has a token
    /// ([`crate::hamlyn::protocol::stream::StreamReceiver::set_token`] and its like) and something
    /// to give is named once; it may be asked in vain, and is to be asked until it has no more.
    #[must_use]
    pub fn ready(&self) -> Vec<u64> {
        self.inner.behind.loop_sleeps(false);
        self.look_for_room();
        let mut ready = self.inner.behind.take_ready();
        ready.extend(self.dispatch().ready.take());
        ready.into_iter().collect()
    }

    /// What ends a sleep at this manager, from any thread. Make it before somebody sleeps: a sleep
    /// that had begun before the manager's first waker was made notices within a second.
    #[must_use]
    pub fn waker(&self) -> Waker {
        self.inner.sleepers.waker()
    }

    /// Memory to send from without copying, `length` bytes, whose contents are of no meaning yet.
    ///
    /// # Errors
    /// [`Error::WouldBlock`] if it would take more than the terminus' eight send buffers, and the
    /// card still gathers from memory that was given back; [`Error::Exhausted`] if it does not;
    /// [`Error::System`].
    pub fn allocate(&self, length: usize) -> Result<Buffer> {
        self.inner.buffers.allocate(length)
    }

    /// Memory of the caller's own to send from without copying: a `Vec<u8>`, a `Box<[u8]>`, another
    /// crate's mapping. It is the library's until [`Buffer::take_back`]. It is one of the terminus'
    /// eight send buffers: who has many messages lends one piece of memory, and sends parts of it
    /// (`send_from`).
    ///
    /// # Errors
    /// Those of [`Terminus::lend`], and the memory is given back.
    pub fn lend<T: Lendable>(&self, memory: T) -> Result<Buffer, GivenBack<T>> {
        self.inner.buffers.lend(memory)
    }

    /// [`Manager::lend`] for memory that is mapped already, for other languages
    /// ([`crate::attach::Mapping::promised`]).
    ///
    /// # Errors
    /// Those of [`Manager::lend`].
    pub fn lend_mapping(&self, mapping: Mapping) -> Result<Buffer> {
        self.inner.buffers.lend_mapping(mapping)
    }

    /// Waits until `look` gives something. `None` waits for ever. `look` is told whether this is
    /// about to sleep: what takes long is looked at then only.
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
        // Who waits for the card and messages alike sleeps on the file, which stands for both.
        let mut for_card = false;
        loop {
            let by_file = for_card || self.inner.queues.several() || self.inner.sleepers.has_waker();
            let sleeper = by_file.then(|| self.inner.sleepers.lie_down());
            // What is recorded after this has its notification behind `awaited`, so the sleep is
            // over at once.
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
            let left = timeout.map(|limit| limit.saturating_sub(start.elapsed()));
            if left.is_some_and(|left| left.is_zero()) {
                return Err(Error::TimedOut { what, after: timeout.unwrap_or_default() });
            }
            for_card = pause.for_card || self.owes();
            let limit = pause.limit.into_iter().chain(left);
            match sleeper {
                Some(sleeper) => self.sleep_by_file(sleeper, for_card, limit.min(), &awaited)?,
                // It lies down first, and then looks again.
                None if for_card => {}
                None => self.inner.queues.first().wait_for(awaited.first, limit.chain([IN_DRIVER]).min())?,
            }
            // Who finds it in memory need not know what woke him before he goes on: the next wait
            // begins with that.
            if let Look::Break(found) = look(false)? {
                return Ok(found);
            }
            self.poll_all()?;
        }
    }

    /// Sleeps until anything happens that the manager's file stands for.
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

    /// Arms the queues for what comes next in each. Whether it is there in any; then some may not
    /// be armed.
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

    /// Notes that something was handed on. The lock is held.
    #[inline]
    fn handed_on(&self) {
        self.inner.handed_on.fetch_add(1, Ordering::Relaxed);
        self.inner.sleepers.look_again();
    }

    /// Has those who sleep look again, for what they wait for is known by other means than a
    /// message. So has who has this token.
    pub(crate) fn look_again(&self, token: Option<u64>) {
        if token.is_some() {
            self.dispatch().ready.add(token);
            self.inner.handed_on.fetch_add(1, Ordering::Relaxed);
        }
        if self.inner.sleepers.has_waker() || self.inner.queues.several() {
            self.inner.sleepers.ring();
        }
    }

    /// Room for the notifications of a receiver with so many metadata entries, in one more queue if
    /// there is no other.
    fn enter(&self, entries: u32) -> Result<Room> {
        self.inner.registry.enter(entries, |number, length| {
            let queue = self.inner.card.create_queue(length)?;
            watch(&self.inner.sleepers, queue.file())?;
            self.inner.queues.add(number, queue);
            Ok(())
        })
    }

    /// Whether something was handed on that the loop has not been told of, or there is room. Now it
    /// has.
    fn has_news(&self) -> bool {
        self.look_for_room();
        let room = self.inner.behind.take_news();
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

/// The manager's file is to stand for this one, too. Where there are no files (a simulation) nobody
/// sleeps.
fn watch(sleepers: &Sleepers, file: Result<impl AsFd>) -> Result<()> {
    match file {
        Ok(file) => sleepers.add(file.as_fd()),
        Err(Error::Unsupported(_)) => Ok(()),
        Err(error) => Err(error),
    }
}
