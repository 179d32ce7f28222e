//! Peers that store nonsense or contradictions in a channel's memory; and memory that is gone.

use std::io::Read;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::channel::{PATIENCE, bytes};
use crate::channel_express::{express, send_on};
use hamlyn::channel::{Channel, Receiver, Room};
use hamlyn::{Error, PeerLoss, Polling};
use hamlyn_sys::Mapping;

/// Words of the ring (docs/express.md).
const MADE: usize = 256 / 8;
const WRITTEN: usize = 0;
const ENDED: usize = 1;
const RELEASED: usize = 64 / 8;
const LEFT: usize = 72 / 8;
const READER_SLEEPS: usize = 128 / 8;
const WRITER_SLEEPS: usize = 192 / 8;

#[test]
fn endless_skips_do_not_prevent_a_timeout() {
    // The place of the ring's first record.
    const FIRST: usize = 4096 / 8;
    let (fake, [mut here, there]) = express();
    let ring = fake.area();
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        // Polling alone would last longer than this test waits.
        here.receiver.set_polling(Polling::up_to(2 * PATIENCE));
        let outcome = here.receiver.recv_timeout(Duration::from_secs(1));
        let error = outcome.map(|message| message.map(|message| message.len())).unwrap_err();
        tell.send(error).unwrap();
    });
    let words = ring.long_words(0, ring.length() / 8);
    let ended = AtomicBool::new(false);
    let (error, written) = thread::scope(|scope| {
        let writing = scope.spawn(|| {
            let mut written = 0;
            while !ended.load(Ordering::Relaxed) {
                // A skip of the whole ring, and another once that has been passed.
                if words[RELEASED].load(Ordering::Acquire) == written {
                    words[FIRST].store(2 << 32 | (4096 - 8), Ordering::Relaxed);
                    written += 4096;
                    words[WRITTEN].store(written, Ordering::Release);
                }
            }
            written
        });
        let error = told.recv_timeout(PATIENCE);
        ended.store(true, Ordering::Relaxed);
        (error.expect("the receiver waits on after its time-out"), writing.join().unwrap())
    });
    assert!(error.is_timed_out() && written > 4096, "{error} after {written} bytes");
    drop(there);
}

#[test]
fn replaced_memory_is_not_taken_as_peer_data() {
    // An end's own area is removed after the connection. While it is still there, nonsense comes
    // from the peer.
    for (made, own) in [(true, true), (false, true), (true, false), (false, false)] {
        let (fake, [mut here, mut there]) = express();
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
fn message_in_lost_memory_is_not_accepted() {
    for as_stream in [false, true] {
        let (fake, [mut here, mut there]) = express();
        let ring = fake.area();
        let words = ring.long_words(0, ring.length() / 8);
        for _ in 0..3 {
            there.sender.try_send(&[7; 100]).unwrap();
        }
        let lost = |error: Error| matches!(error, Error::PeerLost(_));
        let mut some = [0; 50];
        if as_stream {
            here.receiver.read_exact(&mut some).unwrap();
            reset(there, words);
            // The rest of the message was copied along with them.
            here.receiver.read_exact(&mut some).unwrap();
            assert!(some == [7; 50] && here.receiver.read(&mut some).is_err());
        } else {
            let message = here.receiver.try_recv().unwrap().unwrap();
            message.read(0, &mut some).unwrap();
            // The peer may claim that its reader's memory is gone, which is not the case.
            words[MADE].store(0, Ordering::Relaxed);
            message.read(0, &mut some).unwrap();
            reset(there, words);
            assert!(message.read(0, &mut some).is_err_and(lost));
            assert!(message.to_vec().is_err_and(lost));
        }
        // Messages after it are not received either, though they were known to be there.
        assert!(here.receiver.try_recv().is_err_and(lost));
        assert!(here.receiver.arm().unwrap(), "there is the end");
    }
}

/// Simulates a reset of the card: the connection has ended, and then each page of an area is
/// replaced by another.
fn reset(peer: Channel, words: &[AtomicU64]) {
    drop(peer);
    words[ENDED].store(0, Ordering::Relaxed);
    words[MADE].store(0, Ordering::Relaxed);
}

#[test]
fn nothing_is_received_after_a_reported_loss() {
    let (fake, [mut here, there]) = express();
    let ring = fake.area();
    let words = ring.long_words(0, ring.length() / 8);
    let lost = |error: Error| matches!(error, Error::PeerLost(PeerLoss::Abandoned));
    drop(there);
    words[ENDED].store(0, Ordering::Relaxed);
    assert!(here.receiver.recv_timeout(PATIENCE).is_err_and(lost));
    // A peer that was reported lost continues.
    words[4096 / 8].store(1 << 32 | 8, Ordering::Relaxed);
    words[WRITTEN].store(16, Ordering::Release);
    assert!(here.receiver.arm().unwrap(), "there is the end");
    assert!(here.receiver.try_recv().is_err_and(lost));
    assert!(here.receiver.recv_timeout(PATIENCE).is_err_and(lost));
}

#[test]
fn peer_that_left_cannot_resume_receiving() {
    let (fake, [_here, mut there]) = express();
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

fn receive_on(receiver: &mut Receiver) -> Error {
    (0..100)
        .find_map(|_| receiver.recv_timeout(Duration::from_secs(5)).map(|message| message.map(drop)).err())
        .expect("it goes on")
}

#[test]
fn nonsense_ends_both_directions_with_a_reason() {
    for word in [WRITTEN, RELEASED] {
        let (fake, [here, there]) = express();
        // The ring that this side receives from.
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
        // As most callers do after this error. The blame reaches the peer first.
        drop(finds);
        for error in [receive_on(&mut stored.receiver), send_on(&mut stored.sender)] {
            assert!(matches!(error, Error::PeerLost(PeerLoss::Blamed)), "{error}");
        }
    }
}

#[test]
fn peer_cannot_revoke_its_end() {
    const FIRST: usize = 4096 / 8;
    let (fake, [here, _there]) = express();
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

/// Stores random values at random places of a ring until `stop` is set. Many of them are values
/// that a peer might store.
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

/// Sets the flag when it is dropped, even after a panic.
struct AtLast<'a>(&'a AtomicBool);

impl Drop for AtLast<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The outcome of a call: success, nothing to do for now, or the end.
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

    /// A caller that may not sleep tries again, and may find the end.
    fn of_arm(outcome: hamlyn::Result<bool>, so_far: Self) -> Self {
        match outcome {
            Ok(true) => so_far,
            other => Self::of(other.map(Some)),
        }
    }
}

/// Calls until the end is reported 100 times. If `for_good` is true, nothing but the end may
/// follow. Otherwise, a sender may have room again for data that is never read.
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
fn calls_terminate_on_a_scribbled_channel() {
    let short = Duration::from_micros(50);
    let longest = |length: usize| assert!(length <= 4088, "a message of {length} bytes");
    let so_far = |ended| if ended { Call::End } else { Call::Nothing };
    for number in 1..60 {
        let (fake, [here, there]) = express();
        let (Channel { mut receiver, sender: _sender }, Channel { mut sender, receiver: _receiver }) =
            (here, there);
        let (ring, stop) = (fake.area(), AtomicBool::new(false));
        thread::scope(|threads| {
            threads.spawn(|| scribble(&ring, number << 32 | 0x9e37_79b9, &stop));
            let _stop = AtLast(&stop);
            call_on(number, true, |round, ended| match round % 3 {
                0 => {
                    let message = receiver.try_recv().and_then(|it| it.map(|it| it.to_vec()).transpose());
                    Call::of(message.map(|message| message.map(|it| longest(it.len()))))
                }
                1 => {
                    Call::of(receiver.recv_timeout(short).map(|message| message.map(|it| longest(it.len()))))
                }
                _ => Call::of_arm(receiver.arm(), so_far(ended)),
            });
            call_on(number, false, |round, ended| match round % 4 {
                0 => Call::of(sender.try_send(&bytes(3, 200)).map(Some)),
                1 => Call::of(sender.reserve_timeout(700, short).and_then(Room::commit).map(Some)),
                2 => Call::of(sender.try_reserve(900).map(|room| longest(room.len())).map(Some)),
                _ => Call::of_arm(sender.arm(2000), so_far(ended)),
            });
        });
    }
}
