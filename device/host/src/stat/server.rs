//! The server's side of stat sockets.

use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process;

use anyhow::Context;
use hamlyn_door::{Kind, Limited, Listener, Porter, Porters};
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventFlags};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};
use serde::Serialize;
use serde_json::Value;

use super::{Report, socket};
use crate::rundir;

/// Length of the queue of readers.
const READERS: i32 = 64;
/// Number of readers that are answered in one call.
const ANSWERED: usize = 8;
/// How long no reader is answered after the system has run out of descriptors.
const PAUSE: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

static DEAF: Limited = Limited::new();

/// A process's stat socket. It never blocks: poll its descriptor for input, then call
/// [`StatServer::answer`].
#[derive(Debug)]
pub struct StatServer {
    /// Watches the listener and the end of a pause.
    epoll: OwnedFd,
    timer: OwnedFd,
    listener: Listener,
    /// Closes readers' connections, together with the descriptors that readers have sent.
    porter: Porter,
    kind: String,
    name: String,
}

impl StatServer {
    /// Listens in the run directory as `kind` (`card`, `switch`), with a `name` for display.
    pub fn bind(kind: &str, name: &str) -> anyhow::Result<StatServer> {
        StatServer::bind_in(&rundir::open()?, kind, name)
    }

    /// Like [`StatServer::bind`], but in another directory.
    pub fn bind_in(dir: &Path, kind: &str, name: &str) -> anyhow::Result<StatServer> {
        // Only an earlier process with this process's id can have left a socket here.
        let listener = Listener::bind(&socket(dir, kind, process::id()), Kind::Stream, READERS)?;
        let porter = Porters::new(1).hire()?;
        let watch = || {
            let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
            let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
            let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
            epoll::add(&epoll, &timer, epoll::EventData::new_u64(0), EventFlags::IN)?;
            epoll::add(&epoll, &listener, epoll::EventData::new_u64(0), EventFlags::IN)?;
            Ok::<_, rustix::io::Errno>((epoll, timer))
        };
        let (epoll, timer) = watch().context("cannot watch the stat socket")?;
        Ok(StatServer { epoll, timer, listener, porter, kind: kind.into(), name: name.into() })
    }

    /// Answers the readers that wait. `counters` is called only if there are any.
    ///
    /// A reader that disconnects or does not read its answer does not affect the process.
    pub fn answer<C: Serialize>(&self, mut counters: impl FnMut() -> C) {
        if rustix::io::read(&self.timer, &mut [0u8; 8][..]).is_ok() {
            self.listen(EventFlags::IN, Timespec { tv_sec: 0, tv_nsec: 0 });
        }
        for _ in 0..ANSWERED {
            match self.listener.accept() {
                Ok(Some(reader)) => self.tell(reader.into(), &counters()),
                Ok(None) => return,
                Err(error) => {
                    if let Some(unsaid) = DEAF.turn() {
                        let path = self.listener.path().display();
                        tracing::warn!("cannot answer on {path} for a second: {error}{unsaid}");
                    }
                    return self.listen(EventFlags::empty(), PAUSE);
                }
            }
        }
    }

    /// Enables or disables the listener, and sets the timer that enables it again.
    fn listen(&self, flags: EventFlags, after: Timespec) {
        let timer = Itimerspec { it_value: after, it_interval: Timespec { tv_sec: 0, tv_nsec: 0 } };
        // These cannot fail: both descriptors exist.
        let _ = epoll::modify(&self.epoll, &self.listener, epoll::EventData::new_u64(0), flags);
        let _ = timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &timer);
    }

    fn tell(&self, reader: UnixStream, counters: &impl Serialize) {
        let mut reader = self.porter.keep(reader);
        let counters = serde_json::to_value(counters).unwrap_or(Value::Null);
        let report =
            Report { kind: self.kind.clone(), name: self.name.clone(), pid: process::id(), counters };
        let Ok(mut text) = serde_json::to_vec(&report) else { return };
        text.push(b'\n');
        if let Err(error) = reader.write_all(&text) {
            tracing::debug!("a reader of the counters went away: {error}");
        }
    }
}

impl AsFd for StatServer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

impl AsRawFd for StatServer {
    fn as_raw_fd(&self) -> RawFd {
        self.epoll.as_raw_fd()
    }
}
