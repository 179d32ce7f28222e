//! What a half of a channel stands on: the memory of its ring, and its card.

use std::fmt::Debug;
use std::sync::atomic::AtomicU8;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crate::core::express::ring::{Nonsense, Shared, Span};
use crate::core::loss::PeerLoss;
use crate::core::remote::Remote;
use crate::core::watch::{GRACE, Watch};
use crate::error::{Error, Result};

/// How long to wait for the connection's end when a card reports that the peer's memory is gone,
/// and the pause between two checks.
pub(super) const END_LIMIT: Duration = Duration::from_secs(1);
const END_PAUSE: Duration = Duration::from_millis(5);

/// The memory of a half's ring, and what its card does for it.
pub(super) trait Ground: Shared + Debug + Send {
    /// Both ends access the same memory. Otherwise the card copies.
    const IS_SHARED: bool;

    /// Returns the card's operations for this half.
    fn card(&self) -> &dyn Remote;

    /// Returns a message's data in place.
    fn data(&self, span: Span) -> &[AtomicU8];

    /// Arms the next sleep, as [`Remote::arm`].
    fn arm(&self) -> Result<()> {
        self.card().arm()
    }

    /// Waits until nothing has to wait for the card, as [`Remote::wait_for_room`].
    fn wait_for_room(&self, limit: Option<Duration>) -> Result<bool> {
        self.card().wait_for_room(limit)
    }

    /// Returns whether nothing has to wait for the card. Fails if a store failed.
    fn is_ready(&self) -> Result<bool> {
        self.check()?;
        self.wait_for_room(Some(Duration::ZERO))
    }

    /// Wakes the peer, which sleeps.
    fn wake(&self) {}

    /// Fails if a store failed. No stores are made after that.
    fn check(&self) -> Result<()> {
        Ok(())
    }

    /// Returns the error of a failed store, if one is known. Does not ask the card.
    fn failure(&self) -> Option<Error> {
        None
    }

    /// Returns whether the ring's memory may have been replaced by other memory.
    #[inline(always)]
    fn is_gone(&self) -> bool {
        false
    }

    /// Blocks until all that was posted is sure to arrive, even if this half goes away.
    fn finish(&self, limit: Option<Duration>) -> Result<()> {
        self.card().finish(limit)
    }
}

/// A half on either ground.
#[derive(Debug)]
pub(super) enum Half<E, R> {
    Express(E),
    Remote(R),
}

/// Calls a method of the half.
macro_rules! half {
    ($object:expr, $half:ident => $call:expr) => {
        match $object {
            $crate::channel::ground::Half::Express($half) => $call,
            $crate::channel::ground::Half::Remote($half) => $call,
        }
    };
}
pub(super) use half;

/// State shared by both halves of a channel. Fields are dropped in this order: the peer learns that
/// the connection has ended before its memory goes.
#[derive(Debug)]
pub(super) struct Common {
    pub(super) watch: Watch,
    /// Invalid value that the peer has stored. Neither half continues after it.
    broken: OnceLock<Nonsense>,
    /// Memory that both hosts share.
    _areas: Vec<Box<dyn Debug + Send + Sync>>,
}

impl Common {
    pub(super) fn new(watch: Watch, areas: Vec<Box<dyn Debug + Send + Sync>>) -> Arc<Self> {
        watch.close_at_end();
        Arc::new(Self { watch, broken: OnceLock::new(), _areas: areas })
    }

    /// Fails if the peer has been known to be lost for `grace`.
    pub(super) fn check(&self, grace: Duration) -> Result<()> {
        self.is_whole()?;
        self.watch.loss(grace).map_or(Ok(()), |loss| Err(Error::PeerLost(loss)))
    }

    /// Fails if either half found that the peer has stored an invalid value.
    #[inline]
    pub(super) fn is_whole(&self) -> Result<()> {
        self.broken.get().map_or(Ok(()), |nonsense| Err((*nonsense).into()))
    }

    /// Returns whether a half that goes may tell the peer so. An end that has blamed the peer sends
    /// nothing that the peer could see before that. After a loss, the peer has one to report: over
    /// a link that is back, a later store could arrive before that.
    pub(super) fn may_tell(&self) -> bool {
        self.is_whole().is_ok() && self.watch.known_grace().is_none()
    }

    /// Time after the connection's end in which the peer's data may still arrive.
    pub(super) const fn grace<G: Ground>() -> Duration {
        if G::IS_SHARED { Duration::ZERO } else { GRACE }
    }

    /// Returns why the connection has ended, if it has. Asks the operating system.
    pub(super) fn loss(&self) -> Option<PeerLoss> {
        let _ = self.watch.grace();
        self.watch.loss(Duration::ZERO)
    }

    /// Returns the error for a ring with an invalid value. If its memory may have been replaced,
    /// the peer is lost. Otherwise ends the connection, and tells the peer why.
    #[cold]
    pub(super) fn blame<G: Ground>(&self, is_gone: bool, nonsense: Nonsense) -> Error {
        if G::IS_SHARED {
            if let Some(loss) = self.loss().or(is_gone.then_some(PeerLoss::Gone)) {
                return Error::PeerLost(loss);
            }
        }
        if self.broken.set(nonsense).is_ok() {
            self.watch.blame();
        }
        nonsense.into()
    }

    /// Returns why a card could not store to the peer's memory: the reason of the connection's end,
    /// if it ends within a second.
    #[cold]
    pub(super) fn why(&self, error: Error) -> Error {
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
