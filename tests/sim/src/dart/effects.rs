//! The effects of a message on registers and memory, by the semantics of the card's page in the
//! documents.

use std::ops::Range;

use hamlyn_abi::dart::trap::*;

use super::calling::{self, Entry};
use super::end::Arrived;
use super::interpreter::{self, Trap, interpret, is_implemented};
use super::packet::{BLOCK, Message};
use super::terms::{Piece, Terms};

pub(super) const FETCH_AND_INCREMENT: u32 = 5 | 4 << 8;
pub(super) const BARRIER: u32 = 5 << 8 | 1 << 24;
pub(super) const COMPARE_AND_SWAP: u32 = 5 | 0x2f << 8;

const CALL: u32 = 6;
const EXCEPTION: u32 = 7;

/// The outcome of a message, if its pages are present.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It is left to software.
    Exception,
    /// A `DART_TRAP_*`.
    Trap(u32),
    Made(Made),
}

/// The effects of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Made {
    /// The window.
    pub(super) registers: Vec<u64>,
    pub(super) event: bool,
    /// Its access to memory.
    pub(super) access: Option<Access>,
    /// The contents of its ANSWER.
    pub(super) answer: Option<[u64; 2]>,
    /// It is answered.
    pub(super) asks: bool,
}

/// The bytes of an endpoint that a message accesses, from an offset on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Access {
    pub(super) writes: bool,
    pub(super) address: u64,
    /// Ranges of its data, a word or more each (`parts`), and the length of the data (`length`).
    pub(super) parts: Vec<Range<usize>>,
    pub(super) length: usize,
    /// It is a block.
    pub(super) is_block: bool,
}

/// Returns the outcome of a message, given the registers of its connection's window.
pub(super) fn outcome(terms: &Terms, program: &[Entry], arrived: &Arrived, window: &[u64]) -> Outcome {
    let message = &arrived.message;
    let Some((opcode, operand)) = called(terms, program, message) else {
        return Outcome::Trap(DART_TRAP_UNIMPLEMENTED);
    };
    let main = opcode & 7;
    let asks = (3..=5).contains(&main);
    // An answer is paid for with its question, which also sets its length.
    let answer = asks.then(|| if main == 4 { message.asked() } else { 0 });
    let paid = message.answer_length().filter(|_| !arrived.is_answer);
    if answer != paid || main != 2 && main != EXCEPTION && !message.body.is_empty() {
        return Outcome::Trap(DART_TRAP_UNIMPLEMENTED);
    }
    if main == EXCEPTION {
        return match terms.exceptions {
            Some(_) => Outcome::Exception,
            None => Outcome::Trap(DART_TRAP_UNIMPLEMENTED),
        };
    }
    let made =
        match interpret(interpreter::Message { opcode, indices: message.control.indices, operand }, window) {
            Ok(made) => made,
            Err(Trap::Unimplemented) => return Outcome::Trap(DART_TRAP_UNIMPLEMENTED),
            Err(Trap::Index) => return Outcome::Trap(DART_TRAP_INDEX),
            Err(Trap::Refused) => return Outcome::Trap(DART_TRAP_REFUSED),
        };
    let access = match made.address.map(|address| access(terms, arrived, main, address)) {
        Some(Err(trap)) => return Outcome::Trap(trap),
        Some(Ok(access)) => Some(access),
        None => None,
    };
    let (registers, event, answer) = (made.registers, made.event, made.answer);
    Outcome::Made(Made { registers, event, access, answer, asks })
}

/// Returns the opcode and operand to execute, if the card implements them.
fn called(terms: &Terms, program: &[Entry], message: &Message) -> Option<(u32, u64)> {
    let control = message.control;
    let own = Some((control.opcode, control.operand)).filter(|(opcode, _)| is_implemented(*opcode))?;
    if own.0 & 7 != CALL {
        return Some(own);
    }
    let call = interpreter::Message { opcode: own.0, indices: control.indices, operand: own.1 };
    let called = calling::called(call, program.get(terms.program.clone())?);
    called.filter(|(opcode, _)| is_implemented(*opcode) && opcode & 7 != CALL)
}

fn access(terms: &Terms, arrived: &Arrived, main: u32, address: u64) -> Result<Access, u32> {
    let message = &arrived.message;
    let writes = main <= 2;
    let is_block = main % 2 == 1;
    let length = match main {
        2 => message.body.len(),
        4 => message.asked(),
        _ => BLOCK,
    };
    if !arrived.is_answer && !(if writes { terms.may_write } else { terms.may_read }) {
        return Err(DART_TRAP_RIGHT);
    }
    if address % 4 != 0 {
        return Err(DART_TRAP_MISALIGNED);
    }
    let mask = message.control.mask;
    let words = (0..length).step_by(4).filter(|at| mask >> (at / 4 % 8) & 1 == 0);
    let parts: Vec<Range<usize>> = match mask {
        0 => std::iter::once(0..length).filter(|all| !all.is_empty()).collect(),
        _ => words.map(|at| at..length.min(at + 4)).collect(),
    };
    let inside = |at: usize| address.checked_add(at as u64).is_some_and(|at| terms.reach.contains(&at));
    if !parts.iter().all(|part| inside(part.start) && inside(part.end - 1)) {
        return Err(DART_TRAP_BOUNDS);
    }
    Ok(Access { writes, address, parts, length, is_block })
}

impl Access {
    /// Returns the number of bytes that it accesses.
    pub(super) fn count(&self) -> u64 {
        self.parts.iter().map(|part| part.len() as u64).sum()
    }

    /// Returns the pieces of the access: the range of its data, and its place in the endpoint.
    pub(super) fn pieces(&self, terms: &Terms) -> Vec<(Range<usize>, Piece)> {
        let mut pieces = Vec::new();
        for part in &self.parts {
            let mut at = part.start;
            for piece in terms.pieces(self.address + part.start as u64, part.len() as u64) {
                pieces.push((at..at + piece.length, piece));
                at += piece.length;
            }
        }
        pieces
    }
}
