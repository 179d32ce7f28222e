//! The paths alone, between two rings inside this process.

use std::collections::BTreeMap;

use hamlyn_fabric::{Geometry, Link, Protocol};
use proptest::prelude::*;

use super::*;

const SMALL: Geometry = Geometry { capacity: 4096, max_packet: 1000 };

/// Paths, the ring that packets come from, and the ring that they go to.
struct Fixture {
    paths: Paths,
    input: (Link, Link),
    output: (Link, Link),
}

/// The protocol whose packets stay in order.
const ORDERED: u8 = 2;

fn header(source: u16, protocol: u8) -> Header {
    Header { destination: HostId(0), source: HostId(source), protocol: Protocol::parse(protocol).unwrap() }
}

impl Fixture {
    fn new(count: u16, seed: u64) -> Fixture {
        let link = || Link::pair(SMALL).unwrap();
        Fixture {
            paths: Paths::new(count, seed, &[Protocol::parse(ORDERED).unwrap()]),
            input: link(),
            output: link(),
        }
    }

    fn is_full(&self) -> bool {
        !self.paths.has_room(header(0, 1))
    }

    fn push(&mut self, source: u16, payload: &[u8]) -> bool {
        self.push_of(1, source, payload)
    }

    fn push_of(&mut self, protocol: u8, source: u16, payload: &[u8]) -> bool {
        let header = header(source, protocol);
        let (card, switch) = &mut self.input;
        card.reserve(header, payload.len()).unwrap().unwrap().copy_from(payload);
        card.commit();
        let pushed = self.paths.push(header, &switch.peek().unwrap().unwrap().payload);
        switch.consume();
        pushed
    }

    fn send(&mut self) -> Option<Gone> {
        self.paths.send(&mut self.output.1.sender).unwrap()
    }

    fn take(&mut self) -> Option<(u16, Vec<u8>)> {
        let card = &mut self.output.0;
        let record = card.peek().unwrap()?;
        let mut payload = vec![0; record.payload.len()];
        record.payload.copy_to(&mut payload[..]);
        let source = record.header().unwrap().source.0;
        card.consume();
        Some((source, payload))
    }

    /// Returns the order in which the packets of one message come out.
    fn order(count: u16, seed: u64) -> Vec<u8> {
        let mut fixture = Fixture::new(count, seed);
        for number in 0..8 {
            assert!(fixture.push(7, &[number; 300]));
        }
        while fixture.send().is_some() {}
        std::iter::from_fn(|| fixture.take()).map(|(_, payload)| payload[0]).collect()
    }
}

#[test]
fn packets_of_a_message_overtake_each_other() {
    for count in 2..=MAX_PATHS {
        let in_order = (0..100).filter(|&seed| Fixture::order(count, seed).is_sorted()).count();
        assert!(in_order <= 5, "with {count} paths, {in_order} messages of 100 came in order");
    }
    assert!((0..100).all(|seed| Fixture::order(2, seed).len() == 8));
}

#[test]
fn seed_determines_the_order() {
    assert_eq!(Fixture::order(4, 1), Fixture::order(4, 1));
    assert_ne!(Fixture::order(4, 1), Fixture::order(4, 2));
}

#[test]
fn packet_takes_the_least_loaded_free_path() {
    let mut fixture = Fixture::new(2, 0);
    assert!(fixture.push(1, &[0; 1000]));
    let long = fixture.paths.paths.iter().position(|path| !path.is_empty()).unwrap();
    for _ in 0..LENGTH {
        assert!(fixture.push(1, &[0; 10]));
        assert_eq!(fixture.paths.paths[long].len(), 1);
    }
    for _ in 1..LENGTH {
        assert!(fixture.push(1, &[0; 10]));
    }
    assert!(fixture.is_full() && !fixture.push(1, b"no room"));
    assert_eq!(fixture.paths.sources().count(), 2 * LENGTH);
}

#[test]
fn ordered_packets_follow_their_source_on_one_path() {
    let mut fixture = Fixture::new(4, 0);
    for number in 0..LENGTH as u8 {
        assert!(fixture.push_of(ORDERED, 1, &[number; 10]));
    }
    assert!(!fixture.paths.has_room(header(1, ORDERED)) && !fixture.push_of(ORDERED, 1, b"no room"));
    assert!(!fixture.is_full() && fixture.push_of(ORDERED, 2, &[9; 10]), "the other paths are free");
    let order = std::iter::from_fn(|| fixture.send().map(|gone| gone.overtaken));
    assert_eq!(order.collect::<Vec<_>>(), [false; LENGTH + 1]);
    let taken = std::iter::from_fn(|| fixture.take()).filter(|(source, _)| *source == 1);
    let numbers: Vec<u8> = taken.map(|(_, payload)| payload[0]).collect();
    assert_eq!(numbers, (0..LENGTH as u8).collect::<Vec<_>>());
}

#[test]
fn no_path_is_starved() {
    let mut fixture = Fixture::new(4, 0);
    for _ in 0..1000 {
        while !fixture.is_full() {
            assert!(fixture.push(1, &[0; 100]));
        }
        assert!(fixture.send().is_some() && fixture.take().is_some());
    }
    let oldest = fixture.paths.paths.iter().flatten().map(|packet| packet.number).min();
    assert!(oldest > Some(900), "{oldest:?}");
}

#[derive(Debug, Clone)]
enum Step {
    Push { source: u16, length: usize },
    Send,
    Take,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..3u16, 2..=SMALL.max_packet).prop_map(|(source, length)| Step::Push { source, length }),
        2 => Just(Step::Send),
        1 => Just(Step::Take),
    ]
}

proptest! {
    /// Every packet comes out once and unchanged, and overtaken ones are counted (RFC 4737, section
    /// 3.3).
    #[test]
    fn every_packet_leaves_once(
        count in 1..=MAX_PATHS,
        seed: u64,
        steps in proptest::collection::vec(step(), 1..400),
    ) {
        let mut fixture = Fixture::new(count, seed);
        let (mut sent, mut taken) = (BTreeMap::<_, Vec<_>>::new(), BTreeMap::<_, Vec<_>>::new());
        let (mut number, mut overtaken) = (0u16, 0);
        for step in steps {
            match step {
                Step::Push { source, length } => {
                    let mut payload = vec![number as u8; length];
                    payload[..2].copy_from_slice(&number.to_be_bytes());
                    let full = fixture.is_full();
                    prop_assert_eq!(fixture.push(source, &payload), !full);
                    if !full {
                        sent.entry(source).or_default().push(payload);
                        number += 1;
                    }
                }
                Step::Send => overtaken += fixture.send().map_or(0, |gone| usize::from(gone.overtaken)),
                Step::Take => {
                    if let Some((source, payload)) = fixture.take() {
                        taken.entry(source).or_default().push(payload);
                    }
                }
            }
        }
        while !fixture.paths.is_empty() {
            match fixture.send() {
                Some(gone) => overtaken += usize::from(gone.overtaken),
                None => {
                    let (source, payload) = fixture.take().expect("a full ring has packets");
                    taken.entry(source).or_default().push(payload);
                }
            }
        }
        while let Some((source, payload)) = fixture.take() {
            taken.entry(source).or_default().push(payload);
        }
        let late = |packets: &Vec<Vec<u8>>| {
            (1..packets.len()).filter(|&place| packets[..place].iter().any(|before| *before > packets[place])).count()
        };
        prop_assert_eq!(overtaken, taken.values().map(late).sum::<usize>());
        prop_assert!(count > 1 || overtaken == 0);
        taken.values_mut().for_each(|packets| packets.sort());
        prop_assert_eq!(sent, taken);
    }
}
