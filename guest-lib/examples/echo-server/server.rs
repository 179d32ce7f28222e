//! The server as one event loop, without the sleeping. Each step handles only the clients that have
//! work, however many clients there are.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use hamlyn::protocol::stream::{StreamListener, StreamPair};
use hamlyn::{Error, Manager};
use serde_json::json;

use crate::common::{Outcome, is_gone, print};

/// A server.
pub(crate) struct Server {
    listener: StreamListener,
    manager: Manager,
    clients: BTreeMap<u64, Client>,
    /// Clients with pending work.
    to_do: BTreeSet<u64>,
    admitted: u64,
    pub(crate) served: usize,
}

/// A client, and the data to send back to it.
struct Client {
    pair: StreamPair,
    echo: Vec<u8>,
    bytes: usize,
    closed: bool,
}

impl Server {
    pub(crate) fn open(manager: &Manager, name: &str) -> Outcome<Self> {
        let listener = StreamListener::bind(manager, name)?;
        print(&json!({ "listening": name }))?;
        let (clients, to_do) = (BTreeMap::new(), BTreeSet::new());
        Ok(Self { listener, manager: manager.clone(), clients, to_do, admitted: 0, served: 0 })
    }

    /// Returns the file that becomes readable when a client connects.
    pub(crate) fn file(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// Does all pending work. Afterwards the caller may sleep until one of the files is readable,
    /// including the manager's.
    pub(crate) fn work(&mut self, mut watch: impl FnMut(u64, BorrowedFd<'_>) -> io::Result<()>) -> Outcome {
        loop {
            self.admit(&mut watch)?;
            self.manager.poll_all()?;
            self.to_do.extend(self.manager.ready());
            self.attend()?;
            // Messages that arrived meanwhile, or for another client, are handled first.
            if self.to_do.is_empty() && !self.manager.arm()? {
                return Ok(());
            }
        }
    }

    /// Handles a readable file of this client: the client has ended, and the next step returns the
    /// reason.
    pub(crate) fn look_for_end(&mut self, number: u64) {
        if let Some(client) = self.clients.get(&number) {
            let _ = client.pair.receiver.peer_ended();
            self.to_do.insert(number);
        }
    }

    fn admit(&mut self, watch: &mut impl FnMut(u64, BorrowedFd<'_>) -> io::Result<()>) -> Outcome {
        loop {
            match self.listener.try_accept() {
                Ok(mut pair) => {
                    let number = self.admitted;
                    watch(number, pair.receiver.peer_file().ok_or("a pair without a connection")?)?;
                    pair.receiver.set_token(number);
                    pair.sender.set_token(number);
                    self.clients.insert(number, Client::new(pair));
                    // A message may have arrived before the token was set.
                    self.to_do.insert(number);
                    self.admitted += 1;
                }
                Err(error) if error.is_would_block() => return Ok(()),
                // The card is gone, and the name with it.
                Err(error) if is_gone(&error) => return Err(error.into()),
                // A client that cannot be admitted does not affect the others.
                Err(error) => print(&json!({ "refused": error.to_string() }))?,
            }
        }
    }

    /// Runs a step of each client with pending work.
    fn attend(&mut self) -> Outcome {
        let mut gone = Vec::new();
        for number in std::mem::take(&mut self.to_do) {
            let Some(client) = self.clients.get_mut(&number) else { continue };
            match client.step() {
                Ok(Step::Idle) => {}
                Ok(Step::Busy) => drop(self.to_do.insert(number)),
                Ok(Step::Over) => gone.push((number, json!({ "echoed": client.bytes }))),
                Err(Error::PeerLost(loss)) => {
                    gone.push((number, json!({ "echoed": client.bytes, "lost": loss.to_string() })));
                }
                Err(error) if is_gone(&error) => return Err(error.into()),
                // A protocol violation ends only that client.
                Err(error) => {
                    gone.push((number, json!({ "echoed": client.bytes, "lost": error.to_string() })));
                }
            }
        }
        for (number, last) in gone {
            self.clients.remove(&number);
            self.served += 1;
            print(&last)?;
        }
        Ok(())
    }
}

/// The result of a step.
enum Step {
    /// It did some work, and there may be more.
    Busy,
    /// There was no work.
    Idle,
    /// The client is done.
    Over,
}

impl Client {
    fn new(pair: StreamPair) -> Self {
        Self { pair, echo: Vec::new(), bytes: 0, closed: false }
    }

    /// Does what is possible without waiting.
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
                Err(error) => later(error)?,
            }
        }
        // Flushes, because the client may be waiting for these bytes.
        let last = self.closed && self.echo.is_empty();
        let sender = &mut self.pair.sender;
        match if last { sender.try_close() } else { sender.try_flush() } {
            Ok(()) if last => return Ok(Step::Over),
            Ok(()) => {}
            Err(error) => later(error)?,
        }
        Ok(step)
    }

    /// Takes a record if one has arrived.
    fn take(&mut self) -> hamlyn::Result<bool> {
        let number = match self.pair.receiver.try_recv() {
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

/// Ignores `WouldBlock`: the client's token is reported once the client or the card has made room.
fn later(error: Error) -> hamlyn::Result<()> {
    if error.is_would_block() { Ok(()) } else { Err(error) }
}
