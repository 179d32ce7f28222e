//! Counts how often the library copies a message's bytes, and compares that with the table in
//! docs/programming.md.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::channel::open;
use crate::fake::Fake;
use hamlyn::channel::{Channel, Options};
use hamlyn::copied;
use hamlyn::protocol::datagram::{DatagramReceiver, DatagramSender};
use hamlyn::protocol::stream::{StreamReceiver, StreamSender};
use hamlyn::protocol::tagged_write::{TagReceiver, TagSender};
use hamlyn::{Card, Manager};

const PATIENCE: Duration = Duration::from_secs(10);
/// Message lengths in bytes: short messages go by direct I/O, long ones cannot.
const SHORT: usize = 256;
const LONG: usize = 1024;

/// Returns how often `act` copies the bytes of a message of `length` bytes.
fn copies(length: usize, act: impl FnOnce()) -> u64 {
    let before = copied();
    act();
    let bytes = copied() - before;
    assert_eq!(bytes % length as u64, 0, "{bytes} bytes for a message of {length}");
    bytes / length as u64
}

/// Returns the numbers of a table row, which is selected by its first column.
fn row(first: &str) -> Vec<u64> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/programming.md");
    let text = fs::read_to_string(path).unwrap();
    let row = text.lines().find(|line| line.starts_with(&format!("| {first} |")));
    let row = row.unwrap_or_else(|| panic!("docs/programming.md has no row {first:?}"));
    row.split('|').skip(2).filter_map(|cell| cell.trim().parse().ok()).collect()
}

/// Reads every byte in place.
fn look(cells: &[std::sync::atomic::AtomicU8]) {
    assert!(cells.iter().all(|cell| cell.load(std::sync::atomic::Ordering::Relaxed) == 6));
}

#[test]
fn tagged_write_copies_match_the_table() {
    let card = Card::attached(Fake::default().share());
    let manager = Manager::create(&card).unwrap();
    let sender = TagSender::new(manager.terminus().clone());
    let receiver = TagReceiver::create(&card, LONG, 8).unwrap();
    let ticket = receiver.ticket().unwrap();
    let buffer = manager.lend(vec![6_u8; LONG]).unwrap();
    let bytes = copies(SHORT, || drop(sender.send(&ticket, &[6; SHORT], 0, 1).unwrap()));
    let from = copies(LONG, || drop(sender.send_from(&ticket, &buffer, 0..LONG, 0, 1).unwrap()));
    let in_place = copies(LONG, || look(receiver.cells(0, LONG).unwrap()));
    let read = copies(LONG, || receiver.read(0, &mut [0; LONG]).unwrap());
    assert_eq!([bytes, from, in_place, read], row("tagged remote write")[..]);
}

#[test]
fn datagram_copies_match_the_table() {
    let card = Card::attached(Fake::default().share());
    let manager = Manager::create(&card).unwrap();
    let sender = DatagramSender::new(&manager);
    let mut receiver = DatagramReceiver::create(&manager, LONG).unwrap();
    let ticket = receiver.ticket().unwrap();
    let buffer = manager.lend(vec![6_u8; LONG]).unwrap();
    let bytes = copies(SHORT, || drop(sender.send(&ticket, &[6; SHORT], 0, None).unwrap()));
    let _ = receiver.recv_timeout(PATIENCE).unwrap();
    receiver.rearm();
    let from = copies(LONG, || drop(sender.send_from(&ticket, &buffer, 0..LONG, 0, None).unwrap()));
    let in_place = copies(LONG, || look(receiver.recv_timeout(PATIENCE).unwrap().cells()));
    let read = copies(LONG, || receiver.recv_timeout(PATIENCE).unwrap().read(0, &mut [0; LONG]).unwrap());
    assert_eq!([bytes, from, in_place, read], row("datagram")[..]);
}

#[test]
fn stream_copies_match_the_table() {
    let card = Card::attached(Fake::default().share());
    let manager = Manager::create(&card).unwrap();
    let mut receiver = StreamReceiver::create(&manager).unwrap();
    let mut sender = StreamSender::from_seed(&manager, &receiver.make_seed().unwrap()).unwrap();
    let buffer = manager.lend(vec![6_u8; LONG]).unwrap();
    let bytes = copies(LONG, || {
        sender.send(&[6; LONG]).unwrap();
        sender.flush().unwrap();
    });
    let from = copies(LONG, || drop(sender.send_from(&buffer, 0..LONG).unwrap()));
    let in_place = copies(LONG, || look(receiver.recv_timeout(PATIENCE).unwrap().unwrap().cells()));
    receiver.release(0).unwrap();
    let read = copies(LONG, || {
        receiver.read_exact_or_end_timeout(&mut [0; LONG], PATIENCE).unwrap();
    });
    assert_eq!([bytes, from, in_place, read], row("stream")[..]);
}

#[test]
fn channel_copies_match_the_table() {
    let fake = Fake::default();
    fake.give_express(false);
    let [here, there] = open(&fake, Options::default());
    let (Channel { mut sender, .. }, Channel { mut receiver, .. }) = (here, there);
    assert!(sender.is_express());
    let bytes = copies(LONG, || sender.send(&[6; LONG]).unwrap());
    let built = copies(LONG, || {
        let room = sender.reserve(LONG).unwrap();
        room.cells().iter().for_each(|cell| cell.store(6, std::sync::atomic::Ordering::Relaxed));
        room.commit().unwrap();
    });
    let in_place = copies(LONG, || look(receiver.recv().unwrap().unwrap().cells()));
    let read = copies(LONG, || {
        receiver.recv().unwrap().unwrap().read(0, &mut [0; LONG]).unwrap();
    });
    assert_eq!([bytes, built, in_place, read], row("channel")[..]);
}
