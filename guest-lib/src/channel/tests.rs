//! Halves of a channel whose "card" copies from memory to memory.

use std::collections::VecDeque;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use hamlyn_abi::uapi::{ULN_CONNECTION_ENDED, ULN_CONNECTION_ESTABLISHED, ULN_END_DIED, UlnConnectionState};
use hamlyn_sys::Mapping;
use proptest::prelude::*;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::{read, write};
use zerocopy::FromZeros;

use super::ground::Common;
use super::receiving::Receiving;
use super::remote::Reached;
use super::sending::Sending;
use crate::core::attach::ConnectionParts;
use crate::core::connection::Connection;
use crate::core::express::memory::RingMemory;
use crate::core::express::ring::{Nonsense, Shared, Word, half_of};
use crate::core::loss::PeerLoss;
use crate::core::polling::Polling;
use crate::core::remote::Remote;
use crate::core::watch::{GRACE, Watch};
use crate::error::{Error, Result};

const CAPACITY: u64 = 4096;
const SOON: Option<Duration> = Some(Duration::from_millis(20));

/// A connection that the test ends.
#[derive(Debug)]
struct FakeConnection {
    reason: AtomicU32,
    closed_with: Mutex<Option<Vec<u8>>>,
    file: OwnedFd,
}

impl FakeConnection {
    fn new() -> Arc<Self> {
        Arc::new(Self { reason: AtomicU32::new(0), closed_with: Mutex::default(), file: event() })
    }

    fn end(&self) {
        self.reason.store(ULN_END_DIED, Ordering::Relaxed);
        write(&self.file, &1_u64.to_ne_bytes()).unwrap();
    }
}

fn event() -> OwnedFd {
    eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap()
}

#[derive(Debug)]
struct Parts(Arc<FakeConnection>);

impl ConnectionParts for Parts {
    fn state(&self) -> Result<UlnConnectionState> {
        let mut state = UlnConnectionState::new_zeroed();
        state.reason = self.0.reason.load(Ordering::Relaxed);
        state.state = if state.reason == 0 { ULN_CONNECTION_ESTABLISHED } else { ULN_CONNECTION_ENDED };
        Ok(state)
    }

    fn accept(&self, _private: &[u8]) -> Result<()> {
        Ok(())
    }

    fn reject(&self, _private: &[u8]) -> Result<()> {
        Ok(())
    }

    fn close(&self, private: &[u8]) -> Result<()> {
        *self.0.closed_with.lock().unwrap() = Some(private.to_vec());
        Ok(())
    }

    fn file(&self) -> BorrowedFd<'_> {
        self.0.file.as_fd()
    }
}

/// One half's memory, and the peer's.
#[derive(Debug)]
struct Copies {
    area: RingMemory,
    mirror: RingMemory,
    peer: RingMemory,
    own_arrivals: Arc<OwnedFd>,
    peer_arrivals: Arc<OwnedFd>,
    /// For this number of looks, the card has no room.
    full: Arc<AtomicU32>,
    is_cut: Arc<AtomicBool>,
    /// The card does not finish what was posted.
    is_slow: Arc<AtomicBool>,
}

impl Remote for Copies {
    fn area(&self) -> &RingMemory {
        &self.area
    }

    fn mirror(&self) -> &RingMemory {
        &self.mirror
    }

    fn post(&self, pieces: &[Range<u64>; 2], word: Word, value: u64) -> Result<()> {
        if self.is_cut.load(Ordering::Relaxed) {
            return Err(Error::PeerLost(PeerLoss::Gone));
        }
        for piece in pieces.iter().filter(|piece| !piece.is_empty()) {
            assert!(piece.end <= CAPACITY);
            let (at, length) = (4096 + piece.start as usize, (piece.end - piece.start) as usize);
            let mut bytes = vec![0; length];
            self.mirror.mapping().read(at, &mut bytes);
            self.peer.mapping().write(at, &bytes);
        }
        self.peer.store(word, value);
        write(&self.peer_arrivals, &1_u64.to_ne_bytes()).unwrap();
        Ok(())
    }

    fn wait_for_room(&self, _limit: Option<Duration>) -> Result<bool> {
        let (set, get) = (Ordering::Relaxed, Ordering::Relaxed);
        let has_room = self.full.fetch_update(set, get, |looks| looks.checked_sub(1)).is_err();
        let is_cut = self.is_cut.load(Ordering::Relaxed);
        if is_cut && !has_room { Err(Error::Closed("the card's connection")) } else { Ok(has_room) }
    }

    fn arm(&self) -> Result<()> {
        // Nothing to read is nothing to clear.
        let _ = read(&self.own_arrivals, &mut [0_u8; 8]);
        Ok(())
    }

    fn arm_file(&self) -> Result<bool> {
        Ok(false)
    }

    fn file(&self) -> Result<OwnedFd> {
        Ok(self.own_arrivals.try_clone().unwrap())
    }

    fn check(&self) -> Result<()> {
        Ok(())
    }

    fn finish(&self, limit: Option<Duration>) -> Result<()> {
        let failed = || Err(Error::TimedOut { what: "slow card", after: limit.unwrap_or_default() });
        if self.is_slow.load(Ordering::Relaxed) { failed() } else { Ok(()) }
    }
}

/// One direction of a channel, and the controls of a test.
struct Pair {
    sender: Sending<Reached>,
    receiver: Receiving<Reached>,
    senders: Arc<FakeConnection>,
    receivers: Arc<FakeConnection>,
    senders_area: RingMemory,
    receivers_area: RingMemory,
    is_cut: Arc<AtomicBool>,
    is_slow: Arc<AtomicBool>,
    full: Arc<AtomicU32>,
}

fn memory() -> RingMemory {
    RingMemory::over(Arc::new(Mapping::anonymous(4096 + CAPACITY as usize).unwrap())).unwrap()
}

fn common() -> (Arc<Common>, Arc<FakeConnection>) {
    let fake = FakeConnection::new();
    let parts = Box::new(Parts(fake.clone()));
    let connection = Connection::new(parts, &UlnConnectionState::new_zeroed());
    (Common::new(Watch::over(connection), Vec::new()), fake)
}

fn pair() -> Pair {
    let [at_sender, at_receiver] = [memory(), memory()];
    let arrivals = [event(), event()].map(Arc::new);
    let [is_cut, is_slow] = [(); 2].map(|()| Arc::<AtomicBool>::default());
    let full = Arc::<AtomicU32>::default();
    let half = |area: &RingMemory, peer: &RingMemory, own: usize| Copies {
        area: area.clone(),
        mirror: memory(),
        peer: peer.clone(),
        own_arrivals: arrivals[own].clone(),
        peer_arrivals: arrivals[1 - own].clone(),
        is_cut: is_cut.clone(),
        is_slow: is_slow.clone(),
        full: full.clone(),
    };
    let ((to, senders), (from, receivers)) = (common(), common());
    let ground = Reached::to(Box::new(half(&at_sender, &at_receiver, 0)), CAPACITY);
    let sender = Sending::new(&to, ground, CAPACITY);
    let ground = Reached::from(Box::new(half(&at_receiver, &at_sender, 1)), CAPACITY);
    let receiver = Receiving::new(&from, ground, CAPACITY);
    Pair {
        sender,
        receiver,
        senders,
        receivers,
        senders_area: at_sender,
        receivers_area: at_receiver,
        is_cut,
        is_slow,
        full,
    }
}

impl Pair {
    fn put(&mut self, message: &[u8]) -> Result<bool> {
        let Some(span) = self.sender.reserve(message.len() as u64)? else { return Ok(false) };
        self.sender
            .data(span)
            .iter()
            .zip(message)
            .for_each(|(cell, byte)| cell.store(*byte, Ordering::Relaxed));
        self.sender.put(span);
        Ok(true)
    }

    fn send(&mut self, message: &[u8]) -> Result<bool> {
        let sent = self.put(message)?;
        self.sender.flush(None)?;
        Ok(sent)
    }

    /// Returns the next message; `None` if there is none, the inner `None` if the peer has closed.
    fn next(&mut self) -> Result<Option<Option<Vec<u8>>>> {
        let Some(next) = self.receiver.next()? else { return Ok(None) };
        Ok(Some(next.map(|span| {
            let bytes = self.receiver.data(span).iter().map(|cell| cell.load(Ordering::Relaxed)).collect();
            self.receiver.release(span);
            bytes
        })))
    }
}

proptest! {
    /// Compares the channel with a queue: messages are received in order, and refused only without
    /// credit.
    #[test]
    fn messages_arrive_in_order(steps in prop::collection::vec((0..4_u8, 0..=half_of(CAPACITY) as usize), 0..300)) {
        let (mut pair, mut sent, mut posted) = (pair(), VecDeque::new(), VecDeque::new());
        for (number, (step, length)) in steps.into_iter().enumerate() {
            let length = if step == 0 { length } else { length % 100 };
            let message = vec![number as u8; length];
            match step {
                0 | 1 if pair.send(&message).unwrap() => {
                    sent.append(&mut posted);
                    sent.push_back(message);
                }
                2 if pair.put(&message).unwrap() => posted.push_back(message),
                3 => match pair.next().unwrap() {
                    Some(next) => {
                        // A full ring also sends the queued messages.
                        prop_assert_eq!(next, sent.pop_front().or_else(|| posted.pop_front()));
                    }
                    None => prop_assert!(sent.is_empty()),
                },
                _ => {}
            }
        }
        pair.sender.close(None).unwrap();
        sent.append(&mut posted);
        while let Some(Some(next)) = pair.next().unwrap() {
            prop_assert_eq!(Some(next), sent.pop_front());
        }
        prop_assert!(sent.is_empty());
    }

    /// Once everything was received, any message fits, whatever was sent before.
    #[test]
    fn empty_channel_takes_longest_message(lengths in prop::collection::vec(0..=half_of(CAPACITY) as usize, 0..50)) {
        let mut pair = pair();
        for length in lengths {
            let message = vec![7; length];
            // The end of the ring may have to be passed first.
            let mut tries = 0;
            while !pair.send(&message).unwrap() {
                prop_assert!(pair.next().unwrap().is_none());
                tries += 1;
                prop_assert!(tries < 3, "no room for {length} bytes");
            }
            prop_assert_eq!(pair.next().unwrap(), Some(Some(message)));
        }
    }
}

#[test]
fn closed_channel_is_not_a_loss() {
    let mut pair = pair();
    assert!(pair.send(b"last").unwrap());
    pair.sender.close(None).unwrap();
    assert_eq!(pair.next().unwrap(), Some(Some(b"last".to_vec())));
    assert_eq!(pair.next().unwrap(), Some(None));
    assert_eq!(pair.next().unwrap(), Some(None));
    assert!(matches!(pair.sender.reserve(1), Err(Error::Closed(_))));
}

#[test]
fn dropped_sender_is_reported_as_abandoned() {
    let mut pair = pair();
    assert!(pair.send(b"last").unwrap());
    let Pair { sender, receiver, .. } = &mut pair;
    drop(std::mem::replace(sender, self::pair().sender));
    assert!(receiver.wait(SOON).unwrap().is_some());
    assert!(matches!(receiver.wait(SOON), Err(Error::PeerLost(PeerLoss::Abandoned))));
}

#[test]
fn full_sender_fails_after_receiver_left() {
    let mut pair = pair();
    drop(std::mem::replace(&mut pair.receiver, self::pair().receiver));
    let lost = (0..100).find_map(|_| pair.send(&[1; 1000]).err()).unwrap();
    assert!(matches!(lost, Error::PeerLost(PeerLoss::Abandoned)));
}

#[test]
fn messages_are_received_before_peer_loss() {
    let mut pair = pair();
    assert!(pair.send(b"last").unwrap());
    pair.receivers.end();
    assert!(pair.receiver.wait(None).unwrap().is_some());
    assert!(matches!(pair.receiver.wait(None), Err(Error::PeerLost(PeerLoss::Process))));
    assert!(matches!(pair.receiver.wait(None), Err(Error::PeerLost(PeerLoss::Process))));
}

#[test]
fn sleeping_sender_fails_when_peer_dies() {
    let mut pair = pair();
    while pair.send(&[1; 1000]).unwrap() {}
    assert!(pair.sender.wait(1000, SOON).unwrap_err().is_timed_out());
    pair.senders.end();
    assert!(matches!(pair.sender.wait(1000, None), Err(Error::PeerLost(PeerLoss::Process))));
}

#[test]
fn failed_store_reports_how_connection_ended() {
    let mut pair = pair();
    pair.is_cut.store(true, Ordering::Relaxed);
    pair.senders.end();
    assert!(matches!(pair.send(b"lost"), Err(Error::PeerLost(PeerLoss::Process))));
}

#[test]
fn full_card_that_fails_reports_how_peer_ended() {
    let mut pair = pair();
    assert!(pair.put(b"not sent yet").unwrap());
    pair.full.store(u32::MAX, Ordering::Relaxed);
    pair.is_cut.store(true, Ordering::Relaxed);
    pair.senders.end();
    pair.receivers.end();
    let is_told = |outcome: Result<()>| matches!(outcome, Err(Error::PeerLost(PeerLoss::Process)));
    assert!(is_told(pair.sender.flush(None)));
    assert!(is_told(pair.sender.reserve(1).map(drop)));
    assert!(is_told(pair.receiver.wait(None).map(drop)));

    // A receiver that has left says so, whatever becomes of its connection.
    pair.senders_area.store(Word::Left, 1);
    let left = pair.sender.wait(1, None);
    assert!(matches!(left, Err(Error::PeerLost(PeerLoss::Abandoned))), "{left:?}");
}

#[test]
fn nothing_is_stored_after_a_loss() {
    let mut pair = pair();
    while pair.send(&[1; 1000]).unwrap() {}
    pair.senders.end();
    pair.receivers.end();
    assert!(matches!(pair.sender.wait(1000, None), Err(Error::PeerLost(PeerLoss::Process))));
    let Pair { sender, receiver, senders_area, receivers_area, .. } = pair;
    assert!(receiver.peer_ended());
    drop(sender);
    drop(receiver);
    assert_eq!((receivers_area.load(Word::Ended), senders_area.load(Word::Left)), (0, 0));
}

#[test]
fn nonsense_ends_channel_and_informs_peer() {
    let mut pair = pair();
    pair.receivers_area.store(Word::Written, 12);
    assert!(matches!(pair.next(), Err(Error::Nonsense(Nonsense::Written { value: 12, .. }))));
    assert!(pair.receivers.closed_with.lock().unwrap().is_some());

    let mut pair = self::pair();
    assert!(pair.send(b"one").unwrap());
    pair.senders_area.store(Word::Released, 1 << 20);
    assert!(matches!(pair.sender.behind(), Err(Error::Nonsense(Nonsense::Released { .. }))));
    assert!(pair.senders.closed_with.lock().unwrap().is_some());
}

#[test]
fn bytes_behind_counts_bytes_without_credit() {
    let mut pair = pair();
    assert_eq!(pair.sender.behind().unwrap(), 0);
    assert!(pair.send(&[0; 1016]).unwrap() && pair.send(&[0; 24]).unwrap());
    assert_eq!(pair.sender.behind().unwrap(), 1024 + 32);
    pair.next().unwrap();
    assert_eq!(pair.sender.behind().unwrap(), 32, "a quarter of the ring is told");
}

#[test]
fn delivery_of_each_message_is_known() {
    let mut pair = pair();
    assert!(pair.send(&[0; 1016]).unwrap());
    let first = pair.sender.sent();
    assert_eq!(first, 1024);
    pair.is_slow.store(true, Ordering::Relaxed);
    let delivered = |pair: &mut Pair, position| pair.sender.delivered(position, Some(Duration::ZERO));
    assert!(delivered(&mut pair, first).unwrap_err().is_timed_out());
    // What the peer has released has arrived, whatever the card says.
    pair.next().unwrap();
    delivered(&mut pair, first).unwrap();
    assert!(pair.send(&[0; 24]).unwrap());
    let second = pair.sender.sent();
    delivered(&mut pair, first).unwrap();
    assert!(delivered(&mut pair, second).unwrap_err().is_timed_out());
    pair.is_slow.store(false, Ordering::Relaxed);
    delivered(&mut pair, second).unwrap();
    pair.is_slow.store(true, Ordering::Relaxed);
    delivered(&mut pair, second).unwrap();
    // A message that was only put is not sent.
    assert!(pair.put(&[0; 24]).unwrap());
    assert_eq!(pair.sender.sent(), second);
    assert!(matches!(delivered(&mut pair, second + 32), Err(Error::OutOfRange { .. })));
}

#[test]
fn delivery_fails_when_the_peer_is_lost() {
    let mut pair = pair();
    assert!(pair.send(&[0; 1016]).unwrap());
    let received = pair.sender.sent();
    pair.next().unwrap();
    assert!(pair.send(b"lost").unwrap());
    let lost = pair.sender.sent();
    drop(std::mem::replace(&mut pair.receiver, self::pair().receiver));
    pair.sender.delivered(received, None).unwrap();
    assert!(matches!(pair.sender.delivered(lost, None), Err(Error::PeerLost(PeerLoss::Abandoned))));

    let mut pair = self::pair();
    assert!(pair.send(b"lost").unwrap());
    let lost = pair.sender.sent();
    pair.senders.end();
    std::thread::sleep(Duration::from_millis(150));
    assert!(matches!(pair.sender.delivered(lost, None), Err(Error::PeerLost(PeerLoss::Process))));
}

#[test]
fn flush_without_room_fails_in_time() {
    let mut pair = pair();
    assert!(pair.put(b"later").unwrap());
    pair.full.store(1000, Ordering::Relaxed);
    assert!(pair.sender.flush(Some(Duration::ZERO)).unwrap_err().is_timed_out());
    assert_eq!(pair.sender.sent(), 0);
    pair.full.store(0, Ordering::Relaxed);
    pair.sender.flush(Some(Duration::ZERO)).unwrap();
    assert_eq!(pair.next().unwrap(), Some(Some(b"later".to_vec())));
    // Nothing is left that would need room.
    pair.full.store(1000, Ordering::Relaxed);
    pair.sender.flush(Some(Duration::ZERO)).unwrap();
}

#[test]
fn sleeping_receiver_is_woken() {
    let Pair { mut sender, mut receiver, .. } = pair();
    let sending = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(50));
        let span = sender.reserve(3).unwrap().unwrap();
        sender.commit(span).unwrap();
        sender
    });
    assert_eq!(receiver.wait(None).unwrap().map(|span| span.length), Some(3));
    drop(sending.join().unwrap());
}

/// Returns whether a half's file is readable within this time.
fn is_readable(file: Result<BorrowedFd<'_>>, limit: Duration) -> bool {
    let limit = Timespec::try_from(limit).unwrap();
    poll(&mut [PollFd::from_borrowed_fd(file.unwrap(), PollFlags::IN)], Some(&limit)).unwrap() == 1
}

#[test]
fn armed_file_reports_message_that_came() {
    let mut pair = pair();
    pair.receiver.set_polling(Polling::NEVER);
    assert!(!pair.receiver.arm().unwrap());
    assert!(!is_readable(pair.receiver.file(), Duration::ZERO));
    assert!(pair.send(b"one").unwrap() && pair.send(b"two").unwrap());
    assert!(is_readable(pair.receiver.file(), Duration::ZERO));
    // What this finds stays for the next call, in order.
    assert!(pair.receiver.arm().unwrap() && pair.receiver.arm().unwrap());
    assert_eq!(pair.receiver.next_known(), None, "the first message is kept elsewhere");
    assert_eq!(pair.next().unwrap(), Some(Some(b"one".to_vec())));
    assert_eq!(pair.next().unwrap(), Some(Some(b"two".to_vec())));
    assert!(!pair.receiver.arm().unwrap());
    assert!(!is_readable(pair.receiver.file(), Duration::ZERO));
}

#[test]
fn armed_file_reports_room_for_that_length() {
    let mut pair = pair();
    pair.sender.set_polling(Polling::NEVER);
    while pair.send(&[1; 1000]).unwrap() {}
    assert!(!pair.sender.arm(1000).unwrap());
    assert!(!is_readable(pair.sender.file(), Duration::ZERO));
    while pair.next().unwrap().is_some() {}
    assert!(is_readable(pair.sender.file(), Duration::ZERO));
    assert!(pair.sender.arm(1000).unwrap() && pair.send(&[1; 1000]).unwrap());
}

/// Data may arrive after the end is known, so the file is not readable all the time until then.
#[test]
fn armed_file_reports_end_after_grace() {
    let mut pair = pair();
    pair.receiver.set_polling(Polling::NEVER);
    assert!(!pair.receiver.arm().unwrap());
    pair.receivers.end();
    assert!(is_readable(pair.receiver.file(), Duration::ZERO));
    // This learns of the end, unless a look before it did.
    pair.receiver.arm().unwrap();
    assert!(!pair.receiver.arm().unwrap());
    assert!(!is_readable(pair.receiver.file(), Duration::ZERO));
    assert!(is_readable(pair.receiver.file(), 2 * GRACE));
    assert!(pair.receiver.arm().unwrap());
    assert!(matches!(pair.next(), Err(Error::PeerLost(PeerLoss::Process))));
    assert!(pair.receiver.arm().unwrap(), "the end stays");
}

/// The last look before a sleep finds a card without room, which has room when the half falls
/// asleep.
#[test]
fn room_before_sleep_ends_it() {
    for looks in 1..10 {
        let mut pair = pair();
        pair.sender.set_polling(Polling::NEVER);
        pair.full.store(looks, Ordering::Relaxed);
        let is_ready = (0..10).any(|_| pair.sender.arm(8).unwrap() || is_readable(pair.sender.file(), GRACE));
        assert!(is_ready, "armed, after {looks} looks");
        pair.full.store(looks, Ordering::Relaxed);
        let (done, is_done) = mpsc::channel();
        std::thread::spawn(move || done.send(pair.sender.wait(8, None).map(drop)));
        let waited = is_done.recv_timeout(Duration::from_secs(20));
        assert!(matches!(waited, Ok(Ok(()))), "asleep, after {looks} looks: {waited:?}");
    }
}

#[test]
fn nonsense_is_noticed_without_room_at_card() {
    let mut pair = pair();
    pair.full.store(1, Ordering::Relaxed);
    pair.senders_area.store(Word::Released, 1 << 20);
    assert!(matches!(pair.sender.reserve(8), Err(Error::Nonsense(Nonsense::Released { .. }))));
}
