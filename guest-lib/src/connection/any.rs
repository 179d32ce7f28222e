//! A name on whichever host has it.

use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::{Connecting, Connection};
use crate::card::Card;
use crate::error::{Error, Result};

impl Card {
    /// Connects to the listener `name` on whichever of these hosts accepts first. All are asked at once, so a host that is absent or
    /// does not have the name costs no time while another does; what was asked of the others is given up, which a listener that
    /// had accepted notices as the end of a connection. `None` waits for ever.
    ///
    /// # Errors
    /// If none accepts, what the last of them said: [`Error::Ended`], or why it could not be asked. [`Error::TimedOut`];
    /// [`Error::Invalid`] for no hosts; those of [`Card::begin_connect`].
    pub fn connect_any(
        &self,
        hosts: impl IntoIterator<Item = u32>,
        name: &str,
        private: &[u8],
        timeout: Option<Duration>,
    ) -> Result<Connection> {
        let mut last = Error::Invalid("no hosts to connect to were named");
        let mut asked = Vec::new();
        for host in hosts {
            match self.begin_connect(host, name, private) {
                Ok(connecting) => asked.push(connecting),
                // It concerns all of them.
                Err(error @ (Error::Unsupported(_) | Error::OutOfRange { .. } | Error::Invalid(_))) => {
                    return Err(error);
                }
                Err(error) => last = error,
            }
        }
        // A time-out past the end of time is none.
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        while !asked.is_empty() {
            match take_decided(&mut asked)?.map(|decided| decided.finish(None)) {
                Some(Ok(connection)) => return Ok(connection),
                Some(Err(error)) => last = error,
                None => wait_for_any(&asked, deadline, timeout)?,
            }
        }
        Err(last)
    }
}

/// One that would not have to wait.
fn take_decided(asked: &mut Vec<Connecting>) -> Result<Option<Connecting>> {
    for index in 0..asked.len() {
        if asked[index].is_decided()? {
            return Ok(Some(asked.swap_remove(index)));
        }
    }
    Ok(None)
}

/// Sleeps until one of them may be decided.
fn wait_for_any(asked: &[Connecting], deadline: Option<Instant>, timeout: Option<Duration>) -> Result<()> {
    let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
    if left == Some(Duration::ZERO) {
        let what = "answer to any request for a connection";
        return Err(Error::TimedOut { what, after: timeout.unwrap_or_default() });
    }
    let left = left.and_then(|left| Timespec::try_from(left).ok());
    let news = PollFlags::IN | PollFlags::OUT;
    let mut files: Vec<_> = asked.iter().map(|connecting| PollFd::new(connecting, news)).collect();
    match poll(&mut files, left.as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(errno) => Err(Error::system("wait for an answer to a request for a connection")(errno.into())),
    }
}
