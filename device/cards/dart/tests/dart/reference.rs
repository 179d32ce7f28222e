//! What `docs/dart.md` specifies for a whole message, written plainly. The interpreter does the
//! registers, and this file does the memory.

use crate::calling::{Entry, called, is_question};
use crate::interpreter::{self, Trap, interpret, is_implemented};

const READ: u32 = 3;
const WRITE_MULTIPLE: u32 = 2;
const READ_MULTIPLE: u32 = 4;
const ANSWER: u32 = 5;
const CALL: u32 = 6;
const EXCEPTION: u32 = 7;
/// Size of a block, and of a page, in bytes.
const BLOCK: usize = 32;
const PAGE: u64 = 4096;

/// The numbers of traps, in the order of their checks.
pub(crate) const UNIMPLEMENTED: u32 = 1;
pub(crate) const INDEX: u32 = 2;
pub(crate) const REFUSED: u32 = 3;
pub(crate) const RIGHT: u32 = 4;
pub(crate) const MISALIGNED: u32 = 5;
pub(crate) const BOUNDS: u32 = 6;
pub(crate) const NO_MEMORY: u32 = 7;

/// The driver's answer for a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Page {
    Writable,
    ReadOnly,
    Absent,
    /// The page is in a frame that does not exist.
    Unreachable,
}

/// The receiver's state for a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Receiver {
    /// Its window of registers.
    pub(crate) registers: Vec<u64>,
    /// The bytes of its endpoint, and where in their first page they begin.
    pub(crate) memory: Vec<u8>,
    pub(crate) first: u64,
    pub(crate) pages: Vec<Page>,
    pub(crate) program: Vec<Entry>,
    pub(crate) may_write: bool,
    pub(crate) may_read: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct Message {
    pub(crate) logic: interpreter::Message,
    pub(crate) mask: u8,
    pub(crate) block: [u8; BLOCK],
    /// The data in the cells behind the first.
    pub(crate) body: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    Trap(u32),
    /// The software handles the message, and nothing else is done.
    Exception,
    Done {
        event: bool,
        answer: Option<Vec<u8>>,
    },
}

impl Receiver {
    /// Executes a message. If it has a trap, nothing else happens.
    pub(crate) fn take(&mut self, message: &Message) -> Outcome {
        match self.execute(message) {
            Ok((outcome, after)) => {
                *self = after;
                outcome
            }
            Err(trap) => Outcome::Trap(trap),
        }
    }

    fn execute(&self, message: &Message) -> Result<(Outcome, Self), u32> {
        let logic = self.called(message)?;
        let main = logic.opcode & 7;
        if main == EXCEPTION {
            return Ok((Outcome::Exception, self.clone()));
        }
        let made = interpret(logic, &self.registers).map_err(|trap| match trap {
            Trap::Unimplemented => UNIMPLEMENTED,
            Trap::Index => INDEX,
            Trap::Refused => REFUSED,
        })?;
        let mut after = Self { registers: made.registers.clone(), ..self.clone() };
        let mut answer = made.answer.map(|values| {
            let mut block = vec![0; BLOCK];
            block[..16].copy_from_slice(values.map(u64::to_le_bytes).as_flattened());
            block
        });
        if let Some(address) = made.address {
            let reads = main == READ || main == READ_MULTIPLE;
            let data = if main == WRITE_MULTIPLE { &message.body[..] } else { &message.block };
            let asked = u32::from_le_bytes(message.block[16..20].try_into().unwrap()).min(65504);
            let length = if main == READ_MULTIPLE { asked as usize } else { data.len() };
            let places = self.places(address, length, message.mask, !reads)?;
            if reads {
                let mut bytes = vec![0; length];
                places.iter().for_each(|(at, place)| bytes[*at] = self.memory[*place]);
                answer = Some(bytes);
            } else {
                places.iter().for_each(|(at, place)| after.memory[*place] = data[*at]);
            }
        }
        Ok((Outcome::Done { event: made.event, answer }, after))
    }

    /// Returns the operation to execute: the message's own, or the program's instead.
    fn called(&self, message: &Message) -> Result<interpreter::Message, u32> {
        let mut logic = message.logic;
        let asks = is_implemented(logic.opcode) && is_question(logic.opcode);
        let is_call = is_implemented(logic.opcode) && logic.opcode & 7 == CALL;
        if is_call {
            (logic.opcode, logic.operand) = called(logic, &self.program).ok_or(UNIMPLEMENTED)?;
        }
        let main = logic.opcode & 7;
        let answers = [READ, READ_MULTIPLE, ANSWER].contains(&main);
        // A caller states how long its answer is.
        let is_other = is_call && answers && main != READ_MULTIPLE && message.block[16..20] != [0; 4];
        let is_bad = !is_implemented(logic.opcode)
            || is_call && main == CALL
            || answers != asks
            || is_other
            || !message.body.is_empty() && main != WRITE_MULTIPLE && main != EXCEPTION;
        if is_bad { Err(UNIMPLEMENTED) } else { Ok(logic) }
    }

    /// Returns the bytes of a message's data with their places in the endpoint.
    fn places(
        &self,
        address: u64,
        length: usize,
        mask: u8,
        writes: bool,
    ) -> Result<Vec<(usize, usize)>, u32> {
        if !(if writes { self.may_write } else { self.may_read }) {
            return Err(RIGHT);
        }
        if address % 4 != 0 {
            return Err(MISALIGNED);
        }
        let mut places = Vec::new();
        for at in (0..length).filter(|at| mask >> (at % BLOCK / 4) & 1 == 0) {
            let place = u128::from(address) + at as u128;
            if place >= self.memory.len() as u128 {
                return Err(BOUNDS);
            }
            places.push((at, place as usize));
        }
        let page = |place: usize| self.pages[((place as u64 + self.first) / PAGE) as usize];
        let is_there = |page: Page| page == Page::Writable || page == Page::ReadOnly && !writes;
        if places.iter().all(|(_, place)| is_there(page(*place))) { Ok(places) } else { Err(NO_MEMORY) }
    }
}
