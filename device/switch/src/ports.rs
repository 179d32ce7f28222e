//! How cards come and go: the listener, clients in the middle of their handshake, and the descriptors of those attached.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hamlyn_fabric::{HostId, Wires};
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen,
    recv, socket_with,
};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

/// Clients that may be in the middle of their handshake at once; the others wait in the listener's queue.
const CLIENTS: usize = 64;
/// How long to leave the listener alone when the system gives no descriptor for a client.
const PAUSE: Duration = Duration::from_secs(1);

/// Something that the switch must look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// Somebody connected.
    Listener,
    /// A time limit may have passed.
    Timer,
    /// A client in the middle of its handshake spoke or left.
    Client(usize),
    /// A port's link rang.
    Bell(HostId),
    /// A port's card left, or spoke out of turn.
    Lifeline(HostId),
}

impl Event {
    fn token(self) -> epoll::EventData {
        let (kind, index) = match self {
            Event::Listener => (0, 0),
            Event::Timer => (1, 0),
            Event::Client(index) => (2, index as u64),
            Event::Bell(host) => (3, u64::from(host.0)),
            Event::Lifeline(host) => (4, u64::from(host.0)),
        };
        epoll::EventData::new_u64(kind << 32 | index)
    }

    fn from_token(token: epoll::EventData) -> Event {
        let index = token.u64() & 0xffff_ffff;
        match token.u64() >> 32 {
            0 => Event::Listener,
            1 => Event::Timer,
            2 => Event::Client(index as usize),
            3 => Event::Bell(HostId(index as u16)),
            _ => Event::Lifeline(HostId(index as u16)),
        }
    }
}

/// A listening socket, whose file goes with it.
#[derive(Debug)]
struct Listener {
    socket: OwnedFd,
    path: PathBuf,
}

impl Listener {
    fn bind(path: &Path) -> io::Result<Listener> {
        let new = || {
            socket_with(
                AddressFamily::UNIX,
                SocketType::SEQPACKET,
                SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
                None,
            )
        };
        let (socket, address) = (new()?, SocketAddrUnix::new(path)?);
        match bind(&socket, &address) {
            // A switch that died leaves its file; one that lives answers.
            Err(Errno::ADDRINUSE) if connect(&new()?, &address) == Err(Errno::CONNREFUSED) => {
                fs::remove_file(path)?;
                bind(&socket, &address)?;
            }
            other => other?,
        }
        listen(&socket, CLIENTS as i32)?;
        Ok(Listener { socket, path: path.to_owned() })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

#[derive(Debug)]
struct Client {
    socket: OwnedFd,
    deadline: Instant,
}

/// All descriptors of a switch, in one.
#[derive(Debug)]
pub(crate) struct Ports {
    epoll: OwnedFd,
    timer: OwnedFd,
    listener: Option<Listener>,
    listening: bool,
    handshake_timeout: Duration,
    clients: Vec<Option<Client>>,
    wires: Vec<Option<Wires>>,
}

impl Ports {
    pub(crate) fn new(ports: u16, handshake_timeout: Duration) -> io::Result<Ports> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let timer =
            timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        epoll::add(&epoll, &timer, Event::Timer.token(), epoll::EventFlags::IN)?;
        Ok(Ports {
            epoll,
            timer,
            listener: None,
            listening: false,
            handshake_timeout,
            clients: (0..CLIENTS).map(|_| None).collect(),
            wires: (0..ports).map(|_| None).collect(),
        })
    }

    pub(crate) fn listen(&mut self, path: &Path) -> io::Result<()> {
        self.listener = Some(Listener::bind(path)?);
        self.resume_listening()
    }

    /// Some of what is to be looked at. Never waits.
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

    /// Takes new clients in, as far as there are places.
    pub(crate) fn admit(&mut self) -> io::Result<()> {
        while let Some(listener) = self.listener.as_ref().filter(|_| self.listening) {
            let Some(place) = self.clients.iter().position(Option::is_none) else {
                return self.pause_listening();
            };
            let socket = match accept_with(&listener.socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok(socket) => socket,
                Err(Errno::INTR | Errno::CONNABORTED) => continue,
                Err(Errno::AGAIN) => return Ok(()),
                Err(error) => {
                    tracing::warn!("no client can be accepted for {PAUSE:?}: {error}");
                    self.pause_listening()?;
                    return self.set_timer(Some(PAUSE));
                }
            };
            epoll::add(&self.epoll, &socket, Event::Client(place).token(), epoll::EventFlags::IN)?;
            self.clients[place] = Some(Client { socket, deadline: Instant::now() + self.handshake_timeout });
            self.set_next_deadline()?;
        }
        Ok(())
    }

    pub(crate) fn client(&self, index: usize) -> Option<BorrowedFd<'_>> {
        self.clients.get(index)?.as_ref().map(|client| client.socket.as_fd())
    }

    /// Takes a client out: its handshake has come to an end.
    pub(crate) fn take_client(&mut self, index: usize) -> io::Result<Option<OwnedFd>> {
        let Some(client) = self.clients.get_mut(index).and_then(Option::take) else { return Ok(None) };
        epoll::delete(&self.epoll, &client.socket)?;
        self.resume_listening()?;
        Ok(Some(client.socket))
    }

    /// Takes out a client whose time has passed, if there is one. `None`: the timer is set for the next.
    pub(crate) fn take_late_client(&mut self) -> io::Result<Option<OwnedFd>> {
        let now = Instant::now();
        let late = |client: &Option<Client>| client.as_ref().is_some_and(|client| client.deadline <= now);
        if let Some(index) = self.clients.iter().position(late) {
            return self.take_client(index);
        }
        self.set_next_deadline()?;
        self.resume_listening()?;
        Ok(None)
    }

    /// Watches a newly attached port.
    pub(crate) fn watch(&mut self, host: HostId, wires: Wires) -> io::Result<()> {
        epoll::add(&self.epoll, &*wires.bell, Event::Bell(host).token(), epoll::EventFlags::IN)?;
        if let Some(lifeline) = &wires.lifeline {
            let hang_up = epoll::EventFlags::IN | epoll::EventFlags::RDHUP;
            epoll::add(&self.epoll, lifeline, Event::Lifeline(host).token(), hang_up)?;
        }
        self.wires[host.index()] = Some(wires);
        Ok(())
    }

    /// Forgets a port and closes its descriptors.
    pub(crate) fn forget(&mut self, host: HostId) {
        let Some(wires) = self.wires.get_mut(host.index()).and_then(Option::take) else { return };
        // The other process may hold the same descriptors, so that closing ours is not enough.
        let _ = epoll::delete(&self.epoll, &*wires.bell);
        if let Some(lifeline) = &wires.lifeline {
            let _ = epoll::delete(&self.epoll, lifeline);
        }
    }

    /// Stops a port's bell.
    pub(crate) fn silence(&self, host: HostId) {
        if let Some(wires) = self.wires.get(host.index()).and_then(Option::as_ref) {
            wires.bell.silence();
        }
    }

    /// Why a port's card must go, or `None` if it is alive and quiet.
    pub(crate) fn obituary(&self, host: HostId) -> Option<&'static str> {
        let lifeline = self.wires.get(host.index())?.as_ref()?.lifeline.as_ref()?;
        match recv(lifeline, &mut [0u8; 1][..], RecvFlags::DONTWAIT) {
            Err(Errno::AGAIN | Errno::INTR) => None,
            Ok((0, _)) | Err(_) => Some("it is gone"),
            Ok(_) => Some("it spoke out of turn"),
        }
    }

    fn pause_listening(&mut self) -> io::Result<()> {
        if let Some(listener) = self.listener.as_ref().filter(|_| self.listening) {
            epoll::delete(&self.epoll, &listener.socket)?;
        }
        self.listening = false;
        Ok(())
    }

    fn resume_listening(&mut self) -> io::Result<()> {
        if let Some(listener) = self.listener.as_ref().filter(|_| !self.listening) {
            epoll::add(&self.epoll, &listener.socket, Event::Listener.token(), epoll::EventFlags::IN)?;
            self.listening = true;
        }
        Ok(())
    }

    fn set_next_deadline(&self) -> io::Result<()> {
        let deadline = self.clients.iter().flatten().map(|client| client.deadline).min();
        self.set_timer(deadline.map(|deadline| deadline.saturating_duration_since(Instant::now())))
    }

    /// Sets the timer, or stops it. Either way it is no longer readable.
    fn set_timer(&self, after: Option<Duration>) -> io::Result<()> {
        // Zero would stop it.
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
