//! Event queues.

use hamlyn_abi::clan::aperture::*;
use hamlyn_abi::clan::command::*;
use hamlyn_abi::clan::dma::*;
use hamlyn_abi::clan::endpoint::*;
use hamlyn_abi::clan::event::*;
use hamlyn_abi::clan::fifo::CLAN_FIFO_EVENTS;
use hamlyn_abi::clan::registers::*;
use hamlyn_abi::clan::tripwire::*;
use hamlyn_abi::family::command::*;

use crate::support::*;

const ALL: u32 = CLAN_TRIPWIRE_ENABLE | CLAN_TRIPWIRE_WRITES | ACTIONS;

/// Returns a pair of hosts. The second has an endpoint whose events go to a queue. Also returns the
/// addresses of the endpoint's and the queue's memory.
fn queued() -> (Host, Host, u64, u64) {
    let (one, mut other, ..) = pair(CLAN_APERTURE_WRITE);
    let queue = other.events(4);
    let memory = other.endpoint(1, 4);
    (one, other, memory, queue)
}

fn kinds(events: &[ClanEvent]) -> Vec<(u32, u32, u32)> {
    events.iter().map(|event| (event.kind, event.endpoint, event.detail)).collect()
}

/// Directs the events of an endpoint to a queue, or to none.
fn set_events(host: &mut Host, endpoint: u32, events: u32) -> Result<(), u32> {
    let body = ClanSetEvents { events, reserved: 0 };
    host.run(CLAN_COMMAND_SET_EVENTS, endpoint, &body).map_err(|refusal| refusal.status)
}

#[test]
fn source_has_one_record_until_it_is_taken() {
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
fn sleeper_on_a_queue_is_woken() {
    let (_, mut other, _, queue) = queued();
    let fifo = other.fifo();
    other.write_register(CLAN_REG_ARM_EVENTS, 8, 4);
    assert_eq!(other.raised(), [0_u16; 0]);
    other.write_register(CLAN_REG_POST, 4, 1);
    assert_eq!((other.raised(), other.word(fifo)), (vec![1], CLAN_FIFO_EVENTS | 4));
    other.write_register(CLAN_REG_FIFO_TAKEN, 4, 1);
    // There is one record more than the driver reports as taken.
    other.write_register(CLAN_REG_ARM_EVENTS, 8, 4);
    assert_eq!(other.raised(), [1]);
    other.write_register(CLAN_REG_FIFO_TAKEN, 4, 2);
    other.take_events(queue);
    other.write_register(CLAN_REG_ARM_EVENTS, 8, 4 | 1 << 32);
    assert_eq!(other.raised(), [0_u16; 0]);
}

#[test]
fn queue_without_room_refuses_endpoints() {
    let (_, mut other, ..) = queued();
    // Eleven sources take eleven of the sixteen records.
    let memory = other.endpoint(6, CLAN_NO_EVENTS);
    assert_eq!(set_events(&mut other, 6, 4), Err(ULN_STATUS_BAD_LENGTH));
    assert_eq!(set_events(&mut other, 6, 5), Err(ULN_STATUS_NOT_OPEN));
    let second = other.events(5);
    assert_eq!(set_events(&mut other, 6, 5), Ok(()));
    assert_eq!(other.set((6, 0), (0, 8), 3, ALL, memory), CLAN_TRIPWIRE_OK);
    other.run(CLAN_COMMAND_CLOSE_EVENTS, 5, &[0_u64]).unwrap();
    let before = other.bytes(second, 8192);
    other.write_register(CLAN_REG_POST, 4, 6);
    assert!(other.bytes(second, 8192) == before);
}

#[test]
fn returning_endpoint_gets_no_second_record() {
    let (_, mut other, _, queue) = queued();
    for round in 0..40 {
        other.write_register(CLAN_REG_POST, 4, 1);
        assert_eq!(set_events(&mut other, 1, CLAN_NO_EVENTS), Ok(()));
        assert_eq!(set_events(&mut other, 1, 4), Ok(()));
        assert_eq!(other.counter("events"), 1, "round {round}");
    }
    assert_eq!(kinds(&other.take_events(queue)), [(CLAN_EVENT_MESSAGE, 1, 0)]);
    other.write_register(CLAN_REG_POST, 4, 1);
    assert_eq!(other.take_events(queue).len(), 1);
}

#[test]
fn records_left_behind_count_until_taken() {
    let (_, mut other, memory, queue) = queued();
    // Six of the endpoint's records stay when it leaves. Ten of sixteen are then left, and the
    // other endpoint has eleven sources.
    for number in 0..6 {
        other.set((1, number), (0, 8), 3, ALL, memory);
    }
    let (mut one, window) = (Host::new(0), PAGE);
    one.endpoint(2, CLAN_NO_EVENTS);
    one.window(1, (1, 3), PAGE, 2);
    one.store(window, 8, 1);
    exchange(&mut one, &mut other);
    assert_eq!(other.counter("events"), 6);
    assert_eq!(set_events(&mut other, 1, CLAN_NO_EVENTS), Ok(()));
    other.endpoint(6, CLAN_NO_EVENTS);
    assert_eq!(set_events(&mut other, 6, 4), Err(ULN_STATUS_IN_USE));
    // The endpoint may return to the queue that holds its own records.
    assert_eq!(set_events(&mut other, 1, 4), Ok(()));
    assert_eq!(set_events(&mut other, 1, CLAN_NO_EVENTS), Ok(()));
    other.put_word(queue, 1);
    assert_eq!(set_events(&mut other, 6, 4), Ok(()));
}

#[test]
fn invalid_taken_count_takes_all_records() {
    let (_, mut other, _, queue) = queued();
    for (taken, events) in [(0, 1), (1, 2), (2, 3), (77, 4), (2, 5), (u32::MAX, 6)] {
        other.put_word(queue, taken);
        other.write_register(CLAN_REG_POST, 4, 1);
        assert_eq!(other.counter("events"), events, "{taken}");
    }
}

#[test]
fn refused_endpoint_leaves_its_memory_unchanged() {
    let (_, mut other, ..) = queued();
    let length = u64::from(CLAN_STATE_SIZE + REQUESTS * CLAN_REQUEST_SIZE);
    let (memory, _) = other.area(length, 0);
    let body = ClanOpenEndpoint {
        memory,
        owner: OWNER,
        tripwires: 8,
        requests: REQUESTS,
        events: 4,
        ..Default::default()
    };
    let before = other.everything();
    let refused = other.run(CLAN_COMMAND_OPEN_ENDPOINT, 6, &body).unwrap_err();
    assert_eq!(refused.status, ULN_STATUS_BAD_LENGTH);
    let after = other.everything();
    let changed = (0..).zip(before.iter().zip(&after)).filter(|(_, (was, is))| was != is);
    // Only the command page has changed.
    let pages: std::collections::BTreeSet<u64> = changed.map(|(at, _)| at / PAGE).collect();
    assert!(pages.len() <= 1, "{pages:?}");
    // The refused endpoint takes no resources either.
    other.endpoint(6, CLAN_NO_EVENTS);
}

#[test]
fn unwanted_event_comes_when_it_is_wanted() {
    let mut one = Host::new(0);
    let queue = one.events(4);
    let memory = one.endpoint(2, 4);
    let kinds = |one: &Host| one.take_events(queue).iter().map(|event| event.kind).collect::<Vec<_>>();
    one.tell(2, CLAN_ENDPOINT_INTEREST, 4, CLAN_INTERESTED_IN_DMA.into());
    one.write_register(CLAN_REG_POST, 4, 2);
    one.write_register(CLAN_REG_POST, 4, u64::from(CLAN_POST_DMA | 2));
    assert_eq!(kinds(&one), [CLAN_EVENT_DMA]);
    assert_ne!(one.bits(memory) & 1 << CLAN_BIT_MESSAGE, 0);
    let both = CLAN_INTERESTED_IN_MESSAGES | CLAN_INTERESTED_IN_FAULTS;
    one.tell(2, CLAN_ENDPOINT_INTEREST, 4, both.into());
    assert_eq!(kinds(&one), [CLAN_EVENT_MESSAGE]);
    one.tell(2, CLAN_ENDPOINT_INTEREST, 4, both.into());
    assert_eq!(kinds(&one), [0_u32; 0]);
}
