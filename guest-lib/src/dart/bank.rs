//! Address registers and programs (section 2).

use std::ops::Range;
use std::sync::Arc;

use hamlyn_abi::dart::command::{DART_ENTRY_OPERAND, DartEntry};
use hamlyn_abi::dart::uapi::{DART_MAX_BANK, DART_MAX_ENTRIES, DART_SET_ENTRIES, DartBank, DartSetProgram};

use super::attachment::{Attachment, Object};
use super::operation::Operation;
use crate::error::{Error, Result, at_most, inside};

/// A bank: address registers of the card, initially zero, and program entries. Connections have
/// windows of it, which may overlap and nest. Registers that two windows share can be changed by
/// messages of both connections.
#[derive(Debug, Clone)]
pub struct Bank {
    parts: Arc<Parts>,
}

/// The part of a bank that connections keep alive.
#[derive(Debug)]
pub(super) struct Parts {
    card: Arc<dyn Attachment>,
    number: u32,
    registers: u32,
    entries: u32,
}

impl Drop for Parts {
    fn drop(&mut self) {
        self.card.close(Object::Bank, self.number);
    }
}

/// An entry of a program: the operation that a message executes by calling it. Registers, mask and
/// data come from the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry(DartEntry);

impl Entry {
    /// Creates an entry for the operation, with the operand of the message that calls it
    /// ([`Operation::call_with`]).
    #[must_use]
    pub const fn with_callers_operand(operation: Operation) -> Self {
        let opcode = operation.control().opcode;
        Self(DartEntry { opcode, flags: DART_ENTRY_OPERAND, operand: 0 })
    }
}

/// An entry with the operation's own operand.
impl From<Operation> for Entry {
    fn from(operation: Operation) -> Self {
        let control = operation.control();
        Self(DartEntry { opcode: control.opcode, flags: 0, operand: control.operand })
    }
}

impl Bank {
    pub(super) fn open(card: &Arc<dyn Attachment>, registers: u32, entries: u32) -> Result<Self> {
        at_most("registers of a bank", registers.into(), DART_MAX_BANK.into())?;
        at_most("entries of a bank", entries.into(), DART_MAX_ENTRIES.into())?;
        if registers == 0 {
            return Err(Error::Invalid("a bank has at least one register"));
        }
        let mut opened = DartBank { registers, entries, ..DartBank::default() };
        card.open_bank(&mut opened)?;
        Ok(Self { parts: Arc::new(Parts { card: card.clone(), number: opened.bank, registers, entries }) })
    }

    /// Returns the number of registers.
    #[must_use]
    pub fn registers(&self) -> u32 {
        self.parts.registers
    }

    /// Returns the number of program entries.
    #[must_use]
    pub fn entries(&self) -> u32 {
        self.parts.entries
    }

    /// Sets program entries, starting at `first`, to operations or [`Entry`]s.
    ///
    /// # Errors
    /// [`Error::PastEnd`], [`Error::System`].
    pub fn set_program<E: Into<Entry> + Copy>(&self, first: u32, entries: &[E]) -> Result<()> {
        inside("bank's program", first.into(), entries.len() as u64, self.parts.entries.into())?;
        let mut first = first;
        for some in entries.chunks(DART_SET_ENTRIES as usize) {
            let count = some.len() as u32;
            let mut set =
                DartSetProgram { bank: self.parts.number, first, count, ..DartSetProgram::default() };
            for (to, entry) in set.entries.iter_mut().zip(some) {
                *to = (*entry).into().0;
            }
            self.parts.card.set_program(&mut set)?;
            first += count;
        }
        Ok(())
    }

    pub(super) fn parts(&self) -> &Arc<Parts> {
        &self.parts
    }
}

impl Parts {
    pub(super) fn card(&self) -> &Arc<dyn Attachment> {
        &self.card
    }

    pub(super) fn number(&self) -> u32 {
        self.number
    }

    pub(super) fn check(&self, registers: &Range<u32>, entries: &Range<u32>) -> Result<()> {
        inside("bank", registers.start.into(), registers.len() as u64, self.registers.into())?;
        inside("bank's program", entries.start.into(), entries.len() as u64, self.entries.into())
    }
}
