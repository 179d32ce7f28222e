//! An endpoint of Active Messages. Requests and replies name a handler, which runs when the
//! application polls.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use hamlyn::protocol::datagram::{DatagramReceiver, DatagramSender};
use hamlyn::{Error, Manager, PeerLoss, Result, Ticket};

use crate::common::Outcome;
use crate::meet::{self, Watch};
use crate::wire::{Head, Verdict};

/// Maximum number of requests in flight to one peer. Each has its own receiver at the peer for the
/// request, and one here for the reply.
pub(crate) const CREDITS: usize = 4;
/// Maximum number of argument bytes in a message.
pub(crate) const MAX_ARGUMENTS: usize = 64 * 1024;
/// Maximum number of argument bytes sent by direct I/O; longer ones go by DMA.
pub(crate) const MAX_SHORT: usize = DatagramSender::MAX_DIRECT - Head::SIZE;
/// Number of empty polls before a waiter sleeps.
const SPINS: u32 = 200;
/// Time after which a sleeping waiter polls again.
const LOOK: Duration = Duration::from_millis(100);

/// Runs at the receiver of a request. Its return value is the reply.
///
/// It gets the application's state but no endpoint, so it cannot send anything else. It has nothing
/// to wait for and cannot deadlock.
pub(crate) type RequestHandler<S> = fn(&mut S, usize, &[u8]) -> Reply;
/// Runs at the receiver of a reply, which is the sender of the request.
pub(crate) type ReplyHandler<S> = fn(&mut S, usize, &[u8]);

/// The answer of a request handler.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reply {
    /// Index of the reply handler that takes it.
    pub(crate) handler: u16,
    pub(crate) arguments: Vec<u8>,
}

/// The tables of handlers. An index in a message is looked up only here.
#[derive(Debug)]
pub(crate) struct Handlers<S: 'static> {
    pub(crate) requests: &'static [RequestHandler<S>],
    pub(crate) replies: &'static [ReplyHandler<S>],
}

/// A request that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The peer has no such request handler.
    NoHandler { peer: usize, handler: u16 },
    /// The request was in flight when the peer was lost. It is unknown whether it was handled.
    Lost { peer: usize, loss: PeerLoss },
}

/// An endpoint together with the application's state.
pub(crate) struct Endpoint<S: 'static> {
    pub(crate) state: S,
    handlers: Handlers<S>,
    manager: Manager,
    sender: DatagramSender,
    peers: Vec<Peer>,
    failures: VecDeque<Failure>,
}

/// Another endpoint, or this endpoint itself.
struct Peer {
    /// Receives the peer's requests.
    requests: Vec<DatagramReceiver>,
    /// Destinations of this endpoint's requests and receivers of their replies, one per credit.
    credits: Vec<Credit>,
    watch: Option<Watch>,
    loss: Option<PeerLoss>,
}

struct Credit {
    ticket: Ticket,
    replies: DatagramReceiver,
    /// Handler of the request in flight.
    under_way: Option<u16>,
}

/// Receivers for one peer's messages, before the peer is known.
pub(crate) struct Places {
    requests: Vec<DatagramReceiver>,
    replies: Vec<DatagramReceiver>,
}

impl Places {
    /// Creates the receivers.
    pub(crate) fn create(manager: &Manager) -> Result<Self> {
        let create = || DatagramReceiver::create_group(manager, CREDITS as u32, Head::SIZE + MAX_ARGUMENTS);
        Ok(Self { requests: create()?, replies: create()? })
    }

    /// Returns what the peer must know: one ticket per request that may be in flight.
    pub(crate) fn tell(&self) -> Result<Vec<u8>> {
        let tickets = self.requests.iter().map(|place| Ok(place.ticket()?.to_bytes()));
        Ok(tickets.collect::<Result<Vec<_>>>()?.concat())
    }

    /// Combines the receivers with the tickets from the peer.
    fn meet(self, told: &[u8], watch: Option<Watch>) -> Result<Peer> {
        if told.len() != CREDITS * Ticket::SIZE {
            return Err(Error::Malformed("something else than tickets for requests"));
        }
        let tickets = told.chunks(Ticket::SIZE).map(Ticket::from_bytes).collect::<Result<Vec<_>, _>>()?;
        let credit = |(ticket, replies)| Credit { ticket, replies, under_way: None };
        let credits = tickets.into_iter().zip(self.replies).map(credit).collect();
        Ok(Peer { requests: self.requests, credits, watch, loss: None })
    }
}

impl<S> Endpoint<S> {
    /// Creates an endpoint without peers.
    pub(crate) fn new(manager: &Manager, handlers: Handlers<S>, state: S) -> Self {
        let sender = DatagramSender::new(manager);
        Self {
            state,
            handlers,
            manager: manager.clone(),
            sender,
            peers: Vec::new(),
            failures: VecDeque::new(),
        }
    }

    /// Adds the next peer and returns its number; numbers count from 0. `told` is what the peer
    /// sent about its [`Places`].
    pub(crate) fn add(&mut self, places: Places, told: &[u8], watch: Option<Watch>) -> Result<usize> {
        self.peers.push(places.meet(told, watch)?);
        Ok(self.peers.len() - 1)
    }

    /// Sends a request. While all credits for the peer are in use, it runs the handlers of incoming
    /// messages.
    ///
    /// # Errors
    /// [`Error::OutOfRange`]; [`Error::PeerLost`]; [`Error::TimedOut`].
    pub(crate) fn request(
        &mut self,
        to: usize,
        handler: u16,
        arguments: &[u8],
        patience: Duration,
    ) -> Outcome {
        self.check(to, arguments)?;
        let begun = Instant::now();
        loop {
            let Peer { credits, loss, .. } = &self.peers[to];
            if let Some(loss) = *loss {
                return Err(Error::PeerLost(loss).into());
            }
            if let Some(free) = credits.iter().position(|credit| credit.under_way.is_none()) {
                let (ticket, reply) = (credits[free].ticket, credits[free].replies.ticket()?);
                let head = Head { handler, verdict: Verdict::Handled };
                self.send(&ticket, head, arguments, Some(&reply))?;
                self.peers[to].credits[free].under_way = Some(handler);
                return Ok(());
            }
            self.progress(begun, patience, "credit for a request")?;
        }
    }

    /// Runs handlers until all replies to this endpoint's requests have arrived.
    pub(crate) fn finish(&mut self, patience: Duration) -> Outcome {
        let begun = Instant::now();
        while self.under_way() > 0 {
            self.progress(begun, patience, "reply")?;
        }
        Ok(())
    }

    /// Runs handlers until `done` returns true for the application's state.
    pub(crate) fn serve_until(&mut self, mut done: impl FnMut(&S) -> bool, patience: Duration) -> Outcome {
        let begun = Instant::now();
        while !done(&self.state) {
            self.progress(begun, patience, "message")?;
        }
        Ok(())
    }

    /// Returns the number of this endpoint's requests without a reply.
    pub(crate) fn under_way(&self) -> usize {
        self.peers.iter().flat_map(|peer| &peer.credits).filter(|credit| credit.under_way.is_some()).count()
    }

    /// Takes the next request that failed.
    pub(crate) fn failure(&mut self) -> Option<Failure> {
        self.failures.pop_front()
    }

    /// Runs the handlers of all messages that have arrived, in the calling thread. Returns the
    /// number of messages.
    ///
    /// # Errors
    /// A protocol violation ends the peer that caused it, and is returned once.
    pub(crate) fn poll(&mut self) -> Outcome<usize> {
        self.manager.poll_all()?;
        let mut handled = 0;
        for peer in 0..self.peers.len() {
            for place in 0..CREDITS {
                if self.peers[peer].loss.is_some() {
                    break;
                }
                let reply = self.take_reply(peer, place);
                match reply.and_then(|reply| Ok((reply, self.take_request(peer, place)?))) {
                    Ok((reply, request)) => handled += usize::from(reply) + usize::from(request),
                    Err(Error::Malformed(what)) => self.lose(peer, PeerLoss::Violation(what))?,
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(handled)
    }

    /// Runs handlers, or sleeps if there is nothing to run.
    fn progress(&mut self, begun: Instant, patience: Duration, what: &'static str) -> Outcome {
        for _ in 0..=SPINS {
            if self.poll()? > 0 {
                return Ok(());
            }
            std::hint::spin_loop();
        }
        let left = meet::left(begun, patience);
        if left.is_zero() {
            return Err(Error::TimedOut { what, after: patience }.into());
        }
        let files: Vec<_> = self.peers.iter().filter_map(|peer| peer.watch.as_ref()?.file()).collect();
        meet::sleep(&self.manager, &files, left.min(LOOK))?;
        self.look_for_ends()
    }

    /// Checks which peers have ended, as reported by the operating system. Messages that arrived
    /// from them before are handled first.
    fn look_for_ends(&mut self) -> Outcome {
        self.poll()?;
        for number in 0..self.peers.len() {
            let Peer { watch: Some(watch), loss: None, .. } = &mut self.peers[number] else { continue };
            if let Some(loss) = watch.loss()? {
                self.lose(number, loss)?;
            }
        }
        Ok(())
    }

    /// Marks a peer as lost and gives up all its pending replies. Returns an error, once, unless
    /// the peer left gracefully with no reply pending.
    fn lose(&mut self, number: usize, loss: PeerLoss) -> Outcome {
        let peer = &mut self.peers[number];
        peer.loss = Some(loss);
        let lost = peer.credits.iter_mut().filter_map(|credit| credit.under_way.take()).count();
        self.failures.extend((0..lost).map(|_| Failure::Lost { peer: number, loss }));
        if lost == 0 && loss == PeerLoss::Abandoned {
            return Ok(());
        }
        Err(format!("peer {number}: {}", Error::PeerLost(loss)).into())
    }

    /// Leaves gracefully, after all replies to other endpoints' requests are sent.
    pub(crate) fn close(self, patience: Duration) -> Result<()> {
        self.manager.terminus().finish(Some(patience))?;
        self.peers.into_iter().filter_map(|peer| peer.watch).try_for_each(Watch::close)
    }

    /// Runs the request handler, rearms the receiver, and replies. The receiver is rearmed first
    /// because the peer may reuse it as soon as it has the reply.
    fn take_request(&mut self, from: usize, place: usize) -> Result<bool> {
        let Some((message, reply_to)) = received(&self.peers[from].requests[place])? else {
            return Ok(false);
        };
        self.peers[from].requests[place].rearm();
        let (Some(reply_to), Some((head, arguments))) = (reply_to, Head::take(&message)) else {
            return Err(Error::Malformed("a request that is too short or wants no reply"));
        };
        let (head, reply) = match self.handlers.requests.get(usize::from(head.handler)) {
            Some(handler) => {
                let reply = handler(&mut self.state, from, arguments);
                (Head { handler: reply.handler, verdict: Verdict::Handled }, reply.arguments)
            }
            None => (Head { handler: head.handler, verdict: Verdict::NoHandler }, Vec::new()),
        };
        self.check(from, &reply)?;
        match self.send(&reply_to, head, &reply, None) {
            // The peer supplied the ticket.
            Err(Error::Invalid(_) | Error::PastEnd { .. } | Error::OutOfRange { .. }) => {
                Err(Error::Malformed("a ticket for the reply that cannot be used"))
            }
            sent => sent.map(|()| true),
        }
    }

    /// Rearms the receiver and runs the reply handler.
    fn take_reply(&mut self, from: usize, place: usize) -> Result<bool> {
        let credit = &mut self.peers[from].credits[place];
        // An unexpected message stays in the receiver.
        let Some(handler) = credit.under_way else { return Ok(false) };
        let Some((message, _)) = received(&credit.replies)? else { return Ok(false) };
        credit.replies.rearm();
        credit.under_way = None;
        match Head::take(&message) {
            Some((Head { verdict: Verdict::NoHandler, .. }, _)) => {
                self.failures.push_back(Failure::NoHandler { peer: from, handler });
            }
            Some((head, arguments)) => match self.handlers.replies.get(usize::from(head.handler)) {
                Some(handler) => handler(&mut self.state, from, arguments),
                None => return Err(Error::Malformed("a reply for a handler that there is not")),
            },
            None => return Err(Error::Malformed("a reply that is too short")),
        }
        Ok(true)
    }

    /// Sends short messages by direct I/O, and long ones by DMA from the manager's memory.
    fn send(&mut self, to: &Ticket, head: Head, arguments: &[u8], reply: Option<&Ticket>) -> Result<()> {
        let head = head.to_bytes();
        let length = head.len() + arguments.len();
        if arguments.len() <= MAX_SHORT {
            let mut message = [0; DatagramSender::MAX_DIRECT];
            message[..head.len()].copy_from_slice(&head);
            message[head.len()..length].copy_from_slice(arguments);
            return self.sender.send(to, &message[..length], 0, reply).map(drop);
        }
        let mut buffer = self.manager.allocate(length)?;
        buffer.write(0, &head)?;
        buffer.write(head.len(), arguments)?;
        // The manager gets the memory back once the card has gathered the data.
        self.sender.send_buffer(to, buffer, 0, reply).map(drop).map_err(Into::into)
    }

    fn check(&self, peer: usize, arguments: &[u8]) -> Result<()> {
        let at_most = |object, value: usize, limit: usize| match value > limit {
            true => Err(Error::OutOfRange { object, value: value as u64, limit: limit as u64 }),
            false => Ok(()),
        };
        at_most("peer", peer, self.peers.len().saturating_sub(1))?;
        at_most("length of arguments", arguments.len(), MAX_ARGUMENTS)
    }
}

/// Returns a message that has arrived, and its reply ticket.
fn received(place: &DatagramReceiver) -> Result<Option<(Vec<u8>, Option<Ticket>)>> {
    match place.try_receive() {
        Ok(datagram) => Ok(Some((datagram.to_vec(), datagram.reply()))),
        Err(error) if error.is_would_block() => Ok(None),
        Err(error) => Err(error),
    }
}
