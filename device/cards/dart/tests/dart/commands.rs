//! Commands that are refused.

use hamlyn_abi::dart::command::*;
use hamlyn_abi::dart::connection::*;
use hamlyn_abi::dart::queue::*;
use hamlyn_abi::family::command::*;
use zerocopy::{FromZeros, Immutable, IntoBytes};

use crate::support::*;

fn refused<B: IntoBytes + Immutable>(host: &mut Host, opcode: u32, index: u32, body: &B) -> u32 {
    host.run(opcode, index, body).unwrap_err().status
}

#[test]
fn invalid_commands_are_refused_and_change_nothing() {
    let (mut one, mut other, _) = pair(PAGE, END);
    let endpoint = DartOpenEndpoint { base: BASE, length: 8, ..DartOpenEndpoint::new_zeroed() };
    for (body, status) in [
        (DartOpenEndpoint { base: 2, ..endpoint }, ULN_STATUS_BAD_ADDRESS),
        (DartOpenEndpoint { length: 0, ..endpoint }, ULN_STATUS_BAD_LENGTH),
        (DartOpenEndpoint { length: u64::MAX, ..endpoint }, ULN_STATUS_BAD_LENGTH),
        (DartOpenEndpoint { flags: 2, ..endpoint }, ULN_STATUS_BAD_VALUE),
        (DartOpenEndpoint { flags: 1, ..endpoint }, ULN_STATUS_BAD_VALUE),
    ] {
        assert_eq!(refused(&mut one, DART_COMMAND_OPEN_ENDPOINT, 5, &body), status, "{body:?}");
    }
    assert_eq!(refused(&mut one, DART_COMMAND_OPEN_ENDPOINT, 0, &endpoint), ULN_STATUS_IN_USE);
    assert_eq!(refused(&mut one, DART_COMMAND_OPEN_ENDPOINT, 128, &endpoint), ULN_STATUS_BAD_INDEX);
    assert_eq!(refused(&mut one, DART_COMMAND_CLOSE_ENDPOINT, 0, &0_u64), ULN_STATUS_IN_USE);

    let (state, _) = one.area(DART_STATE_SIZE.into());
    let none = DART_NO_QUEUE;
    let connection =
        DartOpenConnection { state, events: none, exceptions: none, ..DartOpenConnection::new_zeroed() };
    for (body, status) in [
        (DartOpenConnection { endpoint: 9, ..connection }, ULN_STATUS_NOT_OPEN),
        (DartOpenConnection { register_base: 250, register_bound: 7, ..connection }, ULN_STATUS_BAD_INDEX),
        (DartOpenConnection { register_bound: 257, ..connection }, ULN_STATUS_BAD_LENGTH),
        (DartOpenConnection { program_base: 32, program_bound: 1, ..connection }, ULN_STATUS_BAD_INDEX),
        (DartOpenConnection { events: 3, ..connection }, ULN_STATUS_NOT_OPEN),
        (DartOpenConnection { host: 65536, ..connection }, ULN_STATUS_BAD_VALUE),
        (DartOpenConnection { flags: 8, ..connection }, ULN_STATUS_BAD_VALUE),
        (DartOpenConnection { reserved: 1, ..connection }, ULN_STATUS_BAD_VALUE),
    ] {
        assert_eq!(refused(&mut one, DART_COMMAND_OPEN_CONNECTION, 5, &body), status, "{body:?}");
    }
    let connect = DartConnect { key: KEY, peer: 3, reserved: 0 };
    assert_eq!(refused(&mut one, DART_COMMAND_CONNECT, 1, &connect), ULN_STATUS_IN_USE);
    assert_eq!(refused(&mut one, DART_COMMAND_CONNECT, 2, &connect), ULN_STATUS_NOT_OPEN);
    let queue = DartOpenQueue { records: 17, ..DartOpenQueue::new_zeroed() };
    assert_eq!(refused(&mut one, DART_COMMAND_OPEN_QUEUE, 3, &queue), ULN_STATUS_BAD_LENGTH);
    assert_eq!(refused(&mut one, DART_COMMAND_BREAK, 1, &DartBreak::default()), ULN_STATUS_BAD_VALUE);
    let gone = DartBreak { why: DART_BROKEN_GONE, reserved: 0 };
    assert_eq!(refused(&mut one, DART_COMMAND_BREAK, 2, &gone), ULN_STATUS_NOT_OPEN);
    let values = DartValues { count: 2, ..DartValues::new_zeroed() };
    assert_eq!(refused(&mut one, DART_COMMAND_SET_REGISTERS, 255, &values), ULN_STATUS_BAD_INDEX);
    assert_eq!(refused(&mut one, 99, 0, &0_u64), ULN_STATUS_BAD_OPCODE);
    // The refused commands have had no effect.
    one.send(1, control(0, 0), 0, 0);
    exchange(&mut one, &mut other);
    assert_eq!(other.counter("executed"), 1);
}

#[test]
fn close_and_reset_leave_no_state() {
    let (mut one, mut other, _) = pair(PAGE, END);
    one.write_virtual(0, &pattern(32));
    other.serves = false;
    one.send(1, control(1, 0), 0, 32);
    exchange(&mut one, &mut other);
    let misses = other.misses(1);
    other.run(DART_COMMAND_CLOSE_CONNECTION, 1, &0_u64).unwrap();
    other.fill_pages(&misses);
    assert_eq!(other.read_virtual(0, 32), vec![0; 32]);
    other.run(DART_COMMAND_CLOSE_ENDPOINT, 0, &0_u64).unwrap();
    other.endpoint(0, PAGE);
    other.with(|card, ports, _| hamlyn_card::card::Card::reset(card, ports));
    assert_eq!((other.register(1, 0), other.counter("executed")), (u64::MAX, 0));
}

#[test]
fn sizes_match_those_of_the_interface() {
    assert_eq!((size_of::<DartRecord>() as u32, DART_RECORD_SIZE), (64, 64));
    assert_eq!(DART_LONGEST as usize, hamlyn_card_dart::LONGEST);
}
