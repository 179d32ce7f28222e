//! A pending connection request.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use hamlyn_abi::uapi::ULN_CONNECTION_CONNECTING;
use rustix::event::PollFlags;

use super::wait::wait_for;
use super::{Connection, End, EndReason, end_of};
use crate::core::attach::ConnectionParts;
use crate::error::{Error, Result};

/// A pending connection request. Dropping it cancels the request and notifies the other side.
///
/// Its descriptor ([`AsFd`]) is writable once the request is accepted, and readable once it has
/// failed.
#[derive(Debug)]
pub struct Connecting {
    parts: Box<dyn ConnectionParts>,
}

impl Connecting {
    pub(super) fn new(parts: Box<dyn ConnectionParts>) -> Self {
        Self { parts }
    }

    /// Returns whether [`Connecting::finish`] would return without blocking.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn is_decided(&self) -> Result<bool> {
        Ok(self.parts.state()?.state != ULN_CONNECTION_CONNECTING)
    }

    /// Blocks until the request is accepted.
    ///
    /// # Errors
    /// [`Error::Ended`] if it was refused or the host is absent, [`Error::System`].
    pub fn finish(self) -> Result<Connection> {
        self.finish_within(None)
    }

    /// As [`Connecting::finish`], but blocks for at most `timeout`, and then cancels the request.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; those of [`Connecting::finish`].
    pub fn finish_timeout(self, timeout: Duration) -> Result<Connection> {
        self.finish_within(Some(timeout))
    }

    pub(crate) fn finish_within(self, timeout: Option<Duration>) -> Result<Connection> {
        let (connection, end) = self.decided_within(timeout)?;
        end.map_or(Ok(connection), |end| Err(Error::Ended(end)))
    }

    /// As [`Connecting::finish_within`]. But if the listener has accepted and closed meanwhile, and
    /// repeated its answer ([`Connection::repeat_at_close`]), returns the ended connection.
    pub(crate) fn finish_though_closed(self, timeout: Option<Duration>) -> Result<Connection> {
        match self.decided_within(timeout)? {
            (connection, Some(end)) if end.reason == EndReason::Closed && !end.private.is_empty() => {
                Ok(connection)
            }
            (_, Some(end)) => Err(Error::Ended(end)),
            (connection, None) => Ok(connection),
        }
    }

    /// Waits for the answer. Returns the connection, and its end if it has ended.
    fn decided_within(self, timeout: Option<Duration>) -> Result<(Connection, Option<End>)> {
        let parts = &self.parts;
        let decided = (parts.file(), PollFlags::IN | PollFlags::OUT);
        let state = wait_for("answer to the request for a connection", decided, timeout, || {
            let state = parts.state()?;
            Ok((state.state != ULN_CONNECTION_CONNECTING).then_some(state))
        })?;
        Ok((Connection::new(self.parts, &state), end_of(&state)?))
    }
}

impl AsFd for Connecting {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.parts.file()
    }
}
