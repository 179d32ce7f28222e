//! Names and connections (section 6.3). Each listener and connection is a file of its own.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::call::iowr;
use super::object::UlnObject;

/// Takes a name, under which processes of any host may connect, and returns a listener, a file of
/// its own. Argument: [`UlnListen`]. Fails with `EADDRINUSE` if the name is taken. `EACCES`: the
/// name begins with `system/`, and the caller lacks `CAP_NET_BIND_SERVICE`; or with `kernel/`, as
/// those names are for operating systems; or with `tcp/`, and `socket` is not the connection that
/// it names. `EOPNOTSUPP`: the driver lacks [`super::query::ULN_CAPABILITY_CONNECTIONS`].
pub const ULN_IOC_LISTEN: u32 = iowr::<UlnListen>(14);
/// Requests a connection, and returns it at once, as a file of its own. Argument:
/// [`UlnConnect`]. Fails with `EHOSTUNREACH` if the host id is 64 or more, or the switch has no
/// port for it, with `EACCES` if the name begins with `kernel/`, and with `EOPNOTSUPP` without
/// [`super::query::ULN_CAPABILITY_CONNECTIONS`].
pub const ULN_IOC_CONNECT: u32 = iowr::<UlnConnect>(15);
/// On a listener: returns the next requested connection, as a file of its own. Argument:
/// [`UlnObject`], zero. Fails with `EAGAIN` if there is none.
pub const ULN_IOC_NEXT_REQUEST: u32 = iowr::<UlnObject>(16);
/// On a connection: returns its state. Argument: [`UlnConnectionState`].
pub const ULN_IOC_CONNECTION_QUERY: u32 = iowr::<UlnConnectionState>(17);
/// On a requested connection: accepts it. Argument: [`UlnPrivate`]. Fails with `ENOTCONN` if it
/// has ended.
pub const ULN_IOC_ACCEPT: u32 = iowr::<UlnPrivate>(18);
/// On a requested connection: rejects it. Argument: [`UlnPrivate`]. Fails with `ENOTCONN` if it
/// has ended.
pub const ULN_IOC_REJECT: u32 = iowr::<UlnPrivate>(19);
/// On a connection: ends it gracefully (section 6.4). Argument: [`UlnPrivate`]. Fails with
/// `ENOTCONN` if it has ended.
pub const ULN_IOC_CLOSE: u32 = iowr::<UlnPrivate>(20);
/// Asks whether a process listens under a name. Returns the question at once, as a file of its own,
/// which has a state and is polled like a connection. Argument: [`UlnConnect`] without private
/// data.
///
/// The question ends with the answer: [`ULN_END_LISTENING`] or [`ULN_END_NOT_LISTENING`]. Without
/// an answer, its end reports the reason ([`ULN_END_NO_NAME`]: that host's driver is too old to
/// support questions). Errors are those of [`ULN_IOC_CONNECT`], and `ENOTTY` without
/// [`super::query::ULN_CAPABILITY_QUESTIONS`].
pub const ULN_IOC_ASK: u32 = iowr::<UlnConnect>(24);

/// The longest name of a listener, in bytes.
pub const ULN_MAX_NAME: u32 = 64;
/// Maximum private data in a request, its answer or a close, in bytes.
pub const ULN_MAX_PRIVATE: u32 = 256;
/// Maximum backlog of a listener.
pub const ULN_MAX_BACKLOG: u32 = 1024;
/// Maximum number of connections and listeners of a card's driver.
pub const ULN_MAX_CONNECTIONS: u32 = 16384;

/// State of a connection: requested by this side; the other side has not answered.
pub const ULN_CONNECTION_CONNECTING: u32 = 1;
/// State of a connection: requested by the other side; this side has not answered.
pub const ULN_CONNECTION_REQUESTED: u32 = 2;
/// State of a connection: accepted.
pub const ULN_CONNECTION_ESTABLISHED: u32 = 3;
/// State of a connection: ended.
pub const ULN_CONNECTION_ENDED: u32 = 4;

/// Why a connection ended: the peer closed it gracefully.
pub const ULN_END_CLOSED: u32 = 1;
/// Why a connection ended: the peer's process died, or released the connection without closing it.
pub const ULN_END_DIED: u32 = 2;
/// Why a connection ended: the peer's host does not respond.
pub const ULN_END_HOST_LOST: u32 = 3;
/// Why a connection ended: the peer's host or its card has restarted, or was stopped for a while,
/// and lost the connection.
pub const ULN_END_HOST_RESET: u32 = 4;
/// Why a connection ended: this host's link went down.
pub const ULN_END_LINK_LOST: u32 = 5;
/// Why a connection ended: this host was stopped for a while, and its card discarded what arrived
/// (section 2.8).
pub const ULN_END_LAPSED: u32 = 6;
/// Why a connection ended: this host's card was reset, removed, or failed.
pub const ULN_END_CARD_RESET: u32 = 7;
/// Why a connection was refused: no process listens under that name.
pub const ULN_END_NO_NAME: u32 = 8;
/// Why a connection was refused: the listener's backlog is full.
pub const ULN_END_BACKLOG: u32 = 9;
/// Why a connection was refused: the listener rejected it.
pub const ULN_END_REJECTED: u32 = 10;
/// How a question ended: a process listens under that name.
pub const ULN_END_LISTENING: u32 = 11;
/// How a question ended: no process listens under that name.
pub const ULN_END_NOT_LISTENING: u32 = 12;

/// A name to listen under.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct UlnListen {
    /// In: bytes of the name, 1 to [`ULN_MAX_NAME`].
    pub name_length: u32,
    /// In: maximum number of waiting requests, 1 to [`ULN_MAX_BACKLOG`].
    pub backlog: u32,
    /// In: for a name `tcp/ADDRESS:PORT-ADDRESS:PORT`, the descriptor plus 1 of the TCP connection
    /// with these ends, the caller's first (IPv4, in the initial network namespace); else zero.
    pub socket: u32,
    /// Zero.
    pub reserved0: u32,
    /// Zero.
    pub reserved1: u64,
    /// In: the name, any bytes, padded with zeros.
    pub name: [u8; 64],
}

/// Destination of a connection or question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct UlnConnect {
    /// In: the host id.
    pub host: u32,
    /// In: bytes of the name, 1 to [`ULN_MAX_NAME`].
    pub name_length: u32,
    /// In: bytes of private data, 0 to [`ULN_MAX_PRIVATE`].
    pub private_length: u32,
    /// Zero.
    pub reserved0: u32,
    /// Zero.
    pub reserved1: u64,
    /// In: the name, padded with zeros.
    pub name: [u8; 64],
    /// In: private data for the listener, padded with zeros.
    pub data: [u8; 256],
}

/// State of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct UlnConnectionState {
    /// Out: `ULN_CONNECTION_*`.
    pub state: u32,
    /// Out: `ULN_END_*` if the connection has ended, otherwise zero.
    pub reason: u32,
    /// Out: the peer's host id.
    pub host: u32,
    /// Out: bytes of private data.
    pub private_length: u32,
    /// Out: the peer's user id plus 1, as reported by the peer's operating system; 0 if not
    /// reported.
    pub user: u32,
    /// Zero.
    pub reserved: u32,
    /// Out: the private data of the peer's last request, answer or close, padded with zeros.
    pub data: [u8; 256],
}

/// Private data for the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct UlnPrivate {
    /// In: bytes, 0 to [`ULN_MAX_PRIVATE`].
    pub length: u32,
    /// Zero.
    pub reserved: u32,
    /// In: the bytes, padded with zeros.
    pub data: [u8; 256],
}
