//! The receiving end of a channel.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::AtomicU8;
use std::time::Duration;

use super::{memory, messages};
use crate::core::copies;
use crate::core::express::ring::Span;
use crate::core::polling::Polling;
use crate::core::waiting::Deadline;
use crate::error::{Error, Result, inside};

/// Maximum number of empty messages that one non-waiting call takes from a stream.
const EMPTY: u32 = 64;

/// The receiving end of a [`super::Channel`]. It may move to another thread.
///
/// The peer can reuse the room of received messages once they are released. It is notified when the
/// released room is a quarter of the ring, or when the receiver is called again and there is
/// nothing more.
///
/// If it is dropped before the end, the peer's sender is notified, and gets
/// [`crate::PeerLoss::Abandoned`] once there is no room.
#[derive(Debug)]
pub struct ChannelReceiver {
    pub(super) way: Way,
    /// As a byte stream: the message that is being read, and how much of it was read.
    reading: Option<(Span, usize)>,
    /// The message that [`ChannelReceiver::take`] returned and that is not released yet.
    taken: Option<Span>,
}

#[derive(Debug)]
pub(super) enum Way {
    Memory(memory::Receiver),
    Messages(messages::Receiver),
}

impl ChannelReceiver {
    pub(super) fn new(way: Way) -> Self {
        Self { way, reading: None, taken: None }
    }

    /// Returns true if the channel uses express memory, and false if it uses messages.
    #[must_use]
    pub fn is_express(&self) -> bool {
        matches!(self.way, Way::Memory(_))
    }

    /// Sets how long the waiting calls poll before they sleep. When messages are used, they poll as
    /// the manager does.
    pub fn set_polling(&mut self, polling: Polling) {
        if let Way::Memory(receiver) = &mut self.way {
            receiver.set_polling(polling);
        }
    }

    /// Sets the token that [`crate::Manager::ready`] returns when a message may have arrived, or
    /// the channel has ended.
    pub fn set_token(&mut self, token: u64) {
        match &mut self.way {
            Way::Memory(receiver) => receiver.set_token(token),
            Way::Messages(receiver) => receiver.set_token(token),
        }
    }

    /// Returns the next message, in place, or `None` if the peer has closed and everything was
    /// received. Busy-polls for a while, then sleeps. Waits forever.
    ///
    /// # Errors
    /// The errors of [`ChannelReceiver::recv_block`], except for the timeout.
    #[inline(always)]
    pub fn recv(&mut self) -> Result<Option<Received<'_>>> {
        self.recv_block(None)
    }

    /// Like [`ChannelReceiver::recv`], with a timeout. `None` waits forever.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; [`Error::PeerLost`], after everything that arrived before;
    /// [`Error::Nonsense`] if the peer stores invalid data, which ends the channel;
    /// [`Error::System`].
    #[inline(always)]
    pub fn recv_block(&mut self, timeout: Option<Duration>) -> Result<Option<Received<'_>>> {
        let next = match self.known() {
            None => self.wait(timeout)?,
            known => known,
        };
        Ok(next.map(|span| Received { receiver: self, span }))
    }

    /// Returns the next message, in place, if it has arrived. Returns `None` if the peer has closed
    /// and everything was received.
    ///
    /// # Errors
    /// [`Error::WouldBlock`] if there is none yet; the errors of [`ChannelReceiver::recv_block`].
    #[inline(always)]
    pub fn try_recv(&mut self) -> Result<Option<Received<'_>>> {
        let next = self.try_next()?;
        Ok(next.map(|span| Received { receiver: self, span }))
    }

    /// Like [`ChannelReceiver::try_recv`]. The caller must make a [`Received`] from it at once:
    /// nothing else releases it.
    #[inline(always)]
    pub(super) fn try_next(&mut self) -> Result<Option<Span>> {
        match self.known() {
            None => self.next(),
            known => Ok(known),
        }
    }

    /// For an application's own loop that has nothing to do until a message arrives: makes the
    /// manager's file readable once one may have arrived. Returns true if a message or the end is
    /// already there, so try again. Also call [`crate::Manager::arm`], before each wait.
    ///
    /// # Errors
    /// The errors of [`ChannelReceiver::recv_block`].
    pub fn arm(&mut self) -> Result<bool> {
        match &mut self.way {
            Way::Memory(receiver) => receiver.arm(),
            Way::Messages(_) => Ok(false),
        }
    }

    /// Returns a file that is readable once the connection has ended. Use it with `poll(2)`, `mio`,
    /// `tokio` and the like, in addition to the manager's file.
    #[must_use]
    pub fn peer_file(&self) -> Option<BorrowedFd<'_>> {
        match &self.way {
            Way::Memory(receiver) => receiver.ground().watch.file(),
            Way::Messages(receiver) => receiver.stream().peer_file(),
        }
    }

    /// Returns `Some` if the connection has ended, with the maximum time until
    /// [`ChannelReceiver::try_recv`] reports it.
    #[must_use]
    pub fn peer_ended(&self) -> Option<Duration> {
        match &self.way {
            Way::Memory(receiver) => receiver.ground().watch.grace().map(|_| Duration::ZERO),
            Way::Messages(receiver) => receiver.stream().peer_ended(),
        }
    }

    /// Copies bytes that have arrived, from as many messages as `to` has room for. Returns 0 if the
    /// peer has closed. Do not mix with [`ChannelReceiver::recv`] and the like: use one or the
    /// other.
    ///
    /// # Errors
    /// The errors of [`ChannelReceiver::try_recv`].
    pub fn try_read(&mut self, to: &mut [u8]) -> Result<usize> {
        self.read_with(to, None)
    }

    /// Like [`ChannelReceiver::try_read`], but waits while there is nothing. `None` waits forever.
    ///
    /// # Errors
    /// The errors of [`ChannelReceiver::recv_block`].
    pub fn read_block(&mut self, to: &mut [u8], timeout: Option<Duration>) -> Result<usize> {
        self.read_with(to, Some(timeout))
    }

    /// Returns the next message, like [`ChannelReceiver::recv_block`], for callers that cannot keep
    /// a borrow: C. `wait` is `None` for a caller that does not wait, otherwise its timeout. The
    /// message is released by [`ChannelReceiver::give_back`], or when the next one is taken.
    #[doc(hidden)]
    pub fn take(&mut self, wait: Option<Option<Duration>>) -> Result<Option<&[AtomicU8]>> {
        self.give_back()?;
        self.taken = self.next_or_wait(wait)?;
        Ok(self.taken.map(|span| self.data(span)))
    }

    /// Releases the message that was taken, if it is not released yet. An error means that the
    /// message may have gone before.
    #[doc(hidden)]
    pub fn give_back(&mut self) -> Result<()> {
        let Some(span) = self.taken.take() else { return Ok(()) };
        let confirmed = self.confirm();
        self.release(span);
        confirmed
    }

    /// Returns the next message, if no access to the peer's data is needed for that.
    #[inline(always)]
    fn known(&mut self) -> Option<Span> {
        match &mut self.way {
            Way::Memory(receiver) => receiver.next_known(),
            Way::Messages(_) => None,
        }
    }

    /// Returns the next message, if it has arrived.
    fn next(&mut self) -> Result<Option<Span>> {
        let next = match &mut self.way {
            Way::Memory(receiver) => receiver.next()?,
            Way::Messages(receiver) => receiver.next()?,
        };
        next.map_or_else(|| self.none(), Ok)
    }

    /// Returns why there is none.
    #[cold]
    fn none(&mut self) -> Result<Option<Span>> {
        if let Way::Memory(receiver) = &mut self.way {
            if let Some(next) = receiver.next_or_loss()? {
                return Ok(next);
            }
        }
        Err(Error::WouldBlock { object: "messages that were sent", limit: 0 })
    }

    #[inline(always)]
    fn wait(&mut self, timeout: Option<Duration>) -> Result<Option<Span>> {
        match &mut self.way {
            Way::Memory(receiver) => receiver.wait(timeout),
            Way::Messages(receiver) => receiver.wait(timeout),
        }
    }

    /// Returns the next message. `wait` is `None` for a caller that does not wait, otherwise its
    /// timeout.
    fn next_or_wait(&mut self, wait: Option<Option<Duration>>) -> Result<Option<Span>> {
        match wait {
            None => self.next(),
            Some(timeout) => self.wait(timeout),
        }
    }

    /// Returns the next message of a byte stream. A peer may send any number of empty messages. A
    /// non-waiting caller takes at most `EMPTY` of them in one call; they do not extend the timeout
    /// of a waiting caller.
    fn next_of_stream(&mut self, deadline: Option<&Deadline>, empty: &mut u32) -> Result<Option<Span>> {
        loop {
            match self.next_or_wait(deadline.map(Deadline::left))? {
                Some(span) if span.length == 0 => self.release(span),
                next => return Ok(next),
            }
            *empty += 1;
            match deadline {
                Some(deadline) => drop(deadline.check("bytes of the channel")?),
                None if *empty >= EMPTY => {
                    return Err(Error::WouldBlock { object: "bytes that were sent", limit: 0 });
                }
                None => {}
            }
        }
    }

    fn read_with(&mut self, to: &mut [u8], wait: Option<Option<Duration>>) -> Result<usize> {
        let deadline = wait.map(Deadline::new);
        let (mut done, mut empty) = (0, 0);
        while done < to.len() {
            let (span, read) = match self.reading.take() {
                Some(reading) => reading,
                None => match self.next_of_stream(deadline.as_ref().filter(|_| done == 0), &mut empty) {
                    Ok(Some(span)) => (span, 0),
                    Ok(None) => break,
                    // The next call returns the error.
                    Err(_) if done > 0 => break,
                    Err(error) => return Err(error),
                },
            };
            let length = (to.len() - done).min(span.length as usize - read);
            copies::out_of_express(&self.data(span)[read..], &mut to[done..done + length]);
            if let Err(lost) = self.confirm() {
                // The next call returns the error.
                return if done > 0 { Ok(done) } else { Err(lost) };
            }
            done += length;
            if read + length < span.length as usize {
                self.reading = Some((span, read + length));
            } else {
                self.release(span);
            }
        }
        Ok(done)
    }

    #[inline(always)]
    fn data(&self, span: Span) -> &[AtomicU8] {
        match &self.way {
            Way::Memory(receiver) => receiver.data(span),
            Way::Messages(receiver) => receiver.data(span),
        }
    }

    /// Fails if what was copied was not the message.
    #[inline(always)]
    fn confirm(&self) -> Result<()> {
        match &self.way {
            Way::Memory(receiver) => receiver.confirm(),
            Way::Messages(_) => Ok(()),
        }
    }

    #[inline(always)]
    fn release(&mut self, span: Span) {
        match &mut self.way {
            Way::Memory(receiver) => receiver.release(span),
            Way::Messages(receiver) => receiver.release(),
        }
    }
}

/// A received message, where the peer put it. It is released when this value is dropped.
///
/// The peer may change the message as long as it is not released. Copy data before you validate it.
#[derive(Debug)]
pub struct Received<'a> {
    pub(super) receiver: &'a mut ChannelReceiver,
    pub(super) span: Span,
}

impl Received<'_> {
    /// Returns the number of bytes.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.span.length as usize
    }

    /// Returns true if the message has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies bytes out, starting at byte `offset`.
    ///
    /// # Errors
    /// [`Error::PastEnd`]; [`Error::PeerLost`] if the message is gone with its memory, as after a
    /// reset of the card. The contents of `to` are then meaningless.
    #[inline(always)]
    pub fn read(&self, offset: usize, to: &mut [u8]) -> Result<()> {
        inside("message", offset as u64, to.len() as u64, self.span.length)?;
        copies::out_of_express(&self.cells()[offset..], to);
        self.receiver.confirm()
    }

    /// Returns the bytes in place. If the card is reset meanwhile, they are zeros, or what this
    /// process has stored there. If you must know that they are the peer's bytes, copy them with
    /// [`Received::read`].
    #[must_use]
    #[inline(always)]
    pub fn cells(&self) -> &[AtomicU8] {
        self.receiver.data(self.span)
    }

    /// Returns a copy of the whole message.
    ///
    /// # Errors
    /// The errors of [`Received::read`].
    pub fn to_vec(&self) -> Result<Vec<u8>> {
        let mut bytes = vec![0; self.len()];
        self.read(0, &mut bytes)?;
        Ok(bytes)
    }
}

impl Drop for Received<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.receiver.release(self.span);
    }
}

/// A byte stream: message boundaries have no meaning. Waits forever if nothing is available.
impl io::Read for ChannelReceiver {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        Ok(self.read_block(to, None)?)
    }
}
