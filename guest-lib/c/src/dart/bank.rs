//! Banks of address registers.

use std::ffi::c_int;
use std::mem::MaybeUninit;

use hamlyn::dart::Bank;

use super::card::dart_card;
use super::operation::dart_operation;
use crate::call::{call, free, given, store};
use crate::memory::items;

/// Address registers of the card, of 64 bits and initially zero, and entries of programs (section
/// 2). Connections have windows of a bank. Windows may overlap and nest: messages of several
/// connections can then change the same registers. Any number of threads may use it at once.
pub struct dart_bank(pub(crate) Bank);

/// Opens a bank with `registers` address registers, 1 to 1024, and `entries` program entries, 0 to
/// 256.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_bank_create(
    card: Option<&dart_card>,
    registers: u32,
    entries: u32,
    bank: Option<&mut MaybeUninit<Box<dart_bank>>>,
) -> c_int {
    call(|| {
        let to = given(bank, "bank")?;
        store(to, Box::new(dart_bank(given(card, "card")?.0.bank(registers, entries)?)))
    })
}

/// Releases a bank. It is closed once the connections that have windows of it are destroyed too.
/// NULL is a no-op.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_bank_destroy(bank: Option<Box<dart_bank>>) {
    free(bank);
}

/// Sets `count` entries, starting at `first`. A message that calls an entry (DART_CALL,
/// DART_CALL_WITH) executes its opcode and operand. Indices, mask and data come from the message.
/// After a failure, some entries may be set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_bank_set_program(
    bank: Option<&dart_bank>,
    first: u32,
    operations: *const dart_operation,
    count: usize,
) -> c_int {
    call(|| {
        let (bank, operations) = (&given(bank, "bank")?.0, items(operations, count, "operations")?);
        let operations = operations.iter().map(dart_operation::read_entry).collect::<Result<Vec<_>, _>>()?;
        Ok(bank.set_program(first, &operations).map(|()| 0)?)
    })
}
