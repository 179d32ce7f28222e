//! Cutting and joining, with packets of a test protocol: the address of the first byte, and the
//! bytes.

use std::collections::BTreeMap;

use hamlyn_fabric::{HostId, Link};
use proptest::prelude::*;

use super::*;
use crate::crossbar::Crossbar;
use crate::crossbar::tests::{SMALL, attach, send, sums, take, wake_all};
use crate::mesh::Shape;

/// Bytes before the data.
const OVERHEAD: usize = 4;

pub(crate) fn packet(start: u32, data: &[u8]) -> Vec<u8> {
    [&start.to_le_bytes(), data].concat()
}

pub(crate) fn parse(packet: &[u8]) -> Option<(u32, &[u8])> {
    let (start, data) = packet.split_first_chunk()?;
    Some((u32::from_le_bytes(*start), data))
}

fn cut_at(bytes: &[u8], most: usize) -> Option<(Vec<u8>, Vec<u8>)> {
    let (start, data) = parse(bytes).filter(|_| bytes.len() > most)?;
    let length = most.checked_sub(OVERHEAD).filter(|length| *length > 0)?;
    let (first, rest) = data.split_at_checked(length)?;
    Some((packet(start, first), packet(start + length as u32, rest)))
}

fn join_two(first: &[u8], second: &[u8], most: usize) -> Option<Vec<u8>> {
    let ((start, data), (next, more)) = (parse(first)?, parse(second)?);
    let whole = packet(start, &[data, more].concat());
    (start + data.len() as u32 == next && whole.len() <= most).then_some(whole)
}

pub(crate) fn bursts() -> Bursts {
    Bursts { protocol: Protocol::parse(1).unwrap(), cut: cut_at, join: join_two }
}

fn fabric(ports: u16, bursts: Bursts, policy: Policy) -> (Crossbar, Vec<Link>) {
    fabric_of(Topology::Plain, ports, bursts, policy)
}

/// Topology between the cards.
#[derive(Debug, Clone, Copy)]
enum Topology {
    Plain,
    Paths(u16, u64),
    Mesh(u16),
}

fn fabric_of(topology: Topology, ports: u16, bursts: Bursts, policy: Policy) -> (Crossbar, Vec<Link>) {
    let crossbar = Crossbar::new(ports, SMALL);
    let crossbar = match topology {
        Topology::Plain => crossbar,
        Topology::Paths(count, seed) => crossbar.with_paths(count, seed),
        Topology::Mesh(columns) => crossbar.with_mesh(Some(Shape { columns, rows: ports.div_ceil(columns) })),
    };
    let mut crossbar = crossbar.with_bursts(&[bursts], policy);
    let cards = (0..ports).map(|port| attach(&mut crossbar, Some(HostId(port))).unwrap().1).collect();
    (crossbar, cards)
}

/// Fills the ring to host 2, so that later packets wait.
fn plug(crossbar: &mut Crossbar, cards: &mut [Link]) {
    for _ in 0..16 {
        assert!(send(&mut cards[3], 2, &packet(0, &[0; 236])));
    }
    wake_all(crossbar, 4);
    assert_eq!(sums(crossbar).stalls, 0);
}

/// Takes all packets to host 2, and reads its bell only when there are no more.
fn take_all(crossbar: &mut Crossbar, cards: &mut [Link]) -> Vec<(u16, Vec<u8>)> {
    let mut taken = Vec::new();
    loop {
        taken.extend(std::iter::from_fn(|| take(&mut cards[2])));
        if wake_all(crossbar, cards.len() as u16) == 0 {
            break taken;
        }
    }
}

/// Creates four hosts. Host 0 has a large packet that waits for host 2, and host 1 has `small`
/// small ones.
fn waiting(policy: Policy, small: u32) -> (Crossbar, Vec<Link>) {
    let (mut crossbar, mut cards) = fabric(4, bursts(), policy);
    plug(&mut crossbar, &mut cards);
    let large: Vec<u8> = (0..996).map(|byte| byte as u8).collect();
    assert!(send(&mut cards[0], 2, &packet(0, &large)));
    for number in 0..small {
        assert!(send(&mut cards[1], 2, &packet(5000 + 100 * number, &[1; 8])));
    }
    wake_all(&mut crossbar, 2);
    assert_eq!(sums(&crossbar).stalls, 1 + u64::from(small));
    (crossbar, cards)
}

/// Returns the largest number of bytes between two packets of host 1, and how many packets of host
/// 0 arrived.
fn longest_wait(taken: &[(u16, Vec<u8>)]) -> (usize, usize) {
    let (mut longest, mut now, mut count) = (0, 0, 0);
    for (source, bytes) in taken {
        match source {
            0 => (now, count) = (now + bytes.len(), count + 1),
            1 => (longest, now) = (longest.max(now), 0),
            _ => {}
        }
    }
    (longest, count)
}

#[test]
fn large_packet_delays_others_by_one_quantum() {
    let (mut crossbar, mut cards) = waiting(Policy::Quantum(100), 12);
    let taken = take_all(&mut crossbar, &mut cards);
    let (longest, count) = longest_wait(&taken);
    assert!(longest == 100 && (11..=13).contains(&count), "{count} parts, {longest} bytes in a turn");
    assert_eq!(crossbar.counters().ports[2].cut, count as u64 - 1);
    is_whole(&taken, 996);
    let (mut crossbar, mut cards) = waiting(Policy::Quantum(0), 12);
    assert_eq!(longest_wait(&take_all(&mut crossbar, &mut cards)), (1000, 1), "with 0 nothing is cut");
}

/// Checks that all of host 0's bytes have arrived, in order, each at its place.
fn is_whole(taken: &[(u16, Vec<u8>)], length: u32) {
    let mut next = 0;
    for (_, bytes) in taken.iter().filter(|(source, _)| *source == 0) {
        let (start, data) = parse(bytes).unwrap();
        assert_eq!(start, next);
        assert!((start..).zip(data).all(|(place, byte)| *byte == place as u8));
        next += data.len() as u32;
    }
    assert_eq!(next, length);
}

#[test]
fn packet_without_contention_is_not_cut() {
    let (mut crossbar, mut cards) = waiting(Policy::Quantum(100), 0);
    let taken = take_all(&mut crossbar, &mut cards);
    assert_eq!((longest_wait(&taken).1, sums(&crossbar).cut), (1, 0));
    // Only one source from the beginning, and the ring is full.
    let (mut crossbar, mut cards) = fabric(4, bursts(), Policy::Quantum(100));
    while send(&mut cards[0], 2, &packet(0, &[0; 996])) || wake_all(&mut crossbar, 4) > 0 {}
    assert!(take_all(&mut crossbar, &mut cards).iter().all(|(_, bytes)| bytes.len() == 1000));
    assert_eq!((sums(&crossbar).cut, sums(&crossbar).joined), (0, 0));
}

#[test]
fn parts_are_joined_after_contention_ends() {
    // One small packet of host 1 is the only contention.
    let (mut crossbar, mut cards) = waiting(Policy::Quantum(100), 1);
    let taken = take_all(&mut crossbar, &mut cards);
    is_whole(&taken, 996);
    let lengths: Vec<_> =
        taken.iter().filter(|(source, _)| *source < 2).map(|(_, bytes)| bytes.len()).collect();
    assert_eq!(lengths, [100, 12, 904]);
    let counters = crossbar.counters().ports[2];
    assert!(counters.joined > 0 && counters.cut == counters.joined + 1, "{counters:?}");
    // In its own queue: first 904 bytes, and then many consecutive packets.
    let (mut crossbar, mut cards) = fabric(4, bursts(), Policy::Quantum(100));
    plug_alone(&mut crossbar, &mut cards);
    for start in (0..3000).step_by(300) {
        assert!(send(&mut cards[0], 2, &packet(start, &[0; 300])));
        wake_all(&mut crossbar, 4);
    }
    let taken = take_all(&mut crossbar, &mut cards);
    let parts = taken.iter().map(|(_, bytes)| parse(bytes).unwrap()).filter(|(start, _)| *start < 3000);
    let lengths: Vec<_> = parts.map(|(_, data)| data.len()).collect();
    assert_eq!(lengths, [900, 900, 900, 300]);
    let counters = sums(&crossbar);
    assert_eq!(counters.packets_in, counters.packets_out + counters.joined);
}

/// Fills the ring to host 2 with host 0's own packets, which are not consecutive.
fn plug_alone(crossbar: &mut Crossbar, cards: &mut [Link]) {
    for _ in 0..5 {
        assert!(send(&mut cards[0], 2, &packet(70_000, &[0; 900])));
        wake_all(crossbar, 4);
    }
}

#[test]
fn cutting_does_not_change_the_held_bytes() {
    let (mut crossbar, mut cards) = waiting(Policy::Quantum(60), 12);
    assert!(!take_all(&mut crossbar, &mut cards).is_empty());
    let sum = sums(&crossbar);
    assert!(sum.cut > 0 && sum.waiting == 0);
    assert_eq!(sum.packets_in + sum.cut, sum.packets_out + sum.joined);
    assert!(!crossbar.holds_anything());
    // A packet that is dropped after a cut gives back as much, too.
    let (mut crossbar, _cards) = waiting(Policy::Quantum(60), 12);
    assert!(sums(&crossbar).cut > 0 && crossbar.holds_anything());
    crossbar.detach(HostId(2));
    assert!(!crossbar.holds_anything());
}

#[test]
fn packets_that_cannot_be_cut_stay_whole() {
    let other = Bursts { protocol: Protocol::parse(2).unwrap(), ..bursts() };
    let never = Bursts { cut: |_, _| None, ..bursts() };
    // Parts that are no shorter than the whole would be cut forever.
    let longer = Bursts { cut: |bytes, _| Some((bytes.into(), bytes.into())), ..bursts() };
    let behind = Bursts { cut: |bytes, most| Some((bytes[..most].into(), bytes.into())), ..bursts() };
    for bursts in [other, never, longer, behind] {
        let (mut crossbar, mut cards) = fabric(4, bursts, Policy::Quantum(100));
        for _ in 0..30 {
            for source in [0, 1] {
                send(&mut cards[source], 2, &packet(0, &[0; 996]));
            }
            wake_all(&mut crossbar, 4);
        }
        assert!(sums(&crossbar).stalls > 0);
        assert!(take_all(&mut crossbar, &mut cards).iter().all(|(_, bytes)| bytes.len() == 1000));
        assert_eq!(sums(&crossbar).cut, 0);
    }
}

/// A step of a card between two turns of the switch.
#[derive(Debug, Clone, Copy)]
enum Step {
    Write { from: usize, to: u16, length: usize },
    Take { at: usize, most: usize },
    Switch { budget: usize },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        10 => (0..3usize, 0..3u16, 0..900usize).prop_map(|(from, to, length)| Step::Write { from, to, length }),
        4 => (0..3usize, 1..9usize).prop_map(|(at, most)| Step::Take { at, most }),
        4 => (1..9usize).prop_map(|budget| Step::Switch { budget }),
    ]
}

fn topology() -> impl Strategy<Value = Topology> {
    prop_oneof![
        Just(Topology::Plain),
        (2..5u16, any::<u64>()).prop_map(|(count, seed)| Topology::Paths(count, seed)),
        (1..4u16).prop_map(Topology::Mesh),
    ]
}

/// The next byte of each stream from a sender to a receiver, for packets as sent or as received.
#[derive(Debug, Default)]
struct Streams(BTreeMap<(u16, u16), u32>);

impl Streams {
    /// Returns the next packet of a stream, with `length` bytes of data.
    fn next(&mut self, from: u16, to: u16, length: usize) -> Vec<u8> {
        let start = self.0.entry((from, to)).or_insert(0);
        let data: Vec<u8> = (*start..).take(length).map(|place| (place ^ place >> 8) as u8).collect();
        let bytes = packet(*start, &data);
        *start += length as u32;
        bytes
    }

    /// Checks that a received packet is the next of its stream.
    fn came(&mut self, from: u16, to: u16, bytes: &[u8]) {
        let (start, data) = parse(bytes).unwrap();
        assert!(
            self.next(from, to, data.len()) == bytes,
            "of {from} to {to}, {} bytes at {start}",
            data.len()
        );
    }
}

proptest! {
    /// Wherever packets are cut, and whichever are joined: the same bytes arrive at the same
    /// places, in order, once.
    #[test]
    fn cutting_and_joining_preserves_the_byte_streams(
        topology in topology(),
        policy in prop_oneof![any::<u64>().prop_map(Policy::Random), (1..300usize).prop_map(Policy::Quantum)],
        steps in proptest::collection::vec(step(), 1..200),
    ) {
        let (mut crossbar, mut cards) = fabric_of(topology, 3, bursts(), policy);
        let (mut sent, mut came) = (Streams::default(), Streams::default());
        for step in steps {
            match step {
                Step::Write { from, to, length } => {
                    let before = sent.0.get(&(from as u16, to)).copied().unwrap_or(0);
                    let bytes = sent.next(from as u16, to, length);
                    if !send(&mut cards[from], to, &bytes) {
                        sent.0.insert((from as u16, to), before);
                    }
                    crossbar.wake(HostId(from as u16));
                }
                Step::Take { at, most } => {
                    for (source, bytes) in std::iter::from_fn(|| take(&mut cards[at])).take(most) {
                        came.came(source, at as u16, &bytes);
                    }
                    crossbar.wake(HostId(at as u16));
                }
                Step::Switch { budget } => {
                    crossbar.poll();
                    crossbar.forward(budget);
                }
            }
        }
        let mut goes_on = true;
        while goes_on {
            goes_on = wake_all(&mut crossbar, 3) > 0;
            for (at, card) in cards.iter_mut().enumerate() {
                while let Some((source, bytes)) = take(card) {
                    came.came(source, at as u16, &bytes);
                    goes_on = true;
                }
            }
        }
        sent.0.retain(|_, end| *end > 0);
        came.0.retain(|_, end| *end > 0);
        prop_assert_eq!(sent.0, came.0);
        let sum = sums(&crossbar);
        prop_assert_eq!(sum.packets_in + sum.cut, sum.packets_out + sum.joined);
        prop_assert!(!crossbar.holds_anything() && crossbar.take_lost().is_empty());
    }
}

/// Creates four hosts. Host 0 sends a large packet to host 2 and host 1 sends small ones, while the
/// way to host 2 is full.
fn waiting_on(topology: Topology) -> (Crossbar, Vec<Link>) {
    let (mut crossbar, mut cards) = fabric_of(topology, 4, bursts(), Policy::Quantum(100));
    while send(&mut cards[3], 2, &packet(70_000, &[0; 900])) {
        wake_all(&mut crossbar, 4);
    }
    let large: Vec<u8> = (0..996).map(|byte| byte as u8).collect();
    assert!(send(&mut cards[0], 2, &packet(0, &large)));
    for number in 0..12 {
        assert!(send(&mut cards[1], 2, &packet(5000 + 100 * number, &[1; 8])));
    }
    wake_all(&mut crossbar, 4);
    (crossbar, cards)
}

#[test]
fn large_packets_are_cut_in_mesh_and_paths() {
    for topology in [Topology::Mesh(4), Topology::Mesh(1), Topology::Mesh(2), Topology::Paths(3, 7)] {
        let (mut crossbar, mut cards) = waiting_on(topology);
        let taken = take_all(&mut crossbar, &mut cards);
        is_whole(&taken, 996);
        let small = taken.iter().filter(|(source, _)| *source == 1).map(|(_, bytes)| parse(bytes).unwrap().0);
        assert_eq!(small.collect::<Vec<_>>(), (0..12).map(|number| 5000 + 100 * number).collect::<Vec<_>>());
        let (longest, count) = longest_wait(&taken);
        assert!(longest < 500 && count > 5, "{topology:?}: {count} parts, {longest} bytes in a turn");
        let sum = sums(&crossbar);
        assert_eq!(sum.packets_in + sum.cut, sum.packets_out + sum.joined);
    }
}

#[test]
fn packets_that_wait_at_mesh_are_joined() {
    let (mut crossbar, mut cards) = fabric_of(Topology::Mesh(4), 4, bursts(), Policy::Quantum(100));
    while send(&mut cards[0], 2, &packet(70_000, &[0; 900])) {
        wake_all(&mut crossbar, 4);
    }
    let mut taken: Vec<_> = take(&mut cards[2]).into_iter().collect();
    for start in (0..9000).step_by(300) {
        while !send(&mut cards[0], 2, &packet(start, &[0; 300])) {
            taken.extend(take(&mut cards[2]));
            wake_all(&mut crossbar, 4);
        }
    }
    taken.extend(take_all(&mut crossbar, &mut cards));
    let parts = taken.iter().map(|(_, bytes)| parse(bytes).unwrap()).filter(|(start, _)| *start < 9000);
    let lengths: Vec<_> = parts.map(|(_, data)| data.len()).collect();
    assert!(lengths.iter().sum::<usize>() == 9000 && lengths.len() < 30, "{lengths:?}");
    assert!(lengths.iter().all(|length| *length <= 900), "{lengths:?}");
    assert_eq!(sums(&crossbar).joined, 30 - lengths.len() as u64);
}

#[test]
fn random_policy_cuts_and_joins_without_contention() {
    let mut all = Vec::new();
    for seed in [1, 1, 2] {
        let (mut crossbar, mut cards) = fabric(3, bursts(), Policy::Random(seed));
        let mut streams = Streams::default();
        let mut taken = Vec::new();
        for _ in 0..100 {
            for length in [300, 7, 90] {
                assert!(send(&mut cards[0], 2, &streams.next(0, 2, length)));
            }
            wake_all(&mut crossbar, 3);
            taken.extend(take_all(&mut crossbar, &mut cards));
        }
        let sum = sums(&crossbar);
        assert!(sum.cut > 100 && sum.joined > 30, "{sum:?}");
        all.push(taken);
    }
    assert!(all[0] == all[1] && all[0] != all[2], "a seed says all");
}
