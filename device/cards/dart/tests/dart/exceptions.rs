//! Exceptions reach the host with everything that its software needs to carry out the operation
//! (section 3).

use hamlyn_abi::dart::command::{
    DART_COMMAND_BREAK, DART_COMMAND_CLOSE_CONNECTION, DART_NO_QUEUE, DartBreak,
};
use hamlyn_abi::dart::connection::*;
use hamlyn_abi::dart::control::*;
use hamlyn_abi::dart::fifo::DART_FIFO_ARRIVED;
use hamlyn_abi::dart::queue::*;
use hamlyn_abi::dart::trap::*;
use zerocopy::IntoBytes;

use crate::support::*;

const LONGEST: u64 = DART_LONGEST as u64;
const LENGTH: u64 = 16 * PAGE;
/// An operation that no card has.
const UNKNOWN: u32 = 0x80;

/// Returns a host that sends to another, whose exceptions go to a queue of `records`. Also returns
/// the address of the queue.
fn excepting(records: u32) -> (Host, Host, u64) {
    let (mut one, mut other) = (Host::new(0), Host::new(1));
    one.endpoint(0, LENGTH);
    other.endpoint(0, LENGTH);
    let queue = other.queue_of(records, 1, 0);
    one.connection(1, 1, END);
    other.connection(1, 0, End { queues: [DART_NO_QUEUE, 1], ..END });
    one.write_virtual(0, &pattern(LENGTH));
    (one, other, queue)
}

#[test]
fn exceptions_carry_all_data_of_their_messages() {
    let (mut one, mut other, queue) = excepting(2048);
    for length in [1, 32, 33, 92, 93, 1000, LONGEST] {
        for (opcode, kind) in [
            (DART_MAIN_WRITE_MULTIPLE, DART_RECORD_TRAP + DART_TRAP_BOUNDS),
            (DART_MAIN_EXCEPTION | 0x12340, DART_RECORD_EXCEPTION),
            (UNKNOWN, DART_RECORD_TRAP + DART_TRAP_UNIMPLEMENTED),
        ] {
            one.send(1, control(opcode, LENGTH), 0, length);
            exchange(&mut one, &mut other);
            let found = other.take_exceptions(queue, 2048);
            assert_eq!(found.len(), 1, "{length} bytes of {opcode:#x}");
            let record = found[0].0;
            assert_eq!((record.kind, record.control), (kind, control(opcode, LENGTH)));
            let sent = pattern(length);
            match record.length {
                0 => assert_eq!(record.data.as_bytes()[..sent.len()], sent),
                _ => assert_eq!(data_of(&found[0]), sent),
            }
        }
    }
}

#[test]
fn exception_without_room_waits_and_comes_whole() {
    let (mut one, mut other, queue) = excepting(64);
    // Each takes 34 places.
    for _ in 0..3 {
        one.send(1, control(DART_MAIN_WRITE_MULTIPLE, LENGTH), 0, 2000);
        exchange(&mut one, &mut other);
    }
    assert_eq!((other.counter("traps_bounds"), other.counter("records")), (1, 1));
    for count in 2..=3 {
        let found = other.take_exceptions(queue, 64);
        assert_eq!(found.iter().map(data_of).collect::<Vec<_>>(), [pattern(2000)]);
        other.wait(1);
        assert_eq!((other.counter("traps_bounds"), other.counter("records")), (count, count));
    }
    assert_eq!(other.take_exceptions(queue, 64).iter().map(data_of).collect::<Vec<_>>(), [pattern(2000)]);
}

/// Does the same as `excepting`, with a queue of 64 records and a second connection to it.
fn two_excepting() -> (Host, Host, u64) {
    let (mut one, mut other, queue) = excepting(64);
    one.connection(2, 1, END);
    other.connection(2, 0, End { registers: (20, 2), queues: [DART_NO_QUEUE, 1], ..END });
    (one, other, queue)
}

/// Sends exceptions of these connections and lengths. Returns the receiver and its queue.
fn two_except(sent: &[(u32, u64)]) -> (Host, u64) {
    let (mut one, mut other, queue) = two_excepting();
    for (connection, length) in sent {
        one.send(*connection, control(UNKNOWN, 0), 0, *length);
        exchange(&mut one, &mut other);
    }
    (other, queue)
}

fn take_two(other: &mut Host, queue: u64) -> Vec<(u32, u32)> {
    let taken = other.take_exceptions(queue, 64);
    other.wait(1);
    while other.go_on() {}
    taken.iter().map(|(record, _)| (record.connection, record.length)).collect()
}

#[test]
fn short_exceptions_do_not_overtake_a_long_one() {
    // The second needs 34 places, and 30 are free.
    let (mut other, queue) = two_except(&[(1, 2000), (1, 2000), (2, 0), (2, 0), (1, 0), (2, 0)]);
    assert_eq!(take_two(&mut other, queue), [(1, 2000)]);
    assert_eq!(take_two(&mut other, queue), [(1, 2000), (2, 0), (1, 0), (2, 0), (2, 0)]);
}

/// The next connection gets the places at once: no time passes.
#[test]
fn connection_that_ends_gives_up_its_place() {
    let breaks = |other: &mut Host| {
        other.run(DART_COMMAND_BREAK, 1, &DartBreak { why: DART_BROKEN_GONE, reserved: 0 }).unwrap();
    };
    let closes = |other: &mut Host| other.run(DART_COMMAND_CLOSE_CONNECTION, 1, &0_u64).unwrap();
    for end in [&breaks as &dyn Fn(&mut Host), &closes] {
        let (mut other, queue) = two_except(&[(1, 2000), (1, 2000), (2, 0)]);
        end(&mut other);
        while other.go_on() {}
        assert_eq!(take_two(&mut other, queue), [(1, 2000), (2, 0)]);
    }
}

/// A message whose page is invalidated waits for that page, and no longer for places.
#[test]
fn connection_waiting_for_page_gives_up_its_place() {
    let (mut one, mut other, queue) = two_excepting();
    let absent = BASE / PAGE + 3;
    other.pages.remove(&absent);
    for (connection, opcode, operand, length) in
        [(1, UNKNOWN, 0, 2000), (2, DART_MAIN_WRITE_MULTIPLE, 3 * PAGE, 2000), (1, UNKNOWN, 0, 0)]
    {
        one.send(connection, control(opcode, operand), 0, length);
        exchange(&mut one, &mut other);
    }
    other.invalidate(absent, 1);
    // The connection with the first number looks once, before the other has given up its place.
    other.wait(1);
    while other.go_on() {}
    assert_eq!(take_two(&mut other, queue), [(1, 2000), (1, 0)]);
}

#[test]
fn exception_larger_than_its_queue_is_cut() {
    let (mut one, mut other, queue) = excepting(16);
    // As much as 15 places hold, and a byte more.
    for (length, cut) in [(32 + 15 * 60, 0), (32 + 15 * 60 + 1, DART_RECORD_CUT)] {
        one.send(1, control(DART_MAIN_WRITE_MULTIPLE, LENGTH), 0, length);
        exchange(&mut one, &mut other);
        let found = other.take_exceptions(queue, 16);
        let record = found[0].0;
        let kind = (DART_RECORD_TRAP + DART_TRAP_BOUNDS) | cut;
        assert_eq!((found.len(), record.kind, u64::from(record.length)), (1, kind, length));
        assert_eq!(record.data.as_bytes(), pattern(32));
        assert_eq!(found[0].1.is_empty(), cut != 0);
    }
}

#[test]
fn queue_data_is_never_mistaken_for_a_record() {
    let (mut one, mut other, queue) = excepting(16);
    // Each word looks like the number of the record that the queue will have in its next round.
    for round in 1..20_u32 {
        let data: Vec<u8> = (0..225).flat_map(|_| (round * 16 + 1).to_le_bytes()).collect();
        one.write_virtual(0, &data);
        one.send(1, control(DART_MAIN_WRITE_MULTIPLE, LENGTH), 0, data.len() as u64);
        exchange(&mut one, &mut other);
        let found = other.take_exceptions(queue, 16);
        assert_eq!(found.iter().map(data_of).collect::<Vec<_>>(), [data]);
    }
}

#[test]
fn trap_without_queue_interrupts_and_updates_state() {
    let (mut one, mut other, states) = pair(PAGE, END);
    let word = |host: &Host, place: u32| host.word(states[1] + u64::from(place));
    let cases = [
        (control(DART_MAIN_WRITE, PAGE), DART_TRAP_BOUNDS),
        (control(DART_MAIN_EXCEPTION | 8, 0), DART_TRAP_UNIMPLEMENTED),
    ];
    for (count, (control, trap)) in (1..).zip(cases) {
        other.found.clear();
        one.send(1, control, 0, 32);
        exchange(&mut one, &mut other);
        assert_eq!(other.found, [DART_FIFO_ARRIVED | 1]);
        assert_eq!((word(&other, DART_STATE_EXCEPTIONS), word(&other, DART_STATE_EXCEPTION)), (count, trap));
        assert_eq!(word(&other, DART_STATE_EXCEPTION_OPCODE), control.opcode);
    }
    // The end that sent them has had no exceptions.
    assert_eq!(one.word(states[0] + u64::from(DART_STATE_EXCEPTIONS)), 0);
    assert!(one.found.is_empty());
}

#[test]
fn software_completes_what_the_card_could_not() {
    let (mut one, mut other, queue) = excepting(2048);
    // A page that is not there, and a second one.
    let [first, second] = [1, 2].map(|page| BASE / PAGE + page);
    let frames = [first, second].map(|page| other.pages.remove(&page).unwrap());
    let from = PAGE - BASE % PAGE + 100;
    one.send(1, control(DART_MAIN_WRITE_MULTIPLE, from), 0, 5000);
    exchange(&mut one, &mut other);
    let found = other.take_exceptions(queue, 2048);
    let record = found[0].0;
    assert_eq!((found.len(), record.kind), (1, DART_RECORD_TRAP + DART_TRAP_NO_MEMORY));
    // The software provides the memory, and carries out the message.
    other.pages.extend([(first, frames[0]), (second, frames[1])]);
    other.write_virtual(record.control.operand, &data_of(&found[0]));
    assert_eq!(other.read_virtual(from, 5000), pattern(5000));
}
