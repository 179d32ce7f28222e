//! Priority queueing.

use std::cmp::Reverse;

use hamlyn::dart::programs::{Backlog, PriorityRegisters, Urgent};

use crate::dart::connection::dart_connection;
use crate::dart::endpoint::dart_endpoint;
use crate::exported::{Out, exported};
use crate::memory::items_mut;

/// Size of a sender's data in an entry, in bytes.
pub const DART_URGENT_SIZE: usize = 24;

/// The registers of the window that form a priority queue (section 2).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct dart_priority_registers {
    /// The register with the offset of the next entry.
    pub tail: u8,
    /// The register with the highest priority of the entries that were not taken yet.
    pub most: u8,
    /// The register with the length of an entry.
    pub step: u8,
}

/// A received entry.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct dart_urgent {
    /// The priority: higher is more urgent.
    pub priority: u64,
    /// The data.
    pub data: [u8; DART_URGENT_SIZE],
}

/// The receiver's side: entries in an endpoint, and an event when one is more urgent than all
/// before it. Entries fill the endpoint up to its end, where further ones are refused. So create
/// the backlog anew before that, while no process puts entries. One thread at a time may use it.
pub struct dart_backlog {
    backlog: Backlog,
    /// Entries that were taken and not returned yet, the most urgent first.
    waiting: Vec<dart_urgent>,
}

impl dart_priority_registers {
    fn read(self) -> PriorityRegisters {
        let Self { tail, most, step } = self;
        PriorityRegisters { tail, most, step }
    }
}

exported! {
/// Starts an empty backlog from byte `start` of the endpoint. `connection` is any connection that
/// has the registers in its window.
fn dart_backlog_create(
    connection: &dart_connection,
    registers: &dart_priority_registers,
    start: u64,
    backlog: Out<Box<dart_backlog>>,
) {
    let connection = connection.0.clone();
    let made = Backlog::new(connection, registers.read(), start)?;
    backlog.store(dart_backlog { backlog: made, waiting: Vec::new() })
}

/// Releases a backlog. NULL is a no-op.
fn dart_backlog_destroy(backlog: Box<dart_backlog>);

/// Takes up to `size` of the received entries, the most urgent first, and returns their number. The
/// others stay for the next call. From then on, any new entry counts as more urgent and causes an
/// event. `endpoint` is the one that contains the entries.
fn dart_backlog_take(
    backlog: &mut dart_backlog,
    endpoint: &dart_endpoint,
    entries: *mut dart_urgent,
    size: usize,
) {
    let dart_backlog { backlog, waiting } = backlog;
    let to = items_mut(entries, size, "entries")?;
    let more = backlog.take(&endpoint.0)?;
    waiting.extend(more.into_iter().map(|(priority, data)| dart_urgent { priority, data }));
    waiting.sort_by_key(|entry| Reverse(entry.priority));
    let given_out = size.min(waiting.len());
    for (to, entry) in to.iter_mut().zip(waiting.drain(..given_out)) {
        to.write(entry);
    }
    given_out
}

/// Puts an entry into the priority queue at the connection's other end: DART_URGENT_SIZE bytes of
/// this end's endpoint from byte `from`. The 8 bytes after them are overwritten with the priority,
/// which must be more than 0. A put is one message. Fails like dart_send, without waiting.
fn dart_put_urgent(
    connection: &dart_connection,
    registers: &dart_priority_registers,
    endpoint: &dart_endpoint,
    from: u64,
    priority: u64,
) {
    let connection = connection.0.clone();
    let urgent = Urgent::new(connection, registers.read());
    urgent.put(&endpoint.0, from, priority)?
}
}
