//! Channels over express memory, with a card in memory that wakes sleepers alone.

use std::io::{Read, Write};
use std::thread;
use std::time::Duration;

use crate::channel::{PATIENCE, bytes, open};
use crate::fake::express::OTHER;
use crate::fake::{Fake, HOST};
use hamlyn::channel::{Card, Channel, Listener, Options, Sender};
use hamlyn::{Error, PeerLoss, Polling};

fn with_ring(capacity: u64) -> Options {
    let mut options = Options::default();
    options.capacity = capacity;
    options
}

/// Opens a channel over express memory, with a ring of a page.
pub(crate) fn express() -> (Fake, [Channel; 2]) {
    let fake = Fake::default();
    fake.give_express(false);
    let ends = open(&fake, with_ring(4096));
    assert!(ends.iter().all(Channel::is_express));
    (fake, ends)
}

/// Opens a channel of each kind, with a ring of a page.
fn both_kinds() -> [(Fake, [Channel; 2]); 2] {
    let fake = Fake::default();
    let ends = open(&fake, with_ring(4096));
    assert!(!ends.iter().any(Channel::is_express));
    [express(), (fake, ends)]
}

/// Opens a channel with options of each end.
fn open_with(fake: &Fake, [asking, asked]: [Options; 2]) -> [Channel; 2] {
    let [here, there] = [fake.share(), fake.other()].map(|seat| Card::from(hamlyn::Card::attached(seat)));
    let listener = Listener::bind(&there, "name", asked).unwrap();
    thread::scope(|scope| {
        let accepting = scope.spawn(|| listener.accept_timeout(PATIENCE).unwrap());
        let channel = Channel::connect_timeout(&here, OTHER, "name", asking, PATIENCE).unwrap();
        [channel, accepting.join().unwrap()]
    })
}

/// Sends a message in each direction.
fn exchange(ends: &mut [Channel; 2]) {
    for (from, to) in [(0, 1), (1, 0)] {
        ends[from].sender.send_timeout(&bytes(from, 1000), PATIENCE).unwrap();
        let message = ends[to].receiver.recv_timeout(PATIENCE).unwrap().unwrap();
        assert_eq!(message.to_vec().unwrap(), bytes(from, 1000));
    }
}

#[test]
fn channel_uses_card_without_common_memory() {
    let fake = Fake::default();
    fake.give_express(true);
    let mut ends = open(&fake, Options::default());
    assert!(!ends[0].is_express(), "each host has another switch's memory");
    assert_eq!(fake.areas(), 0);
    exchange(&mut ends);
    // Either end may want the card.
    let fake = Fake::default();
    fake.give_express(false);
    let mut by_card = Options::default();
    by_card.by_card = true;
    for options in [[by_card, Options::default()], [Options::default(), by_card]] {
        let mut ends = open_with(&fake, options);
        assert!(!ends.iter().any(Channel::is_express));
        assert_eq!(fake.areas(), 0);
        exchange(&mut ends);
    }
}

#[test]
fn channel_to_own_host_uses_card() {
    let fake = Fake::default();
    fake.give_express(false);
    let card = Card::from(hamlyn::Card::attached(fake.share()));
    let listener = Listener::bind(&card, "own", Options::default()).unwrap();
    thread::scope(|scope| {
        let asked = scope.spawn(|| listener.accept_timeout(PATIENCE).unwrap());
        let asking = Channel::connect_timeout(&card, HOST, "own", Options::default(), PATIENCE).unwrap();
        let mut ends = [asking, asked.join().unwrap()];
        assert!(!ends.iter().any(Channel::is_express));
        exchange(&mut ends);
    });
}

#[test]
fn both_directions_take_smaller_rings_messages() {
    let fake = Fake::default();
    fake.give_express(false);
    for rings in [[4096, 65536], [65536, 4096]] {
        let mut ends = open_with(&fake, rings.map(with_ring));
        assert!(ends.iter().all(|end| end.is_express() && end.sender.longest() == 2040));
        exchange(&mut ends);
    }
}

#[test]
fn message_is_built_and_read_in_place() {
    for (_fake, [mut here, mut there]) in both_kinds() {
        _ = here.sender.try_reserve(100).unwrap();
        let mut room = here.sender.try_reserve(10).unwrap();
        room.write(0, b"0123456789").unwrap();
        room.write(4, b"x").unwrap();
        assert!(room.write(10, b"y").is_err());
        room.commit().unwrap();
        let message = there.receiver.recv_timeout(PATIENCE).unwrap().unwrap();
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
fn sender_waits_while_ring_is_full() {
    let (_fake, [mut here, mut there]) = express();
    let mut sent = 0;
    while here.sender.try_send(&[7; 100]).is_ok() {
        sent += 1;
    }
    assert_eq!(sent, 4096 / 112);
    assert!(here.sender.try_send(&[7; 100]).unwrap_err().is_would_block());
    let whole = Duration::from_millis(1);
    let late = here.sender.send_timeout(&[7; 100], whole).unwrap_err();
    assert!(matches!(late, Error::TimedOut { after, .. } if after == whole), "{late}");
    assert!(!here.sender.arm(100).unwrap());
    for _ in 0..sent {
        assert_eq!(there.receiver.try_recv().unwrap().unwrap().to_vec().unwrap(), [7; 100]);
    }
    assert!(there.receiver.try_recv().unwrap_err().is_would_block());
    here.sender.try_send(&[8; 2040]).unwrap();
    here.sender.try_send(&[9; 2040]).unwrap();
    assert!(here.sender.try_send(b"").unwrap_err().is_would_block());
    assert_eq!(there.receiver.try_recv().unwrap().unwrap().len(), 2040);
}

#[test]
fn woken_half_can_sleep_again() {
    let (_fake, [mut here, mut there]) = express();
    for _ in 0..3 {
        assert!(!there.receiver.arm().unwrap());
        here.sender.try_send(b"news").unwrap();
        assert!(there.receiver.try_recv().unwrap().is_some());
    }
    assert!(there.receiver.try_recv().unwrap_err().is_would_block());
    assert!(!there.receiver.arm().unwrap(), "the wake-ups are taken");
    for _ in 0..3 {
        while here.sender.try_send(&[1; 1000]).is_ok() {}
        assert!(!here.sender.arm(1000).unwrap());
        while there.receiver.try_recv().is_ok() {}
    }
    while here.sender.try_send(&[1; 1000]).is_ok() {}
    assert!(!here.sender.arm(1000).unwrap(), "the wake-ups are taken");
}

#[test]
fn awake_peer_costs_no_message_of_the_card() {
    let (fake, [mut here, mut there]) = express();
    let before = fake.rings();
    for _ in 0..1000 {
        here.sender.try_send(&[1; 64]).unwrap();
        assert_eq!(there.receiver.try_recv().unwrap().unwrap().len(), 64);
    }
    assert_eq!(fake.rings(), before);
}

#[test]
fn blocked_wake_up_is_sent_once_possible() {
    for closes in [false, true] {
        let fake = Fake::default();
        fake.give_express(false);
        let [here, there] = [fake.share(), fake.other()].map(|seat| Card::from(hamlyn::Card::attached(seat)));
        let listener = Listener::bind(&there, "name", Options::default()).unwrap();
        let connect = |by_card: bool| {
            let mut options = Options::default();
            options.by_card = by_card;
            thread::scope(|scope| {
                let asked = scope.spawn(|| listener.accept_timeout(PATIENCE).unwrap());
                let asking = Channel::connect_timeout(&here, OTHER, "name", options, PATIENCE).unwrap();
                (asking, asked.join().unwrap())
            })
        };
        let [(mut first, mut firsts_peer), (asking, mut asked)] = [connect(false), connect(false)];
        let Channel { mut sender, receiver: _receiver } = asking;
        for receiver in [&mut firsts_peer.receiver, &mut asked.receiver] {
            receiver.set_polling(Polling::NEVER);
            assert!(!receiver.arm().unwrap());
        }
        // The channels to a host share a work queue. A message by card leaves one place of it.
        let (mut filling, _filled) = connect(true);
        fake.hold(true);
        while filling.sender.try_send(b"y").is_ok() {}
        first.sender.try_send(b"takes the last place").unwrap();
        let before = fake.rings();
        sender.try_send(b"news").unwrap();
        assert_eq!(fake.rings(), before, "the work queue has room");
        fake.hold(false);
        if closes {
            sender.close_timeout(PATIENCE).unwrap();
        } else {
            assert!(sender.arm(1).unwrap(), "there is room");
        }
        assert!(fake.rings() > before, "the wake-up was never sent");
        assert_eq!(asked.receiver.try_recv().unwrap().unwrap().to_vec().unwrap(), b"news");
    }
}

/// Sends until it fails. Returns the error.
pub(crate) fn send_on(sender: &mut Sender) -> Error {
    let limit = Duration::from_secs(5);
    (0..100).find_map(|_| sender.send_timeout(&[1; 1000], limit).err()).expect("it goes on")
}

#[test]
fn send_fails_when_receiver_is_gone() {
    for (_fake, [here, there]) in both_kinds() {
        let Channel { mut sender, receiver: _receiver } = here;
        let Channel { mut receiver, sender: _sender } = there;
        sender.set_polling(Polling::NEVER);
        sender.try_send(b"first").unwrap();
        assert!(receiver.recv_timeout(PATIENCE).unwrap().is_some());
        while sender.try_send(&[1; 1000]).is_ok() {}
        let sending = thread::spawn(move || send_on(&mut sender));
        drop(receiver);
        let error = sending.join().unwrap();
        assert!(matches!(error, Error::PeerLost(PeerLoss::Abandoned)), "{error}");
    }
    // The sender must not sleep.
    let (_fake, [mut here, there]) = express();
    let Channel { receiver, sender: _sender } = there;
    drop(receiver);
    let error = (0..100).find_map(|_| here.sender.try_send(&[1; 1000]).err()).unwrap();
    assert!(matches!(error, Error::PeerLost(PeerLoss::Abandoned)), "{error}");
    assert!(here.sender.arm(1000).unwrap(), "there is the end");
}

#[test]
fn nothing_remains_of_an_abandoned_channel() {
    for (_fake, [mut here, mut there]) in both_kinds() {
        here.sender.send(b"last words").unwrap();
        drop(here);
        let last = there.receiver.recv_timeout(PATIENCE).unwrap().unwrap();
        assert_eq!(last.to_vec().unwrap(), b"last words");
        drop(last);
        let lost = there.receiver.recv_timeout(PATIENCE).unwrap_err();
        assert!(matches!(lost, Error::PeerLost(PeerLoss::Abandoned)), "{lost}");
    }
    let (fake, [here, mut there]) = express();
    drop(here);
    // The area that it sends to already reads as zeros.
    let lost = send_on(&mut there.sender);
    assert!(matches!(lost, Error::PeerLost(PeerLoss::Abandoned)), "{lost}");
    drop(there);
    assert_eq!(fake.areas(), 0);
}

#[test]
fn byte_stream_ignores_message_boundaries() {
    for (_fake, [mut here, mut there]) in both_kinds() {
        let all = bytes(3, 100_000);
        thread::scope(|scope| {
            scope.spawn(|| {
                here.sender.write_all(&all).unwrap();
                here.sender.flush().unwrap();
                here.sender.close_timeout(PATIENCE).unwrap();
            });
            let mut came = Vec::new();
            there.receiver.read_to_end(&mut came).unwrap();
            assert!(came == all, "{} bytes", came.len());
        });
    }
}

/// A task that reads bytes yields to others, however many messages without bytes there are.
#[cfg(feature = "tokio")]
#[test]
fn empty_messages_do_not_hold_up_tasks() {
    use std::pin::Pin;
    use tokio::io::{AsyncRead, ReadBuf};

    let fake = Fake::default();
    fake.give_express(false);
    let [mut here, there] = open(&fake, with_ring(65536));
    for _ in 0..4000 {
        here.sender.try_send(b"").unwrap();
    }
    here.sender.try_send(b"last").unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (_sender, mut receiver) = there.into_async().unwrap();
        let (mut polls, mut bytes) = (0, [0; 4]);
        std::future::poll_fn(|context| {
            polls += 1;
            Pin::new(&mut receiver).poll_read(context, &mut ReadBuf::new(&mut bytes))
        })
        .await
        .unwrap();
        assert!(bytes == *b"last" && polls > 4000 / 64 / 8, "{polls} polls");
    });
}
