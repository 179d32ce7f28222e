//! For any message, the card and the interpreter have the same result.

use hamlyn_card_dart::Opcode;
use proptest::prelude::*;

use super::both::card;
use super::drawing::{CALL, index, number, opcode};
use super::interpreter::{Message, interpret, is_implemented};

const CASES: u32 = 20_000;
/// A message with this opcode, and a window. The operand is often in one of the window's registers,
/// too.
fn with_window(opcode: fn(u32) -> u32) -> impl Strategy<Value = (Message, Vec<u64>)> {
    (any::<u32>(), any::<[u8; 3]>(), any::<u64>(), 0..12_usize, any::<[u64; 8]>(), 0..=8_usize).prop_map(
        move |(word, indices, operand, known, registers, size)| {
            let window = registers[..size].iter().copied().map(number).collect::<Vec<_>>();
            let operand = window.get(known).copied().unwrap_or(number(operand));
            (Message { opcode: opcode(word), indices: indices.map(index), operand }, window)
        },
    )
}

/// Returns the difference between card and interpreter, if there is one. A CALL is another message,
/// and nothing of an EXCEPTION is executed.
fn difference(message: Message, window: &[u64]) -> Option<String> {
    let decoded = Opcode::decode(message.opcode).is_some();
    if decoded != is_implemented(message.opcode) {
        return Some(format!("the card's decision is {decoded}"));
    }
    if message.opcode & 7 >= CALL {
        return None;
    }
    let (card, plain) = (card(message, window), interpret(message, window));
    (card != plain).then(|| format!("the card: {card:?}, the interpreter: {plain:?}"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn implemented_opcodes_agree((message, window) in with_window(opcode)) {
        prop_assert!(is_implemented(message.opcode));
        prop_assert_eq!(difference(message, &window), None);
    }

    #[test]
    fn opcodes_with_a_wrong_bit_agree((mut message, window) in with_window(opcode), bit in 0..32_u32) {
        message.opcode ^= 1 << bit;
        prop_assert_eq!(difference(message, &window), None);
    }

    #[test]
    fn arbitrary_words_agree((message, window) in with_window(|any| any)) {
        prop_assert_eq!(difference(message, &window), None);
    }
}

#[test]
fn single_bits_agree_for_each_main_operation() {
    for main in 0..8 {
        for word in (3..32).map(|bit| main | 1 << bit).chain([main]) {
            assert_eq!(Opcode::decode(word).is_some(), is_implemented(word), "opcode {word:#010x}");
        }
    }
}
