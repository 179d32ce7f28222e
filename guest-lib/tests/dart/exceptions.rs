//! Software executes what its card cannot, from the records of its exception queue.

use std::sync::Arc;
use std::time::Duration;

use hamlyn::dart::*;

use crate::{End, LENGTH, connect, end, net, pair};

const PATIENCE: Duration = Duration::from_secs(60);
/// The number of the operation that the software executes.
const INVERT: u32 = 7;
const DATA: usize = 5000;

/// Creates two ends. The second has an exception queue of `records`.
fn excepting(records: u32) -> (End, End, Queue) {
    let cards = net::cards(2);
    let (one, other) = (end(&cards[0], 1), end(&cards[1], 0));
    let exceptions = cards[1].queue(records, Urgency::Immediate).unwrap();
    let builder = cards[1].connection(&other.endpoint, &other.bank).exceptions(&exceptions);
    let other = End { connection: Arc::new(builder.open(0).unwrap()), ..other };
    connect(&one.connection, &other.connection);
    (one, other, exceptions)
}

fn pattern() -> Vec<u8> {
    (0..DATA).map(|at| (at * 7 / 3) as u8).collect()
}

#[test]
fn software_executes_a_long_operation_of_its_own() {
    let (one, other, mut exceptions) = excepting(2048);
    one.endpoint.write(0, &pattern()).unwrap();
    one.connection.try_send(&Operation::exception(INVERT, 512), 0..DATA as u64).unwrap();
    let record = exceptions.recv_timeout(PATIENCE).unwrap();
    assert_eq!((record.what, record.operation), (What::Exception, Operation::exception(INVERT, 512)));
    let inverted: Vec<u8> = exceptions.data().iter().map(|byte| !byte).collect();
    other.endpoint.write(record.operand() as usize, &inverted).unwrap();
    let mut found = vec![0; DATA];
    other.endpoint.read(512, &mut found).unwrap();
    assert_eq!(found, pattern().iter().map(|byte| !byte).collect::<Vec<_>>());
}

#[test]
fn software_executes_an_operation_that_trapped() {
    let (one, other, mut exceptions) = excepting(2048);
    one.endpoint.write(0, &pattern()).unwrap();
    // Past the end of the endpoint's memory: the software continues at the beginning.
    let from = LENGTH - 1000;
    one.connection.try_send(&Operation::write_multiple(from as u64), 0..DATA as u64).unwrap();
    let record = exceptions.recv_timeout(PATIENCE).unwrap();
    assert_eq!((record.what, record.is_cut), (What::Trap(Some(Trap::Bounds)), false));
    for (at, byte) in (record.operand() as usize..).zip(exceptions.data()) {
        other.endpoint.write(at % LENGTH, &[*byte]).unwrap();
    }
    let mut found = vec![0; DATA];
    other.endpoint.read(from, &mut found[..1000]).unwrap();
    other.endpoint.read(0, &mut found[1000..]).unwrap();
    assert_eq!(found, pattern());
}

#[test]
fn exceptions_of_all_lengths_follow_each_other() {
    let (one, _other, mut exceptions) = excepting(64);
    one.endpoint.write(0, &pattern()).unwrap();
    for length in (0..3000).step_by(37) {
        one.connection.try_send(&Operation::exception(INVERT, 0), 0..length).unwrap();
        let record = exceptions.recv_timeout(PATIENCE).unwrap();
        let data = exceptions.data();
        // Data that fits into a cell is padded with zeros to a whole cell.
        assert_eq!(u64::from(record.length), if length > 32 { length } else { 0 });
        assert_eq!(data.len() as u64, length.max(32));
        assert_eq!(data[..length as usize], pattern()[..length as usize]);
    }
}

#[test]
fn exception_without_room_for_data_is_cut() {
    let (one, _other, mut exceptions) = excepting(16);
    one.endpoint.write(0, &pattern()).unwrap();
    one.connection.try_send(&Operation::exception(INVERT, 0), 0..DATA as u64).unwrap();
    let record = exceptions.recv_timeout(PATIENCE).unwrap();
    assert_eq!((record.what, record.is_cut, record.length), (What::Exception, true, DATA as u32));
    assert_eq!(exceptions.data(), &pattern()[..32]);
}

#[test]
fn end_without_a_queue_learns_of_traps() {
    let [one, other] = pair();
    assert_eq!((other.connection.status().exceptions, other.connection.status().exception), (0, None));
    let outside = Operation::write(LENGTH as u64);
    one.connection.try_send(&outside, 0..8).unwrap();
    assert_eq!(other.connection.wait_for_exception_timeout(0, PATIENCE).unwrap(), 1);
    let status = other.connection.status();
    assert_eq!(status.exception, Some((Trap::Bounds, outside.control().opcode)));
    let waited = other.connection.wait_for_exception_timeout(1, Duration::from_millis(20));
    assert!(waited.unwrap_err().is_timed_out());
}
