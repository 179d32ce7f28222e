//! The operation of a message that has arrived, and why it is not done yet.

use std::ops::Range;

use hamlyn_abi::dart::command::DART_ENTRY_OPERAND;
use hamlyn_abi::dart::control::DartControl;
use hamlyn_abi::dart::trap::{DART_TRAP_NO_MEMORY, DART_TRAP_UNIMPLEMENTED};
use hamlyn_card::ports::DmaFault;

use crate::cells::{BLOCK, Message};
use crate::connections::{Arrived, answer_length, asked};
use crate::logic::Trap;
use crate::memory::Memory;
use crate::opcode::{Call, Main, Opcode};

/// Why a message is not done.
pub(crate) enum Pause {
    /// The card has executed enough for one turn.
    Turn,
    /// The message waits for pages. This many of them had not been requested before.
    Pages(u64),
    /// The message waits for places in a queue.
    Places,
    /// The message waits for answers to leave.
    Answers,
    /// The message has a trap.
    Trap(u32),
}

impl From<DmaFault> for Pause {
    fn from(_: DmaFault) -> Self {
        Pause::Trap(DART_TRAP_NO_MEMORY)
    }
}

impl From<Trap> for Pause {
    fn from(trap: Trap) -> Self {
        Pause::Trap(trap.number())
    }
}

/// The operation of a message, after a CALL has been looked up.
pub(crate) struct Task {
    pub(crate) opcode: Opcode,
    pub(crate) control: DartControl,
    /// The message is the answer to a question of this end.
    pub(crate) is_answer: bool,
}

impl Task {
    /// Returns the operation of a message to a connection with this program. Fails with a trap if
    /// the card has no such operation.
    pub(crate) fn of(arrived: &Arrived, memory: &Memory, program: &Range<usize>) -> Result<Self, Pause> {
        let message = &arrived.message;
        let unimplemented = Pause::Trap(DART_TRAP_UNIMPLEMENTED);
        let decoded = Opcode::decode(message.control.opcode);
        let own =
            decoded.map(|opcode| Self { opcode, control: message.control, is_answer: arrived.is_answer });
        let task = own.and_then(|task| match task.opcode.main {
            Main::Call(call) => task.called(call, memory, program),
            _ => Some(task),
        });
        let Some(task) = task else { return Err(unimplemented) };
        let main = task.opcode.main;
        // The credits for an answer are paid with the question, so each answer must be as long as
        // the question requests.
        let answer = match main {
            _ if !main.is_answered() => None,
            Main::ReadMultiple => Some(asked(message)),
            _ => Some(0),
        };
        let paid = answer_length(message).filter(|_| !arrived.is_answer);
        let is_long = !message.body.is_empty() && !matches!(main, Main::WriteMultiple | Main::Exception);
        if answer != paid || is_long { Err(unimplemented) } else { Ok(task) }
    }

    /// Returns what an entry of a program makes of a CALL.
    fn called(mut self, call: Call, memory: &Memory, program: &Range<usize>) -> Option<Self> {
        let number =
            call.entry.map_or(usize::try_from(self.control.operand).ok(), |entry| Some(entry.into()));
        let entry = memory.entry(program, number?)?;
        let is_senders = entry.flags & DART_ENTRY_OPERAND != 0;
        if is_senders && call.entry.is_none() {
            return None;
        }
        self.control.opcode = entry.opcode;
        if !is_senders {
            self.control.operand = entry.operand;
        }
        self.opcode = Opcode::decode(entry.opcode).filter(|opcode| !matches!(opcode.main, Main::Call(_)))?;
        Some(self)
    }

    /// Returns the number of memory bytes that the message accesses, including those that its mask
    /// deselects.
    pub(crate) fn length(&self, message: &Message) -> usize {
        match self.opcode.main {
            Main::Write | Main::Read => BLOCK,
            Main::WriteMultiple => message.body.len(),
            Main::ReadMultiple => asked(message),
            Main::None | Main::Answer | Main::Call(_) | Main::Exception => 0,
        }
    }
}
