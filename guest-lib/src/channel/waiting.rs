//! How a half of a channel waits: it polls, and then sleeps on its file, or an event loop does.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, Result as Answer};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

use super::ground::Ground;
use crate::core::polling::Poller;
use crate::core::watch::Watch;
use crate::error::{Error, Result};

/// Longest wait for room at the card between two checks of the connection.
pub(super) const SLICE: Duration = Duration::from_millis(100);
/// Pause of an event loop whose half waits for room at its card: no file reports that.
const PAUSE: Duration = Duration::from_millis(1);
/// Longest sleep at shared memory, in case a wake-up found no room at the peer's card.
const LIMIT: Duration = Duration::from_secs(1);

const ZERO: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// The waiting of one half.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    pub(super) poller: Arc<Poller>,
    /// Something has come since the last call of `arm`.
    pub(super) came: bool,
    /// The last look found nothing because the card had no room. It may have room by now, and no
    /// file reports that.
    pub(super) lacked_room: bool,
    /// The half's own file, opened for the first sleep; and the set that an event loop polls.
    own: Option<OwnedFd>,
    set: Option<Set>,
}

impl Waiting {
    /// Sleeps until something has arrived since the half was armed, the connection ends or the card
    /// makes room that the half waits for. May return early.
    pub(super) fn sleep<G: Ground>(
        &mut self,
        ground: &G,
        watch: &Watch,
        left: Option<Duration>,
    ) -> Result<()> {
        if std::mem::take(&mut self.lacked_room) || !ground.wait_for_room(Some(Duration::ZERO))? {
            return ground.wait_for_room(Some(left.map_or(SLICE, |left| left.min(SLICE)))).map(drop);
        }
        let left = if G::IS_SHARED { Some(left.map_or(LIMIT, |left| left.min(LIMIT))) } else { left };
        if !ground.card().arm_file()? {
            poll_files(self.own(ground)?, watch, left)?;
        }
        Ok(())
    }

    /// Prepares the half's file for an event loop's sleep. Returns whether the loop has to look
    /// again at once.
    pub(super) fn arm_file<G: Ground>(&mut self, ground: &G, watch: &Watch) -> Result<bool> {
        let lacked_room = std::mem::take(&mut self.lacked_room);
        let has_room = ground.wait_for_room(Some(Duration::ZERO))?;
        if lacked_room && has_room {
            return Ok(true);
        }
        if ground.card().arm_file()? || poll_files(self.own(ground)?, watch, Some(Duration::ZERO))? {
            return Ok(true);
        }
        let pause = if has_room { G::IS_SHARED.then_some(LIMIT) } else { Some(PAUSE) };
        let pause = pause.into_iter().chain(watch.known_grace()).min();
        let failed = |errno: Errno| Error::system("prepare a channel's file")(errno.into());
        let set = self.set(ground)?;
        set.watch(watch).and_then(|()| set.set_timer(pause)).map_err(failed)?;
        Ok(false)
    }

    /// Returns the file for an event loop: it becomes readable when something arrives, when the
    /// connection ends, or when there is another reason to look.
    pub(super) fn file<G: Ground>(&mut self, ground: &G) -> Result<BorrowedFd<'_>> {
        self.set(ground).map(|set| set.files.as_fd())
    }

    fn own<G: Ground>(&mut self, ground: &G) -> Result<&OwnedFd> {
        let own = match self.own.take() {
            Some(own) => own,
            None => ground.card().file()?,
        };
        Ok(self.own.insert(own))
    }

    fn set<G: Ground>(&mut self, ground: &G) -> Result<&mut Set> {
        let failed = |errno: Errno| Error::system("open a channel's file")(errno.into());
        let set = match self.set.take() {
            Some(set) => set,
            None => Set::new(self.own(ground)?).map_err(failed)?,
        };
        Ok(self.set.insert(set))
    }
}

/// Sleeps until something arrives or the connection ends, for at most `limit`. Returns whether
/// something has happened.
fn poll_files(own: &OwnedFd, watch: &Watch, limit: Option<Duration>) -> Result<bool> {
    let grace = watch.known_grace();
    // The connection's file stays readable after its end.
    let connection = grace.is_none().then(|| watch.file());
    let limit = limit.into_iter().chain(grace).min();
    let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
    let own = PollFd::from_borrowed_fd(own.as_fd(), PollFlags::IN);
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
        let connection = watch.file();
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
