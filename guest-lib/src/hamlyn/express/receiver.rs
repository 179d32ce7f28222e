//! The receiving end of a channel.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::bell::{Bell, Half};
use super::ground::Ground;
use super::sender::CLOSED;
use crate::core::copies;
use crate::core::express::memory::RingMemory;
use crate::core::express::ring::{Nonsense, Reader, Span};
use crate::core::loss::PeerLoss;
use crate::error::{Error, Result};

/// The peer's end as reported to the receiver; `None` if it has closed.
type End = Option<PeerLoss>;
/// The next message, if there is one. The inner `None` means that the peer has closed.
type Next = Result<Option<Option<Span>>>;

fn told(end: End) -> Next {
    end.map_or(Ok(Some(None)), |loss| Err(Error::PeerLost(loss)))
}

/// The receiving end of a [`super::Channel`].
///
/// If it is dropped before the end, the peer's sender is notified, and gets
/// [`PeerLoss::Abandoned`] once there is no room.
#[derive(Debug)]
pub struct ChannelReceiver {
    ring: Reader<RingMemory>,
    bell: Bell,
    /// How the peer has ended, once that was reported. Nothing follows it, whatever the peer stores
    /// later.
    end: OnceLock<End>,
    ground: Arc<Ground>,
}

impl ChannelReceiver {
    pub(super) fn new(ground: &Arc<Ground>, area: RingMemory, bell: Bell) -> Self {
        let capacity = area.capacity();
        let ring = Reader::new(area, capacity);
        Self { ring, bell, end: OnceLock::new(), ground: ground.clone() }
    }

    /// Sets the token that [`crate::Manager::ready`] returns when a message may have arrived, or
    /// the channel has ended.
    pub fn set_token(&mut self, token: u64) {
        self.ground.ear.set_token(Half::Receiver, token);
    }

    /// Returns the next message, in place, if it has arrived. Returns `None` if the peer has closed
    /// and everything was received.
    ///
    /// # Errors
    /// [`Error::WouldBlock`] if there is none yet; [`Error::PeerLost`], after everything that
    /// arrived before; [`Error::Nonsense`] if the peer stores invalid data, which ends the channel.
    pub fn try_recv(&mut self) -> Result<Option<Received<'_>>> {
        let next = match self.next()? {
            None => self.next_or_loss()?,
            next => next,
        };
        let next = next.ok_or(Error::WouldBlock { object: "messages that were sent", limit: 0 })?;
        Ok(next.map(|span| Received { receiver: self, span }))
    }

    fn next(&mut self) -> Next {
        if let Some(end) = self.end.get() {
            return told(*end);
        }
        match self.with(Reader::receive)? {
            Some(span) => Ok(Some(Some(span))),
            None if self.ring.may_have_ended() => self.ended(),
            None => Ok(None),
        }
    }

    /// Returns the next message after a look that found none. If the peer is lost by now, earlier
    /// messages come first.
    fn next_or_loss(&mut self) -> Next {
        let Err(lost) = self.ground.check(false) else { return Ok(None) };
        match self.next()? {
            None => Err(self.tell(lost)),
            next => Ok(next),
        }
    }

    /// Arms the wake-up for the next message. Returns true if a message or the end is already
    /// there, so try again.
    ///
    /// # Errors
    /// The errors of [`ChannelReceiver::try_recv`].
    pub fn arm(&mut self) -> Result<bool> {
        if self.end.get().is_some() || !self.with(Reader::sleep)? {
            return Ok(true);
        }
        let Err(lost) = self.ground.check(true) else { return Ok(false) };
        // Everything that the peer stored before its end is visible by now.
        if self.with(Reader::sleep)? { Err(self.tell(lost)) } else { Ok(true) }
    }

    /// Returns `Some` if the connection has ended, with the maximum time until
    /// [`ChannelReceiver::try_recv`] reports it.
    #[must_use]
    pub fn peer_ended(&self) -> Option<Duration> {
        self.ground.watch.grace().map(|_| Duration::ZERO)
    }

    /// Records a loss for good and returns the error.
    #[cold]
    fn tell(&self, error: Error) -> Error {
        if let Error::PeerLost(loss) = error {
            self.lose(loss);
        }
        error
    }

    /// Records the loss; no message is returned after it.
    fn lose(&self, loss: PeerLoss) {
        let _ = self.end.set(Some(loss));
        self.ring.stop();
    }

    /// Checks that everything loaded until now came from the area. Fails if it may be what is shown
    /// in its place after a reset of the card.
    fn confirm(&self) -> Result<()> {
        // An area goes after the connection. If the connection still exists, it is the peer that
        // marks the area as gone.
        let loss = if self.ring.shared().is_made() { None } else { self.ground.loss(true) };
        loss.map_or(Ok(()), |loss| {
            self.lose(loss);
            Err(Error::PeerLost(loss))
        })
    }

    #[cold]
    fn ended(&mut self) -> Next {
        let Some(how) = self.with(Reader::ended)? else { return Ok(None) };
        let end = (how != CLOSED).then_some(PeerLoss::Abandoned);
        let _ = self.end.set(end);
        if end.is_none() {
            self.ground.watch.finish();
        }
        told(end)
    }

    /// Wakes the peer if necessary.
    fn ring_bell(&mut self) {
        if self.ring.bell_is_due() {
            self.ring.take_bell();
            self.bell.ring();
        }
    }

    fn with<T>(&mut self, look: impl FnOnce(&mut Reader<RingMemory>) -> Result<T, Nonsense>) -> Result<T> {
        let found = look(&mut self.ring);
        self.ring_bell();
        found.map_err(|nonsense| {
            let why = self.ground.why(true, nonsense);
            self.tell(why)
        })
    }
}

impl Drop for ChannelReceiver {
    fn drop(&mut self) {
        if self.end.get().is_none() && self.ground.is_whole().is_ok() {
            self.ring.leave();
            self.ring_bell();
        }
    }
}

/// A received message, where the peer put it. It is released when this value is dropped.
#[derive(Debug)]
pub struct Received<'a> {
    receiver: &'a mut ChannelReceiver,
    span: Span,
}

impl Received<'_> {
    /// Returns a copy of the whole message.
    ///
    /// # Errors
    /// [`Error::PeerLost`] if the message is gone with its memory, as after a reset of the card.
    pub fn to_vec(&self) -> Result<Vec<u8>> {
        let mut bytes = vec![0; self.span.length as usize];
        copies::out_of_express(self.receiver.ring.shared().data(self.span), &mut bytes);
        self.receiver.confirm()?;
        Ok(bytes)
    }
}

impl Drop for Received<'_> {
    fn drop(&mut self) {
        self.receiver.ring.release(self.span.end);
        self.receiver.ring_bell();
    }
}
