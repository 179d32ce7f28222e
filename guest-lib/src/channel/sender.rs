//! The sending half of a channel.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::AtomicU8;
use std::time::Duration;

use super::express::Express;
use super::ground::{self, half};
use super::remote::Reached;
use super::sending::Sending;
use crate::core::copies;
use crate::core::express::ring::Span;
use crate::core::polling::Polling;
use crate::core::waiting::at_once;
use crate::error::{Error, Result, at_most, inside};

/// The sending half of a [`super::Channel`].
///
/// If it is dropped without [`Sender::close`], the peer's receiver gets
/// [`crate::PeerLoss::Abandoned`] after all messages.
#[derive(Debug)]
pub struct Sender {
    pub(super) half: Half,
    pub(super) longest: usize,
    /// Room that [`Sender::begin`] has returned.
    pub(super) begun: Option<Span>,
}

pub(super) type Half = ground::Half<Sending<Express>, Sending<Reached>>;

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
        matches!(self.half, Half::Express(_))
    }

    /// Sets how long blocking calls poll before they sleep.
    pub fn set_polling(&mut self, polling: Polling) {
        half!(&mut self.half, sender => sender.set_polling(polling));
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

    #[inline(always)]
    pub(super) fn reserve_with(&mut self, length: usize, wait: Wait) -> Result<Room<'_>> {
        self.begun = None;
        let known = half!(&self.half, sender => sender.reserve_known(length as u64));
        let span = match known.filter(|_| length <= self.longest) {
            Some(span) => span,
            None => self.find_room(length, wait)?,
        };
        Ok(Room { sender: self, span })
    }

    /// Finds room that is not known to exist.
    fn find_room(&mut self, length: usize, wait: Wait) -> Result<Span> {
        at_most("length of a message", length as u64, self.longest as u64)?;
        half!(&mut self.half, sender => match wait {
            Wait::No => sender
                .reserve(length as u64)?
                .ok_or(Error::WouldBlock { object: "bytes of the channel", limit: 0 }),
            Wait::Until(timeout) => sender.wait(length as u64, timeout),
        })
    }

    /// Reserves space like [`Sender::reserve`], for callers that cannot keep a borrow: C. Without
    /// `wait` the call does not wait; otherwise it waits for that time. [`Sender::finish`] sends
    /// the message. Any other message that is sent first takes its place.
    #[doc(hidden)]
    pub fn begin(&mut self, length: usize, wait: Option<Option<Duration>>) -> Result<&[AtomicU8]> {
        let span = self.reserve_with(length, wait.map_or(Wait::No, Wait::Until))?.span;
        self.begun = Some(span);
        Ok(self.data(span))
    }

    /// Sends what was begun last; if `puts`, with the next flush.
    #[doc(hidden)]
    pub fn finish(&mut self, puts: bool) -> Result<()> {
        let span = self.begun.take().ok_or(Error::Invalid("no room is reserved for a message"))?;
        let room = Room { sender: self, span };
        if puts { room.put() } else { room.commit() }
    }

    /// Sends all messages that were [put](Room::put). Blocks while the card has no room for them.
    ///
    /// # Errors
    /// [`Error::PeerLost`], [`Error::System`].
    pub fn flush(&mut self) -> Result<()> {
        self.flush_with(None)
    }

    /// Sends all messages that were put, if the card has room for them.
    ///
    /// # Errors
    /// [`Error::WouldBlock`]: the messages stay put. Those of [`Sender::flush`].
    pub fn try_flush(&mut self) -> Result<()> {
        at_once("places at the card", self.flush_with(Some(Duration::ZERO)))
    }

    /// Sends all messages that were put. Blocks for at most `timeout`.
    ///
    /// # Errors
    /// [`Error::TimedOut`]: the messages stay put. Those of [`Sender::flush`].
    pub fn flush_timeout(&mut self, timeout: Duration) -> Result<()> {
        self.flush_with(Some(timeout))
    }

    fn flush_with(&mut self, timeout: Option<Duration>) -> Result<()> {
        half!(&mut self.half, sender => sender.flush(timeout))
    }

    /// Returns the position of the last message that was sent: the number of bytes of the ring up
    /// to its end. Pass it to [`Sender::delivered`] to learn what has become of this message.
    #[must_use]
    pub fn sent(&self) -> u64 {
        half!(&self.half, sender => sender.sent())
    }

    /// Blocks until delivery of all messages up to a position is certain: the peer has received
    /// them, or will receive them even if this process ends now. The position is the value of
    /// [`Sender::sent`] after a message was sent.
    ///
    /// # Errors
    /// [`Error::PeerLost`] if the peer is lost, or has dropped its receiver before it received
    /// them; [`Error::OutOfRange`] for a position beyond [`Sender::sent`]; [`Error::Nonsense`] if
    /// the peer has stored an invalid value; [`Error::System`].
    pub fn delivered(&mut self, position: u64) -> Result<()> {
        self.delivered_with(position, None)
    }

    /// Checks whether delivery of all messages up to a position is certain.
    ///
    /// # Errors
    /// [`Error::WouldBlock`] if it is not certain yet; those of [`Sender::delivered`].
    pub fn try_delivered(&mut self, position: u64) -> Result<()> {
        at_once("messages up to this position", self.delivered_with(position, Some(Duration::ZERO)))
    }

    /// Blocks until delivery of all messages up to a position is certain, for at most `timeout`.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; those of [`Sender::delivered`].
    pub fn delivered_timeout(&mut self, position: u64, timeout: Duration) -> Result<()> {
        self.delivered_with(position, Some(timeout))
    }

    fn delivered_with(&mut self, position: u64, timeout: Option<Duration>) -> Result<()> {
        half!(&mut self.half, sender => sender.delivered(position, timeout))
    }

    /// Makes [`Sender::file`] readable once there is space for a message of `length` bytes, or the
    /// channel has ended. Returns `true` if that is already the case: try again then, without a
    /// wait. Call this before each wait.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::System`].
    pub fn arm(&mut self, length: usize) -> Result<bool> {
        at_most("length of a message", length as u64, self.longest as u64)?;
        // This may go past the room that was reserved.
        self.begun = None;
        half!(&mut self.half, sender => sender.arm(length as u64))
    }

    /// Returns this half's file, for `poll(2)`, mio and the like. It may be readable without
    /// space. The first call opens it; it stays the same.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn file(&mut self) -> Result<BorrowedFd<'_>> {
        half!(&mut self.half, sender => sender.file())
    }

    /// Returns whether the peer has dropped its receiver. Cheap, but the end of its process does
    /// not show.
    #[doc(hidden)]
    #[inline]
    pub fn peer_has_left(&mut self) -> bool {
        half!(&mut self.half, sender => sender.peer_has_left())
    }

    /// Returns the number of bytes sent and not yet known to be received, plus 8 for each message.
    /// The receiver returns credit for a quarter of the ring at a time. If the number stays near
    /// the ring's capacity, the peer is slow.
    ///
    /// # Errors
    /// [`Error::Nonsense`] if the peer has stored an invalid value.
    pub fn bytes_behind(&mut self) -> Result<u64> {
        half!(&mut self.half, sender => sender.behind())
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

    /// Closes the channel in this direction, and does not wait until delivery is certain.
    #[cfg(feature = "tokio")]
    pub(super) fn announce_end(&mut self) {
        self.begun = None;
        half!(&mut self.half, sender => sender.announce_end());
    }

    fn close_with(mut self, timeout: Option<Duration>) -> Result<()> {
        half!(&mut self.half, sender => sender.close(timeout))
    }

    #[inline(always)]
    fn data(&self, span: Span) -> &[AtomicU8] {
        half!(&self.half, sender => sender.data(span))
    }

    /// Returns how many bytes of a stream are sent as one message: a part of the ring, so that both
    /// ends work in parallel.
    pub(super) fn piece(&self) -> usize {
        (self.longest / 2).max(1)
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
pub struct Room<'a> {
    pub(super) sender: &'a mut Sender,
    pub(super) span: Span,
}

impl Room<'_> {
    /// Returns the message's length in bytes.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.span.length as usize
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
        self.sender.data(self.span)
    }

    /// Sends the message, and all that were put before it.
    ///
    /// # Errors
    /// [`Error::PeerLost`], [`Error::System`].
    #[inline]
    pub fn commit(self) -> Result<()> {
        half!(&mut self.sender.half, sender => sender.commit(self.span))
    }

    /// Queues the message until [`Sender::flush`] or the next commit, so that several messages
    /// share one doorbell.
    ///
    /// # Errors
    /// [`Error::PeerLost`], [`Error::System`].
    #[inline]
    pub fn put(self) -> Result<()> {
        half!(&mut self.sender.half, sender => sender.put(self.span));
        Ok(())
    }
}
