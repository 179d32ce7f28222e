//! How the threads of a manager sleep and wake each other.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::{Errno, read, write};

use crate::error::{Error, Result};

/// The threads that sleep at a manager.
///
/// While the manager has one queue and no [`Waker`] exists, each thread sleeps separately, in the
/// driver. Otherwise one thread, the watch, sleeps on a file that covers all events, and the others
/// sleep until the watch has woken. So no thread clears a signal that another has not seen. A
/// thread that hands on what another sleeps for rings the bell.
#[derive(Debug)]
pub(super) struct Sleepers {
    /// Readable when a queue's file or the bell is.
    files: OwnedFd,
    bell: OwnedFd,
    /// The bell may have been rung since it was last cleared.
    rung: AtomicBool,
    /// A waker exists.
    has_waker: AtomicBool,
    /// A waker was used, and this has not been reported yet.
    woken: AtomicBool,
    /// Number of threads that sleep on the file or the watch, or are about to.
    asleep: AtomicU32,
    watch: Mutex<Watch>,
    risen: Condvar,
}

#[derive(Debug, Default)]
struct Watch {
    posted: bool,
    /// Number of times the watch has woken.
    rounds: u64,
}

/// Ends a sleep at a [`crate::Manager`], from any thread.
///
/// Cheap to clone. It does not keep its manager alive.
#[derive(Debug, Clone)]
pub struct Waker(Arc<Sleepers>);

impl Waker {
    /// Ends one of the calls that wait at the manager. [`crate::Manager::wait`] returns as if
    /// something had arrived; a waiting call of a receiver or sender fails with [`Error::Woken`].
    /// If no call waits, the next one that would wait returns. [`crate::Manager::arm`] then also
    /// returns true, and the manager's file is readable. Several wake-ups that have not been
    /// noticed yet count as one.
    ///
    /// If several threads wait, let the one that was woken wake the next.
    pub fn wake(&self) {
        self.0.woken.store(true, Ordering::Release);
        self.0.ring();
    }
}

/// A thread that is about to sleep, while this value lives.
#[derive(Debug)]
pub(super) struct Sleeper<'a> {
    sleepers: &'a Sleepers,
    round: u64,
}

impl Sleepers {
    pub(super) fn new() -> Result<Arc<Self>> {
        let failed = || Error::system("open a file for a manager");
        let files = epoll::create(CreateFlags::CLOEXEC).map_err(|errno| failed()(errno.into()))?;
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|errno| failed()(errno.into()))?;
        let sleepers = Self {
            files,
            bell,
            rung: AtomicBool::new(false),
            has_waker: AtomicBool::new(false),
            woken: AtomicBool::new(false),
            asleep: AtomicU32::new(0),
            watch: Mutex::default(),
            risen: Condvar::new(),
        };
        sleepers.add(sleepers.bell.as_fd())?;
        Ok(Arc::new(sleepers))
    }

    /// Adds a file that wakes the sleepers. A file that was added before may now cover more
    /// objects.
    pub(super) fn add(&self, file: BorrowedFd<'_>) -> Result<()> {
        match epoll::add(&self.files, file, EventData::new_u64(0), EventFlags::IN) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(errno) => Err(Error::system("watch a notification queue's file")(errno.into())),
        }
    }

    pub(super) fn waker(self: &Arc<Self>) -> Waker {
        self.has_waker.store(true, Ordering::Release);
        Waker(self.clone())
    }

    pub(super) fn has_waker(&self) -> bool {
        self.has_waker.load(Ordering::Acquire)
    }

    /// Returns true if a waker was used. This is reported to only one caller.
    pub(super) fn take_wake(&self) -> bool {
        self.woken.load(Ordering::Relaxed) && self.woken.swap(false, Ordering::Acquire)
    }

    /// Wakes the threads that sleep on the file, so that they look again. Called under the lock
    /// that sleepers hold when they look.
    #[inline]
    pub(super) fn look_again(&self) {
        if self.asleep.load(Ordering::Relaxed) != 0 {
            self.ring();
        }
    }

    pub(super) fn ring(&self) {
        // The write can fail only if the bell has been rung 2^64 times.
        let _ = write(&self.bell, &1_u64.to_ne_bytes());
        // After the write: a thread that sees this flag set also finds the bell rung. The reverse
        // need not hold.
        self.rung.store(true, Ordering::Release);
    }

    /// Clears the bell.
    pub(super) fn silence(&self) {
        if self.rung.load(Ordering::Relaxed) && self.rung.swap(false, Ordering::Acquire) {
            let _ = read(&self.bell, &mut [0_u8; 8]);
        }
    }

    /// Registers a sleeper. Call this before you determine what is awaited, and before the last
    /// look.
    pub(super) fn lie_down(&self) -> Sleeper<'_> {
        self.asleep.fetch_add(1, Ordering::SeqCst);
        Sleeper { sleepers: self, round: self.watch().rounds }
    }

    fn watch(&self) -> MutexGuard<'_, Watch> {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AsFd for Sleepers {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.files.as_fd()
    }
}

impl Sleeper<'_> {
    /// Sleeps, unless `arm` finds a reason not to. May return early. If this thread was the watch,
    /// it calls `disarm` before it lets the others go on.
    pub(super) fn sleep(
        self,
        timeout: Option<Duration>,
        arm: impl FnOnce() -> Result<bool>,
        disarm: impl FnOnce(),
    ) -> Result<()> {
        let mut watch = self.sleepers.watch();
        if watch.rounds != self.round {
            return Ok(());
        }
        if watch.posted {
            let _ = match timeout {
                None => self.sleepers.risen.wait(watch).map(drop).map_err(drop),
                Some(limit) => self.sleepers.risen.wait_timeout(watch, limit).map(drop).map_err(drop),
            };
            return Ok(());
        }
        watch.posted = true;
        drop(watch);
        let slept = arm().and_then(|ready| if ready { Ok(()) } else { self.sleepers.sleep(timeout) });
        self.sleepers.silence();
        disarm();
        let mut watch = self.sleepers.watch();
        (watch.posted, watch.rounds) = (false, watch.rounds + 1);
        self.sleepers.risen.notify_all();
        slept
    }
}

impl Sleepers {
    fn sleep(&self, timeout: Option<Duration>) -> Result<()> {
        // A timeout too large to represent means no timeout.
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        match poll(&mut [PollFd::new(&self.files, PollFlags::IN)], timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(Error::system("wait for a manager's file")(errno.into())),
        }
    }
}

impl Drop for Sleeper<'_> {
    fn drop(&mut self) {
        self.sleepers.asleep.fetch_sub(1, Ordering::SeqCst);
    }
}
