//! Kinds of errors.

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
