//! The library's lower layer, with a card in memory (sections 2.2 to 2.7, 3.2).

use std::time::Duration;

use crate::fake::Fake;
use hamlyn::{
    Arrival, Card, Error, FetchOp, Message, Mode, Notification, RefusedError, RequestBlock, Statistic,
    Terminus, Ticket,
};
use hamlyn_abi::hamlyn::request::{
    HAMLYN_REQUEST_DMA, HAMLYN_REQUEST_INLINE_METADATA, HamlynGather, HamlynRequest,
};
use zerocopy::IntoBytes;

fn card() -> (Fake, Card) {
    let fake = Fake::default();
    let card = Card::attached(fake.share());
    (fake, card)
}

#[test]
fn message_and_metadata_arrive_where_the_ticket_points() {
    let (_, card) = card();
    let area = card.create_area(8192).unwrap();
    let queue = card.create_queue(4).unwrap();
    let slot = card.slot(&area).range(4096..8192).metadata_entries(3).queue(&queue).create().unwrap();
    let ticket: Ticket = slot.ticket(2).unwrap().part(100, 50).unwrap().to_string().parse().unwrap();
    let terminus = card.create_terminus().unwrap();
    let handle = terminus.send(&Message::to(&ticket).metadata(b"word").offset(10), b"hello").unwrap();
    assert!(handle.is_complete().unwrap());
    let notification = queue.try_recv().unwrap().unwrap();
    assert_eq!(slot.entry_of(&notification), Some(2));
    assert_eq!(slot.metadata(2).unwrap().user()[..5], *b"word\0");
    let mut back = [0; 7];
    slot.read(109, &mut back).unwrap();
    assert_eq!(back, *b"\0hello\0");
    area.read(4096 + 109, &mut back).unwrap();
    assert_eq!(back, *b"\0hello\0");
    assert_eq!(queue.try_recv().unwrap(), None);
}

#[test]
fn queue_wraps_around_repeatedly() {
    let (_, card) = card();
    let area = card.create_area(64).unwrap();
    let queue = card.create_queue(3).unwrap();
    let slot = card.slot(&area).queue(&queue).notification_index(77).create().unwrap();
    let ticket = slot.fast_ticket().unwrap();
    let terminus = card.create_terminus().unwrap();
    for word in 0..200 {
        let _ = terminus.send(&Message::to(&ticket).word(word), b"x").unwrap();
        if word % 2 == 1 {
            for word in [word - 1, word] {
                let notification = queue.try_recv().unwrap().unwrap();
                assert_eq!(notification.arrival, Arrival::Fast(word));
                assert_eq!((notification.notification_index, notification.slot), (77, slot.number()));
                assert_eq!(slot.entry_of(&notification), None);
            }
            assert_eq!(queue.try_recv().unwrap(), None);
        }
    }
}

#[test]
fn silent_messages_cause_no_notification() {
    let (_, card) = card();
    let area = card.create_area(64).unwrap();
    let queue = card.create_queue(4).unwrap();
    let slot = card.slot(&area).queue(&queue).create().unwrap();
    let ticket = slot.fast_ticket().unwrap();
    let terminus = card.create_terminus().unwrap();
    terminus.send(&Message::to(&ticket).silent(), b"quiet").unwrap().wait().unwrap();
    let mut back = [0; 5];
    slot.read(0, &mut back).unwrap();
    assert_eq!((back, queue.try_recv().unwrap()), (*b"quiet", None));
}

#[test]
fn full_queue_waits_and_rings_a_sleeping_card() {
    let (fake, card) = card();
    let area = card.create_area(64).unwrap();
    let slot = card.slot(&area).create().unwrap();
    let ticket = slot.fast_ticket().unwrap();
    let terminus = card.create_terminus().unwrap();
    fake.hold(true);
    let handles: Vec<_> = (0..63).map(|_| terminus.try_send(&Message::to(&ticket), b"x").unwrap()).collect();
    let full = terminus.try_send(&Message::to(&ticket), b"x").unwrap_err();
    assert!(full.is_would_block());
    assert_eq!(full.to_string(), "all 63 work-queue entries are in use");
    assert!(handles.iter().all(|handle| !handle.is_complete().unwrap()));
    assert!(handles[0].wait_timeout(Duration::ZERO).unwrap_err().is_timed_out());
    assert_eq!(fake.rings(), 63);
    fake.hold(false);
    assert!(handles.iter().all(|handle| handle.is_complete().unwrap()));
    for _ in 0..1000 {
        let _ = terminus.send(&Message::to(&ticket), b"x").unwrap();
    }
}

#[test]
fn a_send_buffer_in_flight_cannot_be_changed() {
    let (fake, card) = card();
    let area = card.create_area(8192).unwrap();
    let slot = card.slot(&area).metadata_entries(1).create().unwrap();
    let ticket = slot.ticket(0).unwrap();
    let terminus = card.create_terminus().unwrap();
    let mut one = terminus.create_send_buffer(4096).unwrap();
    let mut other = terminus.create_send_buffer(4096).unwrap();
    one.write(0, &[1; 4096]).unwrap();
    other.write(0, &[2; 4096]).unwrap();
    fake.hold(true);
    let pieces = [one.piece(96, 1000).unwrap(), other.piece(0, 2000).unwrap()];
    let handle = terminus.send_gather(&Message::to(&ticket).metadata(b"m"), &pieces).unwrap();
    one.write(0, &[3; 96]).unwrap();
    one.write(1096, &[3; 3000]).unwrap();
    let busy = one.write(1000, &[3; 100]).unwrap_err();
    assert_eq!(busy.to_string(), "send buffer 0: request 1 still gathers from bytes 96 to 1096");
    fake.hold(false);
    handle.wait().unwrap();
    one.write(1000, &[3; 100]).unwrap();
    let mut back = vec![0; 3001];
    slot.read(0, &mut back).unwrap();
    assert!(back[..1000].iter().all(|byte| *byte == 1));
    assert!(back[1000..3000].iter().all(|byte| *byte == 2));
    assert_eq!(back[3000], 0);
}

#[test]
fn small_pieces_use_direct_io_large_ones_dma() {
    let (fake, card) = card();
    let area = card.create_area(8192).unwrap();
    let slot = card.slot(&area).metadata_entries(1).create().unwrap();
    let ticket = slot.ticket(0).unwrap();
    let terminus = card.create_terminus().unwrap();
    let mut buffer = terminus.create_send_buffer(4096).unwrap();
    buffer.write(0, &[1; 4096]).unwrap();
    fake.hold(true);
    let _ = terminus.send(&Message::to(&ticket), buffer.piece(0, 448).unwrap()).unwrap();
    buffer.write(0, &[2; 448]).unwrap();
    let _ = terminus.send(&Message::to(&ticket).offset(1000), buffer.piece(0, 449).unwrap()).unwrap();
    assert!(buffer.write(0, &[3]).is_err());
    let dma = terminus.send_dma(&Message::to(&ticket).offset(2000), buffer.piece(500, 1).unwrap()).unwrap();
    assert!(buffer.write(500, &[3]).is_err());
    fake.hold(false);
    dma.wait().unwrap();
    let mut back = [0; 2001];
    slot.read(0, &mut back).unwrap();
    assert_eq!((back[0], back[447], back[448], back[1000], back[1448], back[2000]), (1, 1, 0, 2, 1, 1));
}

/// Returns a request that gathers from a send buffer that is not set.
fn wrong_tag() -> RequestBlock {
    let tuple = HamlynGather { tag: 3, reserved: 0, offset: 0, length: 1 };
    let head = HamlynRequest {
        destination: crate::fake::HOST,
        flags: HAMLYN_REQUEST_DMA | HAMLYN_REQUEST_INLINE_METADATA,
        gather_count: 1,
        length: 1,
        ..HamlynRequest::default()
    };
    RequestBlock::raw(&head, tuple.as_bytes()).unwrap()
}

#[test]
fn refusal_is_reported_only_by_its_handle() {
    let (fake, card) = card();
    let area = card.create_area(64).unwrap();
    let slot = card.slot(&area).metadata_entries(1).create().unwrap();
    let ticket = slot.ticket(0).unwrap();
    let terminus = card.create_terminus().unwrap();
    fake.hold(true);
    let handles: Vec<_> = (0..60)
        .map(|number| match number % 3 {
            0 => terminus.send(&Message::to(&ticket), b"x").unwrap(),
            _ => terminus.post(&wrong_tag()).unwrap(),
        })
        .collect();
    fake.hold(false);
    for _ in 0..2000 {
        let _ = terminus.post(&wrong_tag()).unwrap();
    }
    for (number, handle) in handles.iter().enumerate() {
        if number % 3 == 0 {
            assert!(handle.is_complete().unwrap(), "{number}");
            continue;
        }
        let refused = handle.wait().unwrap_err();
        assert_eq!(refused.of::<RefusedError>().unwrap().reason, Some(Statistic::RefusedTag));
        assert_eq!(refused.to_string(), format!("the card refused request {}: refused_tag", number + 1));
    }
}

#[test]
fn eight_send_buffers_and_no_more() {
    let (_, card) = card();
    let terminus = card.create_terminus().unwrap();
    let mut buffers: Vec<_> = (0..8).map(|_| terminus.create_send_buffer(64).unwrap()).collect();
    assert_eq!(buffers.iter().map(hamlyn::SendBuffer::tag).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5, 6, 7]);
    assert!(terminus.create_send_buffer(64).unwrap_err().is_exhausted());
    buffers.remove(5);
    assert_eq!(terminus.create_send_buffer(64).unwrap().tag(), 5);
    let foreign = card.create_terminus().unwrap();
    let area = card.create_area(64).unwrap();
    let slot = card.slot(&area).metadata_entries(1).create().unwrap();
    let ticket = slot.ticket(0).unwrap();
    let error = foreign.send_dma(&Message::to(&ticket), buffers[1].piece(0, 1).unwrap()).unwrap_err();
    assert_eq!(error.to_string(), "send buffer 1 belongs to another terminus");
}

#[test]
fn paranoid_entry_has_its_own_key_and_bounds() {
    let (_, card) = card();
    let area = card.create_area(4096).unwrap();
    let slot = card.slot(&area).metadata_entries(2).mode(Mode::ParanoidOneShot).create().unwrap();
    let (first, second) = (slot.metadata(0).unwrap(), slot.metadata(1).unwrap());
    assert_eq!((first.opens(), first.key()), (0..4096, slot.ticket(0).unwrap().key));
    first.protect(42, 0..100).unwrap();
    let ticket = slot.ticket(0).unwrap();
    assert_eq!((ticket.key, ticket.base, ticket.length), (42, 0, 100));
    first.protect(43, 100..300).unwrap();
    let ticket = slot.ticket(0).unwrap();
    assert_eq!((ticket.key, ticket.base, ticket.length), (43, 100, 200));
    first.close();
    assert_eq!(slot.ticket(0).unwrap().length, 0);
    assert_eq!(slot.ticket(1).unwrap().key, second.key());
    assert!(matches!(slot.fast_ticket(), Err(Error::Invalid(_))));
}

#[test]
fn metadata_entry_fields_belong_to_the_owner() {
    let (_, card) = card();
    let area = card.create_area(64).unwrap();
    let slot = card.slot(&area).metadata_entries(2).create().unwrap();
    let entry = slot.metadata(1).unwrap();
    entry.protect(7, 16..32).unwrap();
    entry.set_receive_class(9);
    entry.set_accumulator(3);
    assert_eq!((entry.key(), entry.opens(), entry.receive_class(), entry.accumulator()), (7, 16..32, 9, 3));
    assert!(entry.is_partial());
    entry.forget().unwrap();
    assert_eq!((entry.key(), entry.opens(), entry.accumulator()), (7, 16..32, 0));
    entry.set_accumulator(3);
    entry.revoke().unwrap();
    assert!(entry.key() != 7 && entry.opens() == (16..32) && !entry.is_partial());
    entry.close();
    assert!(entry.opens().is_empty());
    let error = slot.metadata(2).unwrap_err().to_string();
    assert_eq!(error, "metadata index 2 is out of range (limit 1)");
}

#[test]
fn new_key_or_reopening_clears_what_senders_wrote() {
    let (fake, card) = card();
    let area = card.create_area(64).unwrap();
    let queue = card.create_queue(8).unwrap();
    let slot =
        card.slot(&area).metadata_entries(1).mode(Mode::ParanoidOneShot).queue(&queue).create().unwrap();
    let (entry, terminus) = (slot.metadata(0).unwrap(), card.create_terminus().unwrap());
    let clear = || (entry.accumulator(), entry.user()) == (0, [0; 60]);
    let half = |ticket: &Ticket| {
        let half = Message::to(ticket).metadata(&[7; 60]).delta(u32::MAX - 1);
        let _ = terminus.send(&half, b"half").unwrap();
        assert_eq!(entry.accumulator(), u32::MAX - 1);
    };
    // Half a message, and then a whole one. The whole message locks the entry, and the count of the
    // half stays.
    half(&slot.ticket(0).unwrap());
    let _ = terminus.send(&Message::to(&slot.ticket(0).unwrap()).metadata(&[8; 60]), b"whole").unwrap();
    assert!(entry.is_locked() && !entry.is_partial() && entry.accumulator() != 0);
    entry.reopen();
    assert!(!entry.is_locked() && clear());
    half(&slot.ticket(0).unwrap());
    entry.reopen();
    assert!(entry.is_partial(), "an entry that is not locked is not reopened");
    let settled = fake.settled();
    entry.revoke().unwrap();
    assert!(clear() && fake.settled() == settled + 1);
    half(&slot.ticket(0).unwrap());
    entry.protect(5, 0..64).unwrap();
    assert!(clear());
    // A pending message keeps its metadata, but not its count.
    half(&slot.ticket(0).unwrap());
    let _ = terminus.send(&Message::to(&slot.ticket(0).unwrap()).metadata(&[8; 60]), b"whole").unwrap();
    entry.revoke().unwrap();
    assert!(entry.is_locked() && entry.user() == [8; 60] && entry.accumulator() == 0);
}

#[test]
fn library_checks_bounds_and_lengths_before_the_card() {
    let (fake, card) = card();
    let area = card.create_area(100).unwrap();
    assert!(matches!(card.slot(&area).range(50..101).create(), Err(Error::PastEnd { .. })));
    let slot = card.slot(&area).create().unwrap();
    let ticket = slot.fast_ticket().unwrap();
    let terminus = card.create_terminus().unwrap();
    let past = terminus.send(&Message::to(&ticket).offset(90), &[0; 11]).unwrap_err();
    assert_eq!(
        past.to_string(),
        "11 bytes at offset 90 reach past the end of the ticket's buffer (limit 100)"
    );
    assert!(slot.read(90, &mut [0; 11]).is_err());
    assert!(slot.ticket(0).is_err());
    assert_eq!(fake.rings(), 0);
    fake.cut_link();
    assert!(matches!(slot.fast_ticket(), Err(Error::LinkDown)));
}

#[test]
fn resources_are_freed_slots_before_queues() {
    let (fake, card) = card();
    let area = card.create_area(64).unwrap();
    let queue = card.create_queue(2).unwrap();
    let slot = card.slot(&area).queue(&queue).create().unwrap();
    let terminus = card.create_terminus().unwrap();
    let buffer = terminus.create_send_buffer(64).unwrap();
    assert_eq!(fake.open(), (1, 1, 1));
    drop((queue, card, terminus));
    assert_eq!(fake.open(), (1, 1, 1), "the slot needs its queue, the send buffer its terminus");
    drop((slot, buffer));
    assert_eq!(fake.open(), (0, 0, 0));
}

#[test]
fn threads_share_a_terminus() {
    let (_, card) = card();
    let area = card.create_area(64).unwrap();
    let queue = card.create_queue(4096).unwrap();
    let slot = card.slot(&area).queue(&queue).create().unwrap();
    let ticket = slot.fast_ticket().unwrap();
    let terminus = card.create_terminus().unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (terminus, ticket) = (&terminus, &ticket);
            scope.spawn(move || {
                for number in 0..500 {
                    let _ = terminus.send(&Message::to(ticket).word(thread * 1000 + number), b"x").unwrap();
                }
            });
        }
    });
    let mut next = [0; 4];
    while let Some(notification) = queue.try_recv().unwrap() {
        let Arrival::Fast(word) = notification.arrival else { panic!("{notification:?}") };
        assert_eq!(word % 1000, next[word as usize / 1000], "in the order in which a thread posted");
        next[word as usize / 1000] += 1;
    }
    assert_eq!(next, [500; 4]);
}

#[test]
fn threads_share_a_queue() {
    const ENTRIES: u32 = 32;
    let (_, card) = card();
    let area = card.create_area(64).unwrap();
    let queue = card.create_queue(ENTRIES).unwrap();
    let slot = card.slot(&area).queue(&queue).create().unwrap();
    let ticket = slot.fast_ticket().unwrap();
    let terminus = card.create_terminus().unwrap();
    let word = |notification: Notification| match notification.arrival {
        Arrival::Fast(word) => word,
        Arrival::Metadata(_) => u32::MAX,
    };
    let take = || std::iter::from_fn(|| queue.try_recv().unwrap()).map(word).collect::<Vec<u32>>();
    for _ in 0..100 {
        for word in 0..ENTRIES {
            let _ = terminus.send(&Message::to(&ticket).word(word), b"x").unwrap();
        }
        let taken = std::thread::scope(|scope| {
            let threads = [scope.spawn(take), scope.spawn(take), scope.spawn(take)];
            threads.map(|thread| thread.join().unwrap())
        });
        assert!(taken.iter().all(|words| words.is_sorted()), "each takes the oldest: {taken:?}");
        let mut all = taken.concat();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..ENTRIES), "each goes to one of them: {taken:?}");
    }
}

#[test]
fn overwritten_notifications_are_counted_and_the_rest_delivered() {
    let (_, card) = card();
    let area = card.create_area(64).unwrap();
    let queue = card.create_queue(2).unwrap();
    let slot = card.slot(&area).queue(&queue).create().unwrap();
    let ticket = slot.fast_ticket().unwrap();
    let terminus = card.create_terminus().unwrap();
    let mut sent = 0;
    let mut send = |count| {
        for _ in 0..count {
            let _ = terminus.send(&Message::to(&ticket).word(sent), b"x").unwrap();
            sent += 1;
        }
    };
    let word = |notification: hamlyn::Notification| match notification.arrival {
        Arrival::Fast(word) => word,
        Arrival::Metadata(_) => u32::MAX,
    };
    // Fills the queue exactly. Then sends a number of messages that leaves the wrap flag at the
    // cursor as if nothing had arrived.
    send(2);
    assert_eq!(queue.recv().map(word).unwrap(), 0);
    assert_eq!(queue.recv().map(word).unwrap(), 1);
    send(4);
    let error = queue.recv().unwrap_err();
    let text = format!(
        "notification queue {} was overrun: 2 notifications are lost (limit 2 unread)",
        queue.number()
    );
    assert!(error.is_overrun() && error.to_string() == text, "{error}");
    assert_eq!(queue.recv().map(word).unwrap(), 4);
    assert_eq!(queue.recv_polling().map(word).unwrap(), 5);
    assert_eq!(queue.try_recv().unwrap(), None);
    send(7);
    assert!(queue.arm().unwrap(), "no sleep on an overrun queue");
    assert!(queue.try_recv().unwrap_err().is_overrun());
    assert_eq!(queue.try_recv().unwrap().map(word), Some(11));
    assert_eq!(queue.overruns(), (2, 7));
}

#[test]
fn fetch_and_op_result_is_kept_until_read() {
    let (fake, card) = card();
    let area = card.create_area(64).unwrap();
    let slot = card.slot(&area).allow_fetch().create().unwrap();
    let ticket = slot.fast_ticket().unwrap().part(16, 32).unwrap();
    let terminus = card.create_terminus().unwrap();
    area.write(24, &5_u64.to_le_bytes()).unwrap();
    let steps = [
        (FetchOp::Add(3), 5),
        (FetchOp::Swap(0b1100), 8),
        (FetchOp::And(0b0110), 0b1100),
        (FetchOp::Or(0b0001), 0b0100),
        (FetchOp::Xor(0b0111), 0b0101),
        (FetchOp::CompareSwap { compare: 1, swap: 9 }, 2),
        (FetchOp::CompareSwap { compare: 2, swap: u64::MAX }, 2),
        (FetchOp::Add(2), u64::MAX),
    ];
    fake.hold(true);
    let handles = steps.map(|(step, _)| terminus.fetch(&ticket, 8, step).unwrap());
    assert_eq!(handles[0].value().unwrap(), None);
    assert!(handles[0].wait_timeout(Duration::ZERO).unwrap_err().is_timed_out());
    fake.hold(false);
    for _ in 0..500 {
        let _ = terminus.fetch(&ticket, 8, FetchOp::Add(1)).unwrap();
    }
    for (handle, (_, found)) in handles.iter().zip(steps) {
        assert_eq!((handle.value().unwrap(), handle.wait().unwrap()), (Some(found), found));
    }
    assert_eq!(terminus.fetch(&ticket, 8, FetchOp::Add(0)).unwrap().wait().unwrap(), 501);
}

#[test]
fn refused_fetch_and_op_reports_the_refusal() {
    let (_, card) = card();
    let area = card.create_area(64).unwrap();
    let closed = card.slot(&area).create().unwrap();
    let ticket = closed.fast_ticket().unwrap();
    let terminus = card.create_terminus().unwrap();
    let refused = terminus.fetch(&ticket, 8, FetchOp::Add(1)).unwrap().wait().unwrap_err();
    assert_eq!(refused.of::<RefusedError>().unwrap().reason, Some(Statistic::RefusedByDestination));
    let error = terminus.fetch(&ticket, 12, FetchOp::Add(1)).unwrap_err();
    assert_eq!(error.to_string(), "offset of a fetch-and-op 12 is not a multiple of 8");
    assert!(terminus.fetch(&ticket, 64, FetchOp::Add(1)).is_err());
    let part = ticket.part(4, 32).unwrap();
    assert!(
        terminus.fetch(&part, 0, FetchOp::Add(1)).is_err(),
        "what counts is the place in the message area"
    );
    assert!(terminus.fetch(&part, 4, FetchOp::Add(1)).is_ok());
}

#[test]
fn a_terminus_has_a_weight() {
    let (fake, card) = card();
    let most = Terminus::MAX_WEIGHT;
    let _ = (card.create_terminus().unwrap(), card.create_terminus_weighted(most).unwrap());
    assert_eq!(fake.weights(), [1, most]);
    let error = card.create_terminus_weighted(most + 1).unwrap_err();
    assert_eq!(error.to_string(), format!("terminus weight {} is out of range (limit {most})", most + 1));
    assert!(card.create_terminus_weighted(0).is_err());
}
