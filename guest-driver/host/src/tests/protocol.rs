//! The guarantees of the protocol, one by one.

use hamlyn_abi::kernel::wire::ULN_WIRE_ACCEPT;

use super::*;

#[test]
fn close_delivers_private_data_to_peer() {
    let mut two = Two::new();
    let [asked, taken] = two.connect();
    two.sides[0].close(asked, b"bye").unwrap();
    two.carry();
    assert_eq!(two.sides[1].state(taken), (ULN_CONNECTION_ENDED, ULN_END_CLOSED, 0, b"bye".to_vec()));
    assert_eq!(two.sides[1].close(taken, b""), Err(Errno::NOTCONN));
    two.sides[0].release(asked);
    two.sides[1].release(taken);
    two.check_baseline();
}

#[test]
fn release_without_close_is_death() {
    let mut two = Two::new();
    let [asked, taken] = two.connect();
    two.sides[1].release(taken);
    two.carry();
    assert_eq!(two.reason(0, asked), ULN_END_DIED);
    two.sides[0].release(asked);
    two.check_baseline();
}

#[test]
fn only_named_listener_is_woken() {
    let mut two = Two::new();
    two.connect();
    two.sides[1].system.take_woken();
    let [_, wanted] = [&b"other"[..], b"name"].map(|name| two.sides[1].listen(name, 1).unwrap());
    two.sides[0].request(1, b"name", b"").unwrap();
    two.sides[0].request(1, b"absent", b"").unwrap();
    two.collect();
    while !two.flying.is_empty() {
        let message = two.flying.remove(0);
        two.deliver(message);
    }
    assert_eq!(two.sides[1].system.take_woken(), [wanted]);
}

#[test]
fn message_in_wrong_place_is_ignored() {
    let mut two = Two::new();
    two.connect();
    let listener = two.sides[1].listen(b"name", 2).unwrap();
    for said in [b"first", b"later"] {
        two.sides[0].request(1, b"name", said).unwrap();
    }
    two.collect();
    let [(_, first), (_, later)] = &mut two.flying[..] else { panic!("not two requests") };
    std::mem::swap(&mut first.entry, &mut later.entry);
    two.carry();
    assert_eq!(two.sides[1].system.waiting(listener), Some(0));
    // They are sent again, this time in the right places.
    two.pass(2 * TICK, true);
    for said in [b"first", b"later"] {
        let number = two.sides[1].claim(listener).unwrap().unwrap();
        assert_eq!(two.sides[1].state(number).3, said);
    }
}

#[test]
fn requests_are_refused_for_a_reason() {
    let mut two = Two::new();
    let unknown = two.sides[0].request(1, b"absent", b"").unwrap();
    let listener = two.sides[1].listen(b"name", 1).unwrap();
    assert_eq!(two.sides[1].listen(b"name", 1), Err(Errno::ADDRINUSE));
    let first = two.sides[0].request(1, b"name", b"").unwrap();
    let second = two.sides[0].request(1, b"name", b"").unwrap();
    two.carry();
    assert_eq!(two.reason(0, unknown), ULN_END_NO_NAME);
    assert_eq!(two.reason(0, second), ULN_END_BACKLOG);
    let taken = two.sides[1].claim(listener).unwrap().unwrap();
    two.sides[1].answer(taken, false, b"no").unwrap();
    two.carry();
    assert_eq!(two.sides[0].state(first), (ULN_CONNECTION_ENDED, ULN_END_REJECTED, 1, b"no".to_vec()));
    let third = two.sides[0].request(1, b"name", b"").unwrap();
    two.carry();
    two.sides[1].unlisten(listener);
    two.carry();
    assert_eq!(two.reason(0, third), ULN_END_NO_NAME);
    [unknown, first, second, third].into_iter().for_each(|number| two.sides[0].release(number));
    two.sides[1].release(taken);
    two.check_baseline();
}

#[test]
fn abandoned_request_is_removed_from_listener() {
    let mut two = Two::new();
    let listener = two.sides[1].listen(b"name", 1).unwrap();
    let asked = two.sides[0].request(1, b"name", b"").unwrap();
    two.carry();
    two.sides[0].release(asked);
    two.carry();
    assert_eq!(two.sides[1].claim(listener), Ok(None));
    two.sides[1].unlisten(listener);
    two.check_baseline();
}

#[test]
fn lost_message_is_sent_again() {
    let mut two = Two::new();
    let asked = two.sides[0].request(1, b"absent", b"").unwrap();
    two.pass(1000, false);
    two.pass(1000, true);
    assert_eq!(two.reason(0, asked), ULN_END_NO_NAME);
    two.sides[0].release(asked);
    two.check_baseline();
}

#[test]
fn silent_host_is_given_up() {
    let mut two = Two::new();
    let [asked, taken] = two.connect();
    // As long as there are signs of life, it goes on forever.
    two.pass(3 * TIMEOUT, true);
    assert_eq!([two.reason(0, asked), two.reason(1, taken)], [0; 2]);
    two.pass(TIMEOUT - 250, false);
    assert_eq!(two.reason(0, asked), 0);
    two.pass(1500, false);
    assert_eq!([two.reason(0, asked), two.reason(1, taken)], [ULN_END_HOST_LOST; 2]);
    two.sides[0].release(asked);
    two.sides[1].release(taken);
    two.check_baseline();
    assert_eq!(two.sides[0].system.due(), None, "no host is left to be watched");
}

#[test]
fn standstills_delay_only_detection_of_dead_host() {
    let mut two = Two::new();
    let [asked, _] = two.connect();
    // In each round host 0 stands still for a long time, and then runs for about a second.
    let mut round = || {
        two.now += 3 * TIMEOUT / 4;
        two.pass(1000, false);
        two.reason(0, asked)
    };
    // The time in which it stood still is not counted.
    assert_eq!([round(), round(), round()], [0; 3]);
    // The rest is.
    assert!((3..12).any(|_| round() == ULN_END_HOST_LOST), "standstills hide that a host is dead");
}

#[test]
fn restarted_host_resets_connections() {
    let mut two = Two::new();
    let [asked, taken] = two.connect();
    two.sides[1].stop();
    assert_eq!(two.reason(1, taken), ULN_END_CARD_RESET);
    two.sides[1].open();
    two.pass(TIMEOUT / 4, true);
    assert_eq!(two.reason(0, asked), ULN_END_HOST_RESET);
}

#[test]
fn link_bounce_between_checks_is_detected() {
    let mut two = Two::new();
    let [asked, taken] = two.connect();
    two.sides[0].link_is(Some(0), 1);
    assert_eq!(two.reason(0, asked), 0);
    two.sides[0].link_is(Some(0), 3);
    assert_eq!(two.reason(0, asked), ULN_END_LINK_LOST);
    two.pass(TIMEOUT / 4, true);
    assert_eq!(two.reason(1, taken), ULN_END_HOST_RESET);
}

#[test]
fn unseen_link_bounce_ends_connections() {
    let mut two = Two::new();
    two.sides[1].link_is(None, 2);
    // The link has come up, and the host has not checked it: what arrives is accepted nevertheless.
    let [asked, taken] = two.connect();
    // The link goes down and up once more before the next check.
    two.sides[1].link_is(Some(1), 5);
    assert_eq!(two.reason(1, taken), ULN_END_LINK_LOST);
    two.pass(TIMEOUT / 4, true);
    assert_eq!(two.reason(0, asked), ULN_END_HOST_RESET);
    // A link that has only come up has lost nothing.
    two.sides[1].link_is(None, 6);
    let [_, taken] = two.connect();
    two.sides[1].link_is(Some(1), 7);
    assert_eq!(two.reason(1, taken), 0);
}

#[test]
fn delayed_message_of_earlier_incarnation_is_stale() {
    let mut two = Two::new();
    let [asked, taken] = two.connect();
    // A probe of host 1 is delayed in flight.
    two.sides[1].time_is(TIMEOUT / 8);
    two.collect();
    let slow = two.flying.pop().unwrap();
    two.flying.clear();
    two.sides[1].lost(ULN_END_LAPSED);
    two.sides[1].release(taken);
    two.pass(TIMEOUT / 4, true);
    assert_eq!(two.reason(0, asked), ULN_END_HOST_RESET);
    two.sides[0].release(asked);
    let [again, _] = two.connect();
    two.deliver(slow);
    two.carry();
    assert_eq!(two.reason(0, again), 0, "the new connection does not end for it");
}

#[test]
fn later_incarnation_ignores_message_to_unknown_incarnation() {
    let mut two = Two::new();
    // Host 0 has no state of host 1 yet; its request is sent twice, and one copy is delayed.
    let asked = two.sides[0].request(1, b"absent", b"").unwrap();
    two.collect();
    let slow = two.flying[0].clone();
    two.carry();
    assert_eq!(two.reason(0, asked), ULN_END_NO_NAME);
    two.sides[1].lost(ULN_END_LAPSED);
    two.deliver(slow);
    two.carry();
    // If it had been accepted, host 1 would take the next request with that number for a duplicate.
    let next = two.sides[0].request(1, b"absent", b"").unwrap();
    two.pass(TIMEOUT / 4, true);
    assert_eq!(two.reason(0, next), ULN_END_NO_NAME);
}

#[test]
fn invalid_messages_are_ignored() {
    let mut two = Two::new();
    let [asked, taken] = two.connect();
    two.sides[1].close(taken, b"").unwrap();
    two.collect();
    let (_, Sent { entry, wire, data, .. }) = two.flying.pop().unwrap();
    let wrong = [
        UlnWire { from: wire.from + 1, ..wire },
        UlnWire { to: wire.to + 1, ..wire },
        UlnWire { kind: ULN_WIRE_ACCEPT, ..wire },
        UlnWire { kind: 99, ..wire },
        UlnWire { private_length: 257, ..wire },
        UlnWire { name_length: u32::MAX, ..wire },
        UlnWire { incarnation: 0, ..wire },
    ];
    for (number, wrong) in (0..).zip(wrong) {
        // Each has the next sequence number.
        let sequence = wire.sequence + number;
        two.sides[0].arrived(1, sequence % PLACES, UlnWire { sequence, ..wrong }, vec![0; 512]);
        assert_eq!(two.reason(0, asked), 0, "{wrong:?}");
    }
    // In the wrong place, or too far ahead.
    for (sequence, entry) in [(wire.sequence + 6, entry), (wire.sequence + 11, (entry + 3) % PLACES)] {
        two.sides[0].arrived(1, entry, UlnWire { sequence, ..wire }, vec![0; 512]);
        assert_eq!(two.reason(0, asked), 0);
    }
    let sequence = wire.sequence + 6;
    two.sides[0].arrived(1, sequence % PLACES, UlnWire { sequence, ..wire }, data);
    assert_eq!(two.reason(0, asked), ULN_END_CLOSED);
}

#[test]
fn delayed_message_of_restarted_host_resets_both() {
    let mut two = Two::new();
    let [asked, _] = two.connect();
    two.sides[0].close(asked, b"").unwrap();
    two.collect();
    let late = two.flying.remove(0);
    two.flying.clear();
    two.sides[0] = Side::new(7, 0);
    let [asked, taken] = two.connect();
    two.deliver(late);
    two.carry();
    assert_eq!([two.reason(0, asked), two.reason(1, taken)], [ULN_END_HOST_RESET; 2]);
    let [asked, taken] = two.connect();
    assert_eq!([two.reason(0, asked), two.reason(1, taken)], [0; 2]);
}

/// Sends a request of host 0 that host 1 accepts, but neither its acknowledgement nor its answer
/// arrives. Returns its numbers at both hosts.
fn taken_unheard(two: &mut Two, listener: u32, private: &[u8]) -> [u32; 2] {
    let asked = two.sides[0].request(1, b"name", private).unwrap();
    two.collect();
    let request = two.flying.remove(0);
    two.deliver(request);
    two.collect();
    two.flying.clear();
    [asked, two.sides[1].claim(listener).unwrap().unwrap()]
}

#[test]
fn taken_request_is_not_taken_again() {
    let mut two = Two::new();
    // The hosts know each other.
    two.connect();
    let listener = two.sides[1].listen(b"name", 4).unwrap();
    for reason in [ULN_END_LAPSED, ULN_END_LINK_LOST] {
        let [asked, taken] = taken_unheard(&mut two, listener, b"once");
        two.sides[1].answer(taken, true, b"").unwrap();
        two.sides[1].lost(reason);
        two.sides[1].card.sent.clear();
        assert_eq!(two.reason(1, taken), reason);
        // Host 0 learns that host 1 has lost its state, and does not know that its request arrived
        // before.
        two.pass(TIMEOUT / 4, true);
        assert_eq!(two.sides[1].claim(listener), Ok(None), "it was handed to the listener before");
        assert_eq!(two.reason(0, asked), ULN_END_HOST_RESET);
        // The next request is a new one.
        let next = two.sides[0].request(1, b"name", b"").unwrap();
        two.carry();
        let taken = two.sides[1].claim(listener).unwrap().unwrap();
        two.sides[1].answer(taken, true, b"").unwrap();
        two.carry();
        assert_eq!(two.sides[0].state(next).0, ULN_CONNECTION_ESTABLISHED);
    }
}

#[test]
fn untaken_request_is_repeated_to_new_incarnation() {
    let mut two = Two::new();
    two.connect();
    let listener = two.sides[1].listen(b"name", 4).unwrap();
    two.sides[0].request(1, b"name", b"again").unwrap();
    two.collect();
    two.flying.clear();
    two.sides[1].lost(ULN_END_LAPSED);
    two.pass(TIMEOUT / 4, true);
    let taken = two.sides[1].claim(listener).unwrap().unwrap();
    assert_eq!(two.sides[1].state(taken).3, b"again");
}

#[test]
fn restarted_system_restarts_request_numbers() {
    let mut two = Two::new();
    let listener = two.sides[1].listen(b"name", 4).unwrap();
    for origin in [9, 11, 13] {
        two.sides[0].request(1, b"name", b"").unwrap();
        two.carry();
        assert!(two.sides[1].claim(listener).unwrap().is_some());
        two.sides[0] = Side::new(origin, two.now);
    }
}

#[test]
fn leaving_side_notifies_peers_and_frees_names() {
    let mut two = Two::new();
    let [asked, taken] = two.connect();
    let listener = two.sides[1].listen(b"name", 4).unwrap();
    let waits = two.sides[0].request(1, b"name", b"").unwrap();
    two.carry();
    assert_eq!(two.sides[1].system.waiting(listener), Some(1));
    two.sides[1].leave();
    assert_eq!(two.sides[1].system.sizes().messages, 2, "both have still to hear of it");
    two.carry();
    assert_eq!(two.reason(0, asked), ULN_END_DIED);
    assert_eq!(two.reason(0, waits), ULN_END_NO_NAME);
    assert_eq!(two.reason(1, taken), ULN_END_CARD_RESET);
    assert_eq!((two.sides[1].system.waiting(listener), two.sides[1].system.sizes().messages), (None, 0));
}

#[test]
fn waiters_are_woken_when_there_is_news() {
    let mut two = Two::new();
    let listener = two.sides[1].listen(b"name", 4).unwrap();
    let asked = two.sides[0].request(1, b"name", b"").unwrap();
    let mut told = Vec::new();
    for _ in 0..8 {
        two.collect();
        for message in std::mem::take(&mut two.flying) {
            two.deliver(message);
        }
        for (host, side) in two.sides.iter_mut().enumerate() {
            told.extend(side.system.take_woken().into_iter().map(|file| (host, file)));
        }
        if let Ok(Some(taken)) = two.sides[1].claim(listener) {
            two.sides[1].answer(taken, false, b"").unwrap();
        }
    }
    assert_eq!(told[0], (1, listener));
    assert_eq!(told.iter().filter(|(host, file)| (*host, *file) == (0, asked)).count(), 1, "{told:?}");
}
