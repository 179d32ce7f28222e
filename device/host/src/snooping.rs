//! The stores of the machine that a card watches, and the socket for the QEMU plugin that reports
//! them.
//!
//! A plugin is as hostile as its guest: any violation ends its session and nothing else. Its own
//! porter closes the descriptors it passes, because closing can block.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use hamlyn_bus::Waiter;
use hamlyn_card::card::Store;
use hamlyn_card::ports::Clock;
use hamlyn_door::{Kept, Kind, Limited, Listener, Porter, Porters};
use hamlyn_snoop::{Size, Snoop};
use rustix::event::epoll;
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::time::Timespec;

use crate::clock::SystemClock;

/// Length of the queue of plugins that wait for acceptance.
const BACKLOG: i32 = 8;
/// Maximum number of porters, including those blocked on descriptors of earlier plugins.
const MOST_PORTERS: usize = 8;
/// How long no plugin is accepted after a failure.
const REST: Duration = Duration::from_millis(50);

const LISTENER: u64 = 0;
const BELL: u64 = 1;

/// A card's view of its machine's memory.
#[derive(Debug)]
pub(crate) struct Snooping {
    snoop: Snoop,
    listener: Listener,
    porters: Porters,
    /// Watches the listener and the current plugin's bell.
    epoll: OwnedFd,
    /// A duplicate of the bell's descriptor, because the original belongs to the plugin's session.
    bell: Option<Kept<OwnedFd>>,
    /// No plugin is accepted before this time of the cards' clock.
    rests_until: Option<Duration>,
    /// What the card was last told.
    told: bool,
    log: Limited,
}

impl Snooping {
    /// Listens at `path` for a plugin that reports stores to the first `pages` pages.
    pub(crate) fn start(path: &Path, pages: u64) -> anyhow::Result<Self> {
        let failed = || format!("cannot snoop at {}", path.display());
        let snoop = Snoop::create(pages, Size::default().records).with_context(failed)?;
        let listener = Listener::bind(path, Kind::Messages, BACKLOG)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).with_context(failed)?;
        let data = epoll::EventData::new_u64(LISTENER);
        epoll::add(&epoll, &listener, data, epoll::EventFlags::IN).with_context(failed)?;
        let porters = Porters::new(MOST_PORTERS);
        let (bell, rests_until, told, log) = (None, None, false, Limited::new());
        Ok(Self { snoop, listener, porters, epoll, bell, rests_until, told, log })
    }

    /// Returns the maximum number of stores that can be pending at any moment.
    pub(crate) fn most(&self) -> usize {
        self.snoop.size().records as usize
    }

    /// Readable when [`Snooping::look`] has work. The descriptor stays the same when plugins
    /// connect and disconnect.
    pub(crate) fn as_raw_fd(&self) -> RawFd {
        self.epoll.as_raw_fd()
    }

    /// Like [`Snooping::as_raw_fd`], for threads that do not have access to `self`.
    pub(crate) fn waiter(&self) -> io::Result<Waiter> {
        Ok(Waiter::of(self.epoll.try_clone()?))
    }

    /// Starts or stops to watch a page.
    pub(crate) fn watch(&mut self, page: u64, on: bool) {
        if let Err(error) = self.snoop.watch(page, on) {
            tracing::error!("the card asked for a page that it has not: {error}");
        }
    }

    /// Returns whether stores are snooped, if that has changed since the card was last told. Stores
    /// of a plugin that has left count until the last one is taken.
    pub(crate) fn news(&mut self) -> Option<bool> {
        if self.snoop.is_attached() && self.snoop.bell().is_none() {
            return None;
        }
        let live = self.snoop.is_live();
        (std::mem::replace(&mut self.told, live) != live).then_some(live)
    }

    /// Returns whether the card was last told that stores are snooped.
    pub(crate) fn has_told(&self) -> bool {
        self.told
    }

    /// Returns the next store.
    pub(crate) fn next(&mut self) -> Option<Store> {
        let next = self.snoop.next().unwrap_or_else(|ended| {
            if let Some(unsaid) = self.log.turn() {
                tracing::warn!("{}: {ended}{unsaid}", self.listener.path().display());
            }
            self.forget_bell();
            None
        })?;
        let mut value = [0; 16];
        value[..next.bytes().len()].copy_from_slice(next.bytes());
        Store::new(next.address, value, next.bytes().len() as u8)
    }

    /// Discards all stores made until now.
    pub(crate) fn skip(&mut self) {
        for _ in 0..self.most() {
            if self.next().is_none() {
                break;
            }
        }
    }

    /// Returns `false` if there are stores to take.
    pub(crate) fn sleep(&mut self) -> bool {
        self.snoop.sleep()
    }

    /// Checks and clears the plugin's bell. Returns whether another plugin waits for acceptance.
    pub(crate) fn look(&mut self) -> bool {
        let mut events = [const { MaybeUninit::uninit() }; 2];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        // This fails if a signal interrupts it. Then the loop calls again.
        let ready = epoll::wait(&self.epoll, &mut events, Some(&now)).map_or(&mut [][..], |ready| ready.0);
        let ready = |source: u64| ready.iter().any(|event| event.data.u64() == source);
        let (bell, listener) = (ready(BELL), ready(LISTENER));
        if bell {
            self.snoop.hear();
        }
        if self.snoop.bell().is_none() {
            // The plugin has hung up. Its bell would wake the process until its last stores are
            // taken.
            self.forget_bell();
        }
        listener
    }

    /// Accepts or refuses the next plugin that waits.
    pub(crate) fn accept(&mut self) {
        match self.next_plugin() {
            Ok(None) => {}
            Ok(Some(plugin)) => self.admit(plugin),
            Err(error) => self.rest(&error),
        }
    }

    fn next_plugin(&mut self) -> anyhow::Result<Option<Kept<OwnedFd>>> {
        // Hire the porter before accepting, because a descriptor accepted without one would be
        // closed here.
        let porter = self.porters.hire()?;
        Ok(self.listener.accept()?.map(|plugin| porter.keep(plugin)))
    }

    fn admit(&mut self, plugin: Kept<OwnedFd>) {
        let porter = plugin.porter().clone();
        let admitted = self.snoop.admit(plugin).and_then(|admitted| {
            if admitted {
                self.watch_bell(&porter)?;
            }
            Ok(admitted)
        });
        let path = self.listener.path().display();
        match (admitted, self.log.turn()) {
            (_, None) => {}
            (Ok(true), Some(unsaid)) => tracing::info!("the machine at {path} tells of its stores{unsaid}"),
            (Ok(false), Some(unsaid)) => tracing::warn!("a second plugin at {path} is turned away{unsaid}"),
            (Err(error), Some(unsaid)) => tracing::warn!("no plugin at {path} after all: {error}{unsaid}"),
        }
    }

    /// Dismisses the plugin on failure, so that there is never a plugin whose bell is not watched.
    fn watch_bell(&mut self, porter: &Porter) -> Result<(), Errno> {
        self.forget_bell();
        let Some(bell) = self.snoop.bell() else { return Ok(()) };
        let watched = fcntl_dupfd_cloexec(bell, 0).and_then(|bell| {
            let bell = porter.keep(bell);
            epoll::add(&self.epoll, &bell, epoll::EventData::new_u64(BELL), epoll::EventFlags::IN)?;
            Ok(bell)
        });
        self.bell = Some(watched.inspect_err(|_| self.snoop.dismiss())?);
        Ok(())
    }

    fn forget_bell(&mut self) {
        if let Some(bell) = self.bell.take() {
            // Its porter closes the descriptor later. It must not wake the process until then.
            let _ = epoll::delete(&self.epoll, &bell);
        }
    }

    fn rest(&mut self, reason: &dyn std::fmt::Display) {
        if let Some(unsaid) = self.log.turn() {
            tracing::warn!(
                "no plugin at {} is let in for now: {reason}{unsaid}",
                self.listener.path().display()
            );
        }
        self.rests_until = Some(SystemClock.now() + REST);
        self.watch_listener(epoll::EventFlags::empty());
    }

    /// Returns when [`Snooping::tick`] must be called.
    pub(crate) fn alarm(&self) -> Option<Duration> {
        self.rests_until
    }

    /// Accepts plugins again if the rest is over.
    pub(crate) fn tick(&mut self) {
        if self.rests_until.is_some_and(|until| until <= SystemClock.now()) {
            self.rests_until = None;
            self.watch_listener(epoll::EventFlags::IN);
        }
    }

    fn watch_listener(&self, wanted: epoll::EventFlags) {
        let watched = epoll::modify(&self.epoll, &self.listener, epoll::EventData::new_u64(LISTENER), wanted);
        if let Err(error) = watched {
            tracing::error!("plugins at {} are not heard: {error}", self.listener.path().display());
        }
    }
}
