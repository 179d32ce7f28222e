//! Channels over express memory, and over messages without it, with a card in memory.

use std::io::{Read, Write};
use std::thread;
use std::time::Duration;

use crate::fake::express::OTHER;
use crate::fake::{Fake, HOST};
use hamlyn::express::{Channel, ChannelListener, ChannelOptions, ChannelSender};
use hamlyn::protocol::datagram::{DatagramReceiver, DatagramSender};
use hamlyn::protocol::stream::{StreamListener, StreamReceiver};
use hamlyn::{Card, Connecting, Error, Manager, PeerLoss, Polling};

pub(crate) const PATIENCE: Option<Duration> = Some(Duration::from_secs(60));

/// A channel between two hosts, from each end, with the card of both hosts and the ends' managers.
pub(crate) struct Pair {
    pub(crate) fake: Fake,
    pub(crate) managers: [Manager; 2],
    pub(crate) ends: [Channel; 2],
}

fn open(fake: Fake, options: [ChannelOptions; 2]) -> Pair {
    let here = Manager::create(&Card::attached(fake.share())).unwrap();
    let there = Manager::create(&Card::attached(fake.other())).unwrap();
    let listener = ChannelListener::bind(&there, "name", options[1]).unwrap();
    let asker = here.clone();
    let asking =
        thread::spawn(move || Channel::connect(&asker, OTHER, "name", options[0], PATIENCE).unwrap());
    let asked = listener.accept(PATIENCE).unwrap();
    Pair { fake, managers: [here, there], ends: [asking.join().unwrap(), asked] }
}

pub(crate) fn express(capacity: u64) -> Pair {
    let fake = Fake::default();
    fake.give_express(false);
    let mut options = ChannelOptions::default();
    options.capacity = capacity;
    let pair = open(fake, [options, options]);
    assert!(pair.ends.iter().all(Channel::is_express));
    pair
}

pub(crate) fn by_messages() -> Pair {
    let pair = open(Fake::default(), [ChannelOptions::default(); 2]);
    assert!(!pair.ends.iter().any(Channel::is_express));
    pair
}

/// Sleeps without polling first.
const ASLEEP: Polling = Polling::NEVER;

pub(crate) fn bytes(number: usize, length: usize) -> Vec<u8> {
    (0..length).map(|index| (index * 7 + number) as u8).collect()
}

/// Sends messages of all lengths there and back.
fn echo(pair: Pair) {
    let Pair { ends: [here, there], .. } = pair;
    let longest = here.sender.longest();
    let lengths: Vec<usize> =
        (0..100).chain((0..60).map(|step| step * 997 % longest)).chain([longest, 0, longest]).collect();
    let echoing = thread::spawn(move || {
        let Channel { mut sender, mut receiver } = there;
        receiver.set_polling(ASLEEP);
        while let Some(message) = receiver.recv_block(PATIENCE).unwrap() {
            sender.send(&message.to_vec().unwrap(), PATIENCE).unwrap();
        }
        sender.close(PATIENCE).unwrap();
    });
    let Channel { mut sender, mut receiver } = here;
    let all = lengths.clone();
    let sending = thread::spawn(move || {
        sender.set_polling(ASLEEP);
        for (number, length) in all.into_iter().enumerate() {
            sender.send(&bytes(number, length), PATIENCE).unwrap();
        }
        sender.close(PATIENCE).unwrap();
    });
    for (number, length) in lengths.into_iter().enumerate() {
        let message = receiver.recv_block(PATIENCE).unwrap().unwrap();
        assert_eq!(message.to_vec().unwrap(), bytes(number, length), "message {number}");
    }
    assert!(receiver.recv_block(PATIENCE).unwrap().is_none());
    sending.join().unwrap();
    echoing.join().unwrap();
}

#[test]
fn messages_wake_a_sleeper_and_arrive_in_order() {
    echo(express(4096));
    echo(express(65536));
}

#[test]
fn channels_use_messages_without_express_memory() {
    echo(by_messages());
    let fake = Fake::default();
    fake.give_express(true);
    let pair = open(fake, [ChannelOptions::default(); 2]);
    assert!(!pair.ends[0].is_express(), "each host has another switch's");
    assert_eq!(pair.fake.areas(), 0);
    let fake = Fake::default();
    fake.give_express(false);
    let mut options = [ChannelOptions::default(); 2];
    options[1] = by_messages_alone();
    echo(open(fake, options));
}

fn by_messages_alone() -> ChannelOptions {
    let mut options = ChannelOptions::default();
    options.by_messages = true;
    options
}

#[test]
fn a_message_is_built_and_read_in_place() {
    for pair in [express(4096), by_messages()] {
        let [mut here, mut there] = pair.ends;
        _ = here.sender.try_reserve(100).unwrap();
        let mut room = here.sender.try_reserve(10).unwrap();
        room.write(0, b"0123456789").unwrap();
        room.write(4, b"x").unwrap();
        assert!(room.write(10, b"y").is_err());
        room.commit().unwrap();
        let message = there.receiver.recv_block(PATIENCE).unwrap().unwrap();
        let mut part = [0; 3];
        message.read(3, &mut part).unwrap();
        assert_eq!((&part, message.len()), (b"3x5", 10));
        assert!(message.read(8, &mut part).is_err());
        drop(message);
        let longest = here.sender.longest() as u64;
        let refused = here.sender.try_send(&vec![0; longest as usize + 1]).unwrap_err();
        assert!(
            matches!(refused, Error::OutOfRange { value, limit, .. } if value == longest + 1 && limit == longest)
        );
        assert!(there.receiver.try_recv().unwrap_err().is_would_block());
    }
}

#[test]
fn sender_waits_while_the_ring_is_full() {
    let Pair { ends: [mut here, mut there], .. } = express(4096);
    let mut sent = 0;
    while here.sender.try_send(&[7; 100]).is_ok() {
        sent += 1;
    }
    assert_eq!(sent, 4096 / 112);
    assert!(here.sender.try_send(&[7; 100]).unwrap_err().is_would_block());
    let timed_out = here.sender.send(&[7; 100], Some(Duration::from_millis(1))).unwrap_err();
    assert!(timed_out.is_timed_out(), "{timed_out}");
    assert!(!here.sender.arm(100).unwrap());
    for _ in 0..sent {
        assert_eq!(there.receiver.try_recv().unwrap().unwrap().to_vec().unwrap(), [7; 100]);
    }
    assert!(there.receiver.try_recv().unwrap_err().is_would_block());
    // The reader has passed the skip after which the previous message would have been placed. So
    // the whole ring is free.
    here.sender.try_send(&[8; 4088]).unwrap();
    assert!(here.sender.try_send(b"").unwrap_err().is_would_block());
    assert_eq!(there.receiver.try_recv().unwrap().unwrap().len(), 4088);
}

#[test]
fn managers_file_wakes_an_application_loop() {
    let Pair { managers: [_, there_manager], ends: [mut here, mut there], .. } = express(4096);
    there.receiver.set_token(77);
    assert!(!there.receiver.arm().unwrap());
    let _ = there_manager.ready();
    while there_manager.arm().unwrap() {}
    here.sender.try_send(b"news").unwrap();
    assert!(there_manager.arm().unwrap(), "it is rung");
    there_manager.poll_all().unwrap();
    assert_eq!(there_manager.ready(), [77]);
    assert!(there.receiver.arm().unwrap(), "there is something");
    assert_eq!(there.receiver.try_recv().unwrap().unwrap().to_vec().unwrap(), b"news");
}

#[test]
fn bell_is_not_rung_for_awake_peer() {
    let Pair { fake, ends: [mut here, mut there], .. } = express(4096);
    let before = fake.rings();
    for _ in 0..1000 {
        here.sender.try_send(&[1; 64]).unwrap();
        assert_eq!(there.receiver.try_recv().unwrap().unwrap().len(), 64);
    }
    assert_eq!(fake.rings(), before);
}

/// Fills a manager's work queue while the card is held. Returns the number of messages.
fn fill(fake: &Fake, manager: &Manager) -> usize {
    let place = DatagramReceiver::create(manager, 8).unwrap();
    let (sender, ticket) = (DatagramSender::new(manager), place.ticket().unwrap());
    fake.hold(true);
    (0..).take_while(|_| sender.try_send(&ticket, b"y", 0, None).is_ok()).count()
}

#[test]
fn blocked_bell_is_rung_once_there_is_room() {
    // Once with a message, and once with an end.
    for end in [false, true] {
        let Pair { fake, managers: [manager, there_manager], ends: [here, mut there] } = express(4096);
        assert!(!there.receiver.arm().unwrap());
        let _ = there_manager.ready();
        while there_manager.arm().unwrap() {}
        fill(&fake, &manager);
        let Channel { mut sender, receiver: _receiver } = here;
        if end {
            sender.try_close().unwrap();
            // A second end has no effect, and nothing is sent after an end.
            sender.try_close().unwrap();
            assert!(matches!(sender.try_send(b"late"), Err(Error::Closed(_))));
            assert!(matches!(sender.arm(4), Err(Error::Closed(_))));
            drop(sender);
        } else {
            // A blocking call also waits for the bell, but the message has been sent.
            sender.send(b"news", Some(Duration::from_millis(1))).unwrap();
            assert!(sender.flush(Some(Duration::from_millis(1))).unwrap_err().is_timed_out());
            let before = fake.rings();
            let _ = manager.ready();
            while manager.arm().unwrap() {}
            assert_eq!(fake.rings(), before);
        }
        assert!(!there_manager.arm().unwrap(), "nobody has rung");
        fake.hold(false);
        // An unrelated event loop and a sleeping thread each ring the pending bell.
        if end {
            let _ = manager.wait(Some(Duration::from_millis(1)));
        } else {
            assert!(manager.arm().unwrap());
        }
        assert!(there_manager.arm().unwrap(), "it is rung");
        let next = there.receiver.try_recv().unwrap().map(|message| message.to_vec().unwrap());
        assert_eq!(next, (!end).then(|| b"news".to_vec()));
    }
}

#[test]
fn pending_bell_wakes_any_sleeper() {
    let Pair { fake, managers: [manager, there_manager], ends: [here, mut there] } = express(4096);
    assert!(!there.receiver.arm().unwrap());
    let _ = there_manager.ready();
    while there_manager.arm().unwrap() {}
    let third = Manager::create(&Card::attached(fake.share())).unwrap();
    let room = fill(&fake, &third);
    fake.hold(false);
    let place = DatagramReceiver::create(&third, 8).unwrap();
    let (datagrams, ticket) = (DatagramSender::new(&manager), place.ticket().unwrap());
    fake.hold(true);
    // Exactly as many as there is room for, so no sender waits for room yet.
    (0..room).for_each(|_| drop(datagrams.try_send(&ticket, b"y", 0, None).unwrap()));
    // It sleeps on the manager's file, most likely before the bell becomes pending.
    let (waker, sleeper) = (manager.waker(), manager.clone());
    let _ = manager.ready();
    let sleeping = thread::spawn(move || sleeper.wait(None).unwrap());
    thread::sleep(Duration::from_millis(50));
    let Channel { mut sender, receiver: _receiver } = here;
    sender.try_send(b"news").unwrap();
    fake.hold(false);
    let rings = |_| {
        there_manager.arm().unwrap() || {
            thread::sleep(Duration::from_millis(1));
            false
        }
    };
    assert!((0..20_000).any(rings), "the sender does not ring");
    assert_eq!(there.receiver.try_recv().unwrap().unwrap().to_vec().unwrap(), b"news");
    waker.wake();
    sleeping.join().unwrap();
}

#[test]
fn empty_messages_do_not_hold_up_a_reader() {
    let Pair { ends: [mut here, mut there], .. } = express(65536);
    let mut bytes = [0; 4];
    for _ in 0..1000 {
        here.sender.try_send(b"").unwrap();
    }
    here.sender.try_send(b"last").unwrap();
    let mut turns = 0;
    while let Err(error) = there.receiver.try_read(&mut bytes) {
        assert!(error.is_would_block() && there.receiver.arm().unwrap(), "{error}");
        turns += 1;
    }
    assert_eq!((&bytes, turns), (b"last", 1000 / 64));
    // The reader times out, however many messages there are.
    for _ in 0..10 {
        here.sender.try_send(b"").unwrap();
    }
    let error = there.receiver.read_block(&mut bytes, Some(Duration::ZERO)).unwrap_err();
    assert!(error.is_timed_out(), "{error}");
    assert!(there.receiver.arm().unwrap(), "the others are still there");
}

/// Sends until it fails. Returns the error.
pub(crate) fn send_on(sender: &mut ChannelSender) -> Error {
    (0..100).find_map(|_| sender.send(&[1; 1000], Some(Duration::from_secs(5))).err()).expect("it goes on")
}

#[test]
fn send_fails_when_the_receiver_is_gone() {
    for pair in [express(4096), by_messages()] {
        let Pair { managers: [manager, _there], ends: [here, there], .. } = pair;
        let Channel { mut sender, receiver: _receiver } = here;
        let Channel { mut receiver, sender: _sender } = there;
        sender.set_polling(ASLEEP);
        sender.try_send(b"first").unwrap();
        assert!(receiver.recv_block(PATIENCE).unwrap().is_some());
        while sender.try_send(&[1; 1000]).is_ok() {}
        let _ = manager.ready();
        let sending = thread::spawn(move || send_on(&mut sender));
        drop(receiver);
        let error = sending.join().unwrap();
        assert!(matches!(error, Error::PeerLost(PeerLoss::Abandoned)), "{error}");
    }
    // The sender must not sleep.
    let Pair { ends: [mut here, there], .. } = express(4096);
    let Channel { receiver, sender: _sender } = there;
    drop(receiver);
    let error = (0..100).find_map(|_| here.sender.try_send(&[1; 1000]).err()).unwrap();
    assert!(matches!(error, Error::PeerLost(PeerLoss::Abandoned)), "{error}");
    assert!(here.sender.arm(1000).unwrap(), "there is the end");
}

#[test]
fn nothing_is_sent_after_a_pending_end() {
    let Pair { ends: [mut here, mut there], .. } = express(4096);
    here.sender.begin(4, None).unwrap();
    here.sender.try_close().unwrap();
    assert!(matches!(here.sender.finish(), Err(Error::Invalid(_))));
    assert!(there.receiver.recv_block(PATIENCE).unwrap().is_none());
}

#[test]
fn end_is_reported_after_all_sent_messages() {
    for pair in [express(4096), by_messages()] {
        let Pair { ends: [mut here, mut there], .. } = pair;
        here.sender.send(b"last words", PATIENCE).unwrap();
        here.sender.flush(PATIENCE).unwrap();
        drop(here);
        assert_eq!(there.receiver.recv_block(PATIENCE).unwrap().unwrap().to_vec().unwrap(), b"last words");
        let lost = there.receiver.recv_block(PATIENCE).unwrap_err();
        assert!(matches!(lost, Error::PeerLost(PeerLoss::Abandoned | PeerLoss::Process)), "{lost}");
    }
    let Pair { fake, ends: [here, mut there], .. } = express(4096);
    drop(here);
    // The area that it sent to already reads as zeros.
    let lost = loop {
        match there.sender.send(&[1; 1000], PATIENCE) {
            Ok(()) => {}
            Err(lost) => break lost,
        }
    };
    assert!(matches!(lost, Error::PeerLost(PeerLoss::Process)), "{lost}");
    drop(there);
    assert_eq!(fake.areas(), 0);
}

#[test]
fn byte_stream_ignores_message_boundaries() {
    for pair in [express(4096), by_messages()] {
        let Pair { ends: [mut here, mut there], .. } = pair;
        let all = bytes(3, 100_000);
        let sent = all.clone();
        let sending = thread::spawn(move || {
            here.write_all(&sent).unwrap();
            here.flush().unwrap();
            here.sender.close(PATIENCE).unwrap();
            here.receiver
        });
        let mut came = Vec::new();
        there.read_to_end(&mut came).unwrap();
        assert_eq!(came, all);
        drop(sending.join().unwrap());
    }
}

#[test]
fn channel_to_the_own_host_uses_messages() {
    let fake = Fake::default();
    fake.give_express(false);
    let manager = Manager::create(&Card::attached(fake.share())).unwrap();
    let listener = ChannelListener::bind(&manager, "own", ChannelOptions::default()).unwrap();
    let asker = manager.clone();
    let asking = thread::spawn(move || {
        Channel::connect(&asker, HOST, "own", ChannelOptions::default(), PATIENCE).unwrap()
    });
    let mut asked = listener.accept(PATIENCE).unwrap();
    let mut asking = asking.join().unwrap();
    assert!(!asking.is_express() && !asked.is_express());
    asking.sender.send(b"to myself", PATIENCE).unwrap();
    assert_eq!(asked.receiver.recv_block(PATIENCE).unwrap().unwrap().to_vec().unwrap(), b"to myself");
}

#[test]
fn listener_rejects_requests_of_other_protocols() {
    let fake = Fake::default();
    let card = Card::attached(fake.share());
    let manager = Manager::create(&card).unwrap();
    let listener = ChannelListener::bind(&manager, "name", ChannelOptions::default()).unwrap();
    let asking = thread::spawn(move || card.connect(OTHER, "name", b"hello").unwrap_err());
    while !asking.is_finished() {
        let timed_out = listener.accept(Some(Duration::from_millis(20)));
        assert!(timed_out.unwrap_err().is_timed_out());
    }
    drop(listener);
    let told = asking.join().unwrap();
    assert!(told.to_string().contains("an offer of a channel that is too short or long"), "{told}");
}

/// Creates listeners for channels and streams. Each has `strangers` requests of an unknown
/// protocol.
fn listeners_with_strangers(strangers: usize) -> (Fake, ChannelListener, StreamListener, Vec<Connecting>) {
    let fake = Fake::default();
    let card = Card::attached(fake.share());
    let manager = Manager::create(&card).unwrap();
    let channels = ChannelListener::bind(&manager, "channels", ChannelOptions::default()).unwrap();
    let streams = StreamListener::bind(&manager, "streams").unwrap();
    let names = ["channels", "streams"].repeat(strangers);
    let asking = names.iter().map(|name| card.begin_connect(OTHER, name, b"hello").unwrap()).collect();
    (fake, channels, streams, asking)
}

#[test]
fn listener_times_out_while_it_rejects_others() {
    let (fake, channels, streams, _asking) = listeners_with_strangers(3);
    let short = Some(Duration::from_nanos(1));
    for left in [2, 1, 0] {
        assert!(channels.accept(short).unwrap_err().is_timed_out());
        assert!(streams.request(short).err().unwrap().is_timed_out());
        assert_eq!((fake.requests("channels"), fake.requests("streams")), (left, left));
    }
}

#[test]
fn listener_poll_leaves_no_request() {
    // A request left in the queue would not wake an edge-triggered loop.
    let (fake, channels, streams, _asking) = listeners_with_strangers(3);
    assert!(channels.accept(Some(Duration::ZERO)).unwrap_err().is_timed_out());
    assert!(streams.accept(Some(Duration::ZERO)).err().unwrap().is_timed_out());
    assert_eq!((fake.requests("channels"), fake.requests("streams")), (0, 0));
}

#[test]
fn listener_poll_ends_under_a_flood() {
    // More requests have arrived than can wait at once, so some arrived after the poll began. An
    // edge-triggered loop is woken for those.
    let (fake, channels, streams, _asking) = listeners_with_strangers(64 + 5);
    assert!(channels.accept(Some(Duration::ZERO)).unwrap_err().is_timed_out());
    assert!(streams.request(Some(Duration::ZERO)).err().unwrap().is_timed_out());
    assert_eq!((fake.requests("channels"), fake.requests("streams")), (5, 5));
    assert!(streams.accept(Some(Duration::ZERO)).err().unwrap().is_timed_out());
    assert_eq!(fake.requests("streams"), 0);
}

#[test]
fn sender_by_messages_grows_with_its_messages() {
    let mut options = ChannelOptions::default();
    options.capacity = 1 << 20;
    let pair = open(Fake::default(), [options; 2]);
    assert!(pair.ends.iter().all(|end| end.sender.longest() > 1_000_000));
    echo(pair);
}

/// Returns the bytes of the mapping around an address, including those that the kernel merged with
/// it.
fn mapped_around(address: usize) -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let ranges = maps.lines().filter_map(|line| line.split_once(' ')?.0.split_once('-'));
    let at = |text| usize::from_str_radix(text, 16).unwrap();
    let (start, end) = ranges
        .map(|(start, end)| (at(start), at(end)))
        .find(|(start, end)| (*start..*end).contains(&address))
        .unwrap();
    end - start
}

#[test]
fn sender_maps_less_than_its_peer_announces() {
    const ANNOUNCED: u64 = 1 << 30;
    let fake = Fake::default();
    let here = Manager::create(&Card::attached(fake.share())).unwrap();
    let there = Manager::create(&Card::attached(fake.other())).unwrap();
    let listener = there.card().listen("name").unwrap();
    let asker = here.clone();
    let asking = thread::spawn(move || {
        Channel::connect(&asker, OTHER, "name", by_messages_alone(), PATIENCE).unwrap()
    });
    let receiver = StreamReceiver::create(&there).unwrap();
    let mut offer = b"HX\x01\x00\x02\x00\x00\x00".to_vec();
    offer.extend(ANNOUNCED.to_le_bytes());
    offer.resize(32, 0);
    offer.extend(receiver.make_seed().unwrap().to_bytes());
    let _connection = listener.request(PATIENCE).unwrap().accept(&offer).unwrap();
    let mut channel = asking.join().unwrap();
    assert_eq!(channel.sender.longest() as u64, ANNOUNCED - 8);
    let room = channel.sender.begin(1, None).unwrap();
    assert!((mapped_around(room.as_ptr() as usize) as u64) < ANNOUNCED);
}

#[test]
fn message_timeout_error_names_the_full_time() {
    let Pair { ends: [mut here, _there], .. } = by_messages();
    while here.sender.try_send(&[1; 1000]).is_ok() {}
    let whole = Duration::from_millis(20);
    let named = |error| matches!(error, Error::TimedOut { after, .. } if after == whole);
    assert!(named(here.sender.flush(Some(whole)).unwrap_err()));
    assert!(named(here.sender.close(Some(whole)).unwrap_err()));
}
