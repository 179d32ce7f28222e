//! Connections of operating systems: packets may be lost, and nothing waits.

use hamlyn_abi::dart::command::*;
use hamlyn_abi::dart::connection::*;
use hamlyn_abi::dart::control::*;
use hamlyn_abi::dart::fifo::*;
use hamlyn_abi::dart::registers::{DART_FRAME_WRITABLE, DART_REG_ARM_LEFT};
use hamlyn_abi::family::command::ULN_STATUS_IN_USE;
use hamlyn_card::card::Place;
use hamlyn_test_host::Commands;
use zerocopy::FromZeros;

use crate::support::*;

const COUNT: u32 = DART_MAIN_NONE | DART_OP_INCREMENT << DART_FIRST_SHIFT;
const FLAGS: u32 = DART_CONNECTION_SYSTEM | DART_CONNECTION_WRITE | DART_CONNECTION_READ;

/// Returns hosts 0 and 1, each with a connection to the other's operating system and a pinned
/// endpoint of two pages. Also returns the addresses of the endpoints, and of the connections'
/// states.
fn systems(end: End) -> (Host, Host, [u64; 2], [u64; 2]) {
    let (mut one, mut other) = (Host::new(0), Host::new(1));
    let opened = [(&mut one, 1), (&mut other, 0)].map(|(host, peer)| {
        let (area, start) = host.area(2 * PAGE);
        let body = DartOpenEndpoint { area, flags: DART_ENDPOINT_PINNED, ..DartOpenEndpoint::new_zeroed() };
        host.run(DART_COMMAND_OPEN_ENDPOINT, 0, &body).unwrap();
        host.queue(0, 0);
        (start, host.open(peer, peer, End { flags: FLAGS, ..end }))
    });
    (one, other, opened.map(|(start, _)| start), opened.map(|(_, state)| state))
}

/// Returns the packets of a message from host 0 to host 1.
fn packets(one: &mut Host, control: DartControl, length: u64) -> Vec<Vec<u8>> {
    one.send(1, control, 0, length);
    one.sent().into_iter().map(|(_, packet)| packet).collect()
}

#[test]
fn lost_packets_break_nothing_and_arrivals_are_coalesced() {
    let (mut one, mut other, _, [_, state]) = systems(END);
    for _ in 0..3 {
        let lost = packets(&mut one, control(COUNT, 0), 0);
        let came = packets(&mut one, control(COUNT, 0), 0);
        assert_eq!((lost.len(), came.len()), (1, 1));
        other.arrive(0, &came[0]);
    }
    assert_eq!((other.register(0, 0), other.word(state + u64::from(DART_STATE_BROKEN))), (3, 0));
    assert!(other.serve());
    // One record for the first, and one for the later ones.
    assert!(other.serve());
    assert!(!other.serve());
    assert_eq!(other.found, [DART_FIFO_ARRIVED; 2]);
}

#[test]
fn system_messages_need_no_credits() {
    let (mut one, mut other, _, [state, _]) = systems(END);
    for _ in 0..3000 {
        one.send(1, control(DART_MAIN_WRITE_MULTIPLE, 0), 0, 100);
        exchange(&mut one, &mut other);
    }
    let left = one.word(state + u64::from(DART_STATE_LEFT));
    assert_eq!((left, other.counter("executed"), one.counter("packets_arrived")), (3000, 3000, 0));
}

#[test]
fn each_host_reaches_only_its_own_page() {
    let (mut one, mut other, [from, to], _) = systems(END);
    one.put(from, &pattern(32));
    let cases = [(0, 1), (PAGE - 32, 2), (PAGE - 28, 2), (PAGE, 2), (u64::MAX - 3, 2)];
    for (operand, executed) in cases {
        one.send(1, control(DART_MAIN_WRITE, operand), 0, 32);
        exchange(&mut one, &mut other);
        assert_eq!(other.counter("executed"), executed, "{operand:#x}");
    }
    assert_eq!((other.bytes(to, 32), other.bytes(to + PAGE, 32)), (pattern(32), vec![0; 32]));
}

#[test]
fn lost_link_drops_messages_and_wakes_sleepers() {
    let (mut one, mut other, _, [state, _]) = systems(END);
    one.send(1, control(COUNT, 0), 0, 0);
    one.store_in(DART_REG_ARM_LEFT, 8, 1);
    one.link(None);
    let word = |one: &Host, place: u32| one.word(state + u64::from(place));
    assert_eq!((word(&one, DART_STATE_LEFT), word(&one, DART_STATE_DROPPED)), (1, 1));
    // Messages that are stored meanwhile are dropped, too.
    one.send(1, control(COUNT, 0), 0, 0);
    assert_eq!((word(&one, DART_STATE_DROPPED_WHY), word(&one, DART_STATE_BROKEN)), (DART_DROPPED_BROKEN, 0));
    one.serve();
    assert_eq!((one.found.clone(), one.counter("messages_dropped")), (vec![DART_FIFO_LEFT | 1], 2));
    one.link(Some(Place { host: 0, ports: 4 }));
    one.send(1, control(COUNT, 0), 0, 0);
    exchange(&mut one, &mut other);
    assert_eq!(other.register(0, 0), 1);
}

#[test]
fn messages_with_waits_or_answers_are_dropped() {
    let (mut one, mut other, _, _) = systems(End { queues: [0, DART_NO_QUEUE], ..END });
    other.endpoint(1, PAGE);
    // A connection whose endpoint has no page yet.
    other.run(DART_COMMAND_CLOSE_CONNECTION, 0, &0_u64).unwrap();
    other.open(0, 0, End { endpoint: 1, flags: FLAGS, queues: [0, DART_NO_QUEUE], ..END });
    other.serves = false;
    let tells = DART_MAIN_NONE | DART_COMPARE_ALWAYS << DART_COMPARE_SHIFT;
    for _ in 0..16 {
        one.send(1, control(tells, 0), 0, 0);
        exchange(&mut one, &mut other);
    }
    let (before, found) = (other.counter("discarded"), other.found.len());
    let too = step(DART_SECOND_SHIFT, DART_OP_INCREMENT, 0, DART_TARGET_I);
    let asks = step(DART_FIRST_SHIFT, DART_OP_INCREMENT, 0, DART_TARGET_I);
    for opcode in [DART_MAIN_WRITE | too, DART_MAIN_READ, DART_MAIN_ANSWER | asks, tells | too, 0x80] {
        one.send(1, control(opcode, 0), 0, 0);
        exchange(&mut one, &mut other);
    }
    assert_eq!((other.counter("discarded"), other.found.len()), (before + 5, found));
    assert_eq!((other.register(0, 0), other.misses(0), other.counter("misses")), (0, vec![], 0));
    assert!(other.sent().is_empty());
    // Nothing is left to do when the page and the place are there.
    let one_page = other.pages[&(BASE / PAGE)].0 | DART_FRAME_WRITABLE;
    other.tell_frame(SPACE, BASE, one_page);
    other.wait(2);
    assert_eq!((other.register(0, 0), other.counter("executed")), (0, 16));
}

#[test]
fn system_connection_is_neither_connected_nor_broken() {
    let (mut one, _, _, _) = systems(END);
    let connect = DartConnect { key: KEY, peer: 3, reserved: 0 };
    let gone = DartBreak { why: DART_BROKEN_GONE, reserved: 0 };
    assert_eq!(one.run(DART_COMMAND_CONNECT, 1, &connect).unwrap_err().status, ULN_STATUS_IN_USE);
    assert_eq!(one.run(DART_COMMAND_BREAK, 1, &gone).unwrap_err().status, ULN_STATUS_IN_USE);
}
