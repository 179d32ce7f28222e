//! Event queues.

use hamlyn_abi::clan::aperture::*;
use hamlyn_abi::clan::command::*;
use hamlyn_abi::clan::dma::*;
use hamlyn_abi::clan::event::*;
use hamlyn_abi::clan::fifo::CLAN_FIFO_EVENTS;
use hamlyn_abi::clan::registers::*;
use hamlyn_abi::clan::tripwire::*;
use hamlyn_abi::family::command::*;

use crate::support::*;

const ALL: u32 = CLAN_TRIPWIRE_ENABLE | CLAN_TRIPWIRE_WRITES | ACTIONS;

/// The pair, and at the second an endpoint whose events go to a queue: the hosts, and where the endpoint's and the queue's memory is.
fn queued() -> (Host, Host, u64, u64) {
    let (one, mut other, ..) = pair(CLAN_APERTURE_WRITE);
    let queue = other.events(4);
    let memory = other.endpoint(1, 4);
    (one, other, memory, queue)
}

fn kinds(events: &[ClanEvent]) -> Vec<(u32, u32, u32)> {
    events.iter().map(|event| (event.kind, event.endpoint, event.detail)).collect()
}

#[test]
fn a_source_has_one_record_until_that_is_taken() {
    let (mut one, mut other, memory, queue) = queued();
    other.set((1, 3), (0, 8), 3, ALL, memory);
    other.set((1, 4), (8, 8), 3, ALL, memory);
    for _ in 0..40 {
        for offset in [0, 0, 8] {
            one.store(WINDOW + offset, 8, 1);
            exchange(&mut one, &mut other);
        }
        let tripwire = |number| (CLAN_EVENT_TRIPWIRE, 1, number);
        assert_eq!(kinds(&other.take_events(queue)), [tripwire(3), tripwire(4)]);
    }
    assert_eq!((other.counter("events"), other.counter("events_coalesced")), (80, 40));
    assert_eq!(other.fired(memory, 3), 80);
}

#[test]
fn messages_requests_and_faults_are_events() {
    let (_, mut other, memory, queue) = queued();
    other.write_register(CLAN_REG_POST, 4, 1);
    other.request(1, memory, 0, ClanRequest { flags: CLAN_DMA_NOTIFY, ..ClanRequest::default() });
    other.sent();
    other.window(1, (9, 9), 8, 1);
    other.store(PAGE + 8, 8, 1);
    let events = other.take_events(queue);
    assert_eq!(
        kinds(&events),
        [(CLAN_EVENT_MESSAGE, 1, 0), (CLAN_EVENT_DMA, 1, 0), (CLAN_EVENT_FAULT, 1, 0)]
    );
}

#[test]
fn who_sleeps_on_a_queue_is_woken() {
    let (_, mut other, _, queue) = queued();
    let fifo = other.fifo();
    other.write_register(CLAN_REG_ARM_EVENTS, 8, 4);
    assert_eq!(other.raised(), [0_u16; 0]);
    other.write_register(CLAN_REG_POST, 4, 1);
    assert_eq!((other.raised(), other.word(fifo)), (vec![1], CLAN_FIFO_EVENTS | 4));
    other.write_register(CLAN_REG_FIFO_TAKEN, 4, 1);
    // There is one more than he says.
    other.write_register(CLAN_REG_ARM_EVENTS, 8, 4);
    assert_eq!(other.raised(), [1]);
    other.write_register(CLAN_REG_FIFO_TAKEN, 4, 2);
    other.take_events(queue);
    other.write_register(CLAN_REG_ARM_EVENTS, 8, 4 | 1 << 32);
    assert_eq!(other.raised(), [0_u16; 0]);
}

#[test]
fn a_queue_has_a_record_for_each_source_and_takes_no_more() {
    let (_, mut other, ..) = queued();
    let set = |other: &mut Host, events| {
        let body = ClanSetEvents { events, reserved: 0 };
        other.run(CLAN_COMMAND_SET_EVENTS, 6, &body).map_err(|refusal| refusal.status)
    };
    // Eleven sources of sixteen are taken.
    let memory = other.endpoint(6, CLAN_NO_EVENTS);
    assert_eq!(set(&mut other, 4), Err(HAMLYN_STATUS_BAD_LENGTH));
    assert_eq!(set(&mut other, 5), Err(HAMLYN_STATUS_NOT_OPEN));
    let second = other.events(5);
    assert_eq!(set(&mut other, 5), Ok(()));
    assert_eq!(other.set((6, 0), (0, 8), 3, ALL, memory), CLAN_TRIPWIRE_OK);
    other.run(CLAN_COMMAND_CLOSE_EVENTS, 5, &[0_u64]).unwrap();
    let before = other.bytes(second, 8192);
    other.write_register(CLAN_REG_POST, 4, 6);
    assert!(other.bytes(second, 8192) == before);
}

#[test]
fn what_finds_no_room_comes_when_there_is_some() {
    let (_, mut other, _, queue) = queued();
    // Records of an endpoint that has moved away lie there still.
    other.write_register(CLAN_REG_POST, 4, 1);
    for round in 0..20 {
        let to = |events| ClanSetEvents { events, reserved: 0 };
        other.run(CLAN_COMMAND_SET_EVENTS, 1, &to(CLAN_NO_EVENTS)).unwrap();
        other.run(CLAN_COMMAND_SET_EVENTS, 1, &to(4)).unwrap();
        other.write_register(CLAN_REG_POST, 4, 1);
        assert_eq!(other.counter("events"), (round + 2).min(16));
    }
    assert_eq!(other.take_events(queue).len(), 16);
    other.fifo();
    other.write_register(CLAN_REG_ARM_EVENTS, 8, 4 | 16 << 32);
    assert_eq!((other.raised(), other.take_events(queue).len()), (vec![1], 1));
}
