//! Channels by name: a connection (sections 6.3 and 6.4) carries what the two ends need from each
//! other, and reports the end.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::bell::{Bell, Ear};
use super::memory::Ground;
use super::offer::{Offer, Way};
use super::receiver::{self, ChannelReceiver};
use super::sender::{self, ChannelSender};
use super::{Channel, ChannelOptions, memory, messages};
use crate::core::connection::{Connection, EndReason, Listener, Request};
use crate::core::express::memory::RingMemory;
use crate::core::express::pages::{ExpressArea, ExpressView, is_absent};
use crate::core::waiting::Deadline;
use crate::core::watch::Watch;
use crate::error::{Error, ErrorKind, Result};
use crate::hamlyn::attach::Attachment;
use crate::hamlyn::manager::Manager;
use crate::hamlyn::protocol::stream::{StreamPair, StreamReceiver, StreamSender};
use crate::hamlyn::seed::Seed;
use crate::hamlyn::ticket::Ticket;

/// Rejection that makes the requester ask for a channel by messages instead.
const BY_MESSAGES: &[u8] = b"by messages: there is no express memory";

impl Channel {
    /// Opens a channel to the [`ChannelListener`] with this name on a host. `None` waits forever.
    ///
    /// # Errors
    /// The errors of [`crate::Card::begin_connect`] and [`crate::Connecting::finish`]; the errors
    /// of [`crate::Card::create_express_area`] and [`crate::Card::map_express_area`], except that
    /// there is no express memory, because the channel then uses messages; [`Error::Malformed`] if
    /// the listener is not a channel listener.
    pub fn connect(
        manager: &Manager,
        host: u32,
        name: &str,
        options: ChannelOptions,
        timeout: Option<Duration>,
    ) -> Result<Self> {
        let until = Deadline::new(timeout);
        if let Some(channel) = Self::by_memory(manager, host, name, options, &until)? {
            return Ok(channel);
        }
        let (receiver, own) = receive_by_messages(manager, options)?;
        let connection = manager.card().begin_connect(host, name, &own.to_bytes())?.finish(until.left())?;
        let peer = Offer::from_bytes(connection.private(), host)?;
        match peer.way {
            Way::Messages(seed) => {
                by_messages(manager, (receiver, own.capacity), &seed, peer.capacity, connection)
            }
            Way::Memory { .. } => {
                Err(Error::Malformed("an answer by express memory to who asked for messages"))
            }
        }
    }
}

impl Channel {
    /// Opens a channel over express memory. Returns `None` if the two hosts have none, or one end
    /// wants to use messages.
    pub(crate) fn by_memory(
        manager: &Manager,
        host: u32,
        name: &str,
        options: ChannelOptions,
        until: &Deadline,
    ) -> Result<Option<Self>> {
        if options.by_messages || manager.card().info()?.host == Some(host) {
            return Ok(None);
        }
        match connect_by_memory(manager, host, name, options, until) {
            Err(Error::Ended(end)) if end.reason == EndReason::Rejected && end.private == BY_MESSAGES => {
                Ok(None)
            }
            Err(error) if is_absent(&error) => Ok(None),
            channel => channel.map(Some),
        }
    }

    /// Answers a request for a channel over express memory. Returns `None` if it was rejected
    /// without an error on this side.
    pub(crate) fn admit_by_memory(
        manager: &Manager,
        options: ChannelOptions,
        request: Request,
    ) -> Result<Option<Self>> {
        let (host, peer) = (request.host(), Offer::from_bytes(request.private(), request.host()));
        let (capacity, area, key, ticket) = match peer {
            Ok(Offer { capacity, way: Way::Memory { area, key, ticket } }) => (capacity, area, key, ticket),
            Ok(_) => return reject(request, b"this listener has no channels by messages of a manager"),
            Err(error) => return request.reject_because(&error.to_string()).map(|()| None),
        };
        if options.by_messages {
            return reject(request, BY_MESSAGES);
        }
        // Both directions use the smaller ring, so this end needs no larger one.
        let options = ChannelOptions { capacity: options.capacity.min(capacity), ..options };
        let own = match ChannelEnd::create(manager, host, options) {
            Ok(own) => own,
            Err(error) if is_absent(&error) => return reject(request, BY_MESSAGES),
            Err(error) => return fail(request, error),
        };
        match View::map(manager, host, area, key, capacity) {
            Ok(view) => {
                let connection = request.accept(&own.own_offer()?.to_bytes())?;
                Ok(Some(own.assemble(view, ticket, connection)))
            }
            Err(error) if is_absent(&error) => reject(request, BY_MESSAGES),
            Err(error) if error.kind() == ErrorKind::Exhausted => fail(request, error),
            // The peer has asked for an area that it does not have.
            Err(error) => request.reject_because(&error.to_string()).map(|()| None),
        }
    }
}

/// A name under which other processes request channels to this one.
///
/// Its file descriptor ([`AsFd`]) is readable while a request is pending.
#[derive(Debug)]
pub struct ChannelListener {
    listener: Listener,
    manager: Manager,
    options: ChannelOptions,
}

impl ChannelListener {
    /// Binds a name, with options for the receiving ends on this side.
    ///
    /// # Errors
    /// The errors of [`crate::Card::listen`].
    pub fn bind(manager: &Manager, name: &str, options: ChannelOptions) -> Result<Self> {
        Ok(Self { listener: manager.card().listen(name)?, manager: manager.clone(), options })
    }

    /// Waits for the next peer, and accepts it. Meanwhile rejects requests that are not for a
    /// channel. A timeout of zero only checks.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; the errors of [`crate::Card::create_express_area`] and the like. The
    /// peer is then rejected, and gets the reason. You can continue to accept after such an error.
    pub fn accept(&self, timeout: Option<Duration>) -> Result<Channel> {
        let mut turn = self.listener.turn(timeout);
        loop {
            let request = self.listener.request(turn.left())?;
            match self.admit(request) {
                // The requester has gone meanwhile, or asks again.
                Ok(None) | Err(Error::Ended(_) | Error::NotConnected) => {}
                Ok(Some(channel)) => return Ok(channel),
                Err(error) => return Err(error),
            }
            turn.next("request for a channel")?;
        }
    }

    /// Returns `None` if the request was rejected without an error on this side.
    fn admit(&self, request: Request) -> Result<Option<Channel>> {
        let peer = match Offer::from_bytes(request.private(), request.host()) {
            Ok(peer) => peer,
            Err(error) => return request.reject_because(&error.to_string()).map(|()| None),
        };
        let manager = &self.manager;
        match peer.way {
            Way::Messages(ref seed) => match receive_by_messages(manager, self.options) {
                Ok((receiver, own)) => {
                    let connection = request.accept(&own.to_bytes())?;
                    by_messages(manager, (receiver, own.capacity), seed, peer.capacity, connection).map(Some)
                }
                Err(error) => fail(request, error),
            },
            Way::Memory { .. } => Channel::admit_by_memory(manager, self.options, request),
        }
    }
}

impl AsFd for ChannelListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

fn reject(request: Request, why: &[u8]) -> Result<Option<Channel>> {
    request.reject(why).map(|()| None)
}

/// Sends the reason to the peer, which may be able to act on it or report it. The peer may have
/// gone meanwhile.
fn fail(request: Request, error: Error) -> Result<Option<Channel>> {
    let _ = request.reject_because(&error.to_string());
    Err(error)
}

fn connect_by_memory(
    manager: &Manager,
    host: u32,
    name: &str,
    options: ChannelOptions,
    until: &Deadline,
) -> Result<Channel> {
    let own = ChannelEnd::create(manager, host, options)?;
    let connection = manager.card().begin_connect(host, name, &own.offer()?)?.finish(until.left())?;
    let offer = connection.private().to_vec();
    own.join(&offer, connection)
}

/// One end of an express memory channel that is not connected to the other yet. For applications
/// that connect and exchange offers in their own way.
///
/// Each of two processes creates one for the other's host and passes on its offer. Then it joins
/// the offer that it received to a connection between the two.
#[derive(Debug)]
pub struct ChannelEnd {
    manager: Manager,
    area: ExpressArea<dyn Attachment>,
    ring: RingMemory,
    ear: Arc<Ear>,
}

impl ChannelEnd {
    /// Allocates an area to receive in from a host.
    ///
    /// # Errors
    /// The errors of [`crate::Card::create_express_area`]; the errors of opening a slot.
    pub fn create(manager: &Manager, host: u32, options: ChannelOptions) -> Result<Self> {
        let length = usize::try_from(RingMemory::area_for(options.capacity.max(1))).unwrap_or(usize::MAX);
        let area = manager.card().create_express_area(host, length)?;
        let ring = RingMemory::of(&area).ok_or(TOO_SMALL)?;
        ring.make();
        Ok(Self { manager: manager.clone(), area, ring, ear: Ear::open(manager)? })
    }

    /// Returns what the other end needs from this one, to be passed on by any means. Any process
    /// that knows it can take this end's place there.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn offer(&self) -> Result<Vec<u8>> {
        Ok(self.own_offer()?.to_bytes().to_vec())
    }

    /// Creates the complete channel from the other end's offer and a connection with its process.
    /// The connection notifies either end when the other ends.
    ///
    /// # Errors
    /// [`Error::Malformed`] if the offer is not valid, or is from another host than the connection;
    /// the errors of [`crate::Card::map_express_area`].
    pub fn join(self, offer: &[u8], connection: Connection) -> Result<Channel> {
        let host = connection.host();
        let peer = Offer::from_bytes(offer, host)?;
        match peer.way {
            Way::Memory { area, key, ticket } => {
                let view = View::map(&self.manager, host, area, key, peer.capacity)?;
                Ok(self.assemble(view, ticket, connection))
            }
            Way::Messages(_) => {
                Err(Error::Malformed("an offer by messages, for a channel by express memory"))
            }
        }
    }

    fn own_offer(&self) -> Result<Offer> {
        let way = Way::Memory { area: self.area.number(), key: self.area.key(), ticket: self.ear.ticket()? };
        Ok(Offer { capacity: self.ring.capacity(), way })
    }

    fn assemble(self, view: View, ticket: Ticket, connection: Connection) -> Channel {
        let Self { manager, area, ring, ear } = self;
        let bells = [Bell::new(&manager, ticket), Bell::new(&manager, ticket)];
        let watch = Watch::over(connection);
        let (there, broken) = (view.ring.clone(), OnceLock::new());
        let ground = Arc::new(Ground { watch, _area: area, _view: view.view, there, broken, ear, manager });
        let [to, from] = bells;
        let sender = memory::Sender::new(&ground, view.ring, to);
        let receiver = memory::Receiver::new(&ground, ring, from);
        Channel {
            sender: ChannelSender::new(sender::Way::Memory(sender)),
            receiver: ChannelReceiver::new(receiver::Way::Memory(receiver)),
        }
    }
}

/// The peer's area.
struct View {
    view: ExpressView<dyn Attachment>,
    ring: RingMemory,
}

impl View {
    fn map(manager: &Manager, host: u32, area: u32, key: u64, capacity: u64) -> Result<Self> {
        let view = manager.card().map_express_area(host, area, key)?;
        let ring = RingMemory::of(&view).filter(|ring| ring.capacity() == capacity && ring.is_made());
        let ring = ring.ok_or(Error::Malformed("an area that is none of a channel, or of another length"))?;
        Ok(Self { view, ring })
    }
}

const TOO_SMALL: Error = Error::Invalid("a channel's area has two pages at least");

fn receive_by_messages(manager: &Manager, options: ChannelOptions) -> Result<(StreamReceiver, Offer)> {
    let receiver = StreamReceiver::create(manager)?;
    let way = Way::Messages(receiver.make_seed()?);
    Ok((receiver, Offer { capacity: super::ring_for(options.capacity), way }))
}

fn by_messages(
    manager: &Manager,
    (receiver, own): (StreamReceiver, u64),
    seed: &Seed,
    peer: u64,
    connection: Connection,
) -> Result<Channel> {
    let sender = StreamSender::from_seed(manager, seed)?;
    let StreamPair { sender, receiver } = StreamPair::watched(sender, receiver, connection);
    Ok(Channel {
        sender: ChannelSender::new(sender::Way::Messages(messages::Sender::new(sender, peer)?)),
        receiver: ChannelReceiver::new(receiver::Way::Messages(messages::Receiver::new(receiver, own)?)),
    })
}
