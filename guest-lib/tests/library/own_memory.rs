//! Areas and send buffers over the application's own memory.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::fake::Fake;
use hamlyn::protocol::datagram::{DatagramReceiver, DatagramSender};
use hamlyn::protocol::stream::{StreamOptions, StreamReceiver, StreamSender};
use hamlyn::protocol::tagged_write::{TagReceiver, TagSender};
use hamlyn::{Card, ErrorKind, Manager, Message, Source};

const PATIENCE: Duration = Duration::from_secs(10);

fn at(fake: &Fake) -> (Card, Manager) {
    let card = Card::attached(fake.share());
    let manager = Manager::create(&card).unwrap();
    (card, manager)
}

fn loads(cells: &[std::sync::atomic::AtomicU8]) -> Vec<u8> {
    cells.iter().map(|cell| cell.load(Ordering::Relaxed)).collect()
}

#[test]
fn datagrams_pass_between_application_buffers() {
    let (card, manager) = at(&Fake::default());
    let mine = vec![0xee_u8; 3000];
    let address = mine.as_ptr() as usize;
    let area = card.lend(mine).unwrap();
    let mut places = DatagramReceiver::create_in(&manager, &area, 2).unwrap();
    let text: Vec<u8> = (0..1500).map(|byte| byte as u8).collect();
    let buffer = manager.lend(text.clone()).unwrap();
    let ticket = places[1].ticket().unwrap();
    let sender = DatagramSender::new(&manager);
    sender.send_from(&ticket, &buffer, 500..1500, 7, None).unwrap().wait_timeout(PATIENCE).unwrap();
    let came = places[1].recv_timeout(PATIENCE).unwrap();
    assert_eq!(came.as_ptr() as usize, address + 1500 + 7, "where the application said");
    assert_eq!(loads(came.cells()), text[500..]);
    places[1].rearm();
    let again = sender.send_buffer(&ticket, buffer, 0, None).unwrap().wait_timeout(PATIENCE).unwrap();
    assert_eq!(places[1].recv_timeout(PATIENCE).unwrap().len(), 1500);
    // Lent memory comes back with its original type.
    let sent: Vec<u8> = again.take_back().unwrap();
    assert_eq!(sent, text);
    let area = area.take_back::<Vec<u8>>().unwrap_err();
    assert_eq!(area.error.to_string(), "a slot, a receiver or a clone still has the message area");
    drop(places);
    let mine: Vec<u8> = area.back.take_back().unwrap();
    assert_eq!(
        (mine.as_ptr() as usize, &mine[..1500], &mine[1500..]),
        (address, &[0xee; 1500][..], &text[..])
    );
}

#[test]
fn streams_and_tags_arrive_in_application_memory() {
    let (card, manager) = at(&Fake::default());
    let area = card.lend(vec![0_u8; 4000].into_boxed_slice()).unwrap();
    let options = StreamOptions { record_size: 1000, records: 4, max_records: 4 };
    let mut receiver = StreamReceiver::create_in(&manager, &area, options).unwrap();
    let mut sender = StreamSender::from_seed(&manager, &receiver.make_seed().unwrap()).unwrap();
    let buffer = manager.lend(vec![5_u8; 5000]).unwrap();
    assert_eq!(sender.try_send_from(&buffer, 0..5000).unwrap(), 3000, "one ticket is kept for the end");
    for number in 0..3 {
        let record = receiver.recv_timeout(PATIENCE).unwrap().unwrap();
        assert_eq!((record.number(), loads(record.cells())), (number, vec![5; 1000]));
    }
    receiver.release(2).unwrap();
    sender.send_from(&buffer, 3000..5000).unwrap().unwrap().wait_timeout(PATIENCE).unwrap();
    assert_eq!(receiver.recv_timeout(PATIENCE).unwrap().unwrap().len(), 1000);
    assert!(sender.send_from(&buffer, 4999..5001).is_err());
    drop((receiver, sender));
    let back: Box<[u8]> = area.take_back().unwrap();
    assert_eq!(back[..3000], [5; 3000]);
    assert!(StreamReceiver::create_in(&manager, &card.create_area(3999).unwrap(), options).is_err());

    let area = card.lend([9_u8; 600]).unwrap();
    let mut receiver = TagReceiver::create_in(&card, &area, 8).unwrap();
    let sender = TagSender::new(manager.terminus().clone());
    sender
        .send_from(&receiver.ticket().unwrap(), &buffer, 0..500, 100, 7)
        .unwrap()
        .wait_timeout(PATIENCE)
        .unwrap();
    assert_eq!(receiver.recv_timeout(PATIENCE).unwrap(), 7);
    assert_eq!(loads(receiver.cells(99, 3).unwrap()), [9, 5, 5]);
    drop(receiver);
    assert_eq!(area.take_back::<[u8; 600]>().unwrap()[99..101], [9, 5]);
}

#[test]
fn memory_in_flight_cannot_be_changed_or_reclaimed() {
    let fake = Fake::default();
    let (card, manager) = at(&fake);
    let place = DatagramReceiver::create(&manager, 2000).unwrap();
    let ticket = place.ticket().unwrap();
    let sender = DatagramSender::new(&manager);
    let mut buffer = manager.lend(vec![1_u8; 2000]).unwrap();
    fake.hold(true);
    let handle = sender.send_from(&ticket, &buffer, 0..1000, 0, None).unwrap();
    assert_eq!(buffer.cells(999, 1).unwrap_err().kind(), ErrorKind::InFlight);
    assert_eq!(buffer.write(0, b"no").unwrap_err().kind(), ErrorKind::InFlight);
    buffer.cells(1000, 1000).unwrap()[0].store(2, Ordering::Relaxed);
    let refused = buffer.take_back::<Vec<u8>>().unwrap_err();
    assert_eq!(refused.error.kind(), ErrorKind::InFlight);
    assert!(refused.back.wait_idle_timeout(Duration::ZERO).unwrap_err().is_timed_out());
    // A dropped buffer is still sent, from memory that stays allocated.
    drop(refused.back);
    fake.hold(false);
    handle.wait_timeout(PATIENCE).unwrap();
    assert_eq!(place.recv_timeout(PATIENCE).unwrap().to_vec(), [1; 1000]);
    // Its tag is free again afterwards: all eight can be lent.
    let all: Vec<_> = (0..8).map(|_| manager.lend(vec![0_u8; 64]).unwrap()).collect();
    let failed = manager.lend(vec![3_u8; 64]).unwrap_err();
    assert!(failed.error.is_exhausted() && failed.back == [3; 64], "{}", failed.error);
    drop((all, card));
}

#[test]
fn a_buffer_goes_to_several_peers() {
    let (_, manager) = at(&Fake::default());
    let places = DatagramReceiver::create_group(&manager, 3, 1000).unwrap();
    let buffer = Arc::new(manager.lend(vec![8_u8; 1000]).unwrap());
    std::thread::scope(|scope| {
        for place in &places {
            let (buffer, sender) = (buffer.clone(), DatagramSender::new(&manager));
            scope.spawn(move || {
                sender.send_from(&place.ticket().unwrap(), &buffer, 0..1000, 0, None).unwrap();
            });
        }
    });
    for place in &places {
        assert_eq!(place.recv_timeout(PATIENCE).unwrap().to_vec(), [8; 1000]);
    }
    buffer.wait_idle_timeout(PATIENCE).unwrap();
    let back: Vec<u8> = Arc::into_inner(buffer).unwrap().take_back().unwrap();
    assert_eq!(back, [8; 1000]);
}

#[test]
fn unlendable_memory_is_given_back() {
    let fake = Fake::default();
    let (card, manager) = at(&fake);
    assert_eq!(card.lend(Vec::new()).unwrap_err().error.to_string(), "memory of no bytes");
    fake.refuse_to_lend();
    assert_eq!(card.lend(vec![4_u8; 10]).unwrap_err().back, [4; 10]);
    fake.refuse_to_lend();
    assert_eq!(manager.lend(vec![4_u8; 10]).unwrap_err().back, [4; 10]);
    let area = card.lend(vec![0_u8; 10]).unwrap();
    let wrong = area.take_back::<Box<[u8]>>().unwrap_err();
    assert_eq!(wrong.error.to_string(), "the memory was not made of a value of this type");
    assert_eq!(wrong.back.take_back::<Vec<u8>>().unwrap().len(), 10);
    assert!(DatagramReceiver::create_in(&manager, &card.create_area(3).unwrap(), 4).is_err());
    assert!(manager.allocate(10).unwrap().take_back::<Vec<u8>>().is_err(), "the manager's own");
}

#[test]
fn slots_and_send_buffers_share_a_registration() {
    let fake = Fake::default();
    let (card, manager) = at(&fake);
    let terminus = manager.terminus();
    let area = card.lend(vec![0_u8; 300]).unwrap();
    let before = card.slot(&area).create().unwrap();
    card.register(&area).unwrap();
    card.register(&area).unwrap();
    let [one, two] = [0..100, 100..200].map(|range| card.slot(&area).range(range).create().unwrap());
    let mut buffer = terminus.create_send_buffer_in(&area, 250..300).unwrap();
    assert_eq!(fake.slot_registrations(), [(before.number(), 0), (one.number(), 1), (two.number(), 1)]);
    assert_eq!(fake.buffer_registrations(), [1]);

    buffer.write(40, b"shared").unwrap();
    assert_eq!(loads(area.cells(290, 6).unwrap()), b"shared");
    assert_eq!(buffer.write(47, b"past").unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(buffer.read(45, &mut [0; 6]).unwrap_err().kind(), ErrorKind::Invalid);
    let ticket = two.fast_ticket().unwrap();
    let piece = Source::Gather(&[buffer.piece(40, 6).unwrap()]);
    terminus.send(&Message::to(&ticket), piece).unwrap().wait_timeout(PATIENCE).unwrap();

    let buffer = buffer.take_back::<Vec<u8>>().unwrap_err().back;
    drop((before, one, two));
    let area = area.take_back::<Vec<u8>>().unwrap_err().back;
    drop(buffer);
    assert_eq!(fake.registered(), [1], "the area still has it");
    assert_eq!(&area.take_back::<Vec<u8>>().unwrap()[100..106], b"shared");
    assert!(fake.registered().is_empty());
}

#[test]
fn registration_of_another_card_is_not_used() {
    let (fake, other) = (Fake::default(), Fake::default());
    let (card, second) = (at(&fake).0, at(&other).0);
    let area = card.create_area(64).unwrap();
    card.register(&area).unwrap();
    let slot = second.slot(&area).create().unwrap();
    assert_eq!(other.slot_registrations(), [(slot.number(), 0)]);
    fake.refuse_to_register();
    let refused = card.register(&card.create_area(64).unwrap()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
}

#[test]
fn send_buffers_stay_within_their_area() {
    let (card, manager) = at(&Fake::default());
    let area = card.create_area(64).unwrap();
    let create = |range| manager.terminus().create_send_buffer_in(&area, range).unwrap_err().to_string();
    assert_eq!(create(60..70), "10 bytes at offset 60 reach past the end of the message area (limit 64)");
    assert_eq!(create(10..10), "memory of no bytes");
    let all: Vec<_> = (0..8).map(|i| manager.terminus().create_send_buffer_in(&area, i..i + 1)).collect();
    assert!(all.iter().all(Result::is_ok), "no tag was lost");
}

#[test]
fn slot_and_send_buffer_use_application_memory() {
    let (card, manager) = at(&Fake::default());
    let terminus = manager.terminus();
    let area = card.lend(vec![0_u8; 100]).unwrap();
    let slot = card.slot(&area).range(50..100).create().unwrap();
    let buffer = terminus.lend(*b"from here").unwrap();
    let ticket = slot.fast_ticket().unwrap();
    let piece = Source::Gather(&[buffer.piece(5, 4).unwrap()]);
    terminus.send(&Message::to(&ticket), piece).unwrap().wait_timeout(PATIENCE).unwrap();
    assert_eq!(&buffer.take_back::<[u8; 9]>().unwrap(), b"from here");
    drop(slot);
    assert_eq!(&area.take_back::<Vec<u8>>().unwrap()[50..54], b"here");
}
