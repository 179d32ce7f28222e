//! State of a connection, as seen by the two ends of a stream or channel that it set up.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::core::connection::{Connection, End, EndReason};
use crate::core::loss::PeerLoss;

/// Interval at which a waiter asks the operating system whether the peer is alive.
pub(crate) const INTERVAL: Duration = Duration::from_millis(100);
/// Time after which everything that the peer sent before its end has arrived. Data may arrive after
/// the operating system has reported the end.
pub(crate) const GRACE: Duration = Duration::from_secs(1);

/// Private data that closes a connection whose peer has stored an invalid value.
const BLAME: &[u8] = b"what you have stored makes no sense";

/// State of a connection, shared by two ends.
#[derive(Debug)]
pub(crate) struct Watch {
    connection: Connection,
    seen: Mutex<Seen>,
    /// Number of ends that have finished normally.
    finished: AtomicU32,
}

#[derive(Debug)]
struct Seen {
    next_look: Instant,
    end: Option<(Instant, PeerLoss)>,
}

impl Watch {
    pub(crate) fn over(connection: Connection) -> Self {
        let seen = Mutex::new(Seen { next_look: Instant::now(), end: None });
        Self { connection, seen, finished: AtomicU32::new(0) }
    }

    /// Returns the peer's host.
    pub(crate) fn host(&self) -> u32 {
        self.connection.host()
    }

    /// Returns why the peer is lost, if that has been known for `grace`. Asks the operating system
    /// at most every [`INTERVAL`].
    pub(crate) fn loss(&self, grace: Duration) -> Option<PeerLoss> {
        let now = Instant::now();
        let (since, loss) = self.end(now, false)?;
        (now.duration_since(since) >= grace).then_some(loss)
    }

    /// Returns the time until the receiver is told of the end, if the connection has ended. Asks
    /// the operating system.
    pub(crate) fn grace(&self) -> Option<Duration> {
        let now = Instant::now();
        let (since, _) = self.end(now, true)?;
        Some(GRACE.saturating_sub(now.duration_since(since)))
    }

    /// Returns the time until the receiver is told of the end, if the end is known. Asks nothing.
    pub(crate) fn known_grace(&self) -> Option<Duration> {
        let (since, _) = self.seen().end?;
        Some(GRACE.saturating_sub(since.elapsed()))
    }

    /// Ends the time in which data may still arrive: the card is gone.
    pub(crate) fn end_for_good(&self) {
        let now = Instant::now();
        let loss = self.end(now, true).map_or(PeerLoss::Link, |(_, loss)| loss);
        self.seen().end = Some((now.checked_sub(GRACE).unwrap_or(now), loss));
    }

    /// Returns a file that is readable once the connection has ended.
    pub(crate) fn file(&self) -> BorrowedFd<'_> {
        self.connection.as_fd()
    }

    /// Returns when the end was noticed, and what it means.
    fn end(&self, now: Instant, at_once: bool) -> Option<(Instant, PeerLoss)> {
        let mut seen = self.seen();
        if seen.end.is_none() && (at_once || now >= seen.next_look) {
            seen.next_look = now + INTERVAL;
            let end = match self.connection.end() {
                Ok(end) => end.map(|end| loss_of(&end)),
                // The card is gone.
                Err(_) => Some(EndReason::CardReset.into()),
            };
            seen.end = end.map(|loss| (now, loss));
        }
        seen.end
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the connection because the peer has stored an invalid value, and tells the peer why.
    pub(crate) fn blame(&self) {
        // A card that is gone has no connection to end.
        let _ = self.connection.close_shared(BLAME);
    }

    /// Marks one of the two ends as finished normally.
    pub(crate) fn finish(&self) {
        self.finished.fetch_add(1, Ordering::Relaxed);
    }

    /// Closes the connection when this is dropped: only a process that dies leaves it open.
    pub(crate) fn close_at_end(&self) {
        self.finished.store(2, Ordering::Relaxed);
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if self.finished.load(Ordering::Relaxed) == 2 {
            // A card that is gone has no connection to close.
            let _ = self.connection.close_at_last();
        }
    }
}

fn loss_of(end: &End) -> PeerLoss {
    match end.reason {
        EndReason::Closed if end.private == BLAME => PeerLoss::Blamed,
        reason => reason.into(),
    }
}

impl From<EndReason> for PeerLoss {
    fn from(reason: EndReason) -> Self {
        match reason {
            EndReason::Died => PeerLoss::Process,
            EndReason::HostLost => PeerLoss::Host,
            EndReason::HostReset => PeerLoss::HostReset,
            EndReason::LinkLost | EndReason::Lapsed => PeerLoss::Link,
            EndReason::CardReset => PeerLoss::CardReset,
            _ => PeerLoss::Abandoned,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_and_card_losses_differ() {
        let losses = [
            (EndReason::HostLost, PeerLoss::Host),
            (EndReason::HostReset, PeerLoss::HostReset),
            (EndReason::LinkLost, PeerLoss::Link),
            (EndReason::Lapsed, PeerLoss::Link),
            (EndReason::CardReset, PeerLoss::CardReset),
            (EndReason::Died, PeerLoss::Process),
            (EndReason::Closed, PeerLoss::Abandoned),
        ];
        for (reason, loss) in losses {
            assert_eq!(PeerLoss::from(reason), loss, "{reason}");
        }
    }
}
