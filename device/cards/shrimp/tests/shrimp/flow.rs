//! The FIFOs and their thresholds (section 4): nothing overflows, nothing is lost.

use hamlyn_abi::shrimp::entry::*;
use hamlyn_abi::shrimp::registers::*;
use hamlyn_card::card::{Card, Place, Progress};
use hamlyn_test_host::Commands;

use crate::support::*;

#[test]
fn at_its_threshold_the_outgoing_fifo_takes_no_store_and_interrupts_once() {
    let mut host = Host::new(0);
    host.map_out(10, 1, 20, SHRIMP_MODE_SINGLE);
    let Ok(()) = host.store(SHRIMP_REG_OUT_THRESHOLD, 4, 100);
    host.wire.room = Some(0);
    let mut stores = 0;
    while host.card.takes_stores() {
        host.store_seen(10 * PAGE + stores, b"x");
        stores += 1;
    }
    assert_eq!((stores, host.load_register(SHRIMP_REG_OUT_FILL)), (5, 5 * 21));
    assert_eq!(host.raised(), [SHRIMP_VECTOR_OUTGOING as u16]);
    assert_eq!(host.transmit(), Progress::LinkFull);
    host.wire.room = Some(1);
    assert_eq!(host.transmit(), Progress::Worked);
    assert!(host.card.takes_stores(), "below the threshold");
    host.store_seen(10 * PAGE, b"y");
    assert!(!host.card.takes_stores());
    assert!(host.raised().is_empty(), "it has not been down to half");
    host.wire.room = None;
    assert_eq!(host.sent().len(), 6);
    assert_eq!((host.load_register(SHRIMP_REG_OUT_FILL), host.counter("outgoing_full")), (0, 1));
    for _ in 0..5 {
        host.store_seen(10 * PAGE, b"z");
    }
    assert_eq!(host.raised(), [SHRIMP_VECTOR_OUTGOING as u16]);
}

#[test]
fn the_outgoing_fifo_never_holds_more_than_it_can() {
    let mut host = Host::new(0);
    host.map_out(10, 1, 20, SHRIMP_MODE_SINGLE);
    host.map_out(11, 1, 21, SHRIMP_MODE_DELIBERATE);
    let Ok(()) = host.store(SHRIMP_REG_OUT_THRESHOLD, 4, u64::from(u32::MAX));
    host.wire.room = Some(0);
    while host.card.takes_stores() {
        host.store_seen(10 * PAGE, &[1; 16]);
    }
    // By the window it is filled to the end; what is refused is not in the page either.
    let window = u64::from(PAGES) * PAGE + 10 * PAGE;
    let mut stores = 0;
    while host.counter("stores_refused") == 0 && stores < 10_000 {
        stores += 1;
        host.store_memory(window, 8, stores);
    }
    assert_eq!(host.load_memory(window, 8), stores - 1);
    let fill = host.load_register(SHRIMP_REG_OUT_FILL);
    assert!(fill <= OPTIONS.fifo.into() && fill > u64::from(OPTIONS.fifo) - 100, "{fill}");
    // What is sent only when that is said needs no room now.
    host.store_memory(window + PAGE, 8, 1);
    assert_eq!(host.counter("stores_refused"), 1);
    host.wire.room = None;
    host.sent();
    host.store_memory(window, 8, 1);
    assert_eq!(host.counter("stores_refused"), 1);
}

#[test]
fn the_incoming_fifo_never_holds_more_than_it_can() {
    let mut host = Host::new(1);
    host.map_in(20, 0);
    let Ok(()) = host.store(SHRIMP_REG_IN_THRESHOLD, 4, u64::from(u32::MAX));
    let Ok(()) = host.store(SHRIMP_REG_HOLD, 4, 1);
    for _ in 0..4 {
        if host.card.takes_packets() {
            host.arrive(0, &packet(0, 1, 20 * PAGE, &[1; 4096]));
        }
    }
    assert_eq!(host.load_register(SHRIMP_REG_IN_FILL), 3 * (4096 + 20));
}

#[test]
fn the_engine_waits_for_room_in_the_fifo() {
    let mut host = Host::new(0);
    host.map_out(10, 1, 20, SHRIMP_MODE_DELIBERATE);
    let Ok(()) = host.store(SHRIMP_REG_OUT_THRESHOLD, 4, 600);
    host.wire.room = Some(0);
    host.store_memory(10 * PAGE, 4, 1024);
    for _ in 0..10 {
        host.transmit();
    }
    assert_eq!(host.load_register(SHRIMP_REG_OUT_FILL), 3 * (256 + 20));
    host.wire.room = None;
    assert_eq!(host.sent().len(), 16);
}

#[test]
fn a_host_that_takes_nothing_holds_up_nobody_else() {
    let mut host = Host::new(0);
    for (page, node) in [(10, 1), (11, 2), (12, 3)] {
        host.map_out(page, node, page.into(), SHRIMP_MODE_SINGLE);
    }
    host.wire.stopped = vec![2];
    for round in 0..3_u8 {
        for page in 10..13 {
            host.store_seen(page * PAGE, &[round]);
        }
    }
    let order = |sent: Vec<(u16, u64, Vec<u8>)>| {
        sent.into_iter().map(|(to, _, data)| (to, data[0])).collect::<Vec<_>>()
    };
    assert_eq!(order(host.sent_data()), [(1, 0), (3, 0), (1, 1), (3, 1), (1, 2), (3, 2)]);
    host.wire.stopped.clear();
    assert_eq!(order(host.sent_data()), [(2, 0), (2, 1), (2, 2)]);
}

#[test]
fn what_is_held_fills_the_incoming_fifo_and_then_waits_in_the_network() {
    let mut host = Host::new(1);
    host.map_in(20, 0);
    let Ok(()) = host.store(SHRIMP_REG_IN_THRESHOLD, 4, 60);
    let Ok(()) = host.store(SHRIMP_REG_HOLD, 4, 1);
    for byte in 0..3_u8 {
        assert!(host.card.takes_packets());
        host.arrive(0, &packet(0, 1, 20 * PAGE + u64::from(byte), &[byte + 1]));
    }
    assert!(!host.card.takes_packets());
    assert_eq!((host.load_register(SHRIMP_REG_IN_FILL), host.counter("incoming_full")), (63, 1));
    assert_eq!(host.bytes(20 * PAGE, 3), [0; 3]);
    // What is held is looked at when it is deposited: by the mapping of then.
    let Ok(()) = host.store(SHRIMP_REG_HOLD, 4, 0);
    assert_eq!(host.bytes(20 * PAGE, 3), [1, 2, 3]);
    assert!(host.card.takes_packets());
    assert_eq!(host.load_register(SHRIMP_REG_IN_FILL), 0);
}

#[test]
fn thresholds_and_times_are_kept_within_what_there_is() {
    let mut host = Host::new(0);
    for (register, written, read) in [
        (SHRIMP_REG_OUT_THRESHOLD, 0, 1),
        (SHRIMP_REG_OUT_THRESHOLD, u32::MAX, OPTIONS.fifo),
        (SHRIMP_REG_IN_THRESHOLD, 0, 1),
        (SHRIMP_REG_IN_THRESHOLD, u32::MAX, OPTIONS.fifo),
        (SHRIMP_REG_MERGE_TIME, u32::MAX, SHRIMP_MAX_MERGE_TIME),
        (SHRIMP_REG_MERGE_TIME, 7, 7),
        (SHRIMP_REG_HOLD, 2, 0),
    ] {
        let Ok(()) = host.store(register, 4, written.into());
        assert_eq!(host.load_register(register), u64::from(read), "register {register:#x}");
    }
    assert_eq!(host.load_register(SHRIMP_REG_PAGES), u64::from(PAGES));
    assert_eq!(host.load_register(SHRIMP_REG_COLUMNS), u64::from(COLUMNS));
    assert_eq!(host.load_register(SHRIMP_REG_FIFO), u64::from(OPTIONS.fifo));
    assert_eq!(host.load_register(SHRIMP_REG_SNOOPS), 0);
    host.with(|card, ports, _| card.snooping_changed(ports, true));
    assert_eq!(host.load_register(SHRIMP_REG_SNOOPS), 1);
}

#[test]
fn a_reset_forgets_everything() {
    let mut host = Host::new(0);
    host.map_out(10, 1, 20, SHRIMP_MODE_BLOCKED);
    host.map_in(11, 1);
    host.store_seen(10 * PAGE, b"a");
    host.with(|card, ports, _| card.reset(ports));
    let Ok(()) = host.enable();
    host.wait(1000);
    host.arrive(1, &packet(1, 0, 11 * PAGE, b"b"));
    assert_eq!((host.sent().len(), host.counter("not_mapped_in")), (0, 1));
    assert_eq!(host.load_register(SHRIMP_REG_OUT_FILL), 0);
}

#[test]
fn a_host_cannot_hold_up_the_network_for_ever() {
    let mut host = Host::new(1);
    host.map_in(20, 0);
    let Ok(()) = host.store(SHRIMP_REG_IN_THRESHOLD, 4, 60);
    let Ok(()) = host.store(SHRIMP_REG_HOLD, 4, 1);
    host.wait(60_000_000);
    for byte in 0..3_u8 {
        assert!(host.card.takes_packets());
        host.arrive(0, &packet(0, 1, 20 * PAGE + u64::from(byte), &[byte + 1]));
    }
    assert!(!host.card.takes_packets());
    host.wait(4_999_000);
    assert_eq!((host.card.takes_packets(), host.bytes(20 * PAGE, 3)), (false, vec![0; 3]));
    host.wait(1_000);
    assert_eq!((host.card.takes_packets(), host.bytes(20 * PAGE, 3)), (true, vec![1, 2, 3]));
    assert_eq!(host.load_register(SHRIMP_REG_HOLD), 0);
    // Nor by a threshold that it lowers.
    host.wait(300_000_000);
    let Ok(()) = host.store(SHRIMP_REG_HOLD, 4, 1);
    host.arrive(0, &packet(0, 1, 20 * PAGE, &[9]));
    host.wait(5_000_000);
    assert_eq!(host.bytes(20 * PAGE, 1), [1], "it is not full");
    let Ok(()) = host.store(SHRIMP_REG_IN_THRESHOLD, 4, 1);
    assert!(!host.card.takes_packets());
    host.wait(5_000_000);
    assert_eq!((host.card.takes_packets(), host.bytes(20 * PAGE, 1)), (true, vec![9]));
}

#[test]
fn network_is_not_held_twice_in_five_minutes() {
    let mut host = Host::new(1);
    host.map_in(20, 0);
    let stop = |host: &mut Host| {
        let Ok(()) = host.store(SHRIMP_REG_IN_THRESHOLD, 4, 1);
        let Ok(()) = host.store(SHRIMP_REG_HOLD, 4, 1);
        host.arrive(0, &packet(0, 1, 20 * PAGE, &[1]));
        !host.card.takes_packets()
    };
    assert!(stop(&mut host));
    host.wait(5_000_000);
    assert!(host.card.takes_packets());
    assert!(!stop(&mut host), "at once");
    host.with(|card, ports, _| card.reset(ports));
    let Ok(()) = host.enable();
    host.wait(299_000_000);
    assert!(!stop(&mut host), "after a reset");
    host.wait(1_000_000);
    assert_eq!(host.counter("holds_refused"), 1);
    assert!(stop(&mut host));
}

/// A host that maps a page to each of hosts 1 and 2, and stores for them as long as stores are taken.
fn flooding() -> Host {
    let mut host = Host::new(0);
    host.map_out(10, 1, 20, SHRIMP_MODE_SINGLE);
    host.map_out(11, 2, 21, SHRIMP_MODE_SINGLE);
    host
}

/// Stores as long as stores are taken; to a host that is cut off that is for ever.
fn flood(host: &mut Host, page: u64) {
    for _ in 0..1000 {
        if host.card.takes_stores() {
            host.store_seen(page * PAGE, &[7; 8]);
        }
    }
}

/// So many milliseconds go by, as a card sees them that runs.
fn run_for(host: &mut Host, milliseconds: u64) {
    for _ in 0..milliseconds / 10 {
        host.wait(10_000);
    }
}

#[test]
fn destination_that_takes_nothing_stops_stores_for_three_seconds() {
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
    // Others are served, and what is stored for that one goes nowhere.
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
fn destination_that_takes_a_packet_now_and_then_is_cut_off() {
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
    // A reset of the card does not make it fast.
    host.with(|card, ports, _| card.reset(ports));
    let Ok(()) = host.enable();
    assert_eq!(host.load_cut_off(), 1 << 1);
}

/// A destination takes so many packets of 28 bytes each half second, for 3 s.
fn trickle(host: &mut Host, packets: usize) {
    for _ in 0..6 {
        host.wire.sent.clear();
        host.wire.room = Some(packets);
        while host.transmit().has_worked() {}
        flood(host, 10);
        run_for(host, 500);
    }
}

#[test]
fn destination_that_is_slow_but_takes_its_packets_is_waited_for() {
    let mut host = flooding();
    host.wire.room = Some(0);
    flood(&mut host, 10);
    for _ in 0..10 {
        trickle(&mut host, 50);
    }
    assert_eq!((host.load_cut_off(), host.counter("packets_cut_off")), (0, 0));
}

#[test]
fn destination_that_takes_less_than_half_a_fifo_is_cut_off() {
    let mut host = flooding();
    host.wire.room = Some(0);
    flood(&mut host, 10);
    trickle(&mut host, 45);
    assert_eq!(host.load_cut_off(), 1 << 1);
}

#[test]
fn all_destinations_that_stop_stores_are_cut_off_together() {
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

#[test]
fn second_slow_destination_is_judged_after_a_shorter_time() {
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
fn second_destination_that_takes_its_packets_is_not_cut_off() {
    let mut host = flooding();
    host.wire.stopped = vec![1];
    flood(&mut host, 10);
    run_for(&mut host, 3000);
    for _ in 0..20 {
        flood(&mut host, 11);
        run_for(&mut host, 50);
        host.wire.room = Some(10);
        while host.transmit().has_worked() {}
        host.wire.sent.clear();
        flood(&mut host, 11);
        host.wire.room = None;
    }
    assert_eq!(host.load_cut_off(), 1 << 1);
}

#[test]
fn destination_with_a_small_share_is_not_cut_off() {
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

#[test]
fn card_that_stood_still_or_has_no_link_blames_no_destination() {
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
fn transfer_to_destination_that_is_cut_off_ends() {
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

#[test]
fn without_a_link_no_store_waits() {
    let mut host = Host::new(0);
    host.map_out(10, 1, 20, SHRIMP_MODE_SINGLE);
    let Ok(()) = host.store(SHRIMP_REG_OUT_THRESHOLD, 4, 20);
    host.wire.room = Some(0);
    host.store_seen(10 * PAGE, b"x");
    assert!(!host.card.takes_stores());
    host.with(|card, ports, _| card.link_changed(ports, None));
    assert!(host.card.takes_stores());
    host.store_seen(10 * PAGE, b"y");
    host.with(|card, ports, _| card.link_changed(ports, Some(Place { host: 0, ports: 6 })));
    assert!(!host.card.takes_stores());
    host.wire.room = None;
    assert_eq!(host.sent_data(), [(1, 20 * PAGE, b"x".to_vec())]);
}

#[test]
fn what_waits_for_more_is_sent_when_no_more_is_taken() {
    let mut host = Host::new(0);
    host.map_out(10, 1, 20, SHRIMP_MODE_BLOCKED);
    let Ok(()) = host.store(SHRIMP_REG_OUT_THRESHOLD, 4, 22);
    for word in [b"ab", b"cd"] {
        for (offset, byte) in word.iter().enumerate() {
            assert!(host.card.takes_stores());
            host.store_seen(10 * PAGE + offset as u64, &[*byte]);
        }
        assert!(!host.card.takes_stores());
        assert_eq!(host.sent_data(), [(1, 20 * PAGE, word.to_vec())], "no store waits for the merge time");
    }
}
