//! The vfio-user server of one PCI function: one socket, one client at a time, one descriptor to
//! wait for.

use crate::backing::{Backing, BackingError};
use crate::budget::Budget;
use crate::bus::Bus;
use crate::counters::Counters;
use crate::description::{Description, DescriptionError};
use crate::endpoint::Endpoint;
use crate::function::{Function, ReadToken};
use crate::gate::{Gate, OpenError};
use crate::late::LateReadError;
use crate::memory::GuestMemory;
use crate::session::{Session, Step, Turn};
use crate::socket::Received;
use hamlyn_door::{HireError, Kept, ListenError, part};
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thiserror::Error;
use tracing::{debug, info, warn};

/// Maximum number of messages handled in one call of [`Server::process`], so that a busy client
/// cannot starve others.
const MESSAGES_PER_TURN: usize = 64;

/// New clients and deadlines are checked once in this many turns while the client sends messages.
const TURNS_OF_THE_CLIENT: u32 = 16;

/// Deadline after which a deferred read is answered with all ones. It is well before QEMU's own
/// time-out, by default 5 s, because a reply after that corrupts QEMU's stream permanently.
const READ_DEADLINE: Duration = Duration::from_secs(2);

/// How long an access may wait for the function to be ready, while QEMU's processors are stalled.
/// It is longer than a SHRIMP card waits for a slow destination (3 s), and shorter than QEMU's
/// time-out, as above.
const ACCESS_DEADLINE: Duration = Duration::from_secs(4);

/// How long a client may take to negotiate a version, because it blocks the next client's place.
/// QEMU needs no time for this.
const VERSION_DEADLINE: Duration = Duration::from_secs(5);

/// An oversized message is drained if it has at most this many bytes. Otherwise the client is
/// disconnected.
const MOST_DRAINED: u32 = 4 << 20;

/// Why a client with slow wake-ups is disconnected.
const SLOW: &str = "its wake-ups take too long, several times in a row: too much polls its socket";

const CLIENT: u64 = 0;
const TIMER: u64 = 1;
const LISTENER: u64 = 2;
const BELL: u64 = 3;

/// How long a client waits for the end of another one before it is turned away.
const SECOND_CLIENT: Duration = Duration::from_secs(1);

/// Why a server cannot start or continue.
#[derive(Debug, Error)]
pub enum ServerError {
    /// The function cannot be served as described.
    #[error(transparent)]
    Description(#[from] DescriptionError),
    /// The file cannot back its BAR.
    #[error(transparent)]
    Backing(#[from] BackingError),
    /// The socket could not be created.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The porter's thread could not be started.
    #[error(transparent)]
    Porter(#[from] HireError),
    /// Memory for mapped BARs could not be allocated.
    #[error("memory for the mapped BARs cannot be had: {0}")]
    Memory(#[source] std::io::Error),
    /// The system refuses to poll the sockets, or to accept a client.
    #[error("{action}: {source}")]
    System {
        /// The failed operation.
        action: &'static str,
        /// The system's error.
        source: Errno,
    },
}

impl From<OpenError> for ServerError {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Listen(error) => error.into(),
            OpenError::Hire(error) => error.into(),
        }
    }
}

fn system(action: &'static str) -> impl Fn(Errno) -> ServerError {
    move |source| ServerError::System { action, source }
}

/// A vfio-user server for one PCI function.
///
/// The server never blocks: operations that can block run in a separate thread of each client, its
/// porter. The owner waits until the server's descriptor ([`AsFd`]) is readable, level triggered,
/// and then calls [`Server::process`]. The descriptor stays the same for the server's lifetime,
/// whatever clients connect and disconnect. Dropping the server closes the client's connection and
/// removes the socket.
#[derive(Debug)]
pub struct Server {
    epoll: OwnedFd,
    timer: OwnedFd,
    gate: Gate,
    session: Option<Session>,
    endpoint: Endpoint,
    next_token: u64,
    /// Number of turns of the client since the other sources were checked.
    turns: u32,
    read_deadline: Duration,
    access_deadline: Duration,
    version_deadline: Duration,
    /// When a client that has come beside another one is turned away.
    second_waits_until: Option<Instant>,
    /// Events that the client's socket is polled for. `None` while its porter is busy.
    watched: Option<epoll::EventFlags>,
    /// When the timer expires.
    alarm: Option<Instant>,
    /// Signals work that no socket shows. Porters ring it, too.
    bell: Arc<OwnedFd>,
    /// The server itself has rung the bell.
    rang: bool,
}

impl Server {
    /// Serves a function at the socket `path`. Replaces the socket of a server that has died, but
    /// not that of a running one.
    pub fn bind(path: &Path, description: Description) -> Result<Server, ServerError> {
        Server::bind_over(path, description, None)
    }

    /// Like [`Server::bind`], for a function with one BAR that is part of a file.
    pub fn bind_over(
        path: &Path,
        description: Description,
        backing: Option<Backing>,
    ) -> Result<Server, ServerError> {
        description.validate()?;
        backing.iter().try_for_each(|backing| backing.check(&description))?;
        let endpoint = Endpoint::new(description, backing).map_err(ServerError::Memory)?;
        let gate = Gate::open(path)?;
        let watch = system("cannot wait for clients");
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(&watch)?;
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK);
        let timer = timer.map_err(&watch)?;
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(&watch)?;
        let data = epoll::EventData::new_u64;
        epoll::add(&epoll, &gate, data(LISTENER), epoll::EventFlags::IN).map_err(&watch)?;
        epoll::add(&epoll, &timer, data(TIMER), epoll::EventFlags::IN).map_err(&watch)?;
        epoll::add(&epoll, &bell, data(BELL), epoll::EventFlags::IN).map_err(&watch)?;
        Ok(Server {
            epoll,
            timer,
            gate,
            session: None,
            endpoint,
            next_token: 0,
            turns: 0,
            read_deadline: READ_DEADLINE,
            access_deadline: ACCESS_DEADLINE,
            version_deadline: VERSION_DEADLINE,
            second_waits_until: None,
            watched: None,
            alarm: None,
            bell: Arc::new(bell),
            rang: false,
        })
    }

    /// Handles pending work for a bounded time, without waiting for more: the client's messages,
    /// its disconnect, the next client, reads whose deadline has passed. Returns the number of
    /// messages handled, or 0 if there was no message.
    pub fn process(&mut self, function: &mut dyn Function) -> Result<usize, ServerError> {
        if self.rang || self.session.as_ref().is_some_and(Session::is_busy) {
            self.silence();
        }
        // The client is served first, without a poll, because a message is nearly always the reason
        // for this call. A client that has left then also makes room for the next one.
        let handled = self.serve(function);
        self.turns = if handled == 0 && !self.rang { 0 } else { (self.turns + 1) % TURNS_OF_THE_CLIENT };
        if self.turns == 0 {
            self.look_at_the_rest(function)?;
        }
        self.update_interest()?;
        Ok(handled)
    }

    /// Accepts clients and handles expired deadlines.
    fn look_at_the_rest(&mut self, function: &mut dyn Function) -> Result<(), ServerError> {
        let mut events = [const { MaybeUninit::uninit() }; 4];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let ready = match epoll::wait(&self.epoll, &mut events, Some(&now)) {
            Err(Errno::INTR) => return Ok(()),
            result => result.map_err(system("cannot wait for messages"))?.0,
        };
        let ready = |source: u64| ready.iter().any(|event| event.data.u64() == source);
        let (timer, listener, bell) = (ready(TIMER), ready(LISTENER), ready(BELL));
        if timer {
            self.expire(function)?;
        }
        if listener {
            self.accept(function)?;
        }
        if bell && !self.rang && !self.session.as_ref().is_some_and(Session::is_busy) {
            // Rung by a porter, for a client that is gone or that was told that its request takes
            // too long.
            self.silence();
        }
        Ok(())
    }

    /// Handles the client's messages while it reads its replies and there is time.
    fn serve(&mut self, function: &mut dyn Function) -> usize {
        let mut handled = 0;
        let mut budget = Budget::default();
        for steps in 0_usize.. {
            let Some(session) = &mut self.session else { break };
            if !session.connection.flush() {
                break;
            }
            let (endpoint, read_deadline) = (&mut self.endpoint, self.read_deadline);
            let access_deadline = self.access_deadline;
            let (bell, log) = (&self.bell, &self.gate.log);
            let budget = &mut budget;
            let mut turn = Turn { endpoint, function, read_deadline, access_deadline, budget, bell, log };
            if session.is_busy() {
                match session.go_on(&mut turn) {
                    Step::Done => {
                        handled += 1;
                        continue;
                    }
                    Step::Waits => {
                        // A request of a client that has left is dropped, so that the next client
                        // can connect.
                        if session.is_held() && session.has_left() {
                            self.disconnect(function, "it left");
                        }
                        break;
                    }
                    Step::Spent => {
                        self.ring();
                        break;
                    }
                }
            }
            if session.connection.porter().is_full() {
                self.disconnect(function, "what it hands over cannot be closed in time");
                break;
            }
            let dry = session.connection.is_dry();
            if steps >= MESSAGES_PER_TURN || steps > 0 && !dry && turn.budget.is_spent() {
                // The descriptor does not signal bytes that were read ahead.
                if session.connection.has_read_ahead() {
                    self.ring();
                }
                break;
            }
            match session.connection.receive() {
                Received::Message(message) => {
                    let token = ReadToken(self.next_token);
                    self.next_token += 1;
                    session.handle(message, &mut turn, token);
                    handled += usize::from(!session.is_busy());
                }
                Received::Oversized(header) => {
                    session.refuse_oversized(header, &mut turn);
                    handled += 1;
                    if header.size > MOST_DRAINED {
                        self.disconnect(function, "its message has too many bytes to be thrown away");
                    }
                }
                Received::Drained => {}
                Received::Nothing => break,
                Received::Closed => self.disconnect(function, "it left"),
                Received::Slow => self.disconnect_slow(function),
                Received::OutOfStep(header) => {
                    self.endpoint.counters.refused += 1;
                    debug!("a message of {} bytes is shorter than its own header", header.size);
                    self.disconnect(function, "its stream is out of step");
                }
            }
        }
        handled
    }

    fn ring(&mut self) {
        self.rang = true;
        // This cannot fail: only the server has the descriptor, and ringing it never blocks.
        let _ = rustix::io::write(&*self.bell, &1_u64.to_ne_bytes());
    }

    fn silence(&mut self) {
        self.rang = false;
        let _ = rustix::io::read(&*self.bell, &mut [0; 8]);
    }

    /// Disconnects a client whose wake-ups were slow too often, and accepts no client for a while.
    fn disconnect_slow(&mut self, function: &mut dyn Function) {
        let penalty = self.session.as_ref().and_then(|session| session.connection.penalty());
        self.disconnect(function, SLOW);
        self.gate.rest(&SLOW, penalty.unwrap_or_default());
        let _ = self.watch_listener(epoll::EventFlags::empty());
    }

    fn disconnect(&mut self, function: &mut dyn Function, reason: &str) {
        let Some(session) = self.session.take() else { return };
        if let Some(unsaid) = self.gate.log.turn() {
            info!("client of {} is gone: {reason}{unsaid}", self.path().display());
        }
        if self.watched.take().is_some() {
            // The porter closes the socket later. Events on the socket until then do not matter.
            let _ = epoll::delete(&self.epoll, &session.connection);
        }
        self.endpoint.disconnect(function);
    }

    /// Accepts the next client, or turns it away. The listener stays readable while more wait.
    fn accept(&mut self, function: &mut dyn Function) -> Result<(), ServerError> {
        // Remaining requests of a client that has left are carried out first, so the next client
        // waits. A request that has to wait is dropped, because nothing reads its reply.
        match &self.session {
            Some(session) if session.has_left() && session.waits() => self.disconnect(function, "it left"),
            Some(session) if session.has_left() => return Ok(()),
            _ => {}
        }
        if self.session.is_none() || !self.second_waits() {
            self.second_waits_until = None;
            if let Some(client) = self.gate.accept(self.session.is_none()) {
                self.admit(client);
            }
        }
        if self.gate.rests_until.is_some() {
            self.watch_listener(epoll::EventFlags::empty())?;
        }
        Ok(())
    }

    /// Serves a client from now on, or turns it away if there is one already.
    fn admit(&mut self, client: Kept<OwnedFd>) {
        if self.session.is_some() {
            self.endpoint.counters.clients_refused += 1;
            if let Some(unsaid) = self.gate.log.turn() {
                warn!("a second client of {} is turned away{unsaid}", self.path().display());
            }
            part(&client, |_| {});
            return;
        }
        if let Some(unsaid) = self.gate.log.turn() {
            info!("client of {} has come{unsaid}", self.path().display());
        }
        self.endpoint.counters.clients += 1;
        self.session = Some(Session::new(client, self.version_deadline));
    }

    /// Returns whether the next client still has to wait for the end of the present one. The kernel
    /// may close the socket of a process a while after its end, and a restarted machine must not be
    /// turned away meanwhile.
    fn second_waits(&mut self) -> bool {
        let now = Instant::now();
        let until = *self.second_waits_until.get_or_insert(now + SECOND_CLIENT);
        if now < until {
            self.gate.rests_until = Some(until.min(now + SECOND_CLIENT / 20));
        }
        now < until
    }

    fn watch_listener(&self, wanted: epoll::EventFlags) -> Result<(), ServerError> {
        let data = epoll::EventData::new_u64(LISTENER);
        epoll::modify(&self.epoll, &self.gate, data, wanted).map_err(system("cannot wait for clients"))
    }

    /// Handles all deadlines that have passed.
    fn expire(&mut self, function: &mut dyn Function) -> Result<(), ServerError> {
        let now = Instant::now();
        self.expire_late_reads(now);
        if self.session.as_ref().is_some_and(|session| session.is_overdue(now)) {
            self.disconnect(function, "it has not agreed on a version in time");
        }
        if self.gate.rests_until.is_some_and(|until| until <= now) {
            self.gate.rests_until = None;
            self.watch_listener(epoll::EventFlags::IN)?;
        }
        Ok(())
    }

    fn expire_late_reads(&mut self, now: Instant) {
        let Some(session) = &mut self.session else { return };
        let replies = session.late.expire(now);
        if !replies.is_empty() {
            self.endpoint.counters.expired_reads += replies.len() as u64;
            let deadline = self.read_deadline;
            if let Some(unsaid) = self.gate.log.turn() {
                let count = replies.len();
                warn!(
                    "{count} reads were not answered by the card in {deadline:?}: answered with ones{unsaid}"
                );
            }
        }
        for reply in replies {
            session.connection.send(reply, None);
        }
    }

    /// Updates the polled events and the timer: space for unsent bytes, or else messages, and the
    /// next deadline.
    fn update_interest(&mut self) -> Result<(), ServerError> {
        if let Some(session) = &self.session {
            let wanted = match (session.connection.has_unsent(), session.waits()) {
                (true, _) => Some(epoll::EventFlags::OUT),
                // Messages are not read now, but a disconnect must be noticed.
                (false, true) if session.is_held() => Some(epoll::EventFlags::RDHUP),
                (false, true) => None,
                (false, false) => Some(epoll::EventFlags::IN),
            };
            if wanted != self.watched {
                let data = epoll::EventData::new_u64(CLIENT);
                let client = &session.connection;
                let result = match (self.watched, wanted) {
                    (None, Some(wanted)) => epoll::add(&self.epoll, client, data, wanted),
                    (Some(_), Some(wanted)) => epoll::modify(&self.epoll, client, data, wanted),
                    (_, None) => epoll::delete(&self.epoll, client),
                };
                result.map_err(system("cannot wait for a client"))?;
                self.watched = wanted;
            }
        }
        let alarm = self.session.as_ref().and_then(Session::alarm);
        let alarm = [alarm, self.gate.rests_until].into_iter().flatten().min();
        if alarm != self.alarm {
            set_timer(&self.timer, alarm).map_err(system("cannot set a deadline"))?;
            self.alarm = alarm;
        }
        Ok(())
    }

    /// Returns an object with which a thread that does not own the server can wait for its work.
    pub fn waiter(&self) -> std::io::Result<Waiter> {
        Ok(Waiter(self.epoll.try_clone()?))
    }

    /// Answers a read for which the card returned [`crate::Answer::Later`]. An answer that comes
    /// too late is harmless.
    pub fn complete_read(&mut self, token: ReadToken, data: &[u8]) -> Result<(), LateReadError> {
        let session = self.session.as_mut().ok_or(LateReadError::Gone)?;
        let reply = session.late.complete(token, data)?;
        session.connection.send(reply, None);
        if session.connection.penalty().is_some() {
            // The client is disconnected in the next call of `process`.
            self.ring();
        }
        // A failure repeats in the owner's next call of `process`, which reports it.
        let _ = self.update_interest();
        Ok(())
    }

    /// Sets how long a card may take to answer a deferred read; 2 s by default.
    pub fn set_read_deadline(&mut self, deadline: Duration) {
        self.read_deadline = deadline;
    }

    /// Sets how long an access may wait for the function to be ready; 4 s by default.
    pub fn set_access_deadline(&mut self, deadline: Duration) {
        self.access_deadline = deadline;
    }

    /// Sets how long a client may take to negotiate a version; 5 s by default.
    pub fn set_version_deadline(&mut self, deadline: Duration) {
        self.version_deadline = deadline;
    }

    /// Sets the kind of memory that clients may map; sealed memory by default. Applies to new maps.
    pub fn set_guest_memory(&mut self, memory: GuestMemory) {
        self.endpoint.bus.dma.set_memory(memory);
    }

    /// Whether all descriptors from clients have been handled, and all interrupts signalled. Tests
    /// wait for this.
    pub fn is_idle(&self) -> bool {
        self.session.as_ref().is_none_or(|session| session.connection.porter().is_idle())
    }

    /// Returns the services of the function, for use between messages.
    pub fn bus(&self) -> &Bus {
        &self.endpoint.bus
    }

    /// Returns the counters of this server.
    pub fn counters(&self) -> &Counters {
        &self.endpoint.counters
    }

    /// Whether a client is attached.
    pub fn has_client(&self) -> bool {
        self.session.is_some()
    }

    /// Whether an access waits until the function [is ready](Function::is_ready). When it is, call
    /// [`Server::process`].
    pub fn is_held(&self) -> bool {
        self.session.as_ref().is_some_and(Session::is_held)
    }

    /// Returns the path of the socket.
    pub fn path(&self) -> &Path {
        self.gate.listener.path()
    }
}

/// Waits for a server's work, while other threads may own the server.
#[derive(Debug)]
pub struct Waiter(OwnedFd);

impl Waiter {
    /// Creates a waiter for another epoll descriptor of the owner.
    pub fn of(epoll: OwnedFd) -> Waiter {
        Waiter(epoll)
    }

    /// Blocks until [`Server::process`] has work. It may return early, and blocks forever if the
    /// server is gone.
    pub fn wait(&self) -> Result<(), ServerError> {
        match epoll::wait(&self.0, &mut [const { MaybeUninit::uninit() }; 1], None) {
            Err(Errno::INTR) | Ok(_) => Ok(()),
            Err(error) => Err(system("cannot wait for messages")(error)),
        }
    }
}

impl AsFd for Waiter {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn set_timer(timer: &OwnedFd, alarm: Option<Instant>) -> Result<(), Errno> {
    let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
    // A value of zero would disarm the timer.
    let left =
        alarm.map(|alarm| alarm.saturating_duration_since(Instant::now()).max(Duration::from_nanos(1)));
    let it_value = match left {
        None => zero,
        Some(left) => {
            Timespec::try_from(left).unwrap_or(Timespec { tv_sec: i64::from(u32::MAX), tv_nsec: 0 })
        }
    };
    timerfd_settime(timer, TimerfdTimerFlags::empty(), &Itimerspec { it_interval: zero, it_value })?;
    Ok(())
}

impl AsFd for Server {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

impl AsRawFd for Server {
    fn as_raw_fd(&self) -> RawFd {
        self.epoll.as_raw_fd()
    }
}
