//! The server, but for how it sleeps.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use hamlyn::protocol::stream::{StreamListener, StreamPair};
use hamlyn::{Error, Manager};
use rustix::io::Errno;
use serde_json::json;

use crate::common::{Outcome, print};

/// How soon to look again for room in the work queue: nobody is notified of that.
const NAP: Duration = Duration::from_millis(5);

/// A server. `W` is what watches the file that tells of a client's end.
pub(crate) struct Server<W> {
    listener: StreamListener,
    manager: Manager,
    pub(crate) clients: BTreeMap<usize, Client<W>>,
    admitted: usize,
    pub(crate) served: usize,
}

/// A client, and what is to be sent back to it.
pub(crate) struct Client<W> {
    pub(crate) watch: W,
    pair: StreamPair,
    echo: Vec<u8>,
    bytes: usize,
    closed: bool,
    behind: bool,
}

impl<W> Server<W> {
    pub(crate) fn open(manager: &Manager, name: &str) -> Outcome<Self> {
        let listener = StreamListener::bind(manager, name)?;
        print(&json!({ "listening": name }))?;
        Ok(Self { listener, manager: manager.clone(), clients: BTreeMap::new(), admitted: 0, served: 0 })
    }

    /// What is readable when somebody connects.
    pub(crate) fn file(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// Does all that there is to do. Then it may sleep until one of the files is readable, the manager's among them, or the
    /// time is over that this gives.
    pub(crate) fn work(
        &mut self,
        mut watch: impl FnMut(usize, BorrowedFd<'_>) -> io::Result<W>,
    ) -> Outcome<Option<Duration>> {
        loop {
            self.admit(&mut watch)?;
            let busy = self.attend()?;
            // What has come meanwhile, or for one while another was asked, is seen to first.
            if !busy && !self.manager.arm()? {
                return Ok(self.clients.values().any(|client| client.behind).then_some(NAP));
            }
        }
    }

    fn admit(&mut self, watch: &mut impl FnMut(usize, BorrowedFd<'_>) -> io::Result<W>) -> Outcome {
        loop {
            match self.listener.accept(Some(Duration::ZERO)) {
                Ok(pair) => {
                    let file = pair.receiver.peer_file().ok_or("a pair without a connection")?;
                    let watch = watch(self.admitted, file)?;
                    self.clients.insert(self.admitted, Client::new(pair, watch));
                    self.admitted += 1;
                }
                Err(error) if error.is_timed_out() => return Ok(()),
                // The card is gone, and the name with it.
                Err(error) if is_gone(&error) => return Err(error.into()),
                // One that cannot be let in is no reason to fail the others.
                Err(error) => print(&json!({ "refused": error.to_string() }))?,
            }
        }
    }

    /// Does for each client what can be done now. Whether there was anything.
    fn attend(&mut self) -> Outcome<bool> {
        let mut busy = false;
        let mut gone = Vec::new();
        for (number, client) in &mut self.clients {
            match client.step() {
                Ok(Step::Idle) => {}
                Ok(Step::Busy) => busy = true,
                Ok(Step::Over) => gone.push((*number, json!({ "echoed": client.bytes }))),
                Err(Error::PeerLost(loss)) => {
                    gone.push((*number, json!({ "echoed": client.bytes, "lost": loss.to_string() })));
                }
                Err(error) => return Err(error.into()),
            }
        }
        for (number, last) in gone {
            self.clients.remove(&number);
            self.served += 1;
            print(&last)?;
        }
        Ok(busy)
    }
}

/// What a step was.
enum Step {
    /// There was something to do, and there may be more.
    Busy,
    /// There was nothing.
    Idle,
    /// All is done.
    Over,
}

impl<W> Client<W> {
    fn new(pair: StreamPair, watch: W) -> Self {
        Self { watch, pair, echo: Vec::new(), bytes: 0, closed: false, behind: false }
    }

    /// Its file is readable: the next step tells why.
    pub(crate) fn look_for_end(&self) {
        let _ = self.pair.receiver.peer_ended();
    }

    /// Does what can be done now.
    fn step(&mut self) -> hamlyn::Result<Step> {
        let mut step = Step::Idle;
        if self.echo.is_empty() && !self.closed && self.take()? {
            step = Step::Busy;
        }
        if !self.echo.is_empty() {
            match self.pair.sender.try_send(&self.echo) {
                Ok(sent) => {
                    self.echo.drain(..sent);
                    self.bytes += sent;
                    step = Step::Busy;
                }
                Err(error) if error.is_would_block() => {}
                Err(error) => return Err(error),
            }
        }
        // Held back, it might be what the client waits for.
        let last = self.closed && self.echo.is_empty();
        let sender = &mut self.pair.sender;
        let done = later(if last { sender.try_close() } else { sender.try_flush() })?;
        self.behind = !done || !self.echo.is_empty();
        Ok(if last && done { Step::Over } else { step })
    }

    /// Takes a record, if one has come.
    fn take(&mut self) -> hamlyn::Result<bool> {
        let number = match self.pair.receiver.try_receive() {
            Ok(Some(record)) => {
                self.echo = record.to_vec();
                record.number()
            }
            Ok(None) => {
                self.closed = true;
                return Ok(true);
            }
            Err(error) if error.is_would_block() => return Ok(false),
            Err(error) => return Err(error),
        };
        self.pair.receiver.release(number)?;
        Ok(true)
    }
}

/// Whether the card was reset or removed.
fn is_gone(error: &Error) -> bool {
    let gone = Errno::NODEV.raw_os_error();
    matches!(error, Error::System { source, .. } if source.raw_os_error() == Some(gone))
}

/// Whether it is done.
fn later(result: hamlyn::Result<()>) -> hamlyn::Result<bool> {
    match result {
        Ok(()) => Ok(true),
        Err(error) if error.is_would_block() => Ok(false),
        Err(error) => Err(error),
    }
}
