//! The results of the card and of the interpreter, in the same form.

use hamlyn_abi::dart::control::DartControl;
use hamlyn_card_dart::{Main, Opcode, execute};

use super::interpreter::{Made, Message, Trap, interpret};

/// Returns the card's result of a message.
pub(crate) fn card(message: Message, registers: &[u64]) -> Result<Made, Trap> {
    let Message { opcode, indices, operand } = message;
    let decoded = Opcode::decode(opcode).ok_or(Trap::Unimplemented)?;
    let executed = execute(&decoded, &DartControl { opcode, mask: 0, indices, operand }, registers);
    let executed = executed.map_err(|trap| match trap {
        hamlyn_card_dart::Trap::Index => Trap::Index,
        hamlyn_card_dart::Trap::Refused => Trap::Refused,
    })?;
    let mut registers = registers.to_vec();
    for written in executed.written.into_iter().flatten() {
        registers[usize::from(written.index)] = written.value;
    }
    let address = decoded.main.has_address().then_some(executed.address);
    let answer = (decoded.main == Main::Answer).then_some(executed.answer);
    Ok(Made { registers, address, event: executed.event, answer })
}

/// Checks that card and interpreter have the same result, and returns it.
pub(crate) fn both(message: Message, registers: &[u64]) -> Result<Made, Trap> {
    let made = card(message, registers);
    assert_eq!(made, interpret(message, registers), "the card's is on the left");
    made
}
