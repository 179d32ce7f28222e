//! What can go wrong, with the object, the value and the limit.

use std::io;
use std::time::Duration;

use hamlyn_abi::hamlyn::statistics::Statistic;

use crate::connection::End;
use crate::group::ShareError;
use crate::loss::PeerLoss;
use crate::seed::SeedError;
use crate::ticket::TicketError;

/// Result of the library's calls.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call of the library failed. It has changed nothing then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A length, index or number is over its limit.
    #[error("{object} {value} is out of range (limit {limit})")]
    OutOfRange {
        /// What.
        object: &'static str,
        /// Its value.
        value: u64,
        /// The largest that is allowed.
        limit: u64,
    },
    /// An offset is not a multiple of what it must be.
    #[error("{object} {value} is not a multiple of {multiple}")]
    Misaligned {
        /// What.
        object: &'static str,
        /// Its value.
        value: u64,
        /// What it must be a multiple of.
        multiple: u64,
    },
    /// Bytes outside of a memory, buffer or ticket were named.
    #[error("{length} bytes at offset {offset} reach past the end of the {object} (limit {limit})")]
    PastEnd {
        /// What.
        object: &'static str,
        /// First byte.
        offset: u64,
        /// How many.
        length: u64,
        /// How many bytes the object has.
        limit: u64,
    },
    /// All work-queue entries, or all send-buffer tags, are in use.
    #[error("all {limit} {object} are in use")]
    WouldBlock {
        /// What.
        object: &'static str,
        /// How many there are.
        limit: u32,
    },
    /// The user who opened the card holds as much of it as one user may: the rest is left to others. Give something
    /// back, or wait until others do.
    #[error(
        "user {user} holds {held} {object} of the card and may hold no more (limit {limit}): the rest is others'"
    )]
    Quota {
        /// What.
        object: &'static str,
        /// Whose share it is.
        user: u32,
        /// How many of them he holds, through all his files.
        held: u32,
        /// How many he may hold as things stand.
        limit: u32,
    },
    /// It did not happen in time.
    #[error("no {what} within {after:?}")]
    TimedOut {
        /// What was waited for.
        what: &'static str,
        /// How long.
        after: Duration,
    },
    /// The card refused the request.
    #[error("the card refused request {request}: {}", reason.map_or("reason not known", Statistic::name))]
    Refused {
        /// Its position among the terminus' requests, the first being 1.
        request: u64,
        /// The counter it went into; none if the card names one that this library does not know.
        reason: Option<Statistic>,
    },
    /// Notifications were overwritten before they were read (section 2.6). Said once; the queue works on.
    #[error("notification queue {queue} was overrun: {lost} notifications are lost (limit {entries} unread)")]
    Overrun {
        /// The queue's number on the card.
        queue: u32,
        /// How many were lost since it was last looked at.
        lost: u64,
        /// How many entries the queue has.
        entries: u32,
    },
    /// Bytes of a send buffer that the card may still gather from were to be changed.
    #[error("send buffer {tag}: request {request} still gathers from bytes {offset} to {end}")]
    InFlight {
        /// The send buffer's tag.
        tag: u32,
        /// The request's position among the terminus' requests.
        request: u64,
        /// First byte that is in use.
        offset: u64,
        /// First byte behind them.
        end: u64,
    },
    /// A piece of another terminus' send buffer was to be sent.
    #[error("send buffer {tag} belongs to another terminus")]
    ForeignBuffer {
        /// The send buffer's tag.
        tag: u32,
    },
    /// The card's link is down, so it has no host id for a ticket to name.
    #[error("the card's link to the switch is down: it has no host id")]
    LinkDown,
    /// There is no connection: it was refused, the host is not there, or it ended before it was accepted.
    #[error("no connection: {0}")]
    Ended(End),
    /// A connection that has ended, or a request that has been answered, was to be answered.
    #[error("the connection has ended")]
    NotConnected,
    /// Two things that do not go together.
    #[error("{0}")]
    Unsupported(&'static str),
    /// A ticket that cannot be read.
    #[error(transparent)]
    Ticket(#[from] TicketError),
    /// A seed that cannot be read.
    #[error(transparent)]
    Seed(#[from] SeedError),
    /// Nothing more is to be expected of the other end. A receiver says it once, behind all that came before.
    #[error("the peer is lost: {0}")]
    PeerLost(PeerLoss),
    /// What arrived is not what the protocol allows.
    #[error("the peer sent {0}")]
    Malformed(&'static str),
    /// A share that cannot be read, or not be divided like this.
    #[error(transparent)]
    Share(#[from] ShareError),
    /// The operating system or the driver refused.
    #[error("cannot {action}: {source}")]
    System {
        /// What was tried, with its object.
        action: String,
        /// The operating system's reason.
        source: io::Error,
    },
    /// The card refused a command (attached by socket, where the library plays the driver).
    #[error("cannot {action}: the card answers {status} (value {value}, limit {limit})")]
    Command {
        /// What was tried.
        action: &'static str,
        /// The card's status.
        status: &'static str,
        /// What was wrong.
        value: u64,
        /// What the limit is.
        limit: u64,
    },
    /// What is attached is not a card that this library knows.
    #[error("{object} {value:#x} is not what this library knows ({expected:#x})")]
    Incompatible {
        /// What was looked at.
        object: &'static str,
        /// What it is.
        value: u64,
        /// What it should be.
        expected: u64,
    },
}

impl Error {
    /// Whether the call would have had to wait.
    #[must_use]
    pub fn is_would_block(&self) -> bool {
        matches!(self, Error::WouldBlock { .. })
    }

    /// Whether time ran out.
    #[must_use]
    pub fn is_timed_out(&self) -> bool {
        matches!(self, Error::TimedOut { .. })
    }

    /// Whether it says that notifications were lost, and nothing worse.
    #[must_use]
    pub fn is_overrun(&self) -> bool {
        matches!(self, Error::Overrun { .. })
    }

    pub(crate) fn system(action: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let action = action.into();
        move |source| Error::System { action, source }
    }
}

/// Refuses a value over its limit.
#[inline]
pub(crate) fn at_most(object: &'static str, value: u64, limit: u64) -> Result<()> {
    if value > limit {
        return Err(Error::OutOfRange { object, value, limit });
    }
    Ok(())
}

/// Refuses bytes that do not lie inside `limit` bytes.
#[inline]
pub(crate) fn inside(object: &'static str, offset: u64, length: u64, limit: u64) -> Result<()> {
    if offset.checked_add(length).is_none_or(|end| end > limit) {
        return Err(Error::PastEnd { object, offset, length, limit });
    }
    Ok(())
}
