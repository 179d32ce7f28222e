//! Waits for the completion of requests sleep and are woken, with a card in memory.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use crate::fake::Fake;
use hamlyn::protocol::stream::{StreamOptions, StreamReceiver, StreamSender};
use hamlyn::{Card, Error, FetchOp, Handle, Manager, Message, Slot, Terminus, Ticket};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Watchdog timeout, which is never reached.
const PATIENCE: Duration = Duration::from_secs(60);
/// The token of the stream's sender.
const TOKEN: u64 = 77;

/// Creates a card that is held, one of its termini, and a slot to send to.
fn bench() -> (Fake, Terminus, Slot, Ticket) {
    let fake = Fake::default();
    let card = Card::attached(fake.share());
    let slot = card.slot(&card.create_area(64).unwrap()).allow_fetch().create().unwrap();
    let ticket = slot.fast_ticket().unwrap();
    fake.hold(true);
    (fake, card.create_terminus().unwrap(), slot, ticket)
}

fn send(terminus: &Terminus, ticket: &Ticket) -> hamlyn::Result<Handle> {
    terminus.try_send(&Message::to(ticket), b"one of many")
}

/// Fills the work queue.
fn fill(terminus: &Terminus, ticket: &Ticket) -> Vec<Handle> {
    let sent: Vec<_> = std::iter::from_fn(|| send(terminus, ticket).ok()).collect();
    assert_eq!(sent.len(), 63);
    sent
}

fn is_readable(file: BorrowedFd<'_>) -> bool {
    poll(&mut [PollFd::new(&file, PollFlags::IN)], Some(&Timespec::default())).unwrap() > 0
}

/// Waits until `sleepers` threads sleep.
fn until_asleep(fake: &Fake, sleepers: u32) {
    while fake.sleeps() < sleepers {
        std::thread::yield_now();
    }
}

#[test]
fn request_wait_sleeps_once_and_is_woken() {
    let (fake, terminus, _slot, ticket) = bench();
    let handles = [send(&terminus, &ticket).unwrap(), send(&terminus, &ticket).unwrap()];
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| handles[1].wait_timeout(PATIENCE));
        until_asleep(&fake, 1);
        fake.take(1);
        assert!(!waiting.is_finished(), "it is the second that is waited for");
        fake.hold(false);
        waiting.join().unwrap().unwrap();
        assert_eq!(fake.sleeps(), 1, "it does not look, nap and look again");
    });
    assert!(handles[0].is_complete().unwrap());
}

#[test]
fn all_waits_for_the_card_sleep() {
    let (fake, terminus, _slot, ticket) = bench();
    let fetch = terminus.fetch(&ticket, 0, FetchOp::Add(1)).unwrap();
    let last = fill_up(&terminus, &ticket);
    std::thread::scope(|scope| {
        let mut waiting = vec![scope.spawn(|| fetch.wait_timeout(PATIENCE).map(drop))];
        waiting.push(scope.spawn(|| terminus.finish_timeout(PATIENCE)));
        waiting.push(scope.spawn(|| terminus.wait_progress_timeout(PATIENCE)));
        waiting.push(scope.spawn(|| terminus.wait_completed_timeout(last, PATIENCE)));
        waiting.push(scope.spawn(|| terminus.send(&Message::to(&ticket), b"in the end").map(drop)));
        until_asleep(&fake, 5);
        fake.hold(false);
        waiting.into_iter().for_each(|waiting| waiting.join().unwrap().unwrap());
    });
}

/// Fills the rest of the work queue. Returns the last request's position.
fn fill_up(terminus: &Terminus, ticket: &Ticket) -> u64 {
    std::iter::from_fn(|| send(terminus, ticket).ok()).map(|handle| handle.request()).last().unwrap()
}

#[test]
fn a_timeout_gives_the_buffer_back() {
    let fake = Fake::default();
    let manager = Manager::create(&Card::attached(fake.share())).unwrap();
    let (mut to, _from) = ends(&manager);
    fake.hold(true);
    let sent = to.send_buffer(manager.allocate(10).unwrap()).unwrap();
    let failed = sent.wait_timeout(Duration::from_millis(1)).unwrap_err();
    assert!(failed.error.is_timed_out() && fake.sleeps() > 0);
    let sent = failed.back.reclaim().unwrap_err();
    fake.hold(false);
    assert_eq!(sent.wait_timeout(PATIENCE).unwrap().len(), 10);
}

#[test]
fn tag_in_flight_is_not_reused() {
    let (fake, terminus, _slot, ticket) = bench();
    let buffer = terminus.create_send_buffer(4096).unwrap();
    let tag = buffer.tag();
    let sent = terminus.send_dma(&Message::to(&ticket), buffer.piece(0, 64).unwrap()).unwrap();
    drop(buffer);
    let other = terminus.create_send_buffer(4096).unwrap();
    assert_ne!(other.tag(), tag, "the card looks at the tag when it sends");
    fake.hold(false);
    // The buffer is gone, so the card refuses it.
    sent.wait_timeout(PATIENCE).unwrap_err();
    assert_eq!(terminus.create_send_buffer(4096).unwrap().tag(), tag);
}

#[test]
fn file_is_readable_once_half_queue_is_free() {
    let (fake, terminus, _slot, ticket) = bench();
    let sent = fill(&terminus, &ticket);
    let file = terminus.file().unwrap();
    assert!(send(&terminus, &ticket).unwrap_err().is_would_block());
    assert!(!terminus.arm_room().unwrap() && !is_readable(file.as_fd()));
    fake.take(31);
    assert!(!is_readable(file.as_fd()), "one request wakes no sleeper");
    fake.take(1);
    assert!(is_readable(file.as_fd()) && terminus.arm_room().unwrap());
    assert!(!sent[62].arm().unwrap() && !is_readable(file.as_fd()));
    fake.take(30);
    assert!(!is_readable(file.as_fd()));
    fake.take(1);
    assert!(is_readable(file.as_fd()) && sent[62].arm().unwrap());
}

#[test]
fn wait_polls_with_an_older_driver() {
    let (fake, terminus, _slot, ticket) = bench();
    fake.grow_old();
    let handle = send(&terminus, &ticket).unwrap();
    assert!(matches!(handle.arm(), Err(Error::Unsupported(_))));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| handle.wait_timeout(PATIENCE));
        assert!(handle.wait_timeout(Duration::from_millis(1)).unwrap_err().is_timed_out());
        fake.hold(false);
        waiting.join().unwrap().unwrap();
    });
    assert_eq!(fake.sleeps(), 0);
}

/// Creates a stream with more tickets than there are work-queue entries.
fn ends(manager: &Manager) -> (StreamSender, StreamReceiver) {
    let mut options = StreamOptions::default();
    (options.record_size, options.records, options.max_records) = (10, 200, 200);
    let receiver = StreamReceiver::create_with(manager, options).unwrap();
    let mut sender = StreamSender::from_seed(manager, &receiver.make_seed().unwrap()).unwrap();
    sender.set_token(TOKEN);
    (sender, receiver)
}

/// Sends until there is no room left.
fn send_all(sender: &mut StreamSender) -> Error {
    loop {
        if let Err(error) = sender.try_send(&[7; 10]) {
            assert!(!StreamSender::waits_for_receiver(&error), "{error}");
            return error;
        }
    }
}

/// Checks that the loop may sleep: it can arm, and its file is not readable.
fn sleep(manager: &Manager) {
    manager.poll_all().unwrap();
    while manager.arm().unwrap() {}
    assert!(!is_readable(manager.as_fd()) && manager.ready().is_empty());
    assert!(!manager.arm().unwrap());
}

#[test]
fn event_loop_sleeps_until_card_has_room() {
    let fake = Fake::default();
    let manager = Manager::create(&Card::attached(fake.share())).unwrap();
    let (mut sender, receiver) = ends(&manager);
    fake.hold(true);
    for _ in 0..2 {
        assert!(send_all(&mut sender).is_would_block());
        sleep(&manager);
        fake.take(32);
        assert!(is_readable(manager.as_fd()));
        assert_eq!(manager.ready(), [TOKEN]);
    }
    sender.try_send(&[7; 10]).unwrap();
    // The senders that found room need no more, so further completions notify no sender.
    fake.hold(false);
    manager.poll_all().unwrap();
    let _ = manager.ready();
    sleep(&manager);
    assert!(receiver.try_recv().unwrap().is_some());
}

#[test]
fn sleeping_loop_is_woken_for_another_threads_room() {
    let fake = Fake::default();
    let manager = Manager::create(&Card::attached(fake.share())).unwrap();
    let (mut sender, _receiver) = ends(&manager);
    sleep(&manager);
    fake.hold(true);
    send_all(&mut sender);
    assert!(is_readable(manager.as_fd()), "it has to arm for it");
    sleep(&manager);
    fake.take(32);
    assert!(is_readable(manager.as_fd()));
    assert_eq!(manager.ready(), [TOKEN]);
}

#[test]
fn receiver_with_unsent_tickets_is_reported_ready() {
    let fake = Fake::default();
    let manager = Manager::create(&Card::attached(fake.share())).unwrap();
    let (mut sender, mut receiver) = ends(&manager);
    receiver.set_token(TOKEN + 1);
    (0..130).for_each(|_| assert_eq!(sender.try_send(&[7; 10]).unwrap(), 10));
    fake.hold(true);
    send_all(&mut sender);
    (0..130).for_each(|_| assert!(receiver.try_recv().unwrap().is_some()));
    receiver.release(129).unwrap();
    let _ = manager.ready();
    sleep(&manager);
    fake.take(32);
    assert!(is_readable(manager.as_fd()));
    assert_eq!(manager.ready(), [TOKEN, TOKEN + 1]);
}

#[test]
fn stream_send_sleeps_until_the_card_has_room() {
    let fake = Fake::default();
    let manager = Manager::create(&Card::attached(fake.share())).unwrap();
    let (mut sender, receiver) = ends(&manager);
    fake.hold(true);
    send_all(&mut sender);
    std::thread::scope(|scope| {
        let sending = scope.spawn(|| sender.send(&[7; 10]));
        // The sender may be asleep or still awake.
        fake.hold(false);
        sending.join().unwrap().unwrap();
    });
    assert!(receiver.recv_timeout(PATIENCE).unwrap().is_some());
}
