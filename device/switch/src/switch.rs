//! The whole switch, for an event loop.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use hamlyn_door::{Limited, ListenError, part};
use hamlyn_fabric::GeometryError;
use hamlyn_fabric::attach::{self, Request, RequestError};
use hamlyn_fabric::bell::End;
use hamlyn_fabric::express::{self, Form, Part, ShapeError};
use hamlyn_fabric::{Geometry, Heard, HostId, Link, Reason};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::thread::sched_yield;
use thiserror::Error;

use crate::bursts::{self, Bursts};
use crate::counters::SwitchCounters;
use crate::crossbar::{Crossbar, MAX_PORTS, Refusal};
use crate::mesh::Shape;
use crate::owners::{Owners, Policy};
use crate::paths::MAX_PATHS;
use crate::ports::{Client, Event, Ports};
use crate::traffic::{Misfit, Protocols};

/// The longest stall time-out in a mesh, where a host that accepts nothing blocks others. It is
/// below the time-out after which hosts consider each other dead (8 s).
const MESH_STALL: Duration = Duration::from_secs(4);

/// Approximate number of packets that one call of [`Switch::process`] moves.
const BUDGET: usize = 256;

static ATTACHED: Limited = Limited::new();
static DETACHED: Limited = Limited::new();
static CUT_OFF: Limited = Limited::new();
static REFUSED: Limited = Limited::new();

/// Settings of a switch.
#[derive(Debug, Clone)]
pub struct Options {
    /// Number of ports, 1 to [`MAX_PORTS`].
    pub ports: u16,
    /// Sizes of the rings of its links.
    pub geometry: Geometry,
    /// How long the switch polls for packets before it sleeps. Pays off only if cores are idle.
    pub spin: Duration,
    /// Paths to each output, 1 to [`MAX_PATHS`]. With more than one, packets overtake each other.
    pub paths: u16,
    /// A mesh that packets pass through, instead of paths.
    pub mesh: Option<Shape>,
    /// Seed for the choice between several paths; the same seed gives the same choices.
    pub seed: u64,
    /// How to cut and join packets of protocols that allow it.
    pub bursts: Vec<Bursts>,
    /// When to cut and join packets.
    pub cutting: bursts::Policy,
    /// How long a client may take to send its request.
    pub attach_timeout: Duration,
    /// Which users may attach, and which ports they may have.
    pub policy: Policy,
    /// How long a card may accept nothing while others wait for it, before it is detached; 0:
    /// forever.
    ///
    /// A long time-out costs the others only a little of the switch's memory, so that a card under
    /// a debugger need not be detached. In a mesh it is at most 4 s, because there such a card
    /// blocks others. A card in a mesh must also take a 64th of its ring in that time.
    pub stall_timeout: Duration,
    /// Express memory of each pair of hosts, and how it is divided into files. `None`: there is
    /// none.
    pub express: Option<(Form, Part)>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            ports: 64,
            geometry: Geometry::default(),
            spin: Duration::ZERO,
            paths: 1,
            mesh: None,
            seed: 0,
            bursts: Vec::new(),
            cutting: bursts::Policy::default(),
            attach_timeout: Duration::from_secs(2),
            policy: Policy::default(),
            stall_timeout: Duration::from_secs(30),
            express: None,
        }
    }
}

/// Why a switch cannot be created, or cannot continue.
#[derive(Debug, Error)]
pub enum SwitchError {
    /// The number of ports is out of range.
    #[error("a switch of {0} ports is not possible (limit 1 to {MAX_PORTS})")]
    Ports(u16),
    /// The number of paths is out of range.
    #[error("{0} paths to an output are not possible (limit 1 to {MAX_PATHS})")]
    Paths(u16),
    /// The mesh has fewer nodes than the switch has ports.
    #[error("a mesh of {0} has {nodes} nodes, too few for {1} ports", nodes = .0.nodes())]
    Mesh(Shape, u16),
    /// A mesh was combined with several paths.
    #[error("a mesh has one path between two nodes (asked for: {0})")]
    MeshOfPaths(u16),
    /// The ring sizes are out of range.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// The switch cannot listen at the socket's path.
    #[error("cannot listen: {0}")]
    Listen(#[from] ListenError),
    /// A card in this process cannot be attached.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A card in this process does not fit the other cards.
    #[error(transparent)]
    Misfit(#[from] Misfit),
    /// Express memory of this shape is not possible.
    #[error(transparent)]
    Express(#[from] ShapeError),
    /// The system is out of a resource.
    #[error("switch failed: {0}")]
    System(#[from] io::Error),
}

/// A crossbar with its listener, its clients and its ports' links, on one descriptor.
///
/// [`Switch::as_fd`] is readable when there is work. There is also work when the time of
/// [`Switch::next_look`] is over. Then call [`Switch::process`] until it returns 0, and
/// [`Switch::sleep`] before waiting again.
#[derive(Debug)]
pub struct Switch {
    options: Options,
    crossbar: Crossbar,
    ports: Ports,
    owners: Owners,
    protocols: Protocols,
    express: Option<express::Memory>,
    started: Instant,
    /// When there was last work.
    worked: Instant,
}

impl Switch {
    /// Creates a switch without a socket, for cards in the same process.
    pub fn new(options: Options) -> Result<Switch, SwitchError> {
        if !(1..=MAX_PORTS).contains(&options.ports) {
            return Err(SwitchError::Ports(options.ports));
        }
        if !(1..=MAX_PATHS).contains(&options.paths) {
            return Err(SwitchError::Paths(options.paths));
        }
        check_mesh(&options)?;
        options.geometry.validate()?;
        let shape = options.express.map(|(form, part)| express::Shape::new(form, options.ports, part));
        let shape = shape.transpose()?;
        Ok(Switch {
            express: shape.map(express::Memory::new).transpose()?,
            crossbar: Crossbar::new(options.ports, options.geometry)
                .with_paths(options.paths, options.seed)
                .with_mesh(options.mesh)
                .with_bursts(&options.bursts, options.cutting)
                .with_stall_timeout(stall_timeout(&options)),
            ports: Ports::new(options.ports, options.attach_timeout, &options.policy.users)?,
            owners: Owners::new(options.ports, options.policy.clone()),
            protocols: Protocols::new(options.ports, options.paths, &options.bursts),
            started: Instant::now(),
            worked: Instant::now(),
            options,
        })
    }

    /// Creates a switch that listens at `path`. The file is removed when the switch is dropped.
    pub fn bind(path: &Path, options: Options) -> Result<Switch, SwitchError> {
        let mut switch = Switch::new(options)?;
        switch.ports.listen(path)?;
        Ok(switch)
    }

    /// Attaches the switch's end of a link to a card. The card must fit the attached ones.
    fn add_port(&mut self, link: Link, request: Request) -> Result<HostId, SwitchError> {
        let Request { host: wanted, traffic, .. } = request;
        let host = self.crossbar.attach(link.sender, link.receiver, wanted)?;
        if let Err(error) = self.ports.watch(host, link.bell) {
            self.crossbar.detach(host);
            return Err(error.into());
        }
        self.protocols.attached(host, traffic);
        if let Some(unsaid) = ATTACHED.turn() {
            tracing::info!("port {host} is attached{unsaid}");
        }
        Ok(host)
    }

    /// Creates a link, attaches one end and returns the other, for a card in the same process.
    pub fn open_port(&mut self, request: Request) -> Result<(HostId, Link), SwitchError> {
        let (card, switch) = Link::pair(self.options.geometry)?;
        self.protocols.check(request.traffic)?;
        Ok((self.add_port(switch, request)?, card))
    }

    /// Detaches a port. Packets for it are dropped and counted afterwards.
    pub fn remove_port(&mut self, host: HostId) {
        self.crossbar.detach(host);
        self.clear(host);
    }

    /// Forgets which card was at a port, but not which user owns the port.
    fn clear(&mut self, host: HostId) {
        self.ports.forget(host);
        self.owners.left(host, Instant::now());
        self.protocols.left(host);
    }

    /// Returns the crossbar, for cards in the same process.
    pub fn crossbar(&mut self) -> &mut Crossbar {
        &mut self.crossbar
    }

    /// Returns a copy of all counters.
    pub fn counters(&self) -> SwitchCounters {
        self.crossbar.counters()
    }

    /// Does some of the pending work without waiting. Returns the number of events and packets; 0
    /// if there was no work.
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
        for (host, lost) in self.crossbar.take_lost() {
            if let Some(unsaid) = CUT_OFF.turn() {
                tracing::warn!("port {host} is detached: {lost}{unsaid}");
            }
            self.ports.end(host, lost.reason());
            self.clear(host);
        }
        Ok(done)
    }

    /// Requests a wake-up. Returns true if the next work makes the descriptor readable, and false
    /// if work is pending.
    pub fn sleep(&mut self) -> bool {
        self.crossbar.sleep()
    }

    /// Returns the longest time until the next call of [`Switch::process`]. `None`: until the
    /// descriptor is readable.
    pub fn next_look(&self) -> Option<Duration> {
        self.crossbar.next_look()
    }

    /// Does the pending work and returns how long there is no more: zero, a while, or `None`, which
    /// means until the descriptor is readable.
    ///
    /// This function decides when the switch sleeps: after [`Options::spin`] without a packet.
    pub fn work(&mut self) -> Result<Option<Duration>, SwitchError> {
        let busy = self.process()? > 0;
        if self.options.spin.is_zero() {
            let waits = !busy && self.sleep();
            return Ok(if waits { self.next_look() } else { Some(Duration::ZERO) });
        }
        if busy {
            self.worked = Instant::now();
        } else if self.worked.elapsed() >= self.options.spin && self.sleep() {
            // Packets that wait for a stalled card have a time limit, which no bell announces.
            return Ok(self.next_look());
        } else {
            // The process whose packets the switch polls for may need this core to run.
            sched_yield();
        }
        Ok(Some(Duration::ZERO))
    }

    /// Serves until `stop` is readable, for a caller without an event loop.
    pub fn run(&mut self, stop: BorrowedFd<'_>) -> Result<(), SwitchError> {
        loop {
            let wait = self.work()?.and_then(|wait| Timespec::try_from(wait).ok());
            let mut fds = [stop, self.as_fd()].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
            match poll(&mut fds, wait.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(io::Error::from(error).into()),
            }
            if !fds[0].revents().is_empty() {
                return Ok(());
            }
        }
    }

    fn handle(&mut self, event: Event) -> Result<(), SwitchError> {
        match event {
            Event::Listener => {
                for (client, reason) in self.ports.admit()? {
                    refuse(client, reason);
                }
            }
            Event::Timer => {
                while let Some(client) = self.ports.take_late_client()? {
                    refuse(client, format!("nothing was said for {:?}", self.options.attach_timeout));
                }
            }
            Event::Client(index) => self.greet(index)?,
            Event::Bell(host) => match self.ports.hear(host) {
                Heard::Nothing => {}
                Heard::Ring => self.crossbar.wake(host),
                Heard::End(end) => {
                    report_end(host, end);
                    if let (End::ByUs(Reason::Slow), Some(user)) = (end, self.owners.user(host)) {
                        self.ports.keep_out(user, host);
                    }
                    self.remove_port(host);
                }
            },
        }
        Ok(())
    }

    /// Reads a client's request, and attaches or refuses the client.
    fn greet(&mut self, index: usize) -> Result<(), SwitchError> {
        let request = match self.ports.read_request(index) {
            None | Some(Err(RequestError::Silent)) => return Ok(()),
            Some(request) => request,
        };
        let Some(client) = self.ports.take_client(index)? else { return Ok(()) };
        let chosen = request.map_err(|error| error.to_string()).and_then(|request| {
            let user = client.user.ok_or("its user is not known")?;
            self.protocols.check(request.traffic).map_err(|misfit| misfit.to_string())?;
            let is_free = |host| self.crossbar.free_port(Some(host)).is_ok();
            let host = self.owners.choose(user, request.host, Instant::now(), is_free);
            let host = host.map_err(|denial| denial.to_string())?;
            let host = self.crossbar.free_port(Some(host)).map_err(|refusal| refusal.to_string())?;
            Ok((Request { host: Some(host), ..request }, host, user))
        });
        let (request, host, user) = match chosen {
            Ok(chosen) => chosen,
            Err(reason) => {
                refuse(client, reason);
                return Ok(());
            }
        };
        let is_first = self.owners.is_first(host, user);
        let express = self.express.as_mut().filter(|_| request.express && is_first);
        // The switch continues if a client leaves in the middle, or if there is no memory for the
        // client.
        let link = attach::accept(client.socket, host, self.options.ports, self.options.geometry, express);
        let link = link.map_err(SwitchError::from);
        match link.and_then(|link| self.add_port(link, request)) {
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

/// Returns how long a card may accept nothing while others wait for it.
fn stall_timeout(options: &Options) -> Duration {
    match options.mesh {
        Some(_) if options.stall_timeout.is_zero() => MESH_STALL,
        Some(_) => options.stall_timeout.min(MESH_STALL),
        None => options.stall_timeout,
    }
}

/// Checks that a mesh, if there is one, has a node for each port, and that it is not combined with
/// several paths.
fn check_mesh(options: &Options) -> Result<(), SwitchError> {
    match options.mesh {
        Some(shape) if shape.nodes() < options.ports.into() => Err(SwitchError::Mesh(shape, options.ports)),
        Some(_) if options.paths > 1 => Err(SwitchError::MeshOfPaths(options.paths)),
        _ => Ok(()),
    }
}

fn report_end(host: HostId, end: End) {
    // Separate log limits: many cards that come and go must not hide one that does harm.
    if end == End::Gone {
        if let Some(unsaid) = DETACHED.turn() {
            tracing::info!("port {host} is detached: {end}{unsaid}");
        }
    } else if let Some(unsaid) = CUT_OFF.turn() {
        tracing::warn!("port {host} is detached: {end}{unsaid}");
    }
}

/// Sends a client the reason for its refusal.
fn refuse(client: Client, reason: String) {
    if let Some(unsaid) = REFUSED.turn() {
        tracing::info!("a client is refused: {reason}{unsaid}");
    }
    part(&client.socket, move |socket| attach::refuse(socket, &reason));
}

impl AsFd for Switch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ports.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stall_timeout_in_mesh_is_below_peer_timeout() {
        let options = |mesh, seconds| Options {
            mesh,
            stall_timeout: Duration::from_secs(seconds),
            ..Options::default()
        };
        let mesh = Some(Shape { columns: 2, rows: 2 });
        let seconds = |options: Options| stall_timeout(&options).as_secs();
        assert_eq!([0, 2, 30].map(|given| seconds(options(mesh, given))), [4, 2, 4]);
        assert_eq!([0, 2, 30].map(|given| seconds(options(None, given))), [0, 2, 30]);
    }
}
