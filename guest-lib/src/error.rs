//! The library's error type. Each error names the object, the value and the limit.
//!
//! All cards share one error type, so that `?` works across them. What only one model's cards have
//! is behind a trait, [`ModelError`].

use std::fmt;
use std::io;
use std::time::Duration;

use crate::core::connection::end::End;
use crate::core::error_kind::{debug_is_display, kind_of};
use crate::core::express::ring::Nonsense;
use crate::core::loss::PeerLoss;

pub use crate::core::error_kind::{ErrorKind, ModelError};

/// Object of [`Error::Quota`] and [`Error::Exhausted`]: the driver has a fixed number per card.
pub(crate) const CONNECTIONS: &str = "connections and names";

/// Result of the library's calls.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call of the library failed. A failed call has changed nothing, unless its documentation
/// says what it leaves behind.
///
/// Programs act on [`Error::kind`]. The variants and their fields give details, mostly for human
/// readers. Conversion to [`io::Error`] keeps the kind. `{:?}` shows the same text as `{}`, because
/// a `main` that returns the error prints `{:?}`.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A length, index or number exceeds its limit.
    #[error("{object} {value} is out of range (limit {limit})")]
    OutOfRange {
        /// Name of the object.
        object: &'static str,
        /// Its value.
        value: u64,
        /// Largest value allowed.
        limit: u64,
    },
    /// A value is not a multiple of the required unit.
    #[error("{object} {value} is not a multiple of {multiple}")]
    Misaligned {
        /// Name of the object.
        object: &'static str,
        /// Its value.
        value: u64,
        /// Required unit.
        multiple: u64,
    },
    /// A byte range exceeds a memory, a buffer or a ticket.
    #[error("{length} bytes at offset {offset} reach past the end of the {object} (limit {limit})")]
    PastEnd {
        /// Name of the object.
        object: &'static str,
        /// First byte.
        offset: u64,
        /// Number of bytes.
        length: u64,
        /// Size of the object in bytes.
        limit: u64,
    },
    /// None is free at the moment. The card or the peer will release some: retry later, or wait.
    #[error("{}", all_in_use(object, *limit))]
    WouldBlock {
        /// Name of the object.
        object: &'static str,
        /// Total number, or 0 if it has no limit.
        limit: u32,
    },
    /// The user who opened the card has reached the per-user quota. Release something, or wait
    /// until other users do.
    #[error(
        "user {user} holds {held} {object} of the card and may hold no more (limit {limit}): the rest is others'. {}",
        what_gives_more(object)
    )]
    Quota {
        /// Name of the object.
        object: &'static str,
        /// User whose quota is exhausted.
        user: u32,
        /// Number the user holds, over all open files of that user.
        held: u32,
        /// Number the user may hold at present.
        limit: u32,
    },
    /// All are in use, and waiting does not help. This process or another must release some, or
    /// more must be configured.
    #[error("all {limit} {object} are in use: {remedy}")]
    Exhausted {
        /// Name of the object.
        object: &'static str,
        /// Total number.
        limit: u32,
        /// How to get more.
        remedy: &'static str,
    },
    /// The card's own memory has no free block that is large enough. This process or another must
    /// close something.
    #[error(
        "cannot {action}: card memory full: needs {needs} bytes in one piece, {free} of {room} are free (longest piece \
         {longest}): close some, or give the card more memory (hamlyn card --sram)"
    )]
    MemoryFull {
        /// Action that failed.
        action: String,
        /// Bytes needed.
        needs: u32,
        /// Bytes free.
        free: u32,
        /// Bytes of the longest free block.
        longest: u32,
        /// Total bytes.
        room: u32,
    },
    /// No memory that the card can reach is available. Either memory is exhausted, or the process
    /// may lock no more, counting all that its user has locked.
    #[error(
        "cannot {action}: there is no memory, or {bytes} bytes more are over what the process may lock (limit {limit} bytes, with \
         what its user has locked already): close some, or raise the limit (ulimit -l, LimitMEMLOCK= of a service)"
    )]
    Locked {
        /// Action that failed, with its object.
        action: String,
        /// Bytes needed.
        bytes: u64,
        /// `RLIMIT_MEMLOCK` of the process.
        limit: u64,
    },
    /// Another thread called [`crate::Waker::wake`].
    #[error("woken up before there was a {what}")]
    Woken {
        /// What the call waited for.
        what: &'static str,
    },
    /// The event did not happen before the timeout.
    #[error("no {what} within {after:?}")]
    TimedOut {
        /// What the call waited for.
        what: &'static str,
        /// The timeout.
        after: Duration,
    },
    /// Some packets of a message have arrived, but the rest do not: the sender, a card or the
    /// switch failed half-way. Until the receiver is reset, no multi-packet message is recognized
    /// as complete.
    #[error("a {what} is incomplete: nothing more of it has come for {after:?}")]
    Incomplete {
        /// What the call waited for.
        what: &'static str,
        /// Time since the last packet.
        after: Duration,
    },
    /// The card's link is down, so that it has no host id to put into a ticket.
    #[error("the card's link to the switch is down: it has no host id")]
    LinkDown,
    /// The connection was not established: it was refused, the host is absent, or it ended before
    /// it was accepted.
    #[error("not connected: {0}")]
    Ended(End),
    /// The connection has ended, or the request was already answered.
    #[error("the connection has ended")]
    NotConnected,
    /// The caller has already closed the object.
    #[error("{0} is closed")]
    Closed(&'static str),
    /// The call is invalid: a bug in the caller.
    #[error("{0}")]
    Invalid(&'static str),
    /// This card, or this attachment, does not support the operation.
    #[error("{0}")]
    Unsupported(&'static str),
    /// Nothing more will come from the peer. A receiver reports this once, after everything that
    /// arrived before.
    #[error("the peer is lost: {0}")]
    PeerLost(PeerLoss),
    /// The arrived data violates the protocol.
    #[error("the peer sent {0}")]
    Malformed(&'static str),
    /// The peer stored an impossible value in express memory. The channel has ended.
    #[error("the peer makes no sense: {0}")]
    Nonsense(#[from] Nonsense),
    /// An error that only one model's cards have. [`Error::of`] returns it.
    #[error("{0}")]
    Model(Box<dyn ModelError>),
    /// The operating system or the driver refused the call.
    #[error("cannot {action}: {source}{}", remedy(action, source))]
    System {
        /// Action that failed, with its object.
        action: String,
        /// Reason from the operating system.
        source: io::Error,
    },
    /// The card refused a command (attached by socket, where the library acts as the driver).
    #[error("cannot {action}: the card answers {status} (value {value}, limit {limit})")]
    Command {
        /// Action that failed.
        action: &'static str,
        /// Status from the card.
        status: &'static str,
        /// Offending value.
        value: u64,
        /// The limit.
        limit: u64,
    },
    /// The attached device is not a card that this library knows.
    #[error("{object} {} is not what this library knows ({})", shown(object, *value), shown(object, *expected))]
    Incompatible {
        /// Name of the object that was checked.
        object: &'static str,
        /// Value found.
        value: u64,
        /// Value expected.
        expected: u64,
    },
    /// The card is of another model than the one requested.
    #[error("{node} is a card of model {model}, not of model {expected} ({name})")]
    OtherModel {
        /// Node of the card.
        node: String,
        /// Model that the card reports.
        model: u32,
        /// Model that was requested.
        expected: u32,
        /// Name of the requested model.
        name: &'static str,
    },
}

impl Error {
    /// Returns the category of the error, for programs to act on.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::WouldBlock { .. } => ErrorKind::WouldBlock,
            Error::TimedOut { .. } => ErrorKind::TimedOut,
            Error::Woken { .. } => ErrorKind::Woken,
            Error::Exhausted { .. }
            | Error::MemoryFull { .. }
            | Error::Quota { .. }
            | Error::Locked { .. } => ErrorKind::Exhausted,
            Error::OutOfRange { .. }
            | Error::Misaligned { .. }
            | Error::PastEnd { .. }
            | Error::Invalid(_) => ErrorKind::Invalid,
            Error::Model(why) => why.kind(),
            Error::Closed(_) => ErrorKind::Closed,
            Error::PeerLost(_) | Error::Ended(_) | Error::NotConnected => ErrorKind::PeerLost,
            Error::Unsupported(_) | Error::Incompatible { .. } | Error::OtherModel { .. } => {
                ErrorKind::Unsupported
            }
            Error::Command { .. } => ErrorKind::Refused,
            Error::LinkDown => ErrorKind::LinkDown,
            Error::Malformed(_) | Error::Nonsense(_) => ErrorKind::Malformed,
            Error::Incomplete { .. } => ErrorKind::Incomplete,
            Error::System { source, .. } => kind_of(source),
        }
    }

    /// Returns the error of this type, if only one model's cards have it and this is one.
    #[must_use]
    pub fn of<E: ModelError>(&self) -> Option<&E> {
        match self {
            Error::Model(why) => why.as_any().downcast_ref(),
            _ => None,
        }
    }

    /// Returns whether the call would have blocked.
    #[must_use]
    pub fn is_would_block(&self) -> bool {
        self.kind() == ErrorKind::WouldBlock
    }

    /// Returns whether the call timed out.
    #[must_use]
    pub fn is_timed_out(&self) -> bool {
        self.kind() == ErrorKind::TimedOut
    }

    /// Returns whether all are in use (for this user), so that waiting does not help.
    #[must_use]
    pub fn is_exhausted(&self) -> bool {
        self.kind() == ErrorKind::Exhausted
    }

    /// Returns whether the error only reports lost notifications.
    #[must_use]
    pub fn is_overrun(&self) -> bool {
        self.kind() == ErrorKind::Overrun
    }

    pub(crate) fn system(action: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let action = action.into();
        move |source| Error::System { action, source }
    }
}

impl<E: ModelError> From<E> for Error {
    fn from(why: E) -> Self {
        Error::Model(Box::new(why))
    }
}

debug_is_display!(Error);

/// Keeps the kind if the standard library has it; [`io::Error::downcast`] returns this error.
impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        let kind = match error.kind() {
            ErrorKind::WouldBlock => io::ErrorKind::WouldBlock,
            ErrorKind::TimedOut => io::ErrorKind::TimedOut,
            ErrorKind::Exhausted => io::ErrorKind::StorageFull,
            ErrorKind::Invalid => io::ErrorKind::InvalidInput,
            ErrorKind::Closed => io::ErrorKind::BrokenPipe,
            ErrorKind::PeerLost => match &error {
                Error::NotConnected => io::ErrorKind::NotConnected,
                Error::PeerLost(PeerLoss::Host) => io::ErrorKind::HostUnreachable,
                Error::PeerLost(PeerLoss::Link) => io::ErrorKind::NetworkDown,
                Error::PeerLost(PeerLoss::CardReset) => io::ErrorKind::ConnectionAborted,
                _ => io::ErrorKind::ConnectionReset,
            },
            ErrorKind::Unsupported => io::ErrorKind::Unsupported,
            ErrorKind::Refused => io::ErrorKind::PermissionDenied,
            ErrorKind::InFlight => io::ErrorKind::ResourceBusy,
            ErrorKind::LinkDown => io::ErrorKind::NetworkDown,
            ErrorKind::Malformed => io::ErrorKind::InvalidData,
            ErrorKind::Incomplete => io::ErrorKind::UnexpectedEof,
            ErrorKind::System => match &error {
                Error::System { source, .. } => source.kind(),
                _ => io::ErrorKind::Other,
            },
            // Not `Interrupted`: the standard library retries that by itself.
            ErrorKind::Woken | ErrorKind::Overrun => io::ErrorKind::Other,
        };
        io::Error::new(kind, error)
    }
}

/// Error of a call that took a value by move and returns it on failure.
#[derive(thiserror::Error)]
#[error("{error}")]
#[non_exhaustive]
pub struct GivenBack<T: std::fmt::Debug> {
    /// Why the call failed.
    pub error: Error,
    /// The value that the call took.
    pub back: T,
}

impl<T: std::fmt::Debug> GivenBack<T> {
    /// Creates an error that returns `back`, for custom attachments.
    #[must_use]
    pub fn new(error: Error, back: T) -> Self {
        Self { error, back }
    }
}

impl<T: fmt::Debug> fmt::Debug for GivenBack<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Drops the value, for callers that do not need it.
impl<T: std::fmt::Debug> From<GivenBack<T>> for Error {
    fn from(failed: GivenBack<T>) -> Self {
        failed.error
    }
}

/// Returns a hint if a card's device is missing. The environment variable is derived from the
/// device name.
fn remedy(action: &str, source: &io::Error) -> String {
    let device = action.strip_prefix("open /dev/").filter(|_| source.kind() == io::ErrorKind::NotFound);
    let Some(device) = device else { return String::new() };
    let model = device.trim_end_matches(|digit: char| digit.is_ascii_digit()).to_ascii_uppercase();
    format!(
        ": is the driver loaded (insmod hamlyn.ko)? {model}_CARD names another card, vfio-user:PATH a card's socket"
    )
}

/// Says that none is available, of objects with a limit or without one.
fn all_in_use(object: &str, limit: u32) -> String {
    match limit {
        0 => format!("no {object} are available now"),
        _ => format!("all {limit} {object} are in use"),
    }
}

/// Formats versions as `major.minor`, other values in hexadecimal.
fn shown(object: &str, value: u64) -> String {
    if object.ends_with("version") {
        format!("{}.{}", value >> 16, value & 0xffff)
    } else {
        format!("{value:#x}")
    }
}

/// Returns how a user can get more of a card's or the driver's resources.
fn what_gives_more(object: &str) -> &'static str {
    if object == CONNECTIONS {
        "Another share gives each more (/sys/module/hamlyn/parameters/share)"
    } else {
        "A card with more (hamlyn card --termini, --queues, --sram) has more for each, and so has another share \
         (/sys/module/hamlyn/parameters/share)"
    }
}

/// Fails with [`Error::OutOfRange`] if `value` exceeds `limit`.
#[inline]
pub(crate) fn at_most(object: &'static str, value: u64, limit: u64) -> Result<()> {
    if value > limit {
        return Err(Error::OutOfRange { object, value, limit });
    }
    Ok(())
}

/// Fails with [`Error::PastEnd`] if the bytes do not lie within `limit` bytes.
#[inline]
pub(crate) fn inside(object: &'static str, offset: u64, length: u64, limit: u64) -> Result<()> {
    if offset.checked_add(length).is_none_or(|end| end > limit) {
        return Err(Error::PastEnd { object, offset, length, limit });
    }
    Ok(())
}

#[cfg(test)]
#[path = "error_tests.rs"]
mod tests;
