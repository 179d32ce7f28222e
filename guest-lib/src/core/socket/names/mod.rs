//! Names and connections (sections 6.3 and 6.4) for a program that attaches to a card's socket. A
//! thread of the program does what the driver does for the processes of a guest.
//!
//! The protocol is that of `hamlyn_driver_host`, the driver's own code, which is connected to the
//! card here. If a program dies, its driver part dies with it. Its peers then only notice its
//! silence, or are notified by the next program that attaches.

use std::fmt::Debug;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hamlyn_abi::family::link::{ULN_REG_HOST_ID, ULN_REG_LINK, ULN_REG_LINK_CHANGES, ULN_REG_PORTS};
use hamlyn_abi::kernel::wire::UlnWire;
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

/// How a model carries messages between operating systems, so that only operating systems can send
/// them.
pub(crate) trait Transport: Debug + Send {
    /// Sets this host's id, which is valid while the link stays up.
    fn host_is(&mut self, host: u32);

    /// Posts one message to the operating system of a host. Returns `false` if there is no space
    /// for it.
    fn post(&mut self, to: u32, entry: u32, wire: &UlnWire, data: &[u8]) -> Result<bool>;

    /// Returns the number of messages that the card has not completed.
    fn unfinished(&self) -> u32;

    /// Returns the next message that has arrived: its sender, and its entry, which stays unchanged
    /// until it is reopened.
    fn take(&mut self) -> Option<(u32, u32)>;

    /// Reads a message: returns its header, and copies name and private data into `place`.
    fn read(&self, host: u32, entry: u32, place: &mut [u8]) -> Result<UlnWire>;

    /// Makes an entry available for another message.
    fn reopen(&self, host: u32, entry: u32);

    /// Arms the interrupt for the next message; returns `true` if there is already one.
    fn arm(&self) -> bool;

    /// Returns a file that is readable once the card has interrupted.
    fn file(&self) -> Arc<OwnedFd>;
}

/// Milliseconds after which a silent host is given up: the driver's default.
const PEER_TIMEOUT: u32 = 8000;
/// How long a terminating program waits until its peers are notified.
const FAREWELL: Duration = Duration::from_secs(1);
/// Interval of the checks meanwhile.
const GLANCE: Duration = Duration::from_millis(1);
/// Kinds of work of the driver's part: arrivals and timers. The program needs a turn, too.
const KINDS_OF_WORK: usize = 2;

/// The driver's part. Stopping it notifies the peers.
#[derive(Debug)]
pub(crate) struct Names {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    client: Arc<Client>,
    /// Number of times that the card had started to discard packets.
    lapses: Arc<AtomicU32>,
    state: Mutex<State>,
    /// Makes the thread check the clock again.
    wake: OwnedFd,
}

#[derive(Debug)]
struct State {
    begun: Instant,
    system: System,
    files: Files,
    /// `None` once the card is gone, or is about to be.
    transport: Option<Box<dyn Transport>>,
    /// Number of lapses reported so far.
    lapses: u32,
}

/// Files that the thread sleeps on, besides the wake-up file.
struct Watched {
    queue: Arc<OwnedFd>,
    link: Arc<OwnedFd>,
    /// Hangs up when the card's process ends.
    card: OwnedFd,
}

impl Names {
    /// Starts the driver's part of a card's names and connections.
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

    /// Updates the link's state: the link may just have come up.
    fn look_at_link(&self) -> Result<()> {
        let looked = self.shared.lock().look_at_link(&self.shared.client);
        looked.map_err(Error::system("ask for the link"))
    }

    /// Ends all connections and listeners, and waits a while until the peers are notified. The card
    /// must be reset before this is dropped.
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
        // The transport's memory may only go with the card's tables.
        self.shared.lock().transport = transport;
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        // Connections may outlive their card.
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

    /// Reports to the driver's part if the machine was stalled.
    fn catch_up(&self, state: &mut State) {
        let lapses = self.lapses.load(Ordering::Relaxed);
        if std::mem::replace(&mut state.lapses, lapses) != lapses {
            state.call(|system, _, ports| system.lapsed(ports));
            state.work();
        }
    }

    /// Calls the driver's part.
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

    /// The thread: runs until the card is gone.
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

    /// Processes arrivals, and does what is due. Returns the time until the next work, or `None` if
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

    /// Calls the driver's part, and updates the files.
    fn call<T>(&mut self, verb: impl FnOnce(&mut System, &mut Files, &mut dyn Ports) -> T) -> T {
        let mut ports =
            CardPorts { milliseconds: self.milliseconds(), transport: self.transport.as_deref_mut() };
        let result = verb(&mut self.system, &mut self.files, &mut ports);
        self.files.show(&mut self.system);
        result
    }

    /// Does what is due: processes arrivals, answers their senders, and monitors other hosts.
    fn work(&mut self) {
        for _ in 0..KINDS_OF_WORK {
            self.call(|system, _, ports| system.work(ports));
        }
    }

    /// Handles the loss of the card. Returns the transport, which was open on it.
    fn end(&mut self) -> Option<Box<dyn Transport>> {
        let transport = self.transport.take();
        self.call(|system, _, ports| system.stop(ports));
        transport
    }

    /// Reads the state of the link and the number of its changes.
    fn look_at_link(&mut self, client: &Client) -> io::Result<()> {
        let changes = client.read_u32(REGION_BAR0, ULN_REG_LINK_CHANGES)?;
        let up = client.read_u32(REGION_BAR0, ULN_REG_LINK)? == 1;
        let host = client.read_u32(REGION_BAR0, ULN_REG_HOST_ID)?;
        if let Some(transport) = &mut self.transport {
            transport.host_is(host);
        }
        let hosts = client.read_u32(REGION_BAR0, ULN_REG_PORTS)?;
        self.call(|system, _, ports| {
            system.link_is(ports, up.then_some(host), changes);
            system.set_hosts(ports, hosts);
        });
        Ok(())
    }

    /// Returns whether a peer has not yet been notified of everything.
    fn has_to_say(&self) -> bool {
        let messages = self.system.sizes().messages;
        self.transport.as_ref().is_some_and(|transport| messages > 0 || transport.unfinished() > 0)
    }
}

/// The card as the driver's part accesses it; no transport once the card is gone.
struct CardPorts<'a> {
    milliseconds: u64,
    transport: Option<&'a mut (dyn Transport + 'static)>,
}

impl Ports for CardPorts<'_> {
    fn now(&self) -> u64 {
        self.milliseconds
    }

    // A message without space, or without a card, is sent again later.
    fn post(&mut self, host: u32, entry: u32, wire: &UlnWire, data: &[u8]) -> bool {
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

    fn read(&mut self, host: u32, entry: u32, place: &mut [u8]) -> UlnWire {
        let read = self.transport.as_ref().and_then(|transport| transport.read(host, entry, place).ok());
        read.unwrap_or_default()
    }

    fn reopen(&mut self, host: u32, entry: u32) {
        if let Some(transport) = &self.transport {
            transport.reopen(host, entry);
        }
    }
}
