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

/// Empty messages that one call takes of a stream, if it does not wait.
const EMPTY: u32 = 64;

/// The receiving end of a [`super::Channel`]. It may go to another thread.
///
/// The peer has room again for what was received once that is released: it is told when that is a
/// quarter of the ring, or when the receiver is asked again and has nothing more.
///
/// Dropped before the end, it tells the peer's sender, which gets [`crate::PeerLoss::Abandoned`]
/// once there is no room.
#[derive(Debug)]
pub struct ChannelReceiver {
    pub(super) way: Way,
    /// As a stream of bytes: the message that is being read, and how much of it was.
    reading: Option<(Span, usize)>,
    /// The message that [`ChannelReceiver::take`] gave, and that is still there.
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

    /// Whether it goes by express memory, and not by messages.
    #[must_use]
    pub fn is_express(&self) -> bool {
        matches!(self.way, Way::Memory(_))
    }

    /// How often the waiting calls look before they sleep.
    pub fn set_polling(&mut self, polling: Polling) {
        match &mut self.way {
            Way::Memory(receiver) => receiver.set_polling(polling),
            Way::Messages(receiver) => receiver.set_polling(polling),
        }
    }

    /// From now on [`crate::Manager::ready`] names this token when a message may have come, or the
    /// channel has ended.
    pub fn set_token(&mut self, token: u64) {
        match &mut self.way {
            Way::Memory(receiver) => receiver.set_token(token),
            Way::Messages(receiver) => receiver.set_token(token),
        }
    }

    /// The next message, in place; `None` if the peer has closed and all was received. Waits for it
    /// for ever: looks for a while, then sleeps.
    ///
    /// # Errors
    /// Those of [`ChannelReceiver::recv_block`], but for the time.
    #[inline(always)]
    pub fn recv(&mut self) -> Result<Option<Received<'_>>> {
        self.recv_block(None)
    }

    /// Like [`ChannelReceiver::recv`], for no longer than this. `None` waits for ever.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; [`Error::PeerLost`], behind all that came before; [`Error::Nonsense`]
    /// if the peer stores what makes no sense, which ends the channel; [`Error::System`].
    #[inline(always)]
    pub fn recv_block(&mut self, timeout: Option<Duration>) -> Result<Option<Received<'_>>> {
        let next = match self.known() {
            None => self.wait(timeout)?,
            known => known,
        };
        Ok(next.map(|span| Received { receiver: self, span }))
    }

    /// The next message, in place, if it is there; `None` if the peer has closed and all was
    /// received.
    ///
    /// # Errors
    /// [`Error::WouldBlock`] if there is none yet; those of [`ChannelReceiver::recv_block`].
    #[inline(always)]
    pub fn try_recv(&mut self) -> Result<Option<Received<'_>>> {
        let next = self.try_next()?;
        Ok(next.map(|span| Received { receiver: self, span }))
    }

    /// Like [`ChannelReceiver::try_recv`], for who makes a [`Received`] of it at once: nobody else
    /// releases it.
    #[inline(always)]
    pub(super) fn try_next(&mut self) -> Result<Option<Span>> {
        match self.known() {
            None => self.next(),
            known => Ok(known),
        }
    }

    /// For a loop of one's own that has nothing to do until a message comes: the manager's file
    /// becomes readable once one may have. True: one has, or the end, so try again.
    /// [`crate::Manager::arm`] is called as well, and before each wait.
    ///
    /// # Errors
    /// Those of [`ChannelReceiver::recv_block`].
    pub fn arm(&mut self) -> Result<bool> {
        match &mut self.way {
            Way::Memory(receiver) => receiver.arm(),
            Way::Messages(_) => Ok(false),
        }
    }

    /// What is readable once the connection has ended, for `poll(2)`, `mio`, `tokio` and the like,
    /// beside the manager's file.
    #[must_use]
    pub fn peer_file(&self) -> Option<BorrowedFd<'_>> {
        match &self.way {
            Way::Memory(receiver) => receiver.ground().watch.file(),
            Way::Messages(receiver) => receiver.stream().peer_file(),
        }
    }

    /// Whether the connection has ended, and how long it takes at most until
    /// [`ChannelReceiver::try_recv`] says so.
    #[must_use]
    pub fn peer_ended(&self) -> Option<Duration> {
        match &self.way {
            Way::Memory(receiver) => receiver.ground().watch.grace().map(|_| Duration::ZERO),
            Way::Messages(receiver) => receiver.stream().peer_ended(),
        }
    }

    /// Copies bytes that have come, of as many messages as `to` has room for; 0 if the peer has
    /// closed. Not beside [`ChannelReceiver::recv`] and its like: one or the other.
    ///
    /// # Errors
    /// Those of [`ChannelReceiver::try_recv`].
    pub fn try_read(&mut self, to: &mut [u8]) -> Result<usize> {
        self.read_with(to, None)
    }

    /// Like [`ChannelReceiver::try_read`], but waits while there is nothing; `None` waits for ever.
    ///
    /// # Errors
    /// Those of [`ChannelReceiver::recv_block`].
    pub fn read_block(&mut self, to: &mut [u8], timeout: Option<Duration>) -> Result<usize> {
        self.read_with(to, Some(timeout))
    }

    /// The next message as by [`ChannelReceiver::recv_block`], for who cannot keep a borrow: C.
    /// `wait` is none for who does not wait, else for how long. It is released by
    /// [`ChannelReceiver::give_back`], or when the next is taken.
    #[doc(hidden)]
    pub fn take(&mut self, wait: Option<Option<Duration>>) -> Result<Option<&[AtomicU8]>> {
        self.give_back()?;
        self.taken = self.next_or_wait(wait)?;
        Ok(self.taken.map(|span| self.data(span)))
    }

    /// Releases the message that was taken, if it is still there. An error says that it may have
    /// gone before.
    #[doc(hidden)]
    pub fn give_back(&mut self) -> Result<()> {
        let Some(span) = self.taken.take() else { return Ok(()) };
        let confirmed = self.confirm();
        self.release(span);
        confirmed
    }

    /// The next message, if that takes no look at what the peer says.
    #[inline(always)]
    fn known(&mut self) -> Option<Span> {
        match &mut self.way {
            Way::Memory(receiver) => receiver.next_known(),
            Way::Messages(_) => None,
        }
    }

    /// The next message, if it is there.
    fn next(&mut self) -> Result<Option<Span>> {
        let next = match &mut self.way {
            Way::Memory(receiver) => receiver.next()?,
            Way::Messages(receiver) => receiver.next()?,
        };
        next.map_or_else(|| self.none(), Ok)
    }

    /// Why there is none.
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

    /// The next message; `wait` is none for who does not wait, else for how long.
    fn next_or_wait(&mut self, wait: Option<Option<Duration>>) -> Result<Option<Span>> {
        match wait {
            None => self.next(),
            Some(timeout) => self.wait(timeout),
        }
    }

    /// The next message of a stream. A peer may send any number of empty ones: who does not wait
    /// takes so many of them in one call, and who waits does so no longer for them.
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
                    // It comes again with the next call.
                    Err(_) if done > 0 => break,
                    Err(error) => return Err(error),
                },
            };
            let length = (to.len() - done).min(span.length as usize - read);
            copies::out_of_express(&self.data(span)[read..], &mut to[done..done + length]);
            if let Err(lost) = self.confirm() {
                // It comes again with the next call.
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

    /// Whether what was copied was the message.
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

/// A message that has come, where the peer put it. It is released when this is dropped.
///
/// The peer may change it for as long as it is there: what is to be believed is copied first, and
/// then looked at.
#[derive(Debug)]
pub struct Received<'a> {
    pub(super) receiver: &'a mut ChannelReceiver,
    pub(super) span: Span,
}

impl Received<'_> {
    /// How many bytes.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.span.length as usize
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies bytes out, from its byte `offset` on.
    ///
    /// # Errors
    /// [`Error::PastEnd`]; [`Error::PeerLost`]: it is gone with its memory, as after a reset of the
    /// card, and `to` has nothing of worth.
    #[inline(always)]
    pub fn read(&self, offset: usize, to: &mut [u8]) -> Result<()> {
        inside("message", offset as u64, to.len() as u64, self.span.length)?;
        copies::out_of_express(&self.cells()[offset..], to);
        self.receiver.confirm()
    }

    /// Its bytes in place. If the card is reset meanwhile they are zeros, or what this process has
    /// stored there: who must know that they are the peer's copies them by [`Received::read`].
    #[must_use]
    #[inline(always)]
    pub fn cells(&self) -> &[AtomicU8] {
        self.receiver.data(self.span)
    }

    /// A copy of all of it.
    ///
    /// # Errors
    /// Those of [`Received::read`].
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

/// A stream of bytes: where a message ends means nothing. Waits for ever if nothing is there.
impl io::Read for ChannelReceiver {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        Ok(self.read_block(to, None)?)
    }
}
