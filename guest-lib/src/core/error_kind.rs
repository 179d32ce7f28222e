//! Kinds of errors, and errors of one model's cards.

use std::any::Any;
use std::io;

use rustix::io::Errno;

/// What a program can do about an [`crate::Error`]. In C each kind has an errno.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Not now: wait, or retry later. `EAGAIN`.
    WouldBlock,
    /// The timeout expired. `ETIMEDOUT`.
    TimedOut,
    /// Another thread ended the wait. `ECANCELED`.
    Woken,
    /// None is left, or the user's quota is reached: release some, or have the operator configure
    /// more. `ENOSPC`, `EDQUOT`, or the system's own errno: `ENOMEM`, `EMFILE`.
    Exhausted,
    /// A bug in the caller. `EINVAL`; for a mapping that cannot be made like this also `ERANGE`,
    /// `EDOM` or `EBUSY`.
    Invalid,
    /// The caller has closed the object. `EPIPE`.
    Closed,
    /// The peer is gone or absent: drop the objects that were for it. One of `ECONNRESET`,
    /// `ECONNREFUSED`, `EHOSTDOWN`, `EHOSTUNREACH`, `ENETDOWN`, `ENOTCONN`. `EOVERFLOW` if it is
    /// unknown what the peer sent.
    PeerLost,
    /// The card, the driver or the attachment does not support this. `EOPNOTSUPP`, or `EPROTO` for
    /// another version.
    Unsupported,
    /// The card refused (see its counters), or the other host's operating system did. `EPERM`, and
    /// `EACCES` for a mapping.
    Refused,
    /// Notifications were overwritten: resynchronize from a known state. `EOVERFLOW`.
    Overrun,
    /// The card may still read the bytes: wait until they are sent. `EBUSY`.
    InFlight,
    /// The link to the switch is down. `ENETDOWN`.
    LinkDown,
    /// The peer violates the protocol. `EBADMSG`.
    Malformed,
    /// A message was lost half-way: reset its receiver. `ENODATA`.
    Incomplete,
    /// Any other error of the operating system: its errno.
    System,
}

/// Maps an operating system error to a kind.
pub(crate) fn kind_of(source: &io::Error) -> ErrorKind {
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

/// An error that only one model's cards have, or objects of theirs. [`crate::Error::of`] returns
/// it.
pub trait ModelError: std::error::Error + Send + Sync + 'static {
    /// Returns the model's name.
    fn model(&self) -> &'static str;

    /// Returns what a program can do about it.
    fn kind(&self) -> ErrorKind;

    /// Returns the error itself, to find out its type.
    fn as_any(&self) -> &dyn Any;
}

/// Makes errors those of a model, each with its kind.
macro_rules! model_errors {
    ($model:literal, $($error:ty => $kind:expr),+ $(,)?) => {
        $(impl $crate::core::error_kind::ModelError for $error {
            fn model(&self) -> &'static str {
                $model
            }

            fn kind(&self) -> $crate::core::error_kind::ErrorKind {
                let kind: fn(&Self) -> $crate::core::error_kind::ErrorKind = $kind;
                kind(self)
            }

            fn as_any(&self) -> &dyn std::any::Any {
                self
            }
        })+
    };
}
pub(crate) use model_errors;

/// Makes `{:?}` show the text of `{}`.
macro_rules! debug_is_display {
    ($($error:ty),+) => {
        $(impl std::fmt::Debug for $error {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(self, f)
            }
        })+
    };
}
pub(crate) use debug_is_display;
