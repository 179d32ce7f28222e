//! Streams by name: a connection (sections 6.3 and 6.4) carries the seeds and watches both
//! directions.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{StreamOptions, StreamReceiver, StreamSender};
use crate::core::connection::{Connection, End, EndReason, FIND_TIMEOUT, Listener, Request};
use crate::core::waiting::{Turn, at_once};
use crate::core::watch::Watch;
use crate::error::{Error, Result};
use crate::hamlyn::manager::Manager;
use crate::hamlyn::seed::Seed;

/// Two streams, one in each direction, and the connection that set them up.
///
/// When the peer's process or host dies, both ends get [`crate::Error::PeerLost`] with a reason.
/// The receiver gets it after all data that has arrived, within two seconds of the operating
/// system's notice (section 6.3). The manager's file does not report it: an application's own loop
/// must also wait for [`StreamReceiver::peer_file`].
///
/// The connection is closed gracefully once both ends are dropped, if the sender had been closed
/// and the receiver had received everything. Otherwise the peer is notified that this end has gone.
#[derive(Debug)]
pub struct StreamPair {
    /// The stream to the peer.
    pub sender: StreamSender,
    /// The stream from the peer.
    pub receiver: StreamReceiver,
}

impl StreamPair {
    /// Connects to the [`StreamListener`] with this name on a host.
    ///
    /// # Errors
    /// The errors of [`crate::Card::begin_connect`] and [`crate::Connecting::finish`];
    /// [`crate::SeedError`] if the listener is not a stream listener; the errors of
    /// [`StreamReceiver::create`] and [`StreamSender::from_seed`].
    pub fn connect(manager: &Manager, host: u32, name: &str) -> Result<Self> {
        Self::connect_with(manager, host, name, StreamOptions::default())
    }

    /// As [`StreamPair::connect`], but blocks for at most `timeout`.
    ///
    /// # Errors
    /// [`crate::Error::TimedOut`]; those of [`StreamPair::connect`].
    pub fn connect_timeout(manager: &Manager, host: u32, name: &str, timeout: Duration) -> Result<Self> {
        Self::connect_with_timeout(manager, host, name, StreamOptions::default(), timeout)
    }

    /// Like [`StreamPair::connect`], with options for the stream to this side.
    ///
    /// # Errors
    /// The errors of [`StreamPair::connect`].
    pub fn connect_with(manager: &Manager, host: u32, name: &str, options: StreamOptions) -> Result<Self> {
        Self::connect_within(manager, host, name, options, None)
    }

    /// As [`StreamPair::connect_with`], but blocks for at most `timeout`.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; those of [`StreamPair::connect_with`].
    pub fn connect_with_timeout(
        manager: &Manager,
        host: u32,
        name: &str,
        options: StreamOptions,
        timeout: Duration,
    ) -> Result<Self> {
        Self::connect_within(manager, host, name, options, Some(timeout))
    }

    fn connect_within(
        manager: &Manager,
        host: u32,
        name: &str,
        options: StreamOptions,
        timeout: Option<Duration>,
    ) -> Result<Self> {
        let receiver = StreamReceiver::create_with(manager, options)?;
        let seed = receiver.make_seed()?.to_bytes();
        let connection = manager.card().begin_connect(host, name, &seed)?.finish_within(timeout)?;
        let seed = of_host(Seed::from_bytes(connection.private())?, host)?;
        let sender = StreamSender::from_seed(manager, &seed)?;
        Ok(Self::watched(sender, receiver, connection))
    }

    /// Connects to a [`StreamListener`] with this name on one of these hosts.
    /// [`crate::Card::hosts`] returns all possible hosts. First finds the name with
    /// [`crate::Card::find`], for at most [`FIND_TIMEOUT`]. Then connects to one host after the
    /// other, in the given order, until a listener accepts.
    ///
    /// It does not connect to all at once, as [`crate::Card::connect_any`] does, because each
    /// listener that accepts can send to this side.
    ///
    /// # Errors
    /// [`crate::Error::Ended`] with [`EndReason::NoName`] if none of these hosts has the name. The
    /// last listener's error if no listener accepts. The errors of [`crate::Card::find`].
    pub fn connect_any(manager: &Manager, hosts: impl IntoIterator<Item = u32>, name: &str) -> Result<Self> {
        Self::connect_any_within(manager, hosts, name, None)
    }

    /// As [`StreamPair::connect_any`], but blocks for at most `timeout`.
    ///
    /// # Errors
    /// [`crate::Error::TimedOut`]; those of [`StreamPair::connect_any`].
    pub fn connect_any_timeout(
        manager: &Manager,
        hosts: impl IntoIterator<Item = u32>,
        name: &str,
        timeout: Duration,
    ) -> Result<Self> {
        Self::connect_any_within(manager, hosts, name, Some(timeout))
    }

    fn connect_any_within(
        manager: &Manager,
        hosts: impl IntoIterator<Item = u32>,
        name: &str,
        timeout: Option<Duration>,
    ) -> Result<Self> {
        let begun = Instant::now();
        let patience = timeout.map_or(FIND_TIMEOUT, |timeout| timeout.min(FIND_TIMEOUT));
        let found = manager.card().find_timeout(name, patience)?;
        let mut failed = Error::Ended(End { reason: EndReason::NoName, private: Vec::new() });
        for host in hosts {
            if !found.hosts.contains(&host) && !found.too_old.contains(&host) {
                continue;
            }
            let left = timeout.map(|timeout| timeout.saturating_sub(begun.elapsed()));
            match Self::connect_within(manager, host, name, StreamOptions::default(), left) {
                Err(error) if !error.is_timed_out() => failed = error,
                other => return other,
            }
        }
        Err(failed)
    }

    pub(in crate::hamlyn) fn watched(
        mut sender: StreamSender,
        mut receiver: StreamReceiver,
        connection: Connection,
    ) -> Self {
        let host = connection.host();
        let watch = Arc::new(Watch::over(connection));
        sender.set_watch(watch.clone());
        receiver.set_watch(watch, host);
        Self { sender, receiver }
    }
}

/// A name under which processes on any host open a [`StreamPair`] to this process.
///
/// Its file descriptor ([`AsFd`]) is readable while a request is pending.
#[derive(Debug)]
pub struct StreamListener {
    listener: Listener,
    manager: Manager,
    options: StreamOptions,
}

impl StreamListener {
    /// Binds a name, for streams with [`StreamOptions::default`].
    ///
    /// # Errors
    /// The errors of [`crate::Card::listen`].
    pub fn bind(manager: &Manager, name: &str) -> Result<Self> {
        Self::bind_with(manager, name, StreamOptions::default())
    }

    /// Binds a name, with options for the streams to this side.
    ///
    /// # Errors
    /// The errors of [`crate::Card::listen`].
    pub fn bind_with(manager: &Manager, name: &str, options: StreamOptions) -> Result<Self> {
        Ok(Self { listener: manager.card().listen(name)?, manager: manager.clone(), options })
    }

    /// Waits for the next peer, and accepts it.
    ///
    /// # Errors
    /// The errors of [`StreamListener::request`] and [`StreamRequest::accept`].
    pub fn accept(&self) -> Result<StreamPair> {
        self.accept_within(None)
    }

    /// Accepts the next peer, if one asks.
    ///
    /// # Errors
    /// [`Error::WouldBlock`]; those of [`StreamListener::accept`].
    pub fn try_accept(&self) -> Result<StreamPair> {
        at_once("requests for a stream", self.accept_within(Some(Duration::ZERO)))
    }

    /// As [`StreamListener::accept`], but blocks for at most `timeout`.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; those of [`StreamListener::accept`].
    pub fn accept_timeout(&self, timeout: Duration) -> Result<StreamPair> {
        self.accept_within(Some(timeout))
    }

    fn accept_within(&self, timeout: Option<Duration>) -> Result<StreamPair> {
        let mut turn = self.listener.turn(timeout);
        loop {
            match self.next_request(&mut turn)?.accept() {
                // The requester has gone meanwhile.
                Err(Error::Ended(_) | Error::NotConnected) => {}
                other => return other,
            }
            turn.next("stream")?;
        }
    }

    /// Waits for the next peer, and lets the caller decide whether to accept it. Meanwhile rejects
    /// requests without a seed.
    ///
    /// # Errors
    /// The errors of [`Listener::request`].
    pub fn request(&self) -> Result<StreamRequest> {
        self.next_request(&mut self.listener.turn(None))
    }

    /// Returns the next request, if a peer asks.
    ///
    /// # Errors
    /// [`Error::WouldBlock`]; those of [`StreamListener::request`].
    pub fn try_request(&self) -> Result<StreamRequest> {
        at_once("requests for a stream", self.next_request(&mut self.listener.turn(Some(Duration::ZERO))))
    }

    /// As [`StreamListener::request`], but blocks for at most `timeout`.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; those of [`StreamListener::request`].
    pub fn request_timeout(&self, timeout: Duration) -> Result<StreamRequest> {
        self.next_request(&mut self.listener.turn(Some(timeout)))
    }

    fn next_request(&self, turn: &mut Turn) -> Result<StreamRequest> {
        loop {
            let request = self.listener.request_within(turn.left())?;
            match Seed::from_bytes(request.private()) {
                Ok(seed) => {
                    let (manager, options) = (self.manager.clone(), self.options);
                    return Ok(StreamRequest { request, seed, manager, options });
                }
                Err(error) => request.reject_because(&error.to_string())?,
            }
            turn.next("request for a stream")?;
        }
    }
}

/// A peer's request for a [`StreamPair`]. Dropping it rejects the peer. It may outlive its
/// listener.
#[derive(Debug)]
pub struct StreamRequest {
    request: Request,
    seed: Seed,
    manager: Manager,
    options: StreamOptions,
}

impl StreamRequest {
    /// Returns the requester's host id.
    #[must_use]
    pub fn host(&self) -> u32 {
        self.request.host()
    }

    /// Creates the streams.
    ///
    /// # Errors
    /// The errors of [`StreamReceiver::create_with`] and [`StreamSender::from_seed`]; the peer is
    /// then rejected, and gets the reason. The errors of [`Request::accept`].
    pub fn accept(self) -> Result<StreamPair> {
        let (sender, receiver, own) = match self.make_ends() {
            Ok(ends) => ends,
            Err(error) => {
                // Send the reason to the peer, which may be able to act on it or report it. The
                // peer may have gone meanwhile.
                let _ = self.request.reject_because(&error.to_string());
                return Err(error);
            }
        };
        Ok(StreamPair::watched(sender, receiver, self.request.accept(&own.to_bytes())?))
    }

    fn make_ends(&self) -> Result<(StreamSender, StreamReceiver, Seed)> {
        let receiver = StreamReceiver::create_with(&self.manager, self.options)?;
        let seed = of_host(self.seed.clone(), self.request.host())?;
        let sender = StreamSender::from_seed(&self.manager, &seed)?;
        let own = receiver.make_seed()?;
        Ok((sender, receiver, own))
    }

    /// Rejects the peer. The requester's error shows the reason, truncated to
    /// [`crate::MAX_PRIVATE`] bytes. It is not an error if the requester has already gone.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn reject(self, reason: &str) -> Result<()> {
        self.request.reject_because(reason)
    }
}

/// Returns the seed if it leads to the peer's host. A peer must not make this side send to a third
/// host.
fn of_host(seed: Seed, host: u32) -> Result<Seed> {
    if seed.destination() == host {
        Ok(seed)
    } else {
        Err(Error::Malformed("a seed that leads to another host"))
    }
}

impl AsFd for StreamListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hamlyn::ticket::{Ticket, TicketFlags};

    #[test]
    fn seed_leads_to_the_peer_alone() {
        let flags = TicketFlags::default();
        let first = Ticket { destination: 5, slot: 2, metadata_index: 0, key: 4, base: 0, length: 8, flags };
        let seed = Seed::new(first, 4).unwrap();
        assert_eq!(of_host(seed.clone(), 5).unwrap(), seed);
        let error = of_host(seed, 6).unwrap_err().to_string();
        assert_eq!(error, "the peer sent a seed that leads to another host");
    }
}
