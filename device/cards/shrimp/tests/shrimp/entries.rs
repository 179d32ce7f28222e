//! Commands that set several entries of the page table.

use hamlyn_abi::family::command::*;
use hamlyn_abi::shrimp::command::*;
use hamlyn_abi::shrimp::entry::*;
use hamlyn_test_host::{Commands, Refusal};

use crate::support::*;

const ROOM: usize = SHRIMP_MAX_ENTRIES as usize;

/// The change that makes an entry invalid, and the refusal: status, value, limit.
type Case = (fn(&mut ShrimpPageEntry), u32, u64, u64);

/// Returns entries that map pages from page 10 on to pages from page 100 on.
fn many(count: u32, mode: u32) -> [ShrimpPageEntry; ROOM] {
    let mut entries = [ShrimpPageEntry::default(); ROOM];
    for (number, one) in (0..).zip(&mut entries[..count as usize]) {
        one.page = 10 + number;
        one.entry = out(4096, [(100 + u64::from(number), 1, mode), (0, 0, 0)]);
    }
    entries
}

#[test]
fn all_entries_of_a_command_are_set() {
    let mut host = Host::new(0);
    host.run(SHRIMP_COMMAND_SET_ENTRIES, SHRIMP_MAX_ENTRIES, &many(SHRIMP_MAX_ENTRIES, SHRIMP_MODE_SINGLE))
        .unwrap();
    for page in 0..u64::from(SHRIMP_MAX_ENTRIES) {
        host.store_seen((10 + page) * PAGE, b"a");
        assert_eq!(host.sent_data(), [(1, (100 + page) * PAGE, b"a".to_vec())]);
    }
    assert_eq!(host.counter("commands"), 1);
}

#[test]
fn one_bad_entry_of_a_command_changes_nothing() {
    let mut host = Host::new(0);
    let cases: [Case; 4] = [
        (|one| one.page = PAGES, ULN_STATUS_BAD_INDEX, PAGES.into(), PAGES.into()),
        (|one| one.page = 10, ULN_STATUS_BAD_VALUE, 10, 1),
        (|one| one.reserved = 7, ULN_STATUS_BAD_VALUE, 7, 0),
        (|one| one.entry.split_in = 4097, ULN_STATUS_BAD_VALUE, 4097, 4096),
    ];
    for (spoil, status, value, limit) in cases {
        let mut entries = many(3, SHRIMP_MODE_SINGLE);
        spoil(&mut entries[2]);
        let refused = host.run(SHRIMP_COMMAND_SET_ENTRIES, 3, &entries);
        assert_eq!(refused, Err(Refusal { status, value, limit }));
        host.store_seen(10 * PAGE, b"a");
        assert_eq!(host.sent_data(), []);
    }
}

#[test]
fn entries_behind_the_last_are_ignored() {
    let mut host = Host::new(0);
    let mut entries = many(2, SHRIMP_MODE_SINGLE);
    entries[2].page = PAGES;
    host.run(SHRIMP_COMMAND_SET_ENTRIES, 2, &entries).unwrap();
}

#[test]
fn number_of_entries_is_checked() {
    let mut host = Host::new(0);
    for count in [0, SHRIMP_MAX_ENTRIES + 1, u32::MAX] {
        let refused = host.run(SHRIMP_COMMAND_SET_ENTRIES, count, &many(1, SHRIMP_MODE_SINGLE));
        let (value, limit) = (count.into(), SHRIMP_MAX_ENTRIES.into());
        assert_eq!(refused, Err(Refusal { status: ULN_STATUS_BAD_LENGTH, value, limit }));
    }
}

#[test]
fn busy_entry_is_skipped_and_reported() {
    let mut host = Host::new(0);
    host.run(SHRIMP_COMMAND_SET_ENTRIES, 3, &many(3, SHRIMP_MODE_DELIBERATE)).unwrap();
    // The engine puts one packet of 16 into the FIFO at once.
    host.store_memory(11 * PAGE, 4, 1024);
    let mut entries = many(3, SHRIMP_MODE_DELIBERATE);
    for one in &mut entries[..3] {
        one.entry.flags = SHRIMP_ENTRY_UNLESS_BUSY | SHRIMP_ENTRY_WITHHOLD_0;
    }
    host.run(SHRIMP_COMMAND_SET_ENTRIES, 3, &entries).unwrap();
    assert_eq!(host.skipped(), 1 << 1);
    assert_eq!(host.sent_data().len(), 16, "the transfer goes on");
    for page in [10, 12] {
        host.store_memory(page * PAGE, 4, 1);
    }
    assert_eq!((host.counter("transfers_refused"), host.counter("transfers_cut")), (2, 0));
    host.run(SHRIMP_COMMAND_SET_ENTRIES, 3, &entries).unwrap();
    assert_eq!(host.skipped(), 0);
}

impl Host {
    /// Returns what the card has written to the body of the command.
    fn skipped(&self) -> u64 {
        let body = self.command_page() + u64::from(ULN_COMMAND_BODY);
        u64::from_le_bytes(self.bytes(body, 8).try_into().unwrap())
    }
}
