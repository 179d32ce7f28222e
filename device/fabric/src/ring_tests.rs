//! Any traffic arrives as it was sent. Any scribbling on the shared memory is an error at worst.

use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use vm_memory::{MmapRegion, VolatileMemory};

use super::*;
use crate::bell::Heard;
use crate::geometry::GeometryError;
use crate::header::Protocol;
use crate::index::Name;
use crate::link::Link;
use crate::place::{CACHE_LINE, ring_bytes};

const SMALL: Geometry = Geometry { capacity: 4096, max_packet: 1000 };

fn header(destination: u16) -> Header {
    Header { destination: HostId(destination), source: HostId(7), protocol: Protocol::parse(1).unwrap() }
}

/// Returns bytes that differ between packets.
fn bytes(seed: usize, length: usize) -> Vec<u8> {
    (0..length).map(|index| (seed * 31 + index * 7) as u8).collect()
}

fn send(link: &mut Link, seed: usize, length: usize) -> bool {
    let Some(room) = link.reserve(header(seed as u16), length).unwrap() else { return false };
    assert_eq!(room.len(), length);
    room.copy_from(&bytes(seed, length));
    link.commit();
    true
}

/// Receives a packet and checks every byte.
fn receive(link: &mut Link, seed: usize, length: usize) {
    let record = link.peek().unwrap().expect("a packet was sent");
    assert_eq!(record.header().unwrap(), header(seed as u16));
    let mut payload = vec![0; record.payload.len()];
    record.payload.copy_to(&mut payload[..]);
    assert_eq!(payload, bytes(seed, length));
    link.consume();
}

#[test]
fn commit_publishes_and_consume_removes_a_packet() {
    let (mut card, mut switch) = Link::pair(SMALL).unwrap();
    card.reserve(header(1), 100).unwrap().unwrap();
    assert!(switch.peek().unwrap().is_none(), "it was not committed");
    assert!(send(&mut card, 1, 100));
    assert!(switch.peek().unwrap().is_some());
    receive(&mut switch, 1, 100);
    assert!(switch.peek().unwrap().is_none());
    switch.consume();
    assert!(switch.peek().unwrap().is_none(), "consuming nothing does nothing");
    assert!(send(&mut card, 2, 0));
    receive(&mut switch, 2, 0);
}

#[test]
fn second_reserve_discards_the_first() {
    let (mut card, mut switch) = Link::pair(SMALL).unwrap();
    card.reserve(header(1), 900).unwrap().unwrap();
    assert!(send(&mut card, 2, 10));
    card.commit();
    receive(&mut switch, 2, 10);
    assert!(switch.peek().unwrap().is_none());
}

#[test]
fn packet_over_the_limit_is_refused() {
    let (mut card, mut switch) = Link::pair(SMALL).unwrap();
    let error = card.reserve(header(1), 1001).unwrap_err();
    assert_eq!(error, RingError::TooLong { length: 1001, limit: 1000 });
    assert_eq!(error.to_string(), "packet of 1001 bytes is too long (limit 1000)");
    assert!(!error.is_corruption());
    card.commit();
    assert!(switch.peek().unwrap().is_none());
}

#[test]
fn invalid_geometry_is_refused() {
    assert_eq!(Geometry { max_packet: 1008, ..SMALL }.validate(), Ok(()));
    let limit = 1008;
    let error = GeometryError::MaxPacket { max_packet: 1009, capacity: 4096, limit };
    assert_eq!(Geometry { max_packet: 1009, ..SMALL }.validate(), Err(error));
    for capacity in [0, 2048, 5000, 1 << 31] {
        assert_eq!(Geometry { capacity, ..SMALL }.validate(), Err(GeometryError::Capacity(capacity)));
    }
    assert!(Link::pair(Geometry { capacity: 0, max_packet: 0 }).is_err());
}

#[test]
fn producer_sleeps_until_the_ring_is_half_empty() {
    let (mut card, mut switch) = Link::pair(SMALL).unwrap();
    let sent = (0..).take_while(|&seed| send(&mut card, seed, 240)).count();
    assert_eq!(sent, 16);
    assert!(card.sleep_for_room().unwrap());
    for seed in 0..8 {
        assert!(!rings(&card), "{seed} taken");
        receive(&mut switch, seed, 240);
    }
    assert!(rings(&card));
    assert_eq!(card.hear(), Heard::Ring);
    assert!(!card.sleep_for_room().unwrap());
    receive(&mut switch, 8, 240);
    assert!(!rings(&card), "the sender is awake");
}

#[test]
fn bell_rings_once_and_only_for_a_sleeper() {
    let (mut card, mut switch) = Link::pair(SMALL).unwrap();
    send(&mut card, 0, 10);
    assert!(!rings(&switch));
    assert!(!switch.sleep_for_records().unwrap());
    receive(&mut switch, 0, 10);
    assert!(switch.sleep_for_records().unwrap());
    send(&mut card, 1, 10);
    assert!(rings(&switch));
    assert_eq!(switch.hear(), Heard::Ring);
    send(&mut card, 2, 10);
    assert!(!rings(&switch));
}

#[test]
fn quiet_link_has_no_bell() {
    let (mut card, mut switch) = Link::quiet_pair(SMALL).unwrap();
    assert!(switch.sleep_for_records().unwrap());
    send(&mut card, 0, 10);
    receive(&mut switch, 0, 10);
    assert!(card.bell().is_none() && switch.bell().is_none());
    assert_eq!(switch.hear(), Heard::Nothing);
}

#[test]
fn packets_unread_by_a_dead_card_are_counted() {
    let (mut card, mut switch) = Link::pair(SMALL).unwrap();
    for seed in 0..20 {
        while !send(&mut switch, seed, 400) {
            card.peek().unwrap().unwrap();
            card.consume();
        }
    }
    let unread = switch.sender.unread().unwrap();
    let left = std::iter::from_fn(|| card.peek().unwrap().is_some().then(|| card.consume())).count();
    assert!(left > 0);
    assert_eq!(unread, left as u64);
}

/// Returns whether a link's end was rung, and clears it.
fn was_rung(link: &Link) -> bool {
    link.hear() == Heard::Ring
}

#[test]
fn stop_affects_one_destination_and_resume_rings() {
    let (card, mut switch) = Link::pair(SMALL).unwrap();
    let stopped = || (0..=u16::MAX).filter(|&host| card.sender.is_stopped(HostId(host))).collect::<Vec<_>>();
    for host in [0, 63, 64, 1023] {
        assert!(switch.receiver.stop(HostId(host)) && !switch.receiver.stop(HostId(host)));
    }
    // Packets without a receiver do not wait.
    assert!(!switch.receiver.stop(HostId(1024)));
    assert_eq!((stopped(), card.sender.resumptions()), (vec![0, 63, 64, 1023], 0));
    switch.receiver.resume(HostId(1));
    assert!(!was_rung(&card), "nothing has changed");
    switch.receiver.resume(HostId(63));
    assert!(was_rung(&card));
    assert_eq!((stopped(), card.sender.resumptions()), (vec![0, 64, 1023], 1));
    assert!(switch.receiver.stop(HostId(63)));
    // The other direction is independent.
    assert!(!switch.sender.is_stopped(HostId(0)));
}

#[test]
fn scribbling_on_stop_bits_affects_only_that_card() {
    let (card, mut switch) = Link::pair(SMALL).unwrap();
    assert!(switch.receiver.stop(HostId(5)));
    for word in 4..7 {
        let memory = card.sender.index.words.region.get_atomic_ref::<AtomicU64>(word * CACHE_LINE).unwrap();
        memory.store(u64::MAX, Ordering::Relaxed);
    }
    assert!(card.sender.is_stopped(HostId(9)));
    assert!(!switch.receiver.stop(HostId(5)) && switch.receiver.stop(HostId(6)));
    switch.receiver.resume(HostId(5));
    assert!(!card.sender.is_stopped(HostId(5)) && !card.sender.is_stopped(HostId(9)));
    assert_eq!(card.sender.resumptions(), 1);
}

#[test]
fn dead_card_cannot_inflate_its_unread_packets() {
    let region = Arc::new(MmapRegion::new(ring_bytes(SMALL)).unwrap());
    let place = Place::new(region, 0, SMALL).unwrap();
    let mut producer = Producer::new(place.clone(), None);
    producer.reserve(header(1), 400).unwrap().unwrap();
    producer.commit();
    // Empty packets follow it if the position in shared memory is trusted.
    apply(&place, Scribble::Index(Name::Produced as usize, 416 + 100 * 16));
    assert_eq!(producer.unread(), Ok(1));
}

fn rings(link: &Link) -> bool {
    let bell = link.bell().unwrap();
    poll(&mut [PollFd::new(&bell, PollFlags::IN)], Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() == 1
}

/// What the other side may overwrite: an index word, or a word of the data.
#[derive(Debug, Clone, Copy)]
enum Scribble {
    Index(usize, u64),
    Data(usize, u64),
}

fn scribble() -> impl Strategy<Value = Scribble> {
    let value = prop_oneof![
        any::<u64>(),
        0..5000u64,
        Just(u64::from(PAD)),
        (0..300u64).prop_map(|records| records * 16),
        (0..5000u64).prop_map(|near| u64::MAX - near),
    ];
    let word = prop_oneof![
        (0..4usize).prop_map(|word| (true, word)),
        (0..SMALL.capacity / 8).prop_map(|word| (false, word)),
        // The heads of records matter more than their middles.
        (0..SMALL.capacity / 16).prop_map(|record| (false, record * 2)),
    ];
    (word, value).prop_map(|((index, word), value)| match index {
        true => Scribble::Index(word, value),
        false => Scribble::Data(word, value),
    })
}

fn apply(place: &Place, what: Scribble) {
    match what {
        Scribble::Index(word, value) => {
            place
                .region
                .get_atomic_ref::<AtomicU64>(place.base + word * CACHE_LINE)
                .unwrap()
                .store(value, Ordering::Relaxed);
        }
        Scribble::Data(word, value) => {
            place.data(word as u64 * 8, 8).unwrap().copy_from(&value.to_ne_bytes());
        }
    }
}

proptest! {
    #[test]
    fn any_sizes_arrive_intact_and_in_order(lengths in proptest::collection::vec(0..=SMALL.max_packet, 1..200), greed in 1..20usize) {
        let (mut card, mut switch) = Link::pair(SMALL).unwrap();
        let (mut sent, mut received) = (0, 0);
        while received < lengths.len() {
            while sent < lengths.len() && send(&mut card, sent, lengths[sent]) {
                sent += 1;
            }
            // An empty ring takes any packet, so there is progress.
            prop_assert!(sent > received);
            for _ in 0..greed.min(sent - received) {
                receive(&mut switch, received, lengths[received]);
                received += 1;
            }
        }
        prop_assert!(switch.peek().unwrap().is_none());
    }

    #[test]
    fn half_empty_ring_has_room_for_any_packet(lengths in proptest::collection::vec(0..=SMALL.max_packet, 1..100), last in 0..=SMALL.max_packet) {
        let (mut card, mut switch) = Link::pair(SMALL).unwrap();
        let sent = lengths.iter().enumerate().take_while(|&(seed, &length)| send(&mut card, seed, length)).count();
        for (seed, &length) in lengths.iter().enumerate().take(sent) {
            if !card.sleep_for_room().unwrap() {
                break;
            }
            receive(&mut switch, seed, length);
        }
        prop_assert!(!card.sleep_for_room().unwrap());
        prop_assert!(send(&mut card, 0, last));
    }

    /// Nothing panics. Every payload returned lies in the ring and is within the limit.
    #[test]
    fn scribbling_is_an_error_at_worst(steps in proptest::collection::vec((scribble(), 0..5usize, 0..=SMALL.max_packet), 1..100)) {
        let region = Arc::new(MmapRegion::new(ring_bytes(SMALL)).unwrap());
        let place = Place::new(region, 0, SMALL).unwrap();
        let mut producer = Producer::new(place.clone(), None);
        let mut consumer = Consumer::new(place.clone(), None);
        for (what, verb, length) in steps {
            apply(&place, what);
            let _ = match verb {
                0 | 1 => {
                    let room = producer.reserve(header(1), length).map(|room| room.map(|room| room.len()));
                    prop_assert!(!matches!(room, Ok(Some(room)) if room != length));
                    producer.commit();
                    room.map(|_| ())
                }
                2 => producer.sleep_for_room().and_then(|_| producer.unread()).map(|unread| assert!(unread <= 256)),
                3 => consumer.sleep_for_records().map(|_| ()),
                _ => {
                    let shown = consumer.peek().map(|record| record.map_or(0, |record| record.payload.len()));
                    prop_assert!(!matches!(shown, Ok(shown) if shown > SMALL.max_packet));
                    consumer.consume();
                    shown.map(|_| ())
                }
            };
        }
    }
}

#[test]
fn each_kind_of_corruption_is_found() {
    let cases = [
        (Scribble::Index(0, 4096 + 16), "position"),
        (Scribble::Index(0, 8), "record"),
        (Scribble::Data(0, 1001), "record"),
        (Scribble::Data(0, 900), "record"),
        (Scribble::Data(0, u64::from(PAD)), "record"),
    ];
    for (what, kind) in cases {
        let region = Arc::new(MmapRegion::new(ring_bytes(SMALL)).unwrap());
        let place = Place::new(region, 0, SMALL).unwrap();
        let mut producer = Producer::new(place.clone(), None);
        producer.reserve(header(1), 100).unwrap().unwrap();
        producer.commit();
        apply(&place, what);
        let error = Consumer::new(place, None).peek().unwrap_err();
        assert!(error.is_corruption() && error.to_string().contains(kind), "{what:?}: {error}");
    }
}

#[test]
fn record_that_would_wrap_is_corrupt() {
    let region = Arc::new(MmapRegion::new(ring_bytes(SMALL)).unwrap());
    let place = Place::new(region, 0, SMALL).unwrap();
    let mut producer = Producer::new(place.clone(), None);
    let mut consumer = Consumer::new(place.clone(), None);
    for length in [1000, 1000, 1000, 10] {
        producer.reserve(header(1), length).unwrap().unwrap();
        producer.commit();
        consumer.peek().unwrap().unwrap();
        consumer.consume();
    }
    // 992 bytes are left: a record of 928, a pad, and the next record at the ring's start.
    for length in [900, 200] {
        producer.reserve(header(1), length).unwrap().unwrap();
        producer.commit();
    }
    apply(&place, Scribble::Data(3104 / 8, 1000));
    let error = consumer.peek().unwrap_err();
    assert_eq!(error, RingError::Record { position: 3104, length: 1000, limit: 976 });
}
