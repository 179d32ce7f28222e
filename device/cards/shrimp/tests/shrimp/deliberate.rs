//! Deliberate update: compare and exchange on command pages (sections 4.2 and 4.3).

use hamlyn_abi::family::command::ULN_STATUS_IN_USE;
use hamlyn_abi::shrimp::command::SHRIMP_COMMAND_SET_ENTRY;
use hamlyn_abi::shrimp::entry::*;
use hamlyn_abi::shrimp::memory::*;
use hamlyn_abi::shrimp::registers::SHRIMP_REG_OUT_THRESHOLD;
use hamlyn_card::card::{Card, Place, Progress};
use hamlyn_card_shrimp::{MODEL, Options};
use hamlyn_test_host::Commands;

use crate::support::*;

/// Does what a processor does: one locked compare with 0 and exchange, as reads and writes of the
/// bus. Returns the value that was read.
fn exchange(host: &mut Host, address: u64, words: u32) -> u32 {
    let found = host.load_memory(address, 4) as u32;
    let written = if found == 0 { words } else { found };
    host.store_memory(address, 4, written.into());
    found
}

fn sender() -> Host {
    let mut host = Host::new(0);
    host.map_out(10, 1, 20, SHRIMP_MODE_DELIBERATE);
    host.map_out(11, 1, 21, SHRIMP_MODE_DELIBERATE);
    for word in 0..1024_u32 {
        host.put_word(10 * PAGE + u64::from(word) * 4, word);
        host.put_word(11 * PAGE + u64::from(word) * 4, !word);
    }
    host
}

#[test]
fn block_is_sent_from_address_of_command() {
    let (mut host, mut other) = (sender(), Host::new(1));
    other.map_in(20, 0);
    assert_eq!(exchange(&mut host, 10 * PAGE + 400, 100), 0);
    assert_eq!(carry(&mut host, 0, &mut other), 2, "packets of 256 bytes");
    assert_eq!(other.bytes(20 * PAGE + 400, 400), host.bytes(10 * PAGE + 400, 400));
    assert_eq!(other.bytes(20 * PAGE, 400), [0; 400]);
    assert_eq!(other.bytes(20 * PAGE + 800, 100), [0; 100]);
    assert_eq!((host.counter("transfers_started"), host.counter("transfers_done")), (1, 1));
}

#[test]
fn transfer_is_limited_to_one_page() {
    let mut host = sender();
    assert_eq!(exchange(&mut host, 10 * PAGE, 1024), 0);
    assert_eq!(host.sent().len(), 16);
    for (offset, words) in [(0, 1025), (4, 1024), (4092, 2), (0, 0x00ff_ffff), (2, 1024)] {
        assert_eq!(exchange(&mut host, 10 * PAGE + offset, words), 0);
    }
    assert_eq!((host.sent().len(), host.counter("transfers_refused")), (0, 5));
}

#[test]
fn busy_engine_reports_rest_and_base() {
    let mut host = sender();
    // The engine puts the first packet into the FIFO at once.
    assert_eq!(exchange(&mut host, 10 * PAGE + 8, 200), 0);
    let left = SHRIMP_BUSY | (200 - 64);
    assert_eq!(host.load_memory(10 * PAGE + 8, 4) as u32, left | SHRIMP_BASE);
    assert_eq!(host.load_memory(10 * PAGE + 12, 4) as u32, left);
    assert_eq!(host.load_memory(11 * PAGE + 8, 4) as u32, left);
    assert_eq!(host.sent().len(), 4);
    assert_eq!(host.load_memory(10 * PAGE + 8, 4), 0);
}

/// Returns a host whose card has the default update size.
fn default_sender() -> Host {
    let piece = MODEL.settings.iter().find(|setting| setting.name == "update-size").unwrap().default;
    let mut host = Host::with_options(0, Options { packet_size: piece, ..OPTIONS });
    host.map_out(10, 1, 20, SHRIMP_MODE_DELIBERATE);
    host
}

#[test]
fn default_card_shows_transfer_progress_at_each_turn() {
    let mut host = default_sender();
    assert_eq!(exchange(&mut host, 10 * PAGE, 1024), 0);
    let mut left = Vec::new();
    loop {
        let said = host.load_memory(10 * PAGE, 4) as u32;
        if said == 0 {
            break;
        }
        assert_eq!(said & (SHRIMP_BUSY | SHRIMP_BASE), SHRIMP_BUSY | SHRIMP_BASE);
        left.push(said & SHRIMP_LEFT);
        // The engine reads one piece in a turn, and the turn ends while there is more.
        let last = *left.last().unwrap() <= 256;
        assert_eq!(host.transmit(), if last { Progress::Worked } else { Progress::Yielded });
    }
    assert_eq!(left, [768, 512, 256]);
    let sent: usize = host.sent_data().iter().map(|(_, _, data)| data.len()).sum();
    // The wire also holds the packets of the transmissions above.
    assert_eq!((sent, host.counter("bytes_sent")), (4096, 4096));
}

#[test]
fn engine_continues_while_fifo_has_room() {
    let mut host = default_sender();
    host.wire.room = Some(0);
    assert_eq!(exchange(&mut host, 10 * PAGE, 1024), 0);
    for _ in 0..2 {
        assert_eq!(host.transmit(), Progress::Yielded);
    }
    assert_eq!(host.transmit(), Progress::LinkFull);
    assert_eq!(host.load_memory(10 * PAGE, 4), 0, "the FIFO has it all");
}

#[test]
fn failed_compare_starts_no_transfer() {
    let mut host = sender();
    assert_eq!(exchange(&mut host, 10 * PAGE, 1024), 0);
    let mut refused = 0;
    // Other processors try meanwhile, on both pages. For one of them the engine becomes free
    // between its read and its write.
    let late = host.load_memory(11 * PAGE, 4);
    while host.load_memory(10 * PAGE, 4) != 0 {
        assert_ne!(exchange(&mut host, 11 * PAGE, 1024), 0);
        assert_ne!(exchange(&mut host, 10 * PAGE, 1), 0);
        refused += 2;
        host.transmit();
    }
    host.store_memory(11 * PAGE, 4, late);
    // A processor whose accumulator was not 0 starts nothing either: it writes 0 back.
    host.store_memory(11 * PAGE, 4, 0);
    host.sent();
    assert_eq!((host.counter("transfers_started"), host.counter("writes_back")), (1, refused + 2));
}

#[test]
fn second_of_two_simultaneous_transfers_waits() {
    let (mut host, mut other) = (sender(), Host::new(1));
    for page in [20, 21] {
        other.map_in(page, 0);
    }
    // The bus does not keep the halves of a locked instruction together.
    let found = [10, 11].map(|page| host.load_memory(page * PAGE, 4));
    assert_eq!(found, [0, 0]);
    for page in [10, 11] {
        host.store_memory(page * PAGE, 4, 1024);
    }
    assert_eq!(host.load_memory(11 * PAGE, 4) as u32 & (SHRIMP_BUSY | SHRIMP_BASE), SHRIMP_BUSY);
    carry(&mut host, 0, &mut other);
    assert_eq!(host.counter("transfers_done"), 2);
    for (from, to) in [(10, 20), (11, 21)] {
        assert_eq!(other.bytes(to * PAGE, 4096), host.bytes(from * PAGE, 4096));
    }
}

#[test]
fn waiting_transfers_are_limited() {
    let mut host = Host::new(0);
    for page in 100..200 {
        host.map_out(page, 1, page.into(), SHRIMP_MODE_DELIBERATE);
    }
    // The FIFO accepts one packet of the first transfer, and then nothing more.
    host.wire.room = Some(0);
    let Ok(()) = host.store(SHRIMP_REG_OUT_THRESHOLD, 4, 1);
    for page in 100..200 {
        for _ in 0..3 {
            host.store_memory(page * PAGE, 4, 1024);
        }
    }
    // The first transfer is under way, and one of its page waits. The third of that page, and two
    // of each other page, are refused.
    let waiting = u64::from(SHRIMP_MAX_WAITING);
    assert_eq!(
        (host.counter("transfers_started"), host.counter("transfers_refused")),
        (1 + waiting, 299 - waiting)
    );
}

/// Returns a host whose engine has a transfer in each place for those of processes, from pages 100
/// on, and the number of those that were refused.
fn host_with_full_engine() -> (Host, u64) {
    let mut host = Host::new(0);
    for page in 100..200 {
        host.map_out(page, 1, page.into(), SHRIMP_MODE_DELIBERATE);
    }
    host.wire.room = Some(0);
    let Ok(()) = host.store(SHRIMP_REG_OUT_THRESHOLD, 4, 1);
    for page in 100..200 {
        host.store_memory(page * PAGE, 4, 1);
    }
    let refused = host.counter("transfers_refused");
    assert!(refused > 0, "the places are full");
    (host, refused)
}

#[test]
fn system_messages_have_places_of_their_own() {
    let (mut host, refused) = host_with_full_engine();
    host.map_out(10, 1, SHRIMP_SYSTEM_PAGE, SHRIMP_MODE_DELIBERATE);
    for place in 0..32 {
        host.store_memory(10 * PAGE + place * 128, 4, 32);
    }
    // The same place twice is refused, because it would be sent twice.
    host.store_memory(10 * PAGE, 4, 32);
    assert_eq!(host.counter("transfers_refused"), refused + 1);
    host.wire.room = None;
    let to_system = host.sent_data().into_iter().filter(|(_, at, _)| at / PAGE == SHRIMP_SYSTEM_PAGE);
    assert_eq!(to_system.count(), 32);
}

#[test]
fn systems_pages_have_places_of_their_own() {
    let (mut host, refused) = host_with_full_engine();
    for page in 10..15 {
        host.set_entry(
            page,
            ShrimpEntry {
                flags: SHRIMP_ENTRY_SYSTEM,
                ..out(4096, [(page.into(), 1, SHRIMP_MODE_DELIBERATE), (0, 0, 0)])
            },
        );
    }
    for word in 0..u64::from(SHRIMP_MAX_SYSTEM_WAITING) {
        host.store_memory(10 * PAGE + word * 4, 4, 1);
    }
    assert_eq!(host.counter("transfers_refused"), refused);
    let limit = host.counter("transfers_started");
    for _ in 0..3 {
        host.store_memory(14 * PAGE + 4, 4, 1);
    }
    assert!(host.counter("transfers_started") - limit <= 1, "their number is limited, too");
    let said = host.load_memory(12 * PAGE, 4) as u32;
    assert_eq!(said & (SHRIMP_BASE | SHRIMP_WAITS), SHRIMP_WAITS);
    assert_eq!(host.load_memory(15 * PAGE, 4) as u32 & (SHRIMP_BASE | SHRIMP_WAITS), 0);
    host.wire.room = None;
    let theirs = host.sent_data().into_iter().filter(|(_, at, _)| at / PAGE < 100);
    assert_eq!(
        theirs.map(|(_, _, data)| data.len()).sum::<usize>() as u64,
        (host.counter("transfers_started") - (100 - refused)) * 4
    );
}

#[test]
fn transfer_needs_part_mapped_for_deliberate_update() {
    let mut host = sender();
    host.set_entry(12, out(1024, [(20, 1, SHRIMP_MODE_DELIBERATE), (21, 2, SHRIMP_MODE_DELIBERATE)]));
    host.map_out(13, 1, 20, SHRIMP_MODE_SINGLE);
    host.map_in(14, 1);
    for (address, words) in [(12 * PAGE + 1020, 2), (13 * PAGE, 1), (14 * PAGE, 1), (15 * PAGE, 1)] {
        assert_eq!(exchange(&mut host, address, words), 0);
    }
    assert_eq!((host.counter("transfers_refused"), host.sent().len()), (4, 0));
    assert_eq!(exchange(&mut host, 12 * PAGE + 1020, 1), 0);
    assert_eq!(exchange(&mut host, 12 * PAGE + 1024, 768), 0);
    let sent = host.sent_data();
    assert_eq!(sent.iter().filter(|packet| packet.0 == 1).count(), 1);
    assert_eq!(sent.iter().filter(|packet| packet.0 == 2).count(), 12);
}

#[test]
fn a_transfer_ends_with_its_mapping() {
    let mut host = sender();
    assert_eq!(exchange(&mut host, 10 * PAGE, 1024), 0);
    host.map_out(10, 2, 30, SHRIMP_MODE_DELIBERATE);
    assert_eq!(host.load_memory(10 * PAGE, 4), 0);
    let sent = host.sent();
    assert_eq!(
        (sent.len(), host.counter("transfers_cut")),
        (1, 1),
        "what was in the FIFO goes where it was to go"
    );
    assert_eq!(sent[0].0, 1);
    // A transfer also ends if its process changes the mode.
    assert_eq!(exchange(&mut host, 11 * PAGE, 1024), 0);
    host.store_memory(11 * PAGE, 4, u64::from(SHRIMP_SET_MODE | SHRIMP_MODE_SINGLE));
    assert_eq!((host.sent().len(), host.counter("transfers_cut")), (1, 2));
}

#[test]
fn engine_sends_after_earlier_stores() {
    let mut host = sender();
    host.map_out(12, 1, 22, SHRIMP_MODE_BLOCKED);
    host.store_seen(12 * PAGE, b"before");
    assert_eq!(exchange(&mut host, 10 * PAGE, 1), 0);
    host.store_seen(12 * PAGE + 6, b"after");
    host.wait(51);
    let order: Vec<u64> = host.sent_data().into_iter().map(|(_, address, _)| address).collect();
    assert_eq!(order, [22 * PAGE, 20 * PAGE, 22 * PAGE + 6]);
}

#[test]
fn a_transfer_waits_for_the_link() {
    let mut host = sender();
    host.with(|card, ports, _| card.link_changed(ports, None));
    assert_eq!(exchange(&mut host, 10 * PAGE, 100), 0);
    assert_eq!((host.sent().len(), host.counter("transfers_done")), (0, 0));
    assert_eq!(host.load_memory(10 * PAGE, 4) as u32, SHRIMP_BUSY | SHRIMP_BASE | 100);
    host.with(|card, ports, _| card.link_changed(ports, Some(Place { host: 0, ports: 64 })));
    assert_eq!((host.sent().len(), host.counter("transfers_done")), (2, 1));
}

#[test]
fn command_pages_accept_only_words() {
    let mut host = sender();
    for width in [1, 2, 8] {
        host.store_memory(10 * PAGE, width, 1);
    }
    assert_eq!((host.counter("commands_mapped_refused"), host.sent().len()), (3, 0));
}

#[test]
fn unless_busy_entry_is_refused_during_transfer() {
    let mut host = sender();
    let gentle = |flags, page| ShrimpEntry {
        flags: SHRIMP_ENTRY_KEEP_MODES | SHRIMP_ENTRY_UNLESS_BUSY | flags,
        ..out(4096, [(page, 1, SHRIMP_MODE_DELIBERATE), (0, 0, 0)])
    };
    exchange(&mut host, 11 * PAGE, 1024);
    host.store_memory(10 * PAGE, 4, 1024);
    for page in [10, 11] {
        let refused =
            host.run(SHRIMP_COMMAND_SET_ENTRY, page, &gentle(SHRIMP_ENTRY_WITHHOLD_0, 20)).unwrap_err();
        assert_eq!(refused.status, ULN_STATUS_IN_USE, "one is under way, the other waits");
    }
    assert_eq!(host.sent().len(), 32);
    host.run(SHRIMP_COMMAND_SET_ENTRY, 10, &gentle(SHRIMP_ENTRY_WITHHOLD_0, 20)).unwrap();
    exchange(&mut host, 10 * PAGE, 1);
    assert_eq!((host.sent().len(), host.counter("transfers_refused")), (0, 1));
    host.run(SHRIMP_COMMAND_SET_ENTRY, 10, &gentle(0, 25)).unwrap();
    exchange(&mut host, 10 * PAGE, 1);
    assert_eq!(host.sent().len(), 1);
    assert_eq!((host.counter("transfers_cut"), host.counter("transfers_done")), (0, 3));
}

/// A transfer does not depend on the page's other mappings, or on the hosts that may store to the
/// page.
#[test]
fn transfer_continues_while_its_part_is_unchanged() {
    let parts = |first, other| [(first, 1, SHRIMP_MODE_DELIBERATE), (other, 2, SHRIMP_MODE_DELIBERATE)];
    let mut host = Host::new(0);
    host.set_entry(10, out(2048, parts(20, 30)));
    exchange(&mut host, 10 * PAGE, 512);
    let mut entry = out(2048, parts(20, 31));
    entry.split_in = 4096;
    entry.incoming[0].nodes = 1 << 3;
    entry.flags = SHRIMP_ENTRY_UNLESS_BUSY;
    host.run(SHRIMP_COMMAND_SET_ENTRY, 10, &entry).unwrap();
    assert_eq!(host.counter("transfers_cut"), 0);
    // A part that is withheld, that leads elsewhere, or that is now too short.
    for ended in [
        ShrimpEntry { flags: SHRIMP_ENTRY_WITHHOLD_0, ..out(2048, parts(20, 31)) },
        out(2048, parts(21, 31)),
        out(2044, parts(20, 31)),
        ShrimpEntry { out: [ShrimpOut { mode: SHRIMP_MODE_SINGLE, ..entry.out[0] }, entry.out[1]], ..entry },
    ] {
        let gentle = ShrimpEntry { flags: ended.flags | SHRIMP_ENTRY_UNLESS_BUSY, ..ended };
        let refused = host.run(SHRIMP_COMMAND_SET_ENTRY, 10, &gentle).unwrap_err();
        assert_eq!(refused.status, ULN_STATUS_IN_USE, "{ended:?}");
    }
    let sent: usize = host.sent_data().iter().map(|(_, _, data)| data.len()).sum();
    assert_eq!((sent, host.counter("transfers_done")), (2048, 1));
    exchange(&mut host, 10 * PAGE, 512);
    host.set_entry(10, out(2044, parts(20, 31)));
    assert_eq!(host.counter("transfers_cut"), 1);
}
