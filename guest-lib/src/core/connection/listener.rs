//! The accepting side of connections.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use hamlyn_abi::uapi::UlnConnectionState;

use rustix::event::PollFlags;

use super::wait::wait_for;
use super::{Connection, check_private, end_of, private_of, user_of};
use crate::core::attach::{ConnectionParts, ListenerParts};
use crate::core::waiting::{Turn, at_once};
use crate::error::{Error, Result};

/// A name that processes of any host may connect to. Dropping the listener frees the name and
/// refuses pending requests; established connections stay.
///
/// Its descriptor ([`AsFd`]) is readable while a request is pending.
#[derive(Debug)]
pub struct Listener {
    parts: Box<dyn ListenerParts>,
    name: String,
    backlog: u32,
}

impl Listener {
    pub(super) fn open(parts: Box<dyn ListenerParts>, name: &str, backlog: u32) -> Result<Self> {
        Ok(Self { parts, name: name.to_owned(), backlog })
    }

    /// Starts a call that rejects requests until it finds one to accept.
    pub(crate) fn turn(&self, timeout: Option<Duration>) -> Turn {
        Turn::new(timeout, self.backlog)
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the next request. Blocks until there is one.
    ///
    /// # Errors
    /// [`Error::System`] (`ENODEV` once the card was reset).
    pub fn request(&self) -> Result<Request> {
        self.request_within(None)
    }

    /// Returns the next request, if one is pending.
    ///
    /// # Errors
    /// [`Error::WouldBlock`]; those of [`Listener::request`].
    pub fn try_request(&self) -> Result<Request> {
        at_once("requests for a connection", self.request_within(Some(Duration::ZERO)))
    }

    /// As [`Listener::request`], but blocks for at most `timeout`.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; those of [`Listener::request`].
    pub fn request_timeout(&self, timeout: Duration) -> Result<Request> {
        self.request_within(Some(timeout))
    }

    pub(crate) fn request_within(&self, timeout: Option<Duration>) -> Result<Request> {
        let parts =
            wait_for("request for a connection", (self.parts.file(), PollFlags::IN), timeout, || {
                self.parts.next_request()
            })?;
        let state = parts.state()?;
        let private = private_of(&state);
        Ok(Request { parts, state, private })
    }

    /// Accepts the next request without private data. Blocks until there is one.
    ///
    /// # Errors
    /// Those of [`Listener::request`] and [`Request::accept`].
    pub fn accept(&self) -> Result<Connection> {
        self.request()?.accept(b"")
    }

    /// Accepts the next request without private data, if one is pending.
    ///
    /// # Errors
    /// [`Error::WouldBlock`]; those of [`Listener::accept`].
    pub fn try_accept(&self) -> Result<Connection> {
        self.try_request()?.accept(b"")
    }

    /// As [`Listener::accept`], but blocks for at most `timeout`.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; those of [`Listener::accept`].
    pub fn accept_timeout(&self, timeout: Duration) -> Result<Connection> {
        self.request_timeout(timeout)?.accept(b"")
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.parts.file()
    }
}

/// A request for a connection. Dropping it rejects the request.
#[derive(Debug)]
pub struct Request {
    parts: Box<dyn ConnectionParts>,
    state: UlnConnectionState,
    private: Vec<u8>,
}

impl Request {
    /// Returns the requester's host id.
    #[must_use]
    pub fn host(&self) -> u32 {
        self.state.host
    }

    /// Returns the requester's user id, as [`Connection::user`] does.
    #[must_use]
    pub fn user(&self) -> Option<u32> {
        user_of(&self.state)
    }

    /// Returns the requester's private data.
    #[must_use]
    pub fn private(&self) -> &[u8] {
        &self.private
    }

    /// Accepts the request, and passes the requester up to [`super::MAX_PRIVATE`] bytes.
    ///
    /// # Errors
    /// [`Error::Ended`] if the requester is already gone, [`Error::OutOfRange`], [`Error::System`].
    pub fn accept(self, private: &[u8]) -> Result<Connection> {
        check_private(private)?;
        match self.parts.accept(private) {
            Ok(()) => Ok(Connection::new(self.parts, &self.state)),
            Err(Error::NotConnected) => {
                Err(end_of(&self.parts.state()?)?.map_or(Error::NotConnected, Error::Ended))
            }
            Err(error) => Err(error),
        }
    }

    /// Rejects the request, and passes the requester as much of the reason as fits. Succeeds if the
    /// requester is already gone.
    pub(crate) fn reject_because(self, reason: &str) -> Result<()> {
        let end = (0..=reason.len().min(super::MAX_PRIVATE)).rev().find(|end| reason.is_char_boundary(*end));
        self.reject(&reason.as_bytes()[..end.unwrap_or_default()])
    }

    /// Rejects the request, and passes the requester up to [`super::MAX_PRIVATE`] bytes. Succeeds
    /// if the requester is already gone.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::System`].
    pub fn reject(self, private: &[u8]) -> Result<()> {
        check_private(private)?;
        match self.parts.reject(private) {
            Err(Error::NotConnected) => Ok(()),
            other => other,
        }
    }
}
