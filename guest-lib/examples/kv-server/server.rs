//! The server: all its clients in one thread, independent of the transport and of how they connect.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::common::{Outcome, print};
use crate::session::{CLOSED, Session, Step, Store, Stream};

/// Delay before polling again for room that causes no notification.
const NAP: Duration = Duration::from_millis(1);
/// Number of rounds over the clients with pending work before the server checks for new events.
const TURNS: usize = 16;

/// Limits of clients.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Number of clients at a time.
    pub(crate) clients: usize,
    /// How long an answer may wait for its client.
    pub(crate) patience: Duration,
    /// Bytes of a value.
    pub(crate) value: usize,
}

/// A server.
#[derive(Debug)]
pub(crate) struct Server<T> {
    limits: Limits,
    store: Store,
    clients: BTreeMap<u64, Session<T>>,
    /// Clients with pending work.
    to_do: BTreeSet<u64>,
    /// Clients that do not take their answers, with their deadlines; the first is the next to be
    /// dropped.
    stuck: BTreeSet<(Instant, u64)>,
    stuck_until: BTreeMap<u64, Instant>,
    /// Clients whose answers wait for room that causes no notification.
    behind: BTreeSet<u64>,
    admitted: u64,
    /// Number of clients that have ended.
    pub(crate) served: u64,
}

impl<T: Stream> Server<T> {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            store: Store::new(),
            clients: BTreeMap::new(),
            to_do: BTreeSet::new(),
            stuck: BTreeSet::new(),
            stuck_until: BTreeMap::new(),
            behind: BTreeSet::new(),
            admitted: 0,
            served: 0,
        }
    }

    /// Returns the reason why no further client is admitted now, if there is one.
    pub(crate) fn refusal(&self) -> Option<String> {
        let (served, limit) = (self.clients.len(), self.limits.clients);
        (served >= limit).then(|| format!("{served} of {limit} clients are being served: come again later"))
    }

    /// Returns the number that the next client will have.
    pub(crate) fn next_number(&self) -> u64 {
        self.admitted
    }

    /// Serves one more client.
    pub(crate) fn admit(&mut self, stream: T) {
        let number = self.admitted;
        self.admitted += 1;
        self.clients.insert(number, Session::new(stream, self.limits.value));
        // A request may have arrived before the client was registered.
        self.to_do.insert(number);
    }

    /// Handles an event of this client: it has sent something, has made room, or has ended.
    pub(crate) fn wake(&mut self, number: u64) {
        if let Some(client) = self.clients.get(&number) {
            client.stream.look_for_end();
            self.to_do.insert(number);
        }
    }

    /// Serves the clients with pending work. Returns how long to wait for more at most; `None`
    /// means forever.
    pub(crate) fn work(&mut self) -> Outcome<Option<Duration>> {
        self.to_do.append(&mut self.behind);
        for _ in 0..TURNS {
            for number in std::mem::take(&mut self.to_do) {
                self.step(number)?;
            }
        }
        let now = Instant::now();
        while let Some((_, number)) = self.stuck.first().filter(|(until, _)| *until <= now).copied() {
            self.remove(number, &format!("it took no answer for {:?}", self.limits.patience))?;
        }
        let stuck = self.stuck.first().map(|(until, _)| until.saturating_duration_since(now));
        let nap = (!self.behind.is_empty()).then_some(NAP);
        let more = (!self.to_do.is_empty()).then_some(Duration::ZERO);
        Ok([stuck, nap, more].into_iter().flatten().min())
    }

    fn step(&mut self, number: u64) -> Outcome {
        let Some(client) = self.clients.get_mut(&number) else { return Ok(()) };
        let step = client.step(&mut self.store);
        let behind = client.stream.is_behind();
        match step {
            Ok(Step::Stuck) => {
                if behind {
                    self.behind.insert(number);
                }
                let until =
                    *self.stuck_until.entry(number).or_insert_with(|| Instant::now() + self.limits.patience);
                self.stuck.insert((until, number));
                return Ok(());
            }
            Ok(Step::Busy) => drop(self.to_do.insert(number)),
            Ok(Step::Idle) => {}
            Ok(Step::Over(why)) => return self.remove(number, &why),
            Err(error) => return self.remove(number, &error.to_string()),
        }
        self.free(number);
        Ok(())
    }

    /// Clears the deadline of a client that has taken its answer.
    fn free(&mut self, number: u64) {
        if let Some(until) = self.stuck_until.remove(&number) {
            self.stuck.remove(&(until, number));
        }
    }

    /// Drops a client: its resources of the card are freed, and it is notified.
    fn remove(&mut self, number: u64, why: &str) -> Outcome {
        self.free(number);
        let Some(client) = self.clients.remove(&number) else { return Ok(()) };
        self.served += 1;
        // A client that closed has ended normally.
        if why == CLOSED {
            Ok(())
        } else {
            print(&json!({ "client": number, "answered": client.answered, "ended": why }))
        }
    }
}
