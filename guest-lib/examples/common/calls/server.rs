//! The called side: one thread for all clients. The program that uses it executes the calls and
//! answers them, at once or later.

use std::collections::{BTreeMap, VecDeque};
use std::io::{Write, stderr};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use hamlyn::Polling;
use hamlyn::channel::{Card, Listener, Options};

use super::frame::{Frame, Kind};
use super::line::{Line, Lost};
use crate::{Outcome, is_gone, left, sleep};

/// A server.
pub struct Server {
    listener: Listener,
    /// The clients, by number.
    lines: BTreeMap<u64, Line>,
    admitted: u64,
    events: VecDeque<Event>,
}

/// An event to be handled.
#[derive(Debug)]
pub enum Event {
    /// A client calls.
    Called(Call),
    /// A client is gone, for this reason. Its calls need no answer.
    Gone {
        /// The client's number.
        client: u64,
        /// Why it is gone.
        reason: String,
    },
}

/// A call.
#[derive(Debug)]
pub struct Call {
    /// The destination of the answer.
    pub asker: Asker,
    /// The name of what is called.
    pub procedure: String,
    /// The caller's bytes.
    pub arguments: Vec<u8>,
}

/// Identifies the client and the call of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asker {
    /// The client's number, which a server never reuses.
    pub client: u64,
    /// The client's number for the call.
    pub call: u32,
}

impl Server {
    /// Opens a server with this name.
    pub fn open(card: &Card, name: &str) -> Outcome<Self> {
        let listener = Listener::bind(card, name, Options::default())?;
        Ok(Self { listener, lines: BTreeMap::new(), admitted: 0, events: VecDeque::new() })
    }

    /// Returns the next event, if one occurs within `patience`.
    pub fn next(&mut self, patience: Duration) -> Outcome<Option<Event>> {
        let begun = Instant::now();
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(Some(event));
            }
            self.admit()?;
            self.look_around();
            if self.events.is_empty() {
                let left = left(begun, patience);
                if left.is_zero() {
                    return Ok(None);
                }
                self.sleep(left)?;
            }
        }
    }

    /// Answers a call with a result, or with the reason why there is none. An answer to a client
    /// that is gone is dropped.
    pub fn answer(&mut self, to: Asker, answer: Result<&[u8], &str>) {
        let Some(line) = self.lines.get_mut(&to.client) else { return };
        let posted = match answer {
            Ok(result) => line.post(to.call, &Kind::Result, result),
            Err(reason) => line.post(to.call, &Kind::Error, reason.as_bytes()),
        };
        // The result is too long: report that to the client.
        let posted = posted.or_else(|error| line.post(to.call, &Kind::Error, error.to_string().as_bytes()));
        let sent = posted.map_err(Lost::from).and_then(|()| line.push());
        if let Err(error) = sent {
            self.part(to.client, &error.to_string());
        }
    }

    /// Admits a client that has connected. A client that cannot be admitted does not affect the
    /// others.
    fn admit(&mut self) -> Outcome {
        match self.listener.try_accept() {
            Ok(channel) => {
                self.admitted += 1;
                self.lines.insert(self.admitted, Line::over(channel));
            }
            Err(error) if error.is_would_block() => {}
            // The card is gone, and the name with it.
            Err(error) if is_gone(&error) => return Err(error.into()),
            Err(error) => drop(writeln!(stderr(), "a client could not be let in: {error}")),
        }
        Ok(())
    }

    /// Takes one call from each client that has taken its results. So no client is served before
    /// the others, and pending results are bounded.
    fn look_around(&mut self) {
        let mut gone = Vec::new();
        for (client, line) in &mut self.lines {
            let frame = match line.push() {
                Ok(true) => line.next(),
                Ok(false) => Ok(None),
                Err(error) => Err(error),
            };
            match frame {
                Ok(None) => {}
                Ok(Some(Frame { number, kind: Kind::Call(procedure), body })) => {
                    let asker = Asker { client: *client, call: number };
                    self.events.push_back(Event::Called(Call { asker, procedure, arguments: body }));
                }
                Ok(Some(_)) => gone.push((*client, "it sent a result, and was not called".to_owned())),
                Err(error) => gone.push((*client, error.to_string())),
            }
        }
        for (client, reason) in gone {
            self.part(client, &reason);
        }
    }

    fn part(&mut self, client: u64, reason: &str) {
        if self.lines.remove(&client).is_some() {
            self.events.push_back(Event::Gone { client, reason: reason.to_owned() });
        }
    }

    /// Sleeps until a client asks, sends or takes something, or ends.
    fn sleep(&mut self, left: Duration) -> Outcome {
        let mut files = vec![self.listener.as_fd()];
        // To poll for one client would delay the others.
        let polling = if self.lines.len() == 1 { Polling::default() } else { Polling::NEVER };
        for line in self.lines.values_mut() {
            line.set_polling(polling);
            // A line that cannot be armed is lost, which the next look reports.
            let Ok(Some(more)) = line.arm(false) else { return Ok(()) };
            files.extend(more);
        }
        sleep(&files, left)
    }
}
