//! Credits: a connection that waits holds up no other, and nothing is lost.

use hamlyn_abi::dart::connection::*;
use hamlyn_abi::dart::control::*;
use zerocopy::IntoBytes;

use hamlyn_card_dart::Options;

use crate::support::*;

const COUNT: u32 = DART_MAIN_WRITE | DART_OP_INCREMENT << DART_FIRST_SHIFT;

#[test]
fn sender_stops_at_window_and_continues() {
    let (mut one, mut other, [state, _]) = pair(PAGE, END);
    one.connection(2, 1, END);
    other.connection(2, 0, End { registers: (20, 2), ..END });
    other.serves = false;
    one.write_virtual(0, &pattern(32));
    let left = |one: &Host| one.word(state + u64::from(DART_STATE_LEFT));
    for number in 0..2048 {
        one.send(1, control(COUNT, 0), 0, 32);
        exchange(&mut one, &mut other);
        assert_eq!(left(&one), number + 1);
    }
    for _ in 0..64 {
        one.send(1, control(COUNT, 0), 0, 32);
    }
    exchange(&mut one, &mut other);
    assert_eq!((left(&one), one.counter("credit_waits"), other.register(1, 0)), (2048, 1, 0));
    // There is room for no more of them, and the next one is reported as dropped.
    one.send(1, control(COUNT, 0), 0, 32);
    let word = |one: &Host, place: u32| one.word(state + u64::from(place));
    assert_eq!((word(&one, DART_STATE_DROPPED), word(&one, DART_STATE_DROPPED_WHY)), (1, DART_DROPPED_ROOM));
    // Another connection is not affected.
    one.send(2, control(DART_MAIN_NONE | DART_OP_INCREMENT << DART_FIRST_SHIFT, 0), 0, 0);
    exchange(&mut one, &mut other);
    assert_eq!(other.register(2, 0), 1);
    other.serves = true;
    other.fill(1);
    exchange(&mut one, &mut other);
    assert_eq!((other.register(1, 0), other.counter("misses")), (2048 + 64, 1));
}

#[test]
fn longest_messages_and_answers_never_run_dry() {
    let (mut one, mut other, _) = pair(20 * PAGE, END);
    let answer = control(DART_MAIN_WRITE_MULTIPLE, 100);
    one.write_virtual(0, &[answer.as_bytes(), &65504_u32.to_le_bytes()].concat());
    for _ in 0..20 {
        one.send(1, control(DART_MAIN_READ_MULTIPLE, 0), 0, 20);
        one.send(1, control(DART_MAIN_WRITE_MULTIPLE, 4), 100, 65504);
        exchange(&mut one, &mut other);
    }
    assert_eq!((other.counter("executed"), one.counter("executed")), (40, 20));
}

#[test]
fn missing_answer_costs_no_credits() {
    // The peer does not allow reads, so each question has a trap.
    let (mut one, mut other, [state, _]) = pair(PAGE, End { flags: 0, ..END });
    for _ in 0..100 {
        one.write_virtual(
            0,
            &[control(DART_MAIN_WRITE_MULTIPLE, 0).as_bytes(), &60000_u32.to_le_bytes()].concat(),
        );
        one.send(1, control(DART_MAIN_READ_MULTIPLE, 0), 0, 20);
        exchange(&mut one, &mut other);
    }
    assert_eq!(one.word(state + u64::from(DART_STATE_TRAPS)), 100);
}

/// A regression test: ever more trap reports waited for a host that let nothing return to it.
#[test]
fn blocked_trap_reports_delay_only_their_connection() {
    let (mut one, mut other, _) = pair(PAGE, END);
    one.connection(2, 1, END);
    other.connection(2, 0, End { registers: (20, 2), ..END });
    let mut traps = 0;
    for _ in 0..4 {
        for _ in 0..2048 {
            one.send(1, control(0x80, 0), 0, 0);
            for (_, packet) in one.sent() {
                other.arrive(0, &packet);
            }
        }
        // One of them leaves, and reports that all the others are done.
        other.transmit();
        for (_, packet) in std::mem::take(&mut other.wire.sent) {
            one.arrive(1, &packet);
        }
        traps = other.counter("traps_unimplemented");
    }
    assert!(traps <= 2048 + 4, "{traps}");
    one.send(2, control(DART_MAIN_NONE | DART_OP_INCREMENT << DART_FIRST_SHIFT, 0), 0, 0);
    exchange(&mut one, &mut other);
    assert_eq!((other.register(2, 0), other.counter("broken")), (1, 0));
}

/// A regression test: a connection that dropped messages had one more turn for each of them, for as
/// long as it had something to send.
#[test]
fn dropped_messages_give_no_extra_turns() {
    let (mut one, _, _) = pair(PAGE, END);
    one.connection(2, 1, END);
    let count = control(DART_MAIN_NONE | DART_OP_INCREMENT << DART_FIRST_SHIFT, 0);
    (0..64).for_each(|_| one.send(2, count, 0, 0));
    for _ in 0..10 {
        one.send(1, count, PAGE, 32);
        one.send(1, count, 0, 0);
        one.transmit();
    }
    (0..32).for_each(|_| one.send(1, count, 0, 0));
    one.wire.sent.clear();
    for _ in 0..32 {
        one.transmit();
    }
    let of_second = one.wire.sent.iter().filter(|(_, packet)| packet[0] == 2).count();
    assert!((one.wire.sent.len(), of_second) >= (32, 16), "{of_second}");
}

/// A regression test: each end waited for the other's credits, which did not leave before the
/// message that waited.
#[test]
fn ends_without_credits_grant_each_other_some() {
    let (mut one, mut other, _) = pair(PAGE, END);
    let count = control(DART_MAIN_NONE | DART_OP_INCREMENT << DART_FIRST_SHIFT, 0);
    for host in [&mut one, &mut other] {
        for _ in 0..2048 {
            host.send(1, count, 0, 0);
            host.transmit();
        }
        host.send(1, count, 0, 0);
        host.transmit();
        assert_eq!((host.wire.sent.len(), host.counter("credit_waits")), (2048, 1));
    }
    exchange(&mut one, &mut other);
    assert_eq!((one.register(1, 0), other.register(1, 0)), (2049, 2049));
}

/// Returns two hosts with these windows and a connection 1 each, and the addresses of the
/// connections' states.
fn with_windows(windows: [u32; 2]) -> (Host, Host, [u64; 2]) {
    let [mut one, mut other] = [0, 1].map(|number| {
        let window = windows[usize::from(number)];
        Host::with_options(number, Options { window, ..OPTIONS })
    });
    let states = [(&mut one, 1), (&mut other, 0)].map(|(host, peer)| {
        host.endpoint(0, PAGE);
        host.connection(1, peer, END)
    });
    (one, other, states)
}

#[test]
fn smaller_window_gets_credits_from_a_larger() {
    let count = control(DART_MAIN_NONE | DART_OP_INCREMENT << DART_FIRST_SHIFT, 0);
    for windows in [[2048, 65536], [65536, 2048], [65536, 65536], [3000, 20_000]] {
        let (mut one, mut other, _) = with_windows(windows);
        for _ in 0..100 {
            for _ in 0..64 {
                one.send(1, count, 0, 0);
                other.send(1, count, 0, 0);
            }
            exchange(&mut one, &mut other);
        }
        assert_eq!((one.register(1, 0), other.register(1, 0)), (6400, 6400), "{windows:?}");
    }
}

#[test]
fn larger_window_does_not_overrun_a_smaller() {
    let (mut one, mut other, [here, there]) = with_windows([65536, 2048]);
    let count = control(DART_MAIN_NONE | DART_OP_INCREMENT << DART_FIRST_SHIFT, 0);
    // All messages wait behind one whose page is not there.
    other.serves = false;
    one.send(1, control(DART_MAIN_WRITE, 0), 0, 32);
    for _ in 0..3000 {
        exchange(&mut one, &mut other);
        one.send(1, count, 0, 0);
    }
    assert_eq!(other.word(there + u64::from(DART_STATE_BROKEN)), 0);
    other.serves = true;
    other.fill(1);
    exchange(&mut one, &mut other);
    let dropped = one.word(here + u64::from(DART_STATE_DROPPED));
    assert_eq!(other.register(1, 0), 3000 - u64::from(dropped));
}
