//! One manager for many peers, and the errors of failed calls, with a card in memory (section 3.3).

use std::io::{ErrorKind as IoKind, Read, Write};
use std::time::Duration;

use crate::fake::Fake;
use hamlyn::protocol::datagram::{DatagramReceiver, DatagramSender};
use hamlyn::protocol::stream::{StreamOptions, StreamReceiver, StreamSender};
use hamlyn::{Card, Error, ErrorKind, Manager, PeerLoss, Polling};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Watchdog timeout, which is never reached.
const WATCHDOG: Duration = Duration::from_secs(60);

fn manager() -> (Fake, Manager) {
    let fake = Fake::default();
    let manager = Manager::create(&Card::attached(fake.share())).unwrap();
    (fake, manager)
}

#[test]
fn one_manager_serves_a_thousand_streams() {
    let (_fake, manager) = manager();
    let mut ends: Vec<(StreamSender, StreamReceiver)> = (0..1000_u32)
        .map(|client| {
            let receiver =
                StreamReceiver::create(&manager).unwrap_or_else(|error| panic!("{client}: {error}"));
            let sender = StreamSender::from_seed(&manager, &receiver.make_seed().unwrap());
            (sender.unwrap_or_else(|error| panic!("{client}: {error}")), receiver)
        })
        .collect();
    for (client, (sender, _)) in (0_u32..).zip(&mut ends) {
        sender.send(&client.to_le_bytes()).unwrap();
        sender.flush().unwrap();
    }
    for (client, (_, receiver)) in (0_u32..).zip(&ends) {
        assert_eq!(receiver.try_recv().unwrap().unwrap().to_vec(), client.to_le_bytes());
    }
}

#[test]
fn io_errors_of_a_stream_keep_their_kind() {
    let (_fake, manager) = manager();
    let mut receiver = StreamReceiver::create(&manager).unwrap();
    let mut sender = StreamSender::from_seed(&manager, &receiver.make_seed().unwrap()).unwrap();
    sender.set_write_timeout(Some(Duration::from_millis(1)));
    let all = sender.write_all(&[7; 1 << 20]).unwrap_err();
    assert_eq!(all.kind(), IoKind::TimedOut);
    receiver.peer_lost(PeerLoss::Host);
    while sender.accepted() > 0 {
        match receiver.read(&mut [0; 1 << 16]) {
            Ok(length) => assert!(length > 0, "the loss comes before the end"),
            Err(error) => {
                assert_eq!(error.kind(), IoKind::HostUnreachable);
                break;
            }
        }
    }
    sender.peer_lost(PeerLoss::Process);
    assert_eq!(sender.write(b"x").unwrap_err().kind(), IoKind::ConnectionReset);
}

/// Creates a manager that uses its second queue, with two receivers on the first queue and one on
/// the second.
fn two_queues() -> (Fake, Manager, Vec<DatagramReceiver>) {
    let fake = Fake::default();
    let manager = Manager::create_with(&Card::attached(fake.share()), 2, Polling::NEVER).unwrap();
    let mut places = DatagramReceiver::create_group(&manager, 2, 8).unwrap();
    places.push(DatagramReceiver::create(&manager, 8).unwrap());
    (fake, manager, places)
}

#[test]
fn any_queue_wakes_a_sleeper() {
    let (_fake, manager, places) = two_queues();
    let sender = DatagramSender::new(&manager);
    for place in places.iter().rev() {
        std::thread::scope(|scope| {
            let received = scope.spawn(|| place.recv_timeout(WATCHDOG).unwrap().to_vec());
            let _ = sender.send(&place.ticket().unwrap(), b"go", 0, None).unwrap();
            assert_eq!(received.join().unwrap(), b"go");
        });
    }
}

#[test]
fn sleepers_see_messages_dispatched_by_other_threads() {
    let (_fake, manager, mut places) = two_queues();
    places.extend(DatagramReceiver::create_group(&manager, 5, 8).unwrap());
    let tickets: Vec<_> = places.iter().map(|place| place.ticket().unwrap()).collect();
    let sender = DatagramSender::new(&manager);
    std::thread::scope(|scope| {
        for (number, mut place) in places.into_iter().enumerate() {
            let (tickets, sender) = (&tickets, &sender);
            scope.spawn(move || {
                for _ in 0..200 {
                    place.recv_timeout(WATCHDOG).unwrap();
                    place.rearm();
                    let _ = sender.send(&tickets[(number + 1) % tickets.len()], b"go", 0, None).unwrap();
                }
            });
        }
        for ticket in &tickets[..1] {
            let _ = sender.send(ticket, b"go", 0, None).unwrap();
        }
    });
}

fn is_readable(manager: &Manager) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::new(manager, PollFlags::IN)], Some(&now)).unwrap() == 1
}

#[test]
fn managers_file_covers_its_queues_and_wakers() {
    let (_fake, manager, places) = two_queues();
    for place in &places {
        assert!(!manager.arm().unwrap() && !is_readable(&manager));
        let _ = DatagramSender::new(&manager).send(&place.ticket().unwrap(), b"x", 0, None).unwrap();
        assert!(is_readable(&manager));
        assert_eq!(manager.poll_all().unwrap(), 1);
        assert!(manager.arm().unwrap(), "it was handed on since");
    }
    manager.waker().wake();
    assert!(is_readable(&manager));
    assert!(manager.arm().unwrap());
    assert!(!manager.arm().unwrap() && !is_readable(&manager), "it is told once");
}

#[test]
fn waker_wakes_a_sleeping_thread() {
    let (_fake, manager) = manager();
    let place = DatagramReceiver::create(&manager, 8).unwrap();
    let waker = manager.waker();
    let woken = |error: Error| {
        assert_eq!(
            (error.kind(), error.to_string().as_str()),
            (ErrorKind::Woken, "woken up before there was a datagram")
        );
    };
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| place.recv_timeout(WATCHDOG).map(|_| ()).unwrap_err());
        waker.wake();
        woken(sleeper.join().unwrap());
    });
    // It also wakes a thread that is about to sleep.
    waker.wake();
    waker.wake();
    woken(place.recv_timeout(WATCHDOG).map(|_| ()).unwrap_err());
    waker.wake();
    manager.wait_timeout(WATCHDOG).unwrap();
    let soon = Duration::from_millis(1);
    assert_eq!(manager.wait_timeout(soon).unwrap_err().kind(), ErrorKind::TimedOut);
    // A message that has arrived comes first.
    let _ = DatagramSender::new(&manager).send(&place.ticket().unwrap(), b"go", 0, None).unwrap();
    waker.wake();
    assert_eq!(place.recv_timeout(WATCHDOG).unwrap().to_vec(), b"go");
}

#[test]
fn stream_wait_ends_when_another_thread_loses_peer() {
    let (_fake, manager) = manager();
    let receiver = StreamReceiver::create(&manager).unwrap();
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| receiver.recv_timeout(WATCHDOG).map(|_| ()).unwrap_err());
        receiver.peer_lost(PeerLoss::Process);
        assert_eq!(sleeper.join().unwrap().kind(), ErrorKind::PeerLost);
    });
}

#[test]
fn exhausted_resource_fails_without_waiting() {
    let (_fake, manager) = manager();
    let buffers: Vec<_> = (0..7).map(|_| manager.terminus().create_send_buffer(64).unwrap()).collect();
    let held = manager.allocate(1).unwrap();
    let exhausted = manager.allocate(1 << 20).unwrap_err();
    assert_eq!(exhausted.kind(), ErrorKind::Exhausted);
    assert_eq!(
        exhausted.to_string(),
        "all 8 send-buffer tags are in use: drop a send buffer, or take another terminus"
    );
    drop((buffers, held));
    assert!(manager.allocate(1 << 20).is_ok());
}

#[test]
fn memory_is_freed_once_the_card_has_gathered() {
    let (fake, manager) = manager();
    let place = DatagramReceiver::create(&manager, 1 << 16).unwrap();
    let _buffers: Vec<_> = (0..7).map(|_| manager.terminus().create_send_buffer(64).unwrap()).collect();
    fake.hold(true);
    let all = manager.allocate(1 << 16).unwrap();
    drop(DatagramSender::new(&manager).send_buffer(&place.ticket().unwrap(), all, 0, None).unwrap());
    assert_eq!(manager.allocate(1).unwrap_err().kind(), ErrorKind::WouldBlock);
    fake.hold(false);
    assert!(manager.allocate(1 << 16).is_ok());
}

#[test]
fn failed_send_gives_the_buffer_back() {
    let (fake, manager) = manager();
    let sender = DatagramSender::new(&manager);
    let place = DatagramReceiver::create(&manager, 1000).unwrap();
    let too_long = manager.allocate(1001).unwrap();
    let failed = sender.send_buffer(&place.ticket().unwrap(), too_long, 0, None).unwrap_err();
    assert_eq!((failed.error.kind(), failed.back.len()), (ErrorKind::Invalid, 1001));

    fake.hold(true);
    let buffer = manager.allocate(1000).unwrap();
    let sent = sender.send_buffer(&place.ticket().unwrap(), buffer, 0, None).unwrap();
    let soon = Duration::from_millis(1);
    let failed = sent.wait_timeout(soon).unwrap_err();
    assert!(failed.error.is_timed_out());
    fake.hold(false);
    assert_eq!(failed.back.wait().unwrap().len(), 1000);
}

#[test]
fn full_stream_returns_the_buffer_and_stops_sending() {
    let (_fake, manager) = manager();
    let mut receiver = StreamReceiver::create(&manager).unwrap();
    let mut sender = StreamSender::from_seed(&manager, &receiver.make_seed().unwrap()).unwrap();
    // At most 15 records of 16 KiB can be sent at once.
    let buffer = manager.allocate(16 * 16 * 1024).unwrap();
    let failed = sender.try_send_buffer(buffer).unwrap_err();
    assert!(failed.error.is_would_block());
    assert_eq!(sender.accepted(), 0);
    let mut failed = sender.send_buffer_timeout(failed.back, Duration::from_millis(1)).unwrap_err();
    assert!(failed.error.is_timed_out());
    assert_eq!(sender.accepted(), 15 * 16 * 1024);
    failed.back.write(0, b"it is mine again").unwrap();
    let number = receiver.recv().unwrap().unwrap().number();
    receiver.release(number).unwrap();
    let little = manager.allocate(1).unwrap();
    drop(sender.try_send_buffer(little).unwrap());
    sender.try_close().unwrap();
    let closed = sender.try_send(b"x").unwrap_err();
    assert_eq!((closed.kind(), closed.to_string().as_str()), (ErrorKind::Closed, "the stream is closed"));
}

#[test]
fn ready_returns_tokens_of_objects_with_news() {
    let (_fake, manager) = manager();
    let sender = DatagramSender::new(&manager);
    let mut places = DatagramReceiver::create_group(&manager, 3, 8).unwrap();
    (0..).zip(&mut places).for_each(|(token, place)| place.set_token(token));
    let mut receiver = StreamReceiver::create(&manager).unwrap();
    let mut stream = StreamSender::from_seed(&manager, &receiver.make_seed().unwrap()).unwrap();
    receiver.set_token(10);
    stream.set_token(11);
    assert!(manager.ready().is_empty());
    for place in [2, 0] {
        let _ = sender.send(&places[place].ticket().unwrap(), b"x", 0, None).unwrap();
    }
    stream.send(b"x").unwrap();
    stream.flush().unwrap();
    assert!(manager.ready().is_empty(), "they are handed on by `poll_all`");
    manager.poll_all().unwrap();
    assert_eq!(manager.ready(), [0, 2, 10]);
    assert!(manager.ready().is_empty());
    // The receiver announces released records once that is worth a message.
    for _ in 0..4 {
        stream.send(b"x").unwrap();
        stream.flush().unwrap();
        let number = receiver.recv_timeout(WATCHDOG).unwrap().unwrap().number();
        receiver.release(number).unwrap();
    }
    manager.poll_all().unwrap();
    assert_eq!(manager.ready(), [10, 11]);
    receiver.peer_lost(PeerLoss::Link);
    assert!(manager.arm().unwrap(), "that is news, too");
    assert_eq!(manager.ready(), [10]);
}

#[test]
fn receiver_is_ready_once_it_can_return_tickets() {
    let (fake, manager) = manager();
    let options = StreamOptions { record_size: 64, records: 2, max_records: 2 };
    let mut receiver = StreamReceiver::create_with(&manager, options).unwrap();
    let mut stream = StreamSender::from_seed(&manager, &receiver.make_seed().unwrap()).unwrap();
    let place = DatagramReceiver::create(&manager, 8).unwrap();
    receiver.set_token(1);
    stream.set_token(2);
    stream.send(b"x").unwrap();
    stream.flush().unwrap();
    let number = receiver.recv_timeout(WATCHDOG).unwrap().unwrap().number();
    let _ = (manager.ready(), manager.arm().unwrap());

    // The work queue is full, so the sender cannot be notified.
    fake.hold(true);
    let (sender, ticket) = (DatagramSender::new(&manager), place.ticket().unwrap());
    while sender.try_send(&ticket, b"y", 0, None).is_ok() {}
    receiver.release(number).unwrap();
    assert!(!manager.arm().unwrap(), "a loop may sleep until there is room");
    assert!(manager.ready().is_empty());
    fake.hold(false);
    assert!(manager.arm().unwrap());
    assert_eq!(manager.ready(), [1]);
    assert!(receiver.try_recv().unwrap_err().is_would_block());
    manager.poll_all().unwrap();
    assert!(manager.ready().contains(&2), "the sender has been told");
    assert_eq!(stream.try_send(b"z").unwrap(), 1);
    stream.try_flush().unwrap();
}

#[test]
fn exact_read_is_complete_or_fails() {
    let (_fake, manager) = manager();
    let mut receiver = StreamReceiver::create(&manager).unwrap();
    let mut sender = StreamSender::from_seed(&manager, &receiver.make_seed().unwrap()).unwrap();
    let soon = Duration::from_millis(1);
    for part in [b"abc", b"def", b"ghi"] {
        sender.send(part).unwrap();
        sender.flush().unwrap();
    }
    let mut four = [0; 4];
    assert_eq!((receiver.read_exact_or_end_timeout(&mut four, WATCHDOG).unwrap(), &four), (4, b"abcd"));
    assert_eq!((receiver.read_exact_or_end_timeout(&mut four, WATCHDOG).unwrap(), &four), (4, b"efgh"));
    assert_eq!((receiver.read_exact_or_end_timeout(&mut four, soon).unwrap(), four[0]), (1, b'i'));
    assert!(receiver.read_exact_or_end_timeout(&mut four, soon).unwrap_err().is_timed_out());
    sender.send(b"j").unwrap();
    sender.flush().unwrap();
    drop(sender);
    // A loss after some bytes is reported by the next call, and is not taken for the end.
    assert_eq!(receiver.read_exact_or_end_timeout(&mut four, WATCHDOG).unwrap(), 1);
    assert_eq!(
        receiver.read_exact_or_end_timeout(&mut four, WATCHDOG).unwrap_err().kind(),
        ErrorKind::PeerLost
    );
}

#[test]
fn stream_flush_and_close_work_in_either_order() {
    let (fake, manager) = manager();
    let receiver = StreamReceiver::create(&manager).unwrap();
    let mut sender = StreamSender::from_seed(&manager, &receiver.make_seed().unwrap()).unwrap();
    sender.send(b"x").unwrap();
    fake.hold(true);
    assert!(sender.try_close().unwrap_err().is_would_block());
    sender.try_flush().unwrap();
    sender.flush().unwrap();
    fake.hold(false);
    sender.try_close().unwrap();
    sender.try_flush().unwrap();
}
