//! Opening channels by name. A connection exchanges what the two ends need and reports the end.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use super::card::{Card, Kind};
use super::offer::Offer;
use super::receiver::{self, Receiver};
use super::remote::{self, Common};
use super::sender::{self, Sender};
use super::{Channel, Options};
use crate::clan::channel::ClanEnds;
use crate::core::connection::{self, Connection, End, EndReason, FIND_TIMEOUT, Request};
use crate::core::express::ring::half_of;
use crate::core::place::PAGE;
use crate::core::remote::{Ends, Remote};
use crate::core::waiting::Deadline;
use crate::core::watch::Watch;
use crate::dart::channel::DartEnds;
use crate::error::{Error, ErrorKind, Result, at_most};
use crate::hamlyn::channel::HamlynEnds;
use crate::hamlyn::express::{self, ChannelOptions};
use crate::shrimp::channel::ShrimpEnds;

/// Largest ring that fits a CLAN card's aperture and a SHRIMP card's receive buffer.
const MAX_CAPACITY: u64 = (16 << 20) - PAGE as u64;

impl Channel {
    /// Opens a channel to the [`Listener`] of this name on a host. Blocks until the listener
    /// answers.
    ///
    /// # Errors
    /// [`Error::Ended`] if the host has no such listener, or the listener refuses;
    /// [`Error::PeerLost`]; [`Error::Malformed`] if the listener does not serve channels;
    /// [`Error::OutOfRange`] for a ring larger than 16 MiB minus a page; [`Error::Exhausted`],
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

    /// Opens a channel to a listener of this name on any host: the lowest host whose listener
    /// accepts.
    ///
    /// # Errors
    /// [`Error::Ended`] with [`EndReason::NoName`] if no host has the name; the last listener's
    /// error if none accepts; those of [`Channel::connect`].
    pub fn connect_any(card: &Card, name: &str, options: Options) -> Result<Self> {
        let found = card.find(name, Some(FIND_TIMEOUT))?;
        let mut failed = Error::Ended(End { reason: EndReason::NoName, private: Vec::new() });
        for host in found.hosts.into_iter().chain(found.too_old) {
            match connect(card, host, name, options, Some(connection::CONNECT_TIMEOUT)) {
                Ok(channel) => return Ok(channel),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    /// Returns whether both directions use express memory, with no card between the two ends.
    #[must_use]
    pub fn is_express(&self) -> bool {
        self.sender.is_express() && self.receiver.is_express()
    }

    fn over_express(channel: express::Channel) -> Self {
        let express::Channel { sender, receiver } = channel;
        let longest = half_of(sender.longest() as u64 + 8) as usize;
        Self {
            sender: Sender { way: sender::Way::Express(sender), longest, begun: None },
            receiver: Receiver {
                way: receiver::Way::Express(receiver),
                rest: Default::default(),
                taken: None,
            },
        }
    }

    fn over_remote([to, from]: [Box<dyn Remote>; 2], capacity: u64, connection: Connection) -> Self {
        let common = Common::new(Watch::over(connection));
        let longest = half_of(capacity) as usize;
        let (sender, receiver) =
            (remote::Sender::new(&common, to, capacity), remote::Receiver::new(&common, from, capacity));
        Self {
            sender: Sender { way: sender::Way::Remote(sender), longest, begun: None },
            receiver: Receiver {
                way: receiver::Way::Remote(receiver),
                rest: Default::default(),
                taken: None,
            },
        }
    }
}

/// Returns the ring's size for these options, rounded up to whole pages.
fn capacity(options: Options) -> Result<u64> {
    at_most("bytes of a channel's ring", options.capacity, MAX_CAPACITY)?;
    Ok(options.capacity.max(1).next_multiple_of(PAGE as u64))
}

fn express_options(options: Options) -> ChannelOptions {
    let mut express = ChannelOptions::default();
    (express.capacity, express.by_messages) = (options.capacity, options.by_card);
    express
}

/// Returns this end of a channel to a host by its card.
fn ends(card: &Card, host: u32, capacity: u64) -> Result<Box<dyn Ends>> {
    Ok(match &card.0 {
        Kind::Hamlyn(card, parts) => Box::new(HamlynEnds::create(card, &parts.termini, host, capacity)?),
        Kind::Shrimp(card) => Box::new(ShrimpEnds::create(card, host, capacity)?),
        Kind::Clan(card) => Box::new(ClanEnds::create(card, capacity)?),
        Kind::Dart(card) => Box::new(DartEnds::create(card, host, capacity)?),
    })
}

fn connect(
    card: &Card,
    host: u32,
    name: &str,
    options: Options,
    timeout: Option<Duration>,
) -> Result<Channel> {
    let (capacity, deadline) = (capacity(options)?, Deadline::new(timeout));
    match &card.0 {
        // Without express memory, no manager is needed.
        Kind::Hamlyn(own, parts)
            if !options.by_card && own.express(host).is_ok_and(|express| express.part > 0) =>
        {
            let (manager, options) = (parts.manager(own)?, express_options(options));
            if let Some(channel) = express::Channel::by_memory(&manager, host, name, options, &deadline)? {
                return Ok(Channel::over_express(channel));
            }
        }
        _ => {}
    }
    let ends = ends(card, host, capacity)?;
    let (address, model) = (ends.address()?, card.number());
    let own = Offer { model, capacity, address: &address };
    let connection = card.begin_connect(host, name, &own.to_bytes())?.finish(deadline.left())?;
    let answer = connection.private().to_vec();
    let peer = Offer::from_bytes(&answer, model)?;
    let capacity = capacity.min(peer.capacity);
    let halves = ends.join(peer.address, connection.host(), capacity)?;
    Ok(Channel::over_remote(halves, capacity, connection))
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
        capacity(options)?;
        Ok(Self { card: card.clone(), listener: card.listen(name)?, options })
    }

    /// Accepts the next peer. Blocks until there is one. Meanwhile rejects requests that are not
    /// for a channel.
    ///
    /// # Errors
    /// [`Error::Exhausted`], [`Error::Quota`], [`Error::Locked`], [`Error::System`]: the peer is
    /// rejected with the reason. Other peers can still be accepted.
    pub fn accept(&self) -> Result<Channel> {
        self.accept_with(None)
    }

    /// Accepts the next peer, if a request is pending.
    ///
    /// # Errors
    /// [`Error::TimedOut`] if none is pending; those of [`Listener::accept`].
    pub fn try_accept(&self) -> Result<Channel> {
        self.accept_with(Some(Duration::ZERO))
    }

    /// Accepts the next peer. Blocks for at most `timeout`.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; those of [`Listener::accept`].
    pub fn accept_timeout(&self, timeout: Duration) -> Result<Channel> {
        self.accept_with(Some(timeout))
    }

    fn accept_with(&self, timeout: Option<Duration>) -> Result<Channel> {
        let mut turn = self.listener.turn(timeout);
        loop {
            match self.admit(self.listener.request(turn.left())?) {
                // The peer has gone, or its request was not for a channel.
                Ok(None) | Err(Error::Ended(_) | Error::NotConnected) => {}
                Ok(Some(channel)) => return Ok(channel),
                Err(error) => return Err(error),
            }
            turn.next("request for a channel")?;
        }
    }

    /// Answers a request. Returns `None` if the request was rejected for its content.
    fn admit(&self, request: Request) -> Result<Option<Channel>> {
        if let Kind::Hamlyn(card, parts) = &self.card.0 {
            if express::asks_for_memory(request.private()) {
                let (manager, options) = (parts.manager(card)?, express_options(self.options));
                let channel = express::Channel::admit_by_memory(&manager, options, request)?;
                return Ok(channel.map(Channel::over_express));
            }
        }
        let (asked, model) = (request.private().to_vec(), self.card.number());
        let peer = match Offer::from_bytes(&asked, model) {
            Ok(peer) => peer,
            Err(error) => return request.reject_because(&error.to_string()).map(|()| None),
        };
        // Both directions use the smaller ring, so this end needs no larger one.
        let made = capacity(self.options).map(|own| own.min(peer.capacity)).and_then(|capacity| {
            let ends = ends(&self.card, request.host(), capacity)?;
            Ok((ends.address()?, ends, capacity))
        });
        let (address, ends, capacity) = match made {
            Ok(made) => made,
            Err(error) => {
                // The peer may be gone already.
                let _ = request.reject_because(&error.to_string());
                return Err(error);
            }
        };
        // The peer's halves exist since it asked.
        let halves = match ends.join(peer.address, request.host(), capacity) {
            Ok(halves) => halves,
            Err(error) => {
                let is_own = error.kind() == ErrorKind::Exhausted;
                let rejected = request.reject_because(&error.to_string());
                return if is_own { Err(error) } else { rejected.map(|()| None) };
            }
        };
        let own = Offer { model, capacity, address: &address };
        let connection = request.accept(&own.to_bytes())?;
        Ok(Some(Channel::over_remote(halves, capacity, connection)))
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}
