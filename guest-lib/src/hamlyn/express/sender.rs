//! The sending end of a channel.

use std::sync::Arc;

use super::bell::{Bell, Half};
use super::ground::Ground;
use crate::core::copies;
use crate::core::express::memory::RingMemory;
use crate::core::express::ring::{Nonsense, Span, Writer};
use crate::core::loss::PeerLoss;
use crate::error::{Error, Result, at_most, inside};

/// How a sender ends.
pub(super) const CLOSED: u64 = 1;
const ABANDONED: u64 = 2;

/// The sending end of a [`super::Channel`].
///
/// If it is dropped without [`ChannelSender::try_close`], the peer's receiver gets
/// [`PeerLoss::Abandoned`] after everything that was sent.
#[derive(Debug)]
pub struct ChannelSender {
    ring: Writer<RingMemory>,
    bell: Bell,
    closed: bool,
    ground: Arc<Ground>,
}

impl ChannelSender {
    pub(super) fn new(ground: &Arc<Ground>, view: RingMemory, bell: Bell) -> Self {
        let capacity = view.capacity();
        Self { ring: Writer::new(view, capacity), bell, closed: false, ground: ground.clone() }
    }

    /// Returns the maximum message length, in bytes.
    #[must_use]
    pub fn longest(&self) -> usize {
        self.ring.longest() as usize
    }

    /// Sets the token that [`crate::Manager::ready`] returns when there may be room, or the channel
    /// has ended.
    pub fn set_token(&mut self, token: u64) {
        self.ground.ear.set_token(Half::Sender, token);
    }

    /// Sends a message, if there is room for it.
    ///
    /// # Errors
    /// [`Error::WouldBlock`]; [`Error::OutOfRange`] if the message is longer than
    /// [`ChannelSender::longest`]; [`Error::PeerLost`], [`Error::Nonsense`].
    pub fn try_send(&mut self, bytes: &[u8]) -> Result<()> {
        let mut room = self.try_reserve(bytes.len())?;
        room.write(0, bytes)?;
        room.commit()
    }

    /// Reserves room for a message of this length where the peer will read it, if there is any.
    ///
    /// # Errors
    /// The errors of [`ChannelSender::try_send`].
    pub fn try_reserve(&mut self, length: usize) -> Result<Reserved<'_>> {
        at_most("length of a message", length as u64, self.ring.longest())?;
        if self.closed {
            return Err(Error::Closed("the channel"));
        }
        self.ground.is_whole()?;
        match self.with(|ring| ring.reserve(length as u64))? {
            Some(span) => Ok(Reserved { sender: self, span }),
            None if self.ring.reader_has_left() => Err(self.left()),
            None => {
                self.ground.check(false)?;
                Err(Error::WouldBlock { object: "bytes of the channel", limit: 0 })
            }
        }
    }

    /// Returns why there is no reader. The indication may come from the page that is shown in place
    /// of an area that is gone, if this end has stored it there.
    #[cold]
    fn left(&self) -> Error {
        let loss = if self.ground.there.is_made() { None } else { self.ground.loss(true) };
        Error::PeerLost(loss.unwrap_or(PeerLoss::Abandoned))
    }

    /// Arms the wake-up for when a message of this length can be sent. Returns true if it already
    /// can, so try again.
    ///
    /// # Errors
    /// The errors of [`ChannelSender::try_send`].
    pub fn arm(&mut self, length: usize) -> Result<bool> {
        at_most("length of a message", length as u64, self.ring.longest())?;
        if self.closed {
            return Err(Error::Closed("the channel"));
        }
        self.ground.check(true)?;
        Ok(!self.with(|ring| ring.sleep(length as u64))?)
    }

    /// Closes the channel: the peer receives everything that was sent, and then the end. Later
    /// calls change nothing. A wake-up for which the card has no room now is sent later.
    pub fn try_close(&mut self) -> Result<()> {
        if !std::mem::replace(&mut self.closed, true) {
            self.end(CLOSED);
            self.ground.watch.finish();
        }
        Ok(())
    }

    fn end(&mut self, how: u64) {
        self.ring.end(how);
        self.ring_bell();
    }

    fn with<T>(&mut self, look: impl FnOnce(&mut Writer<RingMemory>) -> Result<T, Nonsense>) -> Result<T> {
        let found = look(&mut self.ring);
        self.ring_bell();
        found.map_err(|nonsense| self.ground.why(false, nonsense))
    }

    /// Wakes the peer if necessary.
    fn ring_bell(&mut self) {
        if self.ring.bell_is_due() {
            self.ring.take_bell();
            self.bell.ring();
        }
    }
}

impl Drop for ChannelSender {
    fn drop(&mut self) {
        // An end that has ended the connection because of invalid data sends nothing that the peer
        // could see before that.
        if !self.closed && self.ground.is_whole().is_ok() {
            self.end(ABANDONED);
        }
    }
}

/// Room for a message ([`ChannelSender::try_reserve`]). If it is dropped, nothing is sent.
#[derive(Debug)]
pub struct Reserved<'a> {
    sender: &'a mut ChannelSender,
    span: Span,
}

impl Reserved<'_> {
    /// Copies bytes in, starting at byte `offset` of the message.
    ///
    /// # Errors
    /// [`Error::PastEnd`].
    pub fn write(&mut self, offset: usize, from: &[u8]) -> Result<()> {
        inside("message", offset as u64, from.len() as u64, self.span.length)?;
        copies::into_express(&self.sender.ring.shared().data(self.span)[offset..], from);
        Ok(())
    }

    /// Sends the message.
    pub fn commit(self) -> Result<()> {
        self.sender.ring.commit(self.span);
        self.sender.ring_bell();
        Ok(())
    }
}
