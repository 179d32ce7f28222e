//! Random controls of messages, and values of registers.

use hamlyn_abi::dart::control::DartControl;

use crate::engine::rng::Rng;

use super::effects::{BARRIER, COMPARE_AND_SWAP, FETCH_AND_INCREMENT};

/// Opcodes of random programs. The first four meet other messages at a register: the three named
/// ones and swap. Then come append, an unconditional event and increments.
const KNOWN: [u32; 8] = [
    FETCH_AND_INCREMENT,
    BARRIER,
    COMPARE_AND_SWAP,
    5 | 1 << 8,
    1 | 2 << 3 | 0x26 << 8,
    7 << 24,
    4 << 8,
    2 | 0x44 << 8 | 7 << 24,
];

/// Returns the control of a random message.
pub(super) fn some_control(rng: &mut Rng) -> DartControl {
    let word = rng.next() as u32;
    let known = rng.pick(&KNOWN).unwrap_or_default();
    let opcode = match rng.below(10) {
        0 => word,
        1..4 => word & 7 | word & 0x18 | (word >> 5 & 3) << 5,
        4 => word & 7,
        // Calls of any kind.
        5 => 6 | word & 0x18 | if word & 0x10 == 0 { 0 } else { (word >> 8 & 15) << 16 },
        6 => word & 0x7f7f_7f7f,
        _ => known,
    };
    let operand = match rng.below(6) {
        0 => rng.below(4),
        // Values that registers often have.
        1..5 if KNOWN[..4].contains(&opcode) => rng.below(4),
        1 => rng.next() >> rng.below(64),
        _ => rng.below(3 * 1024) * 4,
    };
    let mask = if rng.percent(70) { 0 } else { rng.next() as u8 };
    let index = rng.below(3) as u8;
    let indices = [rng.below(8) as u8 / 2, index, rng.below(8) as u8 / 2];
    DartControl { opcode, mask, indices, operand }
}

/// Returns a random value for a register.
pub(super) fn some_value(rng: &mut Rng) -> u64 {
    if rng.percent(50) { rng.below(4) } else { rng.below(2000) * 4 }
}
