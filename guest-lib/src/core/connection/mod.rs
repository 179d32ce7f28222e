//! Connections (sections 6.3 and 6.4). The operating systems establish and monitor them, so that
//! nothing has to be typed by hand.
//!
//! A connection carries no data. During setup each side passes the other up to [`MAX_PRIVATE`]
//! bytes, for example tickets or seeds. After that each side is notified once of the other's end,
//! with the reason: the connection was closed, the peer's process or host died, or the path was
//! lost. The end of a connection frees nothing: the surviving side must drop the slots that were
//! for the peer, or revoke the keys of its entries ([`crate::MetadataEntry`]).
//!
//! ```no_run
//! # let card = hamlyn::Card::open_default()?;
//! // One process, on the host with id 1:
//! let listener = card.listen("weather")?;
//! let request = listener.request()?;
//! let peer: hamlyn::Ticket = String::from_utf8_lossy(request.private()).parse()?;
//! let connection = request.accept(b"welcome")?;
//! println!("{}", connection.wait_end()?);
//!
//! // Another, on any host:
//! # let ticket = "";
//! let connection = card.connect(1, "weather", ticket.as_bytes())?;
//! assert_eq!(connection.private(), b"welcome");
//! connection.close(b"")?;
//! # Ok::<(), hamlyn::Error>(())
//! ```

mod any;
mod connecting;
pub(crate) mod end;
mod listener;
mod question;
mod wait;

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use hamlyn_abi::uapi::{
    ULN_CONNECTION_ENDED, ULN_MAX_BACKLOG, ULN_MAX_NAME, ULN_MAX_PRIVATE, UlnConnectionState,
};
use rustix::event::PollFlags;

use crate::core::attach::{CardAttachment, ConnectionParts};
use crate::core::card::Card;
use crate::error::{Error, Result, at_most};

pub use self::connecting::Connecting;
pub use self::end::{End, EndReason};
pub use self::listener::{Listener, Request};
pub use self::question::{Answer, FIND_TIMEOUT, Found, Question};
use self::wait::wait_for;

/// Longest name of a listener, in bytes.
pub const MAX_NAME: usize = ULN_MAX_NAME as usize;
/// Maximum private data of a request, an answer or a close, in bytes.
pub const MAX_PRIVATE: usize = ULN_MAX_PRIVATE as usize;
/// Limit that suits most calls of [`Card::connect_timeout`]. A host that does not respond is given
/// up sooner.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// Backlog of a listener created by [`Card::listen`].
const BACKLOG: u32 = 64;

impl<A: CardAttachment + ?Sized> Card<A> {
    /// Registers a name of 1 to [`MAX_NAME`] bytes, under which processes of any host may connect
    /// to this process.
    ///
    /// # Errors
    /// [`Error::OutOfRange`]; [`Error::System`], with `EADDRINUSE` if the name is taken;
    /// [`Error::Unsupported`] on a card without room for connections.
    pub fn listen(&self, name: &str) -> Result<Listener> {
        self.listen_backlog(name, BACKLOG)
    }

    /// As [`Card::listen`], with a backlog of 1 to 1,024 requests; further requests are refused.
    ///
    /// # Errors
    /// Those of [`Card::listen`].
    pub fn listen_backlog(&self, name: &str, backlog: u32) -> Result<Listener> {
        check_name(name)?;
        at_most("backlog", backlog.into(), ULN_MAX_BACKLOG.into())?;
        let backlog = backlog.max(1);
        Listener::open(self.attachment().listen(name, backlog)?, name, backlog)
    }

    /// Registers the name of a TCP connection over IPv4 for its owner: `tcp/`, the address and port
    /// of its own end, `-`, and those of the other end.
    pub(crate) fn listen_as_socket(&self, name: &str, socket: BorrowedFd<'_>) -> Result<Listener> {
        check_name(name)?;
        Listener::open(self.attachment().listen_as_socket(name, socket, BACKLOG)?, name, BACKLOG)
    }

    /// Connects to the listener `name` on a host, and passes it up to [`MAX_PRIVATE`] bytes. Blocks
    /// until the listener answers.
    ///
    /// # Errors
    /// [`Error::Ended`] if it was refused or the host is absent, [`Error::OutOfRange`],
    /// [`Error::System`]; [`Error::Unsupported`] on a card without room for connections.
    pub fn connect(&self, host: u32, name: &str, private: &[u8]) -> Result<Connection> {
        self.begin_connect(host, name, private)?.finish()
    }

    /// As [`Card::connect`], but blocks for at most `timeout`.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; those of [`Card::connect`].
    pub fn connect_timeout(
        &self,
        host: u32,
        name: &str,
        private: &[u8],
        timeout: Duration,
    ) -> Result<Connection> {
        self.begin_connect(host, name, private)?.finish_timeout(timeout)
    }

    /// Requests a connection without blocking.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::System`], [`Error::Unsupported`].
    pub fn begin_connect(&self, host: u32, name: &str, private: &[u8]) -> Result<Connecting> {
        check_name(name)?;
        check_private(private)?;
        Ok(Connecting::new(self.attachment().connect(host, name, private)?))
    }
}

fn check_name(name: &str) -> Result<()> {
    if name.is_empty() {
        return Err(Error::Invalid("a listener's name has at least one byte"));
    }
    at_most("length of a listener's name", name.len() as u64, MAX_NAME as u64)
}

fn check_private(private: &[u8]) -> Result<()> {
    at_most("private data length", private.len() as u64, MAX_PRIVATE as u64)
}

/// Returns the peer's user id, if known.
fn user_of(state: &UlnConnectionState) -> Option<u32> {
    state.user.checked_sub(1)
}

/// Returns the data that the peer passed last.
fn private_of(state: &UlnConnectionState) -> Vec<u8> {
    state.data[..state.private_length.min(ULN_MAX_PRIVATE) as usize].to_vec()
}

/// An established connection. If it is dropped without [`Connection::close`], the peer sees
/// [`EndReason::Died`].
///
/// It may be shared among threads. Its descriptor ([`AsFd`]) is readable once the connection has
/// ended.
#[derive(Debug)]
pub struct Connection {
    parts: Box<dyn ConnectionParts>,
    host: u32,
    user: Option<u32>,
    private: Vec<u8>,
    /// Data for the peer at [`Connection::close_at_last`].
    last: Vec<u8>,
}

impl Connection {
    pub(crate) fn new(parts: Box<dyn ConnectionParts>, state: &UlnConnectionState) -> Self {
        let (user, private) = (user_of(state), private_of(state));
        Self { parts, host: state.host, user, private, last: Vec::new() }
    }

    /// Repeats the answer to the peer's request when this side closes
    /// ([`Connection::close_at_last`]). The close replaces an answer that the peer has not read.
    pub(crate) fn repeat_at_close(mut self, answer: Vec<u8>) -> Self {
        self.last = answer;
        self
    }

    /// Closes the connection, which may have ended already.
    pub(crate) fn close_at_last(&self) -> Result<()> {
        self.close_shared(&self.last)
    }

    /// Returns the peer's host id.
    #[must_use]
    pub fn host(&self) -> u32 {
        self.host
    }

    /// Returns the peer's user id, as reported by the operating system of its host. Returns `None`
    /// if the peer has no operating system, as at a card's socket, or one that is too old to report
    /// it.
    #[must_use]
    pub fn user(&self) -> Option<u32> {
        self.user
    }

    /// Returns the peer's private data: from its request if this side accepted, otherwise from its
    /// answer.
    #[must_use]
    pub fn private(&self) -> &[u8] {
        &self.private
    }

    /// Returns the end, if the connection has ended.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn end(&self) -> Result<Option<End>> {
        end_of(&self.parts.state()?)
    }

    /// Blocks until the connection ends.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn wait_end(&self) -> Result<End> {
        wait_for("end of the connection", (self.parts.file(), PollFlags::IN), None, || self.end())
    }

    /// As [`Connection::wait_end`], but blocks for at most `timeout`.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; those of [`Connection::wait_end`].
    pub fn wait_end_timeout(&self, timeout: Duration) -> Result<End> {
        wait_for("end of the connection", (self.parts.file(), PollFlags::IN), Some(timeout), || self.end())
    }

    /// Closes the connection gracefully, and passes the peer up to [`MAX_PRIVATE`] bytes. Succeeds
    /// if the connection has already ended.
    ///
    /// In section 6.4 the sender closes. Its data may still be in flight, so it should first wait
    /// for its handles. It may pass the amount of data that is still to arrive.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::System`].
    pub fn close(self, private: &[u8]) -> Result<()> {
        self.close_shared(private)
    }

    /// As [`Connection::close`], for a shared connection.
    pub(crate) fn close_shared(&self, private: &[u8]) -> Result<()> {
        check_private(private)?;
        match self.parts.close(private) {
            Err(Error::NotConnected) => Ok(()),
            other => other,
        }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.parts.file()
    }
}

/// Returns the end, if the connection has ended.
fn end_of(state: &UlnConnectionState) -> Result<Option<End>> {
    if state.state != ULN_CONNECTION_ENDED {
        return Ok(None);
    }
    let reason = EndReason::from_abi(state.reason).ok_or(Error::Incompatible {
        object: "reason for the end of a connection",
        value: state.reason.into(),
        expected: EndReason::ALL.len() as u64,
    })?;
    // Earlier data belongs to an end only if the peer caused the end.
    let private = if reason.is_from_peer() { private_of(state) } else { Vec::new() };
    Ok(Some(End { reason, private }))
}
