//! Address registers and programs (section 2).

use std::ops::Range;
use std::sync::Arc;

use hamlyn_abi::dart::command::DartEntry;
use hamlyn_abi::dart::uapi::{DART_MAX_BANK, DART_MAX_ENTRIES, DART_SET_ENTRIES, DartBank, DartSetProgram};

use super::attachment::{Attachment, Object};
use super::operation::Operation;
use crate::error::{Error, Result, at_most, inside};

/// A bank: address registers of the card, zero at first, and entries of programs. Connections have windows of it, which may overlap and
/// nest: what two of them have in common both ends' messages change.
#[derive(Debug, Clone)]
pub struct Bank {
    parts: Arc<Parts>,
}

/// What connections keep.
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

    /// How many registers it has.
    #[must_use]
    pub fn registers(&self) -> u32 {
        self.parts.registers
    }

    /// How many entries of programs it has.
    #[must_use]
    pub fn entries(&self) -> u32 {
        self.parts.entries
    }

    /// Sets entries, from `first` on: the opcode and the operand of each operation is what a message executes that calls it; registers,
    /// mask and data are the message's.
    ///
    /// # Errors
    /// [`Error::PastEnd`], [`Error::System`].
    pub fn set_program(&self, first: u32, operations: &[Operation]) -> Result<()> {
        inside("bank's program", first.into(), operations.len() as u64, self.parts.entries.into())?;
        let mut first = first;
        for some in operations.chunks(DART_SET_ENTRIES as usize) {
            let count = some.len() as u32;
            let mut set =
                DartSetProgram { bank: self.parts.number, first, count, ..DartSetProgram::default() };
            for (entry, operation) in set.entries.iter_mut().zip(some) {
                let control = operation.control();
                *entry = DartEntry { opcode: control.opcode, operand: control.operand, reserved: 0 };
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
