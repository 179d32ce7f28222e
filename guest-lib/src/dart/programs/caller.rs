//! Questions about another host's registers and memory.

use std::sync::Arc;
use std::time::Duration;

use super::waiting::{Awaited, receive};
use crate::dart::{Connection, Operation, Queue, Record, Source, Step, Target};
use crate::error::{Result, at_most};

/// Bytes of a caller's endpoint that a question takes.
const QUESTION: u64 = 32;
/// Maximum number of questions waiting to leave. Each has a slot of its own until it has left.
const PLACES: u64 = 32;
/// Maximum size of an answer inside an event record, in bytes.
const BLOCK: u32 = 32;

/// Asks the card at a connection's other end, and waits for its answers. The other host's software
/// is not involved.
///
/// A caller needs exclusive use of the queue for its connection's events, and of
/// [`Caller::SCRATCH`] bytes of the connection's endpoint. Other messages over the connection may
/// be sent before a question or after its answer, but not by another thread in between.
#[derive(Debug)]
pub struct Caller {
    connection: Arc<Connection>,
    answers: Queue,
    scratch: u64,
    /// Number of the next question, and the slot of the last one.
    next: u32,
    place: u64,
    timeout: Option<Duration>,
}

/// Bytes to be read from the other end's endpoint into this end's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Offset of the bytes in the other end's endpoint.
    pub from: u64,
    /// Offset of the destination in this end's endpoint.
    pub to: u64,
    /// Number of bytes, up to 65,504.
    pub length: u32,
}

impl Caller {
    /// Size of the area in the connection's endpoint that questions are sent from, in bytes.
    pub const SCRATCH: u64 = QUESTION * PLACES;

    /// Creates a caller that uses this connection, whose events go to `answers`. Its questions are
    /// in the endpoint from byte `scratch` on.
    #[must_use]
    pub fn new(connection: Arc<Connection>, answers: Queue, scratch: u64) -> Self {
        Self { connection, answers, scratch, next: 0, place: 0, timeout: None }
    }

    /// Limits each wait for an answer. By default a wait lasts until the connection is broken.
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout: Some(timeout), ..self }
    }

    /// Returns the connection.
    #[must_use]
    pub fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    /// Sends a question. Returns the operation of its answer, which carries the question's number
    /// in its indices, because no step of an answer uses them. Answers arrive in the order of their
    /// questions, so 24 bits identify those in flight.
    fn send(&mut self, question: &Operation, answer: Operation, bytes: u32) -> Result<Operation> {
        // The card reads the question from its slot until it has left.
        self.connection.wait_for_room(PLACES as u32, self.timeout)?;
        // If all messages have left, use slot 0 again: the card still has its offset from the
        // question before.
        let place = if self.connection.has_left() { 0 } else { (self.place + 1) % PLACES };
        let [i, j, k, _] = self.next.to_le_bytes();
        let answer = answer.tell().indices([i, j, k]);
        self.connection.ask(question, &answer, bytes, self.scratch + place * QUESTION)?;
        (self.next, self.place) = (self.next.wrapping_add(1), place);
        Ok(answer)
    }

    /// Waits for the event of this answer. Answers to earlier questions that timed out come first,
    /// and are discarded.
    fn receive(&mut self, awaited: &Awaited, answer: Operation) -> Result<Record> {
        receive(&mut self.answers, &self.connection, awaited, self.timeout, |record| {
            record.operation == answer
        })
    }

    /// Asks, and blocks until the answer arrives. Returns the four words of its first block.
    ///
    /// # Errors
    /// Same as [`Connection::ask`]; [`crate::dart::Trap`] if the other end refuses the question;
    /// [`crate::Error::TimedOut`]: a later refusal is then reported for the next question with the
    /// same operation.
    pub fn ask(&mut self, question: &Operation) -> Result<[u64; 4]> {
        let awaited = Awaited::new(&self.connection, question);
        let answer = self.send(question, Operation::registers(0), 0)?;
        let record = self.receive(&awaited, answer)?;
        Ok([0, 1, 2, 3].map(|n| record.word(n).unwrap_or_default()))
    }

    /// Performs one operation on a register of the other end's window, with this operand. Returns
    /// the old and the new value.
    ///
    /// # Errors
    /// Same as [`Caller::ask`].
    pub fn fetch(&mut self, register: u8, step: Step, operand: u64) -> Result<(u64, u64)> {
        let question = Operation::answer(operand).first(step, Source::Operand, Target::I);
        let [before, now, ..] = self.ask(&question.indices([register, 0, 0]))?;
        Ok((before, now))
    }

    /// Sets a register of the other end's window to `new` if it equals `expected`, and returns its
    /// old value. Register `own` of the window must be reserved for this caller.
    ///
    /// # Errors
    /// Same as [`Caller::ask`].
    pub fn compare_and_swap(&mut self, register: u8, own: u8, expected: u64, new: u64) -> Result<u64> {
        let keep = Operation::registers(new).first(Step::Move, Source::Operand, Target::I);
        self.connection.try_send(&keep.indices([own, 0, 0]), 0..0)?;
        let question = Operation::answer(expected).first(Step::ReplaceIfEqual, Source::J, Target::I);
        Ok(self.ask(&question.indices([register, own, 0]))?[0])
    }

    /// Reads up to 32 bytes, starting at byte `from` of the other end's endpoint.
    ///
    /// # Errors
    /// Same as [`Caller::ask`]; [`crate::Error::OutOfRange`] if there are more.
    pub fn read(&mut self, from: u64, to: &mut [u8]) -> Result<()> {
        at_most("bytes that are read at once", to.len() as u64, BLOCK.into())?;
        // Words that are not asked for may lie outside the endpoint.
        let words = to.len().div_ceil(4);
        let mask = (0..8).filter(|word| *word >= words).fold(0, |mask, word| mask | 1 << word);
        let found = self.ask(&Operation::read(from).mask(mask))?;
        let bytes: Vec<u8> = found.iter().flat_map(|word| word.to_le_bytes()).collect();
        to.copy_from_slice(&bytes[..to.len()]);
        Ok(())
    }

    /// Reads any number of pieces into this end's endpoint. The questions are pipelined.
    ///
    /// # Errors
    /// Same as [`Caller::ask`]. Some bytes may then have been read, and others may still arrive. Do
    /// not reuse their destinations until a later question of this caller has been answered.
    pub fn gather(&mut self, pieces: &[Piece]) -> Result<()> {
        let awaited = Awaited::new(&self.connection, &Operation::read_multiple(0));
        // The queue and the window have room for the answers of a chunk.
        for some in pieces.chunks(PLACES as usize) {
            let mut answers = Vec::with_capacity(some.len());
            for piece in some {
                let question = Operation::read_multiple(piece.from);
                answers.push(self.send(&question, Operation::write_multiple(piece.to), piece.length)?);
            }
            for answer in answers {
                self.receive(&awaited, answer)?;
            }
        }
        Ok(())
    }
}
