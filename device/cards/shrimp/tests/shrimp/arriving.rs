//! Arriving packets: checks, deposits and reports (sections 3.1 and 4.2).

use hamlyn_abi::shrimp::command::*;
use hamlyn_abi::shrimp::entry::*;
use hamlyn_abi::shrimp::memory::*;
use hamlyn_abi::shrimp::registers::*;
use hamlyn_test_host::Commands;

use crate::support::*;

const NOBODY: ShrimpEntry = ShrimpEntry {
    split_out: 0,
    split_in: 0,
    out: [ShrimpOut { page: 0, node: 0, mode: 0 }; 2],
    incoming: [ShrimpIn { nodes: 0, flags: 0, reserved: 0 }; 2],
    flags: 0,
};

/// Checks that an arriving packet changes nothing and is counted by this name.
fn is_refused(host: &mut Host, source: u16, packet: &[u8], counter: &str) {
    let (before, count) = (host.everything(), host.counter(counter));
    host.arrive(source, packet);
    assert_eq!(host.counter(counter), count + 1, "{counter}: {packet:?}");
    assert!(host.everything() == before, "{counter}: memory has changed");
    assert_eq!(host.counter("packets_deposited"), 0);
}

#[test]
fn packet_without_mapping_for_its_host_is_refused() {
    let mut host = Host::new(1);
    host.map_in(20, 0);
    host.set_entry(21, taken(100, [(1 << 0, 0), (1 << 2, 0)]));
    host.set_entry(22, taken(100, [(1, 0), (0, 0)]));
    host.map_out(23, 0, 1, SHRIMP_MODE_SINGLE);
    for (source, address, length) in [
        (2, 20 * PAGE, 4),      // another host's
        (0, 19 * PAGE, 4),      // not mapped
        (0, 23 * PAGE, 4),      // mapped out only
        (0, 21 * PAGE + 98, 4), // into the other host's part
        (2, 21 * PAGE + 98, 4), // from the other host's part
        (0, 21 * PAGE + 100, 1),
        (0, 22 * PAGE + 99, 2), // into a part that is not mapped
        (0, u64::from(PAGES) * PAGE, 4),
        (0, u64::MAX - 4095, 4),
        (0, SHRIMP_SYSTEM_PAGE * PAGE, 4),
    ] {
        is_refused(&mut host, source, &packet(source, 1, address, &vec![9; length]), "not_mapped_in");
    }
    // An entry cannot name host 64, and host 64 is not mistaken for host 0.
    is_refused(&mut host, 64, &packet(64, 1, 20 * PAGE, b"abcd"), "not_mapped_in");
    host.arrive(0, &packet(0, 1, 21 * PAGE + 96, b"abcd"));
    host.arrive(2, &packet(2, 1, 21 * PAGE + 100, b"efgh"));
    assert_eq!(host.bytes(21 * PAGE + 96, 8), b"abcdefgh");
}

#[test]
fn several_hosts_may_store_to_a_page() {
    let mut host = Host::new(1);
    host.set_entry(20, taken(4096, [(1 << 0 | 1 << 63, 0), (0, 0)]));
    host.arrive(0, &packet(0, 1, 20 * PAGE, b"a"));
    host.arrive(63, &packet(63, 1, 20 * PAGE + 1, b"b"));
    assert_eq!(host.bytes(20 * PAGE, 2), b"ab");
}

#[test]
fn misrouted_or_damaged_packet_is_refused() {
    let mut host = Host::new(1);
    host.map_in(20, 0);
    let good = packet(0, 1, 20 * PAGE, b"abcd");
    is_refused(&mut host, 0, &packet(0, 2, 20 * PAGE, b"abcd"), "wrong_node");
    is_refused(&mut host, 0, &packet(3, 1, 20 * PAGE, b"abcd"), "wrong_node");
    for bit in 0..good.len() * 8 {
        let mut damaged = good.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        is_refused(&mut host, 0, &damaged, "bad_checksum");
    }
    host.arrive(0, &good);
    assert_eq!(host.bytes(20 * PAGE, 4), b"abcd");
}

#[test]
fn malformed_packet_is_refused() {
    let mut host = Host::new(1);
    for page in [20, 21] {
        host.map_in(page, 0);
    }
    let with_length = |length: u32| {
        let mut bytes = packet(0, 1, 20 * PAGE, b"abcd");
        bytes.truncate(bytes.len() - 4);
        bytes[4..8].copy_from_slice(&length.to_le_bytes());
        seal(bytes)
    };
    let malformed = [
        vec![],
        vec![0; 20],
        packet(0, 1, 20 * PAGE, b""),
        packet(0, 1, 20 * PAGE + 4094, b"abcd"),
        packet(0, 1, 20 * PAGE, &[0; 4097]),
        packet(0, 1, 20 * PAGE + 1, &[0; 4096]),
        with_length(3),
        with_length(5),
        with_length(u32::MAX),
    ];
    for packet in malformed {
        is_refused(&mut host, 0, &packet, "malformed");
    }
    host.arrive(0, &packet(0, 1, 20 * PAGE, &[7; 4096]));
    assert_eq!(host.bytes(20 * PAGE, 4096), [7; 4096]);
}

#[test]
fn disabled_card_or_missing_memory_deposits_nothing() {
    let mut host = Host::with_options(1, hamlyn_card_shrimp::Options { pages: 1 << 20, ..OPTIONS });
    host.map_in(20, 0);
    host.map_in(1 << 19, 0);
    is_refused(&mut host, 0, &packet(0, 1, PAGE << 19, b"abcd"), "discarded");
    let Ok(()) = host.store(hamlyn_abi::family::control::ULN_REG_CONTROL, 4, 0);
    is_refused(&mut host, 0, &packet(0, 1, 20 * PAGE, b"abcd"), "discarded");
}

#[test]
fn nothing_is_deposited_after_unmapping() {
    let mut host = Host::new(1);
    host.map_in(20, 0);
    host.set_entry(20, NOBODY);
    is_refused(&mut host, 0, &packet(0, 1, 20 * PAGE, b"abcd"), "not_mapped_in");
}

#[test]
fn operating_systems_have_a_page_for_each_other() {
    let mut host = Host::new(1);
    let body = |page, mapped| ShrimpSystemPage { page, mapped, reserved: 0 };
    host.run(SHRIMP_COMMAND_SET_SYSTEM_PAGE, 0, &body(40, 1)).unwrap();
    let to_system = packet(0, 1, SHRIMP_SYSTEM_PAGE * PAGE + 8, b"hello");
    is_refused(&mut host, 2, &packet(2, 1, SHRIMP_SYSTEM_PAGE * PAGE + 8, b"hello"), "not_mapped_in");
    host.arrive(0, &to_system);
    assert_eq!(host.bytes(40 * PAGE + 8, 5), b"hello");
    host.run(SHRIMP_COMMAND_SET_SYSTEM_PAGE, 0, &body(0, 0)).unwrap();
    host.arrive(0, &to_system);
    assert_eq!(host.counter("not_mapped_in"), 2);
}

fn record(host: &Host, queue: u64, place: u64) -> (u32, u32) {
    let word = |at: u64| u32::from_le_bytes(host.bytes(at, 4).try_into().unwrap());
    (word(queue + place * 8), word(queue + place * 8 + 4))
}

#[test]
fn requested_arrival_is_reported_once() {
    let mut host = Host::new(1);
    let queue = host.open_arrivals();
    host.map_in(20, 0);
    host.arrive(0, &packet(0, 1, 20 * PAGE, b"a"));
    assert!(host.raised().is_empty());
    host.store_memory(20 * PAGE, 4, SHRIMP_REPORT_NEXT.into());
    host.store_memory(21 * PAGE, 4, SHRIMP_REPORT_NEXT.into());
    for data in [b"b", b"c"] {
        host.arrive(0, &packet(0, 1, 20 * PAGE, data));
    }
    assert_eq!(host.raised(), [SHRIMP_VECTOR_ARRIVAL as u16]);
    assert_eq!((record(&host, queue, 0), record(&host, queue, 1)), ((20, 1), (0, 0)));
    assert_eq!(host.counter("commands_mapped_refused"), 1, "page 21 is not mapped in");
    let Ok(()) = host.store(SHRIMP_REG_ARRIVALS_TAKEN, 4, 1);
    host.arrive(0, &packet(0, 1, 20 * PAGE, b"c"));
    assert!(host.raised().is_empty(), "once");
    host.store_memory(20 * PAGE, 4, SHRIMP_REPORT_NEXT.into());
    // No process of the page can withdraw a request that another process relies on.
    host.store_memory(20 * PAGE, 4, 0x0300_0000);
    assert_eq!(host.counter("commands_mapped_refused"), 2);
    host.arrive(0, &packet(0, 1, 20 * PAGE, b"d"));
    assert_eq!((host.raised(), host.counter("arrivals")), (vec![SHRIMP_VECTOR_ARRIVAL as u16], 2));
}

#[test]
fn entry_can_have_each_arrival_reported() {
    let mut host = Host::new(1);
    let queue = host.open_arrivals();
    host.set_entry(20, taken(8, [(1, 0), (1, SHRIMP_IN_REPORT)]));
    host.arrive(0, &packet(0, 1, 20 * PAGE, b"a"));
    assert_eq!(host.counter("arrivals"), 0);
    for taken in 0..3 {
        host.arrive(0, &packet(0, 1, 20 * PAGE + 8, b"b"));
        host.arrive(0, &packet(0, 1, 20 * PAGE + 8, b"c"));
        assert_eq!(record(&host, queue, taken), (20, taken as u32 + 1));
        assert_eq!(host.raised(), [1], "one record for both, one interrupt");
        let Ok(()) = host.store(SHRIMP_REG_ARRIVALS_TAKEN, 4, taken + 1);
    }
    assert_eq!((host.counter("arrivals"), host.counter("arrivals_coalesced")), (3, 3));
}

#[test]
fn full_queue_reports_the_rest_after_room() {
    let mut host = Host::new(1);
    let queue = host.open_arrivals();
    for page in 20..60 {
        host.set_entry(page, taken(4096, [(1, SHRIMP_IN_REPORT), (0, 0)]));
        host.arrive(0, &packet(0, 1, u64::from(page) * PAGE, b"a"));
    }
    assert_eq!(host.raised(), [1]);
    let mut pages = Vec::new();
    for round in 0.. {
        let there = (0..16).map(|place| record(&host, queue, place));
        let mut new: Vec<_> = there.filter(|(_, number)| *number > pages.len() as u32).collect();
        new.sort_by_key(|(_, number)| *number);
        if new.is_empty() {
            break;
        }
        pages.extend(new.iter().map(|(page, _)| *page));
        // A count of taken records beyond those that exist is ignored.
        let Ok(()) = host.store(SHRIMP_REG_ARRIVALS_TAKEN, 4, pages.len() as u64 + 100);
        let Ok(()) = host.store(SHRIMP_REG_ARRIVALS_TAKEN, 4, pages.len() as u64);
        assert!(round < 10);
    }
    assert_eq!(pages, (20..60).collect::<Vec<_>>());
    assert_eq!(host.counter("arrivals"), 40, "also those that waited");
}

#[test]
fn records_not_yet_taken_raise_vector_again() {
    let mut host = Host::new(1);
    host.open_arrivals();
    for page in 20..22 {
        host.set_entry(page, taken(4096, [(1, SHRIMP_IN_REPORT), (0, 0)]));
        host.arrive(0, &packet(0, 1, u64::from(page) * PAGE, b"a"));
    }
    assert_eq!(host.raised(), [1]);
    let Ok(()) = host.store(SHRIMP_REG_ARRIVALS_TAKEN, 4, 1);
    assert_eq!(host.raised(), [1]);
    let Ok(()) = host.store(SHRIMP_REG_ARRIVALS_TAKEN, 4, 2);
    assert!(host.raised().is_empty());
}
