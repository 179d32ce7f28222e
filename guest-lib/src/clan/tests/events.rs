//! Tests of event queues.

use super::super::fake::cards;
use super::super::{Event, Interest, MessageKind, Rights, Transfer, TripwireError, Watch, What};
use super::{HASTE, PATIENCE};

#[test]
fn events_have_token_of_their_source() {
    let (_net, [one]) = cards();
    let mut events = one.events(16).unwrap();
    let (endpoint, aperture) = (one.endpoint().unwrap(), one.aperture(64, Rights::Write).unwrap());
    let mut tripwire = endpoint.tripwire(&Watch::local(&aperture, 0..8).unwrap()).unwrap();
    events.register(&endpoint, Interest::ALL, 7).unwrap();
    events.register_tripwire(&mut tripwire, 8).unwrap();
    assert!(
        events.try_recv().is_none() && events.recv_timeout(HASTE).is_err_and(|error| error.is_timed_out())
    );
    aperture.store_u64(0, 1).unwrap();
    assert_eq!(
        events.recv_timeout(PATIENCE).unwrap(),
        Event { token: 8, what: What::Tripwire(tripwire.number()) }
    );
    endpoint.send_message(endpoint.address().unwrap(), MessageKind::Data, b"x").unwrap();
    assert_eq!(events.recv_timeout(PATIENCE).unwrap(), Event { token: 7, what: What::Message });
    let put = Transfer::write(&aperture, 0, &aperture.descriptor().unwrap(), 32, 8).unwrap();
    endpoint.dma().try_put(&put).unwrap();
    assert_eq!(events.recv_timeout(PATIENCE).unwrap(), Event { token: 7, what: What::Dma });
    events.unregister_tripwire(&mut tripwire).unwrap();
    aperture.store_u64(0, 2).unwrap();
    assert!(tripwire.wait_timeout(PATIENCE).is_ok() && events.try_recv().is_none());
    events.unregister(&endpoint).unwrap();
    endpoint.dma().try_put(&put.quiet()).unwrap();
    assert!(events.recv_timeout(HASTE).is_err());
    assert!(matches!(events.register_tripwire(&mut tripwire, 8), Ok(())));
}

#[test]
fn earlier_events_are_delivered_too() {
    let (_net, [one]) = cards();
    let (endpoint, aperture) = (one.endpoint().unwrap(), one.aperture(64, Rights::Write).unwrap());
    let mut tripwire = endpoint.tripwire(&Watch::local(&aperture, 0..8).unwrap()).unwrap();
    endpoint.send_message(endpoint.address().unwrap(), MessageKind::Data, b"x").unwrap();
    aperture.store_u64(0, 1).unwrap();
    while tripwire.test() == 0 {}
    let mut events = one.events(16).unwrap();
    events.register(&endpoint, Interest { messages: true, ..Interest::default() }, 7).unwrap();
    events.register_tripwire(&mut tripwire, 8).unwrap();
    assert!(events.arm().unwrap());
    let mut tokens =
        [events.recv_timeout(PATIENCE).unwrap().token, events.recv_timeout(PATIENCE).unwrap().token];
    tokens.sort_unstable();
    assert_eq!(tokens, [7, 8]);
    assert!(events.try_recv().is_none());
}

#[test]
fn source_has_one_pending_event() {
    let (_net, [one]) = cards();
    let mut events = one.events(16).unwrap();
    let endpoint = one.endpoint().unwrap();
    events.register(&endpoint, Interest::ALL, 7).unwrap();
    for round in 0..500_u32 {
        for _ in 0..3 {
            endpoint.send_message(endpoint.address().unwrap(), MessageKind::Data, b"x").unwrap();
        }
        assert_eq!(events.try_recv(), Some(Event { token: 7, what: What::Message }), "round {round}");
        assert_eq!(events.try_recv(), None);
        assert_eq!(std::iter::from_fn(|| endpoint.try_recv_message()).count(), 3);
    }
}

#[test]
fn closed_or_unregistered_sources_have_no_events() {
    let (_net, [one, two]) = cards();
    let mut events = one.events(16).unwrap();
    let (first, second) = (one.endpoint().unwrap(), one.endpoint().unwrap());
    events.register(&first, Interest::ALL, 1).unwrap();
    events.register(&second, Interest { faults: true, ..Interest::default() }, 2).unwrap();
    for endpoint in [&first, &second] {
        endpoint.send_message(endpoint.address().unwrap(), MessageKind::Data, b"x").unwrap();
    }
    drop(first);
    assert_eq!(events.try_recv(), None);
    assert!(events.register(&two.endpoint().unwrap(), Interest::ALL, 3).is_err(), "another open card's");
    assert!(one.events(15).is_err() && one.events(24).is_err() && one.events(1 << 17).is_err());
}

#[test]
fn tripwire_without_queue_has_no_events() {
    let (_net, [one]) = cards();
    let (endpoint, aperture) = (one.endpoint().unwrap(), one.aperture(64, Rights::Write).unwrap());
    let mut tripwire = endpoint.tripwire(&Watch::local(&aperture, 0..8).unwrap()).unwrap();
    let refused = tripwire.set_event(true).unwrap_err();
    assert!(refused.of() == Some(&TripwireError::NoEvents), "{refused}");
    tripwire.enable().unwrap();
}
