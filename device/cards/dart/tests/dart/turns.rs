//! How much a card executes in one turn of its host.

use std::time::Duration;

use hamlyn_abi::dart::control::*;
use hamlyn_card::card::Card;
use hamlyn_card_dart::TURN;

use crate::support::*;

const COUNT: u32 = DART_MAIN_NONE | DART_OP_INCREMENT << DART_FIRST_SHIFT;
const MANY: u64 = 1500;

#[test]
fn backlog_is_executed_in_turns() {
    let (mut one, mut other, _) = pair(PAGE, END);
    // All messages wait behind one whose page is not there.
    other.serves = false;
    one.send(1, control(DART_MAIN_WRITE, 0), 0, 32);
    exchange(&mut one, &mut other);
    for _ in 0..MANY {
        one.send(1, control(COUNT, 0), 0, 0);
        for (_, packet) in one.sent() {
            other.arrive(0, &packet);
        }
    }
    other.fill(1);
    let mut turns = 1;
    while other.card.alarm() == Some(Duration::ZERO) {
        let before = other.counter("executed");
        other.with(|card, ports, _| card.tick(ports));
        // A message costs more than a cell.
        assert!(other.counter("executed") - before <= TURN as u64 / 16);
        turns += 1;
    }
    assert!(turns >= MANY / (TURN as u64 / 16), "{turns}");
    assert_eq!((other.register(1, 0), other.counter("executed")), (MANY, MANY + 1));
}

#[test]
fn connections_take_turns() {
    let (mut one, mut other, _) = pair(PAGE, END);
    one.connection(2, 1, END);
    other.connection(2, 0, End { registers: (20, 2), ..END });
    other.serves = false;
    for connection in [1, 2] {
        one.send(connection, control(DART_MAIN_WRITE, 0), 0, 32);
    }
    exchange(&mut one, &mut other);
    for _ in 0..300 {
        for connection in [1, 2] {
            one.send(connection, control(COUNT, 0), 0, 0);
        }
        for (_, packet) in one.sent() {
            other.arrive(0, &packet);
        }
    }
    // Both wait for the same page.
    other.fill(1);
    other.with(|card, ports, _| card.tick(ports));
    let counts = [other.register(1, 0), other.register(2, 0)];
    assert!(counts.iter().all(|count| (1..300).contains(count)), "{counts:?}");
    exchange(&mut one, &mut other);
    assert_eq!([other.register(1, 0), other.register(2, 0)], [300, 300]);
}
