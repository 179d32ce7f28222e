//! Queues of what messages tell (sections 1 and 2).

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use hamlyn_abi::dart::command::DART_QUEUE_IMMEDIATE;
use hamlyn_abi::dart::connection::DART_LONGEST;
use hamlyn_abi::dart::control::DART_BLOCK;
use hamlyn_abi::dart::queue::*;
use hamlyn_abi::dart::uapi::{DartQueue, DartQueueWait};
use hamlyn_sys::{Access, Mapping, barrier};
use zerocopy::IntoBytes;

use super::attachment::{Attachment, Object};
use super::fault::Trap;
use super::operation::Operation;
use crate::core::waiting::{Deadline, poll_for, slept, slice};
use crate::error::{Error, Result, at_most};

/// When who waits for a queue's records is disturbed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Urgency {
    /// Records are taken when it suits; there is an interrupt only if somebody sleeps.
    Delayed,
    /// Each record interrupts: for exceptions, and what must not wait.
    Immediate,
}

/// What a message has told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Record {
    /// The connection that it came by, as its own host calls it.
    pub connection: u32,
    /// What it is about.
    pub what: What,
    /// The message's operation.
    pub operation: Operation,
    /// The data of its first cell.
    pub data: [u8; DART_BLOCK as usize],
    /// Bytes of data of a message of several blocks, of which `data` has the first if there are
    /// more than 32; else 0.
    pub length: u32,
    /// The queue was too small for the data of an exception, of which `data` is all that is left.
    pub is_cut: bool,
}

impl Record {
    /// 8 bytes of the data, the `n`-th of four.
    #[must_use]
    pub fn word(&self, n: usize) -> Option<u64> {
        let bytes = self.data.chunks_exact(8).nth(n)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    }

    /// The message's operand.
    #[must_use]
    pub fn operand(&self) -> u64 {
        self.operation.control().operand
    }
}

/// What a record is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum What {
    /// The message's comparison held; it has been executed.
    Compared,
    /// A software exception: the software is to do what the message says.
    Exception,
    /// The message was not executed; none: for a reason that this library does not know.
    Trap(Option<Trap>),
}

impl What {
    fn of(kind: u32) -> Self {
        match kind & !DART_RECORD_CUT {
            DART_RECORD_COMPARED => What::Compared,
            DART_RECORD_EXCEPTION => What::Exception,
            other => What::Trap(Trap::of(other.wrapping_sub(DART_RECORD_TRAP))),
        }
    }
}

/// A queue: a ring in this process' memory, to which the card writes what messages tell, of as many
/// connections as name it. To take a record costs no system call. If it is full the messages wait,
/// and what comes behind them on their connections: nothing is lost.
///
/// An exception takes a place for each 60 bytes of its message's data more, so a queue for
/// exceptions of any length has 2,048 records.
///
/// [`AsFd`] is what `poll(2)`, `epoll(7)` and the like wait for: it is readable while a queue of
/// the same open card is not empty.
#[derive(Debug)]
pub struct Queue {
    parts: Arc<Parts>,
    memory: Arc<Mapping>,
    records: u32,
    /// How many were taken, modulo 2^32.
    taken: u32,
    /// The data of the record that was taken last.
    data: Vec<u8>,
    file: OwnedFd,
}

/// What connections keep.
#[derive(Debug)]
pub(super) struct Parts {
    card: Arc<dyn Attachment>,
    number: u32,
}

impl Drop for Parts {
    fn drop(&mut self) {
        self.card.close(Object::Queue, self.number);
    }
}

impl Parts {
    pub(super) fn card(&self) -> &Arc<dyn Attachment> {
        &self.card
    }

    pub(super) fn number(&self) -> u32 {
        self.number
    }
}

impl Queue {
    pub(super) fn open(card: &Arc<dyn Attachment>, records: u32, urgency: Urgency) -> Result<Self> {
        at_most("records of a queue", records.into(), DART_MAX_RECORDS.into())?;
        if records < DART_MIN_RECORDS || !records.is_power_of_two() {
            return Err(Error::Invalid("a queue has 16 to 65536 records, a power of two"));
        }
        let flags = if urgency == Urgency::Immediate { DART_QUEUE_IMMEDIATE } else { 0 };
        let mut opened = DartQueue { records, flags, ..DartQueue::default() };
        card.open_queue(&mut opened)?;
        let parts = Arc::new(Parts { card: card.clone(), number: opened.queue });
        let length = (DART_QUEUE_HEAD + records * DART_RECORD_SIZE) as usize;
        let memory = card.map_pages("queue", opened.memory_offset, length, Access::ReadWrite)?;
        let file = card.file().as_fd().try_clone_to_owned();
        let file = file.map_err(Error::system("have the card's file once more"))?;
        Ok(Self { parts, memory, records, taken: 0, data: Vec::new(), file })
    }

    /// Takes the next record, if there is one. It makes no system call.
    #[allow(clippy::should_implement_trait, reason = "another look may find one after there was none")]
    pub fn next(&mut self) -> Option<Record> {
        let next = self.taken.wrapping_add(1);
        let at = self.place(self.taken);
        let number = at + std::mem::offset_of!(DartRecord, number);
        if self.memory.load_u32_acquire(number) != next {
            return None;
        }
        let mut record = DartRecord::default();
        self.memory.read(at, record.as_mut_bytes());
        self.taken = next.wrapping_add(self.read_data(&record));
        self.memory.store_u32_release(DART_QUEUE_TAKEN as usize, self.taken);
        barrier::before_queue_check();
        let DartRecord { control, data, length, connection, kind, .. } = record;
        let (data, is_cut) = (zerocopy::transmute!(data), kind & DART_RECORD_CUT != 0);
        Some(Record { connection, what: What::of(kind), operation: control.into(), data, length, is_cut })
    }

    /// Returns all data of the message that the record taken last is about, if that is an
    /// exception; else the data of its first cell. So software can carry out what the card could
    /// not, whatever its length.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// Reads the data of a record, and returns how many places it takes behind that.
    fn read_data(&mut self, record: &DartRecord) -> u32 {
        self.data.clear();
        self.data.extend(record.data.as_bytes());
        let has_rest = What::of(record.kind) != What::Compared && record.kind & DART_RECORD_CUT == 0;
        let length = record.length.min(DART_LONGEST);
        if !has_rest || length == 0 {
            return 0;
        }
        if length <= DART_BLOCK {
            self.data.clear();
        }
        let parts = DartPart::count(length);
        for n in 0..parts {
            let mut part = [0; DART_PART as usize];
            self.memory.read(self.place(self.taken.wrapping_add(1 + n)), &mut part);
            self.data.extend(part);
        }
        self.data.truncate(length as usize);
        parts
    }

    /// Where the `n`-th record is.
    fn place(&self, n: u32) -> usize {
        (DART_QUEUE_HEAD + (n & (self.records - 1)) * DART_RECORD_SIZE) as usize
    }

    /// Takes the next record; looks for it for as long as `polling`, then gives up.
    pub fn poll(&mut self, polling: Duration) -> Option<Record> {
        poll_for(polling, || Ok(self.next())).ok().flatten()
    }

    /// Takes the next record; sleeps until there is one.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; [`Error::System`] if the card has gone.
    pub fn wait(&mut self, timeout: Option<Duration>) -> Result<Record> {
        let deadline = Deadline::new(timeout);
        loop {
            if let Some(record) = self.next() {
                return Ok(record);
            }
            self.sleep(deadline.check("record")?)?;
        }
    }

    /// Sleeps until there is a record behind the last one taken, or for a while.
    pub(super) fn sleep(&self, left: Option<Duration>) -> Result<()> {
        let mut wait = DartQueueWait { timeout_ns: slice(left), queue: self.parts.number, taken: self.taken };
        slept(self.parts.card.wait_for_records(&mut wait))
    }

    pub(super) fn parts(&self) -> &Arc<Parts> {
        &self.parts
    }
}

impl AsFd for Queue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl AsRawFd for Queue {
    fn as_raw_fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}
