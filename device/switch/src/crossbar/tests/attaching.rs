//! Cards that attach, leave and die.

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

#[test]
fn ports_are_given_out_and_refused() {
    let mut crossbar = Crossbar::new(2, SMALL);
    assert_eq!(attach(&mut crossbar, Some(HostId(1))).unwrap().0, HostId(1));
    assert_eq!(attach(&mut crossbar, Some(HostId(1))).unwrap_err(), Refusal::Taken(HostId(1)));
    assert_eq!(
        attach(&mut crossbar, Some(HostId(2))).unwrap_err(),
        Refusal::OutOfRange { host: HostId(2), limit: 2 }
    );
    assert_eq!(attach(&mut crossbar, None).unwrap().0, HostId(0));
    assert_eq!(attach(&mut crossbar, None).unwrap_err(), Refusal::Full(2));
    crossbar.detach(HostId(0));
    assert_eq!(attach(&mut crossbar, None).unwrap().0, HostId(0));
    crossbar.detach(HostId(0));
    let (_, switch) = Link::pair(Geometry { max_packet: 999, ..SMALL }).unwrap();
    let refusal = crossbar.attach(switch.sender, switch.receiver, None).unwrap_err();
    assert!(matches!(refusal, Refusal::Geometry { .. }));
    crossbar.detach(HostId(9));
}

#[test]
fn packets_of_dead_card_arrive_or_are_counted() {
    let (mut crossbar, mut cards) = fabric(3);
    settle(&mut crossbar);
    for _ in 0..5 {
        assert!(send(&mut cards[0], 1, b"for the dead"));
        assert!(send(&mut cards[1], 2, b"from the dead"));
    }
    crossbar.wake(HostId(0));
    settle(&mut crossbar);
    assert!(send(&mut cards[0], 1, b"too late"));
    crossbar.detach(HostId(1));
    wake_all(&mut crossbar, 3);
    let counters = crossbar.counters();
    assert_eq!((counters.ports[1].undelivered, counters.ports[0].dropped_absent), (5, 1));
    assert_eq!(std::iter::from_fn(|| take(&mut cards[2])).count(), 5);
    assert!(!counters.ports[1].attached);
}

#[test]
fn packets_on_paths_to_dead_card_are_dropped() {
    let (mut crossbar, mut cards) = fabric_with_paths(3, 4, 0);
    while send(&mut cards[0], 1, &[0; 240]) || wake_all(&mut crossbar, 3) > 0 {}
    let before = crossbar.counters();
    assert_eq!((before.ports[0].packets_in, before.ports[1].packets_out), (16 + 16 + 32, 16));
    crossbar.detach(HostId(1));
    let after = crossbar.counters();
    assert_eq!((after.ports[0].dropped_absent, after.ports[1].undelivered), (16 + 32, 16));
    // The next card at that port gets none of them.
    let (_, mut heir) = attach(&mut crossbar, Some(HostId(1))).unwrap();
    while take(&mut cards[0]).is_some() {}
    wake_all(&mut crossbar, 3);
    assert_eq!(std::iter::from_fn(|| take(&mut heir)).count(), 16, "those that waited at host 0");
    assert_eq!(sums(&crossbar).packets_in, sums(&crossbar).packets_out + sums(&crossbar).dropped_absent);
}

#[test]
fn packets_of_dead_card_arrive_by_all_paths() {
    let (mut crossbar, mut cards) = fabric_with_paths(2, 2, 0);
    settle(&mut crossbar);
    // More packets than the paths hold.
    for number in 0..14 {
        assert!(send(&mut cards[0], 1, &[number; 240]));
    }
    crossbar.detach(HostId(0));
    assert!(crossbar.poll() && !crossbar.sleep(), "packets lie on the paths");
    settle(&mut crossbar);
    assert_eq!(std::iter::from_fn(|| take(&mut cards[1])).count(), 14);
    assert_eq!(sums(&crossbar).orphaned, 0);
}

#[test]
fn drain_of_a_dead_card_is_bounded() {
    let (mut crossbar, mut cards) = fabric(2);
    let mut undead = cards.remove(1);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                send(&mut undead, 9, &[0; 1000]);
            }
        });
        crossbar.detach(HostId(1));
        stop.store(true, Ordering::Relaxed);
    });
    // The last packet may begin just before the end of the ring. A pad before every other packet
    // takes room, too.
    assert!(crossbar.counters().ports[1].bytes_in <= SMALL.capacity as u64 + 1000);
}

#[test]
fn senders_to_a_dead_card_continue() {
    let (mut crossbar, mut cards) = fabric(3);
    while send(&mut cards[0], 1, &[0; 900]) || wake_all(&mut crossbar, 3) > 0 {}
    assert!(crossbar.counters().ports[0].stalls > 0);
    crossbar.detach(HostId(1));
    wake_all(&mut crossbar, 3);
    assert!(send(&mut cards[0], 2, b"next"));
    wake_all(&mut crossbar, 3);
    assert_eq!(take(&mut cards[2]), Some((0, b"next".to_vec())));
    let port = crossbar.counters().ports[0];
    assert!(port.dropped_absent > 0);
    assert_eq!(port.dropped_absent + crossbar.counters().ports[1].undelivered + 1, port.packets_in);
}
