//! A listening socket in an event loop. It pauses when the system has run out of descriptors,
//! because a peer that cannot be accepted would otherwise wake the loop again and again.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use anyhow::Context;
use hamlyn_door::{Limited, Listener};
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

/// How long no peer is accepted after the system has run out of descriptors.
const PAUSE: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

static DEAF: Limited = Limited::new();

/// A listener, and a descriptor to poll for input: then call [`Reception::accept`].
#[derive(Debug)]
pub(crate) struct Reception {
    /// Watches the listener, the end of a pause, and the peers that are added.
    epoll: OwnedFd,
    timer: OwnedFd,
    listener: Listener,
}

impl Reception {
    pub(crate) fn new(listener: Listener) -> anyhow::Result<Self> {
        let watch = || {
            let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
            let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
            let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
            epoll::add(&epoll, &timer, EventData::new_u64(0), EventFlags::IN)?;
            epoll::add(&epoll, &listener, EventData::new_u64(0), EventFlags::IN)?;
            Ok::<_, rustix::io::Errno>((epoll, timer))
        };
        let (epoll, timer) =
            watch().with_context(|| format!("cannot watch socket {}", listener.path().display()))?;
        Ok(Self { epoll, timer, listener })
    }

    /// Returns the next peer that waits, if any and unless this is a pause.
    pub(crate) fn accept(&self) -> Option<OwnedFd> {
        if rustix::io::read(&self.timer, &mut [0u8; 8][..]).is_ok() {
            self.listen(EventFlags::IN, Timespec { tv_sec: 0, tv_nsec: 0 });
        }
        self.listener.accept().unwrap_or_else(|error| {
            if let Some(unsaid) = DEAF.turn() {
                let path = self.listener.path().display();
                tracing::warn!("cannot answer on {path} for a second: {error}{unsaid}");
            }
            self.listen(EventFlags::empty(), PAUSE);
            None
        })
    }

    /// Watches a peer, too, for its hang-up.
    pub(crate) fn watch(&self, peer: BorrowedFd<'_>) -> rustix::io::Result<()> {
        self.watch_for(peer, EventFlags::RDHUP | EventFlags::HUP)
    }

    /// Watches a peer, too, for these events.
    pub(crate) fn watch_for(&self, peer: BorrowedFd<'_>, events: EventFlags) -> rustix::io::Result<()> {
        epoll::add(&self.epoll, peer, EventData::new_u64(1), events)
    }

    /// Ends the watch of a peer.
    pub(crate) fn forget(&self, peer: BorrowedFd<'_>) {
        let _ = epoll::delete(&self.epoll, peer);
    }

    /// Enables or disables the listener, and sets the timer that enables it again.
    fn listen(&self, flags: EventFlags, after: Timespec) {
        let timer = Itimerspec { it_value: after, it_interval: Timespec { tv_sec: 0, tv_nsec: 0 } };
        // These cannot fail: both descriptors exist.
        let _ = epoll::modify(&self.epoll, &self.listener, EventData::new_u64(0), flags);
        let _ = timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &timer);
    }
}

impl AsFd for Reception {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

impl AsRawFd for Reception {
    fn as_raw_fd(&self) -> RawFd {
        self.epoll.as_raw_fd()
    }
}
