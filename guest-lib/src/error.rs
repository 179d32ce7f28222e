//! What can go wrong, with the object, the value and the limit.
//!
//! The crate has one error for all cards, so that `?` carries it through: this file alone knows
//! what each of them adds to it.

use std::fmt;
use std::io;
use std::time::Duration;

use hamlyn_abi::hamlyn::statistics::Statistic;
use rustix::io::Errno;

use crate::clan::{DescriptorError, DmaError, Fault, TripwireError};
use crate::core::connection::End;
use crate::core::express::ring::Nonsense;
use crate::core::loss::PeerLoss;
use crate::dart::{AddressError, Broken, Trap};
use crate::hamlyn::group::ShareError;
use crate::hamlyn::seed::SeedError;
use crate::hamlyn::ticket::TicketError;
use crate::shrimp::{HandleError, MappingError};

/// Result of the library's calls.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call of the library failed. It has changed nothing then, unless the call says what it
/// leaves behind.
///
/// [`Error::kind`] is what a program acts on; the variants and their fields say more, to people
/// above all. As an [`io::Error`] it keeps its kind. `{:?}` shows the same text as `{}`: it is what
/// a `main` that returns the error prints.
#[derive(thiserror::Error)]
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
    /// There is none now. The card or the peer gives some back by and by: call again later, or
    /// wait.
    #[error("all {limit} {object} are in use")]
    WouldBlock {
        /// What.
        object: &'static str,
        /// How many there are.
        limit: u32,
    },
    /// The user who opened the card holds as much of it as one user may: the rest is left to
    /// others. Give something back, or wait until others do.
    #[error(
        "user {user} holds {held} {object} of the card and may hold no more (limit {limit}): the rest is others'. {}",
        what_gives_more(object)
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
    /// There is none left, and to wait is of no use: this process, or another, has to give some
    /// back, or there must be more.
    #[error("all {limit} {object} are in use: {remedy}")]
    Exhausted {
        /// What.
        object: &'static str,
        /// How many there are.
        limit: u32,
        /// How to have more.
        remedy: &'static str,
    },
    /// The card's own memory has no free piece that is long enough: this process, or another, has
    /// to close something.
    #[error(
        "cannot {action}: card memory full: needs {needs} bytes in one piece, {free} of {room} are free (longest piece \
         {longest}): close some, or give the card more memory (hamlyn card --sram)"
    )]
    MemoryFull {
        /// What was to be done.
        action: String,
        /// Bytes that it needs.
        needs: u32,
        /// Bytes that are free.
        free: u32,
        /// Bytes of the longest free piece.
        longest: u32,
        /// Bytes that there are.
        room: u32,
    },
    /// There is no memory that the card may reach: there is none, or the process may lock no more,
    /// all that its user has locked included.
    #[error(
        "cannot {action}: there is no memory, or {bytes} bytes more are over what the process may lock (limit {limit} bytes, with \
         what its user has locked already): close some, or raise the limit (ulimit -l, LimitMEMLOCK= of a service)"
    )]
    Locked {
        /// What was tried, with its object.
        action: String,
        /// How many bytes it takes.
        bytes: u64,
        /// The process' `RLIMIT_MEMLOCK`.
        limit: u64,
    },
    /// Another thread has called [`crate::Waker::wake`].
    #[error("woken up before there was a {what}")]
    Woken {
        /// What was waited for.
        what: &'static str,
    },
    /// It did not happen in time.
    #[error("no {what} within {after:?}")]
    TimedOut {
        /// What was waited for.
        what: &'static str,
        /// How long.
        after: Duration,
    },
    /// Packets of a message have arrived, and the rest do not come: its sender, a card or the
    /// switch was lost half-way. Until the receiver is reset no message of several packets is seen
    /// as whole.
    #[error("a {what} is incomplete: nothing more of it has come for {after:?}")]
    Incomplete {
        /// What was waited for.
        what: &'static str,
        /// How long nothing has come.
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
    /// Notifications were overwritten before they were read (section 2.6). Said once; the queue
    /// works on.
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
    /// There is no connection: it was refused, the host is not there, or it ended before it was
    /// accepted.
    #[error("not connected: {0}")]
    Ended(End),
    /// A connection that has ended, or a request that has been answered, was to be answered.
    #[error("the connection has ended")]
    NotConnected,
    /// The caller has closed it before.
    #[error("{0} is closed")]
    Closed(&'static str),
    /// The call makes no sense: a mistake of the caller's.
    #[error("{0}")]
    Invalid(&'static str),
    /// This card, or this way to reach it, does not have that.
    #[error("{0}")]
    Unsupported(&'static str),
    /// A ticket that cannot be read.
    #[error(transparent)]
    Ticket(#[from] TicketError),
    /// A seed that cannot be read.
    #[error(transparent)]
    Seed(#[from] SeedError),
    /// Nothing more is to be expected of the other end. A receiver says it once, behind all that
    /// came before.
    #[error("the peer is lost: {0}")]
    PeerLost(PeerLoss),
    /// What arrived is not what the protocol allows.
    #[error("the peer sent {0}")]
    Malformed(&'static str),
    /// What the other end of express memory stored cannot be. The channel has ended with it.
    #[error("the peer makes no sense: {0}")]
    Nonsense(#[from] Nonsense),
    /// A share that cannot be read, or not be divided like this.
    #[error(transparent)]
    Share(#[from] ShareError),
    /// A handle that cannot be read.
    #[error(transparent)]
    Handle(#[from] HandleError),
    /// A send buffer that leads nowhere.
    #[error(transparent)]
    Mapping(#[from] MappingError),
    /// A descriptor that cannot be read.
    #[error(transparent)]
    Descriptor(#[from] DescriptorError),
    /// A Tripwire that cannot be set like this.
    #[error(transparent)]
    Tripwire(#[from] TripwireError),
    /// A load or store of another host's memory came to nothing.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// A DMA request that failed.
    #[error(transparent)]
    Dma(#[from] DmaError),
    /// An address that cannot be read.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// A connection that takes and sends nothing any more.
    #[error(transparent)]
    Broken(#[from] Broken),
    /// A message that was not executed at the other end.
    #[error("a message was not executed: {0}")]
    Trap(#[from] Trap),
    /// The operating system or the driver refused.
    #[error("cannot {action}: {source}{}", remedy(action, source))]
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
    #[error("{object} {} is not what this library knows ({})", shown(object, *value), shown(object, *expected))]
    Incompatible {
        /// What was looked at.
        object: &'static str,
        /// What it is.
        value: u64,
        /// What it should be.
        expected: u64,
    },
    /// The card is of another model than was to be opened.
    #[error("{node} is a card of model {model}, not of model {expected} ({name})")]
    OtherModel {
        /// Which card.
        node: String,
        /// The model that it says it is.
        model: u32,
        /// The model that was to be opened.
        expected: u32,
        /// That model's name.
        name: &'static str,
    },
}

impl Error {
    /// What a program can do about it.
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
            | Error::ForeignBuffer { .. }
            | Error::Invalid(_)
            | Error::Ticket(_)
            | Error::Seed(_)
            | Error::Share(_)
            | Error::Handle(_)
            | Error::Descriptor(_)
            | Error::Address(_) => ErrorKind::Invalid,
            Error::Mapping(why) => why.kind(),
            Error::Tripwire(why) => why.kind(),
            Error::Fault(why) => why.kind(),
            Error::Dma(why) => why.kind(),
            Error::Broken(why) => why.kind(),
            Error::Closed(_) => ErrorKind::Closed,
            Error::PeerLost(_) | Error::Ended(_) | Error::NotConnected => ErrorKind::PeerLost,
            Error::Unsupported(_) | Error::Incompatible { .. } | Error::OtherModel { .. } => {
                ErrorKind::Unsupported
            }
            Error::Refused { .. } | Error::Command { .. } | Error::Trap(_) => ErrorKind::Refused,
            Error::Overrun { .. } => ErrorKind::Overrun,
            Error::InFlight { .. } => ErrorKind::InFlight,
            Error::LinkDown => ErrorKind::LinkDown,
            Error::Malformed(_) | Error::Nonsense(_) => ErrorKind::Malformed,
            Error::Incomplete { .. } => ErrorKind::Incomplete,
            Error::System { source, .. } => kind_of(source),
        }
    }

    /// Whether the call would have had to wait.
    #[must_use]
    pub fn is_would_block(&self) -> bool {
        self.kind() == ErrorKind::WouldBlock
    }

    /// Whether time ran out.
    #[must_use]
    pub fn is_timed_out(&self) -> bool {
        self.kind() == ErrorKind::TimedOut
    }

    /// Whether there is none left (for this user), so that to wait is of no use.
    #[must_use]
    pub fn is_exhausted(&self) -> bool {
        self.kind() == ErrorKind::Exhausted
    }

    /// Whether it says that notifications were lost, and nothing worse.
    #[must_use]
    pub fn is_overrun(&self) -> bool {
        self.kind() == ErrorKind::Overrun
    }

    pub(crate) fn system(action: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let action = action.into();
        move |source| Error::System { action, source }
    }
}

/// Has `{:?}` show the text of `{}`.
macro_rules! debug_is_display {
    ($($error:ty),+) => {
        $(impl fmt::Debug for $error {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        })+
    };
}

debug_is_display!(Error, TicketError, SeedError, HandleError, DescriptorError, AddressError);

/// What a program can do about an [`Error`]. In C each has an errno.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Not now: wait, or call again later. `EAGAIN`.
    WouldBlock,
    /// Not in the time that was given. `ETIMEDOUT`.
    TimedOut,
    /// Another thread wanted the waiting to end. `ECANCELED`.
    Woken,
    /// There is none left, or no more for this user: give some back, or have the operator set up
    /// more. `ENOSPC`, `EDQUOT`, or what the system said: `ENOMEM`, `EMFILE`.
    Exhausted,
    /// A mistake of the caller's. `EINVAL`; of a mapping that cannot be made like this also
    /// `ERANGE`, `EDOM` or `EBUSY`.
    Invalid,
    /// The caller has closed it. `EPIPE`.
    Closed,
    /// The other end is gone, or there is none: give up what was for it. One of `ECONNRESET`,
    /// `ECONNREFUSED`, `EHOSTDOWN`, `EHOSTUNREACH`, `ENETDOWN`, `ENOTCONN` and, if nobody knows
    /// what it sent, `EOVERFLOW`.
    PeerLost,
    /// This card, driver or way to reach it cannot do it. `EOPNOTSUPP`, or `EPROTO` for another
    /// version.
    Unsupported,
    /// The card would not do it: see its counters; or the other host's operating system would not:
    /// `EPERM`, and `EACCES` for a mapping.
    Refused,
    /// Notifications were overwritten: start again from what is known. `EOVERFLOW`.
    Overrun,
    /// The card may still read it: wait until it is sent. `EBUSY`.
    InFlight,
    /// There is no link to the switch. `ENETDOWN`.
    LinkDown,
    /// The peer does not keep to the protocol. `EBADMSG`.
    Malformed,
    /// A message was lost half-way: reset its receiver. `ENODATA`.
    Incomplete,
    /// Anything else that the operating system says: its errno.
    System,
}

/// What an operating system's answer is about.
fn kind_of(source: &io::Error) -> ErrorKind {
    let Some(errno) = source.raw_os_error().map(Errno::from_raw_os_error) else { return ErrorKind::System };
    match errno {
        Errno::AGAIN => ErrorKind::WouldBlock,
        Errno::TIMEDOUT => ErrorKind::TimedOut,
        Errno::NOSPC | Errno::NOMEM | Errno::MFILE | Errno::NFILE | Errno::DQUOT | Errno::USERS => {
            ErrorKind::Exhausted
        }
        Errno::INVAL => ErrorKind::Invalid,
        Errno::OPNOTSUPP | Errno::NOTTY => ErrorKind::Unsupported,
        _ => ErrorKind::System,
    }
}

/// With the same kind, as far as the standard library has one; [`io::Error::downcast`] gives this
/// error back.
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
            // Not `Interrupted`, after which the standard library tries again by itself.
            ErrorKind::Woken | ErrorKind::Overrun => io::ErrorKind::Other,
        };
        io::Error::new(kind, error)
    }
}

/// A call that took something, failed, and gives it back.
#[derive(thiserror::Error)]
#[error("{error}")]
#[non_exhaustive]
pub struct GivenBack<T: std::fmt::Debug> {
    /// Why it failed.
    pub error: Error,
    /// What it took.
    pub back: T,
}

impl<T: std::fmt::Debug> GivenBack<T> {
    /// Gives back what a call took, for an attachment of one's own.
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

/// For who does not want it back: it is dropped.
impl<T: std::fmt::Debug> From<GivenBack<T>> for Error {
    fn from(failed: GivenBack<T>) -> Self {
        failed.error
    }
}

/// What helps if a card's device is not there: a card's environment variable has the name of its
/// device.
fn remedy(action: &str, source: &io::Error) -> String {
    let device = action.strip_prefix("open /dev/").filter(|_| source.kind() == io::ErrorKind::NotFound);
    let Some(device) = device else { return String::new() };
    let model = device.trim_end_matches(|digit: char| digit.is_ascii_digit()).to_ascii_uppercase();
    format!(
        ": is the driver loaded (insmod hamlyn.ko)? {model}_CARD names another card, vfio-user:PATH a card's socket"
    )
}

/// Versions as people write them, all else in hexadecimal.
fn shown(object: &str, value: u64) -> String {
    if object.ends_with("version") {
        format!("{}.{}", value >> 16, value & 0xffff)
    } else {
        format!("{value:#x}")
    }
}

/// What gives a user more of what cards have, or of what the driver has.
fn what_gives_more(object: &str) -> &'static str {
    if object == crate::core::attach::CONNECTIONS {
        "Another share gives each more (/sys/module/hamlyn/parameters/share)"
    } else {
        "A card with more (hamlyn card --termini, --queues, --sram) has more for each, and so has another share \
         (/sys/module/hamlyn/parameters/share)"
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

#[cfg(test)]
#[path = "error_tests.rs"]
mod tests;
