//! Opening channels by name. A connection exchanges what the two ends need and reports the end.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use super::card::Card;
use super::express::{Area, Express};
use super::ground::Common;
use super::offer::Offer;
use super::receiver::{self, Receiver};
use super::receiving::Receiving;
use super::remote::Reached;
use super::sender::{self, Sender, Wait};
use super::sending::Sending;
use super::{Channel, Options};
use crate::core::connection::{self, Connecting, Connection, EndReason, FIND_TIMEOUT, Request};
use crate::core::express::memory::RingMemory;
use crate::core::express::ring::half_of;
use crate::core::loss::PeerLoss;
use crate::core::place::PAGE;
use crate::core::remote::{Ends, Remote};
use crate::core::waiting::Deadline;
use crate::core::watch::Watch;
use crate::error::{Error, ErrorKind, Result, at_most};

/// Rejection that makes the requester ask for a channel by card.
const BY_CARD: &[u8] = b"by card: no express memory is shared";

impl Channel {
    /// Opens a channel to the [`Listener`] of this name on a host. Blocks until the listener
    /// answers.
    ///
    /// # Errors
    /// [`Error::Ended`] if the host has no such listener, or the listener refuses;
    /// [`Error::PeerLost`]; [`Error::Malformed`] if the listener does not serve channels;
    /// [`Error::OutOfRange`] for a ring larger than the card's largest; [`Error::Exhausted`],
    /// [`Error::Quota`], [`Error::Locked`]; [`Error::System`].
    pub fn connect(card: &Card, host: u32, name: &str, options: Options) -> Result<Self> {
        connect(card, host, name, options, None)
    }

    /// Opens a channel to a listener on a host. Blocks for at most `timeout`.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; those of [`Channel::connect`].
    pub fn connect_timeout(
        card: &Card,
        host: u32,
        name: &str,
        options: Options,
        timeout: Duration,
    ) -> Result<Self> {
        connect(card, host, name, options, Some(timeout))
    }

    /// Requests a channel to a listener on a host, and does not wait for its answer.
    ///
    /// # Errors
    /// Those of [`Channel::connect`] that need no answer.
    pub fn begin_connect(card: &Card, host: u32, name: &str, options: Options) -> Result<Opening> {
        Opening::begin(card, host, name, options)
    }

    /// Opens a channel to a listener of this name on any host: the lowest host whose listener
    /// accepts.
    ///
    /// # Errors
    /// [`Error::Ended`] with [`EndReason::NoName`] if no host has the name; the last listener's
    /// error if none accepts; those of [`Channel::connect`].
    pub fn connect_any(card: &Card, name: &str, options: Options) -> Result<Self> {
        connect_any(card, name, options, None)
    }

    /// Opens a channel to a listener of this name on any host. Blocks for at most `timeout` in
    /// total.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; those of [`Channel::connect_any`].
    pub fn connect_any_timeout(card: &Card, name: &str, options: Options, timeout: Duration) -> Result<Self> {
        connect_any(card, name, options, Some(timeout))
    }

    /// Returns whether both directions use express memory, with no card between the two ends.
    #[must_use]
    pub fn is_express(&self) -> bool {
        self.sender.is_express() && self.receiver.is_express()
    }

    /// Returns the peer's host.
    #[must_use]
    pub fn host(&self) -> u32 {
        // The connection is there until both halves are gone.
        self.receiver.host()
    }

    fn over_express(
        to: Area,
        from: Area,
        [rings, hears]: [Box<dyn Remote>; 2],
        connection: Connection,
    ) -> Self {
        let areas = vec![from.held, to.held];
        let common = Common::new(Watch::over(connection), areas);
        let [sending, receiving] = [&to.ring, &from.ring].map(RingMemory::capacity);
        // Of the two, each end may have asked for more.
        let longest = half_of(sending.min(receiving));
        Self::new(
            longest,
            sender::Half::Express(Sending::new(&common, Express::to(to.ring, rings), sending)),
            receiver::Half::Express(Receiving::new(&common, Express::from(from.ring, hears), receiving)),
        )
    }

    fn over_remote([to, from]: [Box<dyn Remote>; 2], capacity: u64, connection: Connection) -> Self {
        let common = Common::new(Watch::over(connection), Vec::new());
        Self::new(
            half_of(capacity),
            sender::Half::Remote(Sending::new(&common, Reached::to(to, capacity), capacity)),
            receiver::Half::Remote(Receiving::new(&common, Reached::from(from, capacity), capacity)),
        )
    }

    fn new(longest: u64, to: sender::Half, from: receiver::Half) -> Self {
        Self {
            sender: Sender { half: to, longest: longest as usize, begun: None },
            receiver: Receiver { half: from, rest: Default::default(), taken: None },
        }
    }
}

/// Returns the ring's size for these options, rounded up to whole pages.
fn capacity(card: &Card, options: Options) -> Result<u64> {
    at_most("bytes of a channel's ring", options.capacity, card.0.largest_ring())?;
    Ok(options.capacity.max(1).next_multiple_of(PAGE as u64))
}

/// One end of a channel, before the other end is known.
#[derive(Debug)]
struct Own {
    /// The area of express memory to receive in. The card then only wakes.
    area: Option<Area>,
    ends: Box<dyn Ends>,
    capacity: u64,
}

impl Own {
    fn create(card: &Card, host: u32, capacity: u64, area: Option<Area>) -> Result<Self> {
        let ring = if area.is_some() { PAGE as u64 } else { capacity };
        Ok(Self { ends: card.0.ends(host, ring)?, area, capacity })
    }

    fn offer(&self, card: &Card) -> Result<Vec<u8>> {
        let area = self.area.as_ref().map(|area| (area.number, area.key));
        let (model, address) = (card.number(), self.ends.address()?);
        Ok(Offer { model, capacity: self.capacity, area, address: &address }.to_bytes())
    }

    /// Completes the end from the other's. Returns `None` if the memory that they share is gone.
    fn join(self, card: &Card, host: u32, peer: &Offer<'_>) -> Result<Option<Joined>> {
        let Some(from) = self.area else {
            let capacity = self.capacity.min(peer.capacity);
            return Ok(Some(Joined::ByCard(self.ends.join(peer.address, host, capacity)?, capacity)));
        };
        let area = peer.area.ok_or(Error::Malformed("an answer by card to a request by express memory"))?;
        let Some(to) = Area::map(card, host, area, peer.capacity)? else { return Ok(None) };
        Ok(Some(Joined::ByMemory(to, from, self.ends.join(peer.address, host, PAGE as u64)?)))
    }
}

/// One end of a channel by express memory, before the other end is known. For the simulation, which
/// exchanges the offers itself: its only thread cannot wait for an answer.
#[cfg(feature = "test-hooks")]
#[derive(Debug)]
pub struct End {
    own: Own,
    card: Card,
}

#[cfg(feature = "test-hooks")]
impl End {
    /// Creates an end for a channel to a host.
    pub fn create(card: &Card, host: u32, options: Options) -> Result<Self> {
        let capacity = capacity(card, options)?;
        let area = Area::create(card, host, capacity)?.ok_or(Error::Unsupported("no memory is shared"))?;
        Ok(Self { own: Own::create(card, host, capacity, Some(area))?, card: card.clone() })
    }

    /// Returns what the other end needs from this one.
    pub fn offer(&self) -> Result<Vec<u8>> {
        self.own.offer(&self.card)
    }

    /// Completes the channel from the other end's offer and a connection to it.
    pub fn join(self, offer: &[u8], connection: Connection) -> Result<Channel> {
        let peer = Offer::from_bytes(offer, self.card.number())?;
        let joined = self.own.join(&self.card, connection.host(), &peer)?;
        joined.map(|joined| joined.over(connection)).ok_or(Error::PeerLost(PeerLoss::Gone))
    }
}

/// Both halves, before their connection.
enum Joined {
    ByMemory(Area, Area, [Box<dyn Remote>; 2]),
    ByCard([Box<dyn Remote>; 2], u64),
}

impl Joined {
    fn over(self, connection: Connection) -> Channel {
        match self {
            Self::ByMemory(to, from, halves) => Channel::over_express(to, from, halves, connection),
            Self::ByCard(halves, capacity) => Channel::over_remote(halves, capacity, connection),
        }
    }
}

/// A channel that is being opened ([`Channel::begin_connect`]). Dropping it cancels the request.
///
/// Its descriptor ([`AsFd`]) is writable once the listener has accepted, and readable once the
/// request has failed.
#[derive(Debug)]
pub struct Opening {
    card: Card,
    host: u32,
    name: String,
    own: Own,
    connecting: Connecting,
}

impl Opening {
    fn begin(card: &Card, host: u32, name: &str, options: Options) -> Result<Self> {
        let capacity = capacity(card, options)?;
        let area = if options.by_card { None } else { Area::create(card, host, capacity)? };
        Self::ask(card.clone(), host, name.to_owned(), capacity, area)
    }

    fn ask(card: Card, host: u32, name: String, capacity: u64, area: Option<Area>) -> Result<Self> {
        let own = Own::create(&card, host, capacity, area)?;
        let connecting = card.begin_connect(host, &name, &own.offer(&card)?)?;
        Ok(Self { card, host, name, own, connecting })
    }

    /// Returns the channel, if the listener has accepted.
    ///
    /// Otherwise returns the request, which may be another one with another descriptor.
    ///
    /// # Errors
    /// Those of [`Channel::connect`].
    pub fn try_finish(self) -> Result<Result<Channel, Self>> {
        if !self.connecting.is_decided()? {
            return Ok(Err(self));
        }
        self.advance(Deadline::new(None))
    }

    fn finish_within(mut self, deadline: Deadline) -> Result<Channel> {
        loop {
            match self.advance(deadline)? {
                Ok(channel) => return Ok(channel),
                Err(again) => self = again,
            }
        }
    }

    /// Waits for the answer. Returns the channel, or its second request: by card, if the first was
    /// by express memory that the listener does not share, or that is gone.
    fn advance(self, deadline: Deadline) -> Result<Result<Channel, Self>> {
        let Self { card, host, name, own, connecting } = self;
        let (capacity, by_memory) = (own.capacity, own.area.is_some());
        match connecting.finish_though_closed(deadline.left()) {
            // The peer may have closed already. Its messages lie in this process' memory.
            Ok(connection) => {
                let answer = connection.private().to_vec();
                let joined = Offer::from_bytes(&answer, card.number())
                    .and_then(|peer| own.join(&card, connection.host(), &peer));
                match (joined, connection.end()?) {
                    (Ok(Some(joined)), _) => return Ok(Ok(joined.over(connection))),
                    (Ok(None) | Err(_), Some(end)) => return Err(Error::Ended(end)),
                    (Ok(None), None) => {}
                    (Err(error), None) => return Err(error),
                }
            }
            Err(Error::Ended(end))
                if by_memory && (end.reason, &*end.private) == (EndReason::Rejected, BY_CARD) =>
            {
                drop(own)
            }
            Err(error) => return Err(error),
        }
        if !by_memory {
            return Err(Error::PeerLost(PeerLoss::Gone));
        }
        Self::ask(card, host, name, capacity, None).map(Err)
    }
}

impl AsFd for Opening {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.connecting.as_fd()
    }
}

fn connect(
    card: &Card,
    host: u32,
    name: &str,
    options: Options,
    timeout: Option<Duration>,
) -> Result<Channel> {
    let deadline = Deadline::new(timeout);
    Opening::begin(card, host, name, options)?.finish_within(deadline)
}

fn connect_any(card: &Card, name: &str, options: Options, timeout: Option<Duration>) -> Result<Channel> {
    let deadline = Deadline::new(timeout);
    let at_most = |limit: Duration| Some(deadline.left().map_or(limit, |left| left.min(limit)));
    let found = card.find_within(name, at_most(FIND_TIMEOUT))?;
    let mut failed = Error::Ended(connection::End { reason: EndReason::NoName, private: Vec::new() });
    for host in found.hosts.into_iter().chain(found.too_old) {
        deadline.check("listener that accepts")?;
        match connect(card, host, name, options, at_most(connection::CONNECT_TIMEOUT)) {
            Ok(channel) => return Ok(channel),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

/// A name under which processes of any host open a [`Channel`] to this process. The name is free
/// again when the listener is dropped.
///
/// Its descriptor ([`AsFd`]) is readable while a request is pending.
#[derive(Debug)]
pub struct Listener {
    card: Card,
    listener: connection::Listener,
    options: Options,
}

impl Listener {
    /// Registers a name.
    ///
    /// # Errors
    /// [`Error::OutOfRange`]; [`Error::System`], with `EADDRINUSE` if the name is taken;
    /// [`Error::Unsupported`] on a card whose driver has no connections.
    pub fn bind(card: &Card, name: &str, options: Options) -> Result<Self> {
        capacity(card, options)?;
        Ok(Self { card: card.clone(), listener: card.listen(name)?, options })
    }

    /// Registers the name of a TCP connection over IPv4, which must be this process' own: `tcp/`,
    /// address and port of the own end, `-`, and those of the other end, as in
    /// `tcp/10.7.0.1:40000-10.7.0.2:80`. So a peer that finds the name on the connection's host has
    /// found its owner.
    ///
    /// # Errors
    /// Those of [`Listener::bind`]; `EACCES` if `socket` is not the connection that the name tells;
    /// [`Error::Unsupported`] at a card's socket.
    pub fn bind_as_socket(card: &Card, name: &str, socket: BorrowedFd<'_>, options: Options) -> Result<Self> {
        capacity(card, options)?;
        Ok(Self { card: card.clone(), listener: card.listen_as_socket(name, socket)?, options })
    }

    /// Accepts the next peer. Blocks until there is one. Meanwhile rejects requests that are not
    /// for a channel.
    ///
    /// # Errors
    /// [`Error::Exhausted`], [`Error::Quota`], [`Error::Locked`], [`Error::System`]: the peer is
    /// rejected with the reason. Other peers can still be accepted.
    pub fn accept(&self) -> Result<Channel> {
        self.accept_with(Wait::Until(None))
    }

    /// Accepts the next peer, if a request is pending.
    ///
    /// # Errors
    /// [`Error::WouldBlock`] if none is pending; those of [`Listener::accept`].
    pub fn try_accept(&self) -> Result<Channel> {
        self.accept_with(Wait::No)
    }

    /// Accepts the next peer. Blocks for at most `timeout`.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; those of [`Listener::accept`].
    pub fn accept_timeout(&self, timeout: Duration) -> Result<Channel> {
        self.accept_with(Wait::Until(Some(timeout)))
    }

    fn accept_with(&self, wait: Wait) -> Result<Channel> {
        let timeout = match wait {
            Wait::No => Some(Duration::ZERO),
            Wait::Until(timeout) => timeout,
        };
        // Errors of a peer's request are passed on as they are.
        let none_pending = |error: Error| match wait {
            Wait::No if error.is_timed_out() => {
                Error::WouldBlock { object: "requests for a channel", limit: 0 }
            }
            _ => error,
        };
        let mut turn = self.listener.turn(timeout);
        loop {
            match self.admit(self.listener.request_within(turn.left()).map_err(none_pending)?) {
                // The peer has gone, or its request was not for a channel.
                Ok(None) | Err(Error::Ended(_) | Error::NotConnected) => {}
                Ok(Some(channel)) => return Ok(channel),
                Err(error) => return Err(error),
            }
            turn.next("request for a channel").map_err(none_pending)?;
        }
    }

    /// Answers a request. Returns `None` if the request was rejected for its content.
    fn admit(&self, request: Request) -> Result<Option<Channel>> {
        let (asked, host) = (request.private().to_vec(), request.host());
        let peer = match Offer::from_bytes(&asked, self.card.number()) {
            Ok(peer) => peer,
            Err(error) => return request.reject_because(&error.to_string()).map(|()| None),
        };
        let own = match self.own(host, &peer) {
            Ok(Some(own)) => own,
            Ok(None) => return request.reject(BY_CARD).map(|()| None),
            Err(error) => {
                // The peer may be gone already.
                let _ = request.reject_because(&error.to_string());
                return Err(error);
            }
        };
        let answer = own.offer(&self.card)?;
        // The peer's halves exist since it asked.
        match own.join(&self.card, host, &peer) {
            Ok(Some(joined)) => Ok(Some(joined.over(request.accept(&answer)?.repeat_at_close(answer)))),
            Ok(None) => request.reject(BY_CARD).map(|()| None),
            Err(error) => {
                let is_own = error.kind() == ErrorKind::Exhausted;
                let rejected = request.reject_because(&error.to_string());
                if is_own { Err(error) } else { rejected.map(|()| None) }
            }
        }
    }

    /// Creates this end for a peer. Returns `None` if the peer has to ask for a channel by card.
    fn own(&self, host: u32, peer: &Offer<'_>) -> Result<Option<Own>> {
        // Both directions use the smaller ring, so this end needs no larger one.
        let capacity = capacity(&self.card, self.options)?.min(peer.capacity);
        if peer.area.is_none() {
            return Own::create(&self.card, host, capacity, None).map(Some);
        }
        let area = if self.options.by_card { None } else { Area::create(&self.card, host, capacity)? };
        area.map(|area| Own::create(&self.card, host, capacity, Some(area))).transpose()
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}
