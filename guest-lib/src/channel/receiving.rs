//! The receiving half, on any ground.

use std::os::fd::BorrowedFd;
use std::sync::atomic::AtomicU8;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::ground::{Common, END_LIMIT, Ground};
use super::sending::CLOSED;
use super::waiting::Waiting;
use crate::core::express::ring::{Nonsense, Reader, Span};
use crate::core::loss::PeerLoss;
use crate::core::polling::Polling;
use crate::core::waiting::Deadline;
use crate::error::{Error, Result};

/// The next message, if there is one; the inner `None` if the peer has closed.
type Next = Result<Option<Option<Span>>>;

/// The receiving half.
#[derive(Debug)]
pub(super) struct Receiving<G: Ground> {
    ring: Reader<G>,
    waiting: Waiting,
    /// What [`Receiving::arm`] has found, for the next call that looks.
    ahead: Option<Result<Option<Span>>>,
    /// How the peer has ended, once that was reported; the inner `None` if it closed. Nothing
    /// follows it, whatever the peer stores later.
    end: OnceLock<Option<PeerLoss>>,
    common: Arc<Common>,
}

impl<G: Ground> Receiving<G> {
    pub(super) fn new(common: &Arc<Common>, ground: G, capacity: u64) -> Self {
        let ring = match G::IS_SHARED {
            true => Reader::new(ground, capacity),
            false => Reader::by_quarters(ground, capacity),
        };
        let (waiting, end) = (Waiting::default(), OnceLock::new());
        Self { ring, waiting, ahead: None, end, common: common.clone() }
    }

    pub(super) fn set_polling(&mut self, polling: Polling) {
        self.waiting.poller.set(polling);
    }

    /// Returns the next message, if it is already known to exist.
    #[inline(always)]
    pub(super) fn next_known(&mut self) -> Option<Span> {
        if self.ahead.is_some() { None } else { self.ring.receive_known() }
    }

    #[inline(always)]
    pub(super) fn next(&mut self) -> Next {
        if let Some(ahead) = self.ahead.take() {
            return ahead.map(Some);
        }
        if let Some(end) = self.end.get() {
            return end.map_or(Ok(Some(None)), |loss| Err(Error::PeerLost(loss)));
        }
        match self.with(Reader::receive)? {
            Some(span) => Ok(Some(Some(span))),
            None if self.ring.may_have_ended() => self.ended(),
            // Without credit, the peer sends nothing more.
            None => match self.ring.shared().failure() {
                Some(error) => Err(self.why(error)),
                None => Ok(None),
            },
        }
    }

    /// Returns the next message for a non-blocking call that has found none. If the peer is lost by
    /// now, its last messages come first.
    pub(super) fn next_or_loss(&mut self) -> Next {
        let Err(lost) = self.common.check(Common::grace::<G>()) else { return Ok(None) };
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
            self.announce_sleep()?;
            if let Some(next) = self.next()? {
                asleep.found();
                return Ok(next);
            }
            if let Some(next) = self.next_or_loss()? {
                return Ok(next);
            }
            let left = deadline.check("message in the channel")?;
            let slept = self.waiting.sleep(self.ring.shared(), &self.common.watch, left);
            slept.map_err(|error| self.why(error))?;
            // Arming may take a round trip to the card: not with a message there.
            if let Some(next) = self.next()? {
                asleep.found();
                return Ok(next);
            }
        }
    }

    /// Makes the half's file readable once there is a message, or the channel has ended. Returns
    /// whether that is already the case.
    pub(super) fn arm(&mut self) -> Result<bool> {
        let (poller, came) = (self.waiting.poller.clone(), std::mem::take(&mut self.waiting.came));
        if poller.poll_before_arming(came, || self.look_ahead(Self::next)) {
            return Ok(true);
        }
        self.announce_sleep()?;
        if self.look_ahead(Self::next) || self.look_ahead(Self::next_or_loss) {
            return Ok(true);
        }
        let armed = self.waiting.arm_file(self.ring.shared(), &self.common.watch);
        armed.map_err(|error| self.why(error))
    }

    /// Arms the card, and tells the peer that this end sleeps. The caller looks once more.
    fn announce_sleep(&mut self) -> Result<()> {
        self.ring.shared().arm().map_err(|error| self.why(error))?;
        // Without shared memory, the peer's card wakes this end.
        if G::IS_SHARED && self.end.get().is_none() {
            self.with(Reader::sleep)?;
        }
        Ok(())
    }

    /// Returns whether there is a message, an end or an error. Keeps it for the next call.
    fn look_ahead(&mut self, look: impl FnOnce(&mut Self) -> Next) -> bool {
        let found = look(self).transpose();
        self.waiting.came |= found.is_some();
        self.ahead = found;
        self.ahead.is_some()
    }

    /// Returns whether something may have changed since the last look. Cheap.
    #[inline]
    pub(super) fn has_news(&self) -> bool {
        self.ahead.is_some() || self.ring.has_news()
    }

    pub(super) fn host(&self) -> u32 {
        self.common.watch.host()
    }

    pub(super) fn peer_ended(&self) -> bool {
        self.common.loss().is_some()
    }

    pub(super) fn file(&mut self) -> Result<BorrowedFd<'_>> {
        self.waiting.file(self.ring.shared())
    }

    #[inline(always)]
    pub(super) fn data(&self, span: Span) -> &[AtomicU8] {
        self.ring.shared().data(span)
    }

    /// Fails if what was loaded until now may have come from memory that has replaced the ring's,
    /// after a reset of the card.
    #[inline(always)]
    pub(super) fn confirm(&self) -> Result<()> {
        if G::IS_SHARED && self.ring.shared().is_gone() { self.doubt() } else { Ok(()) }
    }

    /// An area goes after the connection. If the connection still exists, it is the peer that marks
    /// the area as gone.
    #[cold]
    fn doubt(&self) -> Result<()> {
        self.common.loss().map_or(Ok(()), |loss| Err(self.lose(Error::PeerLost(loss))))
    }

    /// Releases a message. If the credit cannot be returned, a later call that finds no message
    /// fails.
    #[inline(always)]
    pub(super) fn release(&mut self, span: Span) {
        self.ring.release(span.end);
        self.wake();
    }

    #[cold]
    fn ended(&mut self) -> Next {
        let Some(how) = self.with(Reader::ended)? else { return Ok(None) };
        let _ = self.end.set((how != CLOSED).then_some(PeerLoss::Abandoned));
        self.next()
    }

    /// Returns why the card has failed, and records a loss for good.
    #[cold]
    fn why(&self, error: Error) -> Error {
        self.lose(self.common.why(error))
    }

    /// Records a loss for good, and returns the error.
    #[cold]
    fn lose(&self, error: Error) -> Error {
        if let Error::PeerLost(loss) = error {
            let _ = self.end.set(Some(loss));
            self.ring.stop();
        }
        error
    }

    #[inline(always)]
    fn with<T>(&mut self, look: impl FnOnce(&mut Reader<G>) -> Result<T, Nonsense>) -> Result<T> {
        let found = look(&mut self.ring);
        self.wake();
        // This host's own area goes only after the connection.
        found.map_err(|nonsense| self.lose(self.common.blame::<G>(false, nonsense)))
    }

    /// Wakes the peer if it sleeps. Returns whether it did.
    #[inline(always)]
    fn wake(&mut self) -> bool {
        let is_due = self.ring.bell_is_due();
        if is_due {
            self.ring.take_bell();
            self.ring.shared().wake();
        }
        is_due
    }
}

impl<G: Ground> Drop for Receiving<G> {
    fn drop(&mut self) {
        // A sender that has closed waits for this, too.
        let mut has_woken = false;
        if !matches!(self.end.get(), Some(Some(_))) && self.common.may_tell() {
            self.ring.leave();
            has_woken = self.wake();
        }
        if has_woken || !G::IS_SHARED {
            let _ = self.ring.shared().finish(Some(END_LIMIT));
        }
    }
}
