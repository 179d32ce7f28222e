//! Actions on an end of either ring.

use crate::channel::bare;
use crate::channel::end::{End, Through, Way};
use crate::channel::library;
use crate::engine::result::Outcome;

/// An action on an end of either type.
pub(crate) trait Act {
    fn with(self, end: impl End) -> Outcome;
}

/// Runs an action on the listening end, which starts first and reports that it is ready.
pub(crate) fn listen(way: &Way, act: impl Act) -> Outcome {
    match way.through {
        Through::Express | Through::Card => act.with(library::listen(way)?),
        Through::Ivshmem => act.with(bare::listen(way)?),
    }
}

/// Runs an action on the connecting end.
pub(crate) fn connect(way: &Way, act: impl Act) -> Outcome {
    match way.through {
        Through::Express | Through::Card => act.with(library::connect(way)?),
        Through::Ivshmem => act.with(bare::connect(way)?),
    }
}
