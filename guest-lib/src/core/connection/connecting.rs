//! A connection that was asked for.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use hamlyn_abi::uapi::HAMLYN_CONNECTION_CONNECTING;
use rustix::event::PollFlags;

use super::wait::wait_for;
use super::{Connection, end_of};
use crate::core::attach::ConnectionParts;
use crate::error::{Error, Result};

/// A connection that was asked for. If it is dropped it is given up, and the other side told so.
///
/// Its descriptor ([`AsFd`]) is writable once it is accepted, and readable once there will be none.
#[derive(Debug)]
pub struct Connecting {
    parts: Box<dyn ConnectionParts>,
}

impl Connecting {
    pub(super) fn new(parts: Box<dyn ConnectionParts>) -> Self {
        Self { parts }
    }

    /// Whether [`Connecting::finish`] would not wait.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn is_decided(&self) -> Result<bool> {
        Ok(self.parts.state()?.state != HAMLYN_CONNECTION_CONNECTING)
    }

    /// Waits until it is accepted. If that takes too long it is given up.
    ///
    /// # Errors
    /// [`Error::Ended`] if it was refused or the host is not there, [`Error::TimedOut`],
    /// [`Error::System`].
    pub fn finish(self, timeout: Option<Duration>) -> Result<Connection> {
        let parts = &self.parts;
        let decided = (parts.file(), PollFlags::IN | PollFlags::OUT);
        let state = wait_for("answer to the request for a connection", decided, timeout, || {
            let state = parts.state()?;
            Ok((state.state != HAMLYN_CONNECTION_CONNECTING).then_some(state))
        })?;
        match end_of(&state)? {
            Some(end) => Err(Error::Ended(end)),
            None => Ok(Connection::new(self.parts, &state)),
        }
    }
}

impl AsFd for Connecting {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.parts.file()
    }
}
