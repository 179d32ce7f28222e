//! Banks of address registers.

use std::ffi::c_int;
use std::mem::MaybeUninit;

use hamlyn::dart::Bank;

use super::card::dart_card;
use super::operation::dart_operation;
use crate::call::{call, free, given, store};
use crate::memory::items;

/// Address registers of the card, of 64 bits and zero at first, and entries of programs (section
/// 2). Connections have windows of it, which may overlap and nest: what two of them have in common
/// the messages of both change. Any number of threads may use it at once.
pub struct dart_bank(pub(crate) Bank);

/// Opens a bank of address registers, 1 to 1024, and entries of programs, 0 to 256.
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

/// Lets a bank go; it is closed when the connections that have windows of it are destroyed, too.
/// NULL is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_bank_destroy(bank: Option<Box<dart_bank>>) {
    free(bank);
}

/// Sets `count` entries, from `first` on: the opcode and the operand of each operation is what a
/// message executes that calls it (DART_CALL, DART_CALL_WITH); indices, mask and data are the
/// message's. If this fails some may be set.
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
