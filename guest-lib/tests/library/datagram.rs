//! Simple datagrams and the manager that dispatches them, with a card in memory (section 3.3).

use std::time::Duration;

use crate::fake::Fake;
use hamlyn::protocol::datagram::{DatagramReceiver, DatagramSender};
use hamlyn::{Card, Error, ErrorKind, Manager, Message, Polling, Ticket};
use proptest::prelude::*;

const SOON: Duration = Duration::from_millis(1);

fn manager() -> (Fake, Manager) {
    let fake = Fake::default();
    let manager = Manager::create(&Card::attached(fake.share())).unwrap();
    (fake, manager)
}

#[test]
fn datagram_carries_its_offset_and_reply_ticket() {
    let (_fake, manager) = manager();
    let (question, answer) =
        (DatagramReceiver::create(&manager, 100).unwrap(), DatagramReceiver::create(&manager, 8).unwrap());
    let sender = DatagramSender::new(&manager);
    let _ = sender.send(&question.ticket().unwrap(), b"what?", 95, Some(&answer.ticket().unwrap())).unwrap();
    let got = question.recv().unwrap();
    assert_eq!((got.offset(), got.to_vec().as_slice()), (95, b"what?".as_slice()));
    let _ = sender.send(&got.reply().unwrap(), b"so", 0, None).unwrap();
    let got = answer.recv().unwrap();
    assert_eq!((got.to_vec().as_slice(), got.reply()), (b"so".as_slice(), None));
    let mut two = [0; 1];
    got.read(1, &mut two).unwrap();
    assert_eq!(two, *b"o");
    assert!(matches!(got.read(1, &mut [0; 2]), Err(Error::PastEnd { .. })));
}

#[test]
fn receiver_takes_one_message_until_rearmed() {
    let (_fake, manager) = manager();
    let mut receiver = DatagramReceiver::create(&manager, 16).unwrap();
    let sender = DatagramSender::new(&manager);
    let ticket = receiver.ticket().unwrap();
    for message in [b"one", b"two"] {
        let _ = sender.send(&ticket, message, 0, None).unwrap();
    }
    assert!(!receiver.is_ready());
    assert_eq!(receiver.try_recv().unwrap().to_vec(), b"one");
    assert_eq!(receiver.recv().unwrap().to_vec(), b"one", "the same until it is re-armed");
    receiver.rearm();
    assert!(receiver.is_ready());
    assert!(receiver.try_recv().unwrap_err().is_would_block(), "the second was refused");
    let _ = sender.send(&ticket, b"three", 0, None).unwrap();
    assert_eq!(receiver.recv().unwrap().to_vec(), b"three");
}

#[test]
fn a_group_shares_a_slot_and_nothing_else() {
    let (fake, manager) = manager();
    let mut group = DatagramReceiver::create_group(&manager, 3, 8).unwrap();
    assert_eq!(fake.open().2, 1);
    let sender = DatagramSender::new(&manager);
    let tickets: Vec<_> = group.iter().map(|receiver| receiver.ticket().unwrap()).collect();
    let stolen = hamlyn::Ticket { base: 8, ..tickets[0] };
    let _ = sender.send(&stolen, b"into the neighbour", 0, None);
    let swapped = hamlyn::Ticket { metadata_index: 1, ..tickets[0] };
    let _ = sender.send(&swapped, b"bad key", 0, None).unwrap();
    group[2].revoke().unwrap();
    for (ticket, message) in tickets.iter().zip([b"a", b"b", b"c"]) {
        let _ = sender.send(ticket, message, 0, None).unwrap();
    }
    assert_eq!(group[0].recv().unwrap().to_vec(), b"a");
    assert_eq!(group[1].recv().unwrap().to_vec(), b"b");
    assert!(group[2].recv_timeout(SOON).unwrap_err().is_timed_out(), "its ticket is void");
    let again = group[2].ticket().unwrap();
    let _ = sender.send(&again, b"c", 0, None).unwrap();
    assert_eq!(group[2].recv().unwrap().to_vec(), b"c");
}

#[test]
fn silent_message_blocks_a_receiver_until_revoke() {
    let (_fake, manager) = manager();
    let mut receiver = DatagramReceiver::create(&manager, 8).unwrap();
    let ticket = receiver.ticket().unwrap();
    let _ = manager.terminus().send(&Message::to(&ticket).silent(), b"quiet").unwrap();
    assert!(!receiver.is_ready() && receiver.try_recv().unwrap_err().is_would_block());
    receiver.revoke().unwrap();
    assert!(receiver.is_ready());
    let ticket = receiver.ticket().unwrap();
    let _ = DatagramSender::new(&manager).send(&ticket, b"loud", 0, None).unwrap();
    assert_eq!(receiver.recv().unwrap().to_vec(), b"loud");
}

#[test]
fn a_buffer_comes_back_once_it_is_sent() {
    let (fake, manager) = manager();
    let receiver = DatagramReceiver::create(&manager, 5000).unwrap();
    let mut buffer = manager.allocate(5000).unwrap();
    buffer.write(4990, b"0123456789").unwrap();
    assert!(matches!(buffer.write(4991, b"0123456789"), Err(Error::PastEnd { .. })));
    fake.hold(true);
    let sent =
        DatagramSender::new(&manager).send_buffer(&receiver.ticket().unwrap(), buffer, 0, None).unwrap();
    let sent = sent.reclaim().expect_err("the card has not sent it");
    assert!(!sent.is_complete().unwrap());
    fake.hold(false);
    let mut buffer = sent.wait().unwrap();
    buffer.write(4990, b"and change").unwrap();
    assert_eq!(receiver.recv().unwrap().to_vec()[4990..], *b"0123456789");
}

#[test]
fn dropped_buffer_is_not_reused_before_send_completes() {
    let (fake, manager) = manager();
    let receiver = DatagramReceiver::create(&manager, 1000).unwrap();
    let mut buffer = manager.allocate(1000).unwrap();
    buffer.write(0, &[7; 1000]).unwrap();
    fake.hold(true);
    drop(DatagramSender::new(&manager).send_buffer(&receiver.ticket().unwrap(), buffer, 0, None).unwrap());
    let mut others: Vec<_> = (0..400).map(|_| manager.allocate(1000).unwrap()).collect();
    others.iter_mut().for_each(|other| other.write(0, &[8; 1000]).unwrap());
    drop(others);
    fake.hold(false);
    assert_eq!(receiver.recv().unwrap().to_vec(), [7; 1000]);
}

proptest! {
    /// Buffers never overlap, and freed memory is reused.
    #[test]
    fn buffers_do_not_overlap(steps in prop::collection::vec((any::<bool>(), 0..100_000_usize), 1..200)) {
        let (_fake, manager) = manager();
        let mut held: Vec<(hamlyn::Buffer, u8)> = Vec::new();
        for (index, (free, amount)) in steps.into_iter().enumerate() {
            if free && !held.is_empty() {
                drop(held.swap_remove(amount % held.len()));
            } else if held.len() < 20 {
                let mut buffer = manager.allocate(amount).unwrap();
                buffer.write(0, &vec![index as u8; amount]).unwrap();
                held.push((buffer, index as u8));
            }
        }
        for (buffer, value) in &held {
            let mut bytes = vec![0; buffer.len()];
            buffer.read(0, &mut bytes).unwrap();
            prop_assert!(bytes.iter().all(|byte| byte == value));
        }
    }
}

#[test]
fn malformed_datagram_is_reported() {
    let (_fake, manager) = manager();
    let mut receiver = DatagramReceiver::create(&manager, 8).unwrap();
    let ticket = receiver.ticket().unwrap();
    let mut lie = b"HDG1\x05\0\0\0\x04\0\0\0".to_vec();
    for metadata in [b"".as_slice(), b"HDG1\xff\xff\xff\xff\xff\xff\xff\xff", &lie.clone()] {
        let _ = manager.terminus().send(&Message::to(&ticket).metadata(metadata), b"").unwrap();
        assert!(matches!(receiver.recv(), Err(Error::Malformed(_))), "{metadata:?}");
        receiver.rearm();
    }
    lie[8] = 3;
    lie.resize(52, 1);
    let _ = manager.terminus().send(&Message::to(&ticket).metadata(&lie), b"").unwrap();
    let error = receiver.try_recv().unwrap_err().to_string();
    assert_eq!(error, "the peer sent a datagram with a reply ticket that cannot be read");
}

#[test]
fn manager_adds_queues_and_reuses_free_entries() {
    let fake = Fake::default();
    let manager = Manager::create_with(&Card::attached(fake.share()), 4, Polling::default()).unwrap();
    for _ in 0..10 {
        let mut group = DatagramReceiver::create_group(&manager, 4, 8).unwrap();
        let other = DatagramReceiver::create(&manager, 8).unwrap();
        let sender = DatagramSender::new(&manager);
        for receiver in group.iter().chain([&other]) {
            let _ = sender.send(&receiver.ticket().unwrap(), b"x", 0, None).unwrap();
        }
        assert_eq!(other.recv().unwrap().to_vec(), b"x");
        // Messages that were not received do not count against later receivers.
        group.clear();
    }
    assert_eq!(fake.open(), (1, 2, 0));
    drop(manager);
    assert_eq!(fake.open(), (0, 0, 0));
}

#[test]
fn waiting_receiver_dispatches_messages_of_others() {
    let (_fake, manager) = manager();
    let receivers: Vec<_> = (0..4).map(|_| DatagramReceiver::create(&manager, 8).unwrap()).collect();
    let tickets: Vec<_> = receivers.iter().map(|receiver| receiver.ticket().unwrap()).collect();
    std::thread::scope(|scope| {
        for mut receiver in receivers {
            let (tickets, manager) = (&tickets, &manager);
            scope.spawn(move || {
                // Each sends to the next one when it receives, so all depend on all.
                let own = receiver.ticket().unwrap();
                let place = tickets.iter().position(|ticket| *ticket == own).unwrap();
                let sender = DatagramSender::new(manager);
                for _ in 0..500 {
                    receiver.recv().unwrap();
                    receiver.rearm();
                    let _ = sender.send(&tickets[(place + 1) % tickets.len()], b"go", 0, None).unwrap();
                }
            });
        }
        let _ = DatagramSender::new(&manager).send(&tickets[0], b"go", 0, None).unwrap();
    });
}

#[test]
fn receivers_have_the_message_after_manager_wait() {
    let (_fake, manager) = manager();
    let receiver = DatagramReceiver::create(&manager, 8).unwrap();
    let _ = DatagramSender::new(&manager).send(&receiver.ticket().unwrap(), b"go", 0, None).unwrap();
    manager.wait().unwrap();
    assert_eq!(receiver.try_recv().unwrap().to_vec(), b"go");
    assert!(manager.wait_timeout(SOON).unwrap_err().is_timed_out());
    assert!(!manager.poll().unwrap());
}

#[test]
fn wait_returns_for_messages_dispatched_between_receivers() {
    let (_fake, manager) = manager();
    let receivers = [8, 8].map(|capacity| DatagramReceiver::create(&manager, capacity).unwrap());
    let sender = DatagramSender::new(&manager);
    // The first receiver has nothing. Then a message for it arrives, which the second finds in the
    // queue.
    assert!(receivers[0].try_recv().unwrap_err().is_would_block());
    let _ = sender.send(&receivers[0].ticket().unwrap(), b"go", 0, None).unwrap();
    assert!(receivers[1].try_recv().unwrap_err().is_would_block());
    manager.wait_timeout(SOON).unwrap();
    assert_eq!(receivers[0].try_recv().unwrap().to_vec(), b"go");
    assert!(manager.wait_timeout(SOON).unwrap_err().is_timed_out());
}

#[test]
fn message_found_without_notification_arrives_once() {
    let fake = Fake::default();
    let manager = Manager::create_with(&Card::attached(fake.share()), 4, Polling::default()).unwrap();
    let mut receivers = [8, 8].map(|capacity| DatagramReceiver::create(&manager, capacity).unwrap());
    let sender = DatagramSender::new(&manager);
    let _ = sender.send(&receivers[0].ticket().unwrap(), b"first", 0, None).unwrap();
    fake.babble(4);
    // The first message's notification is overwritten, the second's is still there.
    let _ = sender.send(&receivers[1].ticket().unwrap(), b"second", 0, None).unwrap();
    assert!(receivers[1].try_recv().unwrap_err().is_overrun());
    for (receiver, message) in receivers.iter_mut().zip([&b"first"[..], b"second"]) {
        assert_eq!(receiver.try_recv().unwrap().to_vec(), message);
        receiver.rearm();
    }
    for receiver in &receivers {
        assert!(receiver.try_recv().unwrap_err().is_would_block());
    }
    // The next message is still found.
    let _ = sender.send(&receivers[1].ticket().unwrap(), b"third", 0, None).unwrap();
    assert_eq!(receivers[1].try_recv().unwrap().to_vec(), b"third");
}

/// Sends three packets of a message, the last of which completes it. The fake card sends each
/// request as one packet.
fn three_packets(manager: &Manager, ticket: &Ticket) {
    for (delta, offset, data) in [(1, 0, b"aaaa"), (1, 4, b"bbbb"), (2_u32.wrapping_neg(), 8, b"cccc")] {
        let metadata = [&b"HDG1\0\0\0\0\x0c\0\0\0"[..], &[0; 40]].concat();
        let message = Message::to(ticket).delta(delta).offset(offset).metadata(&metadata);
        let _ = manager.terminus().send(&message, data).unwrap();
    }
}

#[test]
fn revoked_sender_leaves_no_packet_count() {
    let (_fake, manager) = manager();
    let mut receiver = DatagramReceiver::create(&manager, 12).unwrap();
    let mallory = receiver.ticket().unwrap();
    let _ = manager.terminus().send(&Message::to(&mallory).delta(u32::MAX - 1), b"MMMMMMMMMMMM").unwrap();
    let _ = DatagramSender::new(&manager).send(&mallory, b"whole", 0, None).unwrap();
    receiver.revoke().unwrap();
    assert_eq!(receiver.try_recv().unwrap().to_vec(), b"whole", "it waits");
    let honest = receiver.ticket().unwrap();
    receiver.rearm();
    three_packets(&manager, &honest);
    assert_eq!(receiver.recv().unwrap().to_vec(), b"aaaabbbbcccc");
}

#[test]
fn new_key_shows_no_bytes_of_the_old() {
    for waits in [false, true] {
        let (_fake, manager) = manager();
        let mut receiver = DatagramReceiver::create(&manager, 12).unwrap();
        let sender = DatagramSender::new(&manager);
        let ticket = receiver.ticket().unwrap();
        let _ = sender.send(&ticket, b"first holder", 0, Some(&ticket)).unwrap();
        if !waits {
            receiver.recv().unwrap();
            receiver.rearm();
        }
        receiver.revoke().unwrap();
        if waits {
            assert_eq!(receiver.try_recv().unwrap().to_vec(), b"first holder");
            receiver.rearm();
        }
        // The sender announces twelve bytes, and sends two.
        let second = receiver.ticket().unwrap();
        let message = Message::to(&second).metadata(b"HDG1\0\0\0\0\x0c\0\0\0");
        let _ = manager.terminus().send(&message, b"me").unwrap();
        let got = receiver.recv().unwrap();
        assert_eq!((got.to_vec(), got.reply()), (b"me\0\0\0\0\0\0\0\0\0\0".to_vec(), None), "{waits}");
    }
}

#[test]
fn receiver_reports_a_partially_lost_message() {
    let (_fake, manager) = manager();
    let mut receiver = DatagramReceiver::create(&manager, 12).unwrap();
    receiver.set_stall_timeout(Duration::ZERO);
    let ticket = receiver.ticket().unwrap();
    assert!(!receiver.is_partial() && receiver.try_recv().unwrap_err().is_would_block());
    for reset in [DatagramReceiver::forget, DatagramReceiver::revoke] {
        let ticket = receiver.ticket().unwrap();
        let _ = manager.terminus().send(&Message::to(&ticket).delta(1), b"half").unwrap();
        assert!(receiver.is_partial());
        for told in [receiver.try_recv().unwrap_err(), receiver.recv().unwrap_err()] {
            assert_eq!(told.kind(), ErrorKind::Incomplete);
            assert_eq!(told.to_string(), "a datagram is incomplete: nothing more of it has come for 0ns");
        }
        reset(&mut receiver).unwrap();
        assert!(!receiver.is_partial() && receiver.try_recv().unwrap_err().is_would_block());
    }
    assert_ne!(receiver.ticket().unwrap(), ticket);
    three_packets(&manager, &receiver.ticket().unwrap());
    assert_eq!(receiver.recv().unwrap().to_vec(), b"aaaabbbbcccc");
}

#[test]
fn message_in_progress_is_not_reported_lost() {
    let (_fake, manager) = manager();
    let mut receiver = DatagramReceiver::create(&manager, 12).unwrap();
    receiver.set_stall_timeout(Duration::from_secs(3600));
    let ticket = receiver.ticket().unwrap();
    let _ = manager.terminus().send(&Message::to(&ticket).delta(1), b"half").unwrap();
    assert!(receiver.try_recv().unwrap_err().is_would_block());
    assert!(receiver.recv_timeout(SOON).unwrap_err().is_timed_out());
}

#[test]
fn dropped_group_member_waits_for_the_card() {
    let (fake, manager) = manager();
    let mut group = DatagramReceiver::create_group(&manager, 2, 8).unwrap();
    let before = fake.settled();
    drop(group.pop());
    assert_eq!(fake.settled(), before + 1);
}
