//! How a plugin gets the memory.
//!
//! The plugin connects to the card's SEQPACKET UNIX socket, and sends nothing. The card sends this
//! message, little-endian:
//!
//! | field | bytes |
//! |---|---|
//! | magic `HMSN` | 4 |
//! | version | 2 |
//! | 0: welcome, 1: refused | 2 |
//! | pages that can be watched | 8 |
//! | stores in the ring | 8 |
//!
//! A welcome carries one descriptor, the memory (sealed). A refusal carries the reason as text
//! instead. The socket then stays open as the bell of both sides. A message of one byte wakes the
//! other side, and the end of the stream shows that the peer is gone.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use hamlyn_door::credentials;
use hamlyn_fabric::bell::{Bell, Socket};
use hamlyn_fabric::memory::Sealed;
use hamlyn_fabric::message::{self, receive, retry, send_with};
use rustix::net::{SendFlags, send};
use thiserror::Error;
use zerocopy::little_endian::{U16, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::layout::{Layout, Size};

/// Version of this message and of the memory.
const VERSION: u16 = 1;
const MAGIC: [u8; 4] = *b"HMSN";
const WELCOME: u16 = 0;
const REFUSED: u16 = 1;
/// The longest reason for a refusal, in bytes.
const MAX_REASON: usize = 240;

#[derive(Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Answer {
    magic: [u8; 4],
    version: U16,
    status: U16,
    pages: U64,
    records: U64,
}

fn answer(status: u16, size: Size) -> Answer {
    let (pages, records) = (size.pages.into(), size.records.into());
    Answer { magic: MAGIC, version: VERSION.into(), status: status.into(), pages, records }
}

/// Passes the memory to a plugin, and returns the bell. Never blocks.
pub(crate) fn welcome(socket: impl Into<Socket>, memory: &Sealed, size: Size) -> io::Result<Bell> {
    let socket = socket.into();
    send_with(&socket, answer(WELCOME, size).as_bytes(), &[memory.file.as_fd()])?;
    Ok(Bell::over(socket))
}

/// Sends a plugin the reason why it is refused. Never blocks.
pub(crate) fn refuse(socket: BorrowedFd<'_>, reason: &str) {
    let mut message = answer(REFUSED, Size { pages: 0, records: 0 }).as_bytes().to_vec();
    message.extend(reason.bytes().take(MAX_REASON));
    // Fails if the plugin has left; then it needs no reason.
    let _ = retry(|| send(socket, &message, SendFlags::NOSIGNAL | SendFlags::DONTWAIT));
}

/// Why a machine could not connect to its card.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// No process listens, or the card did not answer in time.
    #[error("cannot reach the card at {}: {source}", path.display())]
    Socket {
        /// The card's socket.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// Another user's process listens there. It would see what the guest writes.
    #[error("the card at {} belongs to user {user}, not to this one or to root", path.display())]
    Stranger {
        /// The card's socket.
        path: PathBuf,
        /// User of the process that listens there.
        user: u32,
    },
    /// The card refused the machine.
    #[error("the card at {} refused: {reason}", path.display())]
    Refused {
        /// The card's socket.
        path: PathBuf,
        /// Reason that the card gave.
        reason: String,
    },
    /// The process that listens there is not a card that snoops, or has another version.
    #[error("{} is not a card that snoops, of version {VERSION}: {reason}", path.display())]
    Protocol {
        /// The card's socket.
        path: PathBuf,
        /// What is wrong with its answer.
        reason: String,
    },
}

/// Connects to the card that listens at `path`, and gets its memory. Blocks for at most `patience`.
pub(crate) fn connect(path: &Path, patience: Duration) -> Result<(Layout, Bell), ConnectError> {
    let failed = |source: io::Error| ConnectError::Socket { path: path.to_owned(), source };
    let wrong = |reason: String| ConnectError::Protocol { path: path.to_owned(), reason };
    let socket = message::connect(path, patience).map_err(|error| failed(error.into()))?;
    let user = credentials(&socket).map_err(|error| failed(error.into()))?.user;
    if ![rustix::process::geteuid().as_raw(), 0].contains(&user) {
        return Err(ConnectError::Stranger { path: path.to_owned(), user });
    }
    let (bytes, descriptors) = receive(&socket, size_of::<Answer>() + MAX_REASON).map_err(failed)?;
    let (answer, reason) = Answer::read_from_prefix(&bytes)
        .ok()
        .filter(|(answer, _)| answer.magic == MAGIC)
        .ok_or_else(|| wrong(format!("its answer of {} bytes is not one", bytes.len())))?;
    if answer.status != WELCOME {
        let reason = String::from_utf8_lossy(reason).into_owned();
        return Err(ConnectError::Refused { path: path.to_owned(), reason });
    }
    if answer.version != VERSION {
        return Err(wrong(format!("it answers with version {}", answer.version)));
    }
    let size = Size { pages: answer.pages.get(), records: answer.records.get() };
    size.validate().map_err(|error| wrong(error.to_string()))?;
    let count = descriptors.len();
    let [memory] = <[OwnedFd; 1]>::try_from(descriptors)
        .map_err(|_| wrong(format!("it sent {count} descriptors (must be 1)")))?;
    let memory = Sealed::adopt(memory, size.bytes()).map_err(|error| wrong(error.to_string()))?;
    Ok((Layout::new(memory.region, size), Bell::over(socket.into())))
}
