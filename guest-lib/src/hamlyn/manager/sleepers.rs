//! How the threads of a manager sleep, and how one wakes another.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::{Errno, read, write};

use crate::error::{Error, Result};

/// Those who sleep at a manager.
///
/// While it has one queue and nobody has a [`Waker`], each sleeps on its own, in the driver.
/// Otherwise one of them, the watch, sleeps on a file that stands for all that may happen, and the
/// others until the watch has risen: so nobody takes back a signal that another has not seen. A
/// thread that hands on what another sleeps for rings the bell.
#[derive(Debug)]
pub(super) struct Sleepers {
    /// Readable when a queue's file or the bell is.
    files: OwnedFd,
    bell: OwnedFd,
    /// The bell may have been rung since it was last silenced.
    rung: AtomicBool,
    /// There is a waker.
    has_waker: AtomicBool,
    /// A waker was used, and nobody has been told.
    woken: AtomicBool,
    /// How many sleep on the file or the watch, or are about to.
    asleep: AtomicU32,
    watch: Mutex<Watch>,
    risen: Condvar,
}

#[derive(Debug, Default)]
struct Watch {
    posted: bool,
    /// How often it has risen.
    rounds: u64,
}

/// Ends a sleep at a [`crate::Manager`], from any thread.
///
/// Cheap to clone. It does not keep its manager.
#[derive(Debug, Clone)]
pub struct Waker(Arc<Sleepers>);

impl Waker {
    /// One of the calls that wait at the manager ends: [`crate::Manager::wait`] as if something had
    /// come, a receiver's or sender's with [`Error::Woken`]. If none waits, the next one that would
    /// does; and [`crate::Manager::arm`] says so, and the manager's file is readable. Several
    /// wake-ups that nobody has noticed yet are one.
    ///
    /// Who has several threads that wait lets the one that was woken wake the next.
    pub fn wake(&self) {
        self.0.woken.store(true, Ordering::Release);
        self.0.ring();
    }
}

/// Somebody who is about to sleep, for as long as it lives.
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

    /// One more file that wakes. One that was added before stands for more now.
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

    /// Whether a waker was used. Who asks is told, and nobody else.
    pub(super) fn take_wake(&self) -> bool {
        self.woken.load(Ordering::Relaxed) && self.woken.swap(false, Ordering::Acquire)
    }

    /// Wakes those who sleep on the file, so that they look again. Under the lock that sleepers
    /// look under.
    #[inline]
    pub(super) fn look_again(&self) {
        if self.asleep.load(Ordering::Relaxed) != 0 {
            self.ring();
        }
    }

    pub(super) fn ring(&self) {
        // It can only fail for a bell that has been rung 2^64 times.
        let _ = write(&self.bell, &1_u64.to_ne_bytes());
        // Behind it: who finds this set finds the bell rung, and not the other way round.
        self.rung.store(true, Ordering::Release);
    }

    /// The bell was heard.
    pub(super) fn silence(&self) {
        if self.rung.load(Ordering::Relaxed) && self.rung.swap(false, Ordering::Acquire) {
            let _ = read(&self.bell, &mut [0_u8; 8]);
        }
    }

    /// To be called before the last look, and before that what is awaited is determined.
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
    /// Sleeps, if `arm` finds no reason not to. It may return early. Who was the watch calls
    /// `disarm` before it has risen.
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
        // A time-out past the end of time is none.
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
