//! Questions about another host's registers and memory.

use std::sync::Arc;
use std::time::Duration;

use super::waiting::{Awaited, receive};
use crate::dart::{Connection, Operation, Queue, Record, Source, Step, Target};
use crate::error::{Result, at_most};

/// Bytes of a caller's endpoint that a question takes.
const QUESTION: u64 = 32;
/// Questions that may wait to leave at a time: each has a place of its own until it has left.
const PLACES: u64 = 32;
/// The most bytes of an answer that comes with the record that tells of it.
const BLOCK: u32 = 32;

/// Asks the card at a connection's other end, and waits for its answers. That host's software has
/// nothing to do with it.
///
/// It has the queue that its connection's events go to for itself, and [`Caller::SCRATCH`] bytes of
/// the connection's endpoint. What is sent by the connection besides is sent before a question or
/// after its answer: not by another thread meanwhile.
#[derive(Debug)]
pub struct Caller {
    connection: Arc<Connection>,
    answers: Queue,
    scratch: u64,
    /// The number of the next question, and the place of the last one.
    next: u32,
    place: u64,
    timeout: Option<Duration>,
}

/// Bytes that are read: from byte `from` of the other end's endpoint to byte `to` of this end's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Where they are there.
    pub from: u64,
    /// Where they are to be here.
    pub to: u64,
    /// How many, up to 65,504.
    pub length: u32,
}

impl Caller {
    /// Bytes of the connection's endpoint that questions are sent from.
    pub const SCRATCH: u64 = QUESTION * PLACES;

    /// A caller by this connection, whose events go to `answers`, with questions in its endpoint
    /// from byte `scratch` on. It waits for an answer for ever.
    #[must_use]
    pub fn new(connection: Arc<Connection>, answers: Queue, scratch: u64) -> Self {
        Self { connection, answers, scratch, next: 0, place: 0, timeout: None }
    }

    /// Waits so long for an answer.
    #[must_use]
    pub fn timeout(self, timeout: Option<Duration>) -> Self {
        Self { timeout, ..self }
    }

    /// What it asks by.
    #[must_use]
    pub fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    /// Sends a question. Returns the operation of its answer, which carries the question's number
    /// in its indices: no step of an answer uses them. Answers come in the order of their
    /// questions, so 24 bits tell those under way apart.
    fn send(&mut self, question: &Operation, answer: Operation, bytes: u32) -> Result<Operation> {
        // The card still reads the question from its place until it has left.
        self.connection.wait_for_room(PLACES as u32, self.timeout)?;
        // If all have left the place is the same as for the one before, which the card knows.
        let place = if self.connection.has_left() { 0 } else { (self.place + 1) % PLACES };
        let [i, j, k, _] = self.next.to_le_bytes();
        let answer = answer.tell().indices([i, j, k]);
        self.connection.ask(question, &answer, bytes, self.scratch + place * QUESTION)?;
        (self.next, self.place) = (self.next.wrapping_add(1), place);
        Ok(answer)
    }

    /// Waits for the event of this answer. Answers to questions that were given up come first, and
    /// are discarded.
    fn receive(&mut self, awaited: &Awaited, answer: Operation) -> Result<Record> {
        receive(&mut self.answers, &self.connection, awaited, self.timeout, |record| {
            record.operation == answer
        })
    }

    /// Asks, and waits for the answer: the four words of its first block.
    ///
    /// # Errors
    /// Those of [`Connection::ask`]; [`crate::Error::Trap`] if the other end refuses it;
    /// [`crate::Error::TimedOut`]: if it is refused later, that is told of the next question of the
    /// same operation.
    pub fn ask(&mut self, question: &Operation) -> Result<[u64; 4]> {
        let awaited = Awaited::new(&self.connection, question);
        let answer = self.send(question, Operation::registers(0), 0)?;
        let record = self.receive(&awaited, answer)?;
        Ok([0, 1, 2, 3].map(|n| record.word(n).unwrap_or_default()))
    }

    /// Does one operation on a register of the other end's window, with this operand; what it was,
    /// and what it is.
    ///
    /// # Errors
    /// Those of [`Caller::ask`].
    pub fn fetch(&mut self, register: u8, step: Step, operand: u64) -> Result<(u64, u64)> {
        let question = Operation::answer(operand).first(step, Source::Operand, Target::I);
        let [before, now, ..] = self.ask(&question.indices([register, 0, 0]))?;
        Ok((before, now))
    }

    /// A register of the other end's window becomes `new` if it is `expected`; what it was.
    /// Register `own` of the window is for this caller alone.
    ///
    /// # Errors
    /// Those of [`Caller::ask`].
    pub fn compare_and_swap(&mut self, register: u8, own: u8, expected: u64, new: u64) -> Result<u64> {
        let keep = Operation::registers(new).first(Step::Move, Source::Operand, Target::I);
        self.connection.send(&keep.indices([own, 0, 0]), 0..0)?;
        let question = Operation::answer(expected).first(Step::ReplaceIfEqual, Source::J, Target::I);
        Ok(self.ask(&question.indices([register, own, 0]))?[0])
    }

    /// Reads up to 32 bytes from byte `from` of the other end's endpoint on.
    ///
    /// # Errors
    /// Those of [`Caller::ask`]; [`crate::Error::OutOfRange`] for more.
    pub fn read(&mut self, from: u64, to: &mut [u8]) -> Result<()> {
        at_most("bytes that are read at once", to.len() as u64, BLOCK.into())?;
        // Words that are not asked for need not be there.
        let words = to.len().div_ceil(4);
        let mask = (0..8).filter(|word| *word >= words).fold(0, |mask, word| mask | 1 << word);
        let found = self.ask(&Operation::read(from).mask(mask))?;
        let bytes: Vec<u8> = found.iter().flat_map(|word| word.to_le_bytes()).collect();
        to.copy_from_slice(&bytes[..to.len()]);
        Ok(())
    }

    /// Reads bytes into this end's endpoint, from as many places as there are; the questions do not
    /// wait for each other.
    ///
    /// # Errors
    /// Those of [`Caller::ask`]. Then some bytes may have been read, and others may still arrive:
    /// their places are this caller's until a later question of its has been answered.
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
