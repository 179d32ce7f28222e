//! How a card's process gets its end of a link.
//!
//! The two sides exchange one message each way over a SEQPACKET UNIX socket, little-endian:
//!
//! | card sends | bytes | | switch answers | bytes |
//! |---|---|---|---|---|
//! | magic `HMLN` | 4 | | magic `HMLN` | 4 |
//! | version | 2 | | version | 2 |
//! | host id wanted, or 0xffff for any | 2 | | host id | 2 |
//! | protocol of its packets | 1 | | 0: accepted, 1: refused | 2 |
//! | 1: they must keep their order, else 0 | 1 | | ports of the switch, 0 if not given | 2 |
//! | 1: it wants express memory, else 0 | 1 | | bytes of a ring | 4 |
//! | zero | 1 | | largest packet, bytes | 4 |
//! | | | | express memory: 0: it gets none, 1: shared, 2: isolated | 2 |
//! | | | | zero | 2 |
//! | | | | zero, or bytes of a part of that memory | 4 |
//! | | | | zero, or its number | 8 |
//!
//! An acceptance carries the descriptor of the rings' memory. Those of express memory follow it,
//! for as many hosts as the switch has ports. Shared express memory has one descriptor. Isolated
//! express memory has one for each other host, in the order of their ids. All are sealed.
//!
//! A refusal carries the reason as text instead. After an acceptance the socket stays open as the
//! link's [bell](crate::bell) in both directions. A message of one byte wakes the other side, and a
//! hang-up shows that the other side is gone. A card must not pass descriptors; if it does, it is
//! refused.

use std::io;
use std::mem::size_of;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use hamlyn_door::credentials;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use thiserror::Error;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use crate::bell::{Bell, Socket, look};
use crate::express::{Form, Holding, Memory, Part, Shape};
use crate::geometry::Geometry;
use crate::header::{HeaderError, HostId, Protocol, Traffic};
use crate::link::{End, Link, Shared};
use crate::message::{self, receive, retry, send_with};

/// Version of the attach protocol and of the ring layout.
pub const VERSION: u16 = 6;
const MAGIC: [u8; 4] = *b"HMLN";
const ANY_HOST: u16 = u16::MAX;
const ACCEPTED: u16 = 0;
const REFUSED: u16 = 1;
const SHARED: u16 = 1;
const ISOLATED: u16 = 2;
/// The longest reason for a refusal, in bytes.
const MAX_REASON: usize = 240;
/// The longest answer: one with a reason.
const MAX_ANSWER: usize = size_of::<Answer>() + MAX_REASON;
#[derive(Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Hello {
    magic: [u8; 4],
    version: U16,
    host: U16,
    protocol: u8,
    ordered: u8,
    express: u8,
    reserved: u8,
}

#[derive(Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Answer {
    magic: [u8; 4],
    version: U16,
    host: U16,
    status: U16,
    ports: U16,
    capacity: U32,
    max_packet: U32,
    form: U16,
    reserved: U16,
    part: U32,
    memory: U64,
}

/// Why a card cannot attach to a switch.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// The socket failed, or no answer came in time.
    #[error("cannot reach the switch at {}: {source}", path.display())]
    Socket {
        /// The switch's socket.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Another user's process listens there: it could see and forge all packets.
    #[error("the switch at {} belongs to user {user} (trusted: {trusted:?}; see --switch-user)", path.display())]
    Stranger {
        /// The switch's socket.
        path: PathBuf,
        /// The user of the process that listens there.
        user: u32,
        /// The users that are trusted.
        trusted: Vec<u32>,
    },
    /// The switch refused this card.
    #[error("the switch at {} refused: {reason}", path.display())]
    Refused {
        /// The switch's socket.
        path: PathBuf,
        /// The reason that the switch gives.
        reason: String,
    },
    /// The listener is not a switch, or it is one of another version.
    #[error("{} is not a switch of version {VERSION}: {reason}", path.display())]
    Protocol {
        /// The switch's socket.
        path: PathBuf,
        /// What is wrong with its answer.
        reason: String,
    },
}

/// A card's place in the fabric.
#[derive(Debug)]
pub struct Attached {
    /// The host id: the port's number.
    pub host: HostId,
    /// Number of ports of the switch; 0 if the switch does not give it.
    pub ports: u16,
    /// The card's end of the link.
    pub link: Link,
    /// Memory that its machine shares with others' machines, if it asked for it and there is any.
    pub express: Option<Holding>,
}

/// Attaches to the switch that listens at `path` and belongs to this process's user or root. Blocks
/// for at most `timeout` in each step.
pub fn connect(path: &Path, request: Request, timeout: Duration) -> Result<Attached, ConnectError> {
    connect_to(path, &[rustix::process::geteuid().as_raw(), 0], request, timeout)
}

/// Attaches in the same way to a switch of one of the users `trusted`.
pub fn connect_to(
    path: &Path,
    trusted: &[u32],
    request: Request,
    timeout: Duration,
) -> Result<Attached, ConnectError> {
    let failed = |source: io::Error| ConnectError::Socket { path: path.to_owned(), source };
    let socket = message::connect(path, timeout).map_err(|error| failed(error.into()))?;
    let user = credentials(&socket).map_err(|error| failed(error.into()))?.user;
    if !trusted.contains(&user) {
        return Err(ConnectError::Stranger { path: path.to_owned(), user, trusted: trusted.to_vec() });
    }
    let hello = hello(request);
    match retry(|| send(&socket, hello.as_bytes(), SendFlags::NOSIGNAL)) {
        // The switch has hung up, but it sent the reason before.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        other => other.map(drop).map_err(failed)?,
    }
    let (bytes, descriptors) = match receive(&socket, MAX_ANSWER) {
        // The switch has hung up without reading our message. Its own message can still be read.
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => receive(&socket, MAX_ANSWER),
        other => other,
    }
    .map_err(failed)?;
    let (answer, reason) = Answer::read_from_prefix(&bytes)
        .ok()
        .filter(|(answer, _)| answer.magic == MAGIC)
        .ok_or_else(|| protocol(path, format!("its answer of {} bytes is not one", bytes.len())))?;
    if answer.status != ACCEPTED {
        let reason = String::from_utf8_lossy(reason).into_owned();
        return Err(ConnectError::Refused { path: path.to_owned(), reason });
    }
    if answer.version != VERSION {
        return Err(protocol(path, format!("it answers with version {}", answer.version)));
    }
    let (memory, express) =
        memories(&answer, request, descriptors).map_err(|reason| protocol(path, reason))?;
    let geometry =
        Geometry { capacity: answer.capacity.get() as usize, max_packet: answer.max_packet.get() as usize };
    let link = Shared::adopt(geometry, memory)
        .and_then(|shared| shared.link(End::Card, Some(Bell::over(socket.into()))))
        .map_err(|error| protocol(path, error.to_string()))?;
    Ok(Attached { host: HostId(answer.host.get()), ports: answer.ports.get(), link, express })
}

/// Returns the rings' memory and the express memory that an acceptance carries, or what is wrong
/// with them.
fn memories(
    answer: &Answer,
    request: Request,
    descriptors: Vec<OwnedFd>,
) -> Result<(OwnedFd, Option<Holding>), String> {
    let (host, shape) = (HostId(answer.host.get()), shape(answer)?);
    let (count, wanted) = (descriptors.len(), 1 + shape.map_or(0, |shape| Holding::count(shape, host)));
    let mut descriptors = descriptors.into_iter();
    let (Some(rings), true) = (descriptors.next(), count == wanted) else {
        return Err(format!("it sent {count} descriptors (must be {wanted})"));
    };
    let Some(shape) = shape else { return Ok((rings, None)) };
    if !request.express {
        return Err("it sent express memory that was not requested".into());
    }
    let number = NonZeroU64::new(answer.memory.get()).ok_or("its express memory has number 0")?;
    let holding = Holding::adopt(shape, number, host, descriptors).map_err(|error| error.to_string())?;
    Ok((rings, Some(holding)))
}

/// Returns the shape of the express memory that an acceptance describes, if there is any.
fn shape(answer: &Answer) -> Result<Option<Shape>, String> {
    let form = match answer.form.get() {
        0 => return Ok(None),
        SHARED => Form::Shared,
        ISOLATED => Form::Isolated,
        form => return Err(format!("its express memory is of form {form} (limit {ISOLATED})")),
    };
    let part = Part::new(answer.part.get().into()).map_err(|error| error.to_string())?;
    let shape = Shape::new(form, answer.ports.get(), part).map_err(|error| error.to_string())?;
    if answer.host.get() >= shape.hosts() {
        return Err(format!("its express memory is not for host {} (limit {})", answer.host, shape.hosts()));
    }
    Ok(Some(shape))
}

fn protocol(path: &Path, reason: String) -> ConnectError {
    ConnectError::Protocol { path: path.to_owned(), reason }
}

/// What a card asks of a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// The host id it wants, or `None` for any.
    pub host: Option<HostId>,
    /// The kind of its packets.
    pub traffic: Traffic,
    /// Whether it wants express memory, if there is any.
    pub express: bool,
}

fn hello(Request { host, traffic, express }: Request) -> Hello {
    Hello {
        magic: MAGIC,
        version: VERSION.into(),
        host: host.map_or(ANY_HOST, |host| host.0).into(),
        protocol: traffic.protocol.number(),
        ordered: traffic.ordered.into(),
        express: express.into(),
        reserved: 0,
    }
}

/// Why a client's message is not a valid request.
#[derive(Debug, Error)]
pub enum RequestError {
    /// It has not sent anything yet.
    #[error("the client has said nothing yet")]
    Silent,
    /// It has left.
    #[error("the client left: {0}")]
    Left(String),
    /// It is not a card.
    #[error("the client's first message of {length} bytes is not a card's (must be {limit} bytes that begin with HMLN)", limit = size_of::<Hello>())]
    NotACard {
        /// Bytes it sent.
        length: usize,
    },
    /// It passed descriptors. Closing them may take as long as the client likes, so they are not
    /// received.
    #[error("the client passed descriptors (a card passes none)")]
    Descriptors,
    /// It is a card of another version.
    #[error("version {0} of attaching is not known (this switch has {VERSION})")]
    Version(u16),
    /// A field has an invalid value.
    #[error("the client's {field} is {value} (limit {limit})")]
    Field {
        /// Name of the field.
        field: &'static str,
        /// Its value.
        value: u8,
        /// Its largest valid value.
        limit: u8,
    },
    /// The protocol of its packets is invalid.
    #[error(transparent)]
    Protocol(#[from] HeaderError),
}

/// Reads a client's request, if it has arrived. Never blocks.
pub fn read_request(socket: BorrowedFd<'_>) -> Result<Request, RequestError> {
    let mut bytes = [0; size_of::<Hello>() + 1];
    let length = match look(socket, &mut bytes) {
        Err(Errno::AGAIN | Errno::INTR) => return Err(RequestError::Silent),
        Ok((_, true)) => return Err(RequestError::Descriptors),
        Ok((0, _)) => return Err(RequestError::Left("end of stream".into())),
        Ok((length, _)) => length,
        Err(error) => return Err(RequestError::Left(error.to_string())),
    };
    // The message was only peeked at, so that it can be refused without receiving its descriptors.
    let _ = recv(socket, &mut [0u8; 1][..], RecvFlags::DONTWAIT);
    parse(&bytes[..length])
}

/// Parses a first message. Those of other versions have other lengths.
fn parse(bytes: &[u8]) -> Result<Request, RequestError> {
    let strange = RequestError::NotACard { length: bytes.len() };
    let Some((MAGIC, [low, high, ..])) = bytes.split_first_chunk().map(|(magic, rest)| (*magic, rest)) else {
        return Err(strange);
    };
    let version = u16::from_le_bytes([*low, *high]);
    if version != VERSION {
        return Err(RequestError::Version(version));
    }
    let hello = Hello::read_from_bytes(bytes).map_err(|_| strange)?;
    for (field, value, limit) in [
        ("need for order", hello.ordered, 1),
        ("wish for express memory", hello.express, 1),
        ("reserved field", hello.reserved, 0),
    ] {
        if value > limit {
            return Err(RequestError::Field { field, value, limit });
        }
    }
    Ok(Request {
        host: Some(hello.host.get()).filter(|&host| host != ANY_HOST).map(HostId),
        traffic: Traffic { protocol: Protocol::parse(hello.protocol)?, ordered: hello.ordered == 1 },
        express: hello.express == 1,
    })
}

/// Accepts a client as `host` of `ports` and returns the switch's end of its new link. `express` is
/// memory for as many hosts, for a client that has asked for it; its host's files are passed on.
/// Never blocks.
pub fn accept(
    socket: impl Into<Socket>,
    host: HostId,
    ports: u16,
    geometry: Geometry,
    express: Option<&mut Memory>,
) -> io::Result<Link> {
    let socket = socket.into();
    let made = Shared::new(geometry).and_then(|shared| {
        let holding = express.map(|memory| memory.holding(host)).transpose()?;
        Ok((shared, holding))
    });
    let (shared, holding) = made.inspect_err(|error| refuse(socket.as_fd(), &error.to_string()))?;
    let mut answer = Answer {
        capacity: (geometry.capacity as u32).into(),
        max_packet: (geometry.max_packet as u32).into(),
        ports: ports.into(),
        ..answer(ACCEPTED, host)
    };
    if let Some(holding) = &holding {
        let shape = holding.shape();
        answer.form = match shape.form() {
            Form::Shared => SHARED,
            Form::Isolated => ISOLATED,
        }
        .into();
        // A part has 256 MiB at most.
        answer.part = (shape.part().bytes() as u32).into();
        answer.memory = holding.number().get().into();
    }
    let rings = shared.memory.file.as_fd();
    let express = holding.iter().flat_map(Holding::portions).map(|portion| portion.file().as_fd());
    let descriptors: Vec<_> = [rings].into_iter().chain(express).collect();
    send_with(&socket, answer.as_bytes(), &descriptors)?;
    shared.link(End::Switch, Some(Bell::over(socket)))
}

/// Sends a client the reason for its refusal, if its socket has room. Never blocks.
pub fn refuse(socket: BorrowedFd<'_>, reason: &str) {
    let mut message = answer(REFUSED, HostId(ANY_HOST)).as_bytes().to_vec();
    message.extend(reason.bytes().take(MAX_REASON));
    // Fails if the client has left: then it needs no reason.
    let _ = retry(|| send(socket, &message, SendFlags::NOSIGNAL | SendFlags::DONTWAIT));
}

fn answer(status: u16, host: HostId) -> Answer {
    Answer {
        magic: MAGIC,
        version: VERSION.into(),
        host: host.0.into(),
        status: status.into(),
        ..Answer::new_zeroed()
    }
}
