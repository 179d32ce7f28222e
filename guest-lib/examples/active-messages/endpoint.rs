//! An endpoint of Active Messages. Requests and replies name a handler, which runs when the
//! application polls.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use hamlyn::channel::Channel;
use hamlyn::{Error, PeerLoss, Polling, Result};

use crate::common::{Outcome, left, sleep};
use crate::wire::{Head, Kind};

/// Maximum number of requests in flight to one peer.
const CREDITS: usize = 4;
/// Maximum number of argument bytes in a message.
pub(crate) const MAX_ARGUMENTS: usize = 64 * 1024;
/// Number of empty polls before a waiter sleeps.
const SPINS: u32 = 200;
/// Time after which a sleeping waiter polls again.
const LOOK: Duration = Duration::from_millis(100);
/// Time after a peer's end in which its last messages may arrive. A peer that leaves because it has
/// lost another is not the cause: in this time the other's end is noticed, too.
const GRACE: Duration = Duration::from_secs(1);

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
    own: usize,
    handlers: Handlers<S>,
    /// The other endpoints, by rank.
    peers: BTreeMap<usize, Peer>,
    failures: VecDeque<Failure>,
}

/// Another endpoint.
struct Peer {
    channel: Channel,
    /// Messages to send.
    leaving: VecDeque<Vec<u8>>,
    /// Handlers of the requests in flight. The replies come in the same order.
    under_way: VecDeque<u16>,
    /// Why it has ended, and when it is given up.
    ended: Option<(Instant, PeerLoss)>,
    loss: Option<PeerLoss>,
}

impl<S> Endpoint<S> {
    /// Creates the endpoint of this rank, without peers.
    pub(crate) fn new(own: usize, handlers: Handlers<S>, state: S) -> Self {
        Self { state, own, handlers, peers: BTreeMap::new(), failures: VecDeque::new() }
    }

    /// Adds a peer.
    pub(crate) fn add(&mut self, rank: usize, mut channel: Channel) {
        // This endpoint polls by itself, all peers in turn.
        channel.sender.set_polling(Polling::NEVER);
        channel.receiver.set_polling(Polling::NEVER);
        let (leaving, under_way) = Default::default();
        self.peers.insert(rank, Peer { channel, leaving, under_way, ended: None, loss: None });
    }

    /// Returns whether this is the rank of a peer.
    pub(crate) fn has(&self, rank: usize) -> bool {
        self.peers.contains_key(&rank)
    }

    /// Sends a request. While all credits for the peer are in use, it runs the handlers of incoming
    /// messages. A request to itself is handled at once.
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
        check_length(arguments)?;
        if to == self.own {
            let (head, reply) = self.run(to, handler, arguments)?;
            return Ok(self.take_reply(to, handler, head, &reply)?);
        }
        let begun = Instant::now();
        loop {
            let peer = self.peers.get_mut(&to).ok_or_else(|| format!("rank {to} is not a peer"))?;
            if let Some(loss) = peer.loss {
                return Err(Error::PeerLost(loss).into());
            }
            if peer.under_way.len() < CREDITS {
                peer.under_way.push_back(handler);
                return Ok(peer.post(Head { handler, kind: Kind::Request }, arguments)?);
            }
            self.progress(begun, patience, "credit for a request")?;
        }
    }

    /// Runs handlers until all replies to this endpoint's requests have arrived.
    pub(crate) fn finish(&mut self, patience: Duration) -> Outcome {
        self.wait_until(|endpoint| endpoint.peers.values().all(|peer| peer.under_way.is_empty()), patience)
    }

    /// Runs handlers until `done` returns true for the application's state.
    pub(crate) fn serve_until(&mut self, done: impl Fn(&S) -> bool, patience: Duration) -> Outcome {
        self.wait_until(|endpoint| done(&endpoint.state), patience)
    }

    fn wait_until(&mut self, done: impl Fn(&Self) -> bool, patience: Duration) -> Outcome {
        let begun = Instant::now();
        while !done(self) {
            self.progress(begun, patience, "message")?;
        }
        Ok(())
    }

    /// Takes the next request that failed.
    pub(crate) fn failure(&mut self) -> Option<Failure> {
        self.failures.pop_front()
    }

    /// Runs the handler of one message of each peer, in the calling thread. Returns the number of
    /// messages.
    ///
    /// # Errors
    /// A protocol violation ends the peer that caused it, and is returned once.
    fn poll(&mut self) -> Outcome<usize> {
        let mut handled = 0;
        let ranks: Vec<usize> = self.peers.keys().copied().collect();
        for from in ranks {
            match self.take_message(from) {
                Ok(took) => handled += usize::from(took),
                Err(Error::Malformed(what)) => self.lose(from, PeerLoss::Violation(what))?,
                Err(error) => return Err(format!("peer {from}: {error}").into()),
            }
            let due = self.peers.get(&from).filter(|peer| peer.loss.is_none()).and_then(|peer| peer.ended);
            if let Some((_, loss)) = due.filter(|(due, _)| *due <= Instant::now()) {
                self.lose(from, loss)?;
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
        let left = left(begun, patience);
        if left.is_zero() {
            return Err(Error::TimedOut { what, after: patience }.into());
        }
        let mut files = Vec::new();
        for peer in self.peers.values_mut().filter(|peer| peer.ended.is_none()) {
            let Channel { sender, receiver } = &mut peer.channel;
            if let Some(message) = peer.leaving.front() {
                if sender.arm(message.len())? {
                    return Ok(());
                }
                files.push(sender.file()?);
            }
            if receiver.arm()? {
                return Ok(());
            }
            files.push(receiver.file()?);
        }
        sleep(&files, left.min(LOOK))
    }

    /// Gives up a peer and all its pending replies. Returns an error, once, unless the peer left
    /// gracefully with no reply pending.
    fn lose(&mut self, rank: usize, loss: PeerLoss) -> Outcome {
        let Some(peer) = self.peers.get_mut(&rank) else { return Ok(()) };
        peer.loss = Some(loss);
        peer.leaving.clear();
        let lost = peer.under_way.drain(..).count();
        self.failures.extend((0..lost).map(|_| Failure::Lost { peer: rank, loss }));
        if lost == 0 && loss == PeerLoss::Abandoned {
            return Ok(());
        }
        Err(format!("peer {rank}: {}", Error::PeerLost(loss)).into())
    }

    /// Leaves gracefully, after all replies to other endpoints' requests are sent.
    pub(crate) fn close(mut self, patience: Duration) -> Outcome {
        self.wait_until(|endpoint| endpoint.peers.values().all(|peer| peer.leaving.is_empty()), patience)?;
        for peer in self.peers.into_values().filter(|peer| peer.ended.is_none()) {
            peer.channel.sender.close_timeout(patience)?;
        }
        Ok(())
    }

    /// Handles a message of this peer, if one has arrived.
    fn take_message(&mut self, from: usize) -> Result<bool> {
        let Some(peer) = self.peers.get_mut(&from).filter(|peer| peer.loss.is_none()) else {
            return Ok(false);
        };
        peer.push()?;
        let Some(message) = peer.receive()? else { return Ok(false) };
        let (head, arguments) = Head::take(&message).ok_or(Error::Malformed("a message without a header"))?;
        if head.kind != Kind::Request {
            let handler = peer.under_way.pop_front();
            let handler = handler.ok_or(Error::Malformed("a reply without a request"))?;
            return self.take_reply(from, handler, head, arguments).map(|()| true);
        }
        // A peer has as many requests in flight as this endpoint.
        if peer.leaving.len() >= 2 * CREDITS {
            return Err(Error::Malformed("more requests than it may have in flight"));
        }
        let (head, reply) = self.run(from, head.handler, arguments)?;
        self.peers.get_mut(&from).map_or(Ok(()), |peer| peer.post(head, &reply))?;
        Ok(true)
    }

    /// Runs a request handler. Returns the reply.
    fn run(&mut self, from: usize, handler: u16, arguments: &[u8]) -> Result<(Head, Vec<u8>)> {
        let Some(run) = self.handlers.requests.get(usize::from(handler)) else {
            return Ok((Head { handler, kind: Kind::NoHandler }, Vec::new()));
        };
        let Reply { handler, arguments } = run(&mut self.state, from, arguments);
        check_length(&arguments)?;
        Ok((Head { handler, kind: Kind::Reply }, arguments))
    }

    /// Runs the reply handler.
    fn take_reply(&mut self, from: usize, handler: u16, head: Head, arguments: &[u8]) -> Result<()> {
        if head.kind == Kind::NoHandler {
            self.failures.push_back(Failure::NoHandler { peer: from, handler });
            return Ok(());
        }
        match self.handlers.replies.get(usize::from(head.handler)) {
            Some(handler) => handler(&mut self.state, from, arguments),
            None => return Err(Error::Malformed("a reply for a handler that there is not")),
        }
        Ok(())
    }
}

impl Peer {
    /// Sends a message as soon as the channel has room for it.
    fn post(&mut self, head: Head, arguments: &[u8]) -> Result<()> {
        self.leaving.push_back([&head.to_bytes(), arguments].concat());
        self.push()
    }

    /// Sends what the channel has room for.
    fn push(&mut self) -> Result<()> {
        while let Some(message) = self.leaving.front() {
            match self.channel.sender.try_send(message) {
                Ok(()) => drop(self.leaving.pop_front()),
                Err(error) if error.is_would_block() => break,
                Err(Error::PeerLost(loss)) => {
                    self.end(loss, GRACE);
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Returns the next message, if one has arrived.
    fn receive(&mut self) -> Result<Option<Vec<u8>>> {
        let (loss, after) = match self.channel.receiver.try_recv() {
            Ok(Some(message)) => return message.to_vec().map(Some),
            Ok(None) | Err(Error::PeerLost(PeerLoss::Abandoned)) => (PeerLoss::Abandoned, GRACE),
            // The channel has waited for the last messages.
            Err(Error::PeerLost(loss)) => (loss, Duration::ZERO),
            Err(error) if error.is_would_block() => return Ok(None),
            Err(error) => return Err(error),
        };
        self.end(loss, after);
        Ok(None)
    }

    /// Notes that the peer has ended. It is given up after this time.
    fn end(&mut self, loss: PeerLoss, after: Duration) {
        let due = Instant::now() + after;
        if self.ended.is_none_or(|(known, _)| due < known) {
            self.ended = Some((due, loss));
        }
    }
}

fn check_length(arguments: &[u8]) -> Result<()> {
    let (value, limit) = (arguments.len() as u64, MAX_ARGUMENTS as u64);
    if value > limit {
        return Err(Error::OutOfRange { object: "length of arguments", value, limit });
    }
    Ok(())
}
