//! Where clients come in, and what becomes of those that cannot.

use hamlyn_door::{HireError, Kept, Kind, Limited, ListenError, Listener, Porter, Porters};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};
use tracing::warn;

/// Clients that may wait to be accepted.
const BACKLOG: i32 = 8;
/// Porters at a time, those included that are stuck with what earlier clients handed over.
const MOST_PORTERS: usize = 8;
/// How long nobody is let in when that is not possible.
const REST: Duration = Duration::from_millis(50);

/// The listener, and who keeps what comes in.
#[derive(Debug)]
pub(crate) struct Gate {
    pub(crate) listener: Listener,
    /// The clients'.
    porters: Porters,
    /// Keeps those that are turned away: even a socket that nobody has read from can be slow to
    /// close.
    strangers: Porters,
    stranger: Porter,
    /// Nobody is let in before.
    pub(crate) rests_until: Option<Instant>,
    /// What clients can have written to the log.
    pub(crate) log: Limited,
}

impl Gate {
    pub(crate) fn open(path: &Path) -> Result<Gate, OpenError> {
        let (porters, mut strangers) = (Porters::new(MOST_PORTERS), Porters::new(MOST_PORTERS));
        let stranger = strangers.hire()?;
        let listener = Listener::bind(path, Kind::Stream, BACKLOG)?;
        Ok(Gate { listener, porters, strangers, stranger, rests_until: None, log: Limited::new() })
    }

    /// The next client, kept by a porter of its own if there is to be one. None: nobody waits, or
    /// nobody can be let in.
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

    /// Lets no client in for a while.
    pub(crate) fn rest(&mut self, reason: &dyn std::fmt::Display, time: Duration) {
        if let Some(unsaid) = self.log.turn() {
            let path = self.listener.path().display();
            warn!("no client of {path} is let in for {time:.1?}: {reason}{unsaid}");
        }
        self.rests_until = Some(Instant::now() + time);
    }
}

/// Why there is no gate.
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
