//! Packets to groups whose members join, leave, are full, and die.

use hamlyn_fabric::groups::FIRST_GROUP;
use hamlyn_fabric::{Link, Protocol};

use super::*;
use crate::bursts::tests::bursts;
use crate::bursts::{self, Policy};

const GROUP: u16 = FIRST_GROUP + 5;
const MEMBER: u64 = 1 << 5;

fn attached(mut crossbar: Crossbar, ports: u16) -> (Crossbar, Vec<Link>) {
    let cards = (0..ports).map(|port| attach(&mut crossbar, Some(HostId(port))).unwrap().1).collect();
    (crossbar, cards)
}

/// Creates four hosts, of which `members` are members of the group.
fn fabric(members: &[usize]) -> (Crossbar, Vec<Link>) {
    let (crossbar, mut cards) = attached(Crossbar::new(4, SMALL), 4);
    members.iter().for_each(|&member| cards[member].sender.set_groups(MEMBER));
    (crossbar, cards)
}

/// Returns the first bytes of all packets to a host, until no more arrive.
fn take_all(crossbar: &mut Crossbar, cards: &mut [Link], host: usize) -> Vec<u8> {
    let mut taken = Vec::new();
    loop {
        taken.extend(std::iter::from_fn(|| take(&mut cards[host])).map(|(_, payload)| payload[0]));
        if wake_all(crossbar, cards.len() as u16) == 0 {
            break taken;
        }
    }
}

#[test]
fn group_packet_reaches_only_members_in_order() {
    let (mut crossbar, mut cards) = fabric(&[1, 2]);
    cards[3].sender.set_groups(!MEMBER);
    assert!(send(&mut cards[0], 1, b"before"));
    assert!(send(&mut cards[0], GROUP, b"to all"));
    assert!(send(&mut cards[0], 1, b"after"));
    assert_eq!(settle(&mut crossbar), 4, "each copy is a packet of the budget");
    for (host, expected) in [(1, vec!["before", "to all", "after"]), (2, vec!["to all"])] {
        assert_eq!(cards[host].peek().unwrap().unwrap().header().unwrap().destination, HostId(host as u16));
        let got: Vec<_> = std::iter::from_fn(|| take(&mut cards[host])).collect();
        assert!(
            got.iter().eq(&expected.iter().map(|text| (0, text.as_bytes().to_vec())).collect::<Vec<_>>())
        );
    }
    assert!(take(&mut cards[0]).is_none() && take(&mut cards[3]).is_none());
    let port = crossbar.counters().ports[0];
    assert_eq!((port.packets_in, port.copied, sums(&crossbar).packets_out), (3, 1, 4));
}

#[test]
fn member_receives_its_own_group_packet() {
    let (mut crossbar, mut cards) = fabric(&[0, 3]);
    for from in [0, 1] {
        assert!(send(&mut cards[from], GROUP, &[from as u8]));
        settle(&mut crossbar);
        for host in [0, 3] {
            assert_eq!(take(&mut cards[host]), Some((from as u16, vec![from as u8])));
        }
        crossbar.wake(HostId(1));
    }
    assert!((0..4).all(|host| take(&mut cards[host]).is_none()));
}

#[test]
fn packet_to_an_empty_group_is_dropped() {
    let (mut crossbar, mut cards) = fabric(&[]);
    for number in [FIRST_GROUP - 1, FIRST_GROUP, FIRST_GROUP + 63, FIRST_GROUP + 64] {
        assert!(send(&mut cards[0], number, b"?"));
    }
    // Only the bits of attached cards count.
    cards[2].sender.set_groups(u64::MAX);
    crossbar.detach(HostId(2));
    wake_all(&mut crossbar, 4);
    let port = crossbar.counters().ports[0];
    assert_eq!((port.packets_in, port.dropped_absent, port.copied), (4, 4, 0));
    assert!(!crossbar.pass(HostId(0), HostId(FIRST_GROUP), 1), "it goes by the rings");
}

#[test]
fn members_come_and_go() {
    let (mut crossbar, mut cards) = fabric(&[1]);
    let send_one = |crossbar: &mut Crossbar, cards: &mut [Link]| {
        assert!(send(&mut cards[0], GROUP, b"!"));
        wake_all(crossbar, 4);
        [1, 2].map(|host| take(&mut cards[host]).is_some())
    };
    assert_eq!(send_one(&mut crossbar, &mut cards), [true, false]);
    cards[2].sender.set_groups(u64::MAX);
    assert_eq!(send_one(&mut crossbar, &mut cards), [true, true]);
    cards[1].sender.set_groups(0);
    assert_eq!(send_one(&mut crossbar, &mut cards), [false, true]);
    crossbar.detach(HostId(2));
    cards[2] = attach(&mut crossbar, Some(HostId(2))).unwrap().1;
    assert_eq!(send_one(&mut crossbar, &mut cards), [false, false], "a new card is in no group");
}

#[test]
fn only_a_full_member_loses_its_copies() {
    let (mut crossbar, mut cards) = fabric(&[1, 2, 3]);
    // Host 1 takes all packets, hosts 2 and 3 none: each of these has 16 packets in its ring, and
    // 32 wait for it.
    let mut got = Vec::new();
    for number in 0..100 {
        assert!(send(&mut cards[0], GROUP, &[number; 240]));
        wake_all(&mut crossbar, 4);
        got.extend(std::iter::from_fn(|| take(&mut cards[1])).map(|(_, payload)| payload[0]));
    }
    assert!(got.into_iter().eq(0..100));
    let port = crossbar.counters().ports[0];
    assert_eq!((port.blocked, port.copies_lost), (0, 2 * (100 - 48)));
    assert!([2, 3].into_iter().all(|host| cards[0].sender.is_stopped(HostId(host))));
    assert!(!cards[0].sender.is_stopped(HostId(1)) && !cards[0].sender.is_stopped(HostId(GROUP)));
    // The sender continues, and so do others.
    assert!(send(&mut cards[0], 1, b"past") && send(&mut cards[1], 3, b"past"));
    wake_all(&mut crossbar, 4);
    assert_eq!(take(&mut cards[1]).unwrap().0, 0);
    assert!(take_all(&mut crossbar, &mut cards, 2).into_iter().eq(0..48));
    let three = take_all(&mut crossbar, &mut cards, 3);
    assert!(three.into_iter().filter(|first| *first != b'p').eq(0..48));
    assert!((0..4).all(|host| !cards[0].sender.is_stopped(HostId(host))));
    assert!(!crossbar.holds_anything());
}

#[test]
fn slow_member_does_not_delay_the_others() {
    let (mut crossbar, mut cards) = fabric(&[1, 2]);
    let (mut one, mut two) = (0, 0);
    for number in 0..200_u8 {
        assert!(send(&mut cards[0], GROUP, &[number; 240]));
        wake_all(&mut crossbar, 4);
        while take(&mut cards[1]).is_some() {
            one += 1;
        }
        if number % 20 == 0 {
            two += u64::from(take(&mut cards[2]).is_some());
        }
    }
    let lost = crossbar.counters().ports[0].copies_lost;
    assert_eq!((one, two, lost > 100), (200, 10, true));
}

#[test]
fn stopped_sender_is_rung_when_its_copies_leave() {
    let (mut crossbar, mut cards) = fabric(&[1]);
    while !cards[0].sender.is_stopped(HostId(1)) {
        assert!(send(&mut cards[0], GROUP, &[7; 240]));
        wake_all(&mut crossbar, 4);
    }
    cards[0].hear();
    let before = cards[0].sender.resumptions();
    take_all(&mut crossbar, &mut cards, 1);
    assert_eq!(cards[0].hear(), hamlyn_fabric::Heard::Ring);
    assert!(!cards[0].sender.is_stopped(HostId(1)) && cards[0].sender.resumptions() > before);
}

#[test]
fn leaving_member_does_not_block_others() {
    for dies in [true, false] {
        let (mut crossbar, mut cards) = fabric(&[1, 2]);
        for number in 0..20 {
            assert!(send(&mut cards[0], GROUP, &[number; 240]));
            wake_all(&mut crossbar, 4);
        }
        assert!(cards[1].peek().unwrap().is_some());
        if dies {
            crossbar.detach(HostId(2));
        } else {
            cards[2].sender.set_groups(0);
        }
        let (one, two) = (take_all(&mut crossbar, &mut cards, 1), take_all(&mut crossbar, &mut cards, 2));
        assert!(one.iter().copied().eq(0..20), "dies: {dies}, {one:?}");
        assert!(dies || two.iter().copied().eq(0..20), "{two:?}");
        assert!(send(&mut cards[0], GROUP, b"!"));
        assert_eq!(take_all(&mut crossbar, &mut cards, 1), b"!");
        assert!(!crossbar.holds_anything());
        let sum = sums(&crossbar);
        assert_eq!(sum.packets_in + sum.copied, sum.packets_out + sum.dropped_absent);
    }
}

#[test]
fn stuck_member_is_detached() {
    let (mut crossbar, mut cards) = fabric(&[1, 2]);
    crossbar = crossbar.with_stall_timeout(std::time::Duration::from_secs(8));
    let (mut lost, mut got) = (Vec::new(), 0);
    for second in 0..100 {
        assert!(send(&mut cards[0], GROUP, &[1; 240]));
        wake_all(&mut crossbar, 4);
        while take(&mut cards[1]).is_some() {
            got += 1;
        }
        crossbar.look(std::time::Duration::from_secs(second));
        lost.extend(crossbar.take_lost().into_iter().map(|(host, _)| host));
    }
    assert_eq!((lost, got), (vec![HostId(2)], 100));
}

#[test]
fn group_packet_of_a_dead_card_arrives() {
    let (mut crossbar, mut cards) = fabric(&[0, 1, 2]);
    assert!(send(&mut cards[0], GROUP, b"from the dead"));
    crossbar.detach(HostId(0));
    wake_all(&mut crossbar, 4);
    assert!([1, 2].into_iter().all(|host| take(&mut cards[host]) == Some((0, b"from the dead".to_vec()))));
    assert_eq!((sums(&crossbar).copied, sums(&crossbar).dropped_absent), (1, 0));
}

#[test]
fn all_ports_can_be_members() {
    const PORTS: u16 = 64;
    let (mut crossbar, mut cards) = attached(Crossbar::new(PORTS, SMALL), PORTS);
    cards.iter_mut().for_each(|card| card.sender.set_groups(MEMBER));
    for _ in 0..5 {
        assert!(send(&mut cards[0], GROUP, &[1; 1000]));
        wake_all(&mut crossbar, PORTS);
    }
    for _ in 0..10 {
        for host in 0..PORTS {
            while take(&mut cards[usize::from(host)]).is_some() {}
            crossbar.wake(HostId(host));
        }
        settle(&mut crossbar);
    }
    let sum = sums(&crossbar);
    assert_eq!(sum.packets_out + crossbar.counters().ports[0].copies_lost, 5 * u64::from(PORTS));
    assert!(!crossbar.holds_anything());
}

#[test]
fn each_member_gets_its_copy_through_a_mesh() {
    let mesh = Some(Shape { columns: 2, rows: 2 });
    let (mut crossbar, mut cards) = attached(Crossbar::new(4, SMALL).with_mesh(mesh), 4);
    [0, 1, 3].into_iter().for_each(|host| cards[host].sender.set_groups(MEMBER));
    for number in 0..10 {
        assert!(send(&mut cards[0], GROUP, &[number; 100]) && send(&mut cards[0], 3, &[100 + number]));
    }
    wake_all(&mut crossbar, 4);
    for host in [0, 1] {
        assert!(take_all(&mut crossbar, &mut cards, host).into_iter().eq(0..10));
    }
    let both = (0..10).flat_map(|number| [number, 100 + number]);
    assert!(take_all(&mut crossbar, &mut cards, 3).into_iter().eq(both));
    let sum = sums(&crossbar);
    assert_eq!((sum.packets_in, sum.copied, sum.packets_out), (20, 20, 40));
}

#[test]
fn each_copy_is_cut_and_joined_separately() {
    let bursts = bursts::Bursts { protocol: Protocol::parse(1).unwrap(), ..bursts() };
    let crossbar = Crossbar::new(4, SMALL).with_bursts(&[bursts], Policy::Random(3));
    let (mut crossbar, mut cards) = attached(crossbar, 4);
    [1, 2].into_iter().for_each(|host| cards[host].sender.set_groups(MEMBER));
    let mut got = [Vec::new(), Vec::new()];
    for start in (0..100_000).step_by(500) {
        let data: Vec<u8> = (start..start + 500_u32).map(|place| place as u8).collect();
        assert!(send(&mut cards[0], GROUP, &bursts::tests::packet(start, &data)));
        wake_all(&mut crossbar, 4);
        for (host, got) in [1, 2].into_iter().zip(&mut got) {
            while let Some((_, bytes)) = take(&mut cards[host]) {
                let (place, data) = bursts::tests::parse(&bytes).unwrap();
                assert_eq!(place as usize, got.len());
                got.extend_from_slice(data);
            }
        }
    }
    assert!(got.iter().all(|bytes| bytes.len() == 100_000) && got[0] == got[1]);
    assert!((0..).zip(&got[0]).all(|(place, byte)| *byte == place as u8));
    assert!([1, 2].into_iter().all(|host| crossbar.counters().ports[host].cut > 50));
}
