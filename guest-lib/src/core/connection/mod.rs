//! Connections (sections 6.3 and 6.4), set up and watched by the operating systems: nothing is
//! typed by hand.
//!
//! A connection carries no data. When it is set up each side passes the other up to [`MAX_PRIVATE`]
//! bytes, tickets or seeds perhaps; from then on each is told of the other's end, once and with a
//! reason: that it was closed, that the peer's process died, that its host did, or that the way
//! there was lost. It frees nothing: whoever loses a peer drops the slots that were for it, or
//! takes the keys of its entries away ([`crate::MetadataEntry`]).
//!
//! ```no_run
//! # let card = hamlyn::Card::open_default()?;
//! // One process, on the host with id 1:
//! let listener = card.listen("weather")?;
//! let request = listener.request(None)?;
//! let peer: hamlyn::Ticket = String::from_utf8_lossy(request.private()).parse()?;
//! let connection = request.accept(b"welcome")?;
//! println!("{}", connection.wait_end(None)?);
//!
//! // Another, anywhere:
//! # let ticket = "";
//! let connection = card.connect(1, "weather", ticket.as_bytes())?;
//! assert_eq!(connection.private(), b"welcome");
//! connection.close(b"")?;
//! # Ok::<(), hamlyn::Error>(())
//! ```

mod any;
mod connecting;
mod end;
mod listener;
mod question;
mod wait;

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use hamlyn_abi::uapi::{
    HAMLYN_CONNECTION_ENDED, HAMLYN_MAX_BACKLOG, HAMLYN_MAX_NAME, HAMLYN_MAX_PRIVATE, HamlynConnectionState,
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

/// The longest name of a listener, in bytes.
pub const MAX_NAME: usize = HAMLYN_MAX_NAME as usize;
/// The most private data that a request, its answer or a close carries, in bytes.
pub const MAX_PRIVATE: usize = HAMLYN_MAX_PRIVATE as usize;
/// How long [`Card::connect`] waits for a listener that does not answer. A host that gives no sign
/// of life is given up sooner.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// How many requests may wait for a listener of [`Card::listen`].
const BACKLOG: u32 = 64;

impl<A: CardAttachment + ?Sized> Card<A> {
    /// Takes a name of 1 to [`MAX_NAME`] bytes, under which processes of any host may connect to
    /// this one.
    ///
    /// # Errors
    /// [`Error::OutOfRange`]; [`Error::System`], also if the name is taken (`EADDRINUSE`);
    /// [`Error::Unsupported`] on a card that has no room for it.
    pub fn listen(&self, name: &str) -> Result<Listener> {
        self.listen_backlog(name, BACKLOG)
    }

    /// The same; up to `backlog` requests, 1 to 1,024, may wait, more are refused.
    ///
    /// # Errors
    /// Those of [`Card::listen`].
    pub fn listen_backlog(&self, name: &str, backlog: u32) -> Result<Listener> {
        check_name(name)?;
        at_most("backlog", backlog.into(), HAMLYN_MAX_BACKLOG.into())?;
        let backlog = backlog.max(1);
        Listener::open(self.attachment().listen(name, backlog)?, name, backlog)
    }

    /// Connects to the listener `name` on a host, passes it up to [`MAX_PRIVATE`] bytes, and waits
    /// until it has accepted, up to [`CONNECT_TIMEOUT`].
    ///
    /// # Errors
    /// [`Error::Ended`] if it was refused or the host is not there, [`Error::TimedOut`],
    /// [`Error::OutOfRange`], [`Error::System`]; [`Error::Unsupported`] on a card that has no room
    /// for it.
    pub fn connect(&self, host: u32, name: &str, private: &[u8]) -> Result<Connection> {
        self.begin_connect(host, name, private)?.finish(Some(CONNECT_TIMEOUT))
    }

    /// Asks for a connection, and does not wait.
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

/// The peer's user id, if it was told.
fn user_of(state: &HamlynConnectionState) -> Option<u32> {
    state.user.checked_sub(1)
}

/// What the peer passed last.
fn private_of(state: &HamlynConnectionState) -> Vec<u8> {
    state.data[..state.private_length.min(HAMLYN_MAX_PRIVATE) as usize].to_vec()
}

/// An accepted connection. If it is dropped without [`Connection::close`] the peer is told that its
/// process died.
///
/// It may be shared among threads. Its descriptor ([`AsFd`]) is readable once the connection has
/// ended.
#[derive(Debug)]
pub struct Connection {
    parts: Box<dyn ConnectionParts>,
    host: u32,
    user: Option<u32>,
    private: Vec<u8>,
}

impl Connection {
    pub(crate) fn new(parts: Box<dyn ConnectionParts>, state: &HamlynConnectionState) -> Self {
        Self { parts, host: state.host, user: user_of(state), private: private_of(state) }
    }

    /// The peer's host id.
    #[must_use]
    pub fn host(&self) -> u32 {
        self.host
    }

    /// The peer's user id, as the operating system of its host says. `None` if the peer has no
    /// operating system, as at a card's socket, or one that is too old to say.
    #[must_use]
    pub fn user(&self) -> Option<u32> {
        self.user
    }

    /// What the peer passed: with its request if this side accepted it, else with its answer.
    #[must_use]
    pub fn private(&self) -> &[u8] {
        &self.private
    }

    /// How it ended, if it has.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn end(&self) -> Result<Option<End>> {
        end_of(&self.parts.state()?)
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// [`Error::TimedOut`], [`Error::System`].
    pub fn wait_end(&self, timeout: Option<Duration>) -> Result<End> {
        wait_for("end of the connection", (self.parts.file(), PollFlags::IN), timeout, || self.end())
    }

    /// Closes it gracefully, and passes the peer up to [`MAX_PRIVATE`] bytes. (Section 6.4: a
    /// sender's affair. What it has sent may still be on its way, so it waits for its handles
    /// first, and may say here how much there is to come.) It is no error if it has ended
    /// meanwhile.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::System`].
    pub fn close(self, private: &[u8]) -> Result<()> {
        self.close_shared(private)
    }

    /// The same by who shares it.
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

/// The end of a connection that has ended.
fn end_of(state: &HamlynConnectionState) -> Result<Option<End>> {
    if state.state != HAMLYN_CONNECTION_ENDED {
        return Ok(None);
    }
    let reason = EndReason::from_abi(state.reason).ok_or(Error::Incompatible {
        object: "reason for the end of a connection",
        value: state.reason.into(),
        expected: EndReason::ALL.len() as u64,
    })?;
    // What was passed before belongs to an end only if the peer passed it with that.
    let private = if reason.is_from_peer() { private_of(state) } else { Vec::new() };
    Ok(Some(End { reason, private }))
}
