//! Cards that accept nothing: packets held for them, stops, and detaching.

use std::time::Duration;

use hamlyn_fabric::bell::Heard;

use super::*;
use crate::output::Output;

/// Sends to a host that takes nothing, like a card that obeys stops. Returns how many packets were
/// sent.
fn send_until_stopped(crossbar: &mut Crossbar, cards: &mut [Link], from: usize, to: u16) -> u8 {
    let mut sent = 0;
    while sent < 100 && !cards[from].sender.is_stopped(HostId(to)) && send(&mut cards[from], to, &[sent; 240])
    {
        sent += 1;
        wake_all(crossbar, cards.len() as u16);
    }
    sent
}

#[test]
fn full_card_does_not_block_other_traffic() {
    for paths in [1, 2] {
        let (mut crossbar, mut cards) = fabric_with_paths(3, paths, 5);
        let sent = send_until_stopped(&mut crossbar, &mut cards, 0, 1);
        assert!(sent < 100);
        for number in 0..100u8 {
            assert!(send(&mut cards[0], 2, &[number; 240]));
            wake_all(&mut crossbar, 3);
            assert_eq!(take(&mut cards[2]), Some((0, vec![number; 240])), "past what waits for host 1");
        }
        let got: Vec<u8> = std::iter::from_fn(|| {
            wake_all(&mut crossbar, 3);
            take(&mut cards[1]).map(|(_, payload)| payload[0])
        })
        .collect();
        assert_eq!((got.len(), got.is_sorted()), (sent.into(), paths == 1));
    }
}

/// Returns whether a card was rung, and clears the ring.
fn was_rung(card: &Link) -> bool {
    card.hear() == Heard::Ring
}

/// Takes all packets, including those that arrive meanwhile.
fn take_all(crossbar: &mut Crossbar, cards: &mut [Link], host: usize) -> Vec<u8> {
    let next = || {
        wake_all(crossbar, cards.len() as u16);
        take(&mut cards[host]).map(|(_, payload)| payload[0])
    };
    std::iter::from_fn(next).collect()
}

#[test]
fn sender_is_stopped_and_later_resumed() {
    let (mut crossbar, mut cards) = fabric(3);
    // Sixteen packets fill the ring. The second held packet exceeds the mark.
    assert_eq!(send_until_stopped(&mut crossbar, &mut cards, 0, 1), 18);
    let stopped = |cards: &[Link]| [0, 1, 2].map(|host| cards[0].sender.is_stopped(HostId(host)));
    assert_eq!(stopped(&cards), [false, true, false]);
    assert!(!cards[2].sender.is_stopped(HostId(1)), "nothing of its own waits");
    assert_eq!(crossbar.counters().ports[0].stops, 1);
    was_rung(&cards[0]);
    assert_eq!(take_all(&mut crossbar, &mut cards, 1).len(), 18);
    assert_eq!((stopped(&cards), was_rung(&cards[0])), ([false; 3], true));
    assert_eq!((crossbar.transit.is_waiting(), sums(&crossbar).waiting), (false, 0));
}

#[test]
fn packets_after_a_stop_are_held_in_order() {
    let (mut crossbar, mut cards) = fabric(2);
    let mut sent = send_until_stopped(&mut crossbar, &mut cards, 0, 1);
    // Packets that were in flight, and packets that ignore stops.
    for _ in 0..10 {
        assert!(send(&mut cards[0], 1, &[sent; 240]));
        sent += 1;
    }
    wake_all(&mut crossbar, 2);
    assert!(
        !crossbar.pass(HostId(0), HostId(1), 0),
        "a packet that is passed by hand does not overtake them"
    );
    assert!(take_all(&mut crossbar, &mut cards, 1).into_iter().eq(0..sent));
    assert!(crossbar.pass(HostId(0), HostId(1), 0));
}

#[test]
fn card_ignoring_stops_stays_within_its_bounds() {
    let (mut crossbar, mut cards) = fabric(12);
    // Ten hosts take nothing; host 10 sends to all of them.
    for round in 0..1000 {
        send(&mut cards[10], round % 10, &[0; 240]);
        wake_all(&mut crossbar, 12);
        assert!(crossbar.transit.held_from(10) <= 8 * SMALL.capacity);
        let pair = |output: Option<&Output>| output.map_or(0, |output| output.held().bytes_from(10));
        assert!(crossbar.outputs.iter().all(|output| pair(output) <= 2 * SMALL.capacity));
    }
    assert!(!send(&mut cards[10], 11, b"late"), "it waits for itself");
    assert!(crossbar.counters().ports[10].blocked > 0);
    assert!(send(&mut cards[11], 10, b"past"));
    wake_all(&mut crossbar, 12);
    assert_eq!(take(&mut cards[10]), Some((11, b"past".to_vec())));
    // It continues as soon as one of the ten takes a packet.
    assert!(!take_all(&mut crossbar, &mut cards, 3).is_empty());
    assert!(send(&mut cards[10], 11, b"late"));
}

#[test]
fn packets_held_for_a_dead_card_are_dropped() {
    let (mut crossbar, mut cards) = fabric(3);
    let sent = send_until_stopped(&mut crossbar, &mut cards, 0, 1);
    was_rung(&cards[0]);
    crossbar.detach(HostId(1));
    assert!(was_rung(&cards[0]) && !cards[0].sender.is_stopped(HostId(1)));
    let counters = crossbar.counters();
    let (dropped, undelivered) = (counters.ports[0].dropped_absent, counters.ports[1].undelivered);
    assert_eq!((dropped + undelivered, undelivered), (sent.into(), 16));
    assert_eq!((crossbar.transit.is_waiting(), crossbar.transit.held_from(0)), (false, 0));
}

#[test]
fn held_packets_go_before_the_next_cards() {
    let (mut crossbar, mut cards) = fabric(3);
    let sent = send_until_stopped(&mut crossbar, &mut cards, 0, 1);
    crossbar.detach(HostId(0));
    cards[0] = attach(&mut crossbar, Some(HostId(0))).unwrap().1;
    assert!(cards[0].sender.is_stopped(HostId(1)) && !cards[0].sender.is_stopped(HostId(2)));
    assert!(send(&mut cards[0], 1, &[sent; 240]));
    wake_all(&mut crossbar, 3);
    assert!(take_all(&mut crossbar, &mut cards, 1).into_iter().eq(0..=sent));
    assert!(!cards[0].sender.is_stopped(HostId(1)));
}

/// Creates a fabric with a stall time-out of 8 s, which is checked every second.
fn impatient() -> (Crossbar, Vec<Link>) {
    let (crossbar, cards) = fabric(3);
    (crossbar.with_stall_timeout(Duration::from_secs(8)), cards)
}

fn look(crossbar: &mut Crossbar, seconds: std::ops::Range<u64>) -> Vec<(HostId, Lost)> {
    seconds.for_each(|second| crossbar.look(Duration::from_secs(second)));
    crossbar.take_lost()
}

#[test]
fn stalled_card_is_detached() {
    let (mut crossbar, mut cards) = impatient();
    // Its ring is full, but no packet waits.
    for _ in 0..16 {
        assert!(send(&mut cards[0], 1, &[0; 240]));
    }
    wake_all(&mut crossbar, 3);
    assert_eq!((look(&mut crossbar, 0..100), crossbar.next_look()), (Vec::new(), None));
    assert!(send(&mut cards[0], 1, b"waits"));
    wake_all(&mut crossbar, 3);
    assert_eq!(crossbar.next_look(), Some(Duration::from_secs(1)));
    assert_eq!(look(&mut crossbar, 100..108), []);
    assert_eq!(look(&mut crossbar, 108..109), [(HostId(1), Lost::Stalled(Duration::from_secs(8)))]);
    let counters = crossbar.counters();
    assert_eq!((counters.ports[1].attached, counters.ports[1].stalled_out), (false, 1));
    assert_eq!((counters.ports[0].dropped_absent, counters.ports[1].undelivered), (1, 16));
    // A new card may attach to the port.
    assert!(attach(&mut crossbar, Some(HostId(1))).is_ok());
}

#[test]
fn slow_card_stays_attached() {
    let (mut crossbar, mut cards) = impatient();
    for second in 0..100 {
        send(&mut cards[0], 1, &[0; 900]);
        wake_all(&mut crossbar, 3);
        if second % 7 == 0 {
            take(&mut cards[1]);
        }
        assert_eq!(look(&mut crossbar, second..second + 1), []);
    }
    assert!(crossbar.counters().ports[0].stalls > 0);
}

#[test]
fn stopped_switch_does_not_detach_cards() {
    let (mut crossbar, mut cards) = impatient();
    send_until_stopped(&mut crossbar, &mut cards, 0, 1);
    assert_eq!(look(&mut crossbar, 0..3), []);
    for _ in 0..9 {
        assert_eq!(look(&mut crossbar, 1000..1001), [], "an age later, that is one look");
    }
    take(&mut cards[1]);
    assert_eq!(look(&mut crossbar, 1001..1009), []);
}
