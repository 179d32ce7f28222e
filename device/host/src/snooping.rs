//! What a card sees of its machine's memory bus, and the door where the plugin of QEMU comes in
//! that tells of it.
//!
//! A plugin is as hostile as its guest: whatever it does ends its session, and no more. What it
//! hands over its own porter closes, because that can block.

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

/// Plugins that may wait to be let in.
const BACKLOG: i32 = 8;
/// Porters at a time, those included that are stuck with what earlier plugins handed over.
const MOST_PORTERS: usize = 8;
/// How long nobody is let in when that is not possible.
const REST: Duration = Duration::from_millis(50);

const LISTENER: u64 = 0;
const BELL: u64 = 1;

/// A card's view of its machine's memory.
#[derive(Debug)]
pub(crate) struct Snooping {
    snoop: Snoop,
    listener: Listener,
    porters: Porters,
    /// What is waited for: the listener, and the bell of the plugin that is there.
    epoll: OwnedFd,
    /// The bell, once more, as it is the plugin that it goes with and not this.
    bell: Option<Kept<OwnedFd>>,
    /// Nobody is let in before, by the cards' clock.
    rests_until: Option<Duration>,
    /// What the card was last told.
    told: bool,
    log: Limited,
}

impl Snooping {
    /// Listens at `path` for a plugin that tells of stores to the first so many pages.
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

    /// The most stores that can have been made before a moment and not been taken.
    pub(crate) fn most(&self) -> usize {
        self.snoop.size().records as usize
    }

    /// Readable when [`Snooping::look`] has something to see. Stays the same, whatever plugins come
    /// and go.
    pub(crate) fn as_raw_fd(&self) -> RawFd {
        self.epoll.as_raw_fd()
    }

    /// The same for threads that have not this.
    pub(crate) fn waiter(&self) -> io::Result<Waiter> {
        Ok(Waiter::of(self.epoll.try_clone()?))
    }

    /// Watches a page from now on, or does so no more.
    pub(crate) fn watch(&mut self, page: u64, on: bool) {
        if let Err(error) = self.snoop.watch(page, on) {
            tracing::error!("the card asked for a page that it has not: {error}");
        }
    }

    /// Whether stores are seen, if the card has not been told yet. Those of a plugin that has gone
    /// are, until the last is taken.
    pub(crate) fn news(&mut self) -> Option<bool> {
        if self.snoop.is_attached() && self.snoop.bell().is_none() {
            return None;
        }
        let live = self.snoop.is_live();
        (std::mem::replace(&mut self.told, live) != live).then_some(live)
    }

    /// Whether the card was told last that stores are seen.
    pub(crate) fn has_told(&self) -> bool {
        self.told
    }

    /// The next store.
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

    /// What was stored until now is of no interest any more.
    pub(crate) fn skip(&mut self) {
        for _ in 0..self.most() {
            if self.next().is_none() {
                break;
            }
        }
    }

    /// `false`: there is something to see.
    pub(crate) fn sleep(&mut self) -> bool {
        self.snoop.sleep()
    }

    /// Looks whether the plugin's bell rang, and whether another plugin wants to be let in. Hears
    /// the bell.
    pub(crate) fn look(&mut self) -> bool {
        let mut events = [const { MaybeUninit::uninit() }; 2];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        // It fails if a signal came: then there is another look.
        let ready = epoll::wait(&self.epoll, &mut events, Some(&now)).map_or(&mut [][..], |ready| ready.0);
        let ready = |source: u64| ready.iter().any(|event| event.data.u64() == source);
        let (bell, listener) = (ready(BELL), ready(LISTENER));
        if bell {
            self.snoop.hear();
        }
        if self.snoop.bell().is_none() {
            // It has hung up, which would wake everybody as long as its last stores are not taken.
            self.forget_bell();
        }
        listener
    }

    /// Lets in, or refuses, the next plugin that waits.
    pub(crate) fn accept(&mut self) {
        match self.next_plugin() {
            Ok(None) => {}
            Ok(Some(plugin)) => self.admit(plugin),
            Err(error) => self.rest(&error),
        }
    }

    fn next_plugin(&mut self) -> anyhow::Result<Option<Kept<OwnedFd>>> {
        // Before anybody is taken from the queue, who would have to be closed here.
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

    /// Fails without a plugin: nobody may be there whose bell is not heard.
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
            // Its porter closes it some time; until then nobody is to be woken.
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

    /// When [`Snooping::tick`] wants to be called.
    pub(crate) fn alarm(&self) -> Option<Duration> {
        self.rests_until
    }

    /// Lets plugins in again if it is time.
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
