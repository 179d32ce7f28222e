//! Channels in external event loops: `mio` and `tokio`, over express memory and over messages, with
//! a card in memory.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::ErrorKind;
use std::os::fd::{AsFd, AsRawFd};
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use crate::express::{PATIENCE, Pair, by_messages, bytes, express};
use hamlyn::asynchronous::Hub;
use hamlyn::express::{Channel, ChannelReceiver, ChannelSender, ReadHalf, Received, WriteHalf};
use hamlyn::{Error, Manager, PeerLoss};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{sleep, timeout};

/// Runs a future to completion. The timeout is only a watchdog.
fn run<F: Future>(what: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(Duration::from_secs(60), what).await.unwrap() })
}

/// A loop that echoes messages and blocks only in its `Poll`.
struct Echo {
    manager: Manager,
    sender: ChannelSender,
    receiver: ChannelReceiver,
    /// Messages still to be sent.
    waiting: VecDeque<Vec<u8>>,
    sleeps: u32,
}

const MANAGER: Token = Token(0);
const PEER: Token = Token(1);

impl Echo {
    fn run(mut self) -> u32 {
        let (mut poll, mut events) = (Poll::new().unwrap(), Events::with_capacity(4));
        let manager = self.manager.as_fd().as_raw_fd();
        poll.registry().register(&mut SourceFd(&manager), MANAGER, Interest::READABLE).unwrap();
        if let Some(peer) = self.receiver.peer_file() {
            let peer = peer.as_raw_fd();
            poll.registry().register(&mut SourceFd(&peer), PEER, Interest::READABLE).unwrap();
        }
        while self.turn() {
            // Arms each of them, whatever the others return.
            let news = [
                self.receiver.arm().unwrap(),
                self.waiting.front().is_some_and(|next| self.sender.arm(next.len()).unwrap()),
                self.manager.arm().unwrap(),
            ];
            if !news.contains(&true) {
                self.sleeps += 1;
                poll.poll(&mut events, PATIENCE).unwrap();
                assert!(!events.is_empty(), "nothing came in time");
            }
            self.manager.poll_all().unwrap();
        }
        while self.sender.try_close().is_err_and(|error| error.is_would_block()) {
            thread::yield_now();
        }
        self.sleeps
    }

    /// Does everything possible now. Returns false at the end of the channel, once nothing is left
    /// to send.
    fn turn(&mut self) -> bool {
        loop {
            while let Some(next) = self.waiting.front() {
                match self.sender.try_send(next) {
                    Ok(()) => drop(self.waiting.pop_front()),
                    Err(error) if error.is_would_block() => break,
                    Err(error) => panic!("{error}"),
                }
            }
            match self.receiver.try_recv() {
                Ok(Some(message)) => self.waiting.push_back(message.to_vec().unwrap()),
                Ok(None) => return !self.waiting.is_empty(),
                Err(error) if error.is_would_block() => return true,
                Err(error) => panic!("{error}"),
            }
        }
    }
}

#[test]
fn mio_loop_echoes_all_messages() {
    for pair in [express(4096), by_messages()] {
        let Pair { managers: [_here, manager], ends: [here, there], .. } = pair;
        let Channel { sender, receiver } = there;
        let echo = Echo { manager, sender, receiver, waiting: VecDeque::new(), sleeps: 0 };
        let echoing = thread::spawn(move || echo.run());
        let Channel { mut sender, mut receiver } = here;
        let lengths = |number: usize| number * 97 % 2000;
        let sending = thread::spawn(move || {
            for number in 0..300 {
                sender.send(&bytes(number, lengths(number)), PATIENCE).unwrap();
                if number % 50 == 0 {
                    // Long enough for the loop to fall asleep, most likely.
                    thread::sleep(Duration::from_millis(20));
                }
            }
            sender.close(PATIENCE).unwrap();
        });
        for number in 0..300 {
            let message = receiver.recv_block(PATIENCE).unwrap().unwrap();
            assert_eq!(message.to_vec().unwrap(), bytes(number, lengths(number)), "message {number}");
        }
        assert!(receiver.recv_block(PATIENCE).unwrap().is_none());
        sending.join().unwrap();
        assert!(echoing.join().unwrap() > 0, "it never slept");
    }
}

#[test]
fn tokio_tasks_ask_and_answer_over_a_channel() {
    for pair in [express(4096), by_messages()] {
        let Pair { managers: [here_manager, there_manager], ends: [here, there], .. } = pair;
        run(async {
            let [here_hub, there_hub] =
                [&here_manager, &there_manager].map(|manager| Hub::start(manager).unwrap());
            let (mut questions, mut answers) = there.into_async(&there_hub).unwrap();
            let answering = tokio::spawn(async move {
                let mut answered = 0;
                // A count and that many numbers; the answer is their sum.
                while let Ok(count) = questions.read_u64_le().await {
                    let mut sum = 0_u64;
                    for _ in 0..count {
                        sum = sum.wrapping_add(questions.read_u64_le().await.unwrap());
                    }
                    answers.write_u64_le(sum).await.unwrap();
                    answers.flush().await.unwrap();
                    answered += 1;
                }
                answers.shutdown().await.unwrap();
                answered
            });
            let (mut answers, mut questions) = here.into_async(&here_hub).unwrap();
            for count in (0..20).chain([3000]) {
                questions.write_u64_le(count).await.unwrap();
                // In one case more than there is room for, so it waits for the other end
                // repeatedly.
                for number in 0..count {
                    questions.write_u64_le(number).await.unwrap();
                }
                questions.flush().await.unwrap();
                assert_eq!(answers.read_u64_le().await.unwrap(), count * count.saturating_sub(1) / 2);
            }
            questions.shutdown().await.unwrap();
            assert_eq!(answers.read_u64_le().await.unwrap_err().kind(), ErrorKind::UnexpectedEof);
            assert_eq!(answering.await.unwrap(), 21);
        });
    }
}

#[test]
fn reading_task_fails_when_peer_ends_unexpectedly() {
    for pair in [express(4096), by_messages()] {
        let Pair { managers: [_here, manager], ends: [here, there], .. } = pair;
        run(async {
            let hub = Hub::start(&manager).unwrap();
            let (mut from, _to) = there.into_async(&hub).unwrap();
            let reading = tokio::spawn(async move { from.read(&mut [0; 10]).await.unwrap_err().kind() });
            tokio::task::yield_now().await;
            drop(here);
            assert_eq!(reading.await.unwrap(), ErrorKind::ConnectionReset);
        });
    }
}

/// Counts how often a task that awaits `what` goes to sleep.
async fn counted<F: Future>(sleeps: &AtomicU32, what: F) -> F::Output {
    let mut what = pin!(what);
    poll_fn(|context| {
        let outcome = what.as_mut().poll(context);
        sleeps.fetch_add(outcome.is_pending().into(), Ordering::Relaxed);
        outcome
    })
    .await
}

/// Waits until a task has gone to sleep.
async fn has_slept(sleeps: &AtomicU32) {
    while sleeps.load(Ordering::Relaxed) == 0 {
        sleep(Duration::from_millis(1)).await;
    }
}

fn halves(manager: &Manager, end: Channel) -> (ReadHalf, WriteHalf) {
    end.into_async(&Hub::start(manager).unwrap()).unwrap()
}

fn bytes_of(message: Option<Received<'_>>) -> Vec<u8> {
    message.expect("the peer has not closed").to_vec().unwrap()
}

/// Numbers of sleeps: of the echoing task for a message and for room, and of the sending task for
/// room.
#[derive(Debug, Default)]
struct Sleeps {
    back: AtomicU32,
    back_for_room: AtomicU32,
    sends: AtomicU32,
}

/// Echoes each message, and builds the echo in place.
async fn send_back(mut from: ReadHalf, mut to: WriteHalf, sleeps: Arc<Sleeps>) {
    while let Some(message) = counted(&sleeps.back, from.recv()).await.unwrap() {
        let mut room = counted(&sleeps.back_for_room, to.reserve(message.len())).await.unwrap();
        room.write(0, &message.to_vec().unwrap()).unwrap();
        drop(message);
        room.commit().unwrap();
        counted(&sleeps.back_for_room, to.flush()).await.unwrap();
    }
    to.shutdown().await.unwrap();
}

#[test]
fn messages_of_all_lengths_pass_between_tasks() {
    for pair in [express(4096), by_messages()] {
        let Pair { managers: [here_manager, there_manager], ends: [here, there], .. } = pair;
        let sleeps = Arc::new(Sleeps::default());
        let (of_back, of_sender) = (sleeps.clone(), sleeps.clone());
        let sending_back = thread::spawn(move || {
            run(async {
                let (from, to) = halves(&there_manager, there);
                tokio::spawn(send_back(from, to, of_back)).await.unwrap();
            });
        });
        run(async {
            let (mut from, mut to) = halves(&here_manager, here);
            // There is no message for it yet.
            has_slept(&sleeps.back).await;
            let longest = to.longest();
            let steps = (0..60).map(|step| step * 997 % longest);
            let lengths: Vec<_> = (0..100).chain(steps).chain([longest, 0, longest, longest]).collect();
            let too_long = to.send(&vec![0; longest + 1]).await.unwrap_err();
            assert!(
                matches!(too_long, Error::OutOfRange { limit, .. } if limit == longest as u64),
                "{too_long}"
            );
            assert!(matches!(to.reserve(longest + 1).await, Err(Error::OutOfRange { .. })));
            let all = lengths.clone();
            let sending = tokio::spawn(async move {
                for (number, length) in all.into_iter().enumerate() {
                    counted(&of_sender.sends, to.send(&bytes(number, length))).await.unwrap();
                }
                to
            });
            // Nothing receives the echoes, so in the end neither side has room.
            has_slept(&sleeps.back_for_room).await;
            has_slept(&sleeps.sends).await;
            for (number, length) in lengths.into_iter().enumerate() {
                assert_eq!(bytes_of(from.recv().await.unwrap()), bytes(number, length), "message {number}");
            }
            let mut to = sending.await.unwrap();
            // One at a time: each is delivered without another call.
            for (number, length) in [longest, 0, longest / 2, longest].into_iter().enumerate() {
                to.send(&bytes(number, length)).await.unwrap();
                assert_eq!(bytes_of(from.recv().await.unwrap()), bytes(number, length), "answer {number}");
            }
            to.shutdown().await.unwrap();
            assert!(matches!(to.send(b"late").await, Err(Error::Closed(_))));
            for _ in 0..2 {
                assert!(from.recv().await.unwrap().is_none());
            }
        });
        sending_back.join().unwrap();
    }
}

#[test]
fn message_is_kept_while_a_task_reads_it() {
    let Pair { managers: [here_manager, there_manager], ends: [here, there], .. } = express(4096);
    run(async {
        let (_answers, mut to) = halves(&here_manager, here);
        let (mut from, _to) = halves(&there_manager, there);
        to.send(&bytes(1, 4088)).await.unwrap();
        let message = from.recv().await.unwrap().unwrap();
        let refused = timeout(Duration::from_millis(20), to.send(b"more")).await;
        assert!(refused.is_err(), "the ring has room, though all of it is looked at");
        assert_eq!(message.to_vec().unwrap(), bytes(1, 4088));
        drop(message);
        to.send(b"more").await.unwrap();
        assert_eq!(bytes_of(from.recv().await.unwrap()), b"more");
    });
}

#[test]
fn sent_message_needs_no_further_call() {
    for pair in [express(4096), by_messages()] {
        let Pair { managers: [here_manager, there_manager], ends: [here, there], .. } = pair;
        run(async {
            let (_answers, mut to) = halves(&here_manager, here);
            let (mut from, _to) = halves(&there_manager, there);
            let length = to.longest() / 3;
            to.send(&bytes(0, length)).await.unwrap();
            let mut sent = 1;
            // Until there is no room. By messages, a part of the next one may have been sent.
            while timeout(Duration::from_millis(50), to.send(&bytes(sent, length))).await.is_ok() {
                sent += 1;
            }
            for number in 0..sent {
                assert_eq!(bytes_of(from.recv().await.unwrap()), bytes(number, length), "message {number}");
            }
        });
    }
}

/// How a peer ends.
#[derive(Debug, Clone, Copy, PartialEq)]
enum End {
    Closes,
    Abandons,
    /// Its card falls silent.
    Dies,
}

async fn is_told_behind_all_that_came(pair: Pair, end: End, asleep: bool) {
    let Pair { fake, managers: [here_manager, there_manager], ends: [here, there] } = pair;
    let (here_from, mut to) = halves(&here_manager, here);
    let (mut from, _to) = halves(&there_manager, there);
    let mut receiving = pin!(async move {
        for number in 0..10 {
            assert_eq!(bytes_of(from.recv().await.unwrap()), bytes(number, 50 * number));
        }
        from.recv().await.map(|message| message.is_none())
    });
    if asleep {
        assert!(timeout(Duration::from_millis(1), &mut receiving).await.is_err());
    }
    for number in 0..10 {
        // All of them have room.
        to.send(&bytes(number, 50 * number)).await.unwrap();
    }
    if asleep {
        assert!(timeout(Duration::from_millis(20), &mut receiving).await.is_err());
    }
    if end == End::Closes {
        to.shutdown().await.unwrap();
    }
    fake.hold(end == End::Dies);
    drop((here_from, to));
    let told = receiving.await;
    let expected = match &told {
        Ok(closed) => *closed && end == End::Closes,
        Err(Error::PeerLost(PeerLoss::Abandoned | PeerLoss::Process)) => end != End::Closes,
        Err(_) => false,
    };
    assert!(expected, "{end:?}, asleep {asleep}: {told:?}");
}

#[test]
fn receiving_task_learns_the_end_after_all_messages() {
    for end in [End::Closes, End::Abandons, End::Dies] {
        for asleep in [true, false] {
            for pair in [express(4096), by_messages()] {
                run(is_told_behind_all_that_came(pair, end, asleep));
            }
        }
    }
}

/// Returns a message that contains its number; lengths vary.
fn numbered(number: u32) -> Vec<u8> {
    let mut message = bytes(number as usize, 4 + number as usize * 131 % 3000);
    message[..4].copy_from_slice(&number.to_le_bytes());
    message
}

#[test]
fn cancelled_receive_loses_nothing() {
    for pair in [express(4096), by_messages()] {
        let Pair { managers: [_here, manager], ends: [here, there], .. } = pair;
        let Channel { mut sender, receiver: _receiver } = here;
        let (begin, begun) = mpsc::channel();
        let sending = thread::spawn(move || {
            begun.recv().unwrap();
            for number in 0..300 {
                sender.send(&numbered(number), PATIENCE).unwrap();
                if number % 20 == 0 {
                    thread::sleep(Duration::from_millis(5));
                }
            }
            sender.close(PATIENCE).unwrap();
        });
        run(async {
            let (mut from, _to) = halves(&manager, there);
            let (mut number, mut given_up) = (0, 0_u64);
            assert!(timeout(Duration::from_millis(1), from.recv()).await.is_err(), "nothing has been sent");
            begin.send(()).unwrap();
            loop {
                // At each timeout, it has either polled once or is asleep.
                match timeout(Duration::from_millis(given_up % 2), from.recv()).await {
                    Ok(Ok(Some(message))) => {
                        assert_eq!(message.to_vec().unwrap(), numbered(number), "message {number}");
                        number += 1;
                    }
                    Ok(end) => break assert!(end.unwrap().is_none()),
                    Err(_) => given_up += 1,
                }
            }
            assert_eq!(number, 300);
        });
        sending.join().unwrap();
    }
}

#[test]
fn cancelled_send_is_all_or_nothing() {
    for reserves in [true, false] {
        for pair in [express(4096), by_messages()] {
            let Pair { managers: [manager, _there], ends: [here, there], .. } = pair;
            let Channel { sender: _sender, mut receiver } = there;
            let (begin, begun) = mpsc::channel();
            let receiving = thread::spawn(move || {
                begun.recv().unwrap();
                let mut came = Vec::new();
                while let Some(message) = receiver.recv_block(PATIENCE).unwrap() {
                    let message = message.to_vec().unwrap();
                    let number = u32::from_le_bytes(message[..4].try_into().unwrap());
                    assert!(message == numbered(number), "message {number} is another");
                    came.push(number);
                    if came.len() % 20 == 0 {
                        thread::sleep(Duration::from_millis(5));
                    }
                }
                came
            });
            let (sent, given_up) = run(async {
                let (_from, mut to) = halves(&manager, here);
                let (mut sent, mut given_up) = (Vec::new(), Vec::new());
                for number in 0..600 {
                    let message = numbered(number);
                    let sending = async {
                        if !reserves {
                            return to.send(&message).await.unwrap();
                        }
                        let mut room = to.reserve(message.len()).await.unwrap();
                        room.write(0, &message).unwrap();
                        room.commit().unwrap();
                    };
                    let in_time = timeout(Duration::from_millis(u64::from(number % 2)), sending).await;
                    if in_time.is_err() && given_up.is_empty() {
                        // The receiver has taken nothing so far, so the ring has filled up.
                        begin.send(()).unwrap();
                    }
                    if in_time.is_ok() { &mut sent } else { &mut given_up }.push(number);
                }
                to.shutdown().await.unwrap();
                (sent, given_up)
            });
            let came = receiving.join().unwrap();
            assert!(!sent.is_empty() && !given_up.is_empty(), "{} of 600 went", sent.len());
            assert!(came.is_sorted_by(|one, next| one < next), "{came:?}");
            assert!(sent.iter().all(|number| came.binary_search(number).is_ok()), "{sent:?}, {came:?}");
            assert!(!reserves || came == sent, "{sent:?}, {came:?}");
        }
    }
}
