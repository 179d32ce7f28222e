//! Names and connections (sections 6.3 and 6.4) for a program that attaches to a card's socket:
//! what the driver does for the processes of a guest, done by a thread of the program's own.
//!
//! The protocol is `hamlyn_driver_host`'s: the driver's own code, which is bound to the card here.
//! A program that dies takes its operating system's part with it, so its peers learn of that by its
//! silence, or from who attaches next.

use std::fmt::Debug;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hamlyn_abi::family::link::{
    HAMLYN_REG_HOST_ID, HAMLYN_REG_LINK, HAMLYN_REG_LINK_CHANGES, HAMLYN_REG_PORTS,
};
use hamlyn_abi::kernel::wire::HamlynWire;
use hamlyn_driver_host::{Ports, System};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::{Errno, write};

use self::files::Files;
use super::Seat;
use super::client::Client;
use super::message::REGION_BAR0;
use super::sleeper::drain;
use crate::core::attach::{ConnectionParts, ListenerParts};
use crate::error::{Error, Result};

mod files;

/// How the model takes messages from one operating system to another, so that none but they can
/// send them.
pub(crate) trait Transport: Debug + Send {
    /// This host's id, as long as the link stays.
    fn host_is(&mut self, host: u32);

    /// Posts one message to the operating system of a host. False if there is no room for it.
    fn post(&mut self, to: u32, entry: u32, wire: &HamlynWire, data: &[u8]) -> Result<bool>;

    /// How many messages the card has not finished with.
    fn unfinished(&self) -> u32;

    /// The next message that has arrived: whose it is, and its entry, which stays as it is until it
    /// is opened again.
    fn take(&mut self) -> Option<(u32, u32)>;

    /// Reads a message: its head, and name and private data into `place`.
    fn read(&self, host: u32, entry: u32, place: &mut [u8]) -> Result<HamlynWire>;

    /// An entry may take a message again.
    fn reopen(&self, host: u32, entry: u32);

    /// Has the card interrupt for the next message; true if there is one.
    fn arm(&self) -> bool;

    /// What is readable once the card has interrupted.
    fn file(&self) -> Arc<OwnedFd>;
}

/// Milliseconds without a sign of life after which a host is given up: the driver's, unless that is
/// told another.
const PEER_TIMEOUT: u32 = 8000;
/// How long a program that ends waits until its peers have heard of it.
const FAREWELL: Duration = Duration::from_secs(1);
/// How often it looks meanwhile.
const GLANCE: Duration = Duration::from_millis(1);
/// Kinds of work that the operating system's part has: what has arrived, and the time. The program
/// wants a turn, too.
const KINDS_OF_WORK: usize = 2;

/// The operating system's part. It ends, and tells its peers, when it is stopped.
#[derive(Debug)]
pub(crate) struct Names {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    client: Arc<Client>,
    /// How often the card had turned to discarding.
    lapses: Arc<AtomicU32>,
    state: Mutex<State>,
    /// Has the thread look at the clock again.
    wake: OwnedFd,
}

#[derive(Debug)]
struct State {
    begun: Instant,
    system: System,
    files: Files,
    /// None once the card is gone, or is about to be.
    transport: Option<Box<dyn Transport>>,
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
    /// Serves what the operating system's part has of a card.
    pub(crate) fn start(card: &Seat, transport: Box<dyn Transport>) -> Result<Self> {
        let failed = || Error::system("serve well-known slots");
        let watched = Watched {
            queue: transport.file(),
            link: card.interrupts.link(),
            card: card.client.hang_up().map_err(failed())?,
        };
        let system = System::new(crate::core::key::random_key()? as u32, PEER_TIMEOUT);
        let (begun, files) = (Instant::now(), Files::default());
        let mut state = State { begun, system, files, transport: Some(transport), lapses: 0 };
        state.call(|system, _, ports| system.open(ports));
        let state = Mutex::new(state);
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let wake = wake.map_err(|errno| failed()(errno.into()))?;
        let (client, lapses) = (card.client.clone(), card.lapses.clone());
        let shared = Arc::new(Shared { client, lapses, state, wake });
        shared.lock().look_at_link(&shared.client).map_err(failed())?;
        let server = shared.clone();
        let thread = std::thread::Builder::new().name("hamlyn-names".into());
        let thread = thread.spawn(move || server.run(&watched)).map_err(failed())?;
        Ok(Self { shared, thread: Some(thread) })
    }

    pub(crate) fn listen(&self, name: &str, backlog: u32) -> Result<Box<dyn ListenerParts>> {
        Ok(Box::new(files::Listener::open(&self.shared, name, backlog)?))
    }

    pub(crate) fn connect(&self, host: u32, name: &str, private: &[u8]) -> Result<Box<dyn ConnectionParts>> {
        self.look_at_link()?;
        Ok(Box::new(files::Connection::request(&self.shared, host, name, private)?))
    }

    pub(crate) fn ask(&self, host: u32, name: &str) -> Result<Box<dyn ConnectionParts>> {
        self.look_at_link()?;
        Ok(Box::new(files::Connection::ask(&self.shared, host, name)?))
    }

    /// The link may have come up this moment.
    fn look_at_link(&self) -> Result<()> {
        let looked = self.shared.lock().look_at_link(&self.shared.client);
        looked.map_err(Error::system("ask for the link"))
    }

    /// Ends everything, and waits a while until the peers have heard of it. The card is to be reset
    /// before this is dropped.
    pub(crate) fn stop(&mut self) {
        self.shared.call(|system, _, ports| system.leave(ports));
        let end = Instant::now() + FAREWELL;
        while Instant::now() < end && self.shared.lock().has_to_say() {
            std::thread::sleep(GLANCE);
        }
        let transport = self.shared.lock().end();
        self.shared.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        // Its memory goes with the card's tables.
        self.shared.lock().transport = transport;
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        // Connections may be held for longer than their card.
        self.shared.lock().transport = None;
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        let _ = write(&self.wake, &1_u64.to_ne_bytes());
    }

    /// Tells the operating system's part whether the machine stood still.
    fn catch_up(&self, state: &mut State) {
        let lapses = self.lapses.load(Ordering::Relaxed);
        if std::mem::replace(&mut state.lapses, lapses) != lapses {
            state.call(|system, _, ports| system.lapsed(ports));
            state.work();
        }
    }

    /// Calls the operating system's part.
    fn call<T>(&self, verb: impl FnOnce(&mut System, &mut Files, &mut dyn Ports) -> T) -> T {
        let mut state = self.lock();
        self.catch_up(&mut state);
        let due = state.system.due();
        let result = state.call(verb);
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

    /// Takes what has arrived, and does what is due. How long there is nothing to do then; none:
    /// the card is gone.
    fn turn(&self, gone: bool, linked: bool) -> Option<Option<Duration>> {
        let mut state = self.lock();
        state.transport.as_ref()?;
        self.catch_up(&mut state);
        if gone || linked && state.look_at_link(&self.client).is_err() {
            state.end();
            return None;
        }
        state.call(|system, _, ports| system.arrived(ports));
        state.work();
        let now = state.milliseconds();
        Some(state.system.due().map(|due| Duration::from_millis(due.saturating_sub(now))))
    }
}

impl State {
    fn milliseconds(&self) -> u64 {
        self.begun.elapsed().as_millis() as u64
    }

    /// Calls the operating system's part, and makes the files show what comes of it.
    fn call<T>(&mut self, verb: impl FnOnce(&mut System, &mut Files, &mut dyn Ports) -> T) -> T {
        let mut ports =
            CardPorts { milliseconds: self.milliseconds(), transport: self.transport.as_deref_mut() };
        let result = verb(&mut self.system, &mut self.files, &mut ports);
        self.files.show(&mut self.system);
        result
    }

    /// Does what is due: takes what has arrived, tells those who sent it, and looks after other
    /// hosts.
    fn work(&mut self) {
        for _ in 0..KINDS_OF_WORK {
            self.call(|system, _, ports| system.work(ports));
        }
    }

    /// There is no card any more. Gives back what was open on it.
    fn end(&mut self) -> Option<Box<dyn Transport>> {
        let transport = self.transport.take();
        self.call(|system, _, ports| system.stop(ports));
        transport
    }

    /// How the link is, and how often it has changed.
    fn look_at_link(&mut self, client: &Client) -> io::Result<()> {
        let changes = client.read_u32(REGION_BAR0, HAMLYN_REG_LINK_CHANGES)?;
        let up = client.read_u32(REGION_BAR0, HAMLYN_REG_LINK)? == 1;
        let host = client.read_u32(REGION_BAR0, HAMLYN_REG_HOST_ID)?;
        if let Some(transport) = &mut self.transport {
            transport.host_is(host);
        }
        let hosts = client.read_u32(REGION_BAR0, HAMLYN_REG_PORTS)?;
        self.call(|system, _, ports| {
            system.link_is(ports, up.then_some(host), changes);
            system.set_hosts(ports, hosts);
        });
        Ok(())
    }

    /// Whether a peer has not heard everything yet.
    fn has_to_say(&self) -> bool {
        let messages = self.system.sizes().messages;
        self.transport.as_ref().is_some_and(|transport| messages > 0 || transport.unfinished() > 0)
    }
}

/// The card, as the operating system's part reaches it; none once it is gone.
struct CardPorts<'a> {
    milliseconds: u64,
    transport: Option<&'a mut (dyn Transport + 'static)>,
}

impl Ports for CardPorts<'_> {
    fn now(&self) -> u64 {
        self.milliseconds
    }

    // What finds no room, or no card, is sent again by and by.
    fn post(&mut self, host: u32, entry: u32, wire: &HamlynWire, data: &[u8]) -> bool {
        self.transport
            .as_mut()
            .is_some_and(|transport| transport.post(host, entry, wire, data).unwrap_or(false))
    }

    fn take(&mut self) -> Option<(u32, u32)> {
        self.transport.as_mut()?.take()
    }

    fn more(&mut self) -> bool {
        self.transport.as_ref().is_some_and(|transport| transport.arm())
    }

    fn read(&mut self, host: u32, entry: u32, place: &mut [u8]) -> HamlynWire {
        let read = self.transport.as_ref().and_then(|transport| transport.read(host, entry, place).ok());
        read.unwrap_or_default()
    }

    fn reopen(&mut self, host: u32, entry: u32) {
        if let Some(transport) = &self.transport {
            transport.reopen(host, entry);
        }
    }
}
