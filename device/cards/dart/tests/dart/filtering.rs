//! Notifications: which messages are reported to a host, and how.

use hamlyn_abi::dart::command::*;
use hamlyn_abi::dart::connection::*;
use hamlyn_abi::dart::control::*;
use hamlyn_abi::dart::fifo::DART_FIFO_QUEUE;
use hamlyn_abi::dart::queue::*;
use hamlyn_abi::dart::registers::DART_REG_ARM;
use hamlyn_abi::dart::trap::DART_TRAP_UNIMPLEMENTED;
use hamlyn_card::card::Card;

use crate::support::*;

const TELLS: u32 = DART_MAIN_NONE | DART_COMPARE_EQUAL << DART_COMPARE_SHIFT;

/// Returns a host that sends to another, which has a delayed queue and an immediate one. Also
/// returns the addresses of the queues.
fn told(events: u32) -> (Host, Host, [u64; 2]) {
    let (mut one, mut other) = (Host::new(0), Host::new(1));
    one.endpoint(0, PAGE);
    other.endpoint(0, PAGE);
    let queues = [other.queue(0, 0), other.queue(1, DART_QUEUE_IMMEDIATE)];
    one.connection(1, 1, END);
    other.connection(1, 0, End { queues: [events, 1], ..END });
    (one, other, queues)
}

#[test]
fn event_is_queued_and_immediate_queue_interrupts() {
    for (queue, found) in [(0, Vec::new()), (1, vec![DART_FIFO_QUEUE | 1])] {
        let (mut one, mut other, queues) = told(queue);
        one.write_virtual(0, &pattern(32));
        for operand in [1, 0] {
            one.send(1, control(TELLS, operand), 0, 32);
        }
        exchange(&mut one, &mut other);
        let records = other.take_records(queues[queue as usize]);
        assert_eq!(records.len(), 1, "only one comparison holds");
        let record = records[0];
        assert_eq!(
            (record.kind, record.connection, record.control),
            (DART_RECORD_COMPARED, 1, control(TELLS, 0))
        );
        assert_eq!(zerocopy::IntoBytes::as_bytes(&record.data), pattern(32));
        assert_eq!(other.found, found);
    }
}

#[test]
fn sleeper_on_delayed_queue_is_woken_once() {
    let (mut one, mut other, queues) = told(0);
    let arm = |host: &mut Host, taken: u64| {
        host.with(|card, ports, _| card.register_write(ports, 0, DART_REG_ARM.into(), 8, taken << 32));
        host.serve();
    };
    arm(&mut other, 0);
    assert!(other.found.is_empty());
    for _ in 0..3 {
        one.send(1, control(TELLS, 0), 0, 0);
        exchange(&mut one, &mut other);
    }
    assert_eq!(other.found, [DART_FIFO_QUEUE]);
    // A sleeper that has not seen all records is woken at once, even if it misses only the last
    // one.
    for (taken, told) in [(1, 2), (2, 3), (3, 3)] {
        arm(&mut other, taken);
        assert_eq!(other.found.len(), told, "{taken} taken");
    }
    assert_eq!(other.take_records(queues[0]).len(), 3);
}

#[test]
fn software_exception_is_only_reported_to_software() {
    let (mut one, mut other, queues) = told(0);
    let mine = DART_MAIN_EXCEPTION | 0xffff_fff8;
    one.send(1, control(mine, 77), 0, 0);
    exchange(&mut one, &mut other);
    let records = other.take_records(queues[1]);
    assert_eq!(
        (records.len(), records[0].kind, records[0].control),
        (1, DART_RECORD_EXCEPTION, control(mine, 77))
    );
    assert_eq!((other.found.clone(), other.counter("exceptions")), (vec![DART_FIFO_QUEUE | 1], 1));
}

#[test]
fn unwanted_software_exception_is_reported_to_sender() {
    let (mut one, mut other, [state, _]) = pair(0x2000, END);
    let mine = DART_MAIN_EXCEPTION | 8;
    one.send(1, control(mine, 77), 0, 0);
    exchange(&mut one, &mut other);
    let word = |place: u32| one.word(state + u64::from(place));
    assert_eq!((word(DART_STATE_TRAPS), word(DART_STATE_TRAP)), (1, DART_TRAP_UNIMPLEMENTED));
    assert_eq!(word(DART_STATE_TRAP_OPCODE), mine);
    assert_eq!((other.counter("exceptions"), other.counter("traps_unimplemented")), (0, 1));
}

#[test]
fn message_for_full_queue_waits_and_executes_once() {
    let (mut one, mut other, queues) = told(0);
    let counts = TELLS | step(DART_FIRST_SHIFT, DART_OP_INCREMENT, 0, DART_TARGET_J);
    for _ in 0..20 {
        one.send(1, control(counts, 0), 0, 0);
        exchange(&mut one, &mut other);
    }
    assert_eq!((other.register(1, 1), other.counter("records")), (16, 16));
    // Other connections continue.
    other.connection(2, 0, END);
    one.connection(2, 1, END);
    one.send(2, control(DART_MAIN_NONE | step(DART_FIRST_SHIFT, DART_OP_INCREMENT, 0, 0), 0), 0, 0);
    exchange(&mut one, &mut other);
    assert_eq!(other.register(2, 0), 1);
    other.set_register(2, 0, 0);
    assert_eq!(other.take_records(queues[0]).len(), 16);
    other.wait(1);
    exchange(&mut one, &mut other);
    assert_eq!((other.take_records(queues[0]).len(), other.register(1, 1)), (4, 20));
}

#[test]
fn closed_queue_holds_up_no_message() {
    let (mut one, mut other, _) = told(0);
    for _ in 0..20 {
        one.send(1, control(TELLS | step(DART_FIRST_SHIFT, DART_OP_INCREMENT, 0, DART_TARGET_J), 0), 0, 0);
        exchange(&mut one, &mut other);
    }
    other.run(DART_COMMAND_CLOSE_QUEUE, 0, &0_u64).unwrap();
    exchange(&mut one, &mut other);
    assert_eq!(other.register(1, 1), 20);
}

#[test]
fn trap_does_not_wait_for_event_queue_space() {
    let (mut one, mut other, queues) = told(0);
    let tells = DART_COMPARE_ALWAYS << DART_COMPARE_SHIFT;
    for _ in 0..16 {
        one.send(1, control(DART_MAIN_NONE | tells, 0), 0, 0);
        exchange(&mut one, &mut other);
    }
    for operand in [1, PAGE] {
        one.send(1, control(DART_MAIN_WRITE | tells, operand), 0, 32);
        exchange(&mut one, &mut other);
    }
    assert_eq!((other.counter("traps_misaligned"), other.counter("traps_bounds")), (1, 1));
    assert_eq!((other.take_records(queues[1]).len(), other.counter("queue_waits")), (2, 0));
    // A message that makes its event waits for the place, and has its pages by then.
    one.send(1, control(DART_MAIN_WRITE | tells, 0), 0, 32);
    exchange(&mut one, &mut other);
    assert_eq!((other.counter("queue_waits") > 0, other.counter("executed")), (true, 16));
    other.take_records(queues[0]);
    other.wait(1);
    assert_eq!((other.counter("executed"), other.take_records(queues[0]).len()), (17, 1));
}
