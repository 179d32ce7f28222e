//! Streams by name: a connection (sections 6.3 and 6.4) carries the seeds, and watches over both
//! directions.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{StreamOptions, StreamReceiver, StreamSender};
use crate::core::connection::{Connection, End, EndReason, FIND_TIMEOUT, Listener, MAX_PRIVATE, Request};
use crate::core::waiting::Turn;
use crate::core::watch::Watch;
use crate::error::{Error, Result};
use crate::hamlyn::manager::Manager;
use crate::hamlyn::seed::Seed;

/// Two streams, there and back, and the connection that set them up.
///
/// When the peer's process or host dies both ends get [`crate::Error::PeerLost`] with a reason: the
/// receiver within two seconds of the operating system's word (section 6.3), behind all that has
/// come. The manager's file says nothing of it: a loop of one's own also waits for
/// [`StreamReceiver::peer_file`]. The connection is closed gracefully once both ends are dropped,
/// if the sender had been closed and the receiver had received all; else the peer learns that this
/// one has gone.
#[derive(Debug)]
pub struct StreamPair {
    /// To the peer.
    pub sender: StreamSender,
    /// From the peer.
    pub receiver: StreamReceiver,
}

impl StreamPair {
    /// Connects to a [`StreamListener`] of that name on a host. `None` waits for ever.
    ///
    /// # Errors
    /// Those of [`crate::Card::begin_connect`] and [`crate::Connecting::finish`];
    /// [`crate::Error::Seed`] if the listener is none of streams; those of
    /// [`StreamReceiver::create`] and [`StreamSender::from_seed`].
    pub fn connect(manager: &Manager, host: u32, name: &str, timeout: Option<Duration>) -> Result<Self> {
        Self::connect_with(manager, host, name, StreamOptions::default(), timeout)
    }

    /// Like [`StreamPair::connect`]; the stream to this side is to be as these options say.
    ///
    /// # Errors
    /// Those of [`StreamPair::connect`].
    pub fn connect_with(
        manager: &Manager,
        host: u32,
        name: &str,
        options: StreamOptions,
        timeout: Option<Duration>,
    ) -> Result<Self> {
        let receiver = StreamReceiver::create_with(manager, options)?;
        let seed = receiver.make_seed()?.to_bytes();
        let connection = manager.card().begin_connect(host, name, &seed)?.finish(timeout)?;
        let seed = of_host(Seed::from_bytes(connection.private())?, host)?;
        let sender = StreamSender::from_seed(manager, &seed)?;
        Ok(Self::watched(sender, receiver, connection))
    }

    /// Connects to a [`StreamListener`] of that name on one of these hosts; [`crate::Card::hosts`]
    /// has all hosts that there can be. Looks for the name by [`crate::Card::find`], for
    /// [`FIND_TIMEOUT`] at most. Then it connects to one host after the other, in the order given,
    /// until a listener accepts. (Not to all at once, as [`crate::Card::connect_any`] does: each
    /// listener that accepts can send to this side.) `None` waits for ever for a listener to
    /// answer.
    ///
    /// # Errors
    /// [`crate::Error::Ended`] with [`EndReason::NoName`] if none of these hosts has the name. If
    /// no listener accepts, the error of the last one. [`crate::Error::TimedOut`]. Those of
    /// [`crate::Card::find`].
    pub fn connect_any(
        manager: &Manager,
        hosts: impl IntoIterator<Item = u32>,
        name: &str,
        timeout: Option<Duration>,
    ) -> Result<Self> {
        let begun = Instant::now();
        let patience = timeout.map_or(FIND_TIMEOUT, |timeout| timeout.min(FIND_TIMEOUT));
        let found = manager.card().find(name, Some(patience))?;
        let mut failed = Error::Ended(End { reason: EndReason::NoName, private: Vec::new() });
        for host in hosts {
            if !found.hosts.contains(&host) && !found.too_old.contains(&host) {
                continue;
            }
            let left = timeout.map(|timeout| timeout.saturating_sub(begun.elapsed()));
            match Self::connect(manager, host, name, left) {
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

/// A name under which processes of any host open a [`StreamPair`] to this one.
///
/// Its descriptor ([`AsFd`]) is readable while a request waits.
#[derive(Debug)]
pub struct StreamListener {
    listener: Listener,
    manager: Manager,
    options: StreamOptions,
}

impl StreamListener {
    /// Takes a name, for streams of [`StreamOptions::default`].
    ///
    /// # Errors
    /// Those of [`crate::Card::listen`].
    pub fn bind(manager: &Manager, name: &str) -> Result<Self> {
        Self::bind_with(manager, name, StreamOptions::default())
    }

    /// Takes a name; the streams to this side are to be as these options say.
    ///
    /// # Errors
    /// Those of [`crate::Card::listen`].
    pub fn bind_with(manager: &Manager, name: &str, options: StreamOptions) -> Result<Self> {
        Ok(Self { listener: manager.card().listen(name)?, manager: manager.clone(), options })
    }

    /// Waits for the next peer, and accepts it. A time-out of zero only looks.
    ///
    /// # Errors
    /// Those of [`StreamListener::request`] and [`StreamRequest::accept`].
    pub fn accept(&self, timeout: Option<Duration>) -> Result<StreamPair> {
        let mut turn = self.listener.turn(timeout);
        loop {
            match self.next_request(&mut turn)?.accept() {
                // The asker has gone meanwhile.
                Err(Error::Ended(_) | Error::NotConnected) => {}
                other => return other,
            }
            turn.next("stream")?;
        }
    }

    /// Waits for the next peer, and leaves it to the caller whether it is accepted. Requests that
    /// bring no seed are rejected meanwhile. A time-out of zero only looks.
    ///
    /// # Errors
    /// Those of [`Listener::request`].
    pub fn request(&self, timeout: Option<Duration>) -> Result<StreamRequest> {
        self.next_request(&mut self.listener.turn(timeout))
    }

    fn next_request(&self, turn: &mut Turn) -> Result<StreamRequest> {
        loop {
            let request = self.listener.request(turn.left())?;
            match Seed::from_bytes(request.private()) {
                Ok(seed) => {
                    let (manager, options) = (self.manager.clone(), self.options);
                    return Ok(StreamRequest { request, seed, manager, options });
                }
                Err(error) => request.reject(cut(&error.to_string()))?,
            }
            turn.next("request for a stream")?;
        }
    }
}

/// A peer that asks for a [`StreamPair`]. If it is dropped, it is rejected. It may outlive its
/// listener.
#[derive(Debug)]
pub struct StreamRequest {
    request: Request,
    seed: Seed,
    manager: Manager,
    options: StreamOptions,
}

impl StreamRequest {
    /// The asker's host id.
    #[must_use]
    pub fn host(&self) -> u32 {
        self.request.host()
    }

    /// Makes the streams.
    ///
    /// # Errors
    /// Those of [`StreamReceiver::create_with`] and [`StreamSender::from_seed`]: the peer is
    /// rejected then, and told why. Those of [`Request::accept`].
    pub fn accept(self) -> Result<StreamPair> {
        let (sender, receiver, own) = match self.make_ends() {
            Ok(ends) => ends,
            Err(error) => {
                // The other side is told why: perhaps it knows what to do, or whom to tell. It may
                // have gone meanwhile.
                let _ = self.request.reject(cut(&error.to_string()));
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

    /// Rejects it, for a reason that the asker's error shows: as much of it as [`MAX_PRIVATE`]
    /// bytes hold. It is no error if the asker is gone already.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn reject(self, reason: &str) -> Result<()> {
        self.request.reject(cut(reason))
    }
}

/// A seed, if it is the peer's own: it must not have this side send to a third host.
fn of_host(seed: Seed, host: u32) -> Result<Seed> {
    if seed.destination() == host {
        Ok(seed)
    } else {
        Err(Error::Malformed("a seed that leads to another host"))
    }
}

/// As much of a text as can be passed.
fn cut(text: &str) -> &[u8] {
    let whole = (0..=text.len().min(MAX_PRIVATE)).rev().find(|end| text.is_char_boundary(*end));
    &text.as_bytes()[..whole.unwrap_or_default()]
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
