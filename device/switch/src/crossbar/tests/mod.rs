//! The crossbar alone, on links inside this process.

mod attaching;
mod groups;
mod held;
mod meshed;

use std::collections::HashSet;

use hamlyn_fabric::{Link, Protocol};
use proptest::prelude::*;

use super::*;
use crate::paths::MAX_PATHS;

pub(crate) const SMALL: Geometry = Geometry { capacity: 4096, max_packet: 1000 };

/// Creates a crossbar, and returns it with the cards' ends of its links by host id.
fn fabric(ports: u16) -> (Crossbar, Vec<Link>) {
    fabric_with_paths(ports, 1, 0)
}

fn fabric_with_paths(ports: u16, paths: u16, seed: u64) -> (Crossbar, Vec<Link>) {
    let mut crossbar = Crossbar::new(ports, SMALL).with_paths(paths, seed);
    let cards = (0..ports).map(|port| attach(&mut crossbar, Some(HostId(port))).unwrap().1).collect();
    (crossbar, cards)
}

pub(crate) fn attach(crossbar: &mut Crossbar, wanted: Option<HostId>) -> Result<(HostId, Link), Refusal> {
    let (card, switch) = Link::pair(SMALL).unwrap();
    crossbar.attach(switch.sender, switch.receiver, wanted).map(|host| (host, card))
}

/// Sends a packet whose header claims to come from `source`.
fn send_as(card: &mut Link, source: u16, destination: u16, payload: &[u8]) -> bool {
    let header = Header {
        destination: HostId(destination),
        source: HostId(source),
        protocol: Protocol::parse(1).unwrap(),
    };
    let Some(room) = card.reserve(header, payload.len()).unwrap() else { return false };
    room.copy_from(payload);
    card.commit();
    true
}

pub(crate) fn send(card: &mut Link, destination: u16, payload: &[u8]) -> bool {
    send_as(card, 0, destination, payload)
}

/// Takes the oldest packet and returns its source and payload.
pub(crate) fn take(card: &mut Link) -> Option<(u16, Vec<u8>)> {
    let record = card.peek().unwrap()?;
    let source = record.header().unwrap().source.0;
    let mut payload = vec![0; record.payload.len()];
    record.payload.copy_to(&mut payload[..]);
    card.consume();
    Some((source, payload))
}

/// Moves all packets that can move, until the crossbar sleeps. Returns the number of moves.
pub(crate) fn settle(crossbar: &mut Crossbar) -> usize {
    let mut moved = 0;
    loop {
        crossbar.poll();
        match crossbar.forward(usize::MAX) {
            0 if crossbar.sleep() => return moved,
            count => moved += count,
        }
    }
}

/// Acts as if every port's bell had rung.
pub(crate) fn wake_all(crossbar: &mut Crossbar, ports: u16) -> usize {
    (0..ports).for_each(|port| crossbar.wake(HostId(port)));
    settle(crossbar)
}

pub(crate) fn sums(crossbar: &Crossbar) -> PortCounters {
    crossbar.counters().ports.iter().fold(PortCounters::default(), |sum, port| PortCounters {
        attached: sum.attached || port.attached,
        packets_in: sum.packets_in + port.packets_in,
        bytes_in: sum.bytes_in + port.bytes_in,
        packets_out: sum.packets_out + port.packets_out,
        bytes_out: sum.bytes_out + port.bytes_out,
        overtaken: sum.overtaken + port.overtaken,
        stalls: sum.stalls + port.stalls,
        stops: sum.stops + port.stops,
        blocked: sum.blocked + port.blocked,
        copied: sum.copied + port.copied,
        copies_lost: sum.copies_lost + port.copies_lost,
        cut: sum.cut + port.cut,
        joined: sum.joined + port.joined,
        waiting: sum.waiting + port.waiting,
        stalled_out: sum.stalled_out + port.stalled_out,
        dropped_absent: sum.dropped_absent + port.dropped_absent,
        dropped_malformed: sum.dropped_malformed + port.dropped_malformed,
        orphaned: sum.orphaned + port.orphaned,
        undelivered: sum.undelivered + port.undelivered,
    })
}

#[test]
fn packet_source_is_its_input_port() {
    let (mut crossbar, mut cards) = fabric(3);
    assert!(send_as(&mut cards[1], 2, 0, b"forged"));
    assert!(send_as(&mut cards[1], 0, 1, b"to myself"));
    assert_eq!(settle(&mut crossbar), 2);
    assert_eq!(take(&mut cards[0]), Some((1, b"forged".to_vec())));
    assert_eq!(take(&mut cards[1]), Some((1, b"to myself".to_vec())));
    assert_eq!(take(&mut cards[2]), None);
    let port = crossbar.counters().ports[1];
    assert_eq!((port.packets_in, port.bytes_in, port.packets_out, port.bytes_out), (2, 15, 1, 9));
}

#[test]
fn packet_bypasses_the_rings_without_overtaking() {
    let (mut crossbar, mut cards) = fabric(3);
    let pass = |crossbar: &mut Crossbar, source, to| crossbar.pass(HostId(source), HostId(to), 100);
    assert!(pass(&mut crossbar, 0, 1));
    // The sender's earlier packet is in flight, and blocks all its later ones.
    assert!(send(&mut cards[0], 1, b"first"));
    assert!(!pass(&mut crossbar, 0, 1) && !pass(&mut crossbar, 0, 2) && pass(&mut crossbar, 2, 0));
    settle(&mut crossbar);
    // The packet has arrived but is not taken.
    assert!(!pass(&mut crossbar, 0, 1) && !pass(&mut crossbar, 2, 1) && pass(&mut crossbar, 0, 2));
    assert!(take(&mut cards[1]).is_some());
    assert!(pass(&mut crossbar, 0, 1));
    let PortCounters { packets_in, bytes_in, packets_out, bytes_out, .. } = sums(&crossbar);
    assert_eq!((packets_in, bytes_in, packets_out, bytes_out), (5, 405, 5, 405));
    assert_eq!((crossbar.counters().ports[0].packets_in, crossbar.counters().ports[1].packets_out), (4, 3));
}

#[test]
fn no_bypass_with_absent_hosts_or_several_paths() {
    let (mut crossbar, _cards) = fabric(2);
    crossbar.detach(HostId(1));
    assert!(!crossbar.pass(HostId(0), HostId(1), 0) && !crossbar.pass(HostId(1), HostId(0), 0));
    assert!(!crossbar.pass(HostId(0), HostId(7), 0) && !crossbar.pass(HostId(7), HostId(0), 0));
    let (mut crossbar, _cards) = fabric_with_paths(2, 2, 0);
    assert!(!crossbar.pass(HostId(0), HostId(1), 0));
    assert_eq!(sums(&crossbar).packets_in, 0);
}

#[test]
fn packet_to_an_absent_host_is_dropped() {
    let (mut crossbar, mut cards) = fabric(2);
    for destination in [2, 64, u16::MAX] {
        assert!(send(&mut cards[0], destination, b"?"));
    }
    crossbar.detach(HostId(1));
    assert!(send(&mut cards[0], 1, b"?"));
    wake_all(&mut crossbar, 2);
    assert_eq!(crossbar.counters().ports[0].dropped_absent, 4);
    assert_eq!(crossbar.counters().ports[0].packets_in, 4);
    assert_eq!(sums(&crossbar).packets_out, 0);
}

#[test]
fn packet_with_an_invalid_header_is_dropped() {
    let (mut crossbar, mut cards) = fabric(2);
    assert!(send(&mut cards[0], 1, b"good"));
    cards[0].sender.reserve_as_is([0xff; 8], 16).unwrap().unwrap();
    cards[0].commit();
    assert!(send(&mut cards[0], 1, b"good"));
    settle(&mut crossbar);
    assert_eq!(crossbar.counters().ports[0].dropped_malformed, 1);
    assert_eq!(sums(&crossbar).packets_out, 2);
}

#[test]
fn full_output_stops_only_its_senders() {
    for (paths, on_paths) in [(1, 0), (2, 8), (16, 64)] {
        let (mut crossbar, mut cards) = fabric_with_paths(3, paths, 5);
        // Host 1 takes nothing. Its ring holds 16 packets of 240 bytes, the switch holds 32 of host
        // 0, and 16 more wait in host 0's ring.
        let mut sent = 0;
        while send(&mut cards[0], 1, &[sent; 240])
            || wake_all(&mut crossbar, 3) > 0 && send(&mut cards[0], 1, &[sent; 240])
        {
            sent += 1;
        }
        assert_eq!(sent, 64 + on_paths);
        wake_all(&mut crossbar, 3);
        assert_eq!(crossbar.counters().ports[1].packets_out, 16);
        let port = crossbar.counters().ports[0];
        assert_eq!((port.stalls, port.stops, port.blocked > 0), (32, 1, true));
        assert_eq!(crossbar.counters().ports[1].waiting, 32);
        assert!(!send(&mut cards[0], 1, &[0; 240]), "back-pressure reaches the sender");
        // Host 2 is not blocked.
        assert!(send(&mut cards[2], 0, b"past"));
        wake_all(&mut crossbar, 3);
        assert_eq!(take(&mut cards[0]), Some((2, b"past".to_vec())));
        // Nothing is lost, and nothing overtakes if there is only one path.
        let mut numbers = Vec::new();
        while let Some((source, payload)) = take(&mut cards[1]) {
            assert_eq!((source, &payload), (0, &vec![payload[0]; 240]));
            numbers.push(payload[0]);
            wake_all(&mut crossbar, 3);
        }
        assert_eq!(numbers.is_sorted(), paths == 1);
        numbers.sort();
        assert!(numbers.into_iter().eq(0..sent));
        assert_eq!(sums(&crossbar).dropped_absent + sums(&crossbar).orphaned, 0);
    }
}

#[test]
fn inputs_take_turns() {
    let (mut crossbar, mut cards) = fabric(4);
    for card in &mut cards[..3] {
        for number in 0..3u8 {
            assert!(send(card, 3, &[number]));
        }
    }
    settle(&mut crossbar);
    let order: Vec<_> = std::iter::from_fn(|| take(&mut cards[3])).map(|(source, _)| source).collect();
    assert_eq!(order, [0, 1, 2, 0, 1, 2, 0, 1, 2]);
}

#[test]
fn inputs_take_turns_at_a_contended_output_too() {
    // They arrive in turn. With several paths, packets on the paths may leave in any order.
    for (paths, share) in [(1, 99..=101), (2, 92..=108), (4, 84..=116)] {
        let (mut crossbar, mut cards) = fabric_with_paths(4, paths, 0);
        let mut got = [0; 4];
        for _ in 0..300 {
            for card in &mut cards[..3] {
                while send(card, 3, &[0; 900]) {}
            }
            wake_all(&mut crossbar, 4);
            // There is room for one or two packets, never for all three.
            if let Some((source, _)) = take(&mut cards[3]) {
                got[usize::from(source)] += 1;
            }
        }
        assert_eq!(got.iter().sum::<i32>(), 300);
        assert!(got[..3].iter().all(|count| share.contains(count)), "{got:?}");
    }
}

#[test]
fn later_packet_does_not_overtake_held_ones() {
    let (mut crossbar, mut cards) = fabric(3);
    while send(&mut cards[0], 2, b"early") || wake_all(&mut crossbar, 3) > 0 {}
    while take(&mut cards[2]).is_some() {}
    // There is room now, and host 2's bell rings, but host 1's bell is read first.
    assert!(send(&mut cards[1], 2, b"late"));
    crossbar.wake(HostId(1));
    settle(&mut crossbar);
    assert_eq!(take(&mut cards[2]), None);
    wake_all(&mut crossbar, 3);
    assert_eq!(take(&mut cards[2]), Some((0, b"early".to_vec())));
    assert_eq!(take(&mut cards[2]), Some((1, b"late".to_vec())));
}

#[test]
fn several_paths_reorder_but_do_not_delay() {
    for paths in 2..=MAX_PATHS {
        let (mut crossbar, mut cards) = fabric_with_paths(2, paths, u64::from(paths));
        settle(&mut crossbar);
        let (mut disordered, mut overtaken) = (0, 0);
        for _ in 0..50 {
            for number in 0..6u8 {
                assert!(send(&mut cards[0], 1, &[number; 300]));
            }
            crossbar.wake(HostId(0));
            settle(&mut crossbar);
            let order: Vec<u8> =
                std::iter::from_fn(|| take(&mut cards[1])).map(|packet| packet.1[0]).collect();
            assert_eq!(order.len(), 6);
            disordered += u32::from(!order.is_sorted());
            let late = |&place: &usize| order[..place].iter().any(|&before| before > order[place]);
            overtaken += (1..6).filter(late).count() as u64;

            assert!(send(&mut cards[0], 1, b"alone"));
            crossbar.wake(HostId(0));
            assert_eq!(crossbar.forward(1), 2, "onto a path and off it in one turn");
            assert_eq!(take(&mut cards[1]), Some((0, b"alone".to_vec())));
            settle(&mut crossbar);
        }
        assert!(disordered > 40, "with {paths} paths, {disordered} messages of 50 came in another order");
        assert_eq!(crossbar.counters().ports[1].overtaken, overtaken);
    }
}

/// A step of a card between two turns of the switch.
#[derive(Debug, Clone, Copy)]
enum Step {
    Send {
        from: usize,
        to: u16,
        length: usize,
    },
    /// Membership of the groups 0 to 2, one bit each.
    Belong {
        at: usize,
        groups: u64,
    },
    Take {
        at: usize,
        most: usize,
    },
    Switch {
        budget: usize,
    },
    Leave {
        host: u16,
    },
    Join,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => (0..5usize, prop_oneof![5 => 0..7u16, 1 => 0xff00..0xff04u16], 0..=SMALL.max_packet)
            .prop_map(|(from, to, length)| Step::Send { from, to, length }),
        2 => (0..5usize, 0..8u64).prop_map(|(at, groups)| Step::Belong { at, groups }),
        8 => (0..5usize, 1..9usize).prop_map(|(at, most)| Step::Take { at, most }),
        8 => (1..9usize).prop_map(|budget| Step::Switch { budget }),
        1 => (0..5u16).prop_map(|host| Step::Leave { host }),
        1 => Just(Step::Join),
    ]
}

proptest! {
    /// Whatever the cards do, each packet is delivered, dropped for a counted reason, or left in a
    /// dead card's ring. None arrives twice at one host. With one path, those of one sender to one
    /// receiver arrive in order.
    #[test]
    fn every_packet_is_accounted_for(
        paths in prop_oneof![Just(1), 2..=MAX_PATHS],
        seed: u64,
        steps in proptest::collection::vec(step(), 1..300),
    ) {
        let (mut crossbar, cards) = fabric_with_paths(5, paths, seed);
        let mut cards: Vec<_> = cards.into_iter().map(Some).collect();
        let (mut sent, mut taken) = (0u64, 0u64);
        let (mut last, mut seen) = ([[0u64; 5]; 5], HashSet::new());
        let mut check = |at: usize, packet: (u16, Vec<u8>)| {
            if let Some(number) = packet.1.get(..8) {
                let number = u64::from_le_bytes(number.try_into().unwrap());
                assert!(seen.insert((at, number)), "twice");
                assert!(paths > 1 || number > last[at][usize::from(packet.0)], "overtaken");
                last[at][usize::from(packet.0)] = number;
            }
        };
        for step in steps {
            match step {
                Step::Send { from, to, length } => {
                    let Some(card) = &mut cards[from] else { continue };
                    let mut payload = vec![0; length];
                    if length >= 8 {
                        payload[..8].copy_from_slice(&(sent + 1).to_le_bytes());
                    }
                    if send(card, to, &payload) {
                        sent += 1;
                        // Some bells are read late.
                        if length % 3 > 0 {
                            crossbar.wake(HostId(from as u16));
                        }
                    }
                }
                Step::Belong { at, groups } => {
                    let Some(card) = &mut cards[at] else { continue };
                    card.sender.set_groups(groups);
                }
                Step::Take { at, most } => {
                    let Some(card) = &mut cards[at] else { continue };
                    for packet in std::iter::from_fn(|| take(card)).take(most) {
                        check(at, packet);
                        taken += 1;
                    }
                    crossbar.wake(HostId(at as u16));
                }
                Step::Switch { budget } => {
                    crossbar.poll();
                    crossbar.forward(budget);
                }
                Step::Leave { host } => {
                    crossbar.detach(HostId(host));
                    cards[usize::from(host)] = None;
                }
                Step::Join => {
                    if let Ok((host, card)) = attach(&mut crossbar, None) {
                        cards[host.index()] = Some(card);
                    }
                }
            }
        }
        loop {
            let mut progress = wake_all(&mut crossbar, 5);
            for (at, card) in cards.iter_mut().enumerate() {
                let Some(card) = card else { continue };
                while let Some(packet) = take(card) {
                    check(at, packet);
                    taken += 1;
                    progress += 1;
                }
            }
            if progress == 0 {
                break;
            }
        }
        let sum = sums(&crossbar);
        prop_assert!(crossbar.take_lost().is_empty());
        let all = sum.packets_in + sum.copied;
        let dropped = sum.dropped_absent + sum.dropped_malformed + sum.copies_lost;
        prop_assert_eq!(all, sum.packets_out + dropped);
        prop_assert_eq!(sum.packets_out, taken + sum.undelivered);
        prop_assert_eq!(sent, sum.packets_in + sum.orphaned);
    }
}
