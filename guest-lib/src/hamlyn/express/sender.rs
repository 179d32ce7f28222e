//! The sending end of a channel.

use std::io;
use std::sync::atomic::AtomicU8;
use std::time::Duration;

use super::{memory, messages};
use crate::core::copies;
use crate::core::express::ring::Span;
use crate::core::polling::Polling;
use crate::error::{Error, Result, at_most, inside};

/// The sending end of a [`super::Channel`]. It may move to another thread.
///
/// If it is dropped without [`ChannelSender::close`], the peer's receiver gets
/// [`crate::PeerLoss::Abandoned`] after everything that was sent.
#[derive(Debug)]
pub struct ChannelSender {
    pub(super) way: Way,
    /// Room that was reserved by [`ChannelSender::begin`] and is not committed yet.
    begun: Option<Span>,
}

#[derive(Debug)]
pub(super) enum Way {
    Memory(memory::Sender),
    Messages(messages::Sender),
}

impl ChannelSender {
    pub(super) fn new(way: Way) -> Self {
        Self { way, begun: None }
    }

    /// Returns true if the channel uses express memory, and false if it uses messages.
    #[must_use]
    pub fn is_express(&self) -> bool {
        matches!(self.way, Way::Memory(_))
    }

    /// Returns the maximum message length, in bytes.
    #[must_use]
    #[inline]
    pub fn longest(&self) -> usize {
        match &self.way {
            Way::Memory(sender) => sender.longest() as usize,
            Way::Messages(sender) => sender.longest() as usize,
        }
    }

    /// Sets how long the waiting calls poll before they sleep. When messages are used, they poll as
    /// the manager does.
    pub fn set_polling(&mut self, polling: Polling) {
        if let Way::Memory(sender) = &mut self.way {
            sender.set_polling(polling);
        }
    }

    /// Sets the token that [`crate::Manager::ready`] returns when there may be room, or the channel
    /// has ended.
    pub fn set_token(&mut self, token: u64) {
        match &mut self.way {
            Way::Memory(sender) => sender.set_token(token),
            Way::Messages(sender) => sender.set_token(token),
        }
    }

    /// Sends a message, and waits while there is no room for it. Busy-polls for a while, then
    /// sleeps. `None` waits forever.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if the message is longer than [`ChannelSender::longest`];
    /// [`Error::TimedOut`], [`Error::PeerLost`], [`Error::Nonsense`], [`Error::System`]. On error
    /// the message has not been sent.
    #[inline(always)]
    pub fn send(&mut self, bytes: &[u8], timeout: Option<Duration>) -> Result<()> {
        let mut room = self.reserve(bytes.len(), timeout)?;
        room.write(0, bytes)?;
        room.commit()?;
        self.see_to_bell(timeout);
        Ok(())
    }

    /// Like [`ChannelSender::send`], but does not wait. When messages are used, the message has
    /// been accepted when this returns. The rest of it may be sent with a later call or
    /// [`ChannelSender::flush`].
    ///
    /// # Errors
    /// [`Error::WouldBlock`], and the errors of [`ChannelSender::send`].
    #[inline(always)]
    pub fn try_send(&mut self, bytes: &[u8]) -> Result<()> {
        let mut room = self.try_reserve(bytes.len())?;
        room.write(0, bytes)?;
        room.commit()
    }

    /// Reserves room for a message of this length where the peer will read it. Build the message
    /// there and send it with [`Reserved::commit`]. Waits for room; `None` waits forever.
    ///
    /// # Errors
    /// The errors of [`ChannelSender::send`].
    #[inline(always)]
    pub fn reserve(&mut self, length: usize, timeout: Option<Duration>) -> Result<Reserved<'_>> {
        match self.known(length) {
            Some(span) => Ok(Reserved { sender: self, span }),
            None => self.wait(length, timeout),
        }
    }

    /// Like [`ChannelSender::reserve`], but does not wait.
    ///
    /// # Errors
    /// [`Error::WouldBlock`], and the errors of [`ChannelSender::send`].
    #[inline(always)]
    pub fn try_reserve(&mut self, length: usize) -> Result<Reserved<'_>> {
        match self.known(length) {
            Some(span) => Ok(Reserved { sender: self, span }),
            None => self.find(length),
        }
    }

    /// Returns room, if no access to the peer's data is needed for that.
    #[inline(always)]
    fn known(&mut self, length: usize) -> Option<Span> {
        self.begun = None;
        match &self.way {
            Way::Memory(sender) => sender.reserve_known(length as u64),
            Way::Messages(_) => None,
        }
    }

    /// Returns room, reading the peer's data.
    fn find(&mut self, length: usize) -> Result<Reserved<'_>> {
        self.check(length)?;
        let room = match &mut self.way {
            Way::Memory(sender) => sender.reserve(length as u64)?,
            Way::Messages(sender) => sender.reserve(length as u64)?,
        };
        match room {
            Some(span) => Ok(Reserved { sender: self, span }),
            None => Err(self.full()),
        }
    }

    fn wait(&mut self, length: usize, timeout: Option<Duration>) -> Result<Reserved<'_>> {
        self.check(length)?;
        let span = match &mut self.way {
            Way::Memory(sender) => sender.wait(length as u64, timeout)?,
            Way::Messages(sender) => sender.wait(length as u64, timeout)?,
        };
        Ok(Reserved { sender: self, span })
    }

    /// Reserves room, like [`ChannelSender::reserve`], for callers that cannot keep a borrow: C.
    /// `wait` is `None` for a caller that does not wait, otherwise its timeout.
    /// [`ChannelSender::finish`] sends the message. Any other message is sent in its place.
    #[doc(hidden)]
    pub fn begin(&mut self, length: usize, wait: Option<Option<Duration>>) -> Result<&[AtomicU8]> {
        let span = match wait {
            None => self.try_reserve(length)?.span,
            Some(timeout) => self.reserve(length, timeout)?.span,
        };
        self.begun = Some(span);
        Ok(self.data(span))
    }

    /// Sends what was begun last.
    #[doc(hidden)]
    pub fn finish(&mut self) -> Result<()> {
        self.begun()?.commit()
    }

    /// Returns the room that was begun last.
    pub(crate) fn begun(&mut self) -> Result<Reserved<'_>> {
        let span = self.begun.take().ok_or(Error::Invalid("no room is reserved for a message"))?;
        Ok(Reserved { sender: self, span })
    }

    /// Sends bytes of a byte stream, as many as fit in one piece, and waits while there is no room
    /// for them. Returns their number.
    ///
    /// # Errors
    /// The errors of [`ChannelSender::send`].
    pub fn write_block(&mut self, bytes: &[u8], timeout: Option<Duration>) -> Result<usize> {
        let length = bytes.len().min(self.piece());
        if length > 0 {
            self.send(&bytes[..length], timeout)?;
        }
        Ok(length)
    }

    /// For an application's own loop that has nothing to do until a message of this length can be
    /// sent: makes the manager's file readable once it may. Returns true if it already can, so try
    /// again. Also call [`crate::Manager::arm`], before each wait.
    ///
    /// # Errors
    /// The errors of [`ChannelSender::send`].
    pub fn arm(&mut self, length: usize) -> Result<bool> {
        self.check(length)?;
        // This may go past the room that was reserved.
        self.begun = None;
        match &mut self.way {
            Way::Memory(sender) => sender.arm(length as u64),
            Way::Messages(_) => Ok(false),
        }
    }

    /// A call that may wait also waits until the peer has been woken. The message has been sent in
    /// any case.
    #[inline(always)]
    fn see_to_bell(&mut self, timeout: Option<Duration>) {
        if let Way::Memory(sender) = &mut self.way {
            if sender.owes_bell() {
                let _ = sender.flush(timeout);
            }
        }
    }

    /// Waits until everything that was accepted is sent, and a peer that sleeps for it has been
    /// woken.
    ///
    /// # Errors
    /// [`Error::TimedOut`], [`Error::PeerLost`], [`Error::System`].
    pub fn flush(&mut self, timeout: Option<Duration>) -> Result<()> {
        match &mut self.way {
            Way::Memory(sender) => {
                sender.tell();
                sender.flush(timeout)
            }
            Way::Messages(sender) => sender.finish(timeout),
        }
    }

    /// Closes the channel gracefully: the peer receives everything that was sent, and then the end.
    ///
    /// # Errors
    /// The errors of [`ChannelSender::flush`].
    pub fn close(self, timeout: Option<Duration>) -> Result<()> {
        match self.way {
            Way::Memory(mut sender) => {
                sender.close();
                sender.flush(timeout)
            }
            Way::Messages(sender) => sender.close(timeout),
        }
    }

    /// Like [`ChannelSender::flush`], but does not wait. A wake-up for which the card has no room
    /// now is sent later.
    pub fn try_flush(&mut self) -> Result<()> {
        match &mut self.way {
            Way::Memory(sender) => {
                sender.tell();
                Ok(())
            }
            Way::Messages(sender) => sender.push(),
        }
    }

    /// Like [`ChannelSender::close`], but does not wait. Call it until it succeeds; nothing more
    /// can be sent.
    pub fn try_close(&mut self) -> Result<()> {
        // Nothing may follow the end.
        self.begun = None;
        match &mut self.way {
            Way::Memory(sender) => {
                sender.close();
                Ok(())
            }
            Way::Messages(sender) => sender.try_close(),
        }
    }

    /// Number of bytes of a byte stream that are sent as one message. This is a part of the ring,
    /// so that both ends work at the same time.
    pub(super) fn piece(&self) -> usize {
        (self.longest() / 4).max(1)
    }

    #[inline(always)]
    fn data(&self, span: Span) -> &[AtomicU8] {
        match &self.way {
            Way::Memory(sender) => sender.data(span),
            Way::Messages(sender) => sender.data(span),
        }
    }

    fn check(&self, length: usize) -> Result<()> {
        at_most("length of a message", length as u64, self.longest() as u64)
    }

    /// Returns why there is no room.
    #[cold]
    fn full(&self) -> Error {
        let (checked, limit) = match &self.way {
            Way::Memory(sender) => (sender.check(), sender.capacity()),
            Way::Messages(sender) => (Ok(()), sender.longest()),
        };
        let limit = u32::try_from(limit).unwrap_or(u32::MAX);
        checked.err().unwrap_or(Error::WouldBlock { object: "bytes of the channel", limit })
    }
}

/// Room for a message ([`ChannelSender::reserve`]). If it is dropped, nothing is sent.
#[derive(Debug)]
pub struct Reserved<'a> {
    pub(super) sender: &'a mut ChannelSender,
    pub(super) span: Span,
}

impl Reserved<'_> {
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

    /// Copies bytes in, starting at byte `offset` of the message.
    ///
    /// # Errors
    /// [`Error::PastEnd`].
    #[inline(always)]
    pub fn write(&mut self, offset: usize, from: &[u8]) -> Result<()> {
        inside("message", offset as u64, from.len() as u64, self.span.length)?;
        copies::into_express(&self.cells()[offset..], from);
        Ok(())
    }

    /// Returns the message in place; its previous contents are unspecified. The peer may read and
    /// change it at any moment.
    #[must_use]
    #[inline(always)]
    pub fn cells(&self) -> &[AtomicU8] {
        self.sender.data(self.span)
    }

    /// Sends the message.
    ///
    /// # Errors
    /// [`Error::PeerLost`], [`Error::System`].
    #[inline(always)]
    pub fn commit(self) -> Result<()> {
        match &mut self.sender.way {
            Way::Memory(sender) => {
                sender.commit(self.span);
                Ok(())
            }
            Way::Messages(sender) => sender.commit(self.span),
        }
    }
}

/// A byte stream: message boundaries have no meaning.
impl io::Write for ChannelSender {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(self.write_block(bytes, None)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(ChannelSender::flush(self, None)?)
    }
}
