//! The two ends of a channel over express memory.

use std::sync::atomic::AtomicU8;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::bell::{Bell, Ear, Half};
use crate::core::express::memory::RingMemory;
use crate::core::express::pages::{ExpressArea, ExpressView};
use crate::core::express::ring::{Nonsense, Reader, Span, Writer};
use crate::core::loss::PeerLoss;
use crate::core::polling::{Poller, Polling};
use crate::core::waiting::Deadline;
use crate::core::watch::Watch;
use crate::error::{Error, Result};
use crate::hamlyn::attach::Attachment;
use crate::hamlyn::manager::{Look, Manager, Pause};

/// How often a sleeping end asks the operating system whether the peer still exists.
const LIMIT: Duration = Duration::from_secs(1);
const PAUSE: Pause = Pause { limit: Some(LIMIT), for_card: false };
/// How a sender ends.
const CLOSED: u64 = 1;
const ABANDONED: u64 = 2;

/// State shared by both ends of a channel. Fields are dropped in this order: the peer learns that
/// the connection has ended before its pages go.
#[derive(Debug)]
pub(super) struct Ground {
    pub(super) watch: Watch,
    pub(super) _area: ExpressArea<dyn Attachment>,
    pub(super) _view: ExpressView<dyn Attachment>,
    /// The ring in the view.
    pub(super) there: RingMemory,
    /// Set if the peer has stored invalid data; then neither half continues.
    pub(super) broken: OnceLock<Nonsense>,
    pub(super) ear: Arc<Ear>,
    pub(super) manager: Manager,
}

impl Ground {
    /// Fails if the connection has ended, as far as is known. If `asks`, queries the operating
    /// system. Without `asks`, it still detects that the peer's memory is gone, and queries then.
    /// That covers most ends, and does not cost every caller that falls asleep a system call.
    fn check(&self, asks: bool) -> Result<()> {
        self.is_whole()?;
        self.loss(asks || !self.there.is_made()).map_or(Ok(()), |loss| Err(Error::PeerLost(loss)))
    }

    fn loss(&self, asks: bool) -> Option<PeerLoss> {
        if asks {
            let _ = self.watch.grace();
        }
        self.watch.loss(Duration::ZERO)
    }

    /// Fails if either half found that the peer has stored invalid data.
    fn is_whole(&self) -> Result<()> {
        self.broken.get().map_or(Ok(()), |nonsense| Err((*nonsense).into()))
    }

    /// Returns why a ring is not valid. The peer's area may be gone, and the page that is shown in
    /// its place is not a valid ring. This host's own area goes only after the connection. In all
    /// other cases the connection ends with this error, and the peer gets the reason.
    #[cold]
    fn why(&self, is_own: bool, nonsense: Nonsense) -> Error {
        match self.check(true) {
            Err(error) => error,
            Ok(()) if is_own || self.there.is_made() => {
                if self.broken.set(nonsense).is_ok() {
                    self.watch.blame();
                }
                nonsense.into()
            }
            Ok(()) => Error::PeerLost(PeerLoss::Gone),
        }
    }
}

/// Result of a look; `None` means nothing for now.
type Found<T> = Result<Option<T>>;

#[derive(Debug)]
pub(super) struct Sender {
    ring: Writer<RingMemory>,
    bell: Bell,
    poller: Arc<Poller>,
    closed: bool,
    ground: Arc<Ground>,
}

impl Sender {
    pub(super) fn new(ground: &Arc<Ground>, view: RingMemory, bell: Bell) -> Self {
        let capacity = view.capacity();
        let ring = Writer::new(view, capacity);
        Self { ring, bell, poller: Arc::default(), closed: false, ground: ground.clone() }
    }

    #[inline(always)]
    pub(super) fn longest(&self) -> u64 {
        self.ring.longest()
    }

    pub(super) fn capacity(&self) -> u64 {
        self.ring.shared().capacity()
    }

    pub(super) fn set_token(&mut self, token: u64) {
        self.ground.ear.set_token(Half::Sender, token);
    }

    pub(super) fn set_polling(&mut self, polling: Polling) {
        self.poller.set(polling);
    }

    /// Returns room for this number of bytes, if it is already known to exist.
    #[inline(always)]
    pub(super) fn reserve_known(&self, length: u64) -> Option<Span> {
        self.ring.reserve_known(length)
    }

    /// Returns room for this number of bytes, at most [`Sender::longest`].
    #[inline(always)]
    pub(super) fn reserve(&mut self, length: u64) -> Found<Span> {
        if self.closed {
            return Err(Error::Closed("the channel"));
        }
        self.ground.is_whole()?;
        match self.with(|ring| ring.reserve(length))? {
            None if self.ring.reader_has_left() => Err(self.left()),
            found => Ok(found),
        }
    }

    /// Returns why there is no reader. The indication may come from the page that is shown in place
    /// of an area that is gone, if this end has stored it there.
    #[cold]
    fn left(&self) -> Error {
        let loss = if self.ground.there.is_made() { None } else { self.ground.loss(true) };
        Error::PeerLost(loss.unwrap_or(PeerLoss::Abandoned))
    }

    pub(super) fn wait(&mut self, length: u64, timeout: Option<Duration>) -> Result<Span> {
        let (poller, deadline) = (self.poller.clone(), Deadline::new(timeout));
        let asleep = match poller.poll(timeout, || self.reserve(length).transpose()) {
            Ok(found) => return found,
            Err(asleep) => asleep,
        };
        let manager = self.ground.manager.clone();
        let mut has_slept = false;
        let found = manager.sleep_for("room in the channel", deadline, |about_to_sleep| {
            // An end that has announced its sleep has already looked once more.
            if about_to_sleep && !self.fall_asleep(length, std::mem::replace(&mut has_slept, true))? {
                return Ok(Look::Continue(PAUSE));
            }
            Ok(match self.reserve(length)? {
                Some(span) => Look::Break(span),
                None => {
                    self.ground.check(false)?;
                    Look::Continue(PAUSE)
                }
            })
        })?;
        asleep.found();
        Ok(found)
    }

    /// Arms the wake-up for when there is room. Returns true if there already is.
    pub(super) fn arm(&mut self, length: u64) -> Result<bool> {
        self.fall_asleep(length, true)
    }

    fn fall_asleep(&mut self, length: u64, asks: bool) -> Result<bool> {
        if self.closed {
            return Err(Error::Closed("the channel"));
        }
        self.ground.check(asks)?;
        Ok(!self.with(|ring| ring.sleep(length))?)
    }

    pub(super) fn check(&self) -> Result<()> {
        self.ground.check(false)
    }

    #[inline(always)]
    pub(super) fn data(&self, span: Span) -> &[AtomicU8] {
        self.ring.shared().data(span)
    }

    #[inline(always)]
    pub(super) fn commit(&mut self, span: Span) {
        self.ring.commit(span);
        self.ring_bell();
    }

    /// Notifies the peer of all messages that were put.
    #[inline]
    pub(super) fn tell(&mut self) {
        self.ring.flush();
        self.ring_bell();
    }

    /// Later calls change nothing.
    pub(super) fn close(&mut self) {
        if !std::mem::replace(&mut self.closed, true) {
            self.end(CLOSED);
            self.ground.watch.finish();
        }
    }

    /// Returns true if the peer may not have been woken, because there was no room for the ring.
    #[inline(always)]
    pub(super) fn owes_bell(&self) -> bool {
        self.bell.is_owed()
    }

    /// Waits until the peer has been woken, if it must be.
    #[cold]
    pub(super) fn flush(&mut self, timeout: Option<Duration>) -> Result<()> {
        let manager = self.ground.manager.clone();
        manager.wait_for("room to wake the peer", timeout, |_| {
            if !manager.owes() {
                return Ok(Look::Break(()));
            }
            self.ground.check(false)?;
            Ok(Look::Continue(Pause { limit: Some(LIMIT), for_card: true }))
        })?;
        self.bell.settle();
        Ok(())
    }

    fn end(&mut self, how: u64) {
        self.ring.end(how);
        self.ring_bell();
    }

    #[inline(always)]
    fn with<T>(&mut self, look: impl FnOnce(&mut Writer<RingMemory>) -> Result<T, Nonsense>) -> Result<T> {
        let found = look(&mut self.ring);
        self.ring_bell();
        found.map_err(|nonsense| self.ground.why(false, nonsense))
    }

    /// Wakes the peer if necessary.
    #[inline(always)]
    fn ring_bell(&mut self) {
        if self.ring.bell_is_due() {
            self.ring.take_bell();
            self.bell.ring();
        }
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        // An end that has ended the connection because of invalid data sends nothing that the peer
        // could see before that.
        if !self.closed && self.ground.is_whole().is_ok() {
            self.end(ABANDONED);
        }
    }
}

/// The peer's end as reported to the receiver; `None` if it has closed.
type End = Option<PeerLoss>;

fn told(end: End) -> Found<Option<Span>> {
    end.map_or(Ok(Some(None)), |loss| Err(Error::PeerLost(loss)))
}

#[derive(Debug)]
pub(super) struct Receiver {
    ring: Reader<RingMemory>,
    bell: Bell,
    poller: Arc<Poller>,
    /// How the peer has ended, once that was reported. Nothing follows it, whatever the peer stores
    /// later.
    end: OnceLock<End>,
    ground: Arc<Ground>,
}

impl Receiver {
    pub(super) fn new(ground: &Arc<Ground>, area: RingMemory, bell: Bell) -> Self {
        let capacity = area.capacity();
        let ring = Reader::new(area, capacity);
        Self { ring, bell, poller: Arc::default(), end: OnceLock::new(), ground: ground.clone() }
    }

    pub(super) fn set_token(&mut self, token: u64) {
        self.ground.ear.set_token(Half::Receiver, token);
    }

    pub(super) fn set_polling(&mut self, polling: Polling) {
        self.poller.set(polling);
    }

    /// Returns the next message, if it is already known to exist.
    #[inline(always)]
    pub(super) fn next_known(&mut self) -> Option<Span> {
        self.ring.receive_known()
    }

    /// Returns the next message, if there is one. The inner `None` means that the peer has closed.
    #[inline(always)]
    pub(super) fn next(&mut self) -> Found<Option<Span>> {
        if let Some(end) = self.end.get() {
            return told(*end);
        }
        match self.with(Reader::receive)? {
            Some(span) => Ok(Some(Some(span))),
            None if self.ring.may_have_ended() => self.ended(),
            None => Ok(None),
        }
    }

    pub(super) fn wait(&mut self, timeout: Option<Duration>) -> Result<Option<Span>> {
        let (poller, deadline) = (self.poller.clone(), Deadline::new(timeout));
        let asleep = loop {
            if let Some(next) = self.next()? {
                return Ok(next);
            }
            let left = deadline.left();
            // Most looks check only for a change, which is cheaper than checking for a message. A
            // peer can make any number of changes that bring none, such as skips.
            match poller.poll(left, || self.ring.has_news().then_some(())) {
                Ok(()) if left == Some(Duration::ZERO) => break None,
                Ok(()) => {}
                Err(asleep) => break Some(asleep),
            }
        };
        let manager = self.ground.manager.clone();
        let mut has_slept = false;
        let next = manager.sleep_for("message in the channel", deadline, |about_to_sleep| {
            // An end that has announced its sleep has already looked once more.
            if about_to_sleep && !self.fall_asleep(std::mem::replace(&mut has_slept, true))? {
                return Ok(Look::Continue(PAUSE));
            }
            Ok(self.next()?.map_or(Look::Continue(PAUSE), Look::Break))
        })?;
        if let Some(asleep) = asleep {
            asleep.found();
        }
        Ok(next)
    }

    /// Arms the wake-up for when there is something. Returns true if there already is.
    pub(super) fn arm(&mut self) -> Result<bool> {
        self.fall_asleep(true)
    }

    fn fall_asleep(&mut self, asks: bool) -> Result<bool> {
        if self.end.get().is_some() || !self.with(Reader::sleep)? {
            return Ok(true);
        }
        let Err(lost) = self.ground.check(asks) else { return Ok(false) };
        // Everything that the peer stored before its end is visible by now.
        if self.with(Reader::sleep)? { Err(self.tell(lost)) } else { Ok(true) }
    }

    /// For a caller that does not wait: returns the next message after a look that found none. If
    /// the peer is lost by now, earlier messages come first.
    pub(super) fn next_or_loss(&mut self) -> Found<Option<Span>> {
        let Err(lost) = self.ground.check(false) else { return Ok(None) };
        match self.next()? {
            None => Err(self.tell(lost)),
            next => Ok(next),
        }
    }

    /// Records a loss for good and returns the error.
    #[cold]
    fn tell(&self, error: Error) -> Error {
        if let Error::PeerLost(loss) = error {
            self.lose(loss);
        }
        error
    }

    /// Checks that everything loaded until now came from the area. Fails if it may be what is shown
    /// in its place after a reset of the card.
    #[inline(always)]
    pub(super) fn confirm(&self) -> Result<()> {
        if self.ring.shared().is_made() { Ok(()) } else { self.doubt() }
    }

    /// An area goes after the connection. If the connection still exists, it is the peer that marks
    /// the area as gone.
    #[cold]
    fn doubt(&self) -> Result<()> {
        let Some(loss) = self.ground.loss(true) else { return Ok(()) };
        self.lose(loss);
        Err(Error::PeerLost(loss))
    }

    /// Records the loss; no message is returned after it.
    fn lose(&self, loss: PeerLoss) {
        let _ = self.end.set(Some(loss));
        self.ring.stop();
    }

    pub(super) fn ground(&self) -> &Ground {
        &self.ground
    }

    #[inline(always)]
    pub(super) fn data(&self, span: Span) -> &[AtomicU8] {
        self.ring.shared().data(span)
    }

    #[inline(always)]
    pub(super) fn release(&mut self, span: Span) {
        self.ring.release(span.end);
        self.ring_bell();
    }

    #[cold]
    fn ended(&mut self) -> Found<Option<Span>> {
        let Some(how) = self.with(Reader::ended)? else { return Ok(None) };
        let end = (how != CLOSED).then_some(PeerLoss::Abandoned);
        let _ = self.end.set(end);
        if end.is_none() {
            self.ground.watch.finish();
        }
        told(end)
    }

    /// Wakes the peer if necessary.
    #[inline(always)]
    fn ring_bell(&mut self) {
        if self.ring.bell_is_due() {
            self.ring.take_bell();
            self.bell.ring();
        }
    }

    #[inline(always)]
    fn with<T>(&mut self, look: impl FnOnce(&mut Reader<RingMemory>) -> Result<T, Nonsense>) -> Result<T> {
        let found = look(&mut self.ring);
        self.ring_bell();
        found.map_err(|nonsense| {
            let why = self.ground.why(true, nonsense);
            self.tell(why)
        })
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        if self.end.get().is_none() && self.ground.is_whole().is_ok() {
            self.ring.leave();
            self.ring_bell();
        }
    }
}
