//! The sending half, on any ground.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicU8;
use std::time::Duration;

use super::ground::{Common, END_LIMIT, Ground};
use super::waiting::{SLICE, Waiting};
use crate::core::express::ring::{Nonsense, Span, Writer};
use crate::core::loss::PeerLoss;
use crate::core::polling::Polling;
use crate::core::waiting::Deadline;
use crate::error::{Error, Result, at_most};

/// How a sender ended.
pub(super) const CLOSED: u64 = 1;
const ABANDONED: u64 = 2;

/// The sending half.
#[derive(Debug)]
pub(super) struct Sending<G: Ground> {
    ring: Writer<G>,
    waiting: Waiting,
    closed: bool,
    /// Position up to which everything is certain to arrive.
    delivered: u64,
    common: Arc<Common>,
}

impl<G: Ground> Sending<G> {
    pub(super) fn new(common: &Arc<Common>, ground: G, capacity: u64) -> Self {
        let ring = Writer::new(ground, capacity);
        Self { ring, waiting: Waiting::default(), closed: false, delivered: 0, common: common.clone() }
    }

    pub(super) fn set_polling(&mut self, polling: Polling) {
        self.waiting.poller.set(polling);
    }

    /// Reserves space, if it is already known to exist in shared memory.
    #[inline(always)]
    pub(super) fn reserve_known(&self, length: u64) -> Option<Span> {
        if G::IS_SHARED { self.ring.reserve_known(length) } else { None }
    }

    /// Reserves space for a message of at most half of the ring, if there is any.
    pub(super) fn reserve(&mut self, length: u64) -> Result<Option<Span>> {
        if self.closed {
            return Err(Error::Closed("the channel"));
        }
        self.common.is_whole()?;
        self.waiting.lacked_room = !self.ground().is_ready().map_err(|error| self.why(error))?;
        let room = if !self.waiting.lacked_room {
            self.with(|ring| ring.reserve(length))?
        } else {
            // The peer's words are checked here, too: it may have left, or stored nonsense.
            self.with(Writer::behind)?;
            None
        };
        match room {
            None if self.ring.reader_has_left() => Err(self.left()),
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
        loop {
            if self.announce_sleep(length)? {
                if let Some(found) = self.reserve(length)? {
                    asleep.found();
                    return Ok(found);
                }
            }
            self.common.check(Duration::ZERO)?;
            let left = deadline.check("room in the channel")?;
            let slept = self.waiting.sleep(self.ring.shared(), &self.common.watch, left);
            slept.map_err(|error| self.why(error))?;
            // Arming may take a round trip to the card: not with room there.
            if let Some(found) = self.reserve(length)? {
                asleep.found();
                return Ok(found);
            }
        }
    }

    /// Makes the half's file readable once there is room for a message of this length, or the
    /// channel has ended. Returns whether that is already the case.
    pub(super) fn arm(&mut self, length: u64) -> Result<bool> {
        let (poller, came) = (self.waiting.poller.clone(), std::mem::take(&mut self.waiting.came));
        if poller.poll_before_arming(came, || self.has_room(length)) || self.announce_sleep(length)? {
            return Ok(true);
        }
        let armed = self.waiting.arm_file(self.ring.shared(), &self.common.watch);
        armed.map_err(|error| self.why(error))
    }

    /// Arms the card, and tells the peer that this end sleeps. Returns whether it must not, since
    /// there may be room or the channel has ended.
    fn announce_sleep(&mut self, length: u64) -> Result<bool> {
        self.ground().arm().map_err(|error| self.why(error))?;
        // Without shared memory, the peer's card wakes this end.
        let may_sleep = !G::IS_SHARED || self.with(|ring| ring.sleep(length))?;
        Ok(!may_sleep || self.has_room(length))
    }

    pub(super) fn peer_has_left(&mut self) -> bool {
        self.ring.reader_has_left() || self.ground().is_gone()
    }

    /// Returns whether [`Sending::reserve`] would not return `None`.
    fn has_room(&mut self, length: u64) -> bool {
        let has_room = !matches!(self.reserve(length), Ok(None));
        self.waiting.came |= has_room;
        has_room
    }

    pub(super) fn file(&mut self) -> Result<BorrowedFd<'_>> {
        self.waiting.file(self.ring.shared())
    }

    #[inline(always)]
    pub(super) fn data(&self, span: Span) -> &[AtomicU8] {
        self.ground().data(span)
    }

    #[inline(always)]
    pub(super) fn commit(&mut self, span: Span) -> Result<()> {
        self.ring.commit(span);
        self.wake();
        match self.ground().failure() {
            Some(error) => Err(self.why(error)),
            None => Ok(()),
        }
    }

    #[inline(always)]
    pub(super) fn put(&mut self, span: Span) {
        self.ring.put(span);
    }

    /// Sends what was put. Waits until the card has room for that.
    pub(super) fn flush(&mut self, timeout: Option<Duration>) -> Result<()> {
        let deadline = Deadline::new(timeout);
        let needs_card = !G::IS_SHARED && !self.ring.is_flushed();
        while needs_card && !self.card_has_room(Duration::ZERO)? {
            self.common.check(Duration::ZERO)?;
            let left = deadline.check("room at the card")?;
            self.card_has_room(left.map_or(SLICE, |left| left.min(SLICE)))?;
        }
        self.ring.flush();
        self.wake();
        self.check_stores()
    }

    pub(super) fn behind(&mut self) -> Result<u64> {
        self.with(Writer::behind)
    }

    /// Returns the position up to which messages were sent.
    pub(super) fn sent(&self) -> u64 {
        self.ring.sent()
    }

    /// Blocks until the peer has received everything up to a position, or will receive it even if
    /// this process ends.
    pub(super) fn delivered(&mut self, position: u64, timeout: Option<Duration>) -> Result<()> {
        let sent = self.sent();
        at_most("position in the channel", position, sent)?;
        if self.with(Writer::received)? >= position {
            return Ok(());
        }
        if self.ring.reader_has_left() || self.ground().is_gone() {
            return Err(self.left());
        }
        // Shared memory is the receiver's own.
        if !G::IS_SHARED && self.delivered < position {
            self.ground()
                .finish(timeout)
                .map_err(|error| if error.is_timed_out() { error } else { self.why(error) })?;
            self.delivered = sent;
        }
        self.check_stores()?;
        self.common.check(Duration::ZERO)
    }

    /// Closes the ring: the peer receives all messages, and then the end. A peer that has left need
    /// not be told.
    pub(super) fn close(&mut self, timeout: Option<Duration>) -> Result<()> {
        self.announce_end();
        match self.check_stores() {
            Err(Error::PeerLost(PeerLoss::Abandoned)) => return Ok(()),
            checked => checked?,
        }
        match self.ground().finish(timeout) {
            // The peer has received the end, or does not want the rest, and its memory is gone.
            Err(_) if self.ring.reader_has_left() => Ok(()),
            finished => finished,
        }
    }

    /// Ends the ring, without a wait.
    pub(super) fn announce_end(&mut self) {
        if !std::mem::replace(&mut self.closed, true) {
            self.ring.end(CLOSED);
            self.wake();
        }
    }

    /// Waits until nothing has to wait for the card. Returns whether that is the case.
    fn card_has_room(&mut self, limit: Duration) -> Result<bool> {
        self.ground().wait_for_room(Some(limit)).map_err(|error| self.why(error))
    }

    /// Fails if a store failed. The peer may have left and released its memory.
    #[inline]
    fn check_stores(&mut self) -> Result<()> {
        self.ground().check().map_err(|error| self.why(error))
    }

    #[cold]
    fn why(&mut self, error: Error) -> Error {
        if self.ring.reader_has_left() {
            return Error::PeerLost(PeerLoss::Abandoned);
        }
        let why = self.common.why(error);
        if self.ring.reader_has_left() { Error::PeerLost(PeerLoss::Abandoned) } else { why }
    }

    /// Returns how the reader has ended. If the ring's memory was replaced, the peer has not stored
    /// the word that says so.
    #[cold]
    fn left(&self) -> Error {
        Error::PeerLost(match self.ground().is_gone() {
            true => self.common.loss().unwrap_or(PeerLoss::Gone),
            false => PeerLoss::Abandoned,
        })
    }

    #[inline(always)]
    fn with<T>(&mut self, look: impl FnOnce(&mut Writer<G>) -> Result<T, Nonsense>) -> Result<T> {
        let found = look(&mut self.ring);
        self.wake();
        found.map_err(|nonsense| self.common.blame::<G>(self.ground().is_gone(), nonsense))
    }

    /// Wakes the peer if it sleeps. Returns whether it did.
    #[inline(always)]
    fn wake(&mut self) -> bool {
        let is_due = self.ring.bell_is_due();
        if is_due {
            self.ring.take_bell();
            self.ground().wake();
        }
        is_due
    }

    #[inline(always)]
    fn ground(&self) -> &G {
        self.ring.shared()
    }
}

impl<G: Ground> Drop for Sending<G> {
    fn drop(&mut self) {
        let mut has_woken = false;
        if !self.closed && self.common.may_tell() {
            self.ring.end(ABANDONED);
            has_woken = self.wake();
        }
        // Data that has not left by then is lost with this end's memory.
        if has_woken || !G::IS_SHARED {
            let _ = self.ground().finish(Some(END_LIMIT));
        }
    }
}
