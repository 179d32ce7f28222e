//! Channels of Hamlyn cards, over the card and over express memory, with a card in memory.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::fake::Fake;
use crate::fake::express::OTHER;
use hamlyn::channel::{Card, Channel, Listener, Options};
use hamlyn::{Error, PeerLoss, Polling};
use proptest::prelude::*;

pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Opens a channel between the fake card's two hosts.
pub(crate) fn open(fake: &Fake, options: Options) -> [Channel; 2] {
    let [here, there] = [fake.share(), fake.other()].map(|seat| Card::from(hamlyn::Card::attached(seat)));
    open_at(&here, &there, options)
}

fn open_at(here: &Card, there: &Card, options: Options) -> [Channel; 2] {
    let listener = Listener::bind(there, "name", options).unwrap();
    thread::scope(|scope| {
        let asked = scope.spawn(|| listener.accept_timeout(PATIENCE).unwrap());
        let asking = Channel::connect_timeout(here, OTHER, "name", options, PATIENCE).unwrap();
        [asking, asked.join().unwrap()]
    })
}

pub(crate) fn bytes(number: usize, length: usize) -> Vec<u8> {
    (0..length).map(|index| (index * 7 + number) as u8).collect()
}

/// Sends messages of all lengths there and back, and closes both ways.
fn echo([here, there]: [Channel; 2]) {
    let longest = here.sender.longest();
    let lengths = (0..100).chain((0..60).map(|step| step * 997 % longest)).chain([longest, 0, longest]);
    let lengths: Vec<usize> = lengths.collect();
    thread::scope(|scope| {
        scope.spawn(|| {
            let Channel { mut sender, mut receiver } = there;
            receiver.set_polling(Polling::NEVER);
            while let Some(message) = receiver.recv_timeout(PATIENCE).unwrap() {
                sender.send_timeout(&message.to_vec().unwrap(), PATIENCE).unwrap();
            }
            sender.close_timeout(PATIENCE).unwrap();
        });
        let Channel { mut sender, mut receiver } = here;
        scope.spawn(|| {
            sender.set_polling(Polling::NEVER);
            for (number, length) in lengths.iter().enumerate() {
                sender.send_timeout(&bytes(number, *length), PATIENCE).unwrap();
            }
            sender.close_timeout(PATIENCE).unwrap();
        });
        for (number, length) in lengths.iter().enumerate() {
            let message = receiver.recv_timeout(PATIENCE).unwrap().unwrap();
            assert_eq!(message.to_vec().unwrap(), bytes(number, *length), "message {number}");
        }
        assert!(receiver.recv_timeout(PATIENCE).unwrap().is_none());
    });
}

#[test]
fn messages_wake_sleepers_and_arrive_in_order() {
    let fake = Fake::default();
    let ends = open(&fake, Options::default());
    assert!(!ends[0].is_express());
    echo(ends);
    fake.give_express(false);
    let ends = open(&fake, Options::default());
    assert!(ends.iter().all(Channel::is_express));
    echo(ends);
    let mut by_card = Options::default();
    by_card.by_card = true;
    let ends = open(&fake, by_card);
    assert!(!ends.iter().any(Channel::is_express), "it was told to use the card");
    echo(ends);
}

/// The same cases as between machines, by the card and by express memory.
#[test]
fn channels_keep_their_promises() {
    for is_express in [false, true] {
        let fake = Fake::default();
        fake.refuse();
        if is_express {
            fake.give_express(false);
        }
        let [card, served] =
            [fake.share(), fake.other()].map(|seat| Card::from(hamlyn::Card::attached(seat)));
        let (ready, is_ready) = mpsc::channel();
        // It serves until the test's process ends.
        thread::spawn(move || {
            let report = |case: &str, text: &str| panic!("{case}: {text}");
            hamlyn_conformance::serve(&served, || ready.send(()).unwrap(), report).unwrap();
        });
        is_ready.recv_timeout(PATIENCE).unwrap();
        let place = hamlyn_conformance::Place { card, host: OTHER, second: None };
        let mut cases = 0;
        hamlyn_conformance::run(&place, "", |_| cases += 1).unwrap();
        assert!(cases > 10, "{cases} cases");
        assert_eq!(hamlyn_conformance::is_express(&place).unwrap(), is_express);
    }
}

#[test]
fn short_messages_cannot_overrun_the_receiver() {
    let [mut here, mut there] = open(&Fake::default(), Options::default());
    let mut received = 0_u32;
    for round in 1..=10 {
        let mut sent = 0;
        while here.sender.try_send(&[7]).is_ok() {
            sent += 1;
        }
        assert!((100..=128).contains(&sent), "round {round}: {sent} of a byte");
        while let Ok(message) = there.receiver.try_recv() {
            assert_eq!(message.unwrap().to_vec().unwrap(), [7]);
            received += 1;
        }
        let expected = 0..=128 * round;
        assert!(expected.contains(&received) && here.sender.bytes_behind().unwrap() < 61440);
    }
    assert!(received >= 1000);
    // Several with one doorbell take one place.
    for number in 0..1000_u32 {
        let mut room = here.sender.try_reserve(4).unwrap();
        room.write(0, &number.to_le_bytes()).unwrap();
        room.put().unwrap();
    }
    here.sender.flush().unwrap();
    for number in 0..1000_u32 {
        let message = there.receiver.try_recv().unwrap().unwrap();
        assert_eq!(message.to_vec().unwrap(), number.to_le_bytes());
    }
}

#[test]
fn delivery_is_certain_once_the_card_has_sent() {
    let fake = Fake::default();
    let [mut here, _there] = open(&fake, Options::default());
    fake.hold(true);
    here.sender.send(b"one").unwrap();
    let one = here.sender.sent();
    here.sender.send(b"two").unwrap();
    assert!(here.sender.sent() > one);
    assert!(here.sender.try_delivered(one).unwrap_err().is_would_block());
    assert!(here.sender.delivered_timeout(one, Duration::from_millis(1)).unwrap_err().is_timed_out());
    fake.hold(false);
    here.sender.try_delivered(here.sender.sent()).unwrap();
    here.sender.delivered(one).unwrap();
    assert!(matches!(here.sender.delivered(1 << 40), Err(Error::OutOfRange { .. })));
    // In express memory a message has arrived when it is sent.
    fake.give_express(false);
    let [mut here, there] = open(&fake, Options::default());
    fake.hold(true);
    here.sender.send(b"one").unwrap();
    here.sender.try_delivered(here.sender.sent()).unwrap();
    drop(there);
    let lost = here.sender.delivered(here.sender.sent()).unwrap_err();
    assert!(matches!(lost, Error::PeerLost(PeerLoss::Abandoned)), "{lost}");
}

#[test]
fn late_message_stops_its_followers_at_the_window() {
    let fake = Fake::default();
    let [mut here, mut there] = open(&fake, Options::for_messages(100_000));
    fake.delay();
    // The first is the last to arrive, and needs a metadata entry, as every fifth does.
    let length = |number: usize| if number % 5 == 0 { 9000 } else { 4 };
    let mut sent = 0;
    for _ in 0..3 {
        let begin = sent;
        while here.sender.try_send(&bytes(sent, length(sent))).is_ok() {
            sent += 1;
        }
        assert!(sent - begin <= 128, "{begin} to {sent}");
        assert!(sent > begin || begin == 0);
        while fake.land(usize::MAX) {}
        for number in begin..sent {
            let message = there.receiver.try_recv().unwrap().unwrap();
            assert_eq!(message.to_vec().unwrap(), bytes(number, length(number)), "message {number}");
        }
        // The reports of the receiver are under way, too.
        assert!(there.receiver.try_recv().is_err());
        while fake.land(0) {}
    }
    assert!(sent > 200, "{sent}");
}

#[test]
fn sender_at_the_window_notices_receivers_end() {
    let [mut here, there] = open(&Fake::default(), Options::default());
    let Channel { sender: _sender, receiver } = there;
    while here.sender.try_send(&[1]).is_ok() {}
    drop(receiver);
    let left = here.sender.send_timeout(&[1], PATIENCE).unwrap_err();
    assert!(matches!(left, Error::PeerLost(PeerLoss::Abandoned)), "{left}");
    let left = here.sender.try_send(&[1]).unwrap_err();
    assert!(matches!(left, Error::PeerLost(PeerLoss::Abandoned)), "{left}");
}

/// The listener has accepted, sent and closed before the other end looks at its request.
#[test]
fn last_words_arrive_though_the_listener_has_closed() {
    let fake = Fake::default();
    let [here, there] = [fake.share(), fake.other()].map(|seat| Card::from(hamlyn::Card::attached(seat)));
    let mut options = Options::default();
    options.by_card = true;
    let listener = Listener::bind(&there, "name", options).unwrap();
    let opening = Channel::begin_connect(&here, OTHER, "name", options).unwrap();
    let Channel { mut sender, receiver } = listener.accept_timeout(PATIENCE).unwrap();
    sender.send(b"come again later").unwrap();
    sender.close_timeout(PATIENCE).unwrap();
    drop(receiver);
    let mut here = opening.try_finish().unwrap().unwrap();
    let message = here.receiver.recv_timeout(PATIENCE).unwrap().unwrap();
    assert_eq!(message.to_vec().unwrap(), b"come again later");
    drop(message);
    assert!(here.receiver.recv_timeout(PATIENCE).unwrap().is_none());
}

#[test]
fn malformed_requests_do_not_end_a_listener() {
    let fake = Fake::default();
    let [here, there] = [fake.share(), fake.other()].map(hamlyn::Card::attached);
    let listener = Listener::bind(&Card::from(there), "name", Options::default()).unwrap();
    // Each offer names the model and a ring of a page, and no area: addresses of no bytes, and of
    // another host.
    let head = [&b"CH\x02\x00"[..], &1_u32.to_le_bytes(), &4096_u64.to_le_bytes(), &[0; 16]].concat();
    let area = here.create_area(8192).unwrap();
    let ticket = here.slot(&area).create().unwrap().fast_ticket().unwrap();
    let third = hamlyn::Ticket { destination: 77, ..ticket }.to_bytes();
    let based = hamlyn::Ticket { base: u32::MAX, ..ticket }.to_bytes();
    for address in [vec![], vec![1; 3], vec![0xff; 80], [third; 2].concat(), [based; 2].concat()] {
        let asked = here.begin_connect(OTHER, "name", &[&head[..], &address].concat()).unwrap();
        let none = listener.accept_timeout(Duration::from_millis(20)).map(drop).unwrap_err();
        assert!(none.is_timed_out(), "{none}");
        assert!(asked.finish_timeout(PATIENCE).is_err());
    }
}

#[test]
fn channels_of_one_host_share_termini() {
    let fake = Fake::default();
    let [here, there] = [fake.share(), fake.other()].map(|seat| Card::from(hamlyn::Card::attached(seat)));
    let mut open: Vec<_> = (0..9).map(|_| open_at(&here, &there, Options::default())).collect();
    // Nine channels need two at each end. Without express memory there are no managers, which have
    // one.
    assert_eq!(fake.weights().len(), 4);
    for (number, [here, there]) in open.iter_mut().enumerate() {
        here.sender.send(&bytes(number, 100)).unwrap();
        let message = there.receiver.recv_timeout(PATIENCE).unwrap().unwrap();
        assert_eq!(message.to_vec().unwrap(), bytes(number, 100));
    }
}

#[test]
fn receiver_makes_no_larger_ring_than_asked_for() {
    let fake = Fake::default();
    let [here, there] = [fake.share(), fake.other()].map(|seat| Card::from(hamlyn::Card::attached(seat)));
    let listener = Listener::bind(&there, "name", Options::for_messages(1 << 20)).unwrap();
    thread::scope(|scope| {
        let asked = scope.spawn(|| listener.accept_timeout(PATIENCE).unwrap());
        let options = Options::default();
        let asking = Channel::connect_timeout(&here, OTHER, "name", options, PATIENCE).unwrap();
        let longest = (options.capacity / 2 - 8) as usize;
        assert_eq!([asking.sender.longest(), asked.join().unwrap().sender.longest()], [longest; 2]);
    });
}

#[test]
fn end_and_loss_come_after_all_messages() {
    let fake = Fake::default();
    let [mut here, mut there] = open(&fake, Options::default());
    here.sender.send(b"last").unwrap();
    drop(here);
    assert_eq!(there.receiver.recv_timeout(PATIENCE).unwrap().unwrap().to_vec().unwrap(), b"last");
    let lost = there.receiver.recv_timeout(PATIENCE).map(drop).unwrap_err();
    assert!(matches!(lost, Error::PeerLost(PeerLoss::Abandoned)), "{lost}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn overtaking_messages_are_received_in_order(
        lengths in prop::collection::vec(prop_oneof![0..40_usize, 3000..9000_usize], 1..12),
        choices in prop::collection::vec(any::<usize>(), 16),
        held in 0..8_usize,
    ) {
        let fake = Fake::default();
        // All fit in the ring.
        let [mut here, mut there] = open(&fake, Options::for_messages(100_000));
        fake.delay();
        for (number, length) in lengths.iter().enumerate() {
            here.sender.try_send(&bytes(number, *length)).unwrap();
        }
        // Some arrive, and whatever is received by then is in order.
        let mut choices = choices.into_iter().cycle();
        for _ in 0..held {
            fake.land(choices.next().unwrap());
        }
        let mut number = 0;
        while let Ok(message) = there.receiver.try_recv() {
            prop_assert_eq!(message.unwrap().to_vec().unwrap(), bytes(number, lengths[number]));
            number += 1;
        }
        while fake.land(choices.next().unwrap()) {}
        while number < lengths.len() {
            let message = there.receiver.try_recv().unwrap().unwrap();
            prop_assert_eq!(message.to_vec().unwrap(), bytes(number, lengths[number]));
            number += 1;
        }
        let left = there.receiver.try_recv().map(drop);
        prop_assert!(left.unwrap_err().is_would_block());
    }
}
