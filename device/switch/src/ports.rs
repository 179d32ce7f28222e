//! Attaching and detaching of cards: the listener, clients that have not attached yet, and the
//! bells of attached cards.
//!
//! The switch's single thread does all of this, so nothing here waits for a peer. Descriptors that
//! a peer passes are not received. A peer's socket is closed by the porter of its user, so a peer
//! that makes closing slow delays only its own user.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hamlyn_door::{
    Credentials, HireError, Kept, Kind, Limited, ListenError, Listener, Meter, Porter, Porters, credentials,
};
use hamlyn_fabric::attach::{self, Request, RequestError};
use hamlyn_fabric::{Bell, Heard, HostId, Reason};
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

use crate::owners::User;

/// Number of clients that may be attaching at once. Others wait in the listener's queue.
const CLIENTS: usize = 64;
/// Number of clients that are accepted before the switch serves its cards again.
const ADMITTED: usize = 8;
/// How long the listener is ignored when the system has no descriptor for a client, or none can be
/// closed.
const PAUSE: Duration = Duration::from_secs(1);
/// The largest number of porters: one for each user that may attach, and one for all others.
const PORTERS: usize = 256;

static PAUSED: Limited = Limited::new();

/// An event that the switch must handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// A client connected.
    Listener,
    /// A time limit may have passed.
    Timer,
    /// An attaching client sent something or left.
    Client(usize),
    /// A port's card rang or left.
    Bell(HostId),
}

impl Event {
    fn token(self) -> epoll::EventData {
        let (kind, index) = match self {
            Event::Listener => (0, 0),
            Event::Timer => (1, 0),
            Event::Client(index) => (2, index as u64),
            Event::Bell(host) => (3, u64::from(host.0)),
        };
        epoll::EventData::new_u64(kind << 32 | index)
    }

    fn from_token(token: epoll::EventData) -> Event {
        let index = token.u64() & 0xffff_ffff;
        match token.u64() >> 32 {
            0 => Event::Listener,
            1 => Event::Timer,
            2 => Event::Client(index as usize),
            _ => Event::Bell(HostId(index as u16)),
        }
    }
}

/// A client that has not attached yet.
#[derive(Debug)]
pub(crate) struct Client {
    /// Its end of the future link.
    pub(crate) socket: Kept<OwnedFd>,
    /// The client's user, if the kernel reports it.
    pub(crate) user: Option<User>,
    deadline: Instant,
}

/// State that the clients of one user share.
#[derive(Debug)]
struct Door {
    porter: Porter,
    /// Cost of waking them before they are attached.
    meter: Meter,
    /// No client is accepted before this time.
    rests_until: Option<Instant>,
}

impl Door {
    fn open(porters: &mut Porters) -> Result<Door, HireError> {
        Ok(Door { porter: porters.hire()?, meter: Meter::new(), rests_until: None })
    }

    fn keep_out(&mut self, penalty: Duration) {
        self.rests_until = self.rests_until.max(Some(Instant::now() + penalty));
    }

    /// Returns how long no client is accepted.
    fn rests(&self) -> Option<Duration> {
        self.rests_until?.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
    }
}

/// All descriptors of a switch, combined in one.
#[derive(Debug)]
pub(crate) struct Ports {
    epoll: OwnedFd,
    timer: OwnedFd,
    listener: Option<Listener>,
    /// No client is accepted until this time.
    paused: Option<Instant>,
    attach_timeout: Duration,
    clients: Vec<Option<Client>>,
    bells: Vec<Option<Arc<Bell>>>,
    porters: Porters,
    /// One entry for each user that may attach, and one for all others together.
    doors: HashMap<Option<User>, Door>,
    users: Vec<User>,
}

impl Ports {
    pub(crate) fn new(ports: u16, attach_timeout: Duration, users: &[User]) -> io::Result<Ports> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let timer =
            timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        epoll::add(&epoll, &timer, Event::Timer.token(), epoll::EventFlags::IN)?;
        Ok(Ports {
            epoll,
            timer,
            listener: None,
            paused: None,
            attach_timeout,
            clients: (0..CLIENTS).map(|_| None).collect(),
            bells: (0..ports).map(|_| None).collect(),
            porters: Porters::new(PORTERS),
            doors: HashMap::new(),
            users: users.to_vec(),
        })
    }

    pub(crate) fn listen(&mut self, path: &Path) -> Result<(), ListenError> {
        let listener = Listener::bind(path, Kind::Messages, CLIENTS as i32)?;
        let own = rustix::process::geteuid().as_raw();
        if self.users.iter().any(|&user| user != own && user != 0) {
            listener.open_to_all()?;
        }
        let failed = |error: io::Error| {
            let source = Errno::from_io_error(&error).unwrap_or(Errno::IO);
            ListenError::System { path: path.to_owned(), source }
        };
        let door = Door::open(&mut self.porters).map_err(|error| failed(io::Error::other(error)))?;
        self.doors.insert(None, door);
        epoll::add(&self.epoll, &listener, Event::Listener.token(), epoll::EventFlags::IN)
            .map_err(|error| failed(error.into()))?;
        self.listener = Some(listener);
        Ok(())
    }

    /// Returns some of the pending events. Never waits.
    pub(crate) fn events(&self) -> io::Result<Vec<Event>> {
        let mut events = Vec::with_capacity(64);
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), Some(&now)) {
            Ok(_) | Err(Errno::INTR) => {
                Ok(events.iter().map(|event| Event::from_token(event.data)).collect())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Accepts some new clients. Returns those that must be refused, with the reasons.
    pub(crate) fn admit(&mut self) -> io::Result<Vec<(Client, String)>> {
        let mut refused = Vec::new();
        for _ in 0..ADMITTED {
            let Some(listener) = self.listener.as_ref().filter(|_| self.paused.is_none()) else { break };
            let socket = match listener.accept() {
                Ok(Some(socket)) => socket,
                Ok(None) => break,
                Err(error) => {
                    self.pause(&error)?;
                    break;
                }
            };
            refused.extend(self.take_in(socket)?);
        }
        Ok(refused)
    }

    /// Gives a client a place, evicting an older silent client if necessary. Returns the client
    /// that must be refused, with the reason.
    fn take_in(&mut self, socket: OwnedFd) -> io::Result<Option<(Client, String)>> {
        let user = credentials(&socket).ok().map(|Credentials { user, .. }| user);
        let allowed = user.filter(|user| self.users.contains(user));
        let Some(door) = self.door(allowed) else { return Ok(None) };
        let (porter, rests) = (door.porter.clone(), door.rests());
        let socket = porter.keep(socket);
        let client = Client { socket, user, deadline: Instant::now() + self.attach_timeout };
        if allowed.is_none() {
            let client_name = user.map_or("an unknown user".into(), |user| format!("user {user}"));
            return Ok(Some((client, format!("{client_name} may not attach here; see --allow-user"))));
        }
        if let Some(left) = rests {
            let why = Reason::Slow;
            let reason = format!("an earlier client of this user was ended: {why}; try again in {left:.1?}");
            return Ok(Some((client, reason)));
        }
        if porter.is_full() {
            self.pause(&"what clients passed takes too long to close")?;
            return Ok(Some((client, "what earlier clients of the same user passed is being closed".into())));
        }
        let free = self.clients.iter().position(Option::is_none);
        let (place, evicted) = match free {
            Some(place) => (place, None),
            None => self.make_room()?,
        };
        let token = Event::Client(place).token();
        if let Err(error) = epoll::add(&self.epoll, &client.socket, token, epoll::EventFlags::IN) {
            // A client that was evicted to make room is dropped without a reason.
            return Ok(Some((client, format!("the system has no watch for it: {error}"))));
        }
        self.clients[place] = Some(client);
        self.set_next_deadline()?;
        Ok(evicted.map(|client| (client, "others wait, and nothing was said yet".into())))
    }

    /// Removes the oldest client of the user that holds the most places.
    fn make_room(&mut self) -> io::Result<(usize, Option<Client>)> {
        let of =
            |user: Option<User>| self.clients.iter().flatten().filter(|client| client.user == user).count();
        let greed = |client: &Client| (of(client.user), std::cmp::Reverse(client.deadline));
        let clients = self.clients.iter().enumerate();
        let place = clients
            .filter_map(|(place, client)| Some((place, greed(client.as_ref()?))))
            .max_by_key(|(_, greed)| *greed)
            .map_or(0, |(place, _)| place);
        Ok((place, self.take_client(place)?))
    }

    /// Returns the door of a user that may attach, or that of all others. The latter exists as soon
    /// as there is a listener.
    fn door(&mut self, user: Option<User>) -> Option<&mut Door> {
        if !self.doors.contains_key(&user) {
            match Door::open(&mut self.porters) {
                Ok(door) => drop(self.doors.insert(user, door)),
                Err(error) => tracing::debug!("no porter for user {user:?}: {error}"),
            }
        }
        let user = if self.doors.contains_key(&user) { user } else { None };
        self.doors.get_mut(&user)
    }

    /// Reads a client's request, if it has arrived. Returns `None` if there is no such client.
    pub(crate) fn read_request(&mut self, index: usize) -> Option<Result<Request, RequestError>> {
        let client = self.clients.get(index)?.as_ref()?;
        let user = if self.doors.contains_key(&client.user) { client.user } else { None };
        let door = self.doors.get_mut(&user)?;
        let request = door.meter.measure(0, || attach::read_request(client.socket.as_fd()));
        if door.meter.is_over() {
            door.keep_out(door.meter.penalty());
            door.meter = Meter::new();
        }
        Some(request)
    }

    /// Accepts no client of a user for a while, because waking a port's card was slow.
    pub(crate) fn keep_out(&mut self, user: User, host: HostId) {
        let bell = self.bells.get(host.index()).and_then(Option::as_ref);
        let penalty = bell.map(|bell| bell.penalty());
        if let (Some(penalty), Some(door)) = (penalty, self.door(Some(user))) {
            door.keep_out(penalty);
        }
    }

    /// Removes a client that has attached or been refused.
    pub(crate) fn take_client(&mut self, index: usize) -> io::Result<Option<Client>> {
        let Some(client) = self.clients.get_mut(index).and_then(Option::take) else { return Ok(None) };
        epoll::delete(&self.epoll, &client.socket)?;
        Ok(Some(client))
    }

    /// Removes a client whose time limit has passed, if there is one. Otherwise sets the timer for
    /// the next and returns `None`.
    pub(crate) fn take_late_client(&mut self) -> io::Result<Option<Client>> {
        let now = Instant::now();
        let late = |client: &Option<Client>| client.as_ref().is_some_and(|client| client.deadline <= now);
        if let Some(index) = self.clients.iter().position(late) {
            return self.take_client(index);
        }
        if self.paused.is_some_and(|until| until <= now) {
            self.paused = None;
            self.listen_for(epoll::EventFlags::IN)?;
        }
        self.set_next_deadline()?;
        Ok(None)
    }

    /// Adds a newly attached port's bell to the event set.
    pub(crate) fn watch(&mut self, host: HostId, bell: Option<Arc<Bell>>) -> io::Result<()> {
        if let Some(bell) = &bell {
            let flags = epoll::EventFlags::IN | epoll::EventFlags::RDHUP;
            epoll::add(&self.epoll, &**bell, Event::Bell(host).token(), flags)?;
        }
        self.bells[host.index()] = bell;
        Ok(())
    }

    /// Removes a detached port's bell from the event set.
    pub(crate) fn forget(&mut self, host: HostId) {
        let Some(bell) = self.bells.get_mut(host.index()).and_then(Option::take) else { return };
        // The bell's porter closes it later.
        let _ = epoll::delete(&self.epoll, &*bell);
    }

    /// Sends a port's card the reason why its link ends, and hangs up.
    pub(crate) fn end(&self, host: HostId, reason: Reason) {
        if let Some(bell) = self.bells.get(host.index()).and_then(Option::as_ref) {
            bell.end(reason);
        }
    }

    /// Reads a port's bell.
    pub(crate) fn hear(&self, host: HostId) -> Heard {
        self.bells.get(host.index()).and_then(Option::as_ref).map_or(Heard::Nothing, |bell| bell.hear())
    }

    /// Accepts no client for a while.
    fn pause(&mut self, reason: &dyn std::fmt::Display) -> io::Result<()> {
        if let Some(unsaid) = PAUSED.turn() {
            tracing::warn!("no client can be accepted for {PAUSE:?}: {reason}{unsaid}");
        }
        self.listen_for(epoll::EventFlags::empty())?;
        self.paused = Some(Instant::now() + PAUSE);
        self.set_next_deadline()
    }

    fn listen_for(&self, flags: epoll::EventFlags) -> io::Result<()> {
        // The listener is not removed and added again: there may be no epoll watch left for it
        // then.
        let Some(listener) = &self.listener else { return Ok(()) };
        Ok(epoll::modify(&self.epoll, listener, Event::Listener.token(), flags)?)
    }

    fn set_next_deadline(&self) -> io::Result<()> {
        let deadlines = self.clients.iter().flatten().map(|client| client.deadline);
        let deadline = deadlines.chain(self.paused).min();
        self.set_timer(deadline.map(|deadline| deadline.saturating_duration_since(Instant::now())))
    }

    /// Sets the timer, or disarms it. Either way it stops being readable.
    fn set_timer(&self, after: Option<Duration>) -> io::Result<()> {
        // Zero would disarm it.
        let after = after.map_or(Duration::ZERO, |after| after.max(Duration::from_nanos(1)));
        let it_value = Timespec { tv_sec: after.as_secs() as i64, tv_nsec: after.subsec_nanos().into() };
        let it_interval = Timespec { tv_sec: 0, tv_nsec: 0 };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &Itimerspec { it_interval, it_value })?;
        Ok(())
    }
}

impl AsFd for Ports {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}
