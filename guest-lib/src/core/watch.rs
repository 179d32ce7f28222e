//! What the two ends of a stream or channel know of the connection that set it up.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::core::connection::{Connection, End, EndReason};
use crate::core::loss::PeerLoss;

/// How often who waits asks the operating system whether the peer is there.
pub(crate) const INTERVAL: Duration = Duration::from_millis(100);
/// What the peer sent before its end has arrived by then: it may come later than the operating
/// system's word.
pub(crate) const GRACE: Duration = Duration::from_secs(1);

/// What a connection is closed with whose peer has stored what makes no sense.
const BLAME: &[u8] = b"what you have stored makes no sense";

/// What two ends know of their connection.
#[derive(Debug)]
pub(crate) struct Watch {
    /// None only while it is being dropped.
    connection: Option<Connection>,
    seen: Mutex<Seen>,
    /// Ends that have come to a good end.
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
        Self { connection: Some(connection), seen, finished: AtomicU32::new(0) }
    }

    /// Why the peer is lost, if it was known for so long. Asks the operating system now and then.
    pub(crate) fn loss(&self, grace: Duration) -> Option<PeerLoss> {
        let now = Instant::now();
        let (since, loss) = self.end(now, false)?;
        (now.duration_since(since) >= grace).then_some(loss)
    }

    /// How long it takes yet until who receives is told of the end, if there is one. Asks the
    /// operating system.
    pub(crate) fn grace(&self) -> Option<Duration> {
        let now = Instant::now();
        let (since, _) = self.end(now, true)?;
        Some(GRACE.saturating_sub(now.duration_since(since)))
    }

    /// What is readable once the connection has ended.
    pub(crate) fn file(&self) -> Option<BorrowedFd<'_>> {
        self.connection.as_ref().map(AsFd::as_fd)
    }

    /// Since when the end is known, and what it means.
    fn end(&self, now: Instant, at_once: bool) -> Option<(Instant, PeerLoss)> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.end.is_none() && (at_once || now >= seen.next_look) {
            seen.next_look = now + INTERVAL;
            let end = self.connection.as_ref().and_then(|connection| match connection.end() {
                Ok(end) => end.map(|end| loss_of(&end)),
                // The card itself is gone.
                Err(_) => Some(EndReason::CardReset.into()),
            });
            seen.end = end.map(|loss| (now, loss));
        }
        seen.end
    }

    /// The peer has stored what makes no sense: the connection ends, and it is told why.
    pub(crate) fn blame(&self) {
        if let Some(connection) = &self.connection {
            // A card that is gone has no connection to end.
            let _ = connection.close_shared(BLAME);
        }
    }

    /// One of the two ends has come to a good end.
    pub(crate) fn finish(&self) {
        self.finished.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if self.finished.load(Ordering::Relaxed) == 2 {
            // A card that is gone has no connection to close.
            let _ = self.connection.take().map(|connection| connection.close(&[]));
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
            EndReason::HostLost | EndReason::HostReset => PeerLoss::Host,
            EndReason::LinkLost | EndReason::Lapsed | EndReason::CardReset => PeerLoss::Link,
            _ => PeerLoss::Abandoned,
        }
    }
}
