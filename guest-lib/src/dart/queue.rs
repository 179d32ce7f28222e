//! Queues of records about messages (sections 1 and 2).

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
use crate::core::attach::file_of;
use crate::core::polling::{Poller, Polling, poll_until};
use crate::core::waiting::{slept, slice};
use crate::error::{Error, Result, at_most};

/// When a queue's records cause interrupts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Urgency {
    /// Records are taken when convenient; there is an interrupt only if a thread sleeps.
    Delayed,
    /// Each record causes an interrupt: for exceptions and urgent messages.
    Immediate,
}

/// A record about a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Record {
    /// The connection of the message, by its number at this host.
    pub connection: u32,
    /// The kind of the record.
    pub what: What,
    /// The message's operation.
    pub operation: Operation,
    /// The data of the message's first cell.
    pub data: [u8; DART_BLOCK as usize],
    /// Number of data bytes of a message of several blocks, else 0. If there are more than 32,
    /// `data` has the first block.
    pub length: u32,
    /// The queue was too small for the data of an exception: only `data` is left of it.
    pub is_cut: bool,
}

impl Record {
    /// Returns 8 bytes of the data, the `n`-th of four words.
    #[must_use]
    pub fn word(&self, n: usize) -> Option<u64> {
        let bytes = self.data.chunks_exact(8).nth(n)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    }

    /// Returns the message's operand.
    #[must_use]
    pub fn operand(&self) -> u64 {
        self.operation.control().operand
    }
}

/// Kinds of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum What {
    /// The message's comparison held, and the message was executed.
    Compared,
    /// A software exception: software must carry out the message.
    Exception,
    /// The message was not executed; `None` means a reason that this library does not know.
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

/// A queue: a ring in this process' memory. The card writes records about messages to it, for all
/// connections that use it. Taking a record needs no system call.
///
/// If the queue is full, the messages wait, and so do later messages of their connections: nothing
/// is lost.
///
/// An exception takes one more slot for each 60 bytes of its message's data. So a queue for
/// exceptions of any length has 2,048 records.
///
/// [`AsFd`] returns the file to wait for with `poll(2)`, `epoll(7)` and the like. It is readable
/// while the queue is not empty.
#[derive(Debug)]
pub struct Queue {
    parts: Arc<Parts>,
    memory: Arc<Mapping>,
    records: u32,
    /// Number of records taken, modulo 2^32.
    taken: u32,
    /// The data of the last record taken.
    data: Vec<u8>,
    poller: Arc<Poller>,
    file: OwnedFd,
}

/// The part of a queue that connections keep alive.
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
        let file = file_of(&**card, opened.memory_offset, &card.file())?;
        Ok(Self { parts, memory, records, taken: 0, data: Vec::new(), file, poller: Arc::default() })
    }

    /// Takes the next record, if there is one, without a system call.
    pub fn try_recv(&mut self) -> Option<Record> {
        if !self.has_next() {
            return None;
        }
        let (at, next) = (self.place(self.taken), self.taken.wrapping_add(1));
        let mut record = DartRecord::default();
        self.memory.read(at, record.as_mut_bytes());
        self.taken = next.wrapping_add(self.read_data(&record));
        self.memory.store_u32_release(DART_QUEUE_TAKEN as usize, self.taken);
        barrier::before_queue_check();
        let DartRecord { control, data, length, connection, kind, .. } = record;
        let (data, is_cut) = (zerocopy::transmute!(data), kind & DART_RECORD_CUT != 0);
        Some(Record { connection, what: What::of(kind), operation: control.into(), data, length, is_cut })
    }

    /// Returns whether there is a next record.
    #[inline]
    pub(super) fn has_next(&self) -> bool {
        let number = self.place(self.taken) + std::mem::offset_of!(DartRecord, number);
        self.memory.load_u32_acquire(number) == self.taken.wrapping_add(1)
    }

    /// Returns the data of the last record taken: all data of its message if it is an exception,
    /// else the data of the first cell. So software can carry out messages of any length that the
    /// card could not execute.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// Reads the data of a record, and returns the number of additional slots that it takes.
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

    /// Returns the offset of record `n`.
    fn place(&self, n: u32) -> usize {
        (DART_QUEUE_HEAD + (n & (self.records - 1)) * DART_RECORD_SIZE) as usize
    }

    /// Takes the next record, and polls for it for up to `polling`.
    pub fn poll(&mut self, polling: Duration) -> Option<Record> {
        poll_until(Some(polling), || self.try_recv())
    }

    /// Sets how long [`Queue::recv`] polls before it sleeps.
    pub fn set_polling(&mut self, polling: Polling) {
        self.poller.set(polling);
    }

    /// Takes the next record. Polls for a while, then sleeps.
    ///
    /// # Errors
    /// [`Error::System`] if the card is gone.
    pub fn recv(&mut self) -> Result<Record> {
        self.recv_within(None)
    }

    /// As [`Queue::recv`], but blocks for at most `timeout`.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; those of [`Queue::recv`].
    pub fn recv_timeout(&mut self, timeout: Duration) -> Result<Record> {
        self.recv_within(Some(timeout))
    }

    pub(super) fn recv_within(&mut self, timeout: Option<Duration>) -> Result<Record> {
        let poller = self.poller.clone();
        poller.wait(self, "record", timeout, Self::try_recv, |queue, left| queue.sleep(queue.taken, left))
    }

    /// Returns the number of records taken, modulo 2^32.
    pub(super) fn taken(&self) -> u32 {
        self.taken
    }

    /// Blocks until there is a record after the first `taken`, even if it was taken since, or for a
    /// limited time.
    pub(super) fn sleep(&self, taken: u32, left: Option<Duration>) -> Result<()> {
        let mut wait = DartQueueWait { timeout_ns: slice(left), queue: self.parts.number, taken };
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
