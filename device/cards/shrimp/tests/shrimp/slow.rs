//! Destinations that fill the Outgoing FIFO: which of them the card waits for, and which it cuts
//! off.

use hamlyn_abi::shrimp::entry::*;
use hamlyn_abi::shrimp::registers::*;
use hamlyn_card::card::{Card, Place};
use hamlyn_test_host::Commands;

use crate::support::*;

/// Returns a host that maps a page to each of hosts 1 and 2, for [`flood`].
fn flooding() -> Host {
    let mut host = Host::new(0);
    host.map_out(10, 1, 20, SHRIMP_MODE_SINGLE);
    host.map_out(11, 2, 21, SHRIMP_MODE_SINGLE);
    host
}

/// Stores as long as stores are accepted, which is for ever if the destination is cut off.
fn flood(host: &mut Host, page: u64) {
    for _ in 0..1000 {
        if host.card.takes_stores() {
            host.store_seen(page * PAGE, &[7; 8]);
        }
    }
}

/// Advances the clock in steps of 10 ms, as for a card whose process runs all the time.
fn run_for(host: &mut Host, milliseconds: u64) {
    for _ in 0..milliseconds / 10 {
        host.wait(10_000);
    }
}

#[test]
fn stopped_destination_blocks_stores_for_three_seconds() {
    let mut host = flooding();
    host.wire.stopped = vec![1];
    flood(&mut host, 10);
    host.raised();
    run_for(&mut host, 2990);
    assert!(!host.card.takes_stores());
    run_for(&mut host, 10);
    assert!(host.card.takes_stores());
    assert_eq!(host.raised(), [SHRIMP_VECTOR_OUTGOING as u16]);
    assert_eq!((host.load_cut_off(), host.load_register(SHRIMP_REG_OUT_FILL)), (1 << 1, 0));
    assert!(host.counter("packets_cut_off") > 100);
    // Other hosts are served, and stores for the first go nowhere.
    host.store_seen(10 * PAGE, b"lost");
    host.store_seen(11 * PAGE, b"sent");
    host.wire.stopped.clear();
    assert_eq!(host.sent_data(), [(2, 21 * PAGE, b"sent".to_vec())]);
    run_for(&mut host, 60_000);
    assert_eq!(host.load_cut_off(), 0);
    host.store_seen(10 * PAGE, b"back");
    assert_eq!(host.sent_data(), [(1, 20 * PAGE, b"back".to_vec())]);
}

#[test]
fn destination_with_rare_packets_is_cut_off() {
    let mut host = flooding();
    host.wire.room = Some(0);
    flood(&mut host, 10);
    for tenth in 0..30 {
        assert_eq!(host.load_cut_off(), 0, "{tenth}");
        run_for(&mut host, 100);
        host.wire.sent.clear();
        host.wire.room = Some(1);
        host.transmit();
        flood(&mut host, 10);
    }
    assert_eq!(host.load_cut_off(), 1 << 1);
    // A reset of the card does not make the destination fast.
    host.with(|card, ports, _| card.reset(ports));
    let Ok(()) = host.enable();
    assert_eq!(host.load_cut_off(), 1 << 1);
}

/// Lets the network take `packets` packets of destinations that are not stopped.
fn take(host: &mut Host, packets: usize) {
    host.wire.sent.clear();
    host.wire.room = Some(packets);
    while host.transmit().has_worked() {}
}

/// Lets the destination of page 10 take `packets` packets of 28 bytes in each half second, for 3 s.
fn trickle(host: &mut Host, packets: usize) {
    for _ in 0..6 {
        take(host, packets);
        flood(host, 10);
        run_for(host, 500);
    }
}

#[test]
fn slow_but_steady_destination_is_waited_for() {
    let mut host = flooding();
    host.wire.room = Some(0);
    flood(&mut host, 10);
    for _ in 0..10 {
        trickle(&mut host, 7);
    }
    assert_eq!((host.load_cut_off(), host.counter("packets_cut_off")), (0, 0));
}

#[test]
fn almost_stopped_destination_is_cut_off() {
    let mut host = flooding();
    host.wire.room = Some(0);
    flood(&mut host, 10);
    trickle(&mut host, 6);
    assert_eq!(host.load_cut_off(), 1 << 1);
}

#[test]
fn all_blocking_destinations_are_cut_off_together() {
    let mut host = flooding();
    host.wire.stopped = vec![1, 2];
    while host.card.takes_stores() {
        host.store_seen(10 * PAGE, &[7; 8]);
        host.store_seen(11 * PAGE, &[7; 8]);
    }
    run_for(&mut host, 2990);
    assert_eq!(host.load_cut_off(), 0);
    run_for(&mut host, 10);
    assert_eq!((host.load_cut_off(), host.load_register(SHRIMP_REG_OUT_FILL)), (1 << 1 | 1 << 2, 0));
}

/// Returns a host that maps a page to each of hosts 1 to 8: pages 10 to 17.
fn mapped_to_eight() -> Host {
    let mut host = Host::new(0);
    (1..=8).for_each(|node| host.map_out(9 + node, node, 20, SHRIMP_MODE_SINGLE));
    host
}

/// Stores for each host in turn as long as stores are accepted, like [`flood`].
fn flood_eight(host: &mut Host) {
    for _ in 0..100 {
        if host.card.takes_stores() {
            (10..18).for_each(|page| host.store_seen(page * PAGE, &[7; 8]));
        }
    }
}

#[test]
fn destinations_behind_slow_link_are_waited_for() {
    let mut host = mapped_to_eight();
    host.wire.room = Some(0);
    flood_eight(&mut host);
    for _ in 0..60 {
        take(&mut host, 8);
        flood_eight(&mut host);
        run_for(&mut host, 500);
    }
    assert_eq!((host.load_cut_off(), host.counter("packets_cut_off")), (0, 0));
}

#[test]
fn slow_destination_among_several_is_cut_off_alone() {
    let mut host = mapped_to_eight();
    host.wire.stopped = (1..=8).collect();
    flood_eight(&mut host);
    host.wire.stopped = vec![3];
    for _ in 0..6 {
        take(&mut host, 14);
        flood_eight(&mut host);
        run_for(&mut host, 500);
    }
    assert_eq!(host.load_cut_off(), 1 << 3);
}

#[test]
fn packets_that_came_late_are_not_judged() {
    let mut host = flooding();
    host.wire.stopped = vec![2];
    host.wire.room = Some(0);
    flood(&mut host, 10);
    run_for(&mut host, 2990);
    host.wire.room = Some(10);
    while host.transmit().has_worked() {}
    flood(&mut host, 11);
    run_for(&mut host, 10);
    assert_eq!(host.load_cut_off(), 1 << 1);
}

#[test]
fn second_slow_destination_is_judged_sooner() {
    let mut host = flooding();
    host.wire.stopped = vec![1, 2];
    flood(&mut host, 10);
    run_for(&mut host, 3000);
    flood(&mut host, 11);
    assert!(!host.card.takes_stores());
    run_for(&mut host, 240);
    assert_eq!(host.load_cut_off(), 1 << 1);
    run_for(&mut host, 10);
    assert_eq!(host.load_cut_off(), 1 << 1 | 1 << 2);
}

#[test]
fn second_destination_that_takes_packets_is_kept() {
    let mut host = flooding();
    host.wire.stopped = vec![1];
    flood(&mut host, 10);
    run_for(&mut host, 3000);
    for _ in 0..20 {
        flood(&mut host, 11);
        run_for(&mut host, 50);
        host.wire.room = Some(1);
        while host.transmit().has_worked() {}
        host.wire.sent.clear();
        flood(&mut host, 11);
        host.wire.room = None;
    }
    assert_eq!(host.load_cut_off(), 1 << 1);
}

#[test]
fn destination_with_small_share_is_not_cut_off() {
    let mut host = flooding();
    host.wire.stopped = vec![1, 2];
    host.store_seen(11 * PAGE, &[7; 8]);
    flood(&mut host, 10);
    run_for(&mut host, 3000);
    assert_eq!(host.load_cut_off(), 1 << 1);
}

#[test]
fn room_is_made_by_cutting_off_the_fullest() {
    let mut host = flooding();
    host.wire.stopped = vec![1, 2];
    for _ in 0..10 {
        host.store_seen(11 * PAGE, &[7; 8]);
    }
    flood(&mut host, 10);
    host.raised();
    assert!(host.with(|card, ports, _| card.make_room(ports)));
    assert_eq!((host.load_cut_off(), host.raised()), (1 << 1, vec![SHRIMP_VECTOR_OUTGOING as u16]));
    assert!(host.with(|card, ports, _| card.make_room(ports)));
    assert_eq!((host.load_cut_off(), host.load_register(SHRIMP_REG_OUT_FILL)), (1 << 1 | 1 << 2, 0));
    assert!(!host.with(|card, ports, _| card.make_room(ports)), "nothing waits");
}

/// Asks the card to make room every 10 ms, as the bus does for an overdue access. Destinations take
/// `packets` packets in each interval. Returns the number of calls until a destination is cut off.
fn calls_until_cut(host: &mut Host, packets: usize) -> usize {
    let before = host.load_cut_off();
    for call in 1..100 {
        host.wait(10_000);
        take(host, packets);
        flood(host, 11);
        assert!(host.with(|card, ports, _| card.make_room(ports)));
        if host.load_cut_off() != before {
            return call;
        }
    }
    panic!("none was cut off")
}

#[test]
fn fast_destination_outlasts_a_slow_one() {
    let mut host = flooding();
    host.wire.stopped = vec![1];
    flood(&mut host, 10);
    assert!(host.with(|card, ports, _| card.make_room(ports)));
    assert_eq!(host.load_cut_off(), 1 << 1);
    flood(&mut host, 11);
    assert_eq!(calls_until_cut(&mut host, 10), 30, "all that an access is waited for");
    assert_eq!(host.load_cut_off(), 1 << 1 | 1 << 2);
}

#[test]
fn slow_destination_makes_room_at_once() {
    let mut host = flooding();
    host.wire.room = Some(0);
    flood(&mut host, 11);
    assert_eq!(calls_until_cut(&mut host, 5), 1);
}

#[test]
fn stalled_or_unlinked_card_cuts_off_no_destination() {
    let mut host = flooding();
    host.wire.stopped = vec![1];
    flood(&mut host, 10);
    for _ in 0..11 {
        host.wait(60_000_000);
        assert_eq!(host.load_cut_off(), 0);
    }
    host.with(|card, ports, _| card.link_changed(ports, None));
    run_for(&mut host, 10_000);
    host.with(|card, ports, _| card.link_changed(ports, Some(Place { host: 0, ports: 6 })));
    assert_eq!(host.load_cut_off(), 0);
    run_for(&mut host, 300);
    assert_eq!(host.load_cut_off(), 1 << 1);
}

#[test]
fn lower_threshold_counts_as_stopping_the_processors() {
    let mut host = flooding();
    host.wire.stopped = vec![1];
    host.store_seen(10 * PAGE, b"x");
    let Ok(()) = host.store(SHRIMP_REG_OUT_THRESHOLD, 4, 1);
    assert!(!host.card.takes_stores());
    run_for(&mut host, 3000);
    assert!(host.card.takes_stores());
}

#[test]
fn transfer_to_cut_off_destination_ends() {
    let mut host = flooding();
    host.wire.stopped = vec![1];
    flood(&mut host, 10);
    run_for(&mut host, 3000);
    host.map_out(12, 1, 22, SHRIMP_MODE_DELIBERATE);
    let before = host.counter("packets_cut_off");
    host.store_memory(12 * PAGE, 4, 64);
    host.sent();
    assert_eq!((host.counter("packets_cut_off") - before, host.counter("transfers_done")), (1, 1));
    assert_eq!(host.load_memory(12 * PAGE, 4), 0);
}
