//! Status of messages and connections.

use hamlyn::dart::{Broken, Dropped, Status};

use super::connection::dart_connection;
use super::trap::trap_number;
use crate::exported::{Out, exported};

/// A message has more data than its operation takes.
pub const DART_DROPPED_LENGTH: u32 = 1;
/// The message's data is not inside the endpoint, or there is no such memory.
pub const DART_DROPPED_MEMORY: u32 = 2;
/// The maximum number of messages was waiting.
pub const DART_DROPPED_ROOM: u32 = 3;
/// The connection is broken.
pub const DART_DROPPED_BROKEN: u32 = 4;

/// A packet was lost.
pub const DART_BROKEN_LOST: u32 = 1;
/// The link is or was down.
pub const DART_BROKEN_LINK: u32 = 2;
/// The other end's card sent invalid data.
pub const DART_BROKEN_PEER: u32 = 3;
/// The connection's own memory cannot be accessed.
pub const DART_BROKEN_MEMORY: u32 = 4;
/// The other end was closed, or its host is lost.
pub const DART_BROKEN_GONE: u32 = 5;

/// Status of a connection.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct dart_status {
    /// Number of sent messages that have left or were dropped, modulo 2^32.
    pub left: u32,
    /// Number of these that were dropped.
    pub dropped: u32,
    /// Why the last of these was dropped: one of the DART_DROPPED_ constants; 0 if there is none.
    pub dropped_why: u32,
    /// Number of sent messages that the receiver did not execute, modulo 2^32.
    pub traps: u32,
    /// Why the last of these was not executed: one of the DART_TRAP_ constants; 0 if there is none.
    pub trap: u32,
    /// That message's opcode.
    pub trap_opcode: u32,
    /// Why the connection no longer accepts or sends anything: one of the DART_BROKEN_ constants; 0
    /// if it does.
    pub broken: u32,
    /// Number of the other end's messages that had a trap here that no exception queue took, modulo
    /// 2^32.
    pub exceptions: u32,
    /// Why the last of these had a trap: one of the DART_TRAP_ constants; 0 if there is none.
    pub exception: u32,
    /// That message's opcode.
    pub exception_opcode: u32,
    /// Reserved for future use: zeros.
    pub reserved: [u32; 2],
}

impl From<Status> for dart_status {
    fn from(status: Status) -> Self {
        let numbers = |(trap, opcode)| (trap_number(trap), opcode);
        let (trap, trap_opcode) = status.trap.map_or((0, 0), numbers);
        let (exception, exception_opcode) = status.exception.map_or((0, 0), numbers);
        Self {
            left: status.left,
            dropped: status.dropped,
            dropped_why: status.dropped_why.map_or(0, dropped_number),
            traps: status.traps,
            trap,
            trap_opcode,
            broken: status.broken.map_or(0, broken_number),
            exceptions: status.exceptions,
            exception,
            exception_opcode,
            reserved: [0; 2],
        }
    }
}

exported! {
/// Stores the status of a connection. Makes no system call.
fn dart_connection_status(connection: &dart_connection, status: Out<dart_status>) {
    status.store(connection.0.status())
}
}

fn dropped_number(why: Dropped) -> u32 {
    match why {
        Dropped::Length => DART_DROPPED_LENGTH,
        Dropped::Memory => DART_DROPPED_MEMORY,
        Dropped::Room => DART_DROPPED_ROOM,
        Dropped::Broken => DART_DROPPED_BROKEN,
        _ => 0,
    }
}

fn broken_number(why: Broken) -> u32 {
    match why {
        Broken::Lost => DART_BROKEN_LOST,
        Broken::Link => DART_BROKEN_LINK,
        Broken::Peer => DART_BROKEN_PEER,
        Broken::Memory => DART_BROKEN_MEMORY,
        Broken::Gone => DART_BROKEN_GONE,
        Broken::Other(number) => number,
        _ => 0,
    }
}
