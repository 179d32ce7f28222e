//! Tagged remote write (section 3.3): data goes to an offset of the receiver's buffer, and a tag
//! tells of it.
//!
//! It uses fast mode, so a message fits in a single packet. In-order delivery is not guaranteed.
//!
//! Nothing holds a sender by fast mode to a number of messages (section 2.7 is about metadata
//! entries). So a receiver has a notification queue of its own, not a [`crate::Manager`]'s: who
//! sends too much overruns nobody else.

use std::collections::VecDeque;
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::atomic::AtomicU8;
use std::time::Duration;

use crate::core::polling::Polling;
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
    /// Sends from this terminus.
    #[must_use]
    pub fn new(terminus: Terminus) -> Self {
        Self { terminus }
    }

    /// Writes data `offset` bytes into the ticket's buffer and enqueues the tag at the receiver.
    /// While all work-queue entries are in use it waits.
    ///
    /// Bytes go by direct I/O (up to 448); a piece of a send buffer may be as long as a packet.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for more than a packet or, of bytes, more than direct I/O takes;
    /// [`Error::Invalid`] for a ticket that is not a [`TagReceiver`]'s; else those of
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
    /// [`Error::WouldBlock`], and those of [`TagSender::send`].
    pub fn try_send<'a>(
        &self,
        ticket: &Ticket,
        data: impl Into<Source<'a>>,
        offset: u32,
        tag: u32,
    ) -> Result<Handle> {
        self.terminus.try_send(&message(ticket, offset, tag)?, data)
    }

    /// Like [`TagSender::send`], for a part of a buffer of the manager whose terminus this is. It
    /// is lent only: the card gathers from these bytes until the handle says that it has finished,
    /// and they cannot be written to before.
    ///
    /// # Errors
    /// Those of [`TagSender::send`]; [`Error::PastEnd`] for the part, [`Error::ForeignBuffer`] for
    /// another manager's.
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
    /// [`Error::WouldBlock`], and those of [`TagSender::send_from`].
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

    /// The terminus.
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
/// Any thread may have it; one at a time, hence `&mut self`.
#[derive(Debug)]
pub struct TagReceiver {
    slot: Slot,
    queue: NotificationQueue,
    /// Tags taken off the notification queue while another was looked for.
    waiting: VecDeque<u32>,
    polling: Polling,
}

impl TagReceiver {
    /// Creates a buffer of `length` bytes, and a queue for up to `tags` tags that have arrived and
    /// were not taken. As many again may stand aside while a specific tag is looked for.
    ///
    /// # Errors
    /// Those of [`Card::create_area`], [`Card::create_queue`] and [`crate::SlotBuilder::create`].
    pub fn create(card: &Card, length: usize, tags: u32) -> Result<Self> {
        Self::create_in(card, &card.create_area(length)?, tags)
    }

    /// Creates a receiver in an area of the caller's ([`Card::lend`], or a
    /// [`Card::create_area`]'s). Once it is dropped, the area can be taken back.
    ///
    /// # Errors
    /// Those of [`Card::create_queue`] and [`crate::SlotBuilder::create`].
    pub fn create_in(card: &Card, area: &MessageArea, tags: u32) -> Result<Self> {
        let queue = card.create_queue(tags)?;
        let slot = card.slot(area).queue(&queue).create()?;
        Ok(Self { slot, queue, waiting: VecDeque::new(), polling: Polling::default() })
    }

    /// How often the waiting calls look before they yield or sleep.
    #[must_use]
    pub fn polling(self, polling: Polling) -> Self {
        Self { polling, ..self }
    }

    /// The ticket that senders need.
    ///
    /// # Errors
    /// [`Error::LinkDown`], [`Error::System`].
    pub fn ticket(&self) -> Result<Ticket> {
        self.slot.fast_ticket()
    }

    /// The next tag, if one has arrived.
    ///
    /// # Errors
    /// [`Error::Overrun`], once, if tags were lost because more arrived than the receiver was
    /// created for.
    pub fn get_tag(&mut self) -> Result<Option<u32>> {
        match self.waiting.pop_front() {
            Some(tag) => Ok(Some(tag)),
            None => self.arrived(),
        }
    }

    /// This very tag, if it has arrived. Others stay for later, in their order.
    ///
    /// # Errors
    /// [`Error::Overrun`], as [`TagReceiver::get_tag`]. [`Error::Exhausted`] if as many others
    /// stand aside as the receiver was created for: take some by [`TagReceiver::get_tag`].
    pub fn get_specific_tag(&mut self, tag: u32) -> Result<Option<u32>> {
        if let Some(position) = self.waiting.iter().position(|waiting| *waiting == tag) {
            return Ok(self.waiting.remove(position));
        }
        // It ends: each that is another's takes room.
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

    /// Checks that another tag may stand aside.
    fn check_room(&self) -> Result<()> {
        let limit = self.queue.entries();
        if self.waiting.len() < limit as usize {
            return Ok(());
        }
        let remedy = "take some of them before you look for a specific one";
        Err(Error::Exhausted { object: "tags that may stand aside", limit, remedy })
    }

    /// The next tag; sleeps until one arrives. `None` waits for ever.
    ///
    /// # Errors
    /// [`Error::TimedOut`], [`Error::Overrun`], [`Error::System`].
    pub fn get_tag_block(&mut self, timeout: Option<Duration>) -> Result<u32> {
        self.block(timeout, None)
    }

    /// This very tag; sleeps until it arrives. `None` waits for ever.
    ///
    /// # Errors
    /// [`Error::TimedOut`], however many others arrive meanwhile; [`Error::System`]; those of
    /// [`TagReceiver::get_specific_tag`].
    pub fn get_specific_tag_block(&mut self, tag: u32, timeout: Option<Duration>) -> Result<u32> {
        self.block(timeout, Some(tag))
    }

    /// The next tag, by polling without ever sleeping; the processor is yielded in between. `None`
    /// waits for ever.
    ///
    /// # Errors
    /// [`Error::TimedOut`], [`Error::Overrun`].
    pub fn get_tag_poll(&mut self, timeout: Option<Duration>) -> Result<u32> {
        let polling = self.polling;
        let found = polling.wait(timeout, false, || self.get_tag().transpose());
        found.unwrap_or_else(|| Err(timed_out(timeout)))
    }

    /// Makes [`TagReceiver::file`] readable once a tag has arrived. True if there is one that was
    /// not taken: then the file may not become readable for it. It looks as often as [`Polling`]
    /// says before it arms.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn arm(&self) -> Result<bool> {
        let there = || (!self.waiting.is_empty() || !self.queue.has_nothing()).then_some(());
        Ok(self.polling.look(there).is_some() || self.queue.arm()?)
    }

    /// A file descriptor for `poll(2)` and the like. Take tags by [`TagReceiver::get_tag`] until
    /// there is none, and arm again before each wait. It may become readable for others of the
    /// card, too.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn file(&self) -> Result<impl AsFd + '_> {
        self.queue.file()
    }

    /// Copies received bytes out, from `offset` bytes behind the buffer's start.
    ///
    /// # Errors
    /// [`Error::PastEnd`].
    pub fn read(&self, offset: usize, to: &mut [u8]) -> Result<()> {
        self.slot.read(offset, to)
    }

    /// Received bytes in place, `length` of them from `offset` bytes behind the buffer's start,
    /// without copying. Whoever has a ticket may write to them at any time.
    ///
    /// # Errors
    /// [`Error::PastEnd`].
    pub fn cells(&self, offset: usize, length: usize) -> Result<&[AtomicU8]> {
        self.slot.area().cells(offset, length)
    }

    /// The buffer.
    #[must_use]
    pub fn area(&self) -> &MessageArea {
        self.slot.area()
    }

    /// Waits for a tag: for any, or for the one that is wanted.
    fn block(&mut self, timeout: Option<Duration>, wanted: Option<u32>) -> Result<u32> {
        let until = Deadline::new(timeout);
        let found = match wanted {
            Some(tag) => self.get_specific_tag(tag)?,
            None => self.get_tag()?,
        };
        if let Some(tag) = found {
            return Ok(tag);
        }
        loop {
            let left = until.check("tag")?;
            self.check_room()?;
            match self.queue.recv_block_with(self.polling, left) {
                // What was here before has been looked through: only this one is news.
                Ok(notification) => match tag_of(&notification) {
                    Some(tag) if wanted.is_none_or(|wanted| wanted == tag) => return Ok(tag),
                    other => self.waiting.extend(other),
                },
                Err(Error::TimedOut { .. }) => return Err(timed_out(timeout)),
                Err(error) => return Err(error),
            }
        }
    }

    /// The next tag off the notification queue.
    fn arrived(&mut self) -> Result<Option<u32>> {
        while let Some(notification) = self.queue.recv()? {
            if let Some(tag) = tag_of(&notification) {
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
