//! The whole switch, for an event loop.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use hamlyn_door::{Limited, ListenError};
use hamlyn_fabric::bell::GONE;
use hamlyn_fabric::handshake::{self, RequestError};
use hamlyn_fabric::ring::GeometryError;
use hamlyn_fabric::{Geometry, Heard, HostId, Link};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::thread::sched_yield;
use thiserror::Error;

use crate::counters::SwitchCounters;
use crate::crossbar::{Crossbar, MAX_PORTS, Refusal};
use crate::owners::{Owners, Policy};
use crate::paths::MAX_PATHS;
use crate::ports::{Client, Event, Ports};

/// Packets that one call of [`Switch::process`] moves, more or less.
const BUDGET: usize = 256;

static ATTACHED: Limited = Limited::new();
static DETACHED: Limited = Limited::new();
static CUT_OFF: Limited = Limited::new();
static REFUSED: Limited = Limited::new();

/// How a switch is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Its number of ports, 1 to [`MAX_PORTS`].
    pub ports: u16,
    /// The rings of its links.
    pub geometry: Geometry,
    /// How long to go on looking for packets before it sleeps. Pays off only where cores are idle.
    pub spin: Duration,
    /// Paths to each output, 1 to [`MAX_PATHS`]. With more than one, packets overtake each other.
    pub paths: u16,
    /// Which of them do: the same every time for the same seed.
    pub seed: u64,
    /// How long a client may take to say what it wants.
    pub handshake_timeout: Duration,
    /// Who may attach, and whose the ports are.
    pub policy: Policy,
    /// How long a card may take nothing while others wait for it, before it is detached; 0: for ever. It costs the others
    /// nothing but a little of the switch's memory, so it can be long: a card under a debugger should not be missed.
    pub stall_timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            ports: 64,
            geometry: Geometry::default(),
            spin: Duration::ZERO,
            paths: 1,
            seed: 0,
            handshake_timeout: Duration::from_secs(2),
            policy: Policy::default(),
            stall_timeout: Duration::from_secs(30),
        }
    }
}

/// Why a switch cannot be, or cannot go on.
#[derive(Debug, Error)]
pub enum SwitchError {
    /// An option out of range.
    #[error("a switch of {0} ports is not possible (limit 1 to {MAX_PORTS})")]
    Ports(u16),
    /// An option out of range.
    #[error("{0} paths to an output are not possible (limit 1 to {MAX_PATHS})")]
    Paths(u16),
    /// An option out of range.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// The socket's path is of no use.
    #[error("cannot listen: {0}")]
    Listen(#[from] ListenError),
    /// A card in this process cannot be attached.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The system is out of something.
    #[error("switch failed: {0}")]
    System(#[from] io::Error),
}

/// A crossbar with its listener, its clients and its ports' wires, on one descriptor.
///
/// [`Switch::as_fd`] is readable when something is to be done, or the time of [`Switch::next_look`] is over: then call
/// [`Switch::process`] until it returns 0, and
/// then [`Switch::sleep`] before waiting again.
#[derive(Debug)]
pub struct Switch {
    options: Options,
    crossbar: Crossbar,
    ports: Ports,
    owners: Owners,
    started: Instant,
}

impl Switch {
    /// A switch without a socket: for cards in the same process.
    pub fn new(options: Options) -> Result<Switch, SwitchError> {
        if !(1..=MAX_PORTS).contains(&options.ports) {
            return Err(SwitchError::Ports(options.ports));
        }
        if !(1..=MAX_PATHS).contains(&options.paths) {
            return Err(SwitchError::Paths(options.paths));
        }
        options.geometry.validate()?;
        Ok(Switch {
            crossbar: Crossbar::new(options.ports, options.geometry)
                .with_paths(options.paths, options.seed)
                .with_stall_timeout(options.stall_timeout),
            ports: Ports::new(options.ports, options.handshake_timeout, &options.policy.users)?,
            owners: Owners::new(options.ports, options.policy.clone()),
            started: Instant::now(),
            options,
        })
    }

    /// A switch that listens at `path`. The file goes when the switch does.
    pub fn bind(path: &Path, options: Options) -> Result<Switch, SwitchError> {
        let mut switch = Switch::new(options)?;
        switch.ports.listen(path)?;
        Ok(switch)
    }

    /// Attaches the switch's end of a link.
    pub fn add_port(&mut self, link: Link, wanted: Option<HostId>) -> Result<HostId, SwitchError> {
        let host = self.crossbar.attach(link.sender, link.receiver, wanted)?;
        if let Err(error) = self.ports.watch(host, link.bell) {
            self.crossbar.detach(host);
            return Err(error.into());
        }
        if let Some(unsaid) = ATTACHED.turn() {
            tracing::info!("port {host} is attached{unsaid}");
        }
        Ok(host)
    }

    /// Makes a link, attaches one end and returns the other, for a card in the same process.
    pub fn open_port(&mut self, wanted: Option<HostId>) -> Result<(HostId, Link), SwitchError> {
        let (card, switch) = Link::pair(self.options.geometry)?;
        Ok((self.add_port(switch, wanted)?, card))
    }

    /// Detaches a port. Packets for it will be dropped and counted.
    pub fn remove_port(&mut self, host: HostId) {
        self.crossbar.detach(host);
        self.clear(host);
    }

    /// Forgets whose card was at a port, but not whose port it is.
    fn clear(&mut self, host: HostId) {
        self.ports.forget(host);
        self.owners.left(host, Instant::now());
    }

    /// The crossbar, for cards in the same process.
    pub fn crossbar(&mut self) -> &mut Crossbar {
        &mut self.crossbar
    }

    /// A copy of all counters.
    pub fn counters(&self) -> SwitchCounters {
        self.crossbar.counters()
    }

    /// Does some of what is to be done, without waiting. Returns how many events and packets that was; 0: nothing.
    pub fn process(&mut self) -> Result<usize, SwitchError> {
        let events = self.ports.events()?;
        let mut done = events.len();
        for event in events {
            self.handle(event)?;
        }
        if self.crossbar.poll() {
            done += self.crossbar.forward(BUDGET);
        }
        if self.crossbar.next_look().is_some() {
            self.crossbar.look(self.started.elapsed());
        }
        for (host, reason) in self.crossbar.take_lost() {
            if let Some(unsaid) = CUT_OFF.turn() {
                tracing::warn!("port {host} is detached: {reason}{unsaid}");
            }
            self.clear(host);
        }
        Ok(done)
    }

    /// Asks to be woken. True: nothing needs doing until the descriptor is readable. False: there is work.
    pub fn sleep(&mut self) -> bool {
        self.crossbar.sleep()
    }

    /// How long [`Switch::process`] may be left out; `None`: for as long as the descriptor is not readable.
    pub fn next_look(&self) -> Option<Duration> {
        self.crossbar.next_look()
    }

    /// Serves until `stop` is readable.
    pub fn run(&mut self, stop: BorrowedFd<'_>) -> Result<(), SwitchError> {
        self.run_with(stop, stop, |_| {})
    }

    /// Serves until `stop` is readable, and calls `serve_other` whenever `other` is.
    ///
    /// The place that decides when a switch sleeps: after [`Options::spin`] without a packet.
    pub fn run_with(
        &mut self,
        stop: BorrowedFd<'_>,
        other: BorrowedFd<'_>,
        mut serve_other: impl FnMut(&Switch),
    ) -> Result<(), SwitchError> {
        let mut last_work = Instant::now();
        loop {
            let busy = self.process()? > 0;
            if busy && !self.options.spin.is_zero() {
                last_work = Instant::now();
            }
            let spins = !self.options.spin.is_zero() && last_work.elapsed() < self.options.spin;
            let waits = !busy && !spins && self.sleep();
            if !busy && spins {
                // The process that we look for may need this core to go on.
                sched_yield();
            }
            let now = Timespec { tv_sec: 0, tv_nsec: 0 };
            let mut fds = [stop, other, self.as_fd()].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
            // Who waits for a card that takes nothing has a time limit, which no bell tells of.
            let look = self.next_look().and_then(|look| Timespec::try_from(look).ok());
            match poll(&mut fds, if waits { look.as_ref() } else { Some(&now) }) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(io::Error::from(error).into()),
            }
            let [stopped, asked, _] = fds.map(|fd| !fd.revents().is_empty());
            if stopped {
                return Ok(());
            }
            if asked {
                serve_other(self);
            }
        }
    }

    fn handle(&mut self, event: Event) -> Result<(), SwitchError> {
        match event {
            Event::Listener => {
                for (client, reason) in self.ports.admit()? {
                    refuse(&client, &reason);
                }
            }
            Event::Timer => {
                while let Some(client) = self.ports.take_late_client()? {
                    refuse(&client, &format!("nothing was said for {:?}", self.options.handshake_timeout));
                }
            }
            Event::Client(index) => self.greet(index)?,
            Event::Bell(host) => match self.ports.hear(host) {
                Heard::Nothing => {}
                Heard::Ring => self.crossbar.wake(host),
                Heard::End(reason) => {
                    // Many that come and go do not hide one that does harm.
                    let lines = if reason == GONE { &DETACHED } else { &CUT_OFF };
                    if let Some(unsaid) = lines.turn() {
                        tracing::info!("port {host} is detached: {reason}{unsaid}");
                    }
                    self.remove_port(host);
                }
            },
        }
        Ok(())
    }

    /// Hears what a client wants, and attaches or refuses it.
    fn greet(&mut self, index: usize) -> Result<(), SwitchError> {
        let Some(client) = self.ports.client(index) else { return Ok(()) };
        let request = match handshake::read_request(client) {
            Err(RequestError::Silent) => return Ok(()),
            other => other,
        };
        let Some(client) = self.ports.take_client(index)? else { return Ok(()) };
        let chosen = request.map_err(|error| error.to_string()).and_then(|request| {
            let user = client.user.ok_or("its user is not known")?;
            let is_free = |host| self.crossbar.free_port(Some(host)).is_ok();
            let host = self.owners.choose(user, request.host, Instant::now(), is_free);
            let host = host.map_err(|denial| denial.to_string())?;
            let host = self.crossbar.free_port(Some(host)).map_err(|refusal| refusal.to_string())?;
            Ok((host, user))
        });
        let (host, user) = match chosen {
            Ok(chosen) => chosen,
            Err(reason) => {
                refuse(&client, &reason);
                return Ok(());
            }
        };
        // A client that leaves in the middle is no reason to stop, nor is one that the system has no memory for.
        let link = handshake::accept(client.socket, host, self.options.ports, self.options.geometry);
        let link = link.map_err(SwitchError::from);
        match link.and_then(|link| self.add_port(link, Some(host))) {
            Ok(host) => self.owners.attached(host, user),
            Err(error) => {
                if let Some(unsaid) = REFUSED.turn() {
                    tracing::warn!("port {host} cannot be attached: {error}{unsaid}");
                }
            }
        }
        Ok(())
    }
}

fn refuse(client: &Client, reason: &str) {
    if let Some(unsaid) = REFUSED.turn() {
        tracing::info!("a client is refused: {reason}{unsaid}");
    }
    handshake::refuse(client.socket.as_fd(), reason);
}

impl AsFd for Switch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ports.as_fd()
    }
}
