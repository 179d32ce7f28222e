//! Streams, with a card in memory whose fabric delivers in any order (section 3.3).

use std::io::{Read, Write};
use std::time::Duration;

use crate::fake::Fake;
use hamlyn::protocol::stream::{StreamOptions, StreamReceiver, StreamSender};
use hamlyn::{Card, Error, Manager, Message, PeerLoss, Seed};
use proptest::prelude::*;

const SOON: Duration = Duration::from_millis(1);
const SMALL: StreamOptions = StreamOptions { record_size: 10, records: 4, max_records: 4 };

fn manager() -> (Fake, Manager) {
    let fake = Fake::default();
    let manager = Manager::create(&Card::attached(fake.share())).unwrap();
    (fake, manager)
}

fn ends(options: StreamOptions) -> (Fake, StreamSender, StreamReceiver) {
    let (fake, manager) = manager();
    let receiver = StreamReceiver::create_with(&manager, options).unwrap();
    let seed: Seed = receiver.make_seed().unwrap().to_string().parse().unwrap();
    (fake, StreamSender::from_seed(&manager, &seed).unwrap(), receiver)
}

/// Receives the next record and releases it.
fn next(receiver: &mut StreamReceiver) -> Option<Vec<u8>> {
    let (number, bytes) = {
        let record = receiver.recv_timeout(SOON).unwrap()?;
        (record.number(), record.to_vec())
    };
    receiver.release(number).unwrap();
    Some(bytes)
}

#[test]
fn small_sends_coalesce_and_full_records_leave() {
    let (_fake, mut sender, mut receiver) = ends(SMALL);
    sender.send(b"abc").unwrap();
    sender.send(b"def").unwrap();
    assert!(receiver.try_recv().unwrap_err().is_would_block());
    sender.flush().unwrap();
    sender.flush().unwrap();
    assert_eq!(next(&mut receiver).unwrap(), b"abcdef");
    sender.send(b"0123456789abc").unwrap();
    assert_eq!(next(&mut receiver).unwrap(), b"0123456789");
    assert!(receiver.recv_timeout(SOON).unwrap_err().is_timed_out());
    assert_eq!(sender.accepted(), 19);
    sender.close().unwrap();
    assert_eq!(next(&mut receiver).unwrap(), b"abc");
    assert_eq!(next(&mut receiver), None);
    assert_eq!(next(&mut receiver), None);
}

#[test]
fn buffer_is_sent_after_coalesced_bytes() {
    let (_fake, manager) = manager();
    let options = StreamOptions { record_size: 3000, ..StreamOptions::default() };
    let mut receiver = StreamReceiver::create_with(&manager, options).unwrap();
    let mut sender = StreamSender::from_seed(&manager, &receiver.make_seed().unwrap()).unwrap();
    let bytes: Vec<u8> = (0..10_000_u32).map(|byte| byte as u8).collect();
    let mut buffer = manager.allocate(bytes.len()).unwrap();
    buffer.write(0, &bytes).unwrap();
    sender.send(b"before").unwrap();
    let buffer = sender.send_buffer(buffer).unwrap().wait().unwrap();
    assert_eq!(buffer.len(), 10_000);
    let empty = manager.allocate(0).unwrap();
    sender.send_buffer(empty).unwrap().wait().unwrap();
    sender.close().unwrap();
    assert_eq!(next(&mut receiver).unwrap(), b"before");
    let mut got = Vec::new();
    while let Some(record) = next(&mut receiver) {
        got.extend(record);
    }
    assert_eq!(got, bytes);
}

#[test]
fn sender_without_tickets_waits_for_a_release() {
    let (_fake, mut sender, mut receiver) = ends(SMALL);
    // One of the four tickets is kept for the end, and a record is being coalesced.
    assert_eq!(sender.try_send(&[1; 100]).unwrap(), 40);
    let error = sender.try_send(b"x").unwrap_err();
    assert_eq!(error.to_string(), "all 4 tickets of the stream are in use");
    assert!(sender.send_timeout(b"x", SOON).unwrap_err().is_timed_out());
    // A received record is not yet released.
    let numbers: Vec<u64> = (0..3).map(|_| receiver.recv_timeout(SOON).unwrap().unwrap().number()).collect();
    assert_eq!(numbers, [0, 1, 2]);
    assert!(sender.try_send(b"x").unwrap_err().is_would_block());
    let error = receiver.release(3).unwrap_err();
    assert_eq!(error.to_string(), "record 3 is out of range (limit 2)");
    receiver.release(1).unwrap();
    receiver.release(0).unwrap();
    assert!(receiver.record(1).is_none());
    assert_eq!(receiver.record(2).unwrap().to_vec(), [1; 10]);
    sender.send_timeout(b"x", SOON).unwrap();
    sender.close().unwrap();
    receiver.release(2).unwrap();
    assert_eq!(next(&mut receiver).unwrap(), [1; 10]);
    assert_eq!(next(&mut receiver).unwrap(), b"x");
    assert_eq!(next(&mut receiver), None);
}

#[test]
fn receiver_holding_all_records_gets_more_buffers() {
    let (fake, mut sender, mut receiver) = ends(StreamOptions { max_records: 14, ..SMALL });
    let slots = fake.open().2;
    let mut numbers = Vec::new();
    for byte in 0..13 {
        sender.send_timeout(&[byte; 10], SOON).unwrap();
        numbers.push(receiver.recv_timeout(SOON).unwrap().unwrap().number());
        let _ = receiver.try_recv();
    }
    assert_eq!(fake.open().2, slots + 2, "4, 8, 14 buffers");
    sender.send_timeout(&[13; 10], SOON).unwrap();
    assert!(sender.flush_timeout(SOON).unwrap_err().is_timed_out(), "no more than 14, and one is kept");
    for (byte, number) in numbers.iter().enumerate() {
        assert_eq!(receiver.record(*number).unwrap().to_vec(), [byte as u8; 10]);
    }
    receiver.release(12).unwrap();
    sender.flush().unwrap();
    assert_eq!(next(&mut receiver).unwrap(), [13; 10]);
    drop(receiver);
    drop(sender);
    assert_eq!(fake.open(), (0, 0, 0), "all goes with its owners");
}

#[test]
fn dropping_either_end_is_reported_to_the_peer() {
    let (_fake, mut sender, mut receiver) = ends(SMALL);
    sender.send(b"0123456789unflushed").unwrap();
    drop(sender);
    assert_eq!(next(&mut receiver).unwrap(), b"0123456789");
    assert!(matches!(receiver.try_recv(), Err(Error::PeerLost(PeerLoss::Abandoned))), "once");
    assert!(receiver.recv_timeout(SOON).unwrap().is_none());

    let (_fake, mut sender, mut receiver) = ends(SMALL);
    sender.send(b"0123456789").unwrap();
    next(&mut receiver).unwrap();
    drop(receiver);
    let error = sender.send(&[0; 100]).unwrap_err();
    assert_eq!(error.to_string(), "the peer is lost: it dropped its end without closing it");
    assert!(matches!(sender.close(), Err(Error::PeerLost(PeerLoss::Abandoned))));
}

#[test]
fn try_close_succeeds_once_everything_is_sent() {
    let (fake, mut sender, mut receiver) = ends(SMALL);
    sender.send(b"some").unwrap();
    fake.hold(true);
    for _ in 0..2 {
        assert!(sender.try_close().unwrap_err().is_would_block());
    }
    assert_eq!(sender.try_send(b"more").unwrap_err().to_string(), "the stream is closed");
    fake.hold(false);
    sender.try_close().unwrap();
    drop(sender);
    assert_eq!(next(&mut receiver).unwrap(), b"some");
    assert_eq!(next(&mut receiver), None);
}

#[test]
fn records_before_a_peer_loss_are_received() {
    let (_fake, mut sender, mut receiver) = ends(SMALL);
    sender.send(&[1; 20]).unwrap();
    receiver.try_recv().unwrap();
    receiver.peer_lost(PeerLoss::Host);
    sender.send(&[1; 10]).unwrap();
    assert_eq!(next(&mut receiver).unwrap(), [1; 10]);
    assert!(matches!(receiver.recv(), Err(Error::PeerLost(PeerLoss::Host))));
    assert!(receiver.recv().unwrap().is_none());
    sender.peer_lost(PeerLoss::Link);
    assert!(matches!(sender.try_send(b"x"), Err(Error::PeerLost(PeerLoss::Link))));

    let (_fake, sender, receiver) = ends(SMALL);
    sender.close().unwrap();
    receiver.try_recv().unwrap();
    receiver.peer_lost(PeerLoss::Process);
    assert!(receiver.recv().unwrap().is_none(), "it had closed before");
}

#[test]
fn invalid_record_ends_the_stream() {
    // A record: kind, flags, number, length. Cases: number 0 with no ticket, too long, out of turn,
    // empty, nonsense.
    let wrong: [&[u8]; 4] =
        [b"S\x00", b"S\0\0\0\x0b\0\0\0\x01", b"S\0\0\0\x01\0\0\0\x09", b"S\0\0\0\0\0\0\0\x01"];
    for metadata in wrong {
        let (_fake, manager) = manager();
        let receiver = StreamReceiver::create_with(&manager, SMALL).unwrap();
        let ticket = receiver.make_seed().unwrap().tickets().next().unwrap();
        let _ = manager.terminus().send(&Message::to(&ticket).metadata(metadata), b"").unwrap();
        let lost = receiver.recv_timeout(SOON);
        assert!(matches!(lost, Err(Error::PeerLost(PeerLoss::Violation(_)))), "{metadata:?}: {lost:?}");
        assert!(receiver.recv_timeout(SOON).unwrap().is_none());
    }
}

#[test]
fn forged_seed_does_no_harm() {
    let (_fake, manager) = manager();
    let receiver = StreamReceiver::create_with(&manager, SMALL).unwrap();
    let mut bytes = receiver.make_seed().unwrap().to_bytes();
    assert!(Seed::from_bytes(&bytes[1..]).is_err());
    bytes[20] ^= 1;
    assert!(Seed::from_bytes(&bytes).is_err());
    let stale = receiver.make_seed().unwrap();
    drop(receiver);
    let mut sender = StreamSender::from_seed(&manager, &stale).unwrap();
    assert!(sender.send_timeout(&[0; 100], SOON).unwrap_err().is_timed_out());
    sender.close().unwrap();
}

#[test]
fn bytes_come_by_io_read_and_write() {
    let (_fake, mut sender, mut receiver) = ends(SMALL);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for line in 0..1000 {
                writeln!(sender, "line {line}").unwrap();
            }
            sender.close().unwrap();
        });
        let mut text = String::new();
        receiver.read_to_string(&mut text).unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!((lines.len(), lines[999]), (1000, "line 999"));
    });
}

/// An action of one of the two ends or of the fabric.
#[derive(Debug, Clone)]
enum Step {
    Send(usize),
    Flush,
    Buffer(usize),
    Land(usize),
    Receive,
    Release(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..40_usize).prop_map(Step::Send),
        2 => Just(Step::Flush),
        1 => (0..60_usize).prop_map(Step::Buffer),
        8 => (0..100_usize).prop_map(Step::Land),
        4 => Just(Step::Receive),
        3 => (0..5_u64).prop_map(Step::Release),
    ]
}

/// Returns a byte of a stream. Adjacent bytes differ.
fn byte(position: u64) -> u8 {
    (position.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

fn bytes(from: u64, length: usize) -> Vec<u8> {
    (from..from + length as u64).map(byte).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    /// In whatever order messages arrive: every byte is received once and in order, no held record
    /// changes, and the stream ends.
    #[test]
    fn every_byte_in_order_over_any_fabric(
        steps in prop::collection::vec(step(), 0..300), record_size in 1..20_u32, records in 2..6_u32, more in 0..20_u32,
    ) {
        let (fake, manager) = manager();
        fake.delay();
        let options = StreamOptions { record_size, records, max_records: records + more };
        let mut receiver = StreamReceiver::create_with(&manager, options).unwrap();
        let mut sender = StreamSender::from_seed(&manager, &receiver.make_seed().unwrap()).unwrap();
        let (mut got, mut held) = (0_u64, Vec::<(u64, u64, usize)>::new());
        for step in steps {
            match step {
                Step::Send(length) => match sender.try_send(&bytes(sender.accepted(), length)) {
                    Ok(_) => {}
                    Err(error) => prop_assert!(error.is_would_block(), "{error}"),
                },
                Step::Flush => match sender.try_flush() {
                    Ok(()) => {}
                    Err(error) => prop_assert!(error.is_would_block(), "{error}"),
                },
                Step::Buffer(length) => {
                    if sender.try_flush().is_ok() {
                        let mut buffer = manager.allocate(length).unwrap();
                        buffer.write(0, &bytes(sender.accepted(), length)).unwrap();
                        if let Err(error) = sender.send_buffer_timeout(buffer, Duration::ZERO) {
                            prop_assert!(error.error.is_timed_out(), "{error}");
                        }
                    }
                }
                Step::Land(choice) => {
                    fake.land(choice);
                }
                Step::Receive => match receiver.try_recv() {
                    Ok(record) => {
                        let record = record.unwrap();
                        prop_assert_eq!(record.to_vec(), bytes(got, record.len()));
                        held.push((record.number(), got, record.len()));
                        got += record.len() as u64;
                    }
                    Err(error) => prop_assert!(error.is_would_block(), "{error}"),
                },
                Step::Release(count) => {
                    for (number, from, length) in &held {
                        let record = receiver.record(*number).unwrap();
                        prop_assert_eq!(record.to_vec(), bytes(*from, *length), "it changed while it was held");
                    }
                    if let Some((number, ..)) = held.get(count as usize).copied() {
                        receiver.release(number).unwrap();
                        held.drain(..=count as usize);
                    }
                }
            }
        }
        let accepted = sender.accepted();
        let mut sender = Some(sender);
        for choice in 0.. {
            prop_assert!(choice < 10_000, "it does not come to an end: {got} of {accepted}");
            if let Some(open) = &mut sender {
                if open.try_flush().is_ok() {
                    sender.take().unwrap().close().unwrap();
                }
            }
            fake.land(choice * 7);
            let number = match receiver.try_recv() {
                Ok(None) => break,
                Ok(Some(record)) => {
                    prop_assert_eq!(record.to_vec(), bytes(got, record.len()));
                    got += record.len() as u64;
                    record.number()
                }
                Err(error) => {
                    prop_assert!(error.is_would_block(), "{error}");
                    if let Some((number, ..)) = held.pop() {
                        receiver.release(number).unwrap();
                        held.clear();
                    }
                    continue;
                }
            };
            receiver.release(number).unwrap();
            held.clear();
        }
        prop_assert_eq!(got, accepted);
    }
}
