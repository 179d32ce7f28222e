//! Tests of connections and of the endpoint cache.

use super::super::endpoint::MESSAGE_SIZE;
use super::super::fake::cards;
use super::super::{
    Address, Card, Descriptor, Endpoint, EndpointCache, MessageKind, PeerEnd, Rights, Transfer,
};
use super::{HASTE, PATIENCE};
use crate::core::connection::EndReason;
use crate::error::{Error, ErrorKind};

#[test]
fn both_sides_exchange_data_and_see_end() {
    let (_net, [one, two]) = cards();
    let (client, listener) = (one.endpoint().unwrap(), two.endpoint_builder().port(80).open().unwrap());
    let to = listener.address().unwrap();
    std::thread::scope(|scope| {
        let served = scope.spawn(|| {
            let request = listener.accept_timeout(PATIENCE).unwrap();
            assert_eq!(&request.told()[..5], b"hello");
            let own = two.endpoint().unwrap();
            let connection = request.accept(&own, b"welcome").unwrap();
            connection.send(b"one more thing").unwrap();
            assert_eq!(connection.wait_end_timeout(PATIENCE).unwrap(), PeerEnd::Closed(told(b"bye")));
            let again = listener.accept_timeout(PATIENCE).unwrap().accept(&own, b"again").unwrap();
            // Ends without a close message.
            drop((again, own));
        });
        let connection = client.connect_timeout(to, b"hello", PATIENCE).unwrap();
        assert_eq!((connection.told(), connection.peer().host), (&told(b"welcome"), 1));
        assert_eq!(connection.recv_timeout(PATIENCE).unwrap(), told(b"one more thing"));
        assert!(connection.end().is_none());
        connection.close(b"bye").unwrap();
        let connection = client.connect_timeout(to, b"", PATIENCE).unwrap();
        assert_eq!(connection.wait_end_timeout(PATIENCE).unwrap(), PeerEnd::Gone);
        assert_eq!(connection.check().unwrap_err().kind(), ErrorKind::PeerLost);
        connection.close(b"").unwrap();
        served.join().unwrap();
    });
}

fn told(text: &[u8]) -> [u8; 32] {
    let mut told = [0; 32];
    told[..text.len()].copy_from_slice(text);
    told
}

#[test]
fn last_message_is_received_before_end() {
    let (_net, [one, two]) = cards();
    let (client, listener) = (one.endpoint().unwrap(), two.endpoint_builder().port(80).open().unwrap());
    let to = listener.address().unwrap();
    for _ in 0..300 {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let own = two.endpoint().unwrap();
                let connection = listener.accept_timeout(PATIENCE).unwrap().accept(&own, b"").unwrap();
                connection.send(b"the last word").unwrap();
                connection.close(b"bye").unwrap();
            });
            let connection = client.connect_timeout(to, b"", PATIENCE).unwrap();
            assert_eq!(connection.recv_timeout(PATIENCE).unwrap(), told(b"the last word"));
            assert_eq!(connection.recv_timeout(PATIENCE).unwrap_err().kind(), ErrorKind::PeerLost);
        });
    }
}

#[test]
fn refusal_has_reason_and_unused_port_is_reported() {
    let (_net, [one, two]) = cards();
    let (client, listener) = (one.endpoint().unwrap(), two.endpoint().unwrap());
    let to = listener.address().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| listener.accept_timeout(PATIENCE).unwrap().refuse(b"we are full").unwrap());
        match client.connect_timeout(to, b"", PATIENCE) {
            Err(Error::Ended(end)) => {
                assert_eq!((end.reason, &end.private[..]), (EndReason::Rejected, &b"we are full"[..]));
            }
            other => panic!("{other:?}"),
        }
    });
    match client.connect_timeout(Address { host: 1, port: 9 }, b"", PATIENCE) {
        Err(Error::Ended(end)) => assert_eq!(end.reason, EndReason::NoName),
        other => panic!("{other:?}"),
    }
    assert!(client.connect_timeout(to, b"", HASTE).is_err_and(|error| error.is_timed_out()));
    assert!(client.connect_timeout(to, &[0; 33], HASTE).is_err());
}

#[test]
fn third_party_cannot_answer_or_end_connection() {
    let (_net, [one, two]) = cards();
    let (client, server, stranger) =
        (one.endpoint().unwrap(), two.endpoint().unwrap(), two.endpoint().unwrap());
    let (here, there) = (client.address().unwrap(), server.address().unwrap());
    for kind in [MessageKind::Accept, MessageKind::Refuse, MessageKind::Close, MessageKind::Data] {
        stranger.send_message(here, kind, &[1; MESSAGE_SIZE]).unwrap();
    }
    assert!(client.connect_timeout(there, b"", HASTE).is_err_and(|error| error.is_timed_out()));
    std::thread::scope(|scope| {
        // The previous request is still pending, too.
        let accepted = scope.spawn(|| {
            drop(server.accept_timeout(PATIENCE).unwrap());
            server.accept_timeout(PATIENCE).unwrap().accept(&two.endpoint().unwrap(), b"").unwrap()
        });
        let connection = client.connect_timeout(there, b"", PATIENCE).unwrap();
        let _other_end = accepted.join().unwrap();
        stranger.send_message(here, MessageKind::Close, &[1; MESSAGE_SIZE]).unwrap();
        stranger.send_message(here, MessageKind::Data, &[1; MESSAGE_SIZE]).unwrap();
        assert!(connection.try_recv().is_none() && connection.end().is_none());
        connection.send(b"still here").unwrap();
    });
}

/// Writes to an aperture that does not exist at another host, which refuses the write.
fn is_refused_by(endpoint: &Endpoint, card: &Card, host: u32) {
    let own = card.aperture(8, Rights::None).unwrap();
    let nothing = Descriptor::new(host, 999, 1, 8, Rights::ReadWrite);
    let dma = endpoint.dma();
    let written = dma.try_put(&Transfer::write(&own, 0, &nothing, 0, 8).unwrap()).unwrap();
    dma.wait_timeout(written, PATIENCE).unwrap();
    assert_eq!(endpoint.recv_fault_timeout(PATIENCE).unwrap().host, host);
}

#[test]
fn faults_of_other_hosts_do_not_end_connection() {
    let (_net, [one, two]) = cards();
    let (client, listener) = (one.endpoint().unwrap(), two.endpoint().unwrap());
    let to = listener.address().unwrap();
    // A host that the endpoint communicated with before the connection.
    is_refused_by(&client, &one, 2);
    std::thread::scope(|scope| {
        let accepted = scope.spawn(|| {
            listener.accept_timeout(PATIENCE).unwrap().accept(&two.endpoint().unwrap(), b"").unwrap()
        });
        let connection = client.connect_timeout(to, b"", PATIENCE).unwrap();
        let _other_end = accepted.join().unwrap();
        let wait = || connection.wait_until::<()>(0, Some(HASTE), "end", || Ok(None)).unwrap_err();
        assert!(wait().is_timed_out());
        is_refused_by(&client, &one, 2);
        assert!(wait().is_timed_out(), "what a stranger refuses");
        is_refused_by(&client, &one, 1);
        assert_eq!(wait().kind(), ErrorKind::Refused, "what the peer's host refuses");
        assert!(wait().is_timed_out(), "once");
    });
}

#[test]
fn peer_lost_during_setup_is_reported() {
    let (_net, [one, two]) = cards();
    let (client, listener) = (one.endpoint().unwrap(), two.endpoint().unwrap());
    let to = listener.address().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let own = two.endpoint().unwrap();
            drop(listener.accept_timeout(PATIENCE).unwrap().accept(&own, b"").unwrap());
        });
        let connection = client.connect_timeout(to, b"", PATIENCE).unwrap();
        assert_eq!(connection.wait_end_timeout(PATIENCE).unwrap(), PeerEnd::Gone);
    });
}

#[test]
fn cached_aperture_is_reused_only_for_same_peer() {
    let (net, [one]) = cards();
    let mut cache = EndpointCache::new(&one, one.endpoint_builder(), 4096, Rights::Write, 2);
    let kit = cache.take(5).unwrap();
    let (endpoint, aperture) = (kit.endpoint.number(), kit.aperture.number());
    kit.endpoint.send_message(kit.endpoint.address().unwrap(), MessageKind::Data, b"old").unwrap();
    cache.give(5, kit);
    let kit = cache.take(5).unwrap();
    assert_eq!((kit.endpoint.number(), kit.aperture.number()), (endpoint, aperture));
    assert!(kit.endpoint.try_recv_message().is_none(), "what was for its last user is thrown away");
    cache.give(5, kit);
    let kit = cache.take(6).unwrap();
    assert_eq!(kit.endpoint.number(), endpoint);
    assert_ne!(kit.aperture.number(), aperture, "an old descriptor could still reach it");
    assert_eq!(cache.counts(), (1, 2));
    let window = kit.endpoint.map(&kit.aperture.descriptor().unwrap(), 0, 64).unwrap();
    cache.give(6, kit);
    assert!(cache.is_empty(), "the window still uses it");
    drop(window);
    let kits = [7, 8, 9].map(|peer| (peer, cache.take(peer).unwrap()));
    kits.into_iter().for_each(|(peer, kit)| cache.give(peer, kit));
    assert_eq!((cache.len(), net.open_objects()), (2, [2, 2, 0, 0]));
}
