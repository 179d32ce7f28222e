//! Names and connections (section 6.3), which are files of their own.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::call::iowr;
use super::object::HamlynObject;

/// Takes a name, under which processes of any host may connect: answers a listener, a file of its
/// own. Argument: [`HamlynListen`]. `EADDRINUSE`; `EACCES` for a name that begins with `system/`,
/// without `CAP_NET_BIND_SERVICE`; `EOPNOTSUPP` without
/// [`super::query::HAMLYN_CAPABILITY_CONNECTIONS`].
pub const HAMLYN_IOC_LISTEN: u32 = iowr::<HamlynListen>(14);
/// Asks for a connection: answers it, a file of its own, at once. Argument: [`HamlynConnect`].
/// `EHOSTUNREACH` for a host id of 64 or more, or that the switch has no port for; `EOPNOTSUPP`
/// without [`super::query::HAMLYN_CAPABILITY_CONNECTIONS`].
pub const HAMLYN_IOC_CONNECT: u32 = iowr::<HamlynConnect>(15);
/// On a listener: answers the next connection that is asked for, a file of its own. Argument:
/// [`HamlynObject`], zero. `EAGAIN` if there is none.
pub const HAMLYN_IOC_NEXT_REQUEST: u32 = iowr::<HamlynObject>(16);
/// On a connection: how it stands. Argument: [`HamlynConnectionState`].
pub const HAMLYN_IOC_CONNECTION_QUERY: u32 = iowr::<HamlynConnectionState>(17);
/// On a connection that was asked for: accepts it. Argument: [`HamlynPrivate`]. `ENOTCONN`: it has
/// ended.
pub const HAMLYN_IOC_ACCEPT: u32 = iowr::<HamlynPrivate>(18);
/// On a connection that was asked for: rejects it. Argument: [`HamlynPrivate`]. `ENOTCONN`: it has
/// ended.
pub const HAMLYN_IOC_REJECT: u32 = iowr::<HamlynPrivate>(19);
/// On a connection: ends it gracefully (section 6.4). Argument: [`HamlynPrivate`]. `ENOTCONN`: it
/// has ended.
pub const HAMLYN_IOC_CLOSE: u32 = iowr::<HamlynPrivate>(20);
/// Asks whether anybody listens under a name: answers the question at once, a file of its own,
/// which stands and is polled as a connection's does, and ends with the answer:
/// [`HAMLYN_END_LISTENING`], [`HAMLYN_END_NOBODY`], or why there is none ([`HAMLYN_END_NO_NAME`]:
/// that host's driver is too old to know questions). Argument: [`HamlynConnect`] without private
/// data. Errors as for [`HAMLYN_IOC_CONNECT`]; `ENOTTY` without
/// [`super::query::HAMLYN_CAPABILITY_QUESTIONS`].
pub const HAMLYN_IOC_ASK: u32 = iowr::<HamlynConnect>(24);

/// The longest name of a listener, in bytes.
pub const HAMLYN_MAX_NAME: u32 = 64;
/// The most private data that a request, its answer or a close carries, in bytes.
pub const HAMLYN_MAX_PRIVATE: u32 = 256;
/// The longest backlog of a listener.
pub const HAMLYN_MAX_BACKLOG: u32 = 1024;
/// Connections and listeners that a card's driver has room for.
pub const HAMLYN_MAX_CONNECTIONS: u32 = 16384;

/// State of a connection: asked for by this side; the other has not answered.
pub const HAMLYN_CONNECTION_CONNECTING: u32 = 1;
/// State of a connection: asked for by the other side; this one has not answered.
pub const HAMLYN_CONNECTION_REQUESTED: u32 = 2;
/// State of a connection: accepted.
pub const HAMLYN_CONNECTION_ESTABLISHED: u32 = 3;
/// State of a connection: over.
pub const HAMLYN_CONNECTION_ENDED: u32 = 4;

/// Why a connection ended: the peer closed it gracefully.
pub const HAMLYN_END_CLOSED: u32 = 1;
/// Why a connection ended: the peer's process died, or let go of it without closing it.
pub const HAMLYN_END_DIED: u32 = 2;
/// Why a connection ended: the peer's host gives no sign of life.
pub const HAMLYN_END_HOST_LOST: u32 = 3;
/// Why a connection ended: the peer's host, or its card, has started anew or stood still, and lost
/// it.
pub const HAMLYN_END_HOST_RESET: u32 = 4;
/// Why a connection ended: this host's link went down.
pub const HAMLYN_END_LINK_LOST: u32 = 5;
/// Why a connection ended: this host stood still, and its card discarded what arrived (section
/// 2.8).
pub const HAMLYN_END_LAPSED: u32 = 6;
/// Why a connection ended: this host's card was reset, removed, or failed.
pub const HAMLYN_END_CARD_RESET: u32 = 7;
/// Why a connection was refused: nobody listens under that name.
pub const HAMLYN_END_NO_NAME: u32 = 8;
/// Why a connection was refused: the listener's backlog is full.
pub const HAMLYN_END_BACKLOG: u32 = 9;
/// Why a connection was refused: the listener rejected it.
pub const HAMLYN_END_REJECTED: u32 = 10;
/// How a question ended: somebody listens under that name.
pub const HAMLYN_END_LISTENING: u32 = 11;
/// How a question ended: nobody listens under that name.
pub const HAMLYN_END_NOBODY: u32 = 12;

/// A name to listen under.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HamlynListen {
    /// In: bytes of the name, 1 to [`HAMLYN_MAX_NAME`].
    pub name_length: u32,
    /// In: how many requests may wait, 1 to [`HAMLYN_MAX_BACKLOG`].
    pub backlog: u32,
    /// Zero.
    pub reserved: [u64; 2],
    /// In: the name, any bytes; zero behind it.
    pub name: [u8; 64],
}

/// Whom to connect to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HamlynConnect {
    /// In: the host id.
    pub host: u32,
    /// In: bytes of the name, 1 to [`HAMLYN_MAX_NAME`].
    pub name_length: u32,
    /// In: bytes of private data, 0 to [`HAMLYN_MAX_PRIVATE`].
    pub private_length: u32,
    /// Zero.
    pub reserved0: u32,
    /// Zero.
    pub reserved1: u64,
    /// In: the name; zero behind it.
    pub name: [u8; 64],
    /// In: what the listener is passed; zero behind it.
    pub data: [u8; 256],
}

/// How a connection stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HamlynConnectionState {
    /// Out: `HAMLYN_CONNECTION_*`.
    pub state: u32,
    /// Out: `HAMLYN_END_*` once it has ended, else zero.
    pub reason: u32,
    /// Out: the peer's host id.
    pub host: u32,
    /// Out: bytes of private data.
    pub private_length: u32,
    /// Out: the peer's user id plus 1, as the peer's operating system says; 0: not told.
    pub user: u32,
    /// Zero.
    pub reserved: u32,
    /// Out: what the peer passed last: with its request, its answer, or its close; zero behind it.
    pub data: [u8; 256],
}

/// What is passed to the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HamlynPrivate {
    /// In: bytes, 0 to [`HAMLYN_MAX_PRIVATE`].
    pub length: u32,
    /// Zero.
    pub reserved: u32,
    /// In: the bytes; zero behind them.
    pub data: [u8; 256],
}
