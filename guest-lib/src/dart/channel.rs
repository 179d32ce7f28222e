//! Channels over DART cards: store, indirect, postincrement (section 2).
//!
//! The receiver's register 0 holds the address of the next message. Each message advances it by its
//! length, or sets it back to the start of the ring, and creates a record in the receiver's queue.
//! So a sender needs no address, and the receiver polls its queue and sleeps on it. Each half has a
//! connection, whose endpoint holds both its area and its mirror.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use hamlyn_abi::dart::connection::{DART_LONGEST, DART_MAX_SENDS};
use hamlyn_abi::dart::control::DART_BLOCK;

use super::address::Address;
use super::card::Card;
use super::connection::{Connection, Rights};
use super::endpoint::Endpoint;
use super::model::Dart;
use super::operation::{Operation, Source, Step, Target};
use super::queue::{Queue, Record, Urgency, What};
use crate::core::carrier::{AnyCard, Carrier};
use crate::core::express::memory::{RingMemory, place};
use crate::core::express::ring::{Shared, Word};
use crate::core::model::Model;
use crate::core::place::PAGE;
use crate::core::remote::{Ends, Remote};
use crate::core::waiting::Deadline;
use crate::error::{Error, Result};

/// Capacity of a half's queue in records. When the queue is full, messages wait at the sender's
/// card.
const RECORDS: u32 = 256;
/// The register that holds the address of the next message.
const NEXT: u8 = 0;
/// Maximum number of messages waiting to leave before a sender blocks.
const WAITING: u32 = DART_MAX_SENDS / 2;
/// Operand of the answer that confirms the execution of all messages before its question; and the
/// question's offset.
const FENCE: u64 = 0x6665_6e63_6521;
const SCRATCH: u64 = 512;
/// Maximum time of one sleep for that answer, because a broken connection creates no record.
const LOOK: Duration = Duration::from_millis(20);
/// Maximum time for a message to leave.
const PATIENCE: Duration = Duration::from_secs(30);

impl Carrier for Card {
    fn model(&self) -> (&'static str, u32) {
        (Dart::NAME, Dart::NUMBER)
    }

    fn card(&self) -> &dyn AnyCard {
        self
    }

    fn ends(&self, host: u32, capacity: u64) -> Result<Box<dyn Ends>> {
        Ok(Box::new(DartEnds::create(self, host, capacity)?))
    }
}

/// Both halves, before the peer's halves are known.
#[derive(Debug)]
struct DartEnds {
    sender: Half,
    receiver: Half,
}

impl DartEnds {
    fn create(card: &Card, host: u32, capacity: u64) -> Result<Self> {
        Ok(Self { sender: Half::open(card, host, capacity)?, receiver: Half::open(card, host, capacity)? })
    }
}

impl Ends for DartEnds {
    fn address(&self) -> Result<Vec<u8>> {
        let [sender, receiver] = [&self.sender, &self.receiver].map(|half| half.connection.address());
        Ok([sender?.to_bytes(), receiver?.to_bytes()].concat())
    }

    fn join(self: Box<Self>, peer: &[u8], _host: u32, capacity: u64) -> Result<[Box<dyn Remote>; 2]> {
        let (sender, receiver) = peer
            .split_at_checked(Address::SIZE)
            .ok_or(Error::Malformed("an offer of a channel that is too short"))?;
        let join = |mut half: Half, address: &[u8]| -> Result<Box<dyn Remote>> {
            half.capacity = capacity;
            half.connection.connect(&Address::from_bytes(address)?)?;
            Ok(Box::new(half))
        };
        Ok([join(self.sender, receiver)?, join(self.receiver, sender)?])
    }
}

#[derive(Debug)]
struct Half {
    connection: Connection,
    queue: RefCell<Queue>,
    memory: RingMemory,
    capacity: u64,
    /// The position up to which the peer has written, according to the records of its messages.
    written: Cell<u64>,
    /// Number of answers that confirmed the execution of all messages before them, and of the
    /// questions for such answers.
    fences: Cell<u32>,
    asked: Cell<u32>,
    /// Nothing was posted since the last question.
    is_fenced: Cell<bool>,
    /// Number of records taken when the half was armed.
    armed: Cell<u32>,
}

impl Half {
    fn open(card: &Card, host: u32, capacity: u64) -> Result<Self> {
        let endpoint: Endpoint = card.endpoint(PAGE + capacity as usize)?;
        let memory = RingMemory::over(endpoint.parts().memory().mapping().clone());
        let memory = memory.ok_or(Error::Invalid("a channel's area has two pages at least"))?;
        let (bank, queue) = (card.bank(1, 0)?, card.queue(RECORDS, Urgency::Delayed)?);
        let connection = card.connection(&endpoint, &bank).events(&queue).rights(Rights::Write).open(host)?;
        connection.set_register(NEXT.into(), PAGE as u64)?;
        Ok(Self {
            connection,
            queue: RefCell::new(queue),
            memory,
            capacity,
            written: Cell::new(0),
            fences: Cell::new(0),
            asked: Cell::new(0),
            is_fenced: Cell::new(false),
            armed: Cell::new(0),
        })
    }

    /// Asks the peer's card to confirm all messages before this, unless an earlier question covers
    /// them.
    fn ask_for_fence(&self, limit: Option<Duration>) -> Result<()> {
        if self.is_fenced.get() {
            return Ok(());
        }
        let (question, answer) = (Operation::answer(0), Operation::registers(FENCE).tell());
        self.connection.wait_for_room(WAITING, limit)?;
        self.connection.ask(&question, &answer, 0, SCRATCH)?;
        self.asked.set(self.asked.get().wrapping_add(1));
        self.is_fenced.set(true);
        Ok(())
    }

    /// Takes all records and counts the messages and answers that they report.
    fn take_records(&self) {
        let mut queue = self.queue.borrow_mut();
        while let Some(record) = queue.try_recv() {
            self.written.set(behind(&record, self.written.get(), self.capacity));
            if record.operand() == FENCE {
                self.fences.set(self.fences.get().wrapping_add(1));
            }
        }
    }
}

/// Returns an operation that writes `length` bytes: one block if these are up to 32 bytes, else
/// several.
fn write(length: u64, operand: u64) -> Operation {
    if length <= DART_BLOCK.into() {
        // A block has 8 words. The mask deselects those that the message does not have.
        Operation::write(operand).mask((0xff_u32 << (length / 4)) as u8)
    } else {
        Operation::write_multiple(operand)
    }
}

/// Returns an operation that writes at the address in register 0, which it advances by `length`
/// bytes. `is_last` means that these bytes end at the end of the ring.
fn store(length: u64, is_last: bool) -> Operation {
    let (step, operand) = if is_last { (Step::Move, PAGE as u64) } else { (Step::Add, length) };
    write(length, operand).indirect(NEXT).first(step, Source::Operand, Target::I).tell()
}

/// Returns the position after a message, from its record. Records of other operations belong to
/// stored words.
fn behind(record: &Record, position: u64, capacity: u64) -> u64 {
    let control = record.operation.control();
    let is = |operation: Operation| operation.control().opcode == control.opcode;
    let short_or_long = |is_last| is(store(8, is_last)) || is(store(64, is_last));
    match record.what {
        What::Compared if short_or_long(false) => position.wrapping_add(control.operand),
        What::Compared if short_or_long(true) => (position / capacity + 1).wrapping_mul(capacity),
        _ => position,
    }
}

impl Remote for Half {
    fn area(&self) -> &RingMemory {
        &self.memory
    }

    fn mirror(&self) -> &RingMemory {
        &self.memory
    }

    /// Posts pieces and a word. The records report `Written`; other words are stored, with a record
    /// that wakes the peer.
    ///
    /// A piece that is longer than an operation's data begins with the operation that reports it.
    /// The rest is written before that, so that the peer never sees a part of a message.
    fn post(&self, pieces: &[Range<u64>; 2], word: Word, value: u64) -> Result<()> {
        self.is_fenced.set(false);
        let (page, longest) = (PAGE as u64, u64::from(DART_LONGEST));
        let send =
            |operation, from, to| self.connection.send_timeout(&operation, page + from..page + to, PATIENCE);
        for piece in pieces.iter().filter(|piece| !piece.is_empty()) {
            let head = piece.end.min(piece.start + longest);
            for at in (head..piece.end).step_by(DART_LONGEST as usize) {
                let end = piece.end.min(at + longest);
                send(write(end - at, page + at), at, end)?;
            }
            send(store(piece.end - piece.start, piece.end == self.capacity), piece.start, head)?;
        }
        if matches!(word, Word::Written) {
            return Ok(());
        }
        self.memory.store(word, value);
        let at = place(word) as u64;
        let store = Operation::write(at).mask(!0b11).tell();
        self.connection.send_timeout(&store, at..at + 8, PATIENCE)
    }

    fn load(&self, word: Word) -> u64 {
        self.take_records();
        match word {
            Word::Written => self.written.get(),
            word => self.memory.load(word),
        }
    }

    fn has_news(&self, written: u64) -> bool {
        let has_record = self.queue.borrow().has_next();
        has_record || self.written.get() != written || self.memory.load(Word::Ended) != 0
    }

    fn wait_for_room(&self, limit: Option<Duration>) -> Result<bool> {
        match self.connection.wait_for_room(WAITING, limit) {
            Err(error) if error.is_timed_out() => Ok(false),
            waited => waited.map(|()| true),
        }
    }

    fn arm(&self) -> Result<()> {
        self.armed.set(self.queue.borrow().taken());
        Ok(())
    }

    /// Each load takes records, of other words too, so a record may have been taken after the load
    /// of its word.
    fn arm_file(&self) -> Result<bool> {
        Ok(self.queue.borrow().taken() != self.armed.get())
    }

    fn file(&self) -> Result<OwnedFd> {
        let file = self.queue.borrow().as_fd().try_clone_to_owned();
        file.map_err(Error::system("have a queue's file once more"))
    }

    fn check(&self) -> Result<()> {
        self.connection.check_executed()
    }

    /// Blocks until the peer's card has executed all posted messages. Closing this connection would
    /// drop messages that still wait for a page there.
    fn finish(&self, limit: Option<Duration>) -> Result<()> {
        let deadline = Deadline::new(limit);
        self.ask_for_fence(limit)?;
        loop {
            self.take_records();
            if self.fences.get() == self.asked.get() {
                return Ok(());
            }
            self.check()?;
            let left = deadline.check("answer of the peer's card")?;
            let queue = self.queue.borrow();
            queue.sleep(queue.taken(), Some(left.map_or(LOOK, |left| left.min(LOOK))))?;
        }
    }
}

#[cfg(test)]
#[path = "channel_tests.rs"]
mod tests;
