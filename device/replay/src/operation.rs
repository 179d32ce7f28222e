//! Operations of a fetch-and-op, as bytes.

use hamlyn_card::ports::Operation;

/// Length of an operation in bytes.
pub const BYTES: usize = 24;

/// Returns an operation as bytes: its number, and its operands.
#[must_use]
pub fn to_bytes(operation: Operation) -> [u8; BYTES] {
    let words = match operation {
        Operation::Add(operand) => [0, operand, 0],
        Operation::And(operand) => [1, operand, 0],
        Operation::Or(operand) => [2, operand, 0],
        Operation::Xor(operand) => [3, operand, 0],
        Operation::Swap(operand) => [4, operand, 0],
        Operation::CompareSwap { compare, swap } => [5, compare, swap],
    };
    let mut bytes = [0; BYTES];
    for (chunk, word) in bytes.chunks_exact_mut(8).zip(words) {
        chunk.copy_from_slice(&u64::to_le_bytes(word));
    }
    bytes
}
