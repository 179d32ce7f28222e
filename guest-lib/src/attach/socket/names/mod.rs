//! Names and connections (sections 6.3 and 6.4) for a program that attaches to a card's socket: what the driver does for the
//! processes of a guest, done by a thread of the program's own.
//!
//! The protocol is `hamlyn_system`'s, which is bound to the card here. A program that dies takes its operating system's part
//! with it, so its peers learn of that by its silence, or from who attaches next.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hamlyn_abi::family::link::{HAMLYN_REG_LINK, HAMLYN_REG_LINK_CHANGES};
use hamlyn_abi::uapi::HAMLYN_END_LAPSED;
use hamlyn_system::{Action, System};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::{Errno, write};

use self::files::Files;
use self::slots::WellKnown;
use super::SocketAttachment;
use super::client::Client;
use super::message::REGION_BAR0;
use super::sleeper::drain;
use crate::attach::{ConnectionParts, ListenerParts};
use crate::error::{Error, Result};

mod files;
mod slots;

pub(super) use slots::has_room;

/// Milliseconds without a sign of life after which a host is given up: the driver's, unless that is told another.
const PEER_TIMEOUT: u64 = 8000;
/// How long a program that ends waits until its peers have heard of it.
const FAREWELL: Duration = Duration::from_secs(1);
/// How often it looks meanwhile.
const GLANCE: Duration = Duration::from_millis(1);
/// Messages looked at in a row: the program wants a turn, too.
const BATCH: usize = 256;

/// The operating system's part. It ends, and tells its peers, when it is stopped.
#[derive(Debug)]
pub(super) struct Names {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    client: Arc<Client>,
    /// How often the card had turned to discarding.
    lapses: Arc<AtomicU32>,
    begun: Instant,
    state: Mutex<State>,
    /// Has the thread look at the clock again.
    wake: OwnedFd,
}

#[derive(Debug)]
struct State {
    system: System,
    files: Files,
    /// None once the card is gone, or is about to be.
    slots: Option<WellKnown>,
    /// How many lapses have been told of.
    lapses: u32,
}

/// What the thread sleeps on, besides being woken.
struct Watched {
    queue: Arc<OwnedFd>,
    link: Arc<OwnedFd>,
    /// Hangs up when the card's process ends.
    card: OwnedFd,
}

impl Names {
    /// Opens the well-known slots of a card on which nothing is open, and serves them.
    pub(super) fn start(card: &SocketAttachment, lapses: Arc<AtomicU32>) -> Result<Self> {
        let failed = || Error::system("serve well-known slots");
        let slots = WellKnown::open(card)?;
        let watched = Watched {
            queue: slots.file(),
            link: card.interrupts.link(),
            card: card.client.hang_up().map_err(failed())?,
        };
        let mut system = System::new(crate::key::random_key()? as u32, PEER_TIMEOUT);
        system.start();
        let state = Mutex::new(State { system, files: Files::default(), slots: Some(slots), lapses: 0 });
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let wake = wake.map_err(|errno| failed()(errno.into()))?;
        let shared =
            Arc::new(Shared { client: card.client.clone(), lapses, begun: Instant::now(), state, wake });
        shared.lock().look_at_link(&shared.client).map_err(failed())?;
        let server = shared.clone();
        let thread = std::thread::Builder::new().name("hamlyn-names".into());
        let thread = thread.spawn(move || server.run(&watched)).map_err(failed())?;
        Ok(Self { shared, thread: Some(thread) })
    }

    pub(super) fn listen(&self, name: &str, backlog: u32) -> Result<Box<dyn ListenerParts>> {
        Ok(Box::new(files::Listener::open(&self.shared, name, backlog)?))
    }

    pub(super) fn connect(&self, host: u32, name: &str, private: &[u8]) -> Result<Box<dyn ConnectionParts>> {
        self.look_at_link()?;
        Ok(Box::new(files::Connection::request(&self.shared, host, name, private)?))
    }

    pub(super) fn ask(&self, host: u32, name: &str) -> Result<Box<dyn ConnectionParts>> {
        self.look_at_link()?;
        Ok(Box::new(files::Connection::ask(&self.shared, host, name)?))
    }

    /// The link may have come up this moment.
    fn look_at_link(&self) -> Result<()> {
        let looked = self.shared.lock().look_at_link(&self.shared.client);
        looked.map_err(Error::system("ask for the link"))
    }

    /// Ends everything, and waits a while until the peers have heard of it. The card is to be reset before this is dropped.
    pub(super) fn stop(&mut self) {
        let _ = self.shared.call(|system, _| {
            system.leave();
            Ok(())
        });
        let end = Instant::now() + FAREWELL;
        while Instant::now() < end && self.shared.lock().has_to_say() {
            std::thread::sleep(GLANCE);
        }
        let slots = self.shared.lock().end();
        self.shared.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        // Its memory goes with the card's tables.
        self.shared.lock().slots = slots;
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        // Connections may be held for longer than their card.
        self.shared.lock().slots = None;
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        let _ = write(&self.wake, &1_u64.to_ne_bytes());
    }

    /// Brings the operating system's part up to date.
    fn catch_up(&self, state: &mut State) {
        state.system.time_is(self.begun.elapsed().as_millis() as u64);
        let lapses = self.lapses.load(Ordering::Relaxed);
        if std::mem::replace(&mut state.lapses, lapses) != lapses {
            state.system.connections_lost(HAMLYN_END_LAPSED);
        }
    }

    /// Calls the operating system's part, and does what it wants done.
    fn call<T>(
        &self,
        verb: impl FnOnce(&mut System, &mut Files) -> rustix::io::Result<T>,
    ) -> rustix::io::Result<T> {
        let mut guard = self.lock();
        let state = &mut *guard;
        self.catch_up(state);
        let due = state.system.due();
        let result = verb(&mut state.system, &mut state.files);
        state.carry_out();
        if state.system.due() != due {
            self.wake();
        }
        result
    }

    /// The thread: until the card is gone.
    fn run(&self, watched: &Watched) {
        let mut timeout = Some(Duration::ZERO);
        loop {
            let mut polled = [
                PollFd::new(&self.wake, PollFlags::IN),
                PollFd::new(&watched.queue, PollFlags::IN),
                PollFd::new(&watched.link, PollFlags::IN),
                PollFd::new(&watched.card, PollFlags::empty()),
            ];
            let left = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
            if !matches!(poll(&mut polled, left.as_ref()), Ok(_) | Err(Errno::INTR)) {
                return;
            }
            let gone = !polled[3].revents().is_empty();
            let _ = drain(&self.wake);
            let linked = drain(&watched.link).unwrap_or(false);
            match self.turn(gone, linked) {
                Some(next) => timeout = next,
                None => return,
            }
        }
    }

    /// Takes what has arrived, and does what is due. How long there is nothing to do then; none: the card is gone.
    fn turn(&self, gone: bool, linked: bool) -> Option<Option<Duration>> {
        let mut state = self.lock();
        state.slots.as_ref()?;
        self.catch_up(&mut state);
        if gone || linked && state.look_at_link(&self.client).is_err() {
            state.end();
            return None;
        }
        let more = state.look();
        state.system.tick();
        state.carry_out();
        let now = self.begun.elapsed().as_millis() as u64;
        let due = state.system.due().map(|due| Duration::from_millis(due.saturating_sub(now)));
        Some(if more { Some(Duration::ZERO) } else { due })
    }
}

impl State {
    /// There is no card any more. Gives back what was open on it.
    fn end(&mut self) -> Option<WellKnown> {
        self.system.stop();
        let slots = self.slots.take();
        self.carry_out();
        slots
    }

    fn carry_out(&mut self) {
        for action in self.system.take_actions() {
            self.files.show(&self.system, &action);
            let Some(slots) = &mut self.slots else { continue };
            match action {
                // What finds no room, or no card, is sent again by and by.
                Action::Send { host, entry, wire, data } => {
                    let _ = slots.post(host, entry, &wire, &data);
                }
                Action::Reopen { host, entry } => slots.reopen(host, entry),
                Action::Decided { .. } | Action::Requests { .. } => {}
            }
        }
    }

    /// Takes what has arrived, and tells those who sent it. Returns whether there is more.
    fn look(&mut self) -> bool {
        let mut left = BATCH;
        loop {
            while left > 0 {
                let Some(arrived) = self.slots.as_mut().and_then(WellKnown::take) else { break };
                self.system.arrived(arrived.host, arrived.entry, arrived.wire, arrived.place);
                // An entry that is open again may be filled before the next is looked at.
                self.carry_out();
                left -= 1;
            }
            if left == 0 || !self.slots.as_ref().is_some_and(WellKnown::arm) {
                break;
            }
        }
        self.system.answer_peers();
        self.carry_out();
        left == 0
    }

    /// How the link is, and how often it has changed.
    fn look_at_link(&mut self, client: &Client) -> io::Result<()> {
        let changes = client.read_u32(REGION_BAR0, HAMLYN_REG_LINK_CHANGES)?;
        let up = client.read_u32(REGION_BAR0, HAMLYN_REG_LINK)? == 1;
        let host = slots::host_id(client)?;
        if let Some(slots) = &mut self.slots {
            slots.host = host;
        }
        self.system.link_is(up, changes);
        self.carry_out();
        Ok(())
    }

    /// Whether a peer has not heard everything yet.
    fn has_to_say(&self) -> bool {
        let (.., messages) = self.system.table_sizes();
        self.slots.as_ref().is_some_and(|slots| messages > 0 || slots.unfinished() > 0)
    }
}
