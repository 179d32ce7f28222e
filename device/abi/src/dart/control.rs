//! The operation of a message (Figures 2 and 3).

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Bytes of data in a control cell: a block.
pub const DART_BLOCK: u32 = 32;

/// The control of a message: in the payload of the first cell, before its data.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DartControl {
    /// The operation: a `DART_MAIN_*` and the fields below.
    pub opcode: u32,
    /// Bit `w` deselects word `w` of 4 bytes in each block.
    pub mask: u8,
    /// Registers `i`, `j` and `k` of the receiver's window.
    pub indices: [u8; 3],
    /// An offset, or data.
    pub operand: u64,
}

/// Main operation: uses registers only.
pub const DART_MAIN_NONE: u32 = 0;
/// Main operation: writes a block.
pub const DART_MAIN_WRITE: u32 = 1;
/// Main operation: writes the data of the cells behind the first.
pub const DART_MAIN_WRITE_MULTIPLE: u32 = 2;
/// Main operation: answers with a block.
pub const DART_MAIN_READ: u32 = 3;
/// Main operation: answers with the requested number of bytes.
pub const DART_MAIN_READ_MULTIPLE: u32 = 4;
/// Main operation: answers with register `i`, before and after the message.
pub const DART_MAIN_ANSWER: u32 = 5;
/// Main operation: executes an entry of the receiver's program. The operand is the entry's number.
/// With [`DART_CALL_OPERAND`] it is the operand of an entry with
/// [`super::command::DART_ENTRY_OPERAND`]. It has no fields other than `DART_CALL_*`.
pub const DART_MAIN_CALL: u32 = 6;
/// Main operation: a software exception. The software defines the other fields.
pub const DART_MAIN_EXCEPTION: u32 = 7;

/// In a CALL: it is a question. Its data is that of a READ_MULTIPLE, and its entry answers with the
/// requested number of bytes. The number is 0 if the entry reads a block, or answers with a
/// register.
pub const DART_CALL_ASKS: u32 = 0x8;
/// In a CALL: the entry's number is in the field at [`DART_CALL_ENTRY_SHIFT`], and the operand is
/// the sender's.
pub const DART_CALL_OPERAND: u32 = 0x10;
/// Field of a CALL with [`DART_CALL_OPERAND`], 16 bits: the entry's number.
pub const DART_CALL_ENTRY_SHIFT: u32 = 16;

/// Field: addressing mode.
pub const DART_ADDRESSING_SHIFT: u32 = 3;
/// Addressing: the address is the operand.
pub const DART_ADDRESSING_DIRECT: u32 = 0;
/// Addressing: the address is register `i`.
pub const DART_ADDRESSING_INDIRECT: u32 = 1;
/// Addressing: the address is register `i` plus the operand.
pub const DART_ADDRESSING_INDEXED: u32 = 2;

/// Field: order of address generation, register operations and comparison.
pub const DART_ORDER_SHIFT: u32 = 5;
/// Order: address, register operations, comparison.
pub const DART_ORDER_FIRST: u32 = 0;
/// Order: first register operation, address, second register operation, comparison.
pub const DART_ORDER_BETWEEN: u32 = 1;
/// Order: register operations, address, comparison.
pub const DART_ORDER_BEHIND: u32 = 2;
/// Order: comparison, address, register operations.
pub const DART_ORDER_COMPARED: u32 = 3;

/// Field: the first register operation, 7 bits. The operation is in bits 0 to 3, `DART_SOURCE_*`
/// from bit 4, `DART_TARGET_*` in bit 6.
pub const DART_FIRST_SHIFT: u32 = 8;
/// Field: the second register operation, like the first.
pub const DART_SECOND_SHIFT: u32 = 16;
/// In a register operation: its source.
pub const DART_SOURCE_SHIFT: u32 = 4;
/// In a register operation: its target.
pub const DART_TARGET_SHIFT: u32 = 6;

/// Register operation: none.
pub const DART_OP_NONE: u32 = 0;
/// Register operation: sets the target to the source.
pub const DART_OP_MOVE: u32 = 1;
/// Register operation: sets the target to the source's complement.
pub const DART_OP_NOT: u32 = 2;
/// Register operation: sets the target to the negated source, modulo 2^64.
pub const DART_OP_NEGATE: u32 = 3;
/// Register operation: increments the target, modulo 2^64. It has no source.
pub const DART_OP_INCREMENT: u32 = 4;
/// Register operation: decrements the target, modulo 2^64. It has no source.
pub const DART_OP_DECREMENT: u32 = 5;
/// Register operation: adds the source, modulo 2^64.
pub const DART_OP_ADD: u32 = 6;
/// Register operation: subtracts the source, modulo 2^64.
pub const DART_OP_SUBTRACT: u32 = 7;
/// Register operation: bitwise AND with the source.
pub const DART_OP_AND: u32 = 8;
/// Register operation: bitwise OR with the source.
pub const DART_OP_OR: u32 = 9;
/// Register operation: bitwise XOR with the source.
pub const DART_OP_XOR: u32 = 10;
/// Register operation: minimum of target and source, unsigned.
pub const DART_OP_MINIMUM: u32 = 11;
/// Register operation: maximum of target and source, unsigned.
pub const DART_OP_MAXIMUM: u32 = 12;
/// Register operation: shifts the target left by the source modulo 64; zeros come in.
pub const DART_OP_LEFT: u32 = 13;
/// Register operation: shifts the target right by the source modulo 64; zeros come in.
pub const DART_OP_RIGHT: u32 = 14;
/// Register operation: sets the target to the source if the target equals the operand.
pub const DART_OP_REPLACE: u32 = 15;

/// Source, or right side of a comparison: the operand.
pub const DART_SOURCE_OPERAND: u32 = 0;
/// Source, or right side of a comparison: the value, which is the result of the step before.
pub const DART_SOURCE_VALUE: u32 = 1;
/// Source, or right side of a comparison: register `j`.
pub const DART_SOURCE_J: u32 = 2;
/// Source, or right side of a comparison: register `k`.
pub const DART_SOURCE_K: u32 = 3;

/// Target, or left side of a comparison: register `i`.
pub const DART_TARGET_I: u32 = 0;
/// Target, or left side of a comparison: register `j`.
pub const DART_TARGET_J: u32 = 1;

/// Field: the comparison.
pub const DART_COMPARE_SHIFT: u32 = 24;
/// Comparison: none.
pub const DART_COMPARE_NONE: u32 = 0;
/// Comparison: left side equal to right side.
pub const DART_COMPARE_EQUAL: u32 = 1;
/// Comparison: left side not equal to right side.
pub const DART_COMPARE_UNEQUAL: u32 = 2;
/// Comparison: left side less than right side, unsigned.
pub const DART_COMPARE_LESS: u32 = 3;
/// Comparison: left side less than or equal to right side, unsigned.
pub const DART_COMPARE_NOT_MORE: u32 = 4;
/// Comparison: left side less than right side, signed.
pub const DART_COMPARE_SIGNED_LESS: u32 = 5;
/// Comparison: left side less than or equal to right side, signed.
pub const DART_COMPARE_SIGNED_NOT_MORE: u32 = 6;
/// Comparison: always holds. It has no sides.
pub const DART_COMPARE_ALWAYS: u32 = 7;
/// Field: left side of the comparison, `DART_TARGET_*`.
pub const DART_LEFT_SHIFT: u32 = 27;
/// Field: right side of the comparison, `DART_SOURCE_*`.
pub const DART_RIGHT_SHIFT: u32 = 28;
/// If the comparison holds, the message is refused, without an event.
pub const DART_REFUSE: u32 = 0x4000_0000;
