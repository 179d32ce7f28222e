//! The vfio-user server of one PCI function: one socket, one client at a time, one descriptor to wait on.

use crate::bus::Bus;
use crate::counters::Counters;
use crate::endpoint::Endpoint;
use crate::function::{Description, DescriptionError, Function, ReadToken};
use crate::late::LateReadError;
use crate::session::Session;
use crate::socket::Received;
use hamlyn_door::{Kind, ListenError, Listener};
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::Path;
use std::time::{Duration, Instant};
use thiserror::Error;
use tracing::{info, warn};

/// Messages handled in one call of [`Server::process`], so that a busy client keeps nobody from his turn.
const MESSAGES_PER_TURN: usize = 64;

/// The same for clients that come.
const CLIENTS_PER_TURN: usize = 8;

/// While the client has messages, clients that come and deadlines are looked at once in so many turns.
const TURNS_OF_THE_CLIENT: u32 = 16;

/// When a read that is answered later gets ones instead: well before QEMU's own time-out, 5 s if not set otherwise,
/// because a reply after that ruins QEMU's stream for good.
const READ_DEADLINE: Duration = Duration::from_secs(2);

/// Clients that may wait to be accepted.
const BACKLOG: i32 = 8;

const CLIENT: u64 = 0;
const TIMER: u64 = 1;
const LISTENER: u64 = 2;

/// Why a server cannot begin or go on.
#[derive(Debug, Error)]
pub enum ServerError {
    /// The function cannot be served as described.
    #[error(transparent)]
    Description(#[from] DescriptionError),
    /// No socket.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// No memory for mapped BARs.
    #[error("memory for the mapped BARs cannot be had: {0}")]
    Memory(#[source] std::io::Error),
    /// The system refuses to wait for the sockets, or to accept a client.
    #[error("{action}: {source}")]
    System {
        /// What was tried.
        action: &'static str,
        /// Why it did not work.
        source: Errno,
    },
}

fn system(action: &'static str) -> impl Fn(Errno) -> ServerError {
    move |source| ServerError::System { action, source }
}

/// A vfio-user server for one PCI function.
///
/// It has no thread and never blocks. Its owner waits until the server's descriptor ([`AsFd`]) is readable, level
/// triggered, and then calls [`Server::process`]; the descriptor stays the same as long as the server lives, whatever
/// clients come and go. Dropping the server closes the client's connection and removes the socket.
#[derive(Debug)]
pub struct Server {
    epoll: OwnedFd,
    timer: OwnedFd,
    listener: Listener,
    session: Option<Session>,
    endpoint: Endpoint,
    next_token: u64,
    /// Turns of the client alone.
    turns: u32,
    read_deadline: Duration,
    /// What the client's socket is watched for.
    watched: epoll::EventFlags,
    /// When the timer is set to go off.
    alarm: Option<Instant>,
}

impl Server {
    /// Serve a function at the socket `path`. The socket of a server that died is replaced, that of a live one is not.
    pub fn bind(path: &Path, description: Description) -> Result<Server, ServerError> {
        description.validate()?;
        let endpoint = Endpoint::new(description).map_err(ServerError::Memory)?;
        let listener = Listener::bind(path, Kind::Stream, BACKLOG)?;
        let watch = system("cannot wait for clients");
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(&watch)?;
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK);
        let timer = timer.map_err(&watch)?;
        let data = epoll::EventData::new_u64;
        epoll::add(&epoll, &listener, data(LISTENER), epoll::EventFlags::IN).map_err(&watch)?;
        epoll::add(&epoll, &timer, data(TIMER), epoll::EventFlags::IN).map_err(&watch)?;
        Ok(Server {
            epoll,
            timer,
            listener,
            session: None,
            endpoint,
            next_token: 0,
            turns: 0,
            read_deadline: READ_DEADLINE,
            watched: epoll::EventFlags::IN,
            alarm: None,
        })
    }

    /// Handle what is there, without waiting for more: messages of the client, its leaving, the next client, reads
    /// whose deadline has passed. The result is the number of messages handled; 0 means that no message was there.
    pub fn process(&mut self, function: &mut dyn Function) -> Result<usize, ServerError> {
        // The client first, and unasked: nearly always it is a message that there is something to do for. And one that
        // has left makes room for the one that waits.
        let handled = self.serve(function);
        self.turns = if handled == 0 { 0 } else { (self.turns + 1) % TURNS_OF_THE_CLIENT };
        if self.turns == 0 {
            self.look_at_the_rest()?;
        }
        self.update_interest()?;
        Ok(handled)
    }

    /// Clients that come, and reads whose deadline has passed.
    fn look_at_the_rest(&mut self) -> Result<(), ServerError> {
        let mut events = [const { MaybeUninit::uninit() }; 3];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let ready = match epoll::wait(&self.epoll, &mut events, Some(&now)) {
            Err(Errno::INTR) => return Ok(()),
            result => result.map_err(system("cannot wait for messages"))?.0,
        };
        let ready = |source: u64| ready.iter().any(|event| event.data.u64() == source);
        let (timer, listener) = (ready(TIMER), ready(LISTENER));
        if timer {
            self.expire_late_reads();
        }
        if listener {
            self.accept()?;
        }
        Ok(())
    }

    /// Handle the client's messages, as long as it reads its replies.
    fn serve(&mut self, function: &mut dyn Function) -> usize {
        let mut handled = 0;
        for turn in 0.. {
            let Some(session) = &mut self.session else { break };
            // The descriptor does not tell of what was read ahead: no turn ends before that is handled.
            if turn >= MESSAGES_PER_TURN && !session.connection.has_read_ahead() {
                break;
            }
            if !session.connection.flush() {
                break;
            }
            match session.connection.receive() {
                Received::Message(message) => {
                    let token = ReadToken(self.next_token);
                    self.next_token += 1;
                    session.handle(message, &mut self.endpoint, function, token, self.read_deadline);
                    handled += 1;
                }
                Received::Drained => {}
                Received::Nothing => break,
                Received::Closed => self.disconnect(function, "it left"),
                Received::OutOfStep(header) => {
                    self.endpoint.counters.refused += 1;
                    warn!("a message of {} bytes is shorter than its own header", header.size);
                    self.disconnect(function, "its stream is out of step");
                }
            }
        }
        handled
    }

    fn disconnect(&mut self, function: &mut dyn Function, reason: &str) {
        info!("client of {} is gone: {reason}", self.path().display());
        self.session = None;
        self.endpoint.disconnect(function);
    }

    fn accept(&mut self) -> Result<(), ServerError> {
        for _ in 0..CLIENTS_PER_TURN {
            let client = self.listener.accept().map_err(system("cannot accept a client"))?;
            let Some(client) = client else { break };
            if self.session.is_some() {
                self.endpoint.counters.clients_refused += 1;
                warn!("a second client of {} is turned away", self.path().display());
                continue;
            }
            info!("client of {} has come", self.path().display());
            self.endpoint.counters.clients += 1;
            let data = epoll::EventData::new_u64(CLIENT);
            self.watched = epoll::EventFlags::IN;
            epoll::add(&self.epoll, &client, data, self.watched)
                .map_err(system("cannot wait for a client"))?;
            self.session = Some(Session::new(client));
        }
        Ok(())
    }

    fn expire_late_reads(&mut self) {
        let Some(session) = &mut self.session else { return };
        let replies = session.late.expire(Instant::now());
        if !replies.is_empty() {
            self.endpoint.counters.expired_reads += replies.len() as u64;
            let deadline = self.read_deadline;
            warn!(
                "{} reads were not answered by the card in {deadline:?}: answered with ones",
                replies.len()
            );
        }
        for reply in replies {
            session.connection.send(reply, None);
        }
    }

    /// Watch for what can happen next: room for what is unsent, or else messages; the next deadline.
    fn update_interest(&mut self) -> Result<(), ServerError> {
        if let Some(session) = &self.session {
            let unsent = session.connection.has_unsent();
            let wanted = if unsent { epoll::EventFlags::OUT } else { epoll::EventFlags::IN };
            if wanted != self.watched {
                let data = epoll::EventData::new_u64(CLIENT);
                let result = epoll::modify(&self.epoll, &session.connection, data, wanted);
                result.map_err(system("cannot wait for a client"))?;
                self.watched = wanted;
            }
        }
        let alarm = self.session.as_ref().and_then(|session| session.late.next_due());
        if alarm != self.alarm {
            set_timer(&self.timer, alarm).map_err(system("cannot set a deadline"))?;
            self.alarm = alarm;
        }
        Ok(())
    }

    /// What a thread that has not the server can wait with.
    pub fn waiter(&self) -> std::io::Result<Waiter> {
        Ok(Waiter(self.epoll.try_clone()?))
    }

    /// Answer a read for which the card said [`crate::Answer::Later`]. An answer that comes too late does no harm.
    pub fn complete_read(&mut self, token: ReadToken, data: &[u8]) -> Result<(), LateReadError> {
        let session = self.session.as_mut().ok_or(LateReadError::Gone)?;
        let reply = session.late.complete(token, data)?;
        session.connection.send(reply, None);
        // What fails here fails again, and is reported, in the owner's next call of `process`.
        let _ = self.update_interest();
        Ok(())
    }

    /// How long a card may take for a read that it answers later; 2 s if not set.
    pub fn set_read_deadline(&mut self, deadline: Duration) {
        self.read_deadline = deadline;
    }

    /// The services of the function, between messages.
    pub fn bus(&self) -> &Bus {
        &self.endpoint.bus
    }

    /// What was asked of this server.
    pub fn counters(&self) -> &Counters {
        &self.endpoint.counters
    }

    /// Is a client attached?
    pub fn has_client(&self) -> bool {
        self.session.is_some()
    }

    /// Where it listens.
    pub fn path(&self) -> &Path {
        self.listener.path()
    }
}

/// Waits for what a server has to do, while others may have the server.
#[derive(Debug)]
pub struct Waiter(OwnedFd);

impl Waiter {
    /// Wait until [`Server::process`] has something to do; or less long. For ever if the server is gone.
    pub fn wait(&self) -> Result<(), ServerError> {
        match epoll::wait(&self.0, &mut [const { MaybeUninit::uninit() }; 1], None) {
            Err(Errno::INTR) | Ok(_) => Ok(()),
            Err(error) => Err(system("cannot wait for messages")(error)),
        }
    }
}

fn set_timer(timer: &OwnedFd, alarm: Option<Instant>) -> Result<(), Errno> {
    let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
    // A value of zero would switch the timer off.
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
