//! What becomes of messages and connections.

use hamlyn_abi::dart::connection::*;
use hamlyn_abi::dart::trap::*;

use crate::error::ErrorKind;

/// Why a message was not executed by its receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Trap {
    /// There is no such operation.
    #[error("the receiver knows no such operation")]
    Unimplemented,
    /// An index is not inside the connection's window.
    #[error("a register is not inside the connection's window")]
    Index,
    /// Its comparison held, and it said that it is refused then.
    #[error("it was refused, as it said itself")]
    Refused,
    /// The connection may not write to the endpoint, or not read it.
    #[error("the connection may not do that to the receiver's endpoint")]
    Right,
    /// The address is no multiple of 4.
    #[error("the address is no multiple of 4")]
    Misaligned,
    /// A word is not inside the endpoint.
    #[error("the address is not inside the receiver's endpoint")]
    Bounds,
    /// There is no memory, or it cannot be written to.
    #[error("the receiver has no such memory there")]
    NoMemory,
}

impl Trap {
    pub(super) fn of(number: u32) -> Option<Self> {
        let all = [
            (DART_TRAP_UNIMPLEMENTED, Trap::Unimplemented),
            (DART_TRAP_INDEX, Trap::Index),
            (DART_TRAP_REFUSED, Trap::Refused),
            (DART_TRAP_RIGHT, Trap::Right),
            (DART_TRAP_MISALIGNED, Trap::Misaligned),
            (DART_TRAP_BOUNDS, Trap::Bounds),
            (DART_TRAP_NO_MEMORY, Trap::NoMemory),
        ];
        all.into_iter().find(|(known, _)| *known == number).map(|(_, trap)| trap)
    }
}

/// Why a message has not left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Dropped {
    /// It has more data than its operation takes.
    #[error("it has more data than its operation takes")]
    Length,
    /// Its data is not inside the endpoint, or there is no such memory.
    #[error("its data is not inside the endpoint, or there is no such memory")]
    Memory,
    /// As many messages waited as can.
    #[error("as many messages waited as can")]
    Room,
    /// The connection is broken.
    #[error("the connection is broken")]
    Broken,
}

impl Dropped {
    pub(super) fn of(number: u32) -> Option<Self> {
        let all = [
            (DART_DROPPED_LENGTH, Dropped::Length),
            (DART_DROPPED_MEMORY, Dropped::Memory),
            (DART_DROPPED_ROOM, Dropped::Room),
            (DART_DROPPED_BROKEN, Dropped::Broken),
        ];
        all.into_iter().find(|(known, _)| *known == number).map(|(_, why)| why)
    }
}

/// Why a connection takes and sends nothing any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Broken {
    /// A packet was lost on the way.
    #[error("the connection is broken: a packet was lost")]
    Lost,
    /// The link was down.
    #[error("the connection is broken: the link is or was down")]
    Link,
    /// The other card sent what makes no sense.
    #[error("the connection is broken: the other end's card sent what makes no sense")]
    Peer,
    /// Memory of the connection's own cannot be reached.
    #[error("the connection is broken: its own memory cannot be reached")]
    Memory,
    /// The other end has been closed, or its host is lost.
    #[error("the connection is broken: its other end is no more")]
    Gone,
    /// A reason that this library does not know.
    #[error("the connection is broken: reason {0}")]
    Other(u32),
}

impl Broken {
    pub(super) fn of(number: u32) -> Option<Self> {
        Some(match number {
            0 => return None,
            DART_BROKEN_LOST => Broken::Lost,
            DART_BROKEN_LINK => Broken::Link,
            DART_BROKEN_PEER => Broken::Peer,
            DART_BROKEN_MEMORY => Broken::Memory,
            DART_BROKEN_GONE => Broken::Gone,
            other => Broken::Other(other),
        })
    }

    pub(crate) fn kind(self) -> ErrorKind {
        match self {
            Broken::Link => ErrorKind::LinkDown,
            _ => ErrorKind::PeerLost,
        }
    }
}

/// How a connection fares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Status {
    /// How many of its messages have left, or will not, modulo 2^32.
    pub left: u32,
    /// How many of them have not left.
    pub dropped: u32,
    /// Why the last of these did not.
    pub dropped_why: Option<Dropped>,
    /// How many of its messages were not executed by their receiver.
    pub traps: u32,
    /// Why the last of these was not, and its opcode.
    pub trap: Option<(Trap, u32)>,
    /// How many messages of the other end had a trap here that no exception queue took, modulo
    /// 2^32.
    pub exceptions: u32,
    /// Why the last of these had one, and its opcode.
    pub exception: Option<(Trap, u32)>,
    /// Why it takes and sends nothing any more, if that is so.
    pub broken: Option<Broken>,
}
