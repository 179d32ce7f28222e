//! The sending half of a channel.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::AtomicU8;
use std::time::Duration;

use super::remote;
use crate::core::copies;
use crate::core::express::ring::Span;
use crate::core::loss::PeerLoss;
use crate::core::polling::Polling;
use crate::error::{Error, Result, at_most, inside};
use crate::hamlyn::express::{ChannelSender, Reserved};

/// The sending half of a [`super::Channel`].
///
/// If it is dropped without [`Sender::close`], the peer's receiver gets
/// [`crate::PeerLoss::Abandoned`] after all messages.
#[derive(Debug)]
pub struct Sender {
    pub(super) way: Way,
    pub(super) longest: usize,
    /// Room that [`Sender::begin`] has returned, of a card's channel.
    pub(super) begun: Option<Span>,
}

#[derive(Debug)]
pub(super) enum Way {
    Express(ChannelSender),
    Remote(remote::Sender),
}

pub(super) const NO_FILE: Error = Error::Unsupported("express memory has no file");

/// How long a call waits: not at all, indefinitely, or for a time.
#[derive(Clone, Copy)]
pub(super) enum Wait {
    No,
    Until(Option<Duration>),
}

impl Sender {
    /// Returns the length of the longest message, in bytes.
    #[must_use]
    #[inline]
    pub fn longest(&self) -> usize {
        self.longest
    }

    /// Returns whether messages use express memory, with no card between the two ends.
    #[must_use]
    pub fn is_express(&self) -> bool {
        matches!(self.way, Way::Express(_))
    }

    /// Sets how long blocking calls poll before they sleep.
    pub fn set_polling(&mut self, polling: Polling) {
        match &mut self.way {
            Way::Express(sender) => sender.set_polling(polling),
            Way::Remote(sender) => sender.set_polling(polling),
        }
    }

    /// Sends a message. Blocks while the ring has no space for it.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for a message longer than [`Sender::longest`]; [`Error::PeerLost`];
    /// [`Error::Nonsense`] if the peer has stored an invalid value, which ends the channel;
    /// [`Error::System`]. The message is not sent in these cases.
    #[inline]
    pub fn send(&mut self, message: &[u8]) -> Result<()> {
        self.send_with(message, Wait::Until(None))
    }

    /// Sends a message, if the ring has space for it.
    ///
    /// # Errors
    /// [`Error::WouldBlock`]; those of [`Sender::send`].
    #[inline]
    pub fn try_send(&mut self, message: &[u8]) -> Result<()> {
        self.send_with(message, Wait::No)
    }

    /// Sends a message. Blocks while the ring has no space for it, for at most `timeout`.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; those of [`Sender::send`].
    #[inline]
    pub fn send_timeout(&mut self, message: &[u8], timeout: Duration) -> Result<()> {
        self.send_with(message, Wait::Until(Some(timeout)))
    }

    fn send_with(&mut self, message: &[u8], wait: Wait) -> Result<()> {
        let mut room = self.reserve_with(message.len(), wait)?;
        room.write(0, message)?;
        room.commit()
    }

    /// Reserves space for a message of `length` bytes, which is built in place and sent by
    /// [`Room::commit`]. Blocks until there is space.
    ///
    /// # Errors
    /// Those of [`Sender::send`].
    #[inline]
    pub fn reserve(&mut self, length: usize) -> Result<Room<'_>> {
        self.reserve_with(length, Wait::Until(None))
    }

    /// Reserves space for a message, if there is any.
    ///
    /// # Errors
    /// Those of [`Sender::try_send`].
    #[inline]
    pub fn try_reserve(&mut self, length: usize) -> Result<Room<'_>> {
        self.reserve_with(length, Wait::No)
    }

    /// Reserves space for a message. Blocks for at most `timeout`.
    ///
    /// # Errors
    /// Those of [`Sender::send_timeout`].
    #[inline]
    pub fn reserve_timeout(&mut self, length: usize, timeout: Duration) -> Result<Room<'_>> {
        self.reserve_with(length, Wait::Until(Some(timeout)))
    }

    fn reserve_with(&mut self, length: usize, wait: Wait) -> Result<Room<'_>> {
        at_most("length of a message", length as u64, self.longest as u64)?;
        self.begun = None;
        Ok(Room(match (&mut self.way, wait) {
            (Way::Express(sender), Wait::No) => Place::Express(sender.try_reserve(length)?),
            (Way::Express(sender), Wait::Until(timeout)) => Place::Express(sender.reserve(length, timeout)?),
            (Way::Remote(sender), wait) => {
                let span = reserve(sender, length, wait)?;
                Place::Remote(sender, span)
            }
        }))
    }

    /// Reserves space like [`Sender::reserve`], for callers that cannot keep a borrow: C. Without
    /// `wait` the call does not wait; otherwise it waits for that time. [`Sender::finish`] sends
    /// the message. Any other message that is sent first takes its place.
    #[doc(hidden)]
    pub fn begin(&mut self, length: usize, wait: Option<Option<Duration>>) -> Result<&[AtomicU8]> {
        self.forget_begun();
        at_most("length of a message", length as u64, self.longest as u64)?;
        match &mut self.way {
            Way::Express(sender) => sender.begin(length, wait),
            Way::Remote(sender) => {
                let span = reserve(sender, length, wait.map_or(Wait::No, Wait::Until))?;
                self.begun = Some(span);
                Ok(sender.data(span))
            }
        }
    }

    /// Ends the room that was begun last: a look for other room may go past it.
    fn forget_begun(&mut self) {
        self.begun = None;
        if let Way::Express(sender) = &mut self.way {
            sender.forget_begun();
        }
    }

    /// Sends what was begun last; if `puts`, with the next flush.
    #[doc(hidden)]
    pub fn finish(&mut self, puts: bool) -> Result<()> {
        let room = match &mut self.way {
            Way::Express(sender) => Place::Express(sender.begun()?),
            Way::Remote(sender) => Place::Remote(
                sender,
                self.begun.take().ok_or(Error::Invalid("no room is reserved for a message"))?,
            ),
        };
        let room = Room(room);
        if puts { room.put() } else { room.commit() }
    }

    /// Sends all messages that were [put](Room::put).
    ///
    /// # Errors
    /// [`Error::PeerLost`], [`Error::System`].
    pub fn flush(&mut self) -> Result<()> {
        match &mut self.way {
            Way::Express(sender) => sender.flush(None),
            Way::Remote(sender) => sender.flush(),
        }
    }

    /// Makes [`Sender::file`] readable once there is space for a message of `length` bytes, or the
    /// channel has ended. Returns `true` if that is already the case: try again then, without a
    /// wait. Call this before each wait.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::System`].
    pub fn arm(&mut self, length: usize) -> Result<bool> {
        at_most("length of a message", length as u64, self.longest as u64)?;
        match &mut self.way {
            Way::Express(_) => Err(NO_FILE),
            Way::Remote(sender) => sender.arm(length as u64),
        }
    }

    /// Returns this half's file, for `poll(2)`, mio and the like. It may be readable although there
    /// is no space. The first call opens it; it stays the same.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn file(&mut self) -> Result<BorrowedFd<'_>> {
        match &mut self.way {
            Way::Express(_) => Err(NO_FILE),
            Way::Remote(sender) => sender.file(),
        }
    }

    /// Returns the number of bytes sent and not yet known to be received, plus 8 for each message.
    /// The receiver returns credit for a quarter of the ring at a time. If the number stays near
    /// the ring's capacity, the peer is slow.
    ///
    /// # Errors
    /// [`Error::Nonsense`] if the peer has stored an invalid value.
    pub fn bytes_behind(&mut self) -> Result<u64> {
        match &mut self.way {
            Way::Express(sender) => sender.behind(),
            Way::Remote(sender) => sender.behind(),
        }
    }

    /// Closes the channel in this direction: the peer receives all messages, and then `None`.
    /// Blocks until delivery is certain. Succeeds if the peer has dropped its receiver.
    ///
    /// # Errors
    /// [`Error::PeerLost`], [`Error::System`].
    pub fn close(self) -> Result<()> {
        self.close_with(None)
    }

    /// Closes the channel in this direction. Blocks for at most `timeout`.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; those of [`Sender::close`].
    pub fn close_timeout(self, timeout: Duration) -> Result<()> {
        self.close_with(Some(timeout))
    }

    fn close_with(self, timeout: Option<Duration>) -> Result<()> {
        match self.way {
            Way::Express(sender) => match sender.close(timeout) {
                Err(Error::PeerLost(PeerLoss::Abandoned)) => Ok(()),
                closed => closed,
            },
            Way::Remote(mut sender) => sender.close(timeout),
        }
    }

    /// Returns how many bytes of a stream are sent as one message: a part of the ring, so that both
    /// ends work in parallel.
    fn piece(&self) -> usize {
        (self.longest / 2).max(1)
    }
}

fn reserve(sender: &mut remote::Sender, length: usize, wait: Wait) -> Result<Span> {
    match wait {
        Wait::No => sender
            .reserve(length as u64)?
            .ok_or(Error::WouldBlock { object: "bytes of the channel", limit: 0 }),
        Wait::Until(timeout) => sender.wait(length as u64, timeout),
    }
}

/// A byte stream: message boundaries are not preserved.
impl io::Write for Sender {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let length = bytes.len().min(self.piece());
        if length > 0 {
            self.send(&bytes[..length])?;
        }
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(Sender::flush(self)?)
    }
}

/// Space for a message ([`Sender::reserve`]). Dropping it sends nothing.
#[derive(Debug)]
pub struct Room<'a>(Place<'a>);

#[derive(Debug)]
enum Place<'a> {
    Express(Reserved<'a>),
    Remote(&'a mut remote::Sender, Span),
}

impl Room<'_> {
    /// Returns the message's length in bytes.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        match &self.0 {
            Place::Express(room) => room.len(),
            Place::Remote(_, span) => span.length as usize,
        }
    }

    /// Returns whether the message is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies bytes into the message, starting at its byte `offset`.
    ///
    /// # Errors
    /// [`Error::PastEnd`].
    #[inline]
    pub fn write(&mut self, offset: usize, from: &[u8]) -> Result<()> {
        inside("message", offset as u64, from.len() as u64, self.len() as u64)?;
        copies::into_express(&self.cells()[offset..], from);
        Ok(())
    }

    /// Returns the message in place. Its previous contents are undefined. With express memory the
    /// peer may change it at any time.
    #[must_use]
    #[inline]
    pub fn cells(&self) -> &[AtomicU8] {
        match &self.0 {
            Place::Express(room) => room.cells(),
            Place::Remote(sender, span) => sender.data(*span),
        }
    }

    /// Sends the message, and all that were put before it.
    ///
    /// # Errors
    /// [`Error::PeerLost`], [`Error::System`].
    #[inline]
    pub fn commit(self) -> Result<()> {
        match self.0 {
            Place::Express(room) => room.commit(),
            Place::Remote(sender, span) => sender.commit(span),
        }
    }

    /// Queues the message until [`Sender::flush`] or the next commit, so that several messages
    /// share one doorbell.
    ///
    /// # Errors
    /// [`Error::PeerLost`], [`Error::System`].
    #[inline]
    pub fn put(self) -> Result<()> {
        match self.0 {
            Place::Express(room) => room.put(),
            Place::Remote(sender, span) => {
                sender.put(span);
                Ok(())
            }
        }
    }
}
