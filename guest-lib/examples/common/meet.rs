//! How the processes of a program find each other: by a name that the driver keeps (section 6.3);
//! or by hand, by lines that somebody carries between them, where a card is reached by its socket
//! and there is no driver.

// Every program uses a part of it.
#![allow(dead_code)]

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::time::{Duration, Instant};

use hamlyn::{Card, Connection, EndReason, Error, Listener, Manager, PeerLoss};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::json;

use crate::common::{Outcome, input_ended, print, read_line};

/// How soon to look again for a door.
const AGAIN: Duration = Duration::from_millis(50);
/// What somebody sent before its end has come by then: it may come behind the operating system's
/// word.
const GRACE: Duration = Duration::from_secs(1);

/// How to find the others.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct MeetOption {
    /// Finds the others by lines on standard output and input, which somebody carries between them
    #[arg(long, global = true)]
    by_hand: bool,
}

/// Somebody who was met.
pub(crate) struct Met {
    /// What it told of itself.
    pub(crate) told: Vec<u8>,
    /// Tells of its end; nobody does if it was met by hand.
    pub(crate) watch: Option<Watch>,
}

/// A connection to somebody, and whether it has ended.
pub(crate) struct Watch {
    connection: Connection,
    ended: Option<(Instant, PeerLoss)>,
}

/// Where others come to.
pub(crate) struct Door {
    way: Way,
    /// Standard input is looked at only if somebody asks, or lines come there.
    shut: OnceLock<Arc<AtomicBool>>,
}

enum Way {
    Name(Listener),
    Hand(mpsc::Receiver<String>),
}

impl MeetOption {
    /// Opens a door of this name.
    pub(crate) fn listen(&self, card: &Card, name: &str) -> Outcome<Door> {
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

    /// Comes to a door, tells this of itself, and is told something. If there is no such door it
    /// waits for as long as `patience`.
    pub(crate) fn connect(
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
    /// Whether standard input has ended.
    pub(crate) fn is_shut(&self) -> bool {
        self.shut.get_or_init(input_ended).load(Ordering::Acquire)
    }

    /// A file that becomes readable when somebody has come; none where nobody can tell.
    pub(crate) fn file(&self) -> Option<BorrowedFd<'_>> {
        match &self.way {
            Way::Name(listener) => Some(listener.as_fd()),
            Way::Hand(_) => None,
        }
    }

    /// Lets in the next who comes within this time, and tells it what `answer` makes of what it
    /// tells.
    pub(crate) fn admit(
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

    /// A file that becomes readable when the other has ended; none once that is known.
    pub(crate) fn file(&self) -> Option<BorrowedFd<'_>> {
        self.ended.is_none().then(|| self.connection.as_fd())
    }

    /// Why the other is lost, once that has been known for long enough that all it sent has come.
    pub(crate) fn loss(&mut self) -> hamlyn::Result<Option<PeerLoss>> {
        if self.ended.is_none() {
            self.ended = self.connection.end()?.map(|end| (Instant::now(), end.reason.into()));
        }
        Ok(self.ended.filter(|(since, _)| since.elapsed() >= GRACE).map(|(_, loss)| loss))
    }

    /// Leaves gracefully.
    pub(crate) fn close(self) -> hamlyn::Result<()> {
        self.connection.close(b"")
    }
}

/// Sleeps until a message has come, one of these files is readable, or time has run out. Then all
/// messages are handed on.
pub(crate) fn sleep(manager: &Manager, files: &[BorrowedFd<'_>], limit: Duration) -> Outcome {
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

/// What is left of a time-out that began then.
pub(crate) fn left(begun: Instant, timeout: Duration) -> Duration {
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
