//! Banks of address registers.

use hamlyn::dart::Bank;

use super::card::dart_card;
use super::operation::dart_operation;
use crate::exported::{Out, exported};
use crate::memory::items;

/// Address registers of the card, of 64 bits and initially zero, and entries of programs (section
/// 2). Connections have windows of a bank. Windows may overlap and nest: messages of several
/// connections can then change the same registers. Any number of threads may use it at once.
pub struct dart_bank(pub(crate) Bank);

exported! {
/// Opens a bank with `registers` address registers, 1 to 1024, and `entries` program entries, 0 to
/// 256.
fn dart_bank_create(card: &dart_card, registers: u32, entries: u32, bank: Out<Box<dart_bank>>) {
    bank.store(dart_bank(card.0.bank(registers, entries)?))
}

/// Releases a bank. It is closed once the connections that have windows of it are destroyed too.
/// NULL is a no-op.
fn dart_bank_destroy(bank: Box<dart_bank>);

/// Sets `count` entries, starting at `first`. A message that calls an entry (DART_CALL,
/// DART_CALL_WITH) executes its opcode and operand. Indices, mask and data come from the message.
/// After a failure, some entries may be set.
fn dart_bank_set_program(bank: &dart_bank, first: u32, operations: *const dart_operation, count: usize) {
    let operations = items(operations, count, "operations")?;
    let operations = operations.iter().map(dart_operation::read_entry).collect::<Result<Vec<_>, _>>()?;
    bank.0.set_program(first, &operations)?
}
}
