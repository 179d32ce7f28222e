//! What `docs/dart.md` specifies for a CALL, word for word.

use super::interpreter::{Message, bits};

/// An entry of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// The opcode of what is executed.
    pub opcode: u32,
    /// The operand is the caller's.
    pub is_callers: bool,
    /// The operand, unless it is the caller's.
    pub operand: u64,
}

/// Returns what is executed for a CALL: opcode and operand of an entry. Returns `None` if the
/// program has no such entry, or if the caller has no operand for it.
pub fn called(call: Message, program: &[Entry]) -> Option<(u32, u64)> {
    let has_operand = bits(call.opcode, 4, 4) == 1;
    let number = if has_operand { bits(call.opcode, 16, 31).into() } else { call.operand };
    let entry = program.get(usize::try_from(number).ok()?)?;
    match (entry.is_callers, has_operand) {
        (true, false) => None,
        (true, true) => Some((entry.opcode, call.operand)),
        (false, _) => Some((entry.opcode, entry.operand)),
    }
}

/// Returns whether a message is a question by its own fields.
pub fn is_question(opcode: u32) -> bool {
    match bits(opcode, 0, 2) {
        6 => bits(opcode, 3, 3) == 1,
        main => (3..=5).contains(&main),
    }
}
