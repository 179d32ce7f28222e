//! Queues for the records of messages.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::time::Duration;

use hamlyn::dart::{Queue, Record, Urgency, What};

use super::card::dart_card;
use super::trap::trap_number;
use crate::call::{Failure, waited};
use crate::exported::{Out, exported};

/// Number of 8-byte words in a block, which is the data in a message's first cell.
pub const DART_WORDS: usize = 4;

/// For dart_queue_create: each record raises an interrupt. For exceptions, and for records that
/// must not wait. Without it there is an interrupt only if a thread sleeps, and records are taken
/// at the program's convenience.
pub const DART_QUEUE_IMMEDIATE: u32 = 1;

/// The message's comparison held; the message was executed.
pub const DART_RECORD_COMPARED: u32 = 1;
/// A software exception: the software must do what the message says.
pub const DART_RECORD_EXCEPTION: u32 = 2;
/// The message was not executed; `trap` is the reason.
pub const DART_RECORD_TRAP: u32 = 16;

/// Records of messages, in this process' memory, of all connections that use the queue (section 1).
/// While the queue is full, messages wait, and so do later messages on their connections: nothing
/// is lost. An exception takes one more place for each 60 bytes of its message's data, so a queue
/// for exceptions of any length needs 2048 records. One thread at a time may use it.
pub struct dart_queue(pub(crate) Queue);

/// A record of a message.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct dart_record {
    /// The message's operand.
    pub operand: u64,
    /// The data of its first cell, 32 bytes, padded with zeros.
    pub words: [u64; DART_WORDS],
    /// The connection of the message, by its dart_connection_number.
    pub connection: u32,
    /// One of the DART_RECORD_ constants.
    pub what: u32,
    /// For DART_RECORD_TRAP, one of the DART_TRAP_ constants; else 0.
    pub trap: u32,
    /// The message's opcode: see dart_operation_opcode. For an exception, bits 3 to 31 are its
    /// `about`.
    pub opcode: u32,
    /// Registers i, j and k of the window.
    pub indices: [u8; 3],
    /// The message's mask.
    pub mask: u8,
    /// Number of bytes of data of a message of several blocks; else 0.
    pub length: u32,
    /// 1: the queue was too small for the data of an exception, and only `words` is left of it.
    /// Else 0.
    pub cut: u32,
    /// Reserved for future use: zeros.
    pub reserved: [u32; 3],
}

impl From<Record> for dart_record {
    fn from(record: Record) -> Self {
        let (what, trap) = match record.what {
            What::Compared => (DART_RECORD_COMPARED, 0),
            What::Exception => (DART_RECORD_EXCEPTION, 0),
            What::Trap(trap) => (DART_RECORD_TRAP, trap.map_or(0, trap_number)),
            _ => (0, 0),
        };
        let control = record.operation.control();
        Self {
            operand: control.operand,
            words: [0, 1, 2, 3].map(|n| record.word(n).unwrap_or_default()),
            connection: record.connection,
            what,
            trap,
            opcode: control.opcode,
            indices: control.indices,
            mask: control.mask,
            length: record.length,
            cut: record.is_cut.into(),
            reserved: [0; 3],
        }
    }
}

exported! {
/// Opens a queue with room for `records` records: 16 to 65536, a power of two. `flags` is
/// DART_QUEUE_IMMEDIATE or 0.
fn dart_queue_create(card: &dart_card, records: u32, flags: u32, queue: Out<Box<dart_queue>>) {
    let urgency = match flags {
        0 => Urgency::Delayed,
        DART_QUEUE_IMMEDIATE => Urgency::Immediate,
        _ => return Err(Failure::argument(format!("queue flags {flags:#x} are unknown"))),
    };
    queue.store(dart_queue(card.0.queue(records, urgency)?))
}

/// Releases a queue. It is closed once the connections that use it are destroyed too. NULL is a
/// no-op.
fn dart_queue_destroy(queue: Box<dart_queue>);

/// Returns a file descriptor for poll(2) and similar calls, owned by the library. It is readable
/// while a queue of the same open card is not empty. Take records until there are none before you
/// wait.
fn dart_queue_fd(queue: &dart_queue) {
    queue.0.as_raw_fd()
}
}

/// Returns data of the message of the last record taken, and stores its length in `length`. For an
/// exception it is all data, otherwise the data of the first cell. Valid until the next record is
/// taken. Returns NULL if the queue is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_queue_data(
    queue: Option<&dart_queue>,
    length: Option<&mut MaybeUninit<usize>>,
) -> *const c_void {
    let data = queue.map(|queue| queue.0.data());
    if let Some(length) = length {
        length.write(data.map_or(0, <[u8]>::len));
    }
    data.map_or(std::ptr::null(), |data| data.as_ptr().cast())
}

exported! {
/// Takes the next record. Makes no system call if one is available.
fn dart_queue_next(queue: &mut dart_queue, record: Out<dart_record>, timeout_ms: c_int) {
    record.store(waited!(timeout_ms, queue.0 => recv / recv_timeout())?)
}

/// Takes the next record. Polls for up to `polling_us` microseconds, and does not sleep. Fails with
/// -EAGAIN if there is none.
fn dart_queue_poll(queue: &mut dart_queue, polling_us: u32, record: Out<dart_record>) {
    let found = queue.0.poll(Duration::from_micros(polling_us.into()));
    record.store(found.ok_or_else(|| Failure::nothing_yet("record"))?)
}
}
