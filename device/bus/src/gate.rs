//! Accepts clients, and handles those that cannot be accepted.

use hamlyn_door::{HireError, Kept, Kind, Limited, ListenError, Listener, Porter, Porters};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};
use tracing::warn;

/// Length of the queue of clients that wait for acceptance.
const BACKLOG: i32 = 8;
/// Maximum number of porters, including those blocked on descriptors of earlier clients.
const MOST_PORTERS: usize = 8;
/// How long no client is accepted after a failure.
const REST: Duration = Duration::from_millis(50);

/// The listener, and the porters that keep accepted connections.
#[derive(Debug)]
pub(crate) struct Gate {
    pub(crate) listener: Listener,
    /// Porters of clients.
    porters: Porters,
    /// Keep refused connections: even a socket that was never read from can be slow to close.
    strangers: Porters,
    stranger: Porter,
    /// No client is accepted before this time.
    pub(crate) rests_until: Option<Instant>,
    /// Rate limit for log messages that clients can cause.
    pub(crate) log: Limited,
}

impl Gate {
    pub(crate) fn open(path: &Path) -> Result<Gate, OpenError> {
        let (porters, mut strangers) = (Porters::new(MOST_PORTERS), Porters::new(MOST_PORTERS));
        let stranger = strangers.hire()?;
        let listener = Listener::bind(path, Kind::Stream, BACKLOG)?;
        Ok(Gate { listener, porters, strangers, stranger, rests_until: None, log: Limited::new() })
    }

    /// Accepts the next client. It gets its own porter if `with_porter` is set. Returns `None` if
    /// no client waits, or none can be accepted.
    pub(crate) fn accept(&mut self, with_porter: bool) -> Option<Kept<OwnedFd>> {
        let porter = match self.porter(with_porter) {
            Ok(porter) => porter,
            Err(error) => {
                self.rest(&error, REST);
                return None;
            }
        };
        match self.listener.accept() {
            Ok(client) => client.map(|client| porter.keep(client)),
            Err(error) => {
                self.rest(&error, REST);
                None
            }
        }
    }

    fn porter(&mut self, own: bool) -> Result<Porter, HireError> {
        if own {
            return self.porters.hire();
        }
        if self.stranger.is_full() {
            let next = self.strangers.hire()?;
            std::mem::replace(&mut self.stranger, next).dismiss();
        }
        Ok(self.stranger.clone())
    }

    /// Stops accepting clients for a while.
    pub(crate) fn rest(&mut self, reason: &dyn std::fmt::Display, time: Duration) {
        if let Some(unsaid) = self.log.turn() {
            let path = self.listener.path().display();
            warn!("no client of {path} is let in for {time:.1?}: {reason}{unsaid}");
        }
        self.rests_until = Some(Instant::now() + time);
    }
}

/// Why a gate could not be opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error(transparent)]
    Hire(#[from] HireError),
}

impl AsFd for Gate {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}
