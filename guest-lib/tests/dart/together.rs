//! Concurrent operations of several hosts at one host.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hamlyn::dart::programs::*;
use hamlyn::dart::*;
use hamlyn::{Error, ErrorKind};

use crate::{End, LENGTH, connect, end, net, pair, star};

const PATIENCE: Duration = Duration::from_secs(60);
const MOMENT: Duration = Duration::from_millis(50);
const SCRATCH: u64 = LENGTH as u64 / 2;
/// Bytes of each place for arguments.
const SIZE: u64 = 64;

#[test]
fn lock_has_one_holder_at_a_time() {
    let (hub, _connections, others) = star(3);
    let lock = Lock::new(LockRegisters { tickets: 0, turn: 1 });
    thread::scope(|scope| {
        for (own, other) in others.into_iter().enumerate() {
            scope.spawn(move || {
                let mut caller =
                    Caller::new(other.connection.clone(), other.events, SCRATCH).with_timeout(PATIENCE);
                for round in 0..20 {
                    if round % 2 == 0 {
                        lock.lock(&mut caller).unwrap();
                    } else {
                        while !lock.try_lock(&mut caller, 13 + own as u8).unwrap() {}
                    }
                    // Not one atomic operation: without the lock, some increments would be lost.
                    let (found, _) = caller.fetch(2, Step::Or, 0).unwrap();
                    thread::yield_now();
                    let set = Operation::registers(found + 1).first(Step::Move, Source::Operand, Target::I);
                    other.connection.try_send(&set.indices([2, 0, 0]), 0..0).unwrap();
                    lock.unlock(&caller).unwrap();
                }
            });
        }
    });
    assert_eq!(hub.connection.register(2).unwrap(), 60);
}

#[test]
fn try_lock_fails_on_a_held_lock() {
    let [one, other] = pair();
    let lock = Lock::new(LockRegisters { tickets: 0, turn: 1 });
    let mut caller = Caller::new(one.connection, one.events, SCRATCH).with_timeout(MOMENT);
    assert!(lock.try_lock(&mut caller, 15).unwrap());
    assert!(!lock.try_lock(&mut caller, 15).unwrap());
    lock.unlock(&caller).unwrap();
    lock.lock(&mut caller).unwrap();
    assert!(!lock.try_lock(&mut caller, 15).unwrap());
    drop(other);
}

#[test]
fn no_member_leaves_a_barrier_before_all_arrive() {
    const MEMBERS: u64 = 3;
    const ROUNDS: u64 = 10;
    let (hub, connections, others) = star(MEMBERS as u32);
    let mut barrier = Barrier::new(connections, hub.events, 5).unwrap();
    let came = Arc::new(AtomicU64::new(0));
    thread::scope(|scope| {
        for other in others {
            let came = came.clone();
            scope.spawn(move || {
                let mut member = Member::new(other.connection, other.events, 5);
                for round in 1..=ROUNDS {
                    came.fetch_add(1, Ordering::SeqCst);
                    assert_eq!(member.wait_timeout(PATIENCE).unwrap(), round);
                    assert!(came.load(Ordering::SeqCst) >= round * MEMBERS, "a member was missing");
                }
            });
        }
        for round in 1..=ROUNDS {
            assert_eq!(barrier.release_timeout(PATIENCE).unwrap(), round);
        }
        assert!(barrier.release_timeout(MOMENT).unwrap_err().is_timed_out());
    });
}

#[test]
fn member_that_timed_out_does_not_enter_again() {
    let (hub, connections, others) = star(2);
    let mut barrier = Barrier::new(connections, hub.events, 5).unwrap();
    let mut members = others.into_iter().map(|other| Member::new(other.connection, other.events, 5));
    let (mut early, mut late) = (members.next().unwrap(), members.next().unwrap());
    for round in 1..3 {
        for _ in 0..2 {
            assert!(early.wait_timeout(MOMENT).unwrap_err().is_timed_out());
        }
        assert!(barrier.release_timeout(MOMENT).unwrap_err().is_timed_out(), "one is missing");
        assert!(late.wait_timeout(MOMENT).unwrap_err().is_timed_out());
        assert_eq!(barrier.release_timeout(PATIENCE).unwrap(), round);
        assert_eq!(
            (early.wait_timeout(PATIENCE).unwrap(), late.wait_timeout(PATIENCE).unwrap()),
            (round, round)
        );
    }
}

/// As in an event loop, which waits elsewhere.
#[test]
fn member_takes_a_release_without_waiting() {
    let (hub, connections, others) = star(1);
    let mut barrier = Barrier::new(connections, hub.events, 5).unwrap();
    let other = others.into_iter().next().unwrap();
    let mut member = Member::new(other.connection, other.events, 5);
    assert!(member.wait_timeout(Duration::ZERO).unwrap_err().is_timed_out());
    assert_eq!(barrier.release_timeout(PATIENCE).unwrap(), 1);
    let begun = Instant::now();
    let round = loop {
        match member.wait_timeout(Duration::ZERO) {
            Ok(round) => break round,
            Err(error) => assert!(error.is_timed_out() && begun.elapsed() < PATIENCE, "{error}"),
        }
    };
    assert_eq!(round, 1);
}

#[test]
fn a_barrier_needs_members_and_a_register() {
    let [one, other] = pair();
    let none = Barrier::new(Vec::new(), one.events, 5).unwrap_err();
    assert_eq!(none.kind(), ErrorKind::Invalid);
    assert!(matches!(Barrier::new(vec![other.connection], other.events, 16), Err(Error::OutOfRange { .. })));
}

#[test]
fn client_ignores_results_of_timed_out_calls() {
    let (hub, connections, others) = star(1);
    let mut server = Server::new(hub.endpoint, connections, hub.events, SIZE);
    let other = others.into_iter().next().unwrap();
    let mut client = Client::new(other.connection, other.endpoint, other.events, 0, SIZE);
    assert!(client.call_timeout(b"one", MOMENT).unwrap_err().is_timed_out());
    let call = server.recv_timeout(PATIENCE).unwrap();
    server.answer(&call, b"first").unwrap();
    assert_eq!(client.call_timeout(b"two", MOMENT).unwrap_err().kind(), ErrorKind::Invalid);
}

#[test]
fn other_records_do_not_extend_the_servers_timeout() {
    let (hub, connections, others) = star(1);
    let mut server = Server::new(hub.endpoint, connections, hub.events, SIZE);
    let other = others.into_iter().next().unwrap();
    // Nothing was written to the place of a client's arguments.
    for _ in 0..5 {
        other.connection.try_send(&Operation::registers(SCRATCH).tell(), 0..0).unwrap();
    }
    let call = Operation::write_multiple(0).tell();
    other.connection.try_send(&call, 0..1).unwrap();
    thread::sleep(Duration::from_millis(100));
    assert!(server.recv_timeout(Duration::ZERO).unwrap_err().is_timed_out());
    assert_eq!(server.recv_timeout(PATIENCE).unwrap().arguments.len(), 1);
}

#[test]
fn each_client_gets_its_own_result() {
    let (hub, connections, others) = star(3);
    let mut server = Server::new(hub.endpoint, connections, hub.events, SIZE);
    thread::scope(|scope| {
        for (own, other) in others.into_iter().enumerate() {
            scope.spawn(move || {
                let place = own as u64 * SIZE;
                let mut client = Client::new(other.connection, other.endpoint, other.events, place, SIZE);
                for length in 0..=SIZE as u8 {
                    let arguments = vec![length ^ own as u8; length.into()];
                    let result = client.call_timeout(&arguments, PATIENCE).unwrap();
                    assert_eq!(result, [&arguments[..], b"!"].concat()[..result.len()]);
                    assert_eq!(result.len(), (usize::from(length) + 1).min(SIZE as usize));
                }
                let much = client.call_timeout(&[0; SIZE as usize + 1], PATIENCE).unwrap_err();
                assert_eq!(much.kind(), ErrorKind::Invalid);
            });
        }
        for _ in 0..3 * (SIZE + 1) {
            let call = server.recv_timeout(PATIENCE).unwrap();
            let mut result = [&call.arguments[..], b"!"].concat();
            assert!(server.answer(&call, &[0; SIZE as usize + 1]).is_err());
            result.truncate(SIZE as usize);
            server.answer(&call, &result).unwrap();
        }
    });
}

#[test]
fn calls_outside_the_clients_place_are_ignored() {
    let (hub, connections, others) = star(2);
    let mut server = Server::new(hub.endpoint, connections, hub.events, SIZE);
    let hostile = &others[0].connection;
    // Another client's place, a place that does not exist, and more than a place.
    for (place, length) in [(SIZE, 8), (5 * SIZE, 8), (0, SIZE + 4)] {
        hostile.try_send(&Operation::write_multiple(place).tell(), 0..length).unwrap();
    }
    hostile.try_send(&Operation::registers(u64::MAX).tell(), 0..0).unwrap();
    assert!(server.recv_timeout(MOMENT).unwrap_err().is_timed_out());
    hostile.try_send(&Operation::write_multiple(0).tell(), 0..4).unwrap();
    assert_eq!(server.recv_timeout(MOMENT).unwrap().arguments.len(), 4);
}

/// Creates two ends of a connection. Each has one queue for its events and its exceptions.
fn pair_with_exceptions() -> [End; 2] {
    let cards = net::cards(2);
    let [one, other] = [(0, 1), (1, 0)].map(|(own, host)| {
        let card: &Card = &cards[own];
        let end = end(card, host);
        let builder = card.connection(&end.endpoint, &end.bank).events(&end.events).exceptions(&end.events);
        End { connection: Arc::new(builder.open(host).unwrap()), ..end }
    });
    connect(&one.connection, &other.connection);
    [one, other]
}

#[test]
fn exception_does_not_complete_a_barrier() {
    let [one, other] = pair_with_exceptions();
    let mut barrier = Barrier::new(vec![other.connection], other.events, 5).unwrap();
    one.connection.try_send(&Operation::exception(1, 0), 0..8).unwrap();
    assert!(barrier.release_timeout(MOMENT).unwrap_err().is_timed_out());
}

#[test]
fn exception_is_neither_call_nor_result() {
    let [one, other] = pair_with_exceptions();
    let (here, there) = (one.connection, other.connection);
    let mut server = Server::new(other.endpoint, vec![there.clone()], other.events, SIZE);
    here.try_send(&Operation::exception(1, 0), 0..8).unwrap();
    assert!(server.recv_timeout(MOMENT).unwrap_err().is_timed_out());
    // If it were not executed, the next operation would have to be written where there is no
    // memory.
    there.try_send(&Operation::exception(1, 0), 0..8).unwrap();
    there.try_send(&Operation::write_multiple(LENGTH as u64).tell(), 0..8).unwrap();
    let mut client = Client::new(here, one.endpoint, one.events, 0, SIZE);
    thread::scope(|scope| {
        scope.spawn(|| {
            let call = server.recv_timeout(PATIENCE).unwrap();
            server.answer(&call, &[call.arguments[0] + 1; 5]).unwrap();
        });
        assert_eq!(client.call_timeout(&[7; 3], PATIENCE).unwrap(), [8; 5]);
    });
}
