//! Automatic update: stores that are seen, or made through the window (sections 3.2, 4 and 4.1).

use hamlyn_abi::shrimp::entry::*;
use hamlyn_abi::shrimp::memory::*;
use hamlyn_test_host::Commands;

use crate::support::*;

const WINDOW: u64 = PAGES as u64 * PAGE;

#[test]
fn each_store_arrives_at_the_same_offset() {
    let [mut one, mut other] = pair();
    one.map_out(10, 1, 20, SHRIMP_MODE_SINGLE);
    other.map_in(20, 0);
    one.store_seen(10 * PAGE + 8, b"12345678");
    one.store_seen(10 * PAGE + 16, b"9");
    one.store_seen(10 * PAGE + 4095, b"z");
    assert_eq!(carry(&mut one, 0, &mut other), 3);
    assert_eq!(other.bytes(20 * PAGE + 8, 9), b"123456789");
    assert_eq!(other.bytes(20 * PAGE + 4095, 1), b"z");
    assert_eq!((one.counter("stores_seen"), one.counter("bytes_sent")), (3, 10));
    assert_eq!((other.counter("packets_deposited"), other.counter("bytes_deposited")), (3, 10));
}

#[test]
fn store_to_window_also_stores_to_page() {
    let [mut one, mut other] = pair();
    one.map_out(10, 1, 20, SHRIMP_MODE_SINGLE);
    other.map_in(20, 0);
    for (offset, width, value) in
        [(0, 4, 0x0403_0201), (4, 1, 5), (6, 2, 0x0807), (8, 8, 0x0102_0304_0506_0708)]
    {
        one.store_memory(WINDOW + 10 * PAGE + offset, width, value);
    }
    assert_eq!(carry(&mut one, 0, &mut other), 4);
    let here = one.bytes(10 * PAGE, 16);
    assert_eq!(here, [1, 2, 3, 4, 5, 0, 7, 8, 8, 7, 6, 5, 4, 3, 2, 1]);
    assert_eq!(other.bytes(20 * PAGE, 16), here);
    assert_eq!(one.load_memory(WINDOW + 10 * PAGE, 8), 0x0807_0005_0403_0201);
    assert_eq!(one.load_memory(WINDOW + 10 * PAGE + 4, 1), 5);
}

#[test]
fn window_of_unmapped_page_is_closed() {
    let mut host = Host::new(0);
    host.map_out(10, 1, 20, SHRIMP_MODE_SINGLE);
    host.map_in(12, 1);
    for page in [9, 11, 12] {
        host.put_word(page * PAGE, 7);
        host.store_memory(WINDOW + page * PAGE, 4, 1);
        assert_eq!(host.load_memory(WINDOW + page * PAGE, 4), 0, "page {page}");
        assert_eq!(host.bytes(page * PAGE, 4), [7, 0, 0, 0]);
    }
    // There is nothing behind the last page.
    host.store_memory(2 * WINDOW - 4, 4, 1);
    assert_eq!((host.counter("stores_refused"), host.sent().len()), (4, 0));
}

#[test]
fn window_store_must_be_completely_mapped_out() {
    let mut host = Host::new(0);
    let mapped = (20, 1, SHRIMP_MODE_SINGLE);
    host.set_entry(10, out(100, [mapped, (0, 0, 0)]));
    host.set_entry(11, out(100, [(0, 0, 0), mapped]));
    for page in [10, 11] {
        host.put(page * PAGE + 96, &[7; 8]);
        host.store_memory(WINDOW + page * PAGE + 96, 8, 1);
        assert_eq!(host.bytes(page * PAGE + 96, 8), [7; 8]);
        assert_eq!(host.load_memory(WINDOW + page * PAGE + 96, 8), 0, "nor is it loaded");
    }
    assert_eq!((host.counter("stores_refused"), host.sent().len()), (2, 0));
    host.store_memory(WINDOW + 10 * PAGE + 96, 4, 1);
    assert_eq!(host.sent().len(), 1);
}

#[test]
fn deliberate_update_page_sends_nothing_by_itself() {
    let mut host = Host::new(0);
    host.map_out(10, 1, 20, SHRIMP_MODE_DELIBERATE);
    host.store_seen(10 * PAGE, b"abcd");
    host.store_memory(WINDOW + 10 * PAGE + 4, 4, 1);
    assert_eq!(host.sent(), []);
    assert_eq!(host.bytes(10 * PAGE, 5), b"abcd\x01");
}

#[test]
fn a_page_is_split_between_two_mappings() {
    let mut host = Host::new(0);
    host.set_entry(10, out(102, [(20, 1, SHRIMP_MODE_SINGLE), (30, 2, SHRIMP_MODE_SINGLE)]));
    host.store_seen(10 * PAGE + 98, b"abcdefgh");
    host.store_seen(10 * PAGE + 101, b"i");
    host.store_seen(10 * PAGE + 102, b"j");
    let sent = host.sent_data();
    let to = |node| sent.iter().filter(|packet| packet.0 == node).cloned().collect::<Vec<_>>();
    assert_eq!(to(1), [(1, 20 * PAGE + 98, b"abcd".to_vec()), (1, 20 * PAGE + 101, b"i".to_vec())]);
    assert_eq!(to(2), [(2, 30 * PAGE + 102, b"efgh".to_vec()), (2, 30 * PAGE + 102, b"j".to_vec())]);
}

#[test]
fn unmapped_part_sends_nothing() {
    let mut host = Host::new(0);
    for (split, expected) in [(100, b"ab".to_vec()), (4096, b"abcd".to_vec())] {
        host.set_entry(10, out(split, [(20, 1, SHRIMP_MODE_SINGLE), (0, 0, SHRIMP_MODE_NONE)]));
        host.store_seen(10 * PAGE + 98, b"abcd");
        assert_eq!(host.sent_data(), [(1, 20 * PAGE + 98, expected)]);
    }
    host.set_entry(10, out(0, [(20, 1, SHRIMP_MODE_SINGLE), (0, 0, SHRIMP_MODE_NONE)]));
    host.store_seen(10 * PAGE, b"abcd");
    assert_eq!(host.sent(), []);
}

#[test]
fn consecutive_stores_of_blocked_write_are_one_packet() {
    let mut host = Host::new(0);
    host.map_out(10, 1, 20, SHRIMP_MODE_BLOCKED);
    host.store_seen(10 * PAGE, b"abcd");
    host.store_seen(10 * PAGE + 4, b"ef");
    host.store_seen(10 * PAGE + 6, b"ghij");
    assert_eq!(host.sent(), [], "the next store may still come");
    host.wait(51);
    assert_eq!(host.sent_data(), [(1, 20 * PAGE, b"abcdefghij".to_vec())]);
    assert_eq!(host.counter("stores_merged"), 2);
}

#[test]
fn store_that_is_not_consecutive_ends_the_packet() {
    let mut host = Host::new(0);
    host.map_out(10, 1, 20, SHRIMP_MODE_BLOCKED);
    host.map_out(11, 1, 21, SHRIMP_MODE_BLOCKED);
    host.map_out(12, 1, 22, SHRIMP_MODE_SINGLE);
    host.store_seen(10 * PAGE + 4, b"a");
    host.store_seen(10 * PAGE + 4, b"b"); // the same place again
    host.store_seen(10 * PAGE + 6, b"c"); // a gap
    host.store_seen(10 * PAGE + 4095, b"d");
    host.store_seen(11 * PAGE, b"e"); // the next page
    host.store_seen(12 * PAGE, b"f"); // single-write
    host.store_seen(11 * PAGE + 1, b"g");
    host.wait(51);
    let sent: Vec<_> = host.sent_data().into_iter().map(|(_, _, data)| data).collect();
    assert_eq!(sent, [b"a", b"b", b"c", b"d", b"e", b"f", b"g"]);
}

#[test]
fn late_store_begins_a_packet() {
    let mut host = Host::new(0);
    host.map_out(10, 1, 20, SHRIMP_MODE_BLOCKED);
    host.store_seen(10 * PAGE, b"a");
    host.wait(49);
    host.store_seen(10 * PAGE + 1, b"b");
    assert_eq!(host.sent(), []);
    // A card whose alarm comes late does not merge a store that came too late.
    host.clock.0.set(host.clock.0.get() + std::time::Duration::from_micros(51));
    host.store_seen(10 * PAGE + 2, b"c");
    assert_eq!(host.sent_data(), [(1, 20 * PAGE, b"ab".to_vec())]);
    host.wait(51);
    assert_eq!(host.sent_data(), [(1, 20 * PAGE + 2, b"c".to_vec())]);
}

#[test]
fn mode_is_changed_from_command_page() {
    let mut host = Host::new(0);
    host.set_entry(10, out(2048, [(20, 1, SHRIMP_MODE_BLOCKED), (30, 2, SHRIMP_MODE_DELIBERATE)]));
    host.store_seen(10 * PAGE, b"a");
    let set = |host: &mut Host, offset, mode: u32| {
        host.store_memory(10 * PAGE + offset, 4, u64::from(SHRIMP_SET_MODE | mode));
    };
    set(&mut host, 0, SHRIMP_MODE_SINGLE);
    host.store_seen(10 * PAGE + 1, b"b");
    assert_eq!(host.sent_data().len(), 2, "what was to be merged before is not merged with what comes now");
    host.store_seen(10 * PAGE + 2048, b"c");
    assert_eq!(host.sent(), []);
    set(&mut host, 2048, SHRIMP_MODE_SINGLE);
    host.store_seen(10 * PAGE + 2048, b"d");
    assert_eq!(host.sent_data(), [(2, 30 * PAGE + 2048, b"d".to_vec())]);
    for (offset, mode) in [(0, SHRIMP_MODE_NONE), (0, 4), (PAGE, SHRIMP_MODE_SINGLE)] {
        set(&mut host, offset, mode);
    }
    assert_eq!((host.counter("commands_mapped"), host.counter("commands_mapped_refused")), (2, 3));
}

#[test]
fn driver_can_keep_mode_chosen_by_process() {
    let mut host = Host::new(0);
    let parts = [(20, 1, SHRIMP_MODE_DELIBERATE), (30, 2, SHRIMP_MODE_DELIBERATE)];
    host.set_entry(10, out(2048, parts));
    for offset in [0, 2048] {
        host.store_memory(10 * PAGE + offset, 4, u64::from(SHRIMP_SET_MODE | SHRIMP_MODE_SINGLE));
    }
    // The second part is now mapped to another page.
    let parts = [(20, 1, SHRIMP_MODE_DELIBERATE), (31, 2, SHRIMP_MODE_DELIBERATE)];
    host.set_entry(10, ShrimpEntry { flags: SHRIMP_ENTRY_KEEP_MODES, ..out(2048, parts) });
    host.store_seen(10 * PAGE, b"a");
    host.store_seen(10 * PAGE + 2048, b"b");
    assert_eq!(host.sent_data(), [(1, 20 * PAGE, b"a".to_vec())]);
    // An unmapped part has no mode to keep.
    let none = [(20, 1, SHRIMP_MODE_NONE), (31, 2, SHRIMP_MODE_DELIBERATE)];
    host.set_entry(10, ShrimpEntry { flags: SHRIMP_ENTRY_KEEP_MODES, ..out(2048, none) });
    host.store_seen(10 * PAGE, b"c");
    host.set_entry(10, out(2048, parts));
    host.store_seen(10 * PAGE, b"d");
    assert_eq!(host.sent(), []);
}

#[test]
fn withheld_part_sends_nothing_and_keeps_its_mode() {
    use hamlyn_card::card::Card;
    let mut host = Host::new(0);
    let changes = |host: &mut Host| std::iter::from_fn(|| host.card.watch_change()).collect::<Vec<_>>();
    let parts = |page| [(page, 1, SHRIMP_MODE_SINGLE), (31, 2, SHRIMP_MODE_SINGLE)];
    let keep = |flags, parts| ShrimpEntry { flags: SHRIMP_ENTRY_KEEP_MODES | flags, ..out(2048, parts) };
    host.set_entry(10, out(2048, parts(20)));
    // The process chooses another mode, which the operating system does not know.
    host.store_memory(10 * PAGE, 4, u64::from(SHRIMP_SET_MODE | SHRIMP_MODE_BLOCKED));
    host.store_seen(10 * PAGE, b"a");
    assert_eq!(changes(&mut host), [(10, true)]);
    host.set_entry(10, keep(SHRIMP_ENTRY_WITHHOLD_0, parts(20)));
    assert_eq!(host.sent_data(), [(1, 20 * PAGE, b"a".to_vec())], "what was stored before");
    host.store_seen(10 * PAGE + 1, b"b");
    host.store_memory(u64::from(PAGES) * PAGE + 10 * PAGE, 1, 0x62);
    assert_eq!((host.sent(), host.counter("stores_refused")), (vec![], 1));
    host.store_seen(10 * PAGE + 2048, b"c");
    assert_eq!(host.sent_data(), [(2, 31 * PAGE + 2048, b"c".to_vec())], "the other part goes on");
    host.set_entry(10, keep(0, parts(25)));
    host.store_seen(10 * PAGE, b"d");
    host.store_seen(10 * PAGE + 1, b"e");
    host.set_entry(10, keep(0, parts(25)));
    assert_eq!(host.sent_data(), [(1, 25 * PAGE, b"de".to_vec())], "still blocked-write");
    assert_eq!(changes(&mut host), [], "it was watched all the while");
}

#[test]
fn card_watches_pages_mapped_for_automatic_update() {
    use hamlyn_card::card::Card;
    let mut host = Host::new(0);
    let changes = |host: &mut Host| std::iter::from_fn(|| host.card.watch_change()).collect::<Vec<_>>();
    host.map_out(10, 1, 20, SHRIMP_MODE_SINGLE);
    host.map_out(11, 1, 20, SHRIMP_MODE_DELIBERATE);
    host.map_in(12, 1);
    assert_eq!(changes(&mut host), [(10, true)]);
    host.map_out(10, 2, 21, SHRIMP_MODE_BLOCKED);
    assert_eq!(changes(&mut host), [], "it is watched already");
    host.store_memory(11 * PAGE, 4, u64::from(SHRIMP_SET_MODE | SHRIMP_MODE_SINGLE));
    assert_eq!(changes(&mut host), [(11, true)]);
    host.map_in(10, 1);
    assert_eq!(changes(&mut host), [(10, false)]);
    host.with(|card, ports, _| card.reset(ports));
    assert_eq!(changes(&mut host), [(11, false)]);
}
