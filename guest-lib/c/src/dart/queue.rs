//! Queues of what messages tell.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::time::Duration;

use hamlyn::dart::{Queue, Record, Urgency, What};

use super::card::dart_card;
use super::status::trap_number;
use crate::call::{Failure, at_once, call, free, given, store, timeout};

/// Numbers of 8 bytes in a block, which is what a message has in its first cell.
pub const DART_WORDS: usize = 4;

/// For dart_queue_create: each record interrupts, for exceptions, and what must not wait. Without
/// it records are taken when it suits, and there is an interrupt only if somebody sleeps.
pub const DART_QUEUE_IMMEDIATE: u32 = 1;

/// The message's comparison held; it has been executed.
pub const DART_RECORD_COMPARED: u32 = 1;
/// A software exception: the software is to do what the message says.
pub const DART_RECORD_EXCEPTION: u32 = 2;
/// The message was not executed, as `trap` says.
pub const DART_RECORD_TRAP: u32 = 16;

/// Records of what messages tell, in memory of this process, of as many connections as name the
/// queue (section 1). If it is full the messages wait, and what comes behind them on their
/// connections: nothing is lost. An exception takes a place for each 60 bytes of its message's data
/// more, so a queue for exceptions of any length has 2048 records. One thread at a time may use it.
pub struct dart_queue(pub(crate) Queue);

/// What a message has told.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct dart_record {
    /// The message's operand.
    pub operand: u64,
    /// The data of its first cell, 32 bytes, and zeros.
    pub words: [u64; DART_WORDS],
    /// The connection that it came by, as dart_connection_number calls it.
    pub connection: u32,
    /// DART_RECORD_COMPARED or another.
    pub what: u32,
    /// Of DART_RECORD_TRAP, DART_TRAP_BOUNDS or another; else 0.
    pub trap: u32,
    /// The message's opcode: see dart_operation_opcode. Of an exception, what it is about is in
    /// bits 3 to 31.
    pub opcode: u32,
    /// Registers i, j and k of the window.
    pub indices: [u8; 3],
    /// The message's mask.
    pub mask: u8,
    /// Bytes of data of a message of several blocks; else 0.
    pub length: u32,
    /// 1: the queue was too small for the data of an exception, of which `words` are all that is
    /// left. Else 0.
    pub cut: u32,
    /// For what may come: zeros.
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

/// Opens a queue with room for so many records, 16 to 65536, a power of two. `flags` is
/// DART_QUEUE_IMMEDIATE or 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_queue_create(
    card: Option<&dart_card>,
    records: u32,
    flags: u32,
    queue: Option<&mut MaybeUninit<Box<dart_queue>>>,
) -> c_int {
    call(|| {
        let to = given(queue, "queue")?;
        let urgency = match flags {
            0 => Urgency::Delayed,
            DART_QUEUE_IMMEDIATE => Urgency::Immediate,
            _ => return Err(Failure::argument(format!("queue flags {flags:#x} are unknown"))),
        };
        store(to, Box::new(dart_queue(given(card, "card")?.0.queue(records, urgency)?)))
    })
}

/// Lets a queue go; it is closed when the connections that name it are destroyed, too. NULL is
/// nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_queue_destroy(queue: Option<Box<dart_queue>>) {
    free(queue);
}

/// A file descriptor for poll(2) and the like, which stays the library's: readable while a queue of
/// the same open card is not empty. Take records until there are none before you wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_queue_fd(queue: Option<&dart_queue>) -> c_int {
    call(|| Ok(given(queue, "queue")?.0.as_raw_fd()))
}

/// Returns all data of the message that the record taken last is about, if that is an exception,
/// else the data of its first cell, and stores its length to `length`. It is valid until the next
/// record is taken. NULL if there is no queue.
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

/// Takes the next record. If one is there that is no system call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_queue_next(
    queue: Option<&mut dart_queue>,
    record: Option<&mut MaybeUninit<dart_record>>,
    timeout_ms: c_int,
) -> c_int {
    call(|| {
        let (queue, to) = (&mut given(queue, "queue")?.0, given(record, "record")?);
        store(to, at_once(timeout_ms, queue.wait(timeout(timeout_ms)))?.into())
    })
}

/// Takes the next record; looks for it for as many microseconds, and does not sleep. -EAGAIN if
/// there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_queue_poll(
    queue: Option<&mut dart_queue>,
    polling_us: u32,
    record: Option<&mut MaybeUninit<dart_record>>,
) -> c_int {
    call(|| {
        let (queue, to) = (&mut given(queue, "queue")?.0, given(record, "record")?);
        let found = queue.poll(Duration::from_micros(polling_us.into()));
        store(to, found.ok_or_else(|| Failure::nothing_yet("record"))?.into())
    })
}
