//! Messages that are not executed: nothing changes, and both sides are told the reason.

use hamlyn_abi::dart::command::*;
use hamlyn_abi::dart::connection::*;
use hamlyn_abi::dart::control::*;
use hamlyn_abi::dart::queue::*;
use hamlyn_abi::dart::trap::*;

use crate::support::*;

/// Counters of traps, by their numbers from 1 on.
const COUNTERS: [&str; 7] =
    ["unimplemented", "index", "refused", "right", "misaligned", "bounds", "no_memory"];

#[test]
fn each_trap_changes_nothing_and_is_reported() {
    let (mut one, mut other) = (Host::new(0), Host::new(1));
    one.endpoint(0, PAGE);
    other.endpoint(0, 2 * PAGE);
    let queue = other.queue(1, DART_QUEUE_IMMEDIATE);
    let end = End { registers: (4, 2), queues: [DART_NO_QUEUE, 1], flags: DART_CONNECTION_WRITE, ..END };
    let state = one.connection(1, 1, END);
    other.connection(1, 0, end);
    // A hole behind the first page, and a page that may not be written to.
    let second = BASE / PAGE + 1;
    other.pages.remove(&second);
    other.pages.insert(second + 1, (0x10_0000, false));
    one.write_virtual(0, &pattern(32));
    let refused = DART_MAIN_WRITE | DART_COMPARE_ALWAYS << DART_COMPARE_SHIFT | DART_REFUSE;
    let index = DART_MAIN_WRITE | step(DART_FIRST_SHIFT, DART_OP_MOVE, DART_SOURCE_K, DART_TARGET_I);
    let cases = [
        (control(0x80, 0), DART_TRAP_UNIMPLEMENTED),
        (control(index, 0), DART_TRAP_INDEX),
        (control(refused, 0), DART_TRAP_REFUSED),
        (control(DART_MAIN_READ, 0), DART_TRAP_RIGHT),
        (control(DART_MAIN_WRITE, 2), DART_TRAP_MISALIGNED),
        (control(DART_MAIN_WRITE, 2 * PAGE - 28), DART_TRAP_BOUNDS),
        (control(DART_MAIN_WRITE, u64::MAX - 3), DART_TRAP_BOUNDS),
        (control(DART_MAIN_WRITE, PAGE - 0x120 - 16), DART_TRAP_NO_MEMORY),
    ];
    for (number, (control, trap)) in (1..).zip(cases) {
        let before = other.counter(&format!("traps_{}", COUNTERS[trap as usize - 1]));
        let move_too = step(DART_SECOND_SHIFT, DART_OP_INCREMENT, 0, DART_TARGET_I);
        let changes = trap != DART_TRAP_UNIMPLEMENTED && trap != DART_TRAP_RIGHT;
        let opcode = control.opcode | if changes { move_too } else { 0 };
        one.send(1, DartControl { opcode, ..control }, 0, 32);
        exchange(&mut one, &mut other);
        let word = |place: u32| one.word(state + u64::from(place));
        assert_eq!((word(DART_STATE_TRAPS), word(DART_STATE_TRAP)), (number, trap));
        assert_eq!(word(DART_STATE_TRAP_OPCODE), opcode);
        let records = other.take_records(queue);
        assert_eq!(records.len(), 1);
        assert_eq!((records[0].kind, records[0].control.opcode), (DART_RECORD_TRAP + trap, opcode));
        assert_eq!(other.counter(&format!("traps_{}", COUNTERS[trap as usize - 1])), before + 1);
    }
    assert_eq!((other.register(1, 0), other.counter("executed")), (0, 0));
    assert_eq!(other.read_virtual(0, 3000), vec![0; 3000]);
    // The connection works as before.
    one.send(1, control(DART_MAIN_WRITE, 64), 0, 32);
    exchange(&mut one, &mut other);
    assert_eq!(other.read_virtual(64, 32), pattern(32));
}

#[test]
fn deselected_words_need_not_be_inside() {
    let (mut one, mut other, _) = pair(PAGE, END);
    one.write_virtual(0, &pattern(32));
    one.send(1, DartControl { mask: 0b1111_1100, ..control(DART_MAIN_WRITE, PAGE - 8) }, 0, 32);
    exchange(&mut one, &mut other);
    assert_eq!(other.read_virtual(PAGE - 8, 8), pattern(8));
}

#[test]
fn trap_of_an_answer_is_reported_to_requester() {
    let (mut one, mut other, [state, _]) = pair(PAGE, END);
    for answer in [control(DART_MAIN_WRITE, PAGE), control(DART_MAIN_READ, 0)] {
        let question = zerocopy::IntoBytes::as_bytes(&answer).to_vec();
        one.write_virtual(0, &question);
        one.send(1, control(DART_MAIN_READ, 0), 0, 16);
        exchange(&mut one, &mut other);
    }
    let word = |place: u32| one.word(state + u64::from(place));
    assert_eq!((word(DART_STATE_TRAPS), word(DART_STATE_TRAP)), (2, DART_TRAP_UNIMPLEMENTED));
    assert_eq!((one.counter("traps_bounds"), one.counter("traps_unimplemented")), (1, 1));
}
