//! State that both ends of a channel share.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::bell::Ear;
use crate::core::express::memory::RingMemory;
use crate::core::express::pages::{ExpressArea, ExpressView};
use crate::core::express::ring::Nonsense;
use crate::core::loss::PeerLoss;
use crate::core::watch::Watch;
use crate::error::{Error, Result};
use crate::hamlyn::attach::Attachment;

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
}

impl Ground {
    /// Fails if the connection has ended, as far as is known. If `asks`, queries the operating
    /// system. Without `asks`, it still detects that the peer's memory is gone, and queries then.
    /// That covers most ends, and does not cost every caller that falls asleep a system call.
    pub(super) fn check(&self, asks: bool) -> Result<()> {
        self.is_whole()?;
        self.loss(asks || !self.there.is_made()).map_or(Ok(()), |loss| Err(Error::PeerLost(loss)))
    }

    pub(super) fn loss(&self, asks: bool) -> Option<PeerLoss> {
        if asks {
            let _ = self.watch.grace();
        }
        self.watch.loss(Duration::ZERO)
    }

    /// Fails if either half found that the peer has stored invalid data.
    pub(super) fn is_whole(&self) -> Result<()> {
        self.broken.get().map_or(Ok(()), |nonsense| Err((*nonsense).into()))
    }

    /// Returns why a ring is not valid. The peer's area may be gone, and the page that is shown in
    /// its place is not a valid ring. This host's own area goes only after the connection. In all
    /// other cases the connection ends with this error, and the peer gets the reason.
    #[cold]
    pub(super) fn why(&self, is_own: bool, nonsense: Nonsense) -> Error {
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
