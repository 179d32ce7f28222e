//! Channels in event loops, `mio` and `tokio`, by card and over express memory.

use std::collections::VecDeque;
use std::os::fd::AsRawFd;
use std::thread;
use std::time::Duration;

use crate::channel::{PATIENCE, bytes, open};
use crate::fake::Fake;
use hamlyn::channel::{Channel, Options};
use hamlyn::{Error, PeerLoss, Polling};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Opens channels of each kind between two hosts, with a ring of a page.
fn channels(count: usize) -> (Fake, Vec<[Channel; 2]>) {
    let fake = Fake::default();
    let mut options = Options::default();
    options.capacity = 4096;
    let opened = (0..count).map(|number| {
        fake.give_express(number % 2 == 0);
        let ends = open(&fake, options);
        assert_eq!(ends[0].is_express(), number % 2 != 0);
        ends
    });
    let opened = opened.collect();
    (fake, opened)
}

/// Runs a future to completion. The timeout is only a watchdog.
fn run<F: Future>(what: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(PATIENCE, what).await.unwrap() })
}

/// One end in a loop that waits only in its `Poll`: it sends back what it receives.
struct Echo {
    channel: Channel,
    waiting: VecDeque<Vec<u8>>,
    has_ended: bool,
}

impl Echo {
    /// Does what can be done now. Returns whether it must be called again without a wait.
    fn turn(&mut self) -> bool {
        let Channel { sender, receiver } = &mut self.channel;
        while let Some(next) = self.waiting.front() {
            match sender.try_send(next) {
                Err(error) if error.is_would_block() => break,
                sent => sent.unwrap(),
            }
            self.waiting.pop_front();
        }
        match receiver.try_recv() {
            Ok(Some(message)) => self.waiting.push_back(message.to_vec().unwrap()),
            Ok(None) => self.has_ended = true,
            Err(error) => assert!(error.is_would_block(), "{error}"),
        }
        if self.has_ended {
            return false;
        }
        let next = self.waiting.front().map(Vec::len);
        let has_room = next.is_some_and(|length| sender.arm(length).unwrap());
        receiver.arm().unwrap() || has_room
    }
}

#[test]
fn mio_serves_channels_of_both_kinds() {
    let (_fake, channels) = channels(6);
    let (here, there): (Vec<_>, Vec<_>) = channels.into_iter().map(|[here, there]| (here, there)).unzip();
    let server = thread::spawn(move || {
        let (mut poll, mut events) = (Poll::new().unwrap(), Events::with_capacity(4));
        let mut echoes = Vec::new();
        for (number, mut channel) in there.into_iter().enumerate() {
            channel.sender.set_polling(Polling::NEVER);
            channel.receiver.set_polling(Polling::NEVER);
            for file in [channel.sender.file().unwrap(), channel.receiver.file().unwrap()] {
                let mut source = SourceFd(&file.as_raw_fd());
                poll.registry().register(&mut source, Token(number), Interest::READABLE).unwrap();
            }
            echoes.push(Echo { channel, waiting: VecDeque::new(), has_ended: false });
        }
        let mut sleeps = 0;
        while echoes.iter().any(|echo| !echo.has_ended) {
            let busy = echoes.iter_mut().filter(|echo| !echo.has_ended).map(Echo::turn);
            if busy.fold(false, |all, one| all | one) || echoes.iter().all(|echo| echo.has_ended) {
                continue;
            }
            sleeps += 1;
            poll.poll(&mut events, Some(PATIENCE)).unwrap();
            assert!(!events.is_empty(), "nothing came in time");
        }
        for echo in echoes {
            assert!(echo.waiting.is_empty());
            echo.channel.sender.close_timeout(PATIENCE).unwrap();
        }
        sleeps
    });
    thread::scope(|scope| {
        for channel in here {
            scope.spawn(|| {
                let Channel { mut sender, mut receiver } = channel;
                // A thread that polls takes the loop's processor.
                sender.set_polling(Polling::NEVER);
                receiver.set_polling(Polling::NEVER);
                // Of each size, and some apart in time, so that the loop sleeps.
                let longest = sender.longest();
                for (number, length) in (0..200_usize).map(|step| step * 131 % longest).enumerate() {
                    sender.send_timeout(&bytes(number, length), PATIENCE).unwrap();
                    if number % 50 == 0 {
                        thread::sleep(Duration::from_millis(20));
                    }
                    let answer = receiver.recv_timeout(PATIENCE).unwrap().unwrap();
                    assert_eq!(answer.to_vec().unwrap(), bytes(number, length));
                }
                sender.close_timeout(PATIENCE).unwrap();
                assert!(receiver.recv_timeout(PATIENCE).unwrap().is_none());
            });
        }
    });
    let sleeps = server.join().unwrap();
    assert!(sleeps >= 3, "the loop slept {sleeps} times");
}

#[test]
fn tokio_tasks_exchange_messages_of_both_kinds() {
    let (_fake, channels) = channels(6);
    run(async {
        let mut tasks = Vec::new();
        for [here, there] in channels {
            let (mut back, mut from) = there.into_async().unwrap();
            tasks.push(tokio::spawn(async move {
                while let Some(message) = from.recv().await.unwrap() {
                    back.send(&message.to_vec().unwrap()).await.unwrap();
                }
                back.shutdown().await.unwrap();
            }));
            let (mut to, mut answers) = here.into_async().unwrap();
            let longest = to.longest();
            let lengths = move || (0..300_usize).map(move |step| step * 131 % longest).enumerate();
            tasks.push(tokio::spawn(async move {
                // More than the ring has room for: it waits for the receiver again and again.
                for (number, length) in lengths() {
                    to.send(&bytes(number, length)).await.unwrap();
                }
                to.shutdown().await.unwrap();
            }));
            tasks.push(tokio::spawn(async move {
                for (number, length) in lengths() {
                    let answer = answers.recv().await.unwrap().unwrap();
                    assert_eq!(answer.to_vec().unwrap(), bytes(number, length));
                }
                assert!(answers.recv().await.unwrap().is_none());
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
    });
}

#[test]
fn tokio_streams_carry_bytes_of_both_kinds() {
    let (_fake, channels) = channels(2);
    run(async {
        for [here, there] in channels {
            let (back, from) = there.into_async().unwrap();
            let echo = tokio::spawn(async move {
                let mut both = tokio::io::join(from, back);
                let (mut from, mut to) = tokio::io::split(&mut both);
                tokio::io::copy(&mut from, &mut to).await.unwrap();
                to.shutdown().await.unwrap();
            });
            let (mut to, mut answers) = here.into_async().unwrap();
            let sent = bytes(1, 100_000);
            let expected = sent.clone();
            let sending = tokio::spawn(async move {
                to.write_all(&sent).await.unwrap();
                to.shutdown().await.unwrap();
            });
            let mut came = Vec::new();
            answers.read_to_end(&mut came).await.unwrap();
            assert!(came == expected, "{} bytes", came.len());
            sending.await.unwrap();
            echo.await.unwrap();
        }
    });
}

#[test]
fn waiting_task_learns_that_its_peer_left() {
    let (_fake, channels) = channels(2);
    run(async {
        for [here, there] in channels {
            let (mut to, mut from) = here.into_async().unwrap();
            let leaving = tokio::task::spawn_blocking(move || {
                thread::sleep(Duration::from_millis(50));
                drop(there);
            });
            assert!(matches!(from.recv().await, Err(Error::PeerLost(PeerLoss::Abandoned))));
            leaving.await.unwrap();
            let full = async {
                loop {
                    if let Err(error) = to.send(&[7; 1000]).await {
                        break error;
                    }
                }
            };
            let lost = full.await;
            assert!(matches!(lost, Error::PeerLost(PeerLoss::Abandoned)), "{lost:?}");
        }
    });
}
