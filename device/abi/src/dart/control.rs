//! What a message is to do (Figures 2 and 3).

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Bytes of data in a control cell: a block.
pub const DART_BLOCK: u32 = 32;

/// The control of a message, in the first cell's payload before its data.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DartControl {
    /// The operation: a `DART_MAIN_*`, and the fields below.
    pub opcode: u32,
    /// Bit `w` deselects word `w`, of 4 bytes, in each block.
    pub mask: u8,
    /// Registers `i`, `j` and `k` of the receiver's window.
    pub indices: [u8; 3],
    /// An offset, or data.
    pub operand: u64,
}

/// Main operation: registers alone.
pub const DART_MAIN_NONE: u32 = 0;
/// Main operation: writes a block.
pub const DART_MAIN_WRITE: u32 = 1;
/// Main operation: writes what the cells behind the first carry.
pub const DART_MAIN_WRITE_MULTIPLE: u32 = 2;
/// Main operation: answers with a block.
pub const DART_MAIN_READ: u32 = 3;
/// Main operation: answers with as many bytes as are asked for.
pub const DART_MAIN_READ_MULTIPLE: u32 = 4;
/// Main operation: answers with register `i`, as it was and as it is.
pub const DART_MAIN_ANSWER: u32 = 5;
/// Main operation: what an entry of the receiver's program says. The operand is the entry's number;
/// or, with [`DART_CALL_OPERAND`], what an entry with [`super::command::DART_ENTRY_OPERAND`] works
/// on. There are no other fields than `DART_CALL_*`.
pub const DART_MAIN_CALL: u32 = 6;
/// Main operation: a software exception. The other fields are the software's.
pub const DART_MAIN_EXCEPTION: u32 = 7;

/// In a CALL: it is a question. Its data is that of a READ_MULTIPLE, and its entry answers with as
/// many bytes as are asked for: 0 if it reads a block, or answers with a register.
pub const DART_CALL_ASKS: u32 = 0x8;
/// In a CALL: the entry's number is in the field [`DART_CALL_ENTRY_SHIFT`], and the operand is the
/// sender's.
pub const DART_CALL_OPERAND: u32 = 0x10;
/// Field of a CALL with [`DART_CALL_OPERAND`], 16 bits: the entry's number.
pub const DART_CALL_ENTRY_SHIFT: u32 = 16;

/// Field: how the address is generated.
pub const DART_ADDRESSING_SHIFT: u32 = 3;
/// It is the operand.
pub const DART_ADDRESSING_DIRECT: u32 = 0;
/// It is in register `i`.
pub const DART_ADDRESSING_INDIRECT: u32 = 1;
/// It is register `i` plus the operand.
pub const DART_ADDRESSING_INDEXED: u32 = 2;

/// Field: when the address is generated.
pub const DART_ORDER_SHIFT: u32 = 5;
/// Before the register operations; the comparison is last.
pub const DART_ORDER_FIRST: u32 = 0;
/// Between them.
pub const DART_ORDER_BETWEEN: u32 = 1;
/// Behind them.
pub const DART_ORDER_BEHIND: u32 = 2;
/// The comparison is first, then the address, then the register operations.
pub const DART_ORDER_COMPARED: u32 = 3;

/// Field: the first register operation, of 7 bits: which it is, `DART_SOURCE_*` from bit 4,
/// `DART_TARGET_*` in bit 6.
pub const DART_FIRST_SHIFT: u32 = 8;
/// Field: the second register operation, as the first.
pub const DART_SECOND_SHIFT: u32 = 16;
/// Of a register operation: its source.
pub const DART_SOURCE_SHIFT: u32 = 4;
/// Of a register operation: its target.
pub const DART_TARGET_SHIFT: u32 = 6;

/// Register operation: none.
pub const DART_OP_NONE: u32 = 0;
/// The target becomes the source.
pub const DART_OP_MOVE: u32 = 1;
/// The target becomes the source's complement.
pub const DART_OP_NOT: u32 = 2;
/// The target becomes the source's negative, modulo 2^64.
pub const DART_OP_NEGATE: u32 = 3;
/// One more, modulo 2^64. There is no source.
pub const DART_OP_INCREMENT: u32 = 4;
/// One less, modulo 2^64. There is no source.
pub const DART_OP_DECREMENT: u32 = 5;
/// Plus the source, modulo 2^64.
pub const DART_OP_ADD: u32 = 6;
/// Minus the source, modulo 2^64.
pub const DART_OP_SUBTRACT: u32 = 7;
/// Bits that both have.
pub const DART_OP_AND: u32 = 8;
/// Bits that one of them has.
pub const DART_OP_OR: u32 = 9;
/// Bits that only one of them has.
pub const DART_OP_XOR: u32 = 10;
/// The lesser, unsigned.
pub const DART_OP_MINIMUM: u32 = 11;
/// The greater, unsigned.
pub const DART_OP_MAXIMUM: u32 = 12;
/// To the left by the source modulo 64; zeros come in.
pub const DART_OP_LEFT: u32 = 13;
/// To the right by the source modulo 64; zeros come in.
pub const DART_OP_RIGHT: u32 = 14;
/// The source, if the target is the operand.
pub const DART_OP_REPLACE: u32 = 15;

/// A source, or a comparison's right side: the operand.
pub const DART_SOURCE_OPERAND: u32 = 0;
/// What the step before has made.
pub const DART_SOURCE_VALUE: u32 = 1;
/// Register `j`.
pub const DART_SOURCE_J: u32 = 2;
/// Register `k`.
pub const DART_SOURCE_K: u32 = 3;

/// A target, or a comparison's left side: register `i`.
pub const DART_TARGET_I: u32 = 0;
/// Register `j`.
pub const DART_TARGET_J: u32 = 1;

/// Field: the comparison.
pub const DART_COMPARE_SHIFT: u32 = 24;
/// There is none.
pub const DART_COMPARE_NONE: u32 = 0;
/// The left side is the right.
pub const DART_COMPARE_EQUAL: u32 = 1;
/// It is not.
pub const DART_COMPARE_UNEQUAL: u32 = 2;
/// It is less, unsigned.
pub const DART_COMPARE_LESS: u32 = 3;
/// It is not more, unsigned.
pub const DART_COMPARE_NOT_MORE: u32 = 4;
/// It is less, signed.
pub const DART_COMPARE_SIGNED_LESS: u32 = 5;
/// It is not more, signed.
pub const DART_COMPARE_SIGNED_NOT_MORE: u32 = 6;
/// It holds. There are no sides.
pub const DART_COMPARE_ALWAYS: u32 = 7;
/// Field: the comparison's left side, `DART_TARGET_*`.
pub const DART_LEFT_SHIFT: u32 = 27;
/// Field: its right side, `DART_SOURCE_*`.
pub const DART_RIGHT_SHIFT: u32 = 28;
/// If the comparison holds the message is refused, and there is no event.
pub const DART_REFUSE: u32 = 0x4000_0000;
