//! Tests of the paper's programs.

use std::io::{Read, Write};
use std::sync::Arc;

use super::super::fake::cards;
use super::super::programs::{End, headed, queue, rpc, stream, transfer};
use super::super::{Card, Descriptor, Rights};
use super::{HASTE, PATIENCE};
use crate::core::connection::EndReason;
use crate::error::{Error, ErrorKind};

/// Connects two ends, each with `length` bytes.
fn ends(one: &Card, two: &Card, length: usize) -> [Arc<End>; 2] {
    let (client, listener) = (one.endpoint().unwrap(), two.endpoint().unwrap());
    let [own, other] = [one, two].map(|card| card.aperture(length, Rights::Write).unwrap());
    let to = listener.address().unwrap();
    std::thread::scope(|scope| {
        let accepted = scope.spawn(|| {
            let request = listener.accept_timeout(PATIENCE).unwrap();
            End::accept(request, &two.endpoint().unwrap(), other).unwrap().with_timeout(PATIENCE)
        });
        let end = End::connect_timeout(&client, own, to, PATIENCE).unwrap().with_timeout(PATIENCE);
        [Arc::new(end), Arc::new(accepted.join().unwrap())]
    })
}

#[test]
fn messages_are_transferred_one_at_a_time() {
    let (_net, [one, two]) = cards();
    let [here, there] = ends(&one, &two, 1024);
    let (mut sender, mut receiver) =
        (transfer::Sender::new(&here).unwrap(), transfer::Receiver::new(&there).unwrap());
    receiver.set_early().unwrap();
    let most = sender.capacity();
    assert_eq!((most, receiver.capacity()), (960, 960));
    assert!(receiver.try_recv().unwrap().is_none());
    std::thread::scope(|scope| {
        scope.spawn(|| (0..=most).for_each(|length| sender.send(&vec![length as u8; length]).unwrap()));
        let mut bytes = vec![0; most];
        for length in 0..=most {
            assert_eq!(receiver.recv_into(&mut bytes).unwrap(), length);
            assert!(bytes[..length].iter().all(|byte| *byte == length as u8), "{length}");
        }
    });
    assert!(sender.send(&vec![0; most + 1]).is_err());
    // In place, and by DMA.
    let from = one.aperture(960, Rights::None).unwrap();
    from.write(0, &[3; 960]).unwrap();
    sender.send_from(&from, 1, 900).unwrap();
    assert!(!sender.is_ready());
    let message = receiver.recv().unwrap();
    let mut last = [0; 2];
    message.read(898, &mut last).unwrap();
    assert!(message.len() == 900 && last == [3; 2] && message.read(899, &mut last).is_err());
    message.keep();
    assert!(receiver.recv_into(&mut [0; 899]).is_err(), "it does not fit, and stays");
    drop(receiver.recv().unwrap());
    sender.wait().unwrap();
}

#[test]
fn invalid_lengths_and_indexes_are_refused() {
    let (_net, [one, two]) = cards();
    let [here, there] = ends(&one, &two, 1024);
    let mut receiver = transfer::Receiver::new(&there).unwrap();
    for length in [962, u64::MAX] {
        here.out().store_u64(0, length).unwrap();
        let told = format!("length of a message in rx_ready {} is out of range (limit 960)", length - 1);
        assert_eq!(receiver.recv().unwrap_err().to_string(), told);
        assert!(receiver.recv_into(&mut [0; 2000]).is_err());
    }
    let (mut consumer, mut producer) =
        (queue::Consumer::new(&there, 48).unwrap(), queue::Producer::new(&there, 48).unwrap());
    assert_eq!(producer.capacity(), 14);
    here.out().store_u64(24, 15).unwrap();
    assert_eq!(consumer.get().unwrap_err().to_string(), "lazy_write_i 15 is out of range (limit 14)");
    here.out().store_u64(32, u64::MAX).unwrap();
    assert!(producer.put(b"x", 0).is_err());
    // An element with a length above the maximum.
    here.out().store_u64(24, 1).unwrap();
    here.out().store_u64(64, 49).unwrap();
    assert_eq!(consumer.try_get().unwrap_err().to_string(), "element length 49 is out of range (limit 48)");
    let (mut reader, mut writer) =
        (stream::Reader::new(&there).unwrap(), stream::Writer::new(&there).unwrap());
    here.out().store_u64(24, 960).unwrap();
    assert!(Read::read(&mut reader, &mut [0; 9]).is_err() && reader.try_read(&mut [0; 9]).is_err());
    assert!(writer.try_write(b"x").is_err());
    let mut client = rpc::Client::new(&there).unwrap();
    assert_eq!(client.call(b"", &mut []).unwrap_err().kind(), ErrorKind::Invalid);
}

/// A requester can send arbitrary data about its memory: invalid data takes no window pages, and
/// does not stop the server.
#[test]
fn requester_with_bad_memory_is_refused() {
    let (net, [one, two]) = cards();
    let (client, listener) = (one.endpoint().unwrap(), two.endpoint().unwrap());
    let (here, to) = (client.address().unwrap(), listener.address().unwrap());
    let memory = |host, length| Descriptor::new(host, 1, 1, length, Rights::Write).to_bytes();
    for (told, error) in [
        ([0xa5; 32], "descriptor does not start with the letters CL"),
        (memory(to.host, 1024), "the peer sent a descriptor of memory that is not at its host"),
        (memory(here.host, 8), "64 bytes at offset 0 reach past the end of the asker's aperture (limit 8)"),
        (memory(here.host, 8 << 20), "length of the asker's aperture 8388608 is out of range (limit 65536)"),
    ] {
        let served = two.endpoint().unwrap();
        std::thread::scope(|scope| {
            let accepted = scope.spawn(|| {
                let own = two.aperture(1024, Rights::Write).unwrap();
                End::accept(listener.accept_timeout(PATIENCE).unwrap(), &served, own)
            });
            match client.connect_timeout(to, &told, PATIENCE) {
                Err(Error::Ended(end)) => {
                    let why = &b"its memory cannot be mapped"[..];
                    assert_eq!((end.reason, &end.private[..]), (EndReason::Rejected, why));
                }
                other => panic!("{other:?}"),
            }
            assert_eq!(accepted.join().unwrap().unwrap_err().to_string(), error);
        });
    }
    assert_eq!(net.open_objects(), [0, 2, 0, 0]);
}

#[test]
fn calls_are_answered() {
    let (_net, [one, two]) = cards();
    let [here, there] = ends(&one, &two, 256);
    let (mut client, mut server) = (rpc::Client::new(&here).unwrap(), rpc::Server::new(&there).unwrap());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..200 {
                let call = server.recv().unwrap();
                let mut request = vec![0; call.len()];
                call.read(0, &mut request).unwrap();
                request.reverse();
                call.reply(&request).unwrap();
            }
        });
        for round in 0..200_u32 {
            let mut reply = [0; 192];
            let length = client.call(&round.to_le_bytes(), &mut reply).unwrap();
            assert_eq!(&reply[..length], &round.to_be_bytes());
        }
    });
    assert!(client.call(&[0; 193], &mut []).is_err() && client.try_reply(&mut []).unwrap().is_none());
    client.begin(b"now").unwrap();
    assert!(client.begin(b"and again").is_err(), "one at a time");
    server.recv().unwrap().reply(b"later").unwrap();
    let mut short = [0; 2];
    assert_eq!((client.try_reply(&mut short).unwrap(), &short), (Some(5), b"la"));
    assert_eq!(client.reply(&mut short).unwrap_err().kind(), ErrorKind::Invalid, "no reply is to come");
    client.begin(b"again").unwrap();
    server.recv().unwrap().reply(b"yes").unwrap();
    assert_eq!((client.reply(&mut short).unwrap(), &short), (3, b"ye"));
}

#[test]
fn dropped_call_is_answered_later_and_once() {
    let (_net, [one, two]) = cards();
    let [here, there] = ends(&one, &two, 256);
    let (mut client, mut server) = (rpc::Client::new(&here).unwrap(), rpc::Server::new(&there).unwrap());
    assert_eq!(server.reply(b"too early").unwrap_err().to_string(), "no call waits for an answer");
    client.begin(b"ask").unwrap();
    assert_eq!(server.recv().unwrap().len(), 3);
    assert!(server.reply(&[0; 193]).is_err(), "too long");
    server.reply(b"made elsewhere").unwrap();
    let mut reply = [0; 14];
    assert_eq!((client.try_reply(&mut reply).unwrap(), &reply), (Some(14), b"made elsewhere"));
    assert!(server.reply(b"again").is_err());
}

#[test]
fn queue_keeps_order_parts_and_metadata() {
    let (_net, [one, two]) = cards();
    let [here, there] = ends(&one, &two, 1024);
    let (mut producer, mut consumer) =
        (queue::Producer::new(&here, 48).unwrap(), queue::Consumer::new(&there, 48).unwrap());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..500_u64 {
                producer.put(&round.to_le_bytes(), round).unwrap();
                producer.put_parts(&[b"head", &[round as u8; 100], b""], round << 32).unwrap();
            }
        });
        for round in 0..500_u64 {
            let element = consumer.get().unwrap();
            let mut bytes = [0; 8];
            element.read(0, &mut bytes).unwrap();
            assert_eq!(
                (u64::from_le_bytes(bytes), element.metadata(), element.has_more()),
                (round, round, false)
            );
            drop(element);
            let mut message = vec![9];
            assert_eq!(consumer.get_message(&mut message, 104).unwrap(), round << 32);
            assert_eq!((&message[..5], &message[5..]), (&b"\x09head"[..], &[round as u8; 100][..]));
        }
    });
    producer.put_parts(&[&[0; 100]], 1).unwrap();
    assert!(consumer.get_message(&mut Vec::new(), 99).is_err());
    assert!(producer.put(&[0; 49], 0).is_err() && producer.put_parts(&[], 0).is_err());
    for element in [465, 1000, usize::MAX] {
        let told =
            |end| format!("element size in the aperture of {end} end {element} is out of range (limit 464)");
        let (producer, consumer) =
            (queue::Producer::new(&here, element), queue::Consumer::new(&there, element));
        assert_eq!(producer.unwrap_err().to_string(), told("the peer's"));
        assert_eq!(consumer.unwrap_err().to_string(), told("this"));
    }
    assert_eq!(queue::Producer::new(&here, 464).unwrap().capacity(), 1);
    assert_eq!([(464, 1), (8, 3)].map(|(element, count)| queue::aperture_size(element, count)), [1024, 160]);
    assert_eq!(
        [(usize::MAX - 8, 0), (8, usize::MAX)].map(|(a, b)| queue::aperture_size(a, b)),
        [usize::MAX; 2]
    );
}

#[test]
fn wait_for_full_and_empty_queue() {
    let (_net, [one, two]) = cards();
    let (client, listener) = (one.endpoint().unwrap(), two.endpoint().unwrap());
    let [here, there] = ends(&one, &two, 1024);
    let mut producer = queue::Producer::new(&here, 48).unwrap();
    (0..producer.capacity()).for_each(|item| producer.put(&[], item).unwrap());
    let mut consumer = queue::Consumer::new(&there, 48).unwrap();
    std::thread::scope(|scope| {
        let late = scope.spawn(|| producer.put(b"at last", 99));
        (0..15).for_each(|item| {
            assert_eq!(consumer.get().unwrap().metadata(), if item == 14 { 99 } else { item })
        });
        late.join().unwrap().unwrap();
    });
    assert!(consumer.try_get().unwrap().is_none());
    // A wait with a timeout fails.
    let own = one.aperture(64, Rights::Write).unwrap();
    assert!(
        End::connect_timeout(&client, own, listener.address().unwrap(), HASTE)
            .is_err_and(|error| error.is_timed_out())
    );
}

#[test]
fn dma_queue_pipelines_messages() {
    let (_net, [one, two]) = cards();
    let [here, there] = ends(&one, &two, 4096);
    let mut producer = queue::DmaProducer::new(&one, &here, 100).unwrap();
    let mut consumer = queue::Consumer::new(&there, 100).unwrap();
    let from = one.aperture(800, Rights::None).unwrap();
    for word in 0..100 {
        from.store_u64(word * 8, word as u64).unwrap();
    }
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut last = None;
            for item in 0..300_usize {
                last = Some(producer.put(&from, item % 100 * 8, 8, item as u64).unwrap());
            }
            producer.dma().wait_timeout(last.unwrap(), PATIENCE).unwrap();
        });
        for item in 0..300_u64 {
            let element = consumer.get().unwrap();
            let mut bytes = [0; 8];
            element.read(0, &mut bytes).unwrap();
            assert_eq!((u64::from_le_bytes(bytes), element.metadata(), element.len()), (item % 100, item, 8));
        }
    });
    assert!(producer.put(&from, 0, 0, 0).is_err() && producer.put(&from, 0, 101, 0).is_err());
}

#[test]
fn bytes_arrive_in_order_until_writer_closes() {
    let (_net, [one, two]) = cards();
    let [here, there] = ends(&one, &two, 333);
    let (mut writer, mut reader) =
        (stream::Writer::new(&here).unwrap(), stream::Reader::new(&there).unwrap());
    let sent: Vec<u8> = (0..100_000_u32).map(|byte| ((byte * 7) >> 3) as u8).collect();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            sent.chunks(97).for_each(|piece| writer.write_all(piece).unwrap());
            drop(writer);
            here.close().unwrap();
        });
        let mut received = Vec::new();
        reader.read_to_end(&mut received).unwrap();
        assert!(received == sent && reader.is_over());
    });
    assert_eq!(Read::read(&mut reader, &mut [0]).unwrap(), 0);
}

#[test]
fn header_arrives_before_body() {
    let (_net, [one, two]) = cards();
    let [here, there] = ends(&one, &two, 1024);
    let (mut sender, mut receiver) =
        (headed::Sender::new(&here, 5).unwrap(), headed::Receiver::new(&there, 5).unwrap());
    let (mut header, mut body) = ([0; 5], [0; 952]);
    for round in 0..50_u8 {
        let coming = sender.send_header(&[round; 5]).unwrap();
        let arrived = receiver.header(&mut header).unwrap();
        assert!(header == [round; 5] && !arrived.is_complete().unwrap());
        coming.send(&[round; 30]).unwrap();
        assert_eq!((arrived.body(&mut body).unwrap(), &body[..30]), (30, &[round; 30][..]));
        sender.send(&[round; 5], &[]).unwrap();
        assert_eq!(receiver.header(&mut header).unwrap().body(&mut []).unwrap(), 0);
    }
    assert!(sender.send_header(&[0; 4]).is_err() && sender.send(&[0; 5], &[0; 953]).is_err());
    // The body may be sent by a separate call.
    assert_eq!(sender.send_body(b"of what?").unwrap_err().to_string(), "a body follows a header");
    let _ = sender.send_header(&[9; 5]).unwrap();
    let early = sender.send_header(&[10; 5]).unwrap_err();
    assert_eq!(early.to_string(), "the body of the message before is to be sent first");
    assert!(sender.send_body(&[0; 953]).is_err());
    sender.send_body(b"later").unwrap();
    assert_eq!(receiver.header(&mut header).unwrap().body(&mut body).unwrap(), 5);
    assert!(header == [9; 5] && body.starts_with(b"later") && sender.send_body(b"again").is_err());
    assert!(headed::Sender::new(&here, 2000).is_err() && headed::Sender::new(&here, usize::MAX).is_err());
}

#[test]
fn wait_fails_after_last_message_of_lost_peer() {
    let (_net, [one, two]) = cards();
    let [here, there] = ends(&one, &two, 1024);
    let mut receiver = transfer::Receiver::new(&there).unwrap();
    let mut sender = transfer::Sender::new(&here).unwrap();
    sender.send(b"the last").unwrap();
    drop((sender, here));
    assert_eq!(receiver.recv_into(&mut [0; 9]).unwrap(), 8);
    assert_eq!(receiver.recv().unwrap_err().kind(), ErrorKind::PeerLost);
    // A peer that closes the connection.
    let [here, there] = ends(&one, &two, 1024);
    let mut receiver = transfer::Receiver::new(&there).unwrap();
    here.close().unwrap();
    assert_eq!(receiver.recv().unwrap_err().to_string(), "not connected: the peer closed the connection");
}
