//! How the processes of a program find each other. The driver keeps names for this (section 6.3).
//! If a card is reached by its socket, there is no driver, and lines are passed between the
//! processes by hand.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::time::{Duration, Instant};

use hamlyn::{Card, Connection, EndReason, Error, Listener, Manager, PeerLoss};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::json;

use crate::{Outcome, input_ended, print, read_line};

/// Delay before a name is looked up again.
const AGAIN: Duration = Duration::from_millis(50);
/// Time for the peer's last messages to arrive: they may arrive after the operating system reports
/// its end.
const GRACE: Duration = Duration::from_secs(1);

/// How to find the others.
#[derive(Debug, Clone, clap::Args)]
pub struct MeetOption {
    /// Finds the others by lines on standard output and input, which must be passed between them
    #[arg(long, global = true)]
    by_hand: bool,
}

/// A peer that was met.
pub struct Met {
    /// What the peer sent about itself.
    pub told: Vec<u8>,
    /// Detects the peer's end; `None` if it was met by hand.
    pub watch: Option<Watch>,
}

/// A connection to a peer, and whether it has ended.
pub struct Watch {
    connection: Connection,
    ended: Option<(Instant, PeerLoss)>,
}

/// A named place where others connect.
pub struct Door {
    way: Way,
    /// Standard input is read only if `is_shut` is called, or if lines arrive there.
    shut: OnceLock<Arc<AtomicBool>>,
}

enum Way {
    Name(Listener),
    Hand(mpsc::Receiver<String>),
}

impl MeetOption {
    /// Opens a door with this name.
    pub fn listen(&self, card: &Card, name: &str) -> Outcome<Door> {
        if !self.by_hand {
            return Ok(Door { way: Way::Name(card.listen(name)?), shut: OnceLock::new() });
        }
        let (to, lines) = mpsc::channel();
        let shut = Arc::new(AtomicBool::new(false));
        let flag = shut.clone();
        std::thread::spawn(move || {
            while read_line().is_ok_and(|line| to.send(line).is_ok()) {}
            flag.store(true, Ordering::Release);
        });
        Ok(Door { way: Way::Hand(lines), shut: shut.into() })
    }

    /// Connects to a door and exchanges data about both sides. Waits up to `patience` if there is
    /// no such door.
    pub fn connect(
        &self,
        card: &Card,
        (host, name): (u32, &str),
        own: &[u8],
        patience: Duration,
    ) -> Outcome<Met> {
        if self.by_hand {
            print(&json!({ "offer": hex(own) }))?;
            return Ok(Met { told: unhex(&read_line()?)?, watch: None });
        }
        let begun = Instant::now();
        loop {
            match card.connect(host, name, own) {
                Ok(connection) => {
                    return Ok(Met {
                        told: connection.private().to_vec(),
                        watch: Some(Watch::over(connection)),
                    });
                }
                Err(Error::Ended(end)) if end.reason == EndReason::NoName && begun.elapsed() < patience => {
                    std::thread::sleep(AGAIN);
                }
                Err(error) => return Err(format!("host {host}, {name:?}: {error}").into()),
            }
        }
    }
}

impl Door {
    /// Returns whether standard input has ended.
    pub fn is_shut(&self) -> bool {
        self.shut.get_or_init(input_ended).load(Ordering::Acquire)
    }

    /// Returns a file that becomes readable when a peer connects; `None` if lines are passed by
    /// hand.
    pub fn file(&self) -> Option<BorrowedFd<'_>> {
        match &self.way {
            Way::Name(listener) => Some(listener.as_fd()),
            Way::Hand(_) => None,
        }
    }

    /// Admits the next peer that connects within `patience`. `answer` computes the reply from the
    /// peer's data.
    pub fn admit(
        &self,
        patience: Duration,
        answer: impl FnOnce(&[u8]) -> Outcome<Vec<u8>>,
    ) -> Outcome<Option<Met>> {
        match &self.way {
            Way::Name(listener) => match listener.request(Some(patience)) {
                Ok(request) => {
                    let (told, own) = (request.private().to_vec(), answer(request.private())?);
                    Ok(Some(Met { told, watch: Some(Watch::over(request.accept(&own)?)) }))
                }
                Err(error) if error.is_timed_out() => Ok(None),
                Err(error) => Err(error.into()),
            },
            Way::Hand(lines) => {
                let Ok(line) = lines.recv_timeout(patience) else { return Ok(None) };
                let told = unhex(&line)?;
                print(&json!({ "answer": hex(&answer(&told)?) }))?;
                Ok(Some(Met { told, watch: None }))
            }
        }
    }
}

impl Watch {
    fn over(connection: Connection) -> Self {
        Self { connection, ended: None }
    }

    /// Returns a file that becomes readable when the peer has ended; `None` once that is known.
    pub fn file(&self) -> Option<BorrowedFd<'_>> {
        self.ended.is_none().then(|| self.connection.as_fd())
    }

    /// Returns why the peer was lost, once that has been known long enough for all its messages to
    /// arrive.
    pub fn loss(&mut self) -> hamlyn::Result<Option<PeerLoss>> {
        if self.ended.is_none() {
            self.ended = self.connection.end()?.map(|end| (Instant::now(), end.reason.into()));
        }
        Ok(self.ended.filter(|(since, _)| since.elapsed() >= GRACE).map(|(_, loss)| loss))
    }

    /// Leaves gracefully.
    pub fn close(self) -> hamlyn::Result<()> {
        self.connection.close(b"")
    }
}

/// Sleeps until a message has arrived, one of these files is readable, or the time is up. Then
/// dispatches all messages.
pub fn sleep(manager: &Manager, files: &[BorrowedFd<'_>], limit: Duration) -> Outcome {
    if !manager.arm()? {
        let all = std::iter::once(manager.as_fd()).chain(files.iter().copied());
        let mut polled: Vec<_> = all.map(|file| PollFd::from_borrowed_fd(file, PollFlags::IN)).collect();
        let limit = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() };
        match poll(&mut polled, Some(&limit)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    manager.poll_all()?;
    Ok(())
}

/// Returns the rest of a timeout that began at `begun`.
pub fn left(begun: Instant, timeout: Duration) -> Duration {
    timeout.saturating_sub(begun.elapsed())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Outcome<Vec<u8>> {
    let digits: Option<Vec<_>> = text.chars().map(|digit| digit.to_digit(16)).collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0).ok_or("what was told is not hexadecimal")?;
    Ok(digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect())
}
