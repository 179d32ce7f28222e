//! A ring in the receiver's memory that the sender's card writes to: the channel without express
//! memory, on every model of cards.
//!
//! Each half has an *area* that the peer's card stores to, and a *mirror*: a copy of the peer's
//! area that its own card sends from. A message is built in the mirror, at the offset where it will
//! lie in the peer's area. Both have the layout of an express-memory area, a page of words and the
//! ring ([`RingMemory`]). The same code allocates space, validates the peer's words and counts
//! credit ([`Writer`], [`Reader`]). Two things differ from shared memory:
//!
//! - **A store is a packet.** The receiver returns credit only when a quarter of the ring is free
//!   again.
//! - **The card wakes the sleeper.** No word records that the peer sleeps: the receiver's card
//!   raises an interrupt on arrival.
//!
//! A sender may reuse its mirror as soon as it has credit: received data has left the mirror.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::atomic::AtomicU8;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use super::files::Files;
use crate::core::express::ring::{Nonsense, Reader, Shared, Span, Word, Writer};
use crate::core::loss::PeerLoss;
use crate::core::polling::{Poller, Polling};
use crate::core::remote::Remote;
use crate::core::waiting::Deadline;
use crate::core::watch::{GRACE, Watch};
use crate::error::{Error, Result};

/// Longest wait for room at the card between two checks of the connection.
const SLICE: Duration = Duration::from_millis(100);
/// Pause of an event loop whose half waits for room at its card: no file reports that.
const PAUSE: Duration = Duration::from_millis(1);
/// How long to wait for the connection's end when a card reports that the peer's memory is gone,
/// and the pause between two checks.
const END_LIMIT: Duration = Duration::from_secs(1);
const END_PAUSE: Duration = Duration::from_millis(5);
/// How a sender ended.
const CLOSED: u64 = 1;
const ABANDONED: u64 = 2;

/// State shared by both halves of a channel.
#[derive(Debug)]
pub(super) struct Common {
    watch: Watch,
    /// Invalid value that the peer has stored. Neither half continues after it.
    broken: OnceLock<Nonsense>,
}

impl Common {
    pub(super) fn new(watch: Watch) -> Arc<Self> {
        Arc::new(Self { watch, broken: OnceLock::new() })
    }

    /// Fails if the peer has been known to be lost for `grace`.
    fn check(&self, grace: Duration) -> Result<()> {
        match (self.broken.get(), self.watch.loss(grace)) {
            (Some(nonsense), _) => Err((*nonsense).into()),
            (None, Some(loss)) => Err(Error::PeerLost(loss)),
            (None, None) => Ok(()),
        }
    }

    /// Returns the error for a peer that has stored nonsense. Ends the connection, and tells the
    /// peer why.
    fn blame(&self, nonsense: Nonsense) -> Error {
        if self.broken.set(nonsense).is_ok() {
            self.watch.blame();
        }
        nonsense.into()
    }

    /// Returns why a card could not store to the peer's memory: the reason of the connection's end,
    /// if it ends within a second.
    #[cold]
    fn why(&self, error: Error) -> Error {
        let begun = Instant::now();
        loop {
            if self.watch.grace().is_some() {
                return Error::PeerLost(self.watch.loss(Duration::ZERO).unwrap_or(PeerLoss::Gone));
            }
            if begun.elapsed() >= END_LIMIT {
                return error;
            }
            std::thread::sleep(END_PAUSE);
        }
    }
}

/// Memory that a half can access, as the ring's code needs it.
#[derive(Debug)]
struct Reached {
    remote: Box<dyn Remote>,
    capacity: u64,
    /// Position up to which the mirror's ring was sent.
    posted: Cell<u64>,
    /// Error of a store, until it is reported.
    failed: RefCell<Option<Error>>,
}

impl Reached {
    fn new(remote: Box<dyn Remote>, capacity: u64) -> Self {
        Self { remote, capacity, posted: Cell::new(0), failed: RefCell::new(None) }
    }

    fn post(&self, pieces: &[Range<u64>; 2], word: Word, value: u64) {
        let mut failed = self.failed.borrow_mut();
        if failed.is_none() {
            *failed = self.remote.post(pieces, word, value).err();
        }
    }

    /// Fails with the error of a failed store, and then as for a peer that is gone. No stores are
    /// made after that.
    fn check(&self) -> Result<()> {
        let mut failed = self.failed.borrow_mut();
        if failed.is_none() {
            *failed = self.remote.check().err();
        }
        match failed.as_mut() {
            Some(error) => Err(std::mem::replace(error, Error::PeerLost(PeerLoss::Gone))),
            None => Ok(()),
        }
    }

    /// Returns the error of a failed store, if there was one.
    fn failure(&self) -> Option<Error> {
        let mut failed = self.failed.borrow_mut();
        failed.as_mut().map(|error| std::mem::replace(error, Error::PeerLost(PeerLoss::Gone)))
    }

    /// Returns the ring's bytes between two positions: one piece, or two if they wrap around.
    fn pieces(&self, from: u64, to: u64) -> [Range<u64>; 2] {
        let (start, length) = (from % self.capacity, to - from);
        let first = length.min(self.capacity - start);
        [start..start + first, 0..length - first]
    }
}

impl Shared for Reached {
    #[inline]
    fn load(&self, word: Word) -> u64 {
        match word {
            // The card wakes the sleeper.
            Word::ReaderSleeps | Word::WriterSleeps => 0,
            word => self.remote.load(word),
        }
    }

    fn store(&self, word: Word, value: u64) {
        match word {
            Word::ReaderSleeps | Word::WriterSleeps => {}
            Word::Written => self.post(&self.pieces(self.posted.replace(value), value), word, value),
            word => self.post(&[0..0, 0..0], word, value),
        }
    }

    fn take(&self, _word: Word) {}

    /// Each word has one writer, and the card keeps stores in order.
    fn barrier(&self) {}

    #[inline]
    fn header(&self, at: u64) -> u64 {
        self.remote.area().header(at)
    }

    #[inline]
    fn set_header(&self, at: u64, value: u64) {
        self.remote.mirror().set_header(at, value);
    }

    #[inline]
    fn has_news(&self, written: u64) -> bool {
        self.remote.has_news(written)
    }
}

/// How one half waits.
#[derive(Debug, Default)]
struct Waiting {
    poller: Arc<Poller>,
    /// Opened for the first sleep.
    files: Option<Files>,
    /// Something has come since the last call of `arm`.
    came: bool,
}

impl Waiting {
    fn files(&mut self, remote: &dyn Remote) -> Result<&mut Files> {
        let files = match self.files.take() {
            Some(files) => files,
            None => Files::open(remote)?,
        };
        Ok(self.files.insert(files))
    }

    /// Sleeps until something has arrived since the half was armed, the connection ends or the card
    /// makes room that the half waits for. May return early.
    fn sleep(&mut self, remote: &dyn Remote, watch: &Watch, left: Option<Duration>) -> Result<()> {
        if !remote.wait_for_room(Some(Duration::ZERO))? {
            let limit = left.map_or(SLICE, |left| left.min(SLICE));
            return remote.wait_for_room(Some(limit)).map(drop);
        }
        if !remote.arm_file()? {
            self.files(remote)?.sleep(watch, left)?;
        }
        Ok(())
    }

    /// Prepares the half's file for an event loop's sleep. Returns whether the loop has to look
    /// again at once.
    fn arm_file(&mut self, remote: &dyn Remote, watch: &Watch) -> Result<bool> {
        let has_room = remote.wait_for_room(Some(Duration::ZERO))?;
        if remote.arm_file()? {
            return Ok(true);
        }
        let files = self.files(remote)?;
        if files.sleep(watch, Some(Duration::ZERO))? {
            return Ok(true);
        }
        files.arm(watch, (!has_room).then_some(PAUSE))?;
        Ok(false)
    }
}

/// The sending half.
#[derive(Debug)]
pub(super) struct Sender {
    ring: Writer<Reached>,
    waiting: Waiting,
    closed: bool,
    common: Arc<Common>,
}

impl Sender {
    /// `capacity` is the size of the peer's ring and of the mirror's.
    pub(super) fn new(common: &Arc<Common>, remote: Box<dyn Remote>, capacity: u64) -> Self {
        let ring = Writer::new(Reached::new(remote, capacity), capacity);
        Self { ring, waiting: Waiting::default(), closed: false, common: common.clone() }
    }

    pub(super) fn set_polling(&mut self, polling: Polling) {
        self.waiting.poller.set(polling);
    }

    /// Reserves space for a message of at most [`Sender::longest`] bytes, if there is any.
    pub(super) fn reserve(&mut self, length: u64) -> Result<Option<Span>> {
        if self.closed {
            return Err(Error::Closed("the channel"));
        }
        self.check_stores()?;
        let room = if self.ring.shared().remote.wait_for_room(Some(Duration::ZERO))? {
            self.with(|ring| ring.reserve(length))?
        } else {
            // The peer's words are checked here, too: it may have left, or stored nonsense.
            self.with(Writer::behind)?;
            None
        };
        match room {
            None if self.ring.reader_has_left() => Err(Error::PeerLost(PeerLoss::Abandoned)),
            None => self.common.check(Duration::ZERO).map(|()| None),
            found => Ok(found),
        }
    }

    pub(super) fn wait(&mut self, length: u64, timeout: Option<Duration>) -> Result<Span> {
        // Mostly there is room, and no need for the clock.
        if let Some(found) = self.reserve(length)? {
            return Ok(found);
        }
        let (poller, deadline) = (self.waiting.poller.clone(), Deadline::new(timeout));
        let asleep = match poller.poll(timeout, || self.reserve(length).transpose()) {
            Ok(found) => return found,
            Err(asleep) => asleep,
        };
        let common = self.common.clone();
        loop {
            self.ring.shared().remote.arm()?;
            if let Some(found) = self.reserve(length)? {
                asleep.found();
                return Ok(found);
            }
            common.check(Duration::ZERO)?;
            let left = deadline.check("room in the channel")?;
            self.waiting.sleep(&*self.ring.shared().remote, &common.watch, left)?;
        }
    }

    /// Makes the half's file readable once there is room for a message of this length, or the
    /// channel has ended. Returns whether that is already the case.
    pub(super) fn arm(&mut self, length: u64) -> Result<bool> {
        let (poller, came) = (self.waiting.poller.clone(), std::mem::take(&mut self.waiting.came));
        if poller.poll_before_arming(came, || self.has_room(length)) {
            return Ok(true);
        }
        self.ring.shared().remote.arm()?;
        if self.has_room(length) {
            return Ok(true);
        }
        self.waiting.arm_file(&*self.ring.shared().remote, &self.common.watch)
    }

    /// Returns whether [`Sender::reserve`] would not return `None`.
    fn has_room(&mut self, length: u64) -> bool {
        let has_room = !matches!(self.reserve(length), Ok(None));
        self.waiting.came |= has_room;
        has_room
    }

    pub(super) fn file(&mut self) -> Result<BorrowedFd<'_>> {
        self.waiting.files(&*self.ring.shared().remote)?.file()
    }

    pub(super) fn data(&self, span: Span) -> &[AtomicU8] {
        self.ring.shared().remote.mirror().data(span)
    }

    pub(super) fn commit(&mut self, span: Span) -> Result<()> {
        self.ring.commit(span);
        self.check_stores()
    }

    pub(super) fn put(&mut self, span: Span) {
        self.ring.put(span);
    }

    pub(super) fn flush(&mut self) -> Result<()> {
        self.ring.flush();
        self.check_stores()
    }

    pub(super) fn behind(&mut self) -> Result<u64> {
        self.with(Writer::behind)
    }

    /// Closes the ring: the peer receives all messages, and then the end. A peer that has left need
    /// not be told.
    pub(super) fn close(&mut self, timeout: Option<Duration>) -> Result<()> {
        if !std::mem::replace(&mut self.closed, true) {
            self.ring.end(CLOSED);
            self.common.watch.finish();
            match self.check_stores() {
                Err(Error::PeerLost(PeerLoss::Abandoned)) => return Ok(()),
                checked => checked?,
            }
        }
        match self.ring.shared().remote.finish(timeout) {
            // The peer has received the end, or does not want the rest, and its memory is gone.
            Err(_) if self.ring.reader_has_left() => Ok(()),
            finished => finished,
        }
    }

    /// Fails if a store failed. The peer may have left and released its memory.
    fn check_stores(&mut self) -> Result<()> {
        let Err(error) = self.ring.shared().check() else { return Ok(()) };
        if self.ring.reader_has_left() {
            return Err(Error::PeerLost(PeerLoss::Abandoned));
        }
        let why = self.common.why(error);
        Err(if self.ring.reader_has_left() { Error::PeerLost(PeerLoss::Abandoned) } else { why })
    }

    fn with<T>(&mut self, look: impl FnOnce(&mut Writer<Reached>) -> Result<T, Nonsense>) -> Result<T> {
        look(&mut self.ring).map_err(|nonsense| self.common.blame(nonsense))
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        if !self.closed && self.common.broken.get().is_none() {
            self.ring.end(ABANDONED);
        }
        // Data that has not left by then is lost with this end's memory.
        let _ = self.ring.shared().remote.finish(Some(END_LIMIT));
    }
}

/// The receiving half.
#[derive(Debug)]
pub(super) struct Receiver {
    ring: Reader<Reached>,
    waiting: Waiting,
    /// What [`Receiver::arm`] has found, for the next call that looks.
    ahead: Option<Result<Option<Span>>>,
    /// How the peer has ended, once that was reported; the inner `None` if it closed.
    end: Option<Option<PeerLoss>>,
    common: Arc<Common>,
}

impl Receiver {
    pub(super) fn new(common: &Arc<Common>, remote: Box<dyn Remote>, capacity: u64) -> Self {
        let ring = Reader::by_quarters(Reached::new(remote, capacity), capacity);
        Self { ring, waiting: Waiting::default(), ahead: None, end: None, common: common.clone() }
    }

    pub(super) fn set_polling(&mut self, polling: Polling) {
        self.waiting.poller.set(polling);
    }

    pub(super) fn next_known(&mut self) -> Option<Span> {
        if self.ahead.is_some() { None } else { self.ring.receive_known() }
    }

    /// Returns the next message, if there is one; the inner `None` if the peer has closed.
    pub(super) fn next(&mut self) -> Result<Option<Option<Span>>> {
        if let Some(ahead) = self.ahead.take() {
            return ahead.map(Some);
        }
        if let Some(end) = self.end {
            return end.map_or(Ok(Some(None)), |loss| Err(Error::PeerLost(loss)));
        }
        match self.with(Reader::receive)? {
            Some(span) => Ok(Some(Some(span))),
            None if self.ring.may_have_ended() => self.ended(),
            // Without credit, the peer sends nothing more.
            None => match self.ring.shared().failure() {
                Some(error) => {
                    let why = self.common.why(error);
                    Err(self.lose(why))
                }
                None => Ok(None),
            },
        }
    }

    /// Returns the next message for a non-blocking call that has found none. If the peer is lost by
    /// now, its last messages come first.
    pub(super) fn next_or_loss(&mut self) -> Result<Option<Option<Span>>> {
        let Err(lost) = self.common.check(GRACE) else { return Ok(None) };
        match self.next()? {
            None => Err(self.lose(lost)),
            next => Ok(next),
        }
    }

    pub(super) fn wait(&mut self, timeout: Option<Duration>) -> Result<Option<Span>> {
        if let Some(next) = self.next()? {
            return Ok(next);
        }
        let (poller, deadline) = (self.waiting.poller.clone(), Deadline::new(timeout));
        // Most looks check only for a change, which is cheaper than checking for a message. Changes
        // that bring none, such as skips or credit that cannot be returned, do not prolong this.
        let look = || if self.ring.has_news() { self.next().transpose() } else { None };
        let asleep = match poller.poll(timeout, look) {
            Ok(found) => return found,
            Err(asleep) => asleep,
        };
        loop {
            self.ring.shared().remote.arm()?;
            if let Some(next) = self.next()? {
                asleep.found();
                return Ok(next);
            }
            if let Some(next) = self.next_or_loss()? {
                return Ok(next);
            }
            let left = deadline.check("message in the channel")?;
            self.waiting.sleep(&*self.ring.shared().remote, &self.common.watch, left)?;
        }
    }

    /// Makes the half's file readable once there is a message, or the channel has ended. Returns
    /// whether that is already the case.
    pub(super) fn arm(&mut self) -> Result<bool> {
        let (poller, came) = (self.waiting.poller.clone(), std::mem::take(&mut self.waiting.came));
        if poller.poll_before_arming(came, || self.look_ahead(Self::next)) {
            return Ok(true);
        }
        self.ring.shared().remote.arm()?;
        if self.look_ahead(Self::next) || self.look_ahead(Self::next_or_loss) {
            return Ok(true);
        }
        self.waiting.arm_file(&*self.ring.shared().remote, &self.common.watch)
    }

    /// Returns whether there is a message, an end or an error. Keeps it for the next call.
    fn look_ahead(&mut self, look: impl FnOnce(&mut Self) -> Result<Option<Option<Span>>>) -> bool {
        let found = look(self).transpose();
        self.waiting.came |= found.is_some();
        self.ahead = found;
        self.ahead.is_some()
    }

    pub(super) fn file(&mut self) -> Result<BorrowedFd<'_>> {
        self.waiting.files(&*self.ring.shared().remote)?.file()
    }

    pub(super) fn data(&self, span: Span) -> &[AtomicU8] {
        self.ring.shared().remote.area().data(span)
    }

    /// Releases a message. If the credit cannot be returned, a later call that finds no message
    /// fails.
    pub(super) fn release(&mut self, span: Span) {
        self.ring.release(span.end);
    }

    fn ended(&mut self) -> Result<Option<Option<Span>>> {
        let Some(how) = self.with(Reader::ended)? else { return Ok(None) };
        let end = (how != CLOSED).then_some(PeerLoss::Abandoned);
        self.end = Some(end);
        if end.is_none() {
            self.common.watch.finish();
        }
        self.next()
    }

    fn lose(&mut self, error: Error) -> Error {
        if let Error::PeerLost(loss) = error {
            self.end = Some(Some(loss));
        }
        error
    }

    fn with<T>(&mut self, look: impl FnOnce(&mut Reader<Reached>) -> Result<T, Nonsense>) -> Result<T> {
        look(&mut self.ring).map_err(|nonsense| self.common.blame(nonsense))
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        // A sender that has closed waits for this, too.
        let is_lost = matches!(self.end, Some(Some(_)));
        if !is_lost && self.common.broken.get().is_none() {
            self.ring.leave();
        }
        let _ = self.ring.shared().remote.finish(Some(END_LIMIT));
    }
}
