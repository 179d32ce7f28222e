//! Waiting for many clients at once.

use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};

/// The files of all clients, and one for connection requests.
#[derive(Debug)]
pub(crate) struct News {
    poll: Poll,
    events: Events,
}

impl News {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { poll: Poll::new()?, events: Events::with_capacity(256) })
    }

    /// Watches a file under this number.
    pub(crate) fn watch(&self, number: u64, file: BorrowedFd<'_>, interest: Interest) -> io::Result<()> {
        self.poll.registry().register(&mut SourceFd(&file.as_raw_fd()), Token(number as usize), interest)
    }

    /// Waits until some files are ready, and returns their numbers.
    pub(crate) fn wait(&mut self, limit: Option<Duration>) -> io::Result<Vec<u64>> {
        match self.poll.poll(&mut self.events, limit) {
            Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        Ok(self.events.iter().map(|event| event.token().0 as u64).collect())
    }
}
