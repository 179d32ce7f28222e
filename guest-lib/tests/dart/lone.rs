//! Operations of one host at another.

use std::sync::Arc;
use std::time::Duration;

use hamlyn::dart::programs::*;
use hamlyn::dart::*;
use hamlyn::{Error, ErrorKind};

use crate::{End, LENGTH, connect, end, net, pair};

/// Timeout for what does not arrive.
const MOMENT: Duration = Duration::from_millis(50);
/// Timeout for what must arrive.
const LONG: Duration = Duration::from_secs(60);
const PATIENCE: Duration = Duration::from_secs(60);
const LOG: Log = Log { tail: 8, step: 9, end: 10 };
const PRIORITY: PriorityRegisters = PriorityRegisters { tail: 1, most: 2, step: 3 };
const SCRATCH: u64 = LENGTH as u64 / 2;

#[test]
fn connection_requires_parts_of_one_open_card() {
    let cards = net::cards(2);
    let (own, others) = (&cards[0], &cards[1]);
    let (endpoint, bank) = (own.endpoint(64).unwrap(), own.bank(1, 0).unwrap());
    let (endpoint_of_other, bank_of_other) = (others.endpoint(64).unwrap(), others.bank(1, 0).unwrap());
    let queue_of_other = others.queue(16, Urgency::Delayed).unwrap();
    for wrong in [
        others.connection(&endpoint, &bank),
        own.connection(&endpoint_of_other, &bank),
        own.connection(&endpoint, &bank_of_other),
        own.connection(&endpoint, &bank).events(&queue_of_other),
        own.connection(&endpoint, &bank).exceptions(&queue_of_other),
    ] {
        assert!(matches!(wrong.open(0), Err(Error::Invalid(_))));
    }
    assert!(own.connection(&endpoint, &bank).open(0).is_ok());
}

#[test]
fn fetch_returns_old_and_new_value() {
    let [one, other] = pair();
    let mut caller = Caller::new(one.connection, one.events, SCRATCH).with_timeout(MOMENT);
    // Other records in the caller's queue are not answers.
    other.connection.try_send(&Operation::registers(999).tell(), 0..0).unwrap();
    assert_eq!(caller.fetch(3, Step::Add, 5).unwrap(), (0, 5));
    assert_eq!(caller.fetch(3, Step::Increment, 0).unwrap(), (5, 6));
    assert_eq!(caller.fetch(3, Step::Maximum, 4).unwrap(), (6, 6));
    assert_eq!(caller.compare_and_swap(3, 15, 6, 60).unwrap(), 6);
    assert_eq!(caller.compare_and_swap(3, 15, 6, 61).unwrap(), 60);
    assert_eq!(other.connection.register(3).unwrap(), 60);
    // More questions than there are places for them.
    for number in 0..100 {
        assert_eq!(caller.fetch(4, Step::Increment, 0).unwrap().0, number);
    }
}

#[test]
fn reads_return_exactly_the_requested_bytes() {
    let [one, other] = pair();
    let pattern: Vec<u8> = (0..4096_u32).map(|byte| (byte * 7 / 8) as u8).collect();
    other.endpoint.write(0, &pattern).unwrap();
    // At the very end of the other end's memory, after which there is nothing.
    other.endpoint.write(LENGTH - 8, &[9; 8]).unwrap();
    let mut caller = Caller::new(one.connection, one.events, SCRATCH).with_timeout(MOMENT);
    for (from, length) in [(0, 32), (4, 1), (100, 31), (64, 0)] {
        let mut found = vec![0; length];
        caller.read(from, &mut found).unwrap();
        assert_eq!(found, pattern[from as usize..][..length]);
    }
    let mut last = [0; 8];
    caller.read(LENGTH as u64 - 8, &mut last).unwrap();
    assert_eq!(last, [9; 8]);
    assert_eq!(caller.read(LENGTH as u64 - 4, &mut last).unwrap_err().of(), Some(&Trap::Bounds));
    assert_eq!(caller.read(0, &mut [0; 33]).unwrap_err().kind(), ErrorKind::Invalid);
    // Scattered blocks, more than can be in flight, the last ones first.
    let pieces: Vec<Piece> =
        (0..80).map(|n| Piece { from: n * 48, to: 8192 + (79 - n) * 48, length: 48 }).collect();
    caller.gather(&pieces).unwrap();
    let mut found = vec![0; 80 * 48];
    one.endpoint.read(8192, &mut found).unwrap();
    let expected: Vec<u8> = pattern[..80 * 48].chunks(48).rev().flatten().copied().collect();
    assert_eq!(found, expected);
}

#[test]
fn refused_question_fails_and_next_one_succeeds() {
    let [one, other] = pair();
    let mut caller = Caller::new(one.connection, one.events, SCRATCH).with_timeout(MOMENT);
    for round in 1..4 {
        assert_eq!(caller.fetch(16, Step::Add, 1).unwrap_err().of(), Some(&Trap::Index));
        assert_eq!(caller.connection().status().traps, round);
        assert_eq!(caller.fetch(0, Step::Increment, 0).unwrap().1, u64::from(round));
    }
    // The other end is closed.
    drop(other);
    let gone = caller.fetch(0, Step::Increment, 0);
    assert_eq!(gone.unwrap_err().of(), Some(&Broken::Gone));
}

/// Creates two ends that are not connected yet, and a caller on the first.
fn apart() -> (Caller, Arc<Connection>, End) {
    let cards = net::cards(2);
    let (one, other) = (end(&cards[0], 1), end(&cards[1], 0));
    let caller = Caller::new(one.connection.clone(), one.events, SCRATCH).with_timeout(MOMENT);
    (caller, one.connection, other)
}

#[test]
fn gather_discards_answers_of_earlier_questions() {
    let (mut caller, here, other) = apart();
    let there = other.connection;
    // Questions leave; their answers wait until the other end is connected.
    here.connect(&there.address().unwrap()).unwrap();
    let late = Piece { from: 0, to: 4, length: 64 };
    for _ in 0..4 {
        assert!(caller.gather(&[late]).unwrap_err().is_timed_out());
    }
    there.connect(&here.address().unwrap()).unwrap();
    let outside = Piece { from: LENGTH as u64, ..late };
    assert_eq!(caller.gather(&[outside]).unwrap_err().of(), Some(&Trap::Bounds));
}

#[test]
fn ask_discards_answers_of_earlier_reads() {
    let (mut caller, here, other) = apart();
    here.connect(&other.connection.address().unwrap()).unwrap();
    // The address of the bytes equals the number of the question after these.
    let late = Piece { from: 0, to: 4, length: 64 };
    for _ in 0..4 {
        assert!(caller.gather(&[late]).unwrap_err().is_timed_out());
    }
    other.connection.connect(&here.address().unwrap()).unwrap();
    assert_eq!(caller.fetch(3, Step::Add, 5).unwrap(), (0, 5));
}

#[test]
fn question_waits_for_a_place_of_its_own() {
    let (mut caller, here, other) = apart();
    for _ in 0..32 {
        assert!(caller.fetch(0, Step::Add, 7).unwrap_err().is_timed_out());
    }
    assert!(caller.fetch(5, Step::Increment, 0).unwrap_err().is_timed_out());
    connect(&here, &other.connection);
    // The last question was not sent, because it would have overwritten the first.
    assert_eq!((other.connection.register(0).unwrap(), other.connection.register(5).unwrap()), (7 * 32, 0));
    assert_eq!(caller.fetch(5, Step::Increment, 0).unwrap(), (0, 1));
}

#[test]
fn log_has_each_entry_once_within_its_end() {
    let [one, other] = pair();
    assert!(
        LOG.set(&other.connection, 1024, 36, 2).is_err() && LOG.set(&other.connection, 1024, 6, 2).is_err()
    );
    LOG.set(&other.connection, 1024, 12, 3).unwrap();
    for wrong in [6, 36] {
        let refused = Appender::new(one.connection.clone(), LOG, wrong).append(0).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid, "{wrong}");
    }
    let appender = Appender::new(one.connection.clone(), LOG, 12);
    for number in 0..5_u8 {
        one.endpoint.write(0, &[number + 1; 32]).unwrap();
        appender.append(0).unwrap();
        assert_eq!(LOG.written(&other.connection, 1024).unwrap(), 12 * u64::from(number + 1).min(3));
    }
    let status = one.connection.status();
    assert_eq!((status.traps, status.trap.map(|(trap, _)| trap)), (2, Some(Trap::Refused)));
    let mut found = [0; 48];
    other.endpoint.read(1024, &mut found).unwrap();
    let expected: Vec<u8> = [1, 2, 3, 0].into_iter().flat_map(|entry| [entry; 12]).collect();
    assert_eq!(found[..], expected);
}

#[test]
fn a_full_queue_holds_items_back_in_order() {
    let [one, mut other] = pair();
    let producer = Producer::new(one.connection.clone());
    let mut put = 0_u64;
    loop {
        let at = put % 1024 * 8;
        one.endpoint.write(at as usize, &(put * 3).to_le_bytes()).unwrap();
        match producer.put_timeout(put, at, 8, Duration::from_millis(50)) {
            Ok(()) => put += 1,
            Err(error) => {
                assert!(error.is_timed_out(), "{error}");
                break;
            }
        }
        assert!(put < 10_000, "nothing holds them back");
    }
    // More than the queue has room for; 64 of them must still be fetched from this end's memory.
    assert!(put > 16 + 64);
    for number in 0..put {
        let record = other.events.recv_timeout(LONG).unwrap();
        assert_eq!(record.operand(), number);
        assert_eq!(record.word(0), Some(number * 3));
    }
    assert!(other.events.try_recv().is_none());
    producer.put_timeout(put, 0, 8, LONG).unwrap();
    assert_eq!(other.events.recv_timeout(LONG).unwrap().operand(), put);
}

#[test]
fn only_most_urgent_entries_cause_events() {
    let [one, mut other] = pair();
    let mut backlog = Backlog::new(other.connection.clone(), PRIORITY, 4096).unwrap();
    let urgent = Urgent::new(one.connection.clone(), PRIORITY);
    let mut told = 0;
    for priority in [3, 2, 5, 5, 1, 9] {
        one.endpoint.write(0, &[priority as u8; 24]).unwrap();
        urgent.put(&one.endpoint, 0, priority).unwrap();
        told += u64::from(other.events.try_recv().is_some());
    }
    // 3, 5 and 9.
    assert_eq!(told, 3);
    let taken = backlog.take(&other.endpoint).unwrap();
    assert!(taken.iter().all(|(priority, data)| *data == [*priority as u8; 24]), "{taken:?}");
    let order: Vec<u64> = taken.into_iter().map(|(priority, _)| priority).collect();
    assert_eq!(order, [9, 5, 5, 3, 2, 1]);
    assert_eq!(urgent.put(&one.endpoint, 0, 0).unwrap_err().kind(), ErrorKind::Invalid);
    // The backlog is empty, so any entry causes an event.
    urgent.put(&one.endpoint, 0, 1).unwrap();
    assert!(other.events.try_recv().is_some());
    assert_eq!(backlog.take(&other.endpoint).unwrap().len(), 1);
    assert!(backlog.take(&other.endpoint).unwrap().is_empty());
}

#[test]
fn earlier_refusal_does_not_fail_a_later_question() {
    let [one, mut other] = pair();
    // A log that is full from the beginning.
    LOG.set(&other.connection, 1024, 12, 0).unwrap();
    let tell = || one.connection.try_send(&Operation::registers(0).tell(), 0..0).unwrap();
    // The other end's queue is full, and one record waits. It is followed by an append that is
    // refused, and by another record that waits for room.
    (0..17).for_each(|_| tell());
    Appender::new(one.connection.clone(), LOG, 12).append(0).unwrap();
    tell();
    let mut caller = Caller::new(one.connection.clone(), one.events, SCRATCH).with_timeout(PATIENCE);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            other.events.try_recv().unwrap();
            while one.connection.status().traps == 0 {
                std::thread::yield_now();
            }
            // Time for the caller to see the refusal.
            std::thread::sleep(MOMENT);
            other.events.try_recv().unwrap();
        });
        assert_eq!(caller.fetch(3, Step::Add, 5).unwrap(), (0, 5));
    });
    assert_eq!(one.connection.status().traps, 1);
    // A question that is refused itself fails, whatever was refused before.
    assert_eq!(caller.fetch(16, Step::Add, 5).unwrap_err().of(), Some(&Trap::Index));
}

#[test]
fn backlog_keeps_read_entries_when_the_rest_fails() {
    let [one, other] = pair();
    let mut backlog = Backlog::new(other.connection.clone(), PRIORITY, 4096).unwrap();
    let urgent = Urgent::new(one.connection.clone(), PRIORITY);
    [3, 4].into_iter().for_each(|priority| urgent.put(&one.endpoint, 0, priority).unwrap());
    // A peer that may put entries may also set the register.
    let tail = other.connection.register(1).unwrap();
    other.connection.set_register(1, LENGTH as u64 + 64).unwrap();
    assert!(matches!(backlog.take(&other.endpoint), Err(Error::PastEnd { .. })));
    other.connection.set_register(1, tail).unwrap();
    let priorities: Vec<u64> =
        backlog.take(&other.endpoint).unwrap().into_iter().map(|(priority, _)| priority).collect();
    assert_eq!(priorities, [4, 3]);
}
