//! Tagged remote write, with a card in memory (section 3.3).

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::fake::Fake;
use hamlyn::protocol::tagged_write::{TagReceiver, TagSender};
use hamlyn::{Card, Error, OverrunError};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

fn ends() -> (TagReceiver, TagSender, Card) {
    let card = Card::attached(Fake::default().share());
    let receiver = TagReceiver::create(&card, 4096, 64).unwrap();
    (receiver, TagSender::new(card.create_terminus().unwrap()), card)
}

#[test]
fn data_lands_at_its_offset_tags_in_order() {
    let (mut receiver, sender, _card) = ends();
    let ticket = receiver.ticket().unwrap();
    for (offset, tag) in [(0, 10), (100, 11), (4091, u32::MAX)] {
        let _ = sender.send(&ticket, b"hello", offset, tag).unwrap();
    }
    for (offset, tag) in [(0, 10), (100, 11), (4091, u32::MAX)] {
        assert_eq!(receiver.try_recv().unwrap(), Some(tag));
        let mut back = [0; 5];
        receiver.read(offset, &mut back).unwrap();
        assert_eq!(back, *b"hello");
    }
    assert_eq!(receiver.try_recv().unwrap(), None);
}

#[test]
fn file_is_readable_once_a_tag_arrived() {
    let (mut receiver, sender, _card) = ends();
    let ticket = receiver.ticket().unwrap();
    let readable = |receiver: &TagReceiver| {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let file = receiver.file().unwrap();
        poll(&mut [PollFd::new(&file, PollFlags::IN)], Some(&now)).unwrap() == 1
    };
    assert!(!receiver.arm().unwrap() && !readable(&receiver));
    for tag in [1, 2] {
        let _ = sender.send(&ticket, &[], 0, tag).unwrap();
    }
    assert!(readable(&receiver));
    assert_eq!(receiver.try_recv_tag(2).unwrap(), Some(2));
    assert!(receiver.arm().unwrap(), "one was taken off the queue, and waits");
    assert_eq!(receiver.try_recv().unwrap(), Some(1));
    assert!(!receiver.arm().unwrap() && !readable(&receiver));
}

#[test]
fn waiting_for_one_tag_keeps_others_in_order() {
    let (mut receiver, sender, _card) = ends();
    let ticket = receiver.ticket().unwrap();
    assert_eq!(receiver.try_recv_tag(3).unwrap(), None);
    for tag in [1, 2, 3, 2, 4] {
        let _ = sender.send(&ticket, &[], 0, tag).unwrap();
    }
    assert_eq!(receiver.try_recv_tag(3).unwrap(), Some(3));
    assert_eq!(receiver.try_recv_tag(3).unwrap(), None);
    assert_eq!(receiver.recv_tag(2).unwrap(), 2);
    assert_eq!(receiver.try_recv().unwrap(), Some(1));
    assert_eq!(receiver.recv().unwrap(), 2);
    assert_eq!(receiver.recv_polling().unwrap(), 4);
    assert_eq!(receiver.try_recv().unwrap(), None);
}

#[test]
fn timed_out_tag_wait_keeps_other_tags() {
    let (mut receiver, sender, _card) = ends();
    let ticket = receiver.ticket().unwrap();
    let _ = sender.send(&ticket, &[], 0, 1).unwrap();
    let short = Duration::from_millis(1);
    assert!(receiver.recv_tag_timeout(9, short).unwrap_err().is_timed_out());
    assert_eq!(receiver.recv_timeout(short).unwrap(), 1);
    assert!(receiver.recv_timeout(short).unwrap_err().is_timed_out());
    assert!(receiver.recv_polling_timeout(short).unwrap_err().is_timed_out());
}

#[test]
fn later_message_wakes_a_sleeper() {
    let (mut receiver, sender, _card) = ends();
    let ticket = receiver.ticket().unwrap();
    std::thread::scope(|scope| {
        let receiver = scope.spawn(move || receiver.recv().unwrap());
        let _ = sender.send(&ticket, &[], 0, 7).unwrap();
        assert_eq!(receiver.join().unwrap(), 7);
    });
}

#[test]
fn a_message_fits_in_a_packet() {
    let (receiver, sender, card) = ends();
    let ticket = receiver.ticket().unwrap();
    let terminus = sender.terminus();
    let buffer = terminus.create_send_buffer(2048).unwrap();
    sender.send(&ticket, buffer.piece(0, 1024).unwrap(), 0, 1).unwrap().wait().unwrap();
    let error = sender.send(&ticket, buffer.piece(0, 1025).unwrap(), 0, 1).unwrap_err();
    assert_eq!(error.to_string(), "fast-mode message length 1025 is out of range (limit 1024)");
    let area = card.create_area(64).unwrap();
    let slot = card.slot(&area).metadata_entries(1).create().unwrap();
    let wrong = sender.send(&slot.ticket(0).unwrap(), b"x", 0, 1).unwrap_err();
    assert!(matches!(wrong, Error::Invalid(_)), "{wrong}");
}

#[test]
fn lost_tags_are_reported_once_by_next_call() {
    let card = Card::attached(Fake::default().share());
    let mut receiver = TagReceiver::create(&card, 64, 4).unwrap();
    let sender = TagSender::new(card.create_terminus().unwrap());
    let ticket = receiver.ticket().unwrap();
    for tag in 0..20 {
        let _ = sender.send(&ticket, &[], 0, tag).unwrap();
    }
    let overrun = *receiver.recv().unwrap_err().of::<OverrunError>().unwrap();
    assert_eq!((overrun.lost, overrun.entries), (16, 4));
    assert_eq!(receiver.try_recv_tag(18).unwrap(), Some(18));
    assert_eq!(receiver.try_recv().unwrap(), Some(16));
    for tag in 20..30 {
        let _ = sender.send(&ticket, &[], 0, tag).unwrap();
    }
    assert_eq!(receiver.try_recv().unwrap(), Some(17), "what was taken off the queue is not lost");
    assert!(receiver.recv_polling().unwrap_err().is_overrun());
    assert_eq!(receiver.recv_polling().unwrap(), 26);
}

#[test]
fn tag_wait_times_out_under_a_flood() {
    const FLOOD: u32 = 6_000_000;
    let card = Card::attached(Fake::default().share());
    let mut receiver = TagReceiver::create(&card, 64, 65536).unwrap();
    let sender = TagSender::new(card.create_terminus().unwrap());
    let (ticket, over) = (receiver.ticket().unwrap(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let flood = scope.spawn(|| {
            let goes_on = |_: &u32| !over.load(Ordering::Relaxed);
            let sent = (0..FLOOD).take_while(goes_on).map(|tag| sender.send(&ticket, &[], 0, tag).unwrap());
            sent.count() as u32
        });
        let waited = receiver.recv_tag_timeout(u32::MAX, Duration::from_millis(1));
        over.store(true, Ordering::Relaxed);
        assert!(waited.unwrap_err().is_timed_out());
        assert!(flood.join().unwrap() < FLOOD, "it waited until the flood was over");
    });
}

#[test]
fn number_of_deferred_tags_is_bounded() {
    let card = Card::attached(Fake::default().share());
    let mut receiver = TagReceiver::create(&card, 64, 4).unwrap();
    let sender = TagSender::new(card.create_terminus().unwrap());
    let ticket = receiver.ticket().unwrap();
    for tag in 1..=4 {
        let _ = sender.send(&ticket, &[], 0, tag).unwrap();
        assert_eq!(receiver.try_recv_tag(9).unwrap(), None);
    }
    let _ = sender.send(&ticket, &[], 0, 5).unwrap();
    let full = receiver.try_recv_tag(9).unwrap_err();
    assert!(full.is_exhausted() && receiver.recv_tag(9).unwrap_err().is_exhausted());
    assert_eq!(
        full.to_string(),
        "all 4 tags that may stand aside are in use: take some of them before you look for a specific one"
    );
    assert_eq!(receiver.try_recv_tag(3).unwrap(), Some(3));
    for tag in [1, 2, 4, 5] {
        assert_eq!(receiver.try_recv().unwrap(), Some(tag));
    }
}
