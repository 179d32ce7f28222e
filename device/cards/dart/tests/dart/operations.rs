//! The effects of messages between two hosts.

use hamlyn_abi::dart::command::*;
use hamlyn_abi::dart::connection::*;
use hamlyn_abi::dart::control::*;
use zerocopy::{FromZeros, IntoBytes};

use crate::support::*;

/// Returns a question's data: the control of its answer, and the number of requested bytes.
fn question(answer: DartControl, asked: u32) -> Vec<u8> {
    [answer.as_bytes(), &asked.to_le_bytes()].concat()
}

#[test]
fn block_is_deposited_without_deselected_words() {
    let (mut one, mut other, [state, _]) = pair(3 * PAGE, END);
    one.write_virtual(100, &pattern(32));
    one.send(1, DartControl { mask: 0b101, ..control(DART_MAIN_WRITE, 200) }, 100, 32);
    exchange(&mut one, &mut other);
    let mut expected = pattern(32);
    expected[..4].fill(0);
    expected[8..12].fill(0);
    assert_eq!(other.read_virtual(200, 32), expected);
    assert_eq!((other.counter("executed"), other.counter("primitives")), (1, 1));
    assert_eq!(one.word(state + u64::from(DART_STATE_LEFT)), 1);
    // The Send Registers keep their values, so the next message takes one store.
    one.write_virtual(100, &[9; 32]);
    one.store_page(1, DART_SEND_LENGTH, 4, 32);
    exchange(&mut one, &mut other);
    assert_eq!(other.read_virtual(212, 4), [9; 4]);
    // So does one with other data.
    one.write_virtual(5000, &[7; 32]);
    one.store_page(1, DART_SEND_DATA, 8, 5000 << DART_SEND_DATA_SHIFT | 20);
    exchange(&mut one, &mut other);
    assert_eq!(other.read_virtual(212, 12), [[7; 8].as_slice(), &[0; 4]].concat());
    one.store_page(1, DART_SEND_LENGTH, 4, 32);
    exchange(&mut one, &mut other);
    assert_eq!(other.read_virtual(212, 12), [7; 12], "it has stored the offset, too");
    one.store_page(1, DART_SEND_DATA, 8, 33);
    assert_eq!(one.word(state + u64::from(DART_STATE_DROPPED)), 1, "a block is 32 bytes");
}

#[test]
fn blocks_of_any_length_are_deposited_across_pages() {
    let (mut one, mut other, _) = pair(20 * PAGE, END);
    one.write_virtual(0, &pattern(18 * PAGE));
    for length in [1, 40, 4096, 65504] {
        one.send(1, control(DART_MAIN_WRITE_MULTIPLE, 8), 3, length);
        exchange(&mut one, &mut other);
        assert_eq!(other.read_virtual(8, length), pattern(18 * PAGE)[3..][..length as usize]);
    }
    assert_eq!((other.counter("executed"), other.counter("bytes_deposited")), (4, 1 + 40 + 4096 + 65504));
    assert_eq!(one.counter("cells_sent"), 2 + 2 + 86 + 1366);
}

#[test]
fn reads_are_answered_without_involving_the_host() {
    let (mut one, mut other, _) = pair(20 * PAGE, END);
    other.write_virtual(0, &pattern(17 * PAGE));
    one.write_virtual(0, &question(control(DART_MAIN_WRITE, 1000), 0));
    one.send(1, control(DART_MAIN_READ, 64), 0, 20);
    exchange(&mut one, &mut other);
    assert_eq!(one.read_virtual(1000, 32), pattern(PAGE)[64..96]);
    one.write_virtual(0, &question(control(DART_MAIN_WRITE_MULTIPLE, 2000), 65504));
    one.send(1, control(DART_MAIN_READ_MULTIPLE, 12), 0, 20);
    exchange(&mut one, &mut other);
    assert_eq!(one.read_virtual(2000, 65504), pattern(17 * PAGE)[12..][..65504]);
    // Only the misses have involved the hosts.
    assert!(other.found.is_empty() && one.found.is_empty());
    assert_eq!((other.counter("answers_sent"), one.counter("executed")), (2, 2));
}

#[test]
fn appending_connections_can_share_a_register() {
    let (mut one, mut other, _) = pair(2 * PAGE, END);
    one.connection(2, 1, END);
    // A window that overlaps the first one in its first register alone.
    other.connection(2, 0, End { registers: (0, 2), ..END });
    let append = DART_MAIN_WRITE
        | DART_ADDRESSING_INDIRECT << DART_ADDRESSING_SHIFT
        | step(DART_FIRST_SHIFT, DART_OP_ADD, DART_SOURCE_OPERAND, DART_TARGET_I);
    for turn in 0..6_u8 {
        one.write_virtual(0, &[turn + 1; 32]);
        one.send(1 + u32::from(turn) % 2, control(append, 32), 0, 32);
        exchange(&mut one, &mut other);
    }
    let expected: Vec<u8> = (1..=6).flat_map(|turn| [turn; 32]).collect();
    assert_eq!(other.read_virtual(0, 192), expected);
    assert_eq!((other.register(1, 0), other.register(2, 0)), (192, 192));
    other.set_register(2, 1, 5);
    assert_eq!((other.register(1, 1), other.register(2, 2)), (5, u64::MAX));
}

#[test]
fn register_is_fetched_and_changed_atomically() {
    let (mut one, mut other, _) = pair(PAGE, END);
    other.set_register(1, 0, 40);
    let fetch = DART_MAIN_ANSWER | step(DART_FIRST_SHIFT, DART_OP_ADD, DART_SOURCE_OPERAND, DART_TARGET_I);
    one.write_virtual(0, &question(control(DART_MAIN_WRITE, 512), 0));
    one.send(1, control(fetch, 2), 0, 20);
    exchange(&mut one, &mut other);
    assert_eq!((one.read_virtual(512, 16), other.register(1, 0)), ([40_u64, 42].as_bytes().to_vec(), 42));
}

#[test]
fn call_executes_the_receivers_program() {
    let (mut one, mut other, [state, _]) = pair(PAGE, End { program: (4, 2), ..END });
    let mut body = DartProgram { count: 2, ..DartProgram::new_zeroed() };
    body.entries[0] = DartEntry { opcode: DART_MAIN_WRITE, flags: 0, operand: 320 };
    body.entries[1] = DartEntry { opcode: DART_MAIN_CALL, ..DartEntry::new_zeroed() };
    other.run(DART_COMMAND_SET_PROGRAM, 4, &body).unwrap();
    one.write_virtual(0, &pattern(32));
    for (entry, traps) in [(0, 0), (1, 1), (2, 2)] {
        one.send(1, control(DART_MAIN_CALL, entry), 0, 32);
        exchange(&mut one, &mut other);
        assert_eq!(one.word(state + u64::from(DART_STATE_TRAPS)), traps);
    }
    assert_eq!(other.read_virtual(320, 32), pattern(32));
}

/// Returns an entry of a program.
fn entry(opcode: u32, flags: u32, operand: u64) -> DartEntry {
    DartEntry { opcode, flags, operand }
}

#[test]
fn call_adds_the_senders_operand_and_answers() {
    let (mut one, mut other, [state, _]) = pair(PAGE, End { program: (0, 3), ..END });
    let add = step(DART_FIRST_SHIFT, DART_OP_ADD, DART_SOURCE_OPERAND, DART_TARGET_I);
    let mut body = DartProgram { count: 3, ..DartProgram::new_zeroed() };
    body.entries[0] = entry(DART_MAIN_ANSWER | add, DART_ENTRY_OPERAND, 0);
    body.entries[1] = entry(DART_MAIN_READ_MULTIPLE, 0, 64);
    body.entries[2] = entry(DART_MAIN_WRITE_MULTIPLE, 0, 128);
    other.run(DART_COMMAND_SET_PROGRAM, 0, &body).unwrap();
    other.write_virtual(0, &pattern(200));
    let call = |entry: u32| DART_MAIN_CALL | DART_CALL_OPERAND | entry << DART_CALL_ENTRY_SHIFT;
    // Fetch and add of the sender's number.
    one.write_virtual(0, &question(control(DART_MAIN_WRITE, 512), 0));
    one.send(1, control(call(0) | DART_CALL_ASKS, 40), 0, 20);
    one.send(1, control(call(0) | DART_CALL_ASKS, 2), 0, 20);
    exchange(&mut one, &mut other);
    assert_eq!((one.read_virtual(512, 16), other.register(1, 0)), ([40_u64, 42].as_bytes().to_vec(), 42));
    // A read from the program's address, whatever the sender's operand is.
    one.write_virtual(0, &question(control(DART_MAIN_WRITE_MULTIPLE, 1024), 100));
    one.send(1, control(call(1) | DART_CALL_ASKS, 0), 0, 20);
    exchange(&mut one, &mut other);
    assert_eq!(one.read_virtual(1024, 100), pattern(200)[64..164]);
    // Many blocks, to the program's address.
    one.write_virtual(0, &[7; 100]);
    one.send(1, control(call(2), 0), 0, 100);
    exchange(&mut one, &mut other);
    assert_eq!(other.read_virtual(128, 100), [7; 100]);
    assert_eq!(one.word(state + u64::from(DART_STATE_TRAPS)), 0);
}

#[test]
fn mismatched_call_is_unimplemented() {
    let (mut one, mut other, [state, _]) = pair(PAGE, End { program: (0, 2), ..END });
    let mut body = DartProgram { count: 2, ..DartProgram::new_zeroed() };
    body.entries[0] = entry(DART_MAIN_ANSWER, DART_ENTRY_OPERAND, 0);
    body.entries[1] = entry(DART_MAIN_WRITE, 0, 64);
    other.run(DART_COMMAND_SET_PROGRAM, 0, &body).unwrap();
    let call = |entry: u32| DART_MAIN_CALL | DART_CALL_OPERAND | entry << DART_CALL_ENTRY_SHIFT;
    let cases = [
        // The call has not paid for an answer, has paid for a longer one, or for one that does not
        // come, or has no operand.
        (call(0), 0, 0),
        (call(0) | DART_CALL_ASKS, 0, 100),
        (call(1) | DART_CALL_ASKS, 0, 0),
        (DART_MAIN_CALL | DART_CALL_ASKS, 0, 0),
        // There are no such entries.
        (call(2), 0, 0),
        (DART_MAIN_CALL, 2, 0),
    ];
    for ((opcode, operand, asked), number) in cases.into_iter().zip(1..) {
        one.write_virtual(0, &question(control(DART_MAIN_WRITE, 512), asked));
        one.send(1, control(opcode, operand), 0, 20);
        exchange(&mut one, &mut other);
        let word = |place: u32| one.word(state + u64::from(place));
        assert_eq!((word(DART_STATE_TRAPS), word(DART_STATE_TRAP)), (number, 1), "{opcode:#x}");
    }
}

#[test]
fn answers_need_no_right_to_write() {
    // The requester gives the other host no rights on its endpoint.
    let (mut one, mut other) = (Host::new(0), Host::new(1));
    for (host, peer, flags) in [(&mut one, 1, 0), (&mut other, 0, DART_CONNECTION_READ)] {
        host.endpoint(0, PAGE);
        host.connection(1, peer, End { flags, ..END });
    }
    other.write_virtual(0, &pattern(64));
    one.write_virtual(0, &question(control(DART_MAIN_WRITE, 512), 0));
    one.send(1, control(DART_MAIN_READ, 32), 0, 20);
    exchange(&mut one, &mut other);
    assert_eq!(one.read_virtual(512, 32), pattern(64)[32..]);
    other.send(1, control(DART_MAIN_WRITE, 512), 0, 32);
    exchange(&mut one, &mut other);
    assert_eq!((one.counter("traps_right"), one.read_virtual(512, 32)), (1, pattern(64)[32..].to_vec()));
}

#[test]
fn pinned_endpoint_needs_no_translation() {
    let (mut one, mut other) = (Host::new(0), Host::new(1));
    let (area, start) = other.area(2 * PAGE);
    let body = DartOpenEndpoint { area, flags: DART_ENDPOINT_PINNED, ..DartOpenEndpoint::new_zeroed() };
    other.run(DART_COMMAND_OPEN_ENDPOINT, 0, &body).unwrap();
    one.endpoint(0, 2 * PAGE);
    one.connection(1, 1, END);
    other.connection(1, 0, END);
    one.write_virtual(0, &pattern(5000));
    one.send(1, control(DART_MAIN_WRITE_MULTIPLE, 100), 0, 5000);
    exchange(&mut one, &mut other);
    assert_eq!((other.bytes(start + 100, 5000), other.counter("misses")), (pattern(5000), 0));
}
