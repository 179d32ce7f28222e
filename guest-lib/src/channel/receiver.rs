//! The receiving half of a channel.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::AtomicU8;
use std::time::Duration;

use super::express::Express;
use super::ground::{self, half};
use super::receiving::Receiving;
use super::remote::Reached;
use super::sender::Wait;
use crate::core::copies;
use crate::core::express::ring::Span;
use crate::core::polling::Polling;
use crate::error::{Error, Result, inside};

/// Number of messages without bytes that a call passes that does not wait.
const EMPTY: u32 = 64;

/// The receiving half of a [`super::Channel`].
///
/// If it is dropped before the end, the peer's sender gets [`crate::PeerLoss::Abandoned`] once the
/// ring is full.
#[derive(Debug)]
pub struct Receiver {
    pub(super) half: Half,
    /// For use as a byte stream: a partly read message, and the number of bytes read.
    pub(super) rest: (Vec<u8>, usize),
    /// The message that [`Receiver::take`] has returned.
    pub(super) taken: Option<Span>,
}

pub(super) type Half = ground::Half<Receiving<Express>, Receiving<Reached>>;

impl Receiver {
    /// Returns whether messages use express memory, with no card between the two ends.
    #[must_use]
    pub fn is_express(&self) -> bool {
        matches!(self.half, Half::Express(_))
    }

    /// Sets how long blocking calls poll before they sleep.
    pub fn set_polling(&mut self, polling: Polling) {
        half!(&mut self.half, receiver => receiver.set_polling(polling));
    }

    /// Returns the next message in place, or `None` if the peer has closed and everything was
    /// received. Blocks until there is one.
    ///
    /// # Errors
    /// [`Error::PeerLost`], after all earlier messages; [`Error::Nonsense`] if the peer has stored
    /// an invalid value, which ends the channel; [`Error::System`].
    #[inline]
    pub fn recv(&mut self) -> Result<Option<Message<'_>>> {
        self.recv_with(Wait::Until(None))
    }

    /// Returns the next message, if one has arrived.
    ///
    /// # Errors
    /// [`Error::WouldBlock`]; those of [`Receiver::recv`].
    #[inline]
    pub fn try_recv(&mut self) -> Result<Option<Message<'_>>> {
        self.recv_with(Wait::No)
    }

    /// Returns the next message. Blocks for at most `timeout`.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; those of [`Receiver::recv`].
    #[inline]
    pub fn recv_timeout(&mut self, timeout: Duration) -> Result<Option<Message<'_>>> {
        self.recv_with(Wait::Until(Some(timeout)))
    }

    #[inline(always)]
    fn recv_with(&mut self, wait: Wait) -> Result<Option<Message<'_>>> {
        Ok(self.next(wait)?.map(|span| Message { receiver: self, span }))
    }

    /// Returns the next message. The caller makes a [`Message`] of it, or releases it.
    #[inline(always)]
    pub(super) fn next(&mut self, wait: Wait) -> Result<Option<Span>> {
        match half!(&mut self.half, receiver => receiver.next_known()) {
            None => self.find_next(wait),
            known => Ok(known),
        }
    }

    /// Finds a message that is not known to exist.
    fn find_next(&mut self, wait: Wait) -> Result<Option<Span>> {
        half!(&mut self.half, receiver => match wait {
            Wait::Until(timeout) => receiver.wait(timeout),
            Wait::No => {
                let next = match receiver.next()? {
                    None => receiver.next_or_loss()?,
                    next => next,
                };
                next.ok_or(Error::WouldBlock { object: "messages", limit: 0 })
            }
        })
    }

    /// Makes [`Receiver::file`] readable once there is a message, or the channel has ended. Returns
    /// `true` if that is already the case: receive then, without a wait. Call this before each
    /// wait, once [`Receiver::try_recv`] has found nothing.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn arm(&mut self) -> Result<bool> {
        half!(&mut self.half, receiver => receiver.arm())
    }

    /// Returns this half's file, for `poll(2)`, mio and the like. It may be readable without
    /// a message. The first call opens it; it stays the same.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn file(&mut self) -> Result<BorrowedFd<'_>> {
        half!(&mut self.half, receiver => receiver.file())
    }

    /// Returns whether there may be something, after [`Receiver::try_recv`] has found nothing.
    /// Cheap, but a loss of the peer does not show.
    #[doc(hidden)]
    #[inline]
    pub fn has_news(&self) -> bool {
        half!(&self.half, receiver => receiver.has_news())
    }

    pub(super) fn host(&self) -> u32 {
        half!(&self.half, receiver => receiver.host())
    }

    /// Asks the operating system whether the connection has ended, for callers that do not poll the
    /// file. All calls know the answer from then on.
    #[doc(hidden)]
    pub fn peer_ended(&self) -> bool {
        half!(&self.half, receiver => receiver.peer_ended())
    }

    /// Returns the next message, for callers that cannot keep a borrow: C. Without `wait` the call
    /// does not wait; otherwise it waits for that time. The message stays until
    /// [`Receiver::give_back`], which this call includes.
    #[doc(hidden)]
    pub fn take(&mut self, wait: Option<Option<Duration>>) -> Result<Option<&[AtomicU8]>> {
        self.give_back()?;
        self.taken = self.next(wait.map_or(Wait::No, Wait::Until))?;
        Ok(self.taken.map(|span| self.data(span)))
    }

    /// Copies bytes of the taken message, starting at its byte `offset`.
    #[doc(hidden)]
    pub fn read_taken(&self, offset: usize, to: &mut [u8]) -> Result<()> {
        let taken = self.taken.ok_or(Error::Invalid("no message was taken"))?;
        inside("message", offset as u64, to.len() as u64, taken.length)?;
        copies::out_of_express(&self.data(taken)[offset..], to);
        self.confirm()
    }

    /// Releases what was taken, if anything. Fails if it was gone already.
    #[doc(hidden)]
    pub fn give_back(&mut self) -> Result<()> {
        let Some(span) = self.taken.take() else { return Ok(()) };
        let confirmed = self.confirm();
        self.release(span);
        confirmed
    }

    #[inline(always)]
    fn data(&self, span: Span) -> &[AtomicU8] {
        half!(&self.half, receiver => receiver.data(span))
    }

    /// Fails if what was copied may not have been the message.
    #[inline(always)]
    fn confirm(&self) -> Result<()> {
        half!(&self.half, receiver => receiver.confirm())
    }

    #[inline(always)]
    fn release(&mut self, span: Span) {
        half!(&mut self.half, receiver => receiver.release(span));
    }
}

impl Receiver {
    /// Copies bytes that have arrived, as a byte stream. Returns 0 if the peer has closed.
    ///
    /// # Errors
    /// Those of [`Receiver::try_recv`].
    pub fn try_read(&mut self, to: &mut [u8]) -> Result<usize> {
        self.read_with(to, Wait::No)
    }

    /// Copies bytes of the next message, as a byte stream. Returns 0 if the peer has closed. A call
    /// that does not wait passes at most [`EMPTY`] messages without bytes.
    fn read_with(&mut self, to: &mut [u8], wait: Wait) -> Result<usize> {
        let mut empty = 0;
        while self.rest.1 == self.rest.0.len() && !to.is_empty() {
            let Some(message) = self.recv_with(wait)? else { return Ok(0) };
            let length = message.len();
            if (1..=to.len()).contains(&length) {
                message.read(0, &mut to[..length])?;
                return Ok(length);
            }
            let rest = message.to_vec()?;
            drop(message);
            self.rest = (rest, 0);
            empty += 1;
            if matches!(wait, Wait::No) && empty == EMPTY && length == 0 {
                return Err(Error::WouldBlock { object: "bytes", limit: 0 });
            }
        }
        let (message, at) = &mut self.rest;
        let length = to.len().min(message.len() - *at);
        to[..length].copy_from_slice(&message[*at..*at + length]);
        *at += length;
        Ok(length)
    }
}

/// A byte stream: message boundaries are not preserved. Blocks until there is a byte.
impl io::Read for Receiver {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        Ok(self.read_with(to, Wait::Until(None))?)
    }
}

/// A received message, where the peer's card or process has stored it. Dropping it releases the
/// space.
///
/// The peer may change the bytes until then: copy what you check, and check the copy.
#[derive(Debug)]
pub struct Message<'a> {
    pub(super) receiver: &'a mut Receiver,
    pub(super) span: Span,
}

impl Message<'_> {
    /// Returns its length in bytes.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.span.length as usize
    }

    /// Returns whether it is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies bytes out, starting at the message's byte `offset`.
    ///
    /// # Errors
    /// [`Error::PastEnd`]; [`Error::PeerLost`] if a reset of the card has revoked the express
    /// memory. The contents of `to` are then undefined.
    #[inline]
    pub fn read(&self, offset: usize, to: &mut [u8]) -> Result<()> {
        inside("message", offset as u64, to.len() as u64, self.span.length)?;
        copies::out_of_express(&self.cells()[offset..], to);
        self.receiver.confirm()
    }

    /// Returns its bytes in place.
    #[must_use]
    #[inline]
    pub fn cells(&self) -> &[AtomicU8] {
        self.receiver.data(self.span)
    }

    /// Returns a copy of the whole message.
    ///
    /// # Errors
    /// Those of [`Message::read`].
    pub fn to_vec(&self) -> Result<Vec<u8>> {
        let mut bytes = vec![0; self.len()];
        self.read(0, &mut bytes)?;
        Ok(bytes)
    }
}

impl Drop for Message<'_> {
    #[inline]
    fn drop(&mut self) {
        self.receiver.release(self.span);
    }
}
