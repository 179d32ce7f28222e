//! The sets of epoll(7) that a connection is in.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};

/// What looks at a connection no more until it has something, or the program uses it.
pub(crate) trait Watcher: std::fmt::Debug + Send + Sync {
    /// The program has used the connection that it has under this descriptor.
    fn touch(&self, fd: RawFd);
    /// The program has closed this descriptor.
    fn forget(&self, fd: RawFd);
}

/// Sets, and the descriptors by which a connection is in them.
#[derive(Debug, Default)]
pub(crate) struct Sets {
    all: Mutex<Vec<(Weak<dyn Watcher>, RawFd)>>,
    /// Whether a set has gone to sleep since the last call.
    is_armed: AtomicBool,
    /// Whether a call has changed how sets have to wait, and they were not told.
    has_changed: AtomicBool,
}

impl Sets {
    fn all(&self) -> MutexGuard<'_, Vec<(Weak<dyn Watcher>, RawFd)>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, set: Weak<dyn Watcher>, fd: RawFd) {
        self.all().push((set, fd));
    }

    pub(crate) fn remove(&self, set: &Weak<dyn Watcher>, fd: RawFd) {
        self.all().retain(|watcher| !(Weak::ptr_eq(&watcher.0, set) && watcher.1 == fd));
    }

    /// The program has closed this descriptor of the connection.
    pub(crate) fn leave(&self, fd: RawFd) {
        let sets = self.all().clone();
        for (set, _) in sets.iter().filter(|watcher| watcher.1 == fd) {
            set.upgrade().iter().for_each(|set| set.forget(fd));
        }
    }

    /// A set is about to sleep. The program's next call tells it.
    pub(crate) fn arm(&self) {
        self.is_armed.store(true, Ordering::SeqCst);
    }

    /// The program makes a call. The caller holds no lock: a set takes that of its connections.
    pub(super) fn touch(&self) {
        if self.is_armed.load(Ordering::SeqCst) && self.is_armed.swap(false, Ordering::SeqCst) {
            let sets = self.all().clone();
            for (set, fd) in sets {
                set.upgrade().iter().for_each(|set| set.touch(fd));
            }
        }
    }

    /// Notes that a call has changed which files the sets must wait for. The caller may hold locks.
    pub(super) fn note_change(&self) {
        self.has_changed.store(true, Ordering::Relaxed);
    }

    /// Wakes the sleeping sets after a noted change. The caller holds no lock, as for
    /// [`Sets::touch`].
    pub(super) fn tell_change(&self) {
        if self.has_changed.load(Ordering::Relaxed) && self.has_changed.swap(false, Ordering::Relaxed) {
            self.touch();
        }
    }
}
