//! Priority queueing.

use std::cmp::Reverse;
use std::ffi::c_int;
use std::mem::MaybeUninit;

use hamlyn::dart::programs::{Backlog, PriorityRegisters, Urgent};

use crate::call::{Failure, call, count, free, given, store};
use crate::dart::connection::dart_connection;
use crate::dart::endpoint::dart_endpoint;
use crate::memory::items_mut;

/// Bytes of an entry that are its sender's.
pub const DART_URGENT_SIZE: usize = 24;

/// A priority queue (section 2): which registers of the window it is.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct dart_priority_registers {
    /// Where the next entry goes.
    pub tail: u8,
    /// The most urgent of those that were not looked at.
    pub most: u8,
    /// The length of an entry.
    pub step: u8,
}

/// An entry that has come.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct dart_urgent {
    /// How urgent it is.
    pub priority: u64,
    /// Its bytes.
    pub data: [u8; DART_URGENT_SIZE],
}

/// The receiver's side: entries in an endpoint, and an event when one is more urgent than all
/// before it. They go on to the endpoint's end, where they are refused; so a backlog is begun anew
/// before, when nobody puts any. One thread at a time may use it.
pub struct dart_backlog {
    backlog: Backlog,
    /// Taken, and not given out yet: the most urgent first.
    waiting: Vec<dart_urgent>,
}

fn read(registers: Option<&dart_priority_registers>) -> Result<PriorityRegisters, Failure> {
    let dart_priority_registers { tail, most, step } = *given(registers, "registers")?;
    Ok(PriorityRegisters { tail, most, step })
}

/// Begins anew, with no entries, from byte `start` of the endpoint on; `connection` is any that has
/// the registers in its window.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_backlog_create(
    connection: Option<&dart_connection>,
    registers: Option<&dart_priority_registers>,
    start: u64,
    backlog: Option<&mut MaybeUninit<Box<dart_backlog>>>,
) -> c_int {
    call(|| {
        let (connection, to) = (given(connection, "connection")?.0.clone(), given(backlog, "backlog")?);
        let backlog = Backlog::new(connection, read(registers)?, start)?;
        store(to, Box::new(dart_backlog { backlog, waiting: Vec::new() }))
    })
}

/// Lets a backlog go. NULL is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_backlog_destroy(backlog: Option<Box<dart_backlog>>) {
    free(backlog);
}

/// Takes up to `size` entries of those that have come, the most urgent first, and returns how many;
/// the others stay for the next time. From then on anything that comes is more urgent than nothing,
/// and an event. `endpoint` is the one that they are in.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_backlog_take(
    backlog: Option<&mut dart_backlog>,
    endpoint: Option<&dart_endpoint>,
    entries: *mut dart_urgent,
    size: usize,
) -> c_int {
    call(|| {
        let dart_backlog { backlog, waiting } = given(backlog, "backlog")?;
        let endpoint = &given(endpoint, "endpoint")?.0;
        let to = items_mut(entries, size, "entries")?;
        let more = backlog.take(endpoint)?;
        waiting.extend(more.into_iter().map(|(priority, data)| dart_urgent { priority, data }));
        waiting.sort_by_key(|entry| Reverse(entry.priority));
        let given_out = size.min(waiting.len());
        for (to, entry) in to.iter_mut().zip(waiting.drain(..given_out)) {
            to.write(entry);
        }
        Ok(count(given_out))
    })
}

/// Puts an entry into the priority queue at the connection's other end: DART_URGENT_SIZE bytes of
/// this end's endpoint from byte `from` on, behind which 8 bytes become the priority, more than 0.
/// It is one message. It fails as dart_send does, without waiting.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_put_urgent(
    connection: Option<&dart_connection>,
    registers: Option<&dart_priority_registers>,
    endpoint: Option<&dart_endpoint>,
    from: u64,
    priority: u64,
) -> c_int {
    call(|| {
        let connection = given(connection, "connection")?.0.clone();
        let urgent = Urgent::new(connection, read(registers)?);
        Ok(urgent.put(&given(endpoint, "endpoint")?.0, from, priority).map(|()| 0)?)
    })
}
