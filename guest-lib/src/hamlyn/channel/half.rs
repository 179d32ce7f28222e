//! The two halves at one end of a channel.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use super::TOO_SMALL;
use super::filled::Filled;
use super::note::{LONGEST, ToReceiver, ToSender};
use crate::core::express::memory::RingMemory;
use crate::core::express::ring::Word;
use crate::core::place::PAGE;
use crate::core::remote::Remote;
use crate::core::waiting::{Deadline, slept};
use crate::error::{Error, Result};
use crate::hamlyn::attach::QueueWait;
use crate::hamlyn::card::Card;
use crate::hamlyn::notification::{Arrival, Notification, NotificationQueue};
use crate::hamlyn::request::Message;
use crate::hamlyn::send_buffer::SendBuffer;
use crate::hamlyn::slot::Slot;
use crate::hamlyn::terminus::{Handle, Source, Terminus};
use crate::hamlyn::ticket::Ticket;

/// Maximum number of messages whose notifications the receiver has not reported as read. Also the
/// number of the slot's metadata entries.
const MESSAGES: u32 = 128;
/// Entries of a half's queue: those messages, and the end. A sender gets fewer reports.
const ENTRIES: u32 = 2 * MESSAGES;
/// Number of read notifications after which a receiver reports them.
const REPORT: u32 = MESSAGES / 4;
/// Messages of one post: a ring's bytes are two pieces if they wrap around.
const POST: u32 = 2;
/// Number of a half's requests that may be in the work queue before it looks for those that the
/// card has completed.
const UNSEEN: usize = 16;
/// Maximum time for the card to make room in the work queue.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a half receives in.
#[derive(Debug)]
pub(super) struct Own {
    slot: Slot,
    queue: NotificationQueue,
    area: RingMemory,
}

impl Own {
    /// Opens memory for the peer's messages.
    pub(super) fn for_messages(card: &Card, capacity: u64) -> Result<Self> {
        Self::open(card, PAGE + capacity as usize, MESSAGES)
    }

    /// Opens memory for the peer's reports, which are words without bytes.
    pub(super) fn for_reports(card: &Card) -> Result<Self> {
        Self::open(card, 2 * PAGE, 0)
    }

    fn open(card: &Card, length: usize, metadata_entries: u32) -> Result<Self> {
        let area = card.create_area(length)?;
        let queue = card.create_queue(ENTRIES)?;
        let slot = card.slot(&area).range(PAGE..length).metadata_entries(metadata_entries);
        let slot = slot.queue(&queue).create()?;
        let area = RingMemory::over(area.memory().mapping().clone()).ok_or(TOO_SMALL)?;
        Ok(Self { slot, queue, area })
    }

    pub(super) fn ticket(&self) -> Result<Ticket> {
        self.slot.fast_ticket()
    }
}

/// What both halves have: what they send with, and what they receive in.
#[derive(Debug)]
pub(super) struct Half {
    terminus: Terminus,
    peer: Ticket,
    own: Own,
    /// Messages that the card may not have completed.
    sent: RefCell<VecDeque<Handle>>,
    /// Error of a message that the card has refused, until it is reported.
    failed: RefCell<Option<Error>>,
    armed: Cell<Option<QueueWait>>,
}

impl Half {
    pub(super) fn new(terminus: Terminus, peer: Ticket, own: Own) -> Self {
        let (sent, failed, armed) = Default::default();
        Self { terminus, peer, own, sent, failed, armed }
    }

    fn send(&self, message: &Message<'_>, source: Source<'_>) -> Result<()> {
        let handle = match self.terminus.try_send(message, source) {
            Err(error) if error.is_would_block() => self.send_when_possible(message, source)?,
            sent => sent?,
        };
        self.remember(handle);
        Ok(())
    }

    #[cold]
    fn send_when_possible(&self, message: &Message<'_>, source: Source<'_>) -> Result<Handle> {
        let deadline = Deadline::new(Some(PATIENCE));
        loop {
            self.terminus.wait_progress(deadline.check("room in the work queue")?)?;
            match self.terminus.try_send(message, source) {
                Err(error) if error.is_would_block() => {}
                sent => return sent,
            }
        }
    }

    fn say(&self, word: u32) -> Result<()> {
        self.send(&Message::to(&self.peer).word(word), Source::Bytes(&[]))
    }

    /// Sends a word, if there is room in the work queue.
    fn try_say(&self, word: u32) -> Result<()> {
        self.remember(self.terminus.try_send(&Message::to(&self.peer).word(word), &[])?);
        Ok(())
    }

    fn remember(&self, handle: Handle) {
        self.sent.borrow_mut().push_back(handle);
        if self.sent.borrow().len() >= UNSEEN {
            self.forget_completed();
        }
    }

    /// Forgets the messages that the card has completed.
    fn forget_completed(&self) {
        let mut sent = self.sent.borrow_mut();
        while let Some(first) = sent.front() {
            match first.is_complete() {
                Ok(false) => return,
                Ok(true) => {}
                Err(refused) => *self.failed.borrow_mut() = Some(refused),
            }
            sent.pop_front();
        }
    }

    /// Passes every notification that has arrived to `take`. An overrun is passed as `None`.
    fn take_notifications(&self, mut take: impl FnMut(Option<Notification>)) {
        loop {
            match self.own.queue.recv() {
                Ok(Some(notification)) => take(Some(notification)),
                Ok(None) => return,
                Err(_) => take(None),
            }
        }
    }

    fn arm(&self) {
        self.forget_completed();
        self.armed.set(Some(self.own.queue.awaited()));
    }

    fn sleep(&self, limit: Duration) -> Result<()> {
        let awaited = self.armed.get().unwrap_or_else(|| self.own.queue.awaited());
        slept(self.own.queue.wait_for(awaited, Some(limit)))
    }

    /// Fails if the card is known to have refused a message.
    fn check(&self) -> Result<()> {
        self.failed.borrow_mut().take().map_or(Ok(()), Err)
    }

    /// Returns whether a post would find room in the work queue, as far as this half has to look.
    fn has_room(&self) -> bool {
        let is_new = self.sent.borrow().len() <= UNSEEN;
        is_new || self.terminus.check_room(POST as usize).is_ok()
    }

    fn finish(&self, limit: Option<Duration>) -> Result<()> {
        match self.sent.borrow().back() {
            Some(last) => last.wait(limit),
            None => Ok(()),
        }
    }
}

/// What a sender knows of its receiver.
#[derive(Debug, Default)]
struct Reports {
    released: u64,
    /// Number of notifications that the receiver has read, modulo 2^32.
    read: u32,
    has_left: bool,
}

/// The sending half. It sends messages, and receives reports.
#[derive(Debug)]
pub(super) struct SendingHalf {
    half: Half,
    buffer: SendBuffer,
    mirror: RingMemory,
    reports: RefCell<Reports>,
    /// Number of messages sent, modulo 2^32; and the position that they end at.
    posted: Cell<u32>,
    written: Cell<u64>,
}

impl SendingHalf {
    pub(super) fn new(half: Half, buffer: SendBuffer, mirror: RingMemory) -> Self {
        let (reports, posted, written) = Default::default();
        Self { half, buffer, mirror, reports, posted, written }
    }

    fn take_reports(&self) {
        self.half.take_notifications(|notification| {
            let mut reports = self.reports.borrow_mut();
            let report = notification.and_then(|notification| match notification.arrival {
                Arrival::Fast(word) => ToSender::decode(word, reports.released, reports.read),
                Arrival::Metadata(_) => None,
            });
            match report {
                Some(ToSender::Released(position)) => reports.released = position,
                Some(ToSender::Read(number)) => reports.read = number,
                Some(ToSender::Left) => reports.has_left = true,
                // The writer reports a position that no ring has as nonsense.
                None => reports.released = u64::MAX,
            }
        });
    }

    /// Returns whether the receiver and the card have room for a post.
    fn has_room(&self) -> bool {
        let is_free = || {
            let unread = self.posted.get().wrapping_sub(self.reports.borrow().read);
            unread <= MESSAGES - POST
        };
        if !is_free() {
            self.take_reports();
        }
        is_free() && self.half.has_room()
    }

    /// Deposits the mirror's bytes of this range into the receiver's ring. They end at position
    /// `end`.
    fn deposit(&self, range: &Range<u64>, end: u64) -> Result<()> {
        let (length, peer) = (range.end - range.start, &self.half.peer);
        let number = self.posted.get();
        self.posted.set(number.wrapping_add(1));
        let piece = self.buffer.piece(PAGE + range.start as usize, length as usize)?;
        let offset = range.start as u32;
        if length <= LONGEST.min(self.half.terminus.packet_size().into()) {
            let word = ToReceiver::Filled { end, length }.encode();
            return self.half.send(&Message::to(peer).offset(offset).word(word), piece.into());
        }
        let entry = Ticket { metadata_index: number % MESSAGES, ..*peer };
        let metadata = [end.to_le_bytes(), length.to_le_bytes()].concat();
        self.half.send(&Message::to(&entry).offset(offset).metadata(&metadata), piece.into())
    }
}

impl Remote for SendingHalf {
    fn area(&self) -> &RingMemory {
        &self.half.own.area
    }

    fn mirror(&self) -> &RingMemory {
        &self.mirror
    }

    fn post(&self, pieces: &[Range<u64>; 2], word: Word, value: u64) -> Result<()> {
        if word == Word::Ended {
            return self.half.say(ToReceiver::Ended { at: self.written.get(), how: value }.encode());
        }
        self.written.set(value);
        let [first, second] = pieces;
        for (piece, end) in [(first, value - (second.end - second.start)), (second, value)] {
            if !piece.is_empty() {
                self.deposit(piece, end)?;
            }
        }
        Ok(())
    }

    fn load(&self, word: Word) -> u64 {
        self.take_reports();
        let reports = self.reports.borrow();
        match word {
            Word::Released => reports.released,
            Word::Left => reports.has_left.into(),
            _ => 0,
        }
    }

    fn wait_for_room(&self, limit: Option<Duration>) -> Result<bool> {
        if self.has_room() {
            return Ok(true);
        }
        if limit == Some(Duration::ZERO) {
            return Ok(false);
        }
        let deadline = Deadline::new(limit);
        loop {
            self.half.arm();
            if self.has_room() {
                return Ok(true);
            }
            let Some(left) = deadline.left().or(Some(PATIENCE)).filter(|left| !left.is_zero()) else {
                return Ok(false);
            };
            if self.half.terminus.check_room(POST as usize).is_err() {
                match self.half.terminus.wait_progress(Some(left)) {
                    Err(error) if error.is_timed_out() => {}
                    waited => waited?,
                }
            } else {
                self.half.sleep(left)?;
            }
        }
    }

    fn arm(&self) -> Result<()> {
        self.half.arm();
        Ok(())
    }

    fn sleep(&self, limit: Duration) -> Result<()> {
        self.half.sleep(limit)
    }

    fn check(&self) -> Result<()> {
        self.half.check()
    }

    fn finish(&self, limit: Option<Duration>) -> Result<()> {
        self.half.finish(limit)
    }
}

/// The receiving half. It receives messages, and sends reports.
#[derive(Debug)]
pub(super) struct ReceivingHalf {
    half: Half,
    filled: RefCell<Filled>,
    /// Number of notifications read, and of those that were reported, modulo 2^32.
    read: Cell<u32>,
    reported: Cell<u32>,
}

impl ReceivingHalf {
    pub(super) fn new(half: Half, capacity: u64) -> Self {
        let filled = RefCell::new(Filled::new(capacity));
        Self { half, filled, read: Cell::new(0), reported: Cell::new(0) }
    }

    fn take_messages(&self) {
        self.half.take_notifications(|notification| {
            self.read.set(self.read.get().wrapping_add(1));
            let mut filled = self.filled.borrow_mut();
            match notification.and_then(|notification| self.meaning(&notification, filled.until())) {
                Some(ToReceiver::Filled { end, length }) => filled.fill(end.wrapping_sub(length), end),
                Some(ToReceiver::Ended { at, how }) => filled.finish(at, how),
                None => filled.spoil(),
            }
        });
    }

    fn meaning(&self, notification: &Notification, until: u64) -> Option<ToReceiver> {
        if let Arrival::Fast(word) = notification.arrival {
            return ToReceiver::decode(word, until);
        }
        let slot = &self.half.own.slot;
        let user = slot.metadata(slot.entry_of(notification)?).ok()?.user();
        let number = |at| user[at..at + 8].try_into().ok().map(u64::from_le_bytes);
        Some(ToReceiver::Filled { end: number(0)?, length: number(8)? })
    }

    /// Reports read notifications, once they are many and there is room for a report.
    fn report(&self) {
        let read = self.read.get();
        let is_due = read.wrapping_sub(self.reported.get()) >= REPORT;
        if is_due && self.half.try_say(ToSender::Read(read).encode()).is_ok() {
            self.reported.set(read);
        }
    }
}

impl Remote for ReceivingHalf {
    fn area(&self) -> &RingMemory {
        &self.half.own.area
    }

    /// A receiver sends no bytes.
    fn mirror(&self) -> &RingMemory {
        &self.half.own.area
    }

    fn post(&self, _pieces: &[Range<u64>; 2], word: Word, value: u64) -> Result<()> {
        let report = if word == Word::Left { ToSender::Left } else { ToSender::Released(value) };
        self.half.say(report.encode())
    }

    fn load(&self, word: Word) -> u64 {
        self.take_messages();
        self.report();
        let filled = self.filled.borrow();
        if word == Word::Ended { filled.end() } else { filled.until() }
    }

    fn arm(&self) -> Result<()> {
        self.half.arm();
        Ok(())
    }

    fn sleep(&self, limit: Duration) -> Result<()> {
        self.half.sleep(limit)
    }

    fn check(&self) -> Result<()> {
        self.half.check()
    }

    fn finish(&self, limit: Option<Duration>) -> Result<()> {
        self.half.finish(limit)
    }
}
