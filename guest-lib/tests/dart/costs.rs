//! The costs of compound operations as documented in docs/dart.md, for those not counted by a test
//! in virtual machines.

use std::time::Duration;

use hamlyn::dart::programs::*;
use hamlyn::dart::*;

use crate::{End, LENGTH, connect, end, net};

const SCRATCH: u64 = LENGTH as u64 / 2;
/// No wait is needed: messages are executed as soon as they are sent.
const NOW: Duration = Duration::ZERO;
const REGISTER: u8 = 5;

/// Returns one of a card's counters.
fn counted(card: &Card, name: &str) -> u64 {
    let counters = card.statistics().unwrap();
    counters.into_iter().find(|(known, _)| *known == name).unwrap().1
}

/// Returns the documented costs: messages, answers to them, primitives at the receiver.
fn said(operation: &str) -> [u64; 3] {
    let rows = include_str!("../../../docs/dart.md").lines();
    let row = rows.filter_map(|row| row.strip_prefix(&format!("| {operation} | "))).next_back();
    let numbers = row.unwrap_or_else(|| panic!("no row of {operation}")).trim_end_matches(" |").split(" | ");
    let numbers: Vec<u64> = numbers.map(|number| number.parse().unwrap()).collect();
    numbers.try_into().unwrap()
}

/// Checks the costs of an operation between two cards that is done `times` times, and that it
/// causes no interrupt at the receiver.
fn costs(operation: &str, times: u64, from: &Card, to: &Card, act: impl FnOnce()) {
    let look = || {
        let counts = [(from, "messages_sent"), (to, "answers_sent"), (to, "primitives"), (to, "interrupts")];
        counts.map(|(card, name)| counted(card, name))
    };
    let before = look();
    act();
    let after = look();
    let [messages, answers, primitives, interrupts] = std::array::from_fn(|n| after[n] - before[n]);
    assert_eq!([messages, answers, primitives], said(operation).map(|each| each * times), "{operation}");
    assert_eq!(interrupts, 0, "{operation} interrupts the other host");
}

/// Creates two cards, with one end at each.
fn two() -> (Vec<Card>, End, End) {
    let cards = net::cards(2);
    let (one, other) = (end(&cards[0], 1), end(&cards[1], 0));
    connect(&one.connection, &other.connection);
    (cards, one, other)
}

#[test]
fn caller_operations_cost_the_documented_messages() {
    let (cards, one, _other) = two();
    let mut caller = Caller::new(one.connection, one.events, SCRATCH).with_timeout(Duration::from_secs(60));
    let lock = Lock::new(LockRegisters { tickets: 0, turn: 1 });
    let (from, to) = (&cards[0], &cards[1]);
    costs("lock that is free", 1, from, to, || lock.lock(&mut caller).unwrap());
    costs("lock that is given back", 1, from, to, || lock.unlock(&caller).unwrap());
    costs("block that is read", 1, from, to, || caller.read(64, &mut [0; 32]).unwrap());
    let pieces: Vec<Piece> = (0..10).map(|n| Piece { from: n * 96, to: n * 64, length: 64 }).collect();
    costs("each of scattered blocks", 10, from, to, || caller.gather(&pieces).unwrap());
}

#[test]
fn barrier_takes_one_message_each_way() {
    let (cards, one, other) = two();
    let mut barrier = Barrier::new(vec![other.connection], other.events, REGISTER).unwrap();
    let mut member = Member::new(one.connection, one.events, REGISTER);
    let come = || assert!(member.wait_timeout(NOW).unwrap_err().is_timed_out());
    costs("arrival at a barrier", 1, &cards[0], &cards[1], come);
    let release = || assert_eq!(barrier.release_timeout(Duration::from_secs(60)).unwrap(), 1);
    costs("release from it", 1, &cards[1], &cards[0], release);
}

#[test]
fn a_call_takes_a_message_and_one_back() {
    let (cards, one, other) = two();
    let mut server = Server::new(other.endpoint, vec![other.connection], other.events, 64);
    let mut client = Client::new(one.connection, one.endpoint, one.events, 0, 64);
    let call = || assert!(client.call_timeout(b"question", NOW).unwrap_err().is_timed_out());
    costs("call", 1, &cards[0], &cards[1], call);
    let asked = server.recv_timeout(Duration::from_secs(60)).unwrap();
    costs("its result", 1, &cards[1], &cards[0], || server.answer(&asked, b"answer").unwrap());
}
