//! A thread that does what can block with things that a peer handed over.
//!
//! Each peer has a porter of its own, so what blocks there holds up nobody but that peer. What is
//! given to it is bounded: its owner looks at [`Porter::is_full`] and ends such a peer, and the
//! next one gets another porter. [`Porters`] bounds how many there are.
//!
//! [`Kept`] makes the rule hold without a thought: wherever it is dropped, its thing is dropped by
//! the porter.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, IoSliceMut};
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, Thread};

use rustix::io::{Errno, ReadWriteFlags, preadv2, write};
use thiserror::Error;

/// Tasks that may wait for a porter. Some of them hold descriptors, and a process may have only so
/// many of those.
const MOST_TASKS: usize = 512;

/// Why there is no porter.
#[derive(Debug, Error)]
pub enum HireError {
    /// Earlier ones are still stuck with what their peers handed over.
    #[error("{busy} porters are at work or stuck (limit {limit})")]
    TooMany {
        /// Porters that have not ended.
        busy: usize,
        /// How many there may be.
        limit: usize,
    },
    /// The system gives no thread.
    #[error("no thread for a porter: {0}")]
    Thread(#[source] io::Error),
}

/// The porters that serve one door, a bounded number.
#[derive(Debug)]
pub struct Porters {
    limit: usize,
    /// Those that were hired; a thread that has ended leaves an empty reference.
    hired: Vec<Weak<Shared>>,
}

impl Porters {
    /// At most `limit` at a time, the stuck ones included.
    pub fn new(limit: usize) -> Self {
        Porters { limit, hired: Vec::new() }
    }

    /// A porter for a new peer. It runs where its hirer may run, with the hirer's priority.
    pub fn hire(&mut self) -> Result<Porter, HireError> {
        let busy = self.busy();
        if busy >= self.limit {
            return Err(HireError::TooMany { busy, limit: self.limit });
        }
        let shared = Arc::new(Shared::default());
        self.hired.push(Arc::downgrade(&shared));
        let of_thread = Arc::clone(&shared);
        let run = move || of_thread.work();
        let thread = thread::Builder::new()
            .name("porter".into())
            .spawn(run)
            .map_err(HireError::Thread)?
            .thread()
            .clone();
        Ok(Porter(Arc::new(Desk { shared, thread })))
    }

    /// Porters that have not ended. One that is stuck with an eventfd that nobody fills any more is
    /// freed.
    pub fn busy(&mut self) -> usize {
        self.hired.retain(|porter| porter.strong_count() > 0);
        for porter in self.hired.iter().filter_map(Weak::upgrade) {
            porter.free();
        }
        self.hired.len()
    }
}

/// A thread that closes and writes what one peer handed over. It ends when all its handles and all
/// that it keeps are gone.
#[derive(Debug, Clone)]
pub struct Porter(Arc<Desk>);

#[derive(Debug)]
struct Desk {
    shared: Arc<Shared>,
    thread: Thread,
}

impl Porter {
    /// Wraps a thing of the peer, so that it is dropped by this porter.
    pub fn keep<T: Send + 'static>(&self, thing: T) -> Kept<T> {
        Kept { thing: Some(thing), porter: self.clone() }
    }

    /// Does something that can block. Does not wait for it.
    pub fn run(&self, task: impl FnOnce() + Send + 'static) {
        self.take(Box::new(task));
    }

    /// Closes descriptors. Does not wait.
    pub fn close(&self, fds: Vec<OwnedFd>) {
        if !fds.is_empty() {
            self.run(move || drop(fds));
        }
    }

    /// Whether more waits than may: the peer makes closing slow, and has to be ended.
    pub fn is_full(&self) -> bool {
        self.0.shared.waiting.load(Ordering::Relaxed) > MOST_TASKS
    }

    /// The peer has been ended: nothing is signalled any more.
    pub fn dismiss(&self) {
        let owed = {
            let mut state = self.0.shared.lock();
            state.dismissed = true;
            std::mem::take(&mut state.owed)
        };
        owed.into_iter().for_each(|eventfd| self.run(move || drop(eventfd)));
        self.0.shared.free();
    }

    /// Whether it has nothing to do: all that was given to it has been done. For tests.
    pub fn is_idle(&self) -> bool {
        let state = self.0.shared.lock();
        !state.at_work && state.owed.is_empty() && state.tasks.is_empty()
    }

    fn take(&self, task: Box<dyn FnOnce() + Send>) {
        self.0.shared.waiting.fetch_add(1, Ordering::Relaxed);
        self.0.shared.lock().tasks.push_back(task);
        self.0.thread.unpark();
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.shared.lock().over = true;
        self.thread.unpark();
    }
}

/// A thing that a peer handed over. Wherever this is dropped, the thing itself is dropped by the
/// porter.
pub struct Kept<T: Send + 'static> {
    /// None only while it is being dropped.
    thing: Option<T>,
    porter: Porter,
}

impl<T: Send + 'static> Kept<T> {
    /// Turns it into another thing, which the porter keeps as well. `make` must not fail: a failure
    /// would drop the thing here.
    pub fn map<U: Send + 'static>(mut self, make: impl FnOnce(T) -> U) -> Kept<U> {
        let made = make(self.thing.take().expect(WHOLE));
        self.porter.keep(made)
    }

    /// The porter that keeps it.
    pub fn porter(&self) -> &Porter {
        &self.porter
    }
}

impl Kept<OwnedFd> {
    /// A way to signal it, which the caller has made sure is an eventfd.
    pub fn line(self) -> Line {
        Line(self.map(|fd| Arc::new(Eventfd { fd, owed: AtomicBool::new(false) })))
    }
}

const WHOLE: &str = "a kept thing is there until its end";

impl<T: Send + 'static> Deref for Kept<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.thing.as_ref().expect(WHOLE)
    }
}

impl<T: Send + 'static> DerefMut for Kept<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.thing.as_mut().expect(WHOLE)
    }
}

impl<T: AsFd + Send + 'static> AsFd for Kept<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        (**self).as_fd()
    }
}

impl<T: fmt::Debug + Send + 'static> fmt::Debug for Kept<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.thing.fmt(f)
    }
}

impl<T: Send + 'static> Drop for Kept<T> {
    fn drop(&mut self) {
        if let Some(thing) = self.thing.take() {
            self.porter.run(move || drop(thing));
        }
    }
}

/// An eventfd of the peer. The peer can fill it and make it a blocking one at any time: so only its
/// porter writes to it.
#[derive(Debug)]
pub struct Line(Kept<Arc<Eventfd>>);

#[derive(Debug)]
struct Eventfd {
    fd: OwnedFd,
    /// It is to be signalled, and its porter knows.
    owed: AtomicBool,
}

impl Line {
    /// Signals it soon, once for all signals until then. Does not wait.
    pub fn signal(&self) {
        if self.0.owed.swap(true, Ordering::AcqRel) {
            return;
        }
        let Desk { shared, thread } = &*self.0.porter.0;
        let mut state = shared.lock();
        if !state.dismissed {
            state.owed.push_back(Arc::clone(&self.0));
            drop(state);
            thread.unpark();
        }
    }
}

/// What a porter and those who give it work share.
#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Tasks that have not been done yet.
    waiting: AtomicUsize,
}

#[derive(Default)]
struct State {
    /// Each is here at most once.
    owed: VecDeque<Arc<Eventfd>>,
    tasks: VecDeque<Box<dyn FnOnce() + Send>>,
    /// What is being signalled.
    signalled: Option<Arc<Eventfd>>,
    at_work: bool,
    /// The peer has been ended.
    dismissed: bool,
    /// Nobody can give it anything any more.
    over: bool,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (owed, tasks) = (self.owed.len(), self.tasks.len());
        f.debug_struct("State").field("owed", &owed).field("tasks", &tasks).finish_non_exhaustive()
    }
}

enum Task {
    Signal(Arc<Eventfd>),
    Do(Box<dyn FnOnce() + Send>),
    Wait,
    End,
}

impl Shared {
    /// Locks it. Nobody may drop a peer's thing while the lock is held.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        loop {
            match self.next() {
                Task::Signal(eventfd) => self.signal(&eventfd),
                Task::Do(task) => {
                    task();
                    self.waiting.fetch_sub(1, Ordering::Relaxed);
                }
                Task::Wait => thread::park(),
                Task::End => return,
            }
        }
    }

    /// Signals come first: a guest waits for them.
    fn next(&self) -> Task {
        let mut state = self.lock();
        state.at_work = true;
        if let Some(eventfd) = state.owed.pop_front() {
            state.signalled = Some(Arc::clone(&eventfd));
            return Task::Signal(eventfd);
        }
        if let Some(task) = state.tasks.pop_front() {
            return Task::Do(task);
        }
        state.at_work = false;
        if state.over { Task::End } else { Task::Wait }
    }

    fn signal(&self, eventfd: &Eventfd) {
        // Before the write: a signal that is asked for from now on may come too late for this one,
        // and needs another.
        eventfd.owed.store(false, Ordering::Release);
        while write(&eventfd.fd, &1_u64.to_ne_bytes()) == Err(Errno::INTR) {}
        // The caller has another reference: nothing is closed here.
        self.lock().signalled = None;
    }

    /// Makes room in the eventfd that it is stuck with, for nobody waits for that any more. Its
    /// peer, as long as it lives, can fill it again: this is done whenever somebody asks how many
    /// porters there are.
    fn free(&self) {
        let state = self.lock();
        if let (true, Some(eventfd)) = (state.dismissed, &state.signalled) {
            let mut count = [0; 8];
            let _ =
                preadv2(&eventfd.fd, &mut [IoSliceMut::new(&mut count)], u64::MAX, ReadWriteFlags::NOWAIT);
        }
    }
}

#[cfg(test)]
mod tests;
