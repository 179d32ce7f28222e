//! Channels in the loops of others: `mio` and `tokio`, by express memory and by messages, against a card in memory.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::os::fd::{AsFd, AsRawFd};
use std::thread;
use std::time::Duration;

use crate::express::{PATIENCE, Pair, by_messages, bytes, express};
use hamlyn::Manager;
use hamlyn::asynchronous::Hub;
use hamlyn::express::{Channel, ChannelReceiver, ChannelSender};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Runs it to its end; nobody has to wait so long as the watchdog does.
fn run<F: Future>(what: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(Duration::from_secs(60), what).await.unwrap() })
}

/// A loop that sends back what comes, and never waits but at its `Poll`.
struct Echo {
    manager: Manager,
    sender: ChannelSender,
    receiver: ChannelReceiver,
    /// What is still to go.
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
            // Each of them, whatever the others say.
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

    /// All that can be done now. False: there is no more to come, and nothing to go.
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
                Ok(Some(message)) => self.waiting.push_back(message.to_vec()),
                Ok(None) => return !self.waiting.is_empty(),
                Err(error) if error.is_would_block() => return true,
                Err(error) => panic!("{error}"),
            }
        }
    }
}

#[test]
fn a_loop_by_mio_sends_back_all_that_comes() {
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
                    // Until the loop sleeps, most likely.
                    thread::sleep(Duration::from_millis(20));
                }
            }
            sender.close(PATIENCE).unwrap();
        });
        for number in 0..300 {
            let message = receiver.recv_block(PATIENCE).unwrap().unwrap();
            assert_eq!(message.to_vec(), bytes(number, lengths(number)), "message {number}");
        }
        assert!(receiver.recv_block(PATIENCE).unwrap().is_none());
        sending.join().unwrap();
        assert!(echoing.join().unwrap() > 0, "it never slept");
    }
}

#[test]
fn tasks_of_tokio_ask_and_answer_by_a_channel() {
    for pair in [express(4096), by_messages()] {
        let Pair { managers: [here_manager, there_manager], ends: [here, there], .. } = pair;
        run(async {
            let [here_hub, there_hub] =
                [&here_manager, &there_manager].map(|manager| Hub::start(manager).unwrap());
            let (mut questions, mut answers) = there.into_async(&there_hub).unwrap();
            let answering = tokio::spawn(async move {
                let mut answered = 0;
                // How many numbers, and the numbers; the answer is their sum.
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
                // More than there is room for, once: it waits for the other again and again.
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
fn a_task_that_reads_is_told_of_an_end_that_was_not_meant() {
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
