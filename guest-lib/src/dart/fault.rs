//! Errors of messages, and the status of connections.

use hamlyn_abi::dart::connection::*;
use hamlyn_abi::dart::trap::*;

use crate::core::error_kind::{ErrorKind, model_errors};

/// Reasons why the receiver did not execute a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Trap {
    /// The operation is unknown.
    #[error("the receiver knows no such operation")]
    Unimplemented,
    /// An index is outside the connection's window.
    #[error("a register is not inside the connection's window")]
    Index,
    /// The message's comparison held, and the message requested to be refused in this case.
    #[error("it was refused, as it said itself")]
    Refused,
    /// The connection may not write to the endpoint, or may not read it.
    #[error("the connection may not do that to the receiver's endpoint")]
    Right,
    /// The address is not a multiple of 4.
    #[error("the address is not a multiple of 4")]
    Misaligned,
    /// A word is outside the endpoint.
    #[error("the address is not inside the receiver's endpoint")]
    Bounds,
    /// There is no memory, or it is not writable.
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

/// Reasons why a message did not leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Dropped {
    /// The message has more data than its operation takes.
    #[error("it has more data than its operation takes")]
    Length,
    /// The data is outside the endpoint, or there is no memory.
    #[error("its data is not inside the endpoint, or there is no such memory")]
    Memory,
    /// The maximum number of messages was waiting.
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

/// Reasons why a connection is broken, so that it neither accepts nor sends messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Broken {
    /// A packet was lost in the network.
    #[error("the connection is broken: a packet was lost")]
    Lost,
    /// The link was down.
    #[error("the connection is broken: the link is or was down")]
    Link,
    /// The other card violated the protocol.
    #[error("the connection is broken: the other end's card sent what makes no sense")]
    Peer,
    /// The connection's own memory cannot be accessed.
    #[error("the connection is broken: its own memory cannot be reached")]
    Memory,
    /// The other end was closed, or its host is lost.
    #[error("the connection is broken: its other end was closed, or its host is lost")]
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

/// The status of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Status {
    /// Number of its messages that have left, or were dropped, modulo 2^32.
    pub left: u32,
    /// Number of its messages that were dropped.
    pub dropped: u32,
    /// Why the last of them was dropped.
    pub dropped_why: Option<Dropped>,
    /// Number of its messages that the receiver did not execute.
    pub traps: u32,
    /// Why the last of them was not executed, and its opcode.
    pub trap: Option<(Trap, u32)>,
    /// Number of messages of the other end that trapped here and went to no exception queue, modulo
    /// 2^32.
    pub exceptions: u32,
    /// Why the last of them trapped, and its opcode.
    pub exception: Option<(Trap, u32)>,
    /// Why the connection is broken, if it is.
    pub broken: Option<Broken>,
}

model_errors!("dart", Broken => |why| (*why).kind(), Trap => |_| ErrorKind::Refused);
