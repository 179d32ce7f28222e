//! Connections between endpoints (section 3.1), by their messages.
//!
//! Of a message's 40 bytes the first 8 are a number that who asks makes up for each connection, so
//! that nobody else can answer, or end it; the other 32 are the caller's, and have room for a
//! [`super::Descriptor`].

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::descriptor::Descriptor;
use super::endpoint::{Address, Core, Endpoint, FAULT, Fault, MESSAGE, MESSAGE_SIZE, Message, MessageKind};
use crate::core::connection::{End, EndReason};
use crate::core::key::random_key;
use crate::core::loss::PeerLoss;
use crate::core::waiting::Deadline;
use crate::error::{Error, Result, at_most};

/// Bytes that each side tells the other with a request, its answer, and the end.
pub const TOLD_SIZE: usize = 32;
/// What who has asked says last: if that cannot be delivered, the other was gone before he knew
/// whom to watch.
const CONFIRMED: &[u8] = b"and so we are connected";
/// Messages of a peer that wait to be asked for; more are not taken out of the endpoint's queue.
const WAITING: usize = 32;

fn payload(nonce: u64, told: &[u8]) -> Result<[u8; MESSAGE_SIZE]> {
    at_most("length of what a peer is told", told.len() as u64, TOLD_SIZE as u64)?;
    let mut data = [0; MESSAGE_SIZE];
    data[..8].copy_from_slice(&nonce.to_le_bytes());
    data[8..8 + told.len()].copy_from_slice(told);
    Ok(data)
}

fn parse(message: &Message) -> (u64, [u8; TOLD_SIZE]) {
    let (mut nonce, mut told) = ([0; 8], [0; TOLD_SIZE]);
    nonce.copy_from_slice(&message.data[..8]);
    told.copy_from_slice(&message.data[8..]);
    (u64::from_le_bytes(nonce), told)
}

impl Endpoint {
    /// Asks for a connection, tells the other up to 32 bytes, and waits for the answer. The
    /// endpoint has no other connection meanwhile, and gives its peer's messages to this one alone.
    ///
    /// # Errors
    /// [`Error::Ended`] if it was refused, or nobody has that port, or its owner ended without an
    /// answer; [`Error::PeerLost`] if there is no such host; [`Error::TimedOut`],
    /// [`Error::OutOfRange`], [`Error::System`].
    pub fn connect(&self, to: Address, told: &[u8], timeout: Option<Duration>) -> Result<Connection> {
        let nonce = random_key()?;
        let request = payload(nonce, told)?;
        let core = self.core();
        core.send(to, MessageKind::Connect, &request)?;
        let deadline = Deadline::new(timeout);
        loop {
            deadline.check("answer to a request for a connection")?;
            let message = self.message(deadline.left())?;
            let (number, told) = parse(&message);
            if message.from.host != to.host || number != nonce {
                continue;
            }
            match message.kind {
                MessageKind::Accept => return Connection::confirm(self, message.from, nonce, told),
                MessageKind::Refuse => return Err(ended(EndReason::Rejected, &told)),
                MessageKind::Undelivered if message.from == to => return Err(ended(EndReason::NoName, &[])),
                MessageKind::Gone if message.from == to => return Err(Error::PeerLost(PeerLoss::Host)),
                _ => {}
            }
        }
    }

    /// The next who asks for a connection. Other messages are passed over: this endpoint is for
    /// requests.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; [`Error::System`] if the card has gone.
    pub fn accept(&self, timeout: Option<Duration>) -> Result<Request> {
        self.core().wait_until(MESSAGE, timeout, "request for a connection", || Ok(self.try_accept()))
    }

    /// The same, if there is one.
    #[must_use]
    pub fn try_accept(&self) -> Option<Request> {
        loop {
            let message = self.try_message()?;
            if message.kind == MessageKind::Connect {
                let (nonce, told) = parse(&message);
                return Some(Request { listener: self.clone(), from: message.from, nonce, told });
            }
        }
    }
}

fn ended(reason: EndReason, told: &[u8]) -> Error {
    let length = told.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    Error::Ended(End { reason, private: told[..length].to_vec() })
}

/// Somebody who asks for a connection. Dropped without an answer, it stays without one.
#[derive(Debug)]
pub struct Request {
    listener: Endpoint,
    from: Address,
    nonce: u64,
    told: [u8; TOLD_SIZE],
}

impl Request {
    /// Who asks.
    #[must_use]
    pub fn from(&self) -> Address {
        self.from
    }

    /// What he tells.
    #[must_use]
    pub fn told(&self) -> &[u8; TOLD_SIZE] {
        &self.told
    }

    /// Accepts, and tells him up to 32 bytes. The connection is that of `endpoint`, which has no
    /// other.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::PeerLost`], [`Error::System`].
    pub fn accept(self, endpoint: &Endpoint, told: &[u8]) -> Result<Connection> {
        let answer = payload(self.nonce, told)?;
        let core = endpoint.core();
        core.set_peer(Some(self.from))?;
        let sent = core.send(self.from, MessageKind::Accept, &answer);
        if let Err(error) = sent {
            core.set_peer(None)?;
            return Err(error);
        }
        Ok(Connection::new(endpoint, self.from, self.nonce, self.told))
    }

    /// The memory that it tells of, if that is at its host: what [`super::programs::End::accept`]
    /// maps.
    ///
    /// # Errors
    /// [`Error::Descriptor`] or [`Error::Malformed`] if it tells nonsense.
    pub fn descriptor(&self) -> Result<Descriptor> {
        let descriptor = Descriptor::from_bytes(&self.told)?;
        if descriptor.host() != Some(self.from.host) {
            return Err(Error::Malformed("a descriptor of memory that is not at its host"));
        }
        Ok(descriptor)
    }

    /// Refuses, and tells him why, in up to 32 bytes.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::PeerLost`], [`Error::System`].
    pub fn refuse(self, why: &[u8]) -> Result<()> {
        self.listener.core().send(self.from, MessageKind::Refuse, &payload(self.nonce, why)?)
    }
}

/// A connection of two endpoints. Each hears when the other ends: that it closed the connection, or
/// that its process or host is lost.
///
/// It takes its endpoint's messages. If it is dropped without [`Connection::close`], the peer hears
/// it when the endpoint ends.
#[derive(Debug)]
pub struct Connection {
    endpoint: Endpoint,
    peer: Address,
    nonce: u64,
    told: [u8; TOLD_SIZE],
    heard: Mutex<Heard>,
}

#[derive(Debug, Default)]
struct Heard {
    waiting: VecDeque<[u8; TOLD_SIZE]>,
    lost: u32,
    end: Option<PeerEnd>,
    /// How many faults of its endpoint were looked at.
    faults: u32,
}

/// How the peer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerEnd {
    /// It closed the connection, and told this.
    Closed([u8; TOLD_SIZE]),
    /// It is no more, or its host is lost: the exceptional end.
    Gone,
}

impl Connection {
    fn new(endpoint: &Endpoint, peer: Address, nonce: u64, told: [u8; TOLD_SIZE]) -> Self {
        // What the endpoint was used for before is not this connection's.
        let heard = Heard { faults: endpoint.core().faults(), ..Heard::default() };
        Self { endpoint: endpoint.clone(), peer, nonce, told, heard: Mutex::new(heard) }
    }

    /// The last step of who asked.
    fn confirm(endpoint: &Endpoint, peer: Address, nonce: u64, told: [u8; TOLD_SIZE]) -> Result<Self> {
        endpoint.core().set_peer(Some(peer))?;
        endpoint.core().send(peer, MessageKind::Accept, &payload(nonce, CONFIRMED)?)?;
        Ok(Self::new(endpoint, peer, nonce, told))
    }

    /// The peer's address.
    #[must_use]
    pub fn peer(&self) -> Address {
        self.peer
    }

    /// What the peer told: with its request if this side accepted it, else with its answer.
    #[must_use]
    pub fn told(&self) -> &[u8; TOLD_SIZE] {
        &self.told
    }

    /// Its endpoint.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks through the messages that are there. No system call.
    fn listen(&self) -> MutexGuard<'_, Heard> {
        let mut heard = self.heard();
        while heard.waiting.len() < WAITING {
            let Some(message) = self.endpoint.try_message() else { break };
            self.hear(&mut heard, &message);
        }
        heard
    }

    fn hear(&self, heard: &mut Heard, message: &Message) {
        let (nonce, told) = parse(message);
        if message.from != self.peer || (nonce != self.nonce && message.kind != MessageKind::Gone) {
            return;
        }
        match message.kind {
            MessageKind::Close => heard.end = heard.end.or(Some(PeerEnd::Closed(told))),
            MessageKind::Gone => heard.end = heard.end.or(Some(PeerEnd::Gone)),
            MessageKind::Undelivered if told.starts_with(CONFIRMED) => {
                heard.end = heard.end.or(Some(PeerEnd::Gone));
            }
            MessageKind::Undelivered => heard.lost = heard.lost.wrapping_add(1),
            MessageKind::Data => heard.waiting.push_back(told),
            _ => {}
        }
    }

    /// Sends the peer up to 32 bytes, out of band.
    ///
    /// # Errors
    /// [`Error::OutOfRange`]; [`Error::PeerLost`]; an error that [`Error::is_would_block`];
    /// [`Error::System`].
    pub fn send(&self, bytes: &[u8]) -> Result<()> {
        self.endpoint.core().send(self.peer, MessageKind::Data, &payload(self.nonce, bytes)?)
    }

    /// Takes the next message of the peer's, if there is one.
    #[must_use]
    pub fn try_receive(&self) -> Option<[u8; TOLD_SIZE]> {
        self.listen().waiting.pop_front()
    }

    /// Takes the next message of the peer's; sleeps until there is one.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; those of [`Connection::check`].
    pub fn receive(&self, timeout: Option<Duration>) -> Result<[u8; TOLD_SIZE]> {
        self.core().wait_until(MESSAGE, timeout, "message of the peer", || {
            let message = self.try_receive();
            if message.is_some() {
                return Ok(message);
            }
            let ended = self.check();
            // It may have come with the end.
            self.try_receive().map_or(ended.map(|()| None), |message| Ok(Some(message)))
        })
    }

    /// How many messages of [`Connection::send`] the peer had no room for.
    #[must_use]
    pub fn undelivered(&self) -> u32 {
        self.listen().lost
    }

    /// How the peer ended, if it has.
    #[must_use]
    pub fn end(&self) -> Option<PeerEnd> {
        self.listen().end
    }

    /// Waits for the peer's end.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; [`Error::System`] if the card has gone.
    pub fn wait_end(&self, timeout: Option<Duration>) -> Result<PeerEnd> {
        self.core().wait_until(MESSAGE, timeout, "end of the connection", || Ok(self.end()))
    }

    /// Fails if the peer has ended.
    ///
    /// # Errors
    /// [`Error::Ended`] if it closed the connection, [`Error::PeerLost`] if it is gone.
    pub fn check(&self) -> Result<()> {
        match self.end() {
            None => Ok(()),
            Some(PeerEnd::Closed(told)) => Err(ended(EndReason::Closed, &told)),
            Some(PeerEnd::Gone) => Err(Error::PeerLost(PeerLoss::Gone)),
        }
    }

    /// Closes it, and tells the peer up to 32 bytes, behind all that it was sent by this endpoint's
    /// windows. The endpoint may have another connection then. It is no error if the peer has ended
    /// meanwhile.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::System`].
    pub fn close(self, told: &[u8]) -> Result<Endpoint> {
        let last = payload(self.nonce, told)?;
        let core = self.core();
        if self.end().is_none() {
            match core.send(self.peer, MessageKind::Close, &last) {
                Err(Error::PeerLost(_)) => {}
                result => result?,
            }
        }
        core.set_peer(None)?;
        // A fault that is still on its way is not the next connection's.
        core.begin_use();
        Ok(self.endpoint)
    }

    /// Waits until `look` finds something, and looks again whenever one of `bits` is set; fails if
    /// the peer ends, or a store to it came to nothing. What the peer did last is found before its
    /// end.
    pub(super) fn wait_until<T>(
        &self,
        bits: u64,
        timeout: Option<Duration>,
        what: &'static str,
        mut look: impl FnMut() -> Result<Option<T>>,
    ) -> Result<T> {
        let core = self.core();
        core.wait_until(bits | MESSAGE | FAULT, timeout, what, || {
            if let Some(found) = look()? {
                return Ok(Some(found));
            }
            if !core.has_message() && !self.has_news() {
                return Ok(None);
            }
            let ended = self.check();
            // It may have come with the end.
            if let Some(found) = look()? {
                return Ok(Some(found));
            }
            ended?;
            self.take_fault().map_or(Ok(None), |fault| Err(fault.into()))
        })
    }

    /// Whether it has ended, or there is a fault that was not looked at.
    fn has_news(&self) -> bool {
        let heard = self.heard();
        heard.end.is_some() || heard.faults != self.core().faults()
    }

    /// The last fault, if it is of the peer's host and was not looked at. Others that the endpoint
    /// has written to, a former peer among them, must not end this connection; their faults stay
    /// the endpoint's. Where one of theirs hides the peer's, his end is still told.
    fn take_fault(&self) -> Option<Fault> {
        let (count, fault) = self.core().last_fault();
        let seen = std::mem::replace(&mut self.heard().faults, count);
        fault.filter(|fault| count != seen && fault.host == self.peer.host)
    }

    pub(super) fn core(&self) -> &Core {
        self.endpoint.core()
    }
}
