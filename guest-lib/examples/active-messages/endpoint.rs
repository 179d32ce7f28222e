//! An endpoint of Active Messages: requests and replies that name a handler, run where the
//! application polls.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use hamlyn::protocol::datagram::{DatagramReceiver, DatagramSender};
use hamlyn::{Error, Manager, PeerLoss, Result, Ticket};

use crate::common::Outcome;
use crate::meet::{self, Watch};
use crate::wire::{Head, Verdict};

/// Requests to one peer that may be under way: each has a place of its own there for the request,
/// and here for the reply.
pub(crate) const CREDITS: usize = 4;
/// The most bytes of arguments of a message.
pub(crate) const MAX_ARGUMENTS: usize = 64 * 1024;
/// The most that go by direct I/O; longer ones by DMA.
pub(crate) const MAX_SHORT: usize = DatagramSender::MAX_DIRECT - Head::SIZE;
/// How many looks find nothing before a waiter sleeps.
const SPINS: u32 = 200;
/// How soon a sleeper looks again.
const LOOK: Duration = Duration::from_millis(100);

/// Runs at the receiver of a request: what it returns is the reply.
///
/// It has the application's state and no endpoint, so it cannot send anything else: with nothing to
/// wait for, it cannot deadlock.
pub(crate) type RequestHandler<S> = fn(&mut S, usize, &[u8]) -> Reply;
/// Runs at the receiver of a reply, which sent the request.
pub(crate) type ReplyHandler<S> = fn(&mut S, usize, &[u8]);

/// What a request handler answers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reply {
    /// Which reply handler takes it.
    pub(crate) handler: u16,
    pub(crate) arguments: Vec<u8>,
}

/// The tables of handlers: an index in a message is looked up here, and nowhere else.
#[derive(Debug)]
pub(crate) struct Handlers<S: 'static> {
    pub(crate) requests: &'static [RequestHandler<S>],
    pub(crate) replies: &'static [ReplyHandler<S>],
}

/// A request that has no effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The peer has no such request handler.
    NoHandler { peer: usize, handler: u16 },
    /// It was under way when the peer was lost: nobody knows whether it was handled.
    Lost { peer: usize, loss: PeerLoss },
}

/// An endpoint with the application's state.
pub(crate) struct Endpoint<S: 'static> {
    pub(crate) state: S,
    handlers: Handlers<S>,
    manager: Manager,
    sender: DatagramSender,
    peers: Vec<Peer>,
    failures: VecDeque<Failure>,
}

/// Another endpoint, or this one itself.
struct Peer {
    /// Where its requests arrive.
    requests: Vec<DatagramReceiver>,
    /// Where this end's requests go, and where their replies arrive; by credit.
    credits: Vec<Credit>,
    watch: Option<Watch>,
    loss: Option<PeerLoss>,
}

struct Credit {
    ticket: Ticket,
    replies: DatagramReceiver,
    /// The handler of the request that is under way.
    under_way: Option<u16>,
}

/// The places for one peer's messages, before it is known.
pub(crate) struct Places {
    requests: Vec<DatagramReceiver>,
    replies: Vec<DatagramReceiver>,
}

impl Places {
    /// Makes them.
    pub(crate) fn create(manager: &Manager) -> Result<Self> {
        let create = || DatagramReceiver::create_group(manager, CREDITS as u32, Head::SIZE + MAX_ARGUMENTS);
        Ok(Self { requests: create()?, replies: create()? })
    }

    /// What the peer must know: a ticket for each request that may be under way.
    pub(crate) fn tell(&self) -> Result<Vec<u8>> {
        let tickets = self.requests.iter().map(|place| Ok(place.ticket()?.to_bytes()));
        Ok(tickets.collect::<Result<Vec<_>>>()?.concat())
    }

    /// Joins them with what the peer told.
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
    /// An endpoint that knows nobody.
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

    /// Adds the next peer: its number is how many there were. `told` is what it told of its
    /// [`Places`].
    pub(crate) fn add(&mut self, places: Places, told: &[u8], watch: Option<Watch>) -> Result<usize> {
        self.peers.push(places.meet(told, watch)?);
        Ok(self.peers.len() - 1)
    }

    /// Sends a request. While all credits for the peer are out it runs the handlers of what comes.
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

    /// Runs handlers until all replies to own requests have come.
    pub(crate) fn finish(&mut self, patience: Duration) -> Outcome {
        let begun = Instant::now();
        while self.under_way() > 0 {
            self.progress(begun, patience, "reply")?;
        }
        Ok(())
    }

    /// Runs handlers until the state is as the application wants it.
    pub(crate) fn serve_until(&mut self, mut done: impl FnMut(&S) -> bool, patience: Duration) -> Outcome {
        let begun = Instant::now();
        while !done(&self.state) {
            self.progress(begun, patience, "message")?;
        }
        Ok(())
    }

    /// Own requests without a reply.
    pub(crate) fn under_way(&self) -> usize {
        self.peers.iter().flat_map(|peer| &peer.credits).filter(|credit| credit.under_way.is_some()).count()
    }

    /// The next request that had no effect.
    pub(crate) fn failure(&mut self) -> Option<Failure> {
        self.failures.pop_front()
    }

    /// Runs the handlers of all messages that are there, in this thread, now. How many.
    ///
    /// # Errors
    /// What a peer sends that the protocol does not allow ends that peer, and is told once.
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

    /// Runs handlers; sleeps if there is nothing to run.
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

    /// Looks which peers have ended, which the operating system knows. What had come from them
    /// before is handled first.
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

    /// A peer that is lost owes no reply any more. That is an error, told once, unless it left
    /// gracefully and owes nothing.
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

    /// Leaves gracefully, once all replies to others' requests are on their way.
    pub(crate) fn close(self, patience: Duration) -> Result<()> {
        self.manager.terminus().finish(Some(patience))?;
        self.peers.into_iter().filter_map(|peer| peer.watch).try_for_each(Watch::close)
    }

    /// Runs the request handler, makes the place ready again, and replies: whoever has the reply
    /// may use the place.
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
            // The ticket is the peer's doing.
            Err(Error::Invalid(_) | Error::PastEnd { .. } | Error::OutOfRange { .. }) => {
                Err(Error::Malformed("a ticket for the reply that cannot be used"))
            }
            sent => sent.map(|()| true),
        }
    }

    /// Makes the place ready again and runs the reply handler.
    fn take_reply(&mut self, from: usize, place: usize) -> Result<bool> {
        let credit = &mut self.peers[from].credits[place];
        // What comes unasked stays where it is.
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

    /// Short messages by direct I/O, long ones by DMA from memory of the manager's.
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
        // Its memory returns to the manager once the card has gathered from it.
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

/// A message that has come, and its reply ticket.
fn received(place: &DatagramReceiver) -> Result<Option<(Vec<u8>, Option<Ticket>)>> {
    match place.try_receive() {
        Ok(datagram) => Ok(Some((datagram.to_vec(), datagram.reply()))),
        Err(error) if error.is_would_block() => Ok(None),
        Err(error) => Err(error),
    }
}
