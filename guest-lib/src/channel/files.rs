//! The files of one half of a channel: the half sleeps on them, or an event loop does.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, Result as Answer};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

use crate::core::remote::Remote;
use crate::core::watch::Watch;
use crate::error::{Error, Result};

const ZERO: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// A half's own file, and the set that an event loop polls.
#[derive(Debug)]
pub(super) struct Files {
    own: OwnedFd,
    set: Option<Set>,
}

impl Files {
    pub(super) fn open(remote: &dyn Remote) -> Result<Self> {
        Ok(Self { own: remote.file()?, set: None })
    }

    /// Sleeps until something arrives or the connection ends, for at most `limit`. Returns whether
    /// something has happened.
    pub(super) fn sleep(&self, watch: &Watch, limit: Option<Duration>) -> Result<bool> {
        let grace = watch.known_grace();
        // The connection's file stays readable after its end.
        let connection = watch.file().filter(|_| grace.is_none());
        let limit = limit.into_iter().chain(grace).min();
        let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
        let own = PollFd::from_borrowed_fd(self.own.as_fd(), PollFlags::IN);
        let end = connection.map(|file| PollFd::from_borrowed_fd(file, PollFlags::IN));
        let mut polled: Vec<_> = std::iter::once(own).chain(end).collect();
        match poll(&mut polled, limit.as_ref()) {
            Ok(0) | Err(Errno::INTR) => return Ok(false),
            Ok(_) => {}
            Err(errno) => return Err(Error::system("sleep at a channel")(errno.into())),
        }
        if polled[0].revents().intersects(PollFlags::HUP | PollFlags::ERR) {
            watch.end_for_good();
        } else if polled.get(1).is_some_and(|end| !end.revents().is_empty()) {
            let _ = watch.grace();
        }
        Ok(true)
    }

    /// Prepares the set for an event loop's sleep: it becomes readable when something arrives, when
    /// the connection ends, or after this time.
    pub(super) fn arm(&mut self, watch: &Watch, after: Option<Duration>) -> Result<()> {
        let failed = |errno: Errno| Error::system("prepare a channel's file")(errno.into());
        let after = after.into_iter().chain(watch.known_grace()).min();
        let set = self.set()?;
        set.watch(watch).and_then(|()| set.set_timer(after)).map_err(failed)
    }

    /// Returns the set's file.
    pub(super) fn file(&mut self) -> Result<BorrowedFd<'_>> {
        self.set().map(|set| set.files.as_fd())
    }

    fn set(&mut self) -> Result<&mut Set> {
        let failed = |errno: Errno| Error::system("open a channel's file")(errno.into());
        let set = match self.set.take() {
            Some(set) => set,
            None => Set::new(&self.own).map_err(failed)?,
        };
        Ok(self.set.insert(set))
    }
}

#[derive(Debug)]
struct Set {
    files: OwnedFd,
    timer: OwnedFd,
    has_timer: bool,
    has_connection: bool,
}

impl Set {
    fn new(own: &OwnedFd) -> Answer<Self> {
        let files = epoll::create(CreateFlags::CLOEXEC)?;
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        for file in [own, &timer] {
            epoll::add(&files, file, EventData::new_u64(0), EventFlags::IN)?;
        }
        Ok(Self { files, timer, has_timer: false, has_connection: false })
    }

    /// Includes the connection's file until its end is known.
    fn watch(&mut self, watch: &Watch) -> Answer<()> {
        let Some(connection) = watch.file() else { return Ok(()) };
        match (self.has_connection, watch.known_grace().is_some()) {
            (false, false) => {
                epoll::add(&self.files, connection, EventData::new_u64(0), EventFlags::IN)?;
            }
            (true, true) => epoll::delete(&self.files, connection)?,
            _ => return Ok(()),
        }
        self.has_connection = !self.has_connection;
        Ok(())
    }

    fn set_timer(&mut self, after: Option<Duration>) -> Answer<()> {
        if after.is_none() && !self.has_timer {
            return Ok(());
        }
        // A value of zero stops the timer.
        let after = after.map(|after| after.max(Duration::from_nanos(1)));
        let value = after.map_or(ZERO, |after| Timespec::try_from(after).unwrap_or(ZERO));
        let time = Itimerspec { it_interval: ZERO, it_value: value };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &time)?;
        self.has_timer = after.is_some();
        Ok(())
    }
}
