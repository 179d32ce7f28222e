//! Channels over express memory, and over messages where there is none, against a card in memory.

use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::fake::express::OTHER;
use crate::fake::{Fake, HOST};
use hamlyn::express::{Channel, ChannelListener, ChannelOptions, ChannelReceiver, ChannelSender};
use hamlyn::protocol::datagram::{DatagramReceiver, DatagramSender};
use hamlyn::{Card, Error, Manager, PeerLoss, Polling};
use hamlyn_sys::Mapping;

pub(crate) const PATIENCE: Option<Duration> = Some(Duration::from_secs(60));

/// A channel between the two hosts, from each end; and the card of both, and the ends' managers.
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

/// Never looks without sleeping.
const ASLEEP: Polling = Polling { spins: 0 };

pub(crate) fn bytes(number: usize, length: usize) -> Vec<u8> {
    (0..length).map(|index| (index * 7 + number) as u8).collect()
}

/// Messages of all lengths go there and come back.
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
fn messages_of_all_lengths_wake_who_sleeps_and_come_in_order() {
    echo(express(4096));
    echo(express(65536));
}

#[test]
fn without_express_memory_the_same_calls_go_by_messages() {
    echo(by_messages());
    let fake = Fake::default();
    fake.give_express(true);
    let pair = open(fake, [ChannelOptions::default(); 2]);
    assert!(!pair.ends[0].is_express(), "each host has another switch's");
    assert_eq!(pair.fake.areas(), 0);
    let fake = Fake::default();
    fake.give_express(false);
    let mut options = [ChannelOptions::default(); 2];
    options[1].by_messages = true;
    echo(open(fake, options));
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
fn who_sends_too_much_is_told_and_waits() {
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
    // It has passed the skip that the message before would have gone behind: all of the ring is free.
    here.sender.try_send(&[8; 4088]).unwrap();
    assert!(here.sender.try_send(b"").unwrap_err().is_would_block());
    assert_eq!(there.receiver.try_recv().unwrap().unwrap().len(), 4088);
}

#[test]
fn a_loop_of_ones_own_is_told_by_the_managers_file() {
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
fn who_does_not_sleep_is_not_rung() {
    let Pair { fake, ends: [mut here, mut there], .. } = express(4096);
    let before = fake.rings();
    for _ in 0..1000 {
        here.sender.try_send(&[1; 64]).unwrap();
        assert_eq!(there.receiver.try_recv().unwrap().unwrap().len(), 64);
    }
    assert_eq!(fake.rings(), before);
}

#[test]
fn a_peer_that_says_something_again_and_again_keeps_nobody_from_his_time_out() {
    // The place of the ring's first record.
    const FIRST: usize = 4096 / 8;
    let Pair { fake, ends: [mut here, there], .. } = express(4096);
    let ring = fake.area();
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        here.receiver.set_polling(Polling { spins: u32::MAX });
        let outcome = here.receiver.recv_block(Some(Duration::from_secs(1)));
        let error = outcome.map(|message| message.map(|message| message.len())).unwrap_err();
        tell.send(error).unwrap();
    });
    let words = ring.long_words(0, ring.length() / 8);
    let (begun, mut written) = (Instant::now(), 0);
    let error = loop {
        // A skip of the whole ring, and another once that has been passed.
        if words[RELEASED].load(Ordering::Acquire) == written {
            words[FIRST].store(2 << 32 | (4096 - 8), Ordering::Relaxed);
            written += 4096;
            words[WRITTEN].store(written, Ordering::Release);
        }
        if let Ok(error) = told.try_recv() {
            break error;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "it waits on, though its time is over");
    };
    assert!(error.is_timed_out() && written > 4096, "{error} after {written} bytes");
    drop(there);
}

/// Fills a manager's work queue, of which the card takes nothing: with so many.
fn fill(fake: &Fake, manager: &Manager) -> usize {
    let place = DatagramReceiver::create(manager, 8).unwrap();
    let (sender, ticket) = (DatagramSender::new(manager), place.ticket().unwrap());
    fake.hold(true);
    (0..).take_while(|_| sender.try_send(&ticket, b"y", 0, None).is_ok()).count()
}

#[test]
fn a_bell_that_finds_no_room_is_rung_once_there_is_some() {
    // By a message, and by an end.
    for end in [false, true] {
        let Pair { fake, managers: [manager, there_manager], ends: [here, mut there] } = express(4096);
        assert!(!there.receiver.arm().unwrap());
        let _ = there_manager.ready();
        while there_manager.arm().unwrap() {}
        fill(&fake, &manager);
        let Channel { mut sender, receiver: _receiver } = here;
        if end {
            sender.try_close().unwrap();
            // There is no second end, and nothing goes behind one.
            sender.try_close().unwrap();
            assert!(matches!(sender.try_send(b"late"), Err(Error::Closed(_))));
            assert!(matches!(sender.arm(4), Err(Error::Closed(_))));
            drop(sender);
        } else {
            // Who waits does so for the bell, too, but the message has been sent.
            sender.send(b"news", Some(Duration::from_millis(1))).unwrap();
            assert!(sender.flush(Some(Duration::from_millis(1))).unwrap_err().is_timed_out());
            let before = fake.rings();
            let _ = manager.ready();
            while manager.arm().unwrap() {}
            assert_eq!(fake.rings(), before);
        }
        assert!(!there_manager.arm().unwrap(), "nobody has rung");
        fake.hold(false);
        // A loop that has nothing to do with this channel, and a thread that sleeps, see to it.
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
fn a_bell_that_is_owed_wakes_who_sleeps_for_anything() {
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
    // As many as there is room for: nobody waits for more yet.
    (0..room).for_each(|_| drop(datagrams.try_send(&ticket, b"y", 0, None).unwrap()));
    // It sleeps by the manager's file, most likely by the time that the bell is owed.
    let (waker, sleeper) = (manager.waker(), manager.clone());
    let _ = manager.ready();
    let sleeping = thread::spawn(move || sleeper.wait(None).unwrap());
    thread::sleep(Duration::from_millis(50));
    let Channel { mut sender, receiver: _receiver } = here;
    sender.try_send(b"news").unwrap();
    fake.hold(false);
    let begun = Instant::now();
    while !there_manager.arm().unwrap() {
        assert!(begun.elapsed() < Duration::from_secs(20), "nobody rings");
        thread::yield_now();
    }
    assert_eq!(there.receiver.try_recv().unwrap().unwrap().to_vec().unwrap(), b"news");
    waker.wake();
    sleeping.join().unwrap();
}

#[test]
fn a_stream_of_empty_messages_keeps_nobody() {
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
    // Who waits is told that his time is over, however many there are.
    for _ in 0..10 {
        here.sender.try_send(b"").unwrap();
    }
    let error = there.receiver.read_block(&mut bytes, Some(Duration::ZERO)).unwrap_err();
    assert!(error.is_timed_out(), "{error}");
    assert!(there.receiver.arm().unwrap(), "the others are still there");
}

#[test]
fn memory_that_is_shown_in_the_stead_of_the_peers_area_is_no_word_of_the_peer() {
    // One's own area goes behind the connection: as long as that is there, what makes no sense is the peer's.
    for (made, own) in [(true, true), (false, true), (true, false), (false, false)] {
        let Pair { fake, ends: [mut here, mut there], .. } = express(4096);
        let ring = fake.area();
        let words = ring.long_words(0, ring.length() / 8);
        there.sender.try_send(b"one").unwrap();
        assert_eq!(here.receiver.try_recv().unwrap().unwrap().to_vec().unwrap(), b"one");
        if !made {
            fake.all_areas().iter().for_each(|area| area.long_words(0, 64)[MADE].store(0, Ordering::Relaxed));
        }
        let blamed = made || own;
        let error = if own {
            words[WRITTEN].store(0, Ordering::Release);
            here.receiver.try_recv().map(|message| message.map(|message| message.len())).unwrap_err()
        } else {
            words[RELEASED].store(1 << 40, Ordering::Release);
            send_on(&mut there.sender)
        };
        let expected = match error {
            Error::Nonsense(_) => blamed,
            Error::PeerLost(PeerLoss::Gone) => !blamed,
            _ => false,
        };
        assert!(expected, "made {made}, own {own}: {error}");
        let other = if own { &mut here } else { &mut there };
        assert_eq!(
            blamed,
            matches!(send_on(&mut other.sender), Error::Nonsense(_)),
            "made {made}, own {own}"
        );
    }
}

#[test]
fn a_message_that_goes_with_its_memory_is_not_taken_for_whole() {
    for as_stream in [false, true] {
        let Pair { fake, ends: [mut here, mut there], .. } = express(4096);
        let ring = fake.area();
        let words = ring.long_words(0, ring.length() / 8);
        for _ in 0..3 {
            there.sender.try_send(&[7; 100]).unwrap();
        }
        let lost = |error: Error| matches!(error, Error::PeerLost(_));
        let mut some = [0; 50];
        if as_stream {
            assert_eq!(here.receiver.try_read(&mut some).unwrap(), 50);
            reset(there, words);
            assert!(here.receiver.try_read(&mut some).is_err_and(lost));
        } else {
            let message = here.receiver.try_recv().unwrap().unwrap();
            message.read(0, &mut some).unwrap();
            // The peer may say that its reader's memory is gone: that is not so.
            words[MADE].store(0, Ordering::Relaxed);
            message.read(0, &mut some).unwrap();
            reset(there, words);
            assert!(message.read(0, &mut some).is_err_and(lost));
            assert!(message.to_vec().is_err_and(lost));
        }
        // Nor is what comes behind it, though it was known to be there.
        assert!(here.receiver.try_recv().is_err_and(lost));
        assert!(here.receiver.arm().unwrap(), "there is the end");
    }
}

/// What is seen of a reset of the card: the connection has ended, and then another page is shown in the stead of each of an area's.
fn reset(peer: Channel, words: &[AtomicU64]) {
    drop(peer);
    words[ENDED].store(0, Ordering::Relaxed);
    words[MADE].store(0, Ordering::Relaxed);
}

#[test]
fn who_was_told_of_a_loss_gets_nothing_behind_it() {
    let Pair { fake, ends: [mut here, there], .. } = express(4096);
    let ring = fake.area();
    let words = ring.long_words(0, ring.length() / 8);
    let lost = |error: Error| matches!(error, Error::PeerLost(PeerLoss::Process));
    drop(there);
    words[ENDED].store(0, Ordering::Relaxed);
    assert!(here.receiver.recv_block(PATIENCE).is_err_and(lost));
    // A peer that was taken for lost goes on.
    words[4096 / 8].store(1 << 32 | 8, Ordering::Relaxed);
    words[WRITTEN].store(16, Ordering::Release);
    assert!(here.receiver.arm().unwrap(), "there is the end");
    assert!(here.receiver.try_recv().is_err_and(lost));
    assert!(here.receiver.recv_block(PATIENCE).is_err_and(lost));
}

#[test]
fn a_sender_is_told_that_nobody_takes_what_it_sends() {
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
    // It need not sleep.
    let Pair { ends: [mut here, there], .. } = express(4096);
    let Channel { receiver, sender: _sender } = there;
    drop(receiver);
    let error = (0..100).find_map(|_| here.sender.try_send(&[1; 1000]).err()).unwrap();
    assert!(matches!(error, Error::PeerLost(PeerLoss::Abandoned)), "{error}");
    assert!(here.sender.arm(1000).unwrap(), "there is the end");
}

#[test]
fn a_peer_that_takes_nothing_more_cannot_take_that_back() {
    let Pair { fake, ends: [_here, mut there], .. } = express(4096);
    let ring = fake.area();
    let words = ring.long_words(0, ring.length() / 8);
    while there.sender.try_send(&[1; 1000]).is_ok() {}
    words[LEFT].store(1, Ordering::Release);
    assert!(there.sender.arm(1000).unwrap(), "there is the end");
    words[LEFT].store(0, Ordering::Release);
    let error = there.sender.try_send(&[1; 1000]).unwrap_err();
    assert!(matches!(error, Error::PeerLost(PeerLoss::Abandoned)), "{error}");
    assert!(there.sender.arm(1000).unwrap(), "there it is still");
}

#[test]
fn nothing_is_sent_behind_an_end_that_was_begun_before() {
    let Pair { ends: [mut here, mut there], .. } = express(4096);
    here.sender.begin(4, None).unwrap();
    here.sender.try_close().unwrap();
    assert!(matches!(here.sender.finish(), Err(Error::Invalid(_))));
    assert!(there.receiver.recv_block(PATIENCE).unwrap().is_none());
}

/// Words of the ring (docs/express.md).
const MADE: usize = 256 / 8;
const WRITTEN: usize = 0;
const ENDED: usize = 1;
const RELEASED: usize = 64 / 8;
const LEFT: usize = 72 / 8;
const READER_SLEEPS: usize = 128 / 8;
const WRITER_SLEEPS: usize = 192 / 8;

/// What comes of sending until it fails.
fn send_on(sender: &mut ChannelSender) -> Error {
    (0..100).find_map(|_| sender.send(&[1; 1000], Some(Duration::from_secs(5))).err()).expect("it goes on")
}

fn receive_on(receiver: &mut ChannelReceiver) -> Error {
    (0..100)
        .find_map(|_| {
            receiver.recv_block(Some(Duration::from_secs(5))).map(|message| message.map(drop)).err()
        })
        .expect("it goes on")
}

#[test]
fn nonsense_ends_both_halves_of_both_ends_and_each_is_told_why() {
    for word in [WRITTEN, RELEASED] {
        let Pair { fake, ends: [here, there], .. } = express(4096);
        // The ring that is received in here.
        fake.area().long_words(0, 16)[word].store(3, Ordering::Release);
        let (mut finds, mut stored) = if word == WRITTEN { (here, there) } else { (there, here) };
        let found = match word {
            WRITTEN => [receive_on(&mut finds.receiver), send_on(&mut finds.sender)],
            _ => [send_on(&mut finds.sender), receive_on(&mut finds.receiver)],
        };
        for error in found {
            let said = error.to_string();
            assert!(matches!(error, Error::Nonsense(_)) && said.contains("3 bytes of a ring"), "{said}");
        }
        // As most do who find it: nothing of that is quicker than the blame.
        drop(finds);
        for error in [receive_on(&mut stored.receiver), send_on(&mut stored.sender)] {
            assert!(matches!(error, Error::PeerLost(PeerLoss::Blamed)), "{error}");
        }
    }
}

#[test]
fn a_peer_that_has_ended_cannot_take_that_back() {
    const FIRST: usize = 4096 / 8;
    let Pair { fake, ends: [here, _there], .. } = express(4096);
    let Channel { mut receiver, sender: _sender } = here;
    let (ring, lost) = (fake.area(), |error| matches!(error, Error::PeerLost(PeerLoss::Abandoned)));
    let words = ring.long_words(0, ring.length() / 8);
    words[ENDED].store(2, Ordering::Release);
    assert!(receiver.try_recv().is_err_and(lost));
    words[ENDED].store(0, Ordering::Release);
    words[FIRST].store(1 << 32 | 8, Ordering::Relaxed);
    words[WRITTEN].store(16, Ordering::Release);
    assert!(receiver.arm().unwrap(), "there is the end");
    assert!(receiver.try_recv().is_err_and(lost));
}

/// Stores anything anywhere in a ring, at any moment, until it is told to stop. Much of it is what a peer might say.
fn scribble(ring: &Mapping, mut seed: u64, stop: &AtomicBool) {
    let words = ring.long_words(0, ring.length() / 8);
    let mut next = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    while !stop.load(Ordering::Relaxed) {
        let (value, place) = (next(), next() as usize);
        let length = next() % 5000;
        let word = match value % 8 {
            0 => [WRITTEN, ENDED, RELEASED, LEFT, READER_SLEEPS, WRITER_SLEEPS][place % 6],
            // Headers of the first records.
            1..4 => 4096 / 8 + place % 32,
            _ => place % words.len(),
        };
        let said = match next() % 4 {
            0 => length & !7,
            1 => 1 << 32 | length,
            2 => 2 << 32 | length,
            _ => value,
        };
        words[word].store(said, Ordering::Release);
        for _ in 0..next() % 200 {
            std::hint::spin_loop();
        }
    }
}

/// Sets it when it is dropped, whatever has come to pass.
struct AtLast<'a>(&'a AtomicBool);

impl Drop for AtLast<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// What a call found: it went well, there is nothing to do for now, or the end.
#[derive(Debug, PartialEq)]
enum Call {
    Done,
    Nothing,
    End,
}

impl Call {
    fn of<T>(outcome: hamlyn::Result<Option<T>>) -> Self {
        match outcome {
            Ok(Some(_)) => Self::Done,
            Ok(None) | Err(Error::Nonsense(_) | Error::PeerLost(_)) => Self::End,
            Err(error) if error.is_would_block() || error.is_timed_out() => Self::Nothing,
            Err(error) => panic!("{error}"),
        }
    }

    /// Who may not sleep tries again, and finds the end perhaps.
    fn of_arm(outcome: hamlyn::Result<bool>, so_far: Self) -> Self {
        match outcome {
            Ok(true) => so_far,
            other => Self::of(other.map(Some)),
        }
    }
}

/// Calls until the end is told, and then nothing else is told ever after, if it is for good: who sends may have room again for what
/// nobody takes, and who reads bytes may have some of a message yet.
fn call_on(ring: u64, for_good: bool, mut call: impl FnMut(u64, bool) -> Call) {
    let mut ends = 0;
    for round in 0.. {
        match call(round, ends > 0) {
            Call::End if ends == 100 => break,
            Call::End => ends += 1,
            other => assert!(!for_good || ends == 0, "ring {ring}: {other:?}"),
        }
    }
}

#[test]
fn whatever_is_scribbled_over_a_channel_each_call_comes_to_an_end() {
    let short = Some(Duration::from_micros(50));
    let longest = |length: usize| assert!(length <= 4088, "a message of {length} bytes");
    let so_far = |ended| if ended { Call::End } else { Call::Nothing };
    for number in 1..60 {
        let Pair { fake, ends: [here, there], .. } = express(4096);
        let (Channel { mut receiver, sender: _sender }, Channel { mut sender, receiver: _receiver }) =
            (here, there);
        let (ring, stop) = (fake.area(), AtomicBool::new(false));
        thread::scope(|threads| {
            threads.spawn(|| scribble(&ring, number << 32 | 0x9e37_79b9, &stop));
            let _stop = AtLast(&stop);
            // As messages, or as a stream.
            call_on(number, number % 2 == 0, |round, ended| match round % 3 {
                0 if number % 2 == 0 => {
                    let message = receiver.try_recv().and_then(|it| it.map(|it| it.to_vec()).transpose());
                    Call::of(message.map(|message| message.map(|it| longest(it.len()))))
                }
                1 if number % 2 == 0 => {
                    Call::of(receiver.recv_block(short).map(|message| message.map(|it| longest(it.len()))))
                }
                0 => Call::of(receiver.try_read(&mut [0; 500]).map(|length| (length > 0).then_some(()))),
                1 => Call::of(
                    receiver.read_block(&mut [0; 50], short).map(|length| (length > 0).then_some(())),
                ),
                _ => Call::of_arm(receiver.arm(), so_far(ended)),
            });
            call_on(number, false, |round, ended| match round % 4 {
                0 => Call::of(sender.try_send(&bytes(3, 200)).map(Some)),
                1 => {
                    Call::of(sender.reserve(700, short).and_then(hamlyn::express::Reserved::commit).map(Some))
                }
                2 => Call::of(sender.try_reserve(900).map(|room| longest(room.len())).map(Some)),
                _ => Call::of_arm(sender.arm(4000), so_far(ended)),
            });
        });
    }
}

#[test]
fn the_end_is_told_behind_what_was_sent() {
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
    // The area that it sent to shows zeros by now.
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
fn as_a_stream_messages_have_no_bounds() {
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
fn a_channel_to_ones_own_host_goes_by_messages() {
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
fn an_asker_that_is_none_of_channels_is_told_so() {
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
