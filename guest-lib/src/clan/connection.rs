//! Connections between endpoints (section 3.1), set up and closed by messages.
//!
//! The first 8 of a message's 40 bytes are a nonce that the requester chooses for each connection.
//! So no third party can answer or close the connection. The other 32 bytes belong to the caller,
//! and have room for a [`super::Descriptor`].

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::descriptor::Descriptor;
use super::endpoint::core::{Core, FAULT, MESSAGE};
use super::endpoint::{Address, Endpoint, Fault, MESSAGE_SIZE, Message, MessageKind};
use crate::core::connection::{End, EndReason};
use crate::core::key::random_key;
use crate::core::loss::PeerLoss;
use crate::core::waiting::Deadline;
use crate::error::{Error, Result, at_most};

/// Size of the caller's data in a connection request, its answer, and the closing message, in
/// bytes.
pub const TOLD_SIZE: usize = 32;
/// Last message of connection set-up, from the requester. If it cannot be delivered, the acceptor
/// was gone before the requester knew which peer to watch.
const CONFIRMED: &[u8] = b"and so we are connected";
/// Maximum number of buffered messages of the peer. Further messages stay in the endpoint's queue.
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
    /// Requests a connection, sends up to 32 bytes with the request, and blocks until the answer
    /// arrives. The endpoint must not have another connection meanwhile. This connection takes all
    /// messages of its peer.
    ///
    /// # Errors
    /// [`Error::Ended`] if the request was refused, the port is not in use, or its owner ended
    /// without an answer; [`Error::PeerLost`] if the host does not exist; [`Error::OutOfRange`],
    /// [`Error::System`].
    pub fn connect(&self, to: Address, told: &[u8]) -> Result<Connection> {
        self.connect_within(to, told, None)
    }

    /// As [`Endpoint::connect`], but blocks for at most `timeout`.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; those of [`Endpoint::connect`].
    pub fn connect_timeout(&self, to: Address, told: &[u8], timeout: Duration) -> Result<Connection> {
        self.connect_within(to, told, Some(timeout))
    }

    fn connect_within(&self, to: Address, told: &[u8], timeout: Option<Duration>) -> Result<Connection> {
        let nonce = random_key()?;
        let request = payload(nonce, told)?;
        let core = self.core();
        core.send(to, MessageKind::Connect, &request)?;
        let deadline = Deadline::new(timeout);
        loop {
            deadline.check("answer to a request for a connection")?;
            let message = self.recv_message_within(deadline.left())?;
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

    /// Blocks until a connection request arrives and returns it. Other messages are discarded: this
    /// endpoint is for requests.
    ///
    /// # Errors
    /// [`Error::System`] if the card is gone.
    pub fn accept(&self) -> Result<Request> {
        self.core().wait_until(MESSAGE, None, "request for a connection", || Ok(self.try_accept()))
    }

    /// As [`Endpoint::accept`], but blocks for at most `timeout`.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; those of [`Endpoint::accept`].
    pub fn accept_timeout(&self, timeout: Duration) -> Result<Request> {
        self.core().wait_until(MESSAGE, Some(timeout), "request for a connection", || Ok(self.try_accept()))
    }

    /// Returns the next connection request if there is one, without blocking.
    #[must_use]
    pub fn try_accept(&self) -> Option<Request> {
        loop {
            let message = self.try_recv_message()?;
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

/// A pending connection request. If it is dropped without an answer, the requester gets none.
#[derive(Debug)]
pub struct Request {
    listener: Endpoint,
    from: Address,
    nonce: u64,
    told: [u8; TOLD_SIZE],
}

impl Request {
    /// Returns the requester's address.
    #[must_use]
    pub fn from(&self) -> Address {
        self.from
    }

    /// Returns the data that the requester sent.
    #[must_use]
    pub fn told(&self) -> &[u8; TOLD_SIZE] {
        &self.told
    }

    /// Accepts the request and sends up to 32 bytes to the requester. The connection uses
    /// `endpoint`, which must not have another one.
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

    /// Returns the descriptor in the requester's data, if its memory is at the requester's host.
    /// [`super::programs::End::accept`] maps this memory.
    ///
    /// # Errors
    /// [`crate::clan::DescriptorError`] or [`Error::Malformed`] if the data is not such a
    /// descriptor.
    pub fn descriptor(&self) -> Result<Descriptor> {
        let descriptor = Descriptor::from_bytes(&self.told)?;
        if descriptor.host() != Some(self.from.host) {
            return Err(Error::Malformed("a descriptor of memory that is not at its host"));
        }
        Ok(descriptor)
    }

    /// Refuses the request and sends a reason of up to 32 bytes.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::PeerLost`], [`Error::System`].
    pub fn refuse(self, why: &[u8]) -> Result<()> {
        self.listener.core().send(self.from, MessageKind::Refuse, &payload(self.nonce, why)?)
    }
}

/// A connection of two endpoints. Each side is notified when the other side closes the connection,
/// or when its process or host is lost.
///
/// The connection takes its endpoint's messages. If it is dropped without [`Connection::close`],
/// the peer is notified when the endpoint is closed.
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
    /// The fault count of the endpoint up to which faults were checked.
    faults: u32,
}

/// How the peer ended the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerEnd {
    /// The peer closed the connection, and sent this data.
    Closed([u8; TOLD_SIZE]),
    /// The peer's process or host is lost: the exceptional end.
    Gone,
}

impl Connection {
    fn new(endpoint: &Endpoint, peer: Address, nonce: u64, told: [u8; TOLD_SIZE]) -> Self {
        // Faults from an earlier use of the endpoint do not belong to this connection.
        let heard = Heard { faults: endpoint.core().faults(), ..Heard::default() };
        Self { endpoint: endpoint.clone(), peer, nonce, told, heard: Mutex::new(heard) }
    }

    /// Completes the set-up on the requester's side.
    fn confirm(endpoint: &Endpoint, peer: Address, nonce: u64, told: [u8; TOLD_SIZE]) -> Result<Self> {
        endpoint.core().set_peer(Some(peer))?;
        endpoint.core().send(peer, MessageKind::Accept, &payload(nonce, CONFIRMED)?)?;
        Ok(Self::new(endpoint, peer, nonce, told))
    }

    /// Returns the peer's address.
    #[must_use]
    pub fn peer(&self) -> Address {
        self.peer
    }

    /// Returns the peer's data: from its request if this side accepted it, else from its answer.
    #[must_use]
    pub fn told(&self) -> &[u8; TOLD_SIZE] {
        &self.told
    }

    /// Returns the connection's endpoint.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Processes the messages that have arrived, without a system call.
    fn listen(&self) -> MutexGuard<'_, Heard> {
        let mut heard = self.heard();
        while heard.waiting.len() < WAITING {
            let Some(message) = self.endpoint.try_recv_message() else { break };
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

    /// Sends up to 32 bytes to the peer, out of band.
    ///
    /// # Errors
    /// [`Error::OutOfRange`]; [`Error::PeerLost`]; an error for which [`Error::is_would_block`] is
    /// true; [`Error::System`].
    pub fn send(&self, bytes: &[u8]) -> Result<()> {
        self.endpoint.core().send(self.peer, MessageKind::Data, &payload(self.nonce, bytes)?)
    }

    /// Takes the peer's next message, if there is one.
    #[must_use]
    pub fn try_recv(&self) -> Option<[u8; TOLD_SIZE]> {
        self.listen().waiting.pop_front()
    }

    /// Takes the peer's next message; blocks until there is one.
    ///
    /// # Errors
    /// The errors of [`Connection::check`].
    pub fn recv(&self) -> Result<[u8; TOLD_SIZE]> {
        self.recv_within(None)
    }

    /// As [`Connection::recv`], but blocks for at most `timeout`.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; those of [`Connection::recv`].
    pub fn recv_timeout(&self, timeout: Duration) -> Result<[u8; TOLD_SIZE]> {
        self.recv_within(Some(timeout))
    }

    fn recv_within(&self, timeout: Option<Duration>) -> Result<[u8; TOLD_SIZE]> {
        self.core().wait_until(MESSAGE, timeout, "message of the peer", || {
            let message = self.try_recv();
            if message.is_some() {
                return Ok(message);
            }
            let ended = self.check();
            // A message may have arrived together with the end.
            self.try_recv().map_or(ended.map(|()| None), |message| Ok(Some(message)))
        })
    }

    /// Returns the number of messages of [`Connection::send`] that the peer had no room for.
    #[must_use]
    pub fn undelivered(&self) -> u32 {
        self.listen().lost
    }

    /// Returns how the peer ended the connection, if it has.
    #[must_use]
    pub fn end(&self) -> Option<PeerEnd> {
        self.listen().end
    }

    /// Blocks until the peer ends the connection.
    ///
    /// # Errors
    /// [`Error::System`] if the card is gone.
    pub fn wait_end(&self) -> Result<PeerEnd> {
        self.core().wait_until(MESSAGE, None, "end of the connection", || Ok(self.end()))
    }

    /// As [`Connection::wait_end`], but blocks for at most `timeout`.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; those of [`Connection::wait_end`].
    pub fn wait_end_timeout(&self, timeout: Duration) -> Result<PeerEnd> {
        self.core().wait_until(MESSAGE, Some(timeout), "end of the connection", || Ok(self.end()))
    }

    /// Fails if the peer has ended the connection.
    ///
    /// # Errors
    /// [`Error::Ended`] if the peer closed the connection, [`Error::PeerLost`] if it is gone.
    pub fn check(&self) -> Result<()> {
        match self.end() {
            None => Ok(()),
            Some(PeerEnd::Closed(told)) => Err(ended(EndReason::Closed, &told)),
            Some(PeerEnd::Gone) => Err(Error::PeerLost(PeerLoss::Gone)),
        }
    }

    /// Closes the connection and sends up to 32 bytes to the peer. They arrive after everything
    /// that this endpoint's windows have sent. The endpoint can then be used for another
    /// connection. It is not an error if the peer has ended meanwhile.
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
        // A fault still in flight must not be attributed to the next connection.
        core.begin_use();
        Ok(self.endpoint)
    }

    /// Blocks until `look` finds something, and calls it again whenever one of `bits` is set. Fails
    /// if the peer ends, or if a store to it failed. The peer's last actions are found before its
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
            let (ended, last) = (self.check(), self.core().last_fault());
            // The result may have arrived together with the end, or before the fault.
            if let Some(found) = look()? {
                return Ok(Some(found));
            }
            ended?;
            self.take_fault(last).map_or(Ok(None), |fault| Err(fault.into()))
        })
    }

    /// Returns whether the connection has ended, or there is an unchecked fault.
    fn has_news(&self) -> bool {
        let heard = self.heard();
        heard.end.is_some() || heard.faults != self.core().faults()
    }

    /// Takes what was the last fault, if it is unchecked and comes from the peer's host.
    ///
    /// The endpoint may also have written to other hosts, such as a former peer. Their faults must
    /// not end this connection, and stay with the endpoint. If such a fault hides a fault of the
    /// peer, the peer's end is still reported.
    fn take_fault(&self, (count, fault): (u32, Option<Fault>)) -> Option<Fault> {
        let seen = std::mem::replace(&mut self.heard().faults, count);
        fault.filter(|fault| count != seen && fault.host == self.peer.host)
    }

    pub(super) fn core(&self) -> &Core {
        self.endpoint.core()
    }
}
