//! The two halves at one end of a channel.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use hamlyn_abi::hamlyn::request::{HAMLYN_BODY_SIZE, HamlynRequest};

use super::TOO_SMALL;
use super::filled::Filled;
use super::note::{LONGEST, ToReceiver, ToSender};
use crate::core::express::memory::RingMemory;
use crate::core::express::ring::{Span, Word};
use crate::core::place::PAGE;
use crate::core::remote::Remote;
use crate::core::waiting::{Deadline, slept};
use crate::error::{Error, Result};
use crate::hamlyn::attach::QueueWait;
use crate::hamlyn::card::Card;
use crate::hamlyn::errors::RefusedError;
use crate::hamlyn::notification::{Arrival, Notification, NotificationQueue};
use crate::hamlyn::request::{Body, Message, Request};
use crate::hamlyn::send_buffer::SendBuffer;
use crate::hamlyn::slot::Slot;
use crate::hamlyn::terminus::Terminus;
use crate::hamlyn::ticket::Ticket;

/// Maximum number of messages that the receiver has not reported as arrived without a gap. Also the
/// number of the slot's metadata entries.
const MESSAGES: u32 = 128;
/// Entries of a half's queue: those messages, and the end. A sender gets fewer reports.
const ENTRIES: u32 = 2 * MESSAGES;
/// Number of arrived messages after which a receiver reports them.
const REPORT: u32 = MESSAGES / 4;
/// Messages of one post: a ring's bytes are two pieces if they wrap around.
const POST: u32 = 2;
/// Maximum time for the card to make room in the work queue.
const PATIENCE: Duration = Duration::from_secs(30);
/// The same for the last word of a half, after which it goes.
const LAST: Duration = Duration::from_secs(1);

/// Memory and queue that a half receives in.
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

/// The parts that both halves have.
#[derive(Debug)]
pub(super) struct Half {
    terminus: Terminus,
    peer: Ticket,
    /// Head of a fast-mode message to the start of the peer's memory, without data and with word 0.
    fast: HamlynRequest,
    own: Own,
    /// Position of the last message in the work queue.
    last: Cell<u64>,
    /// Number of requests of the terminus that the card had refused at the start.
    refused: u32,
    armed: Cell<Option<QueueWait>>,
}

impl Half {
    pub(super) fn new(terminus: Terminus, peer: Ticket, own: Own) -> Result<Self> {
        let (fast, refused) = (Message::to(&peer).word(0).head(0, 0)?, terminus.inner.refused());
        Ok(Self { terminus, peer, fast, own, last: Cell::new(0), refused, armed: Cell::new(None) })
    }

    /// Posts a message by `post`. Waits for at most `limit` for room in the work queue.
    #[inline(always)]
    fn send(&self, limit: Duration, mut post: impl FnMut() -> Result<u64>) -> Result<()> {
        self.last.set(match post() {
            Err(error) if error.is_would_block() => self.send_when_possible(limit, post)?,
            posted => posted?,
        });
        Ok(())
    }

    #[cold]
    fn send_when_possible(&self, limit: Duration, mut post: impl FnMut() -> Result<u64>) -> Result<u64> {
        let deadline = Deadline::new(Some(limit));
        loop {
            self.terminus.wait_progress_within(deadline.check("room in the work queue")?)?;
            match post() {
                Err(error) if error.is_would_block() => {}
                posted => return posted,
            }
        }
    }

    /// Posts a word without data, if there is room in the work queue. Returns its position.
    fn post_word(&self, word: u32) -> Result<u64> {
        let head = HamlynRequest { delta: word, ..self.fast };
        self.terminus.try_post_unwatched(&Request::raw(head, Body::Bytes(&[])))
    }

    /// Sends the half's last word.
    fn send_last(&self, word: u32) -> Result<()> {
        self.send(LAST, || self.post_word(word))
    }

    /// Sends a word, if there is room in the work queue.
    fn try_send_word(&self, word: u32) -> Result<()> {
        self.last.set(self.post_word(word)?);
        Ok(())
    }

    /// Sends a word that wakes the peer. Waits for at most `limit` for room in the work queue.
    fn ring(&self, word: u32, limit: Duration) -> Result<bool> {
        let mut sent = self.try_send_word(word);
        if sent.as_ref().is_err_and(Error::is_would_block) && !limit.is_zero() {
            self.wait_progress(limit)?;
            sent = self.try_send_word(word);
        }
        match sent {
            Err(error) if error.is_would_block() => Ok(false),
            sent => sent.map(|()| true),
        }
    }

    /// Passes the notifications that have arrived to `take`, not more than a queue of them. An
    /// overrun is passed as `None`.
    #[inline]
    fn take_notifications(&self, mut take: impl FnMut(Option<Notification>)) {
        self.own.queue.take_all(|notification| take(notification.ok()));
    }

    fn arm(&self) {
        self.armed.set(Some(self.own.queue.awaited()));
    }

    fn sleep(&self, limit: Duration) -> Result<()> {
        slept(self.own.queue.wait_for(self.awaited(), Some(limit)))
    }

    fn arm_file(&self) -> Result<bool> {
        self.own.queue.arm_at(self.awaited())
    }

    /// Returns the position of the notification that ends the next sleep.
    fn awaited(&self) -> QueueWait {
        self.armed.get().unwrap_or_else(|| self.own.queue.awaited())
    }

    fn file(&self) -> Result<OwnedFd> {
        let file = self.own.queue.file()?.as_fd().try_clone_to_owned();
        file.map_err(Error::system("have a queue's file once more"))
    }

    /// Fails if the card has refused a request of the terminus since the start. It refuses none of
    /// a channel's, so that the terminus is of no use to any.
    fn check(&self) -> Result<()> {
        if self.terminus.inner.refused() == self.refused {
            return Ok(());
        }
        Err(RefusedError { request: self.last.get(), reason: None }.into())
    }

    /// Waits until the card has completed some requests, for at most `limit`.
    fn wait_progress(&self, limit: Duration) -> Result<()> {
        match self.terminus.wait_progress_timeout(limit) {
            Err(error) if error.is_timed_out() => Ok(()),
            waited => waited,
        }
    }

    fn finish(&self, limit: Option<Duration>) -> Result<()> {
        self.terminus.wait_completed_within(self.last.get(), limit)?;
        self.check()
    }
}

/// A receiver's reports, as far as they have arrived.
#[derive(Debug, Default)]
struct Reports {
    released: u64,
    /// Number of messages that have arrived without a gap, modulo 2^32.
    arrived: u32,
    has_left: bool,
}

/// The sending half. It sends messages, and receives reports.
#[derive(Debug)]
pub(super) struct SendingHalf {
    half: Half,
    buffer: SendBuffer,
    mirror: RingMemory,
    reports: RefCell<Reports>,
    /// Length of the longest message in fast mode.
    longest_fast: u64,
    /// Number of messages sent, modulo 2^32; and the position that they end at.
    posted: Cell<u32>,
    written: Cell<u64>,
}

impl SendingHalf {
    pub(super) fn new(half: Half, buffer: SendBuffer, mirror: RingMemory) -> Self {
        let longest_fast = LONGEST.min(half.terminus.packet_size().into());
        let (reports, posted, written) = Default::default();
        Self { half, buffer, mirror, reports, longest_fast, posted, written }
    }

    fn take_reports(&self) {
        self.half.take_notifications(|notification| {
            let mut reports = self.reports.borrow_mut();
            let report = notification.and_then(|notification| match notification.arrival {
                Arrival::Fast(word) => ToSender::decode(word, reports.released, reports.arrived),
                Arrival::Metadata(_) => None,
            });
            match report {
                Some(ToSender::Released(position)) => reports.released = position,
                Some(ToSender::Arrived(number)) => reports.arrived = number,
                Some(ToSender::Left) => reports.has_left = true,
                // The writer reports a position that no ring has as nonsense.
                None => reports.released = u64::MAX,
            }
        });
    }

    /// Returns whether the receiver and the card have room for a post.
    fn has_room(&self) -> bool {
        let is_free = || {
            let under_way = self.posted.get().wrapping_sub(self.reports.borrow().arrived);
            under_way <= MESSAGES - POST
        };
        if !is_free() {
            self.take_reports();
        }
        is_free() && self.half.terminus.inner.has_room(POST)
    }

    /// Deposits the mirror's bytes of this range into the receiver's ring. They end at position
    /// `end`.
    fn deposit(&self, range: &Range<u64>, end: u64) -> Result<()> {
        let (half, length) = (&self.half, range.end - range.start);
        let number = self.posted.replace(self.posted.get().wrapping_add(1));
        let offset = range.start as u32;
        let is_fast = length <= self.longest_fast;
        let word = || ToReceiver::Filled { end, length }.encode();
        if is_fast && length <= HAMLYN_BODY_SIZE.into() {
            let head = HamlynRequest { offset, length: length as u32, delta: word(), ..half.fast };
            let data = self.mirror.data(Span { at: range.start, length, end });
            let request = Request::raw(head, Body::Cells(data));
            return half.send(PATIENCE, || half.terminus.try_post_unwatched(&request));
        }
        let piece = self.buffer.piece(PAGE + range.start as usize, length as usize)?;
        let send = |message: Message<'_>| {
            half.send(PATIENCE, || half.terminus.try_send_unwatched(&message.offset(offset), piece.into()))
        };
        if is_fast {
            return send(Message::to(&half.peer).word(word()));
        }
        let entry = Ticket { metadata_index: number % MESSAGES, ..half.peer };
        let metadata = [end.to_le_bytes(), length.to_le_bytes()].concat();
        send(Message::to(&entry).metadata(&metadata))
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
            return self.half.send_last(ToReceiver::Ended { at: self.written.get(), how: value }.encode());
        }
        self.written.set(value);
        let [first, second] = pieces;
        if !first.is_empty() {
            self.deposit(first, value - (second.end - second.start))?;
        }
        if second.is_empty() { Ok(()) } else { self.deposit(second, value) }
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
            if !self.half.terminus.inner.has_room(POST) {
                self.half.wait_progress(left)?;
            } else {
                self.half.sleep(left)?;
            }
        }
    }

    fn ring(&self, _word: Word, limit: Duration) -> Result<bool> {
        self.half.ring(ToReceiver::Ended { at: 0, how: 1 }.encode(), limit)
    }

    fn arm(&self) -> Result<()> {
        self.half.arm();
        Ok(())
    }

    fn arm_file(&self) -> Result<bool> {
        self.half.arm_file()
    }

    fn file(&self) -> Result<OwnedFd> {
        self.half.file()
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
    /// Number of messages that were reported as arrived, modulo 2^32.
    reported: Cell<u32>,
    /// Released position that there was no room to report.
    owed: Cell<Option<u64>>,
}

impl ReceivingHalf {
    pub(super) fn new(half: Half, capacity: u64) -> Self {
        let filled = RefCell::new(Filled::new(capacity, MESSAGES));
        Self { half, filled, reported: Cell::new(0), owed: Cell::new(None) }
    }

    fn take_messages(&self) {
        self.half.take_notifications(|notification| {
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

    fn report_is_due(&self) -> bool {
        self.filled.borrow().messages().wrapping_sub(self.reported.get()) >= REPORT
    }

    /// Sends the reports that are due, as far as there is room in the work queue. The peer waits
    /// for them, so a later call sends the rest.
    fn report(&self) -> Result<()> {
        if let Some(position) = self.owed.get() {
            self.half.try_send_word(ToSender::Released(position).encode())?;
            self.owed.set(None);
        }
        if self.report_is_due() {
            let arrived = self.filled.borrow().messages();
            self.half.try_send_word(ToSender::Arrived(arrived).encode())?;
            self.reported.set(arrived);
        }
        Ok(())
    }

    /// Returns whether there are reports to send.
    fn owes(&self) -> bool {
        self.owed.get().is_some() || self.report_is_due()
    }

    /// Sends the reports that are due. Having no room for them now is not an error.
    #[inline]
    fn try_report(&self) -> Result<()> {
        if !self.owes() {
            return Ok(());
        }
        match self.report() {
            Err(error) if error.is_would_block() => Ok(()),
            reported => reported,
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
        if word == Word::Left {
            return self.half.send_last(ToSender::Left.encode());
        }
        self.owed.set(Some(value));
        self.try_report()?;
        self.half.check()
    }

    fn load(&self, word: Word) -> u64 {
        if word == Word::Ended {
            // The notification of the end is taken with those of messages.
            return self.filled.borrow().end();
        }
        self.take_messages();
        // The next call that posts or sleeps reports a failure.
        let _ = self.try_report();
        self.filled.borrow().until()
    }

    fn has_news(&self, written: u64) -> bool {
        if !self.half.own.queue.has_nothing() {
            return true;
        }
        let filled = self.filled.borrow();
        filled.until() != written || filled.end() != 0 || self.owes()
    }

    fn ring(&self, _word: Word, limit: Duration) -> Result<bool> {
        self.half.ring(ToSender::Released(0).encode(), limit)
    }

    fn arm(&self) -> Result<()> {
        self.half.arm();
        self.try_report()
    }

    fn wait_for_room(&self, limit: Option<Duration>) -> Result<bool> {
        if self.owes() && limit != Some(Duration::ZERO) {
            self.half.wait_progress(limit.unwrap_or(PATIENCE))?;
            self.try_report()?;
        }
        Ok(!self.owes())
    }

    fn arm_file(&self) -> Result<bool> {
        self.half.arm_file()
    }

    fn file(&self) -> Result<OwnedFd> {
        self.half.file()
    }

    fn check(&self) -> Result<()> {
        self.half.check()
    }

    fn finish(&self, limit: Option<Duration>) -> Result<()> {
        self.half.finish(limit)
    }
}
