//! Tagged remote write (section 3.3): data is written at an offset in the receiver's buffer, and a
//! tag notifies the receiver.
//!
//! It uses fast mode, so a message fits in a single packet. In-order delivery is not guaranteed.
//!
//! Nothing limits the number of messages of a fast-mode sender (section 2.7 covers only metadata
//! entries). So a receiver has its own notification queue instead of a [`crate::Manager`]'s. A
//! sender that sends too much then overruns only this receiver.

use std::collections::VecDeque;
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Duration;

use crate::core::polling::{Poller, Polling, poll_until};
use crate::core::waiting::Deadline;
use crate::error::{Error, Result};
use crate::hamlyn::card::Card;
use crate::hamlyn::manager::Buffer;
use crate::hamlyn::message_area::MessageArea;
use crate::hamlyn::notification::{Arrival, Notification, NotificationQueue};
use crate::hamlyn::request::Message;
use crate::hamlyn::slot::Slot;
use crate::hamlyn::terminus::{Handle, Source, Terminus};
use crate::hamlyn::ticket::Ticket;

/// The sending end.
#[derive(Debug, Clone)]
pub struct TagSender {
    terminus: Terminus,
}

impl TagSender {
    /// Creates a sender that uses this terminus.
    #[must_use]
    pub fn new(terminus: Terminus) -> Self {
        Self { terminus }
    }

    /// Writes data `offset` bytes into the ticket's buffer and enqueues the tag at the receiver. If
    /// all work-queue entries are in use, it waits.
    ///
    /// Bytes are sent by direct I/O (up to 448). A piece of a send buffer may be as long as a
    /// packet.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for more than a packet, or for more bytes than direct I/O allows;
    /// [`Error::Invalid`] for a ticket that is not a [`TagReceiver`]'s; otherwise the errors of
    /// [`Terminus::send`].
    pub fn send<'a>(
        &self,
        ticket: &Ticket,
        data: impl Into<Source<'a>>,
        offset: u32,
        tag: u32,
    ) -> Result<Handle> {
        self.terminus.send(&message(ticket, offset, tag)?, data)
    }

    /// Like [`TagSender::send`], but does not wait.
    ///
    /// # Errors
    /// [`Error::WouldBlock`], and the errors of [`TagSender::send`].
    pub fn try_send<'a>(
        &self,
        ticket: &Ticket,
        data: impl Into<Source<'a>>,
        offset: u32,
        tag: u32,
    ) -> Result<Handle> {
        self.terminus.try_send(&message(ticket, offset, tag)?, data)
    }

    /// Like [`TagSender::send`], for a part of a buffer of the manager that owns this terminus. The
    /// buffer is only borrowed: the card gathers from these bytes until the handle reports
    /// completion, and they cannot be written before that.
    ///
    /// # Errors
    /// The errors of [`TagSender::send`]; [`Error::PastEnd`] if the part is not inside the buffer,
    /// [`crate::ForeignBufferError`] for another manager's buffer.
    pub fn send_from(
        &self,
        ticket: &Ticket,
        buffer: &Buffer,
        part: Range<usize>,
        offset: u32,
        tag: u32,
    ) -> Result<Handle> {
        self.send(ticket, buffer.part(part)?, offset, tag).inspect(|handle| buffer.sent_by(handle))
    }

    /// Like [`TagSender::send_from`], but does not wait.
    ///
    /// # Errors
    /// [`Error::WouldBlock`], and the errors of [`TagSender::send_from`].
    pub fn try_send_from(
        &self,
        ticket: &Ticket,
        buffer: &Buffer,
        part: Range<usize>,
        offset: u32,
        tag: u32,
    ) -> Result<Handle> {
        self.try_send(ticket, buffer.part(part)?, offset, tag).inspect(|handle| buffer.sent_by(handle))
    }

    /// Returns the terminus.
    #[must_use]
    pub fn terminus(&self) -> &Terminus {
        &self.terminus
    }
}

fn message(ticket: &Ticket, offset: u32, tag: u32) -> Result<Message<'_>> {
    if !ticket.is_fast() {
        return Err(Error::Invalid("tagged remote write needs a fast-mode ticket"));
    }
    Ok(Message::to(ticket).offset(offset).word(tag))
}

/// The receiving end: a slot, its buffer, and the tags that have arrived.
///
/// Any thread may use it, but only one at a time; hence `&mut self`.
#[derive(Debug)]
pub struct TagReceiver {
    slot: Slot,
    queue: NotificationQueue,
    /// Tags taken off the notification queue during a search for another tag.
    waiting: VecDeque<u32>,
    /// For event loops: the queue has its own for its waits.
    poller: Poller,
    /// Whether a tag has come since the last [`TagReceiver::arm`].
    has_come: AtomicBool,
}

impl TagReceiver {
    /// Creates a buffer of `length` bytes, and a queue for up to `tags` tags that have arrived and
    /// were not taken. The same number of tags can be set aside during a search for a specific tag.
    ///
    /// # Errors
    /// The errors of [`Card::create_area`], [`Card::create_queue`] and
    /// [`crate::SlotBuilder::create`].
    pub fn create(card: &Card, length: usize, tags: u32) -> Result<Self> {
        Self::create_in(card, &card.create_area(length)?, tags)
    }

    /// Creates a receiver in an area of the caller ([`Card::lend`] or [`Card::create_area`]). Once
    /// it is dropped, the area can be taken back.
    ///
    /// # Errors
    /// The errors of [`Card::create_queue`] and [`crate::SlotBuilder::create`].
    pub fn create_in(card: &Card, area: &MessageArea, tags: u32) -> Result<Self> {
        let queue = card.create_queue(tags)?;
        let slot = card.slot(area).queue(&queue).create()?;
        Ok(Self {
            slot,
            queue,
            waiting: VecDeque::new(),
            poller: Poller::default(),
            has_come: AtomicBool::new(false),
        })
    }

    /// Sets how long calls poll before they sleep.
    pub fn set_polling(&self, polling: Polling) {
        self.poller.set(polling);
        self.queue.set_polling(polling);
    }

    /// Returns the ticket that senders need.
    ///
    /// # Errors
    /// [`Error::LinkDown`], [`Error::System`].
    pub fn ticket(&self) -> Result<Ticket> {
        self.slot.fast_ticket()
    }

    /// Returns the next tag. Blocks until one arrives: polls for a while, then sleeps.
    ///
    /// # Errors
    /// [`crate::OverrunError`], once, if tags were lost because more arrived than the receiver was
    /// created for; [`Error::System`].
    pub fn recv(&mut self) -> Result<u32> {
        self.block(None, None)
    }

    /// Returns the next tag. Blocks for at most `timeout`.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; those of [`TagReceiver::recv`].
    pub fn recv_timeout(&mut self, timeout: Duration) -> Result<u32> {
        self.block(Some(timeout), None)
    }

    /// Returns the next tag, if one has arrived.
    ///
    /// # Errors
    /// [`crate::OverrunError`], as for [`TagReceiver::recv`].
    #[doc(alias = "get_tag")]
    pub fn try_recv(&mut self) -> Result<Option<u32>> {
        match self.waiting.pop_front() {
            Some(tag) => Ok(Some(tag)),
            None => self.arrived(),
        }
    }

    /// Returns this specific tag. Blocks until it arrives. Others stay for later, in order.
    ///
    /// # Errors
    /// [`crate::OverrunError`], [`Error::System`]; those of [`TagReceiver::try_recv_tag`].
    pub fn recv_tag(&mut self, tag: u32) -> Result<u32> {
        self.block(None, Some(tag))
    }

    /// Returns this specific tag. Blocks for at most `timeout`.
    ///
    /// # Errors
    /// [`Error::TimedOut`], however many others arrive meanwhile; those of
    /// [`TagReceiver::recv_tag`].
    pub fn recv_tag_timeout(&mut self, tag: u32, timeout: Duration) -> Result<u32> {
        self.block(Some(timeout), Some(tag))
    }

    /// Returns this specific tag, if it has arrived. Others stay for later, in order.
    ///
    /// # Errors
    /// [`crate::OverrunError`], as for [`TagReceiver::recv`]. [`Error::Exhausted`] if as many
    /// others are set aside as the receiver was created for: take some with
    /// [`TagReceiver::try_recv`].
    #[doc(alias = "get_specific_tag")]
    pub fn try_recv_tag(&mut self, tag: u32) -> Result<Option<u32>> {
        if let Some(position) = self.waiting.iter().position(|waiting| *waiting == tag) {
            return Ok(self.waiting.remove(position));
        }
        // The loop ends: each other tag takes room.
        while !self.queue.has_nothing() {
            self.check_room()?;
            match self.arrived()? {
                Some(arrived) if arrived == tag => return Ok(Some(tag)),
                Some(arrived) => self.waiting.push_back(arrived),
                None => break,
            }
        }
        Ok(None)
    }

    /// Fails if no other tag can be set aside.
    fn check_room(&self) -> Result<()> {
        let limit = self.queue.entries();
        if self.waiting.len() < limit as usize {
            return Ok(());
        }
        let remedy = "take some of them before you look for a specific one";
        Err(Error::Exhausted { object: "tags that may stand aside", limit, remedy })
    }

    /// Returns the next tag. Blocks until one arrives: busy-polls and never sleeps, but yields the
    /// processor between polls.
    ///
    /// # Errors
    /// [`crate::OverrunError`].
    pub fn recv_polling(&mut self) -> Result<u32> {
        self.poll_within(None)
    }

    /// Returns the next tag like [`TagReceiver::recv_polling`]. Blocks for at most `timeout`.
    ///
    /// # Errors
    /// [`Error::TimedOut`], [`crate::OverrunError`].
    pub fn recv_polling_timeout(&mut self, timeout: Duration) -> Result<u32> {
        self.poll_within(Some(timeout))
    }

    fn poll_within(&mut self, timeout: Option<Duration>) -> Result<u32> {
        let found = poll_until(timeout, || self.try_recv().transpose());
        found.unwrap_or_else(|| Err(timed_out(timeout)))
    }

    /// Makes [`TagReceiver::file`] readable once a tag has arrived. Returns true if there is a tag
    /// that was not taken; the file may then not become readable for it. Polls according to
    /// [`Polling`] before it arms.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn arm(&self) -> Result<bool> {
        let there = || !self.waiting.is_empty() || !self.queue.has_nothing();
        let came = self.has_come.swap(false, Ordering::Relaxed);
        Ok(self.poller.poll_before_arming(came, there) || self.queue.arm()?)
    }

    /// Returns a file descriptor for `poll(2)` and the like. Take tags with
    /// [`TagReceiver::try_recv`] until there is none, and arm again before each wait. The file may
    /// also become readable for other objects of the card.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn file(&self) -> Result<impl AsFd + '_> {
        self.queue.file()
    }

    /// Copies received bytes out, starting `offset` bytes after the buffer's start.
    ///
    /// # Errors
    /// [`Error::PastEnd`].
    pub fn read(&self, offset: usize, to: &mut [u8]) -> Result<()> {
        self.slot.read(offset, to)
    }

    /// Returns `length` received bytes in place, starting `offset` bytes after the buffer's start,
    /// without copying. Any holder of a ticket may write to them at any time.
    ///
    /// # Errors
    /// [`Error::PastEnd`].
    pub fn cells(&self, offset: usize, length: usize) -> Result<&[AtomicU8]> {
        self.slot.area().cells(offset, length)
    }

    /// Returns the buffer.
    #[must_use]
    pub fn area(&self) -> &MessageArea {
        self.slot.area()
    }

    /// Waits for any tag, or for the wanted one.
    fn block(&mut self, timeout: Option<Duration>, wanted: Option<u32>) -> Result<u32> {
        let until = Deadline::new(timeout);
        let found = match wanted {
            Some(tag) => self.try_recv_tag(tag)?,
            None => self.try_recv()?,
        };
        if let Some(tag) = found {
            return Ok(tag);
        }
        loop {
            let left = until.check("tag")?;
            self.check_room()?;
            match self.queue.recv_within(left) {
                // Earlier tags have been searched already: only this one is new.
                Ok(notification) => match tag_of(&notification) {
                    Some(tag) if wanted.is_none_or(|wanted| wanted == tag) => return Ok(tag),
                    other => self.waiting.extend(other),
                },
                Err(Error::TimedOut { .. }) => return Err(timed_out(timeout)),
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the next tag from the notification queue.
    fn arrived(&mut self) -> Result<Option<u32>> {
        while let Some(notification) = self.queue.try_recv()? {
            if let Some(tag) = tag_of(&notification) {
                self.has_come.store(true, Ordering::Relaxed);
                return Ok(Some(tag));
            }
        }
        Ok(None)
    }
}

/// The slot has no metadata area, so every message is a fast-mode one.
fn tag_of(notification: &Notification) -> Option<u32> {
    match notification.arrival {
        Arrival::Fast(tag) => Some(tag),
        Arrival::Metadata(_) => None,
    }
}

fn timed_out(timeout: Option<Duration>) -> Error {
    Error::TimedOut { what: "tag", after: timeout.unwrap_or_default() }
}
