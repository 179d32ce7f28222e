//! Connections that end: their owners are told, and nothing reaches them afterwards.

use hamlyn_abi::dart::command::*;
use hamlyn_abi::dart::connection::*;
use hamlyn_abi::dart::control::*;
use hamlyn_abi::dart::fifo::DART_FIFO_LEFT;
use hamlyn_abi::dart::registers::DART_REG_ARM_LEFT;
use hamlyn_abi::family::command::*;
use hamlyn_card::card::Place;

use crate::support::*;

const COUNT: u32 = DART_MAIN_NONE | DART_OP_INCREMENT << DART_FIRST_SHIFT;

fn broken(host: &Host, state: u64) -> u32 {
    host.word(state + u64::from(DART_STATE_BROKEN))
}

#[test]
fn broken_connection_is_reported_and_takes_nothing() {
    let (mut one, mut other, [_, state]) = pair(PAGE, END);
    other.serves = false;
    // One message waits for its page, and one waits to leave.
    one.write_virtual(0, &pattern(32));
    one.send(1, control(DART_MAIN_WRITE, 0), 0, 32);
    exchange(&mut one, &mut other);
    let misses = other.misses(1);
    other.send(1, control(COUNT, 0), 0, 0);
    let gone = DartBreak { why: DART_BROKEN_GONE, reserved: 0 };
    other.run(DART_COMMAND_BREAK, 1, &gone).unwrap();
    other.serve();
    assert_eq!((broken(&other, state), other.found.clone()), (DART_BROKEN_GONE, vec![DART_FIFO_LEFT | 1]));
    assert_eq!((other.word(state), other.counter("messages_dropped"), other.sent().len()), (1, 1, 0));
    other.fill_pages(&misses);
    one.send(1, control(COUNT, 0), 0, 0);
    exchange(&mut one, &mut other);
    assert_eq!((other.register(1, 0), other.counter("discarded"), other.counter("executed")), (0, 1, 0));
    assert_eq!(other.read_virtual(0, 32), vec![0; 32]);
    // The first reason stays.
    other.run(DART_COMMAND_BREAK, 1, &DartBreak { why: DART_BROKEN_LOST, ..gone }).unwrap();
    assert_eq!((broken(&other, state), other.counter("broken")), (DART_BROKEN_GONE, 1));
}

#[test]
fn sleeper_on_broken_connection_is_woken_at_once() {
    let (_, mut other, [_, state]) = pair(PAGE, END);
    let gone = DartBreak { why: DART_BROKEN_GONE, reserved: 0 };
    other.run(DART_COMMAND_BREAK, 1, &gone).unwrap();
    other.serve();
    other.found.clear();
    // The process knows of all messages that have left, which are none.
    assert_eq!(other.word(state + u64::from(DART_STATE_LEFT)), 0);
    other.store_in(DART_REG_ARM_LEFT, 8, 1);
    other.serve();
    assert_eq!(other.found, [DART_FIFO_LEFT | 1]);
}

#[test]
fn break_without_reason_is_refused() {
    let (_, mut other, [_, state]) = pair(PAGE, END);
    for body in [DartBreak::default(), DartBreak { why: DART_BROKEN_GONE, reserved: 1 }] {
        let refused = other.run(DART_COMMAND_BREAK, 1, &body).unwrap_err();
        assert_eq!((refused.status, broken(&other, state)), (ULN_STATUS_BAD_VALUE, 0));
    }
}

#[test]
fn connection_opened_without_link_is_broken() {
    let mut host = Host::new(0);
    host.endpoint(0, PAGE);
    host.link(None);
    let state = host.connection(1, 1, END);
    assert_eq!(broken(&host, state), DART_BROKEN_LINK);
    host.link(Some(Place { host: 0, ports: 4 }));
    host.send(1, control(COUNT, 0), 0, 0);
    assert!(host.sent().is_empty());
}

#[test]
fn wrong_key_reaches_nothing() {
    let (mut one, mut other, [_, state]) = pair(PAGE, END);
    let mut liar = Host::new(0);
    liar.endpoint(0, PAGE);
    liar.open(1, 1, END);
    let other_key = DartConnect { key: KEY ^ 1 << 63, peer: 1, reserved: 0 };
    liar.run(DART_COMMAND_CONNECT, 1, &other_key).unwrap();
    liar.send(1, control(COUNT, 0), 0, 0);
    let packet = liar.sent().pop().unwrap().1;
    other.arrive(0, &packet);
    assert_eq!((other.register(1, 0), other.counter("discarded"), broken(&other, state)), (0, 1, 0));
    // The connection with that number continues.
    one.send(1, control(COUNT, 0), 0, 0);
    exchange(&mut one, &mut other);
    assert_eq!(other.register(1, 0), 1);
}
