//! The FIFOs and their thresholds (section 4): nothing overflows, nothing is lost.

use hamlyn_abi::shrimp::entry::*;
use hamlyn_abi::shrimp::registers::*;
use hamlyn_card::card::{Card, Place, Progress};
use hamlyn_test_host::Commands;

use crate::support::*;

#[test]
fn outgoing_fifo_stops_stores_and_interrupts_once() {
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
fn outgoing_fifo_never_overflows() {
    let mut host = Host::new(0);
    host.map_out(10, 1, 20, SHRIMP_MODE_SINGLE);
    host.map_out(11, 1, 21, SHRIMP_MODE_DELIBERATE);
    let Ok(()) = host.store(SHRIMP_REG_OUT_THRESHOLD, 4, u64::from(u32::MAX));
    host.wire.room = Some(0);
    while host.card.takes_stores() {
        host.store_seen(10 * PAGE, &[1; 16]);
    }
    // Stores to the window fill the FIFO to its end. A refused store is not in the page either.
    let window = u64::from(PAGES) * PAGE + 10 * PAGE;
    let mut stores = 0;
    while host.counter("stores_refused") == 0 && stores < 10_000 {
        stores += 1;
        host.store_memory(window, 8, stores);
    }
    assert_eq!(host.load_memory(window, 8), stores - 1);
    let fill = host.load_register(SHRIMP_REG_OUT_FILL);
    assert!(fill <= OPTIONS.fifo.into() && fill > u64::from(OPTIONS.fifo) - 100, "{fill}");
    // A page for deliberate update needs no room at a store.
    host.store_memory(window + PAGE, 8, 1);
    assert_eq!(host.counter("stores_refused"), 1);
    host.wire.room = None;
    host.sent();
    host.store_memory(window, 8, 1);
    assert_eq!(host.counter("stores_refused"), 1);
}

#[test]
fn incoming_fifo_never_overflows() {
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
fn engine_waits_for_room_in_fifo() {
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
fn stopped_host_does_not_block_others() {
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
fn held_packets_fill_fifo_then_wait_in_network() {
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
    // Held packets are checked when they are deposited, against the mapping at that time.
    let Ok(()) = host.store(SHRIMP_REG_HOLD, 4, 0);
    assert_eq!(host.bytes(20 * PAGE, 3), [1, 2, 3]);
    assert!(host.card.takes_packets());
    assert_eq!(host.load_register(SHRIMP_REG_IN_FILL), 0);
}

#[test]
fn thresholds_and_times_are_clamped() {
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
fn hold_cannot_stop_the_network_for_ever() {
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
    // A lowered threshold does not stop the network for ever either.
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

#[test]
fn short_holds_add_up() {
    let reset = |host: &mut Host| {
        host.with(|card, ports, _| card.reset(ports));
        let Ok(()) = host.enable();
        host.map_in(20, 0);
    };
    let toggle = |host: &mut Host| {
        let Ok(()) = host.store(SHRIMP_REG_HOLD, 4, 0);
    };
    let raise = |host: &mut Host| {
        let Ok(()) = host.store(SHRIMP_REG_IN_THRESHOLD, 4, 1000);
    };
    let stop = |host: &mut Host| {
        let Ok(()) = host.store(SHRIMP_REG_IN_THRESHOLD, 4, 1);
        let Ok(()) = host.store(SHRIMP_REG_HOLD, 4, 1);
        if host.card.takes_packets() {
            host.arrive(0, &packet(0, 1, 20 * PAGE, &[1]));
        }
        !host.card.takes_packets()
    };
    for (name, end) in [("HOLD", toggle as fn(&mut Host)), ("IN_THRESHOLD", raise), ("reset", reset)] {
        let mut host = Host::new(1);
        host.map_in(20, 0);
        for _ in 0..49 {
            assert!(stop(&mut host), "{name}");
            host.wait(100_000);
            end(&mut host);
            assert!(host.card.takes_packets(), "{name}");
            // The total is forgotten after five minutes without a stop, not before.
            host.wait(299_000_000);
        }
        assert!(stop(&mut host), "{name}");
        host.wait(99_000);
        assert!(!host.card.takes_packets(), "{name}");
        host.wait(1_000);
        assert!(host.card.takes_packets(), "{name}: 50 times 100 ms");
        host.wait(299_000_000);
        assert!(!stop(&mut host), "{name}");
        host.wait(1_000_000);
        assert!(stop(&mut host), "{name}");
        host.wait(4_900_000);
        end(&mut host);
        host.wait(300_000_000);
        assert!(stop(&mut host), "{name}");
        host.wait(4_900_000);
        assert!(!host.card.takes_packets(), "{name}: it has been forgotten");
    }
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
fn open_packet_is_sent_at_the_threshold() {
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
