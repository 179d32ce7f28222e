//! A thread for operations on a peer's objects that can block.
//!
//! Each peer has a porter of its own, so a blocked operation delays only that peer. The work of a
//! porter is bounded: its owner checks [`Porter::is_full`] and disconnects such a peer; the next
//! peer gets another porter. [`Porters`] bounds the number of porters.
//!
//! [`Kept`] enforces the rule: wherever it is dropped, the porter drops its object.

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

/// Maximum number of tasks that may wait for a porter. Some of them hold descriptors, whose number
/// is limited per process.
const MOST_TASKS: usize = 512;

/// Why there is no porter.
#[derive(Debug, Error)]
pub enum HireError {
    /// Earlier porters are still blocked on their peers' objects.
    #[error("{busy} porters are at work or stuck (limit {limit})")]
    TooMany {
        /// Number of porters that have not ended.
        busy: usize,
        /// Maximum number of porters.
        limit: usize,
    },
    /// The system provides no thread.
    #[error("no thread for a porter: {0}")]
    Thread(#[source] io::Error),
}

/// The porters of one listener, a bounded number.
#[derive(Debug)]
pub struct Porters {
    limit: usize,
    /// All hired porters. A thread that has ended leaves a dangling weak reference.
    hired: Vec<Weak<Shared>>,
}

impl Porters {
    /// Allows at most `limit` porters at a time, including stuck ones.
    pub fn new(limit: usize) -> Self {
        Porters { limit, hired: Vec::new() }
    }

    /// Starts a porter for a new peer. It inherits the CPU affinity and the priority of the calling
    /// thread.
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

    /// Returns the number of porters that have not ended. Unblocks a dismissed porter that is stuck
    /// writing to an eventfd.
    pub fn busy(&mut self) -> usize {
        self.hired.retain(|porter| porter.strong_count() > 0);
        for porter in self.hired.iter().filter_map(Weak::upgrade) {
            porter.free();
        }
        self.hired.len()
    }
}

/// A thread that closes and writes the objects that one peer passed. It ends when all its handles
/// and all objects that it keeps are gone.
#[derive(Debug, Clone)]
pub struct Porter(Arc<Desk>);

#[derive(Debug)]
struct Desk {
    shared: Arc<Shared>,
    thread: Thread,
}

impl Porter {
    /// Wraps an object of the peer, so that this porter drops it.
    pub fn keep<T: Send + 'static>(&self, thing: T) -> Kept<T> {
        Kept { thing: Some(thing), porter: self.clone() }
    }

    /// Runs a task that can block. Does not wait for it.
    pub fn run(&self, task: impl FnOnce() + Send + 'static) {
        self.take(Box::new(task));
    }

    /// Closes descriptors. Does not wait for that.
    pub fn close(&self, fds: Vec<OwnedFd>) {
        if !fds.is_empty() {
            self.run(move || drop(fds));
        }
    }

    /// Returns whether too many tasks wait. The peer makes closing slow, and has to be
    /// disconnected.
    pub fn is_full(&self) -> bool {
        self.0.shared.waiting.load(Ordering::Relaxed) > MOST_TASKS
    }

    /// Stops all signals, because the peer has been disconnected.
    pub fn dismiss(&self) {
        let owed = {
            let mut state = self.0.shared.lock();
            state.dismissed = true;
            std::mem::take(&mut state.owed)
        };
        owed.into_iter().for_each(|eventfd| self.run(move || drop(eventfd)));
        self.0.shared.free();
    }

    /// Returns whether all tasks and signals are done. For tests.
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

/// An object that a peer passed. Wherever this is dropped, the porter drops the object itself.
pub struct Kept<T: Send + 'static> {
    /// `None` only while it is being dropped.
    thing: Option<T>,
    porter: Porter,
}

impl<T: Send + 'static> Kept<T> {
    /// Turns the object into another one, which the porter keeps as well. `make` must not fail: a
    /// failure would drop the object here.
    pub fn map<U: Send + 'static>(mut self, make: impl FnOnce(T) -> U) -> Kept<U> {
        let made = make(self.thing.take().expect(WHOLE));
        self.porter.keep(made)
    }

    /// Returns the porter that keeps the object.
    pub fn porter(&self) -> &Porter {
        &self.porter
    }
}

impl Kept<OwnedFd> {
    /// Returns a handle to signal the descriptor. The caller must have checked that it is an
    /// eventfd.
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

/// An eventfd of the peer. The peer can fill it and make it blocking at any time, so only its
/// porter writes to it.
#[derive(Debug)]
pub struct Line(Kept<Arc<Eventfd>>);

#[derive(Debug)]
struct Eventfd {
    fd: OwnedFd,
    /// It is to be signalled, and is already in the porter's queue.
    owed: AtomicBool,
}

impl Line {
    /// Signals the eventfd soon. Signals until then are merged into one. Does not wait.
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

/// State shared by a porter and its handles.
#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Number of tasks that are not done.
    waiting: AtomicUsize,
}

#[derive(Default)]
struct State {
    /// Eventfds to be signalled; each is here at most once.
    owed: VecDeque<Arc<Eventfd>>,
    tasks: VecDeque<Box<dyn FnOnce() + Send>>,
    /// The eventfd that is being signalled.
    signalled: Option<Arc<Eventfd>>,
    at_work: bool,
    /// The peer has been disconnected.
    dismissed: bool,
    /// No handle is left, so no new work can arrive.
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
    /// Locks the state. A peer's object must not be dropped while the lock is held.
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

    /// Returns the next task. Signals come first, because a guest waits for them.
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
        // Cleared before the write: a signal requested from now on may be too late for this write,
        // and needs another.
        eventfd.owed.store(false, Ordering::Release);
        while write(&eventfd.fd, &1_u64.to_ne_bytes()) == Err(Errno::INTR) {}
        // The caller has another reference, so this does not close the eventfd.
        self.lock().signalled = None;
    }

    /// Makes space in the eventfd that the porter is stuck on, because no signal is needed after
    /// the dismissal. As long as the peer lives, it can fill the eventfd again. So this is repeated
    /// whenever the number of porters is queried.
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
