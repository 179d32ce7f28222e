//! The server: all its clients in one thread, independent of the transport.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use mio::Interest;
use serde_json::json;

use crate::common::{Outcome, print};
use crate::news::News;
use crate::session::{Awaited, CLOSED, Session, Step, Store, Stream};
use crate::wire::{self, Status};

/// Number under which the door's file is watched.
const DOOR: u64 = u64::MAX >> 1;
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

/// Where clients connect. Its file is readable while one asks.
pub(crate) trait Door: AsFd {
    type Client: Stream;

    /// Admits the next client that asks, if there is one. An error ends the server.
    fn next(&self) -> Outcome<Result<Option<Self::Client>, Refused>>;
}

/// Why a client was not admitted, which it has been told.
pub(crate) struct Refused(pub(crate) String);

/// A server.
#[derive(Debug)]
struct Server<T> {
    limits: Limits,
    store: Store,
    clients: BTreeMap<u64, Session<T>>,
    /// Clients with pending work.
    to_do: BTreeSet<u64>,
    /// Clients that do not take their answers, with their deadlines; the first is the next to be
    /// dropped.
    stuck: BTreeSet<(Instant, u64)>,
    stuck_until: BTreeMap<u64, Instant>,
    news: News,
    admitted: u64,
    /// Number of clients that have ended.
    served: u64,
}

/// Serves until `until` clients have ended.
pub(crate) fn serve(door: &impl Door, limits: Limits, until: u64) -> Outcome {
    let mut server = Server::new(limits)?;
    server.news.watch(DOOR, door.as_fd(), Interest::READABLE)?;
    while server.served < until {
        server.admit(door)?;
        let limit = server.work()?;
        if server.served < until {
            // A client's number stands for its file. An end is an event, too.
            let ready = server.news.wait(limit)?;
            server.to_do.extend(ready);
        }
    }
    Ok(())
}

impl<T: Stream> Server<T> {
    fn new(limits: Limits) -> Outcome<Self> {
        Ok(Self {
            limits,
            store: Store::new(),
            clients: BTreeMap::new(),
            to_do: BTreeSet::new(),
            stuck: BTreeSet::new(),
            stuck_until: BTreeMap::new(),
            news: News::new()?,
            admitted: 0,
            served: 0,
        })
    }

    /// Admits all clients that ask, or tells them why not.
    fn admit(&mut self, door: &impl Door<Client = T>) -> Outcome {
        loop {
            let (served, limit) = (self.clients.len(), self.limits.clients);
            let reason = match door.next()? {
                Ok(None) => return Ok(()),
                Ok(Some(client)) if served < limit => {
                    let number = self.admitted;
                    self.admitted += 1;
                    self.clients.insert(number, Session::new(client, self.limits.value));
                    // A request may have arrived already.
                    self.to_do.insert(number);
                    continue;
                }
                Ok(Some(mut client)) => {
                    let reason = format!("{served} of {limit} clients are being served: come again later");
                    // If the client has gone meanwhile, there is nothing to refuse.
                    let _ = client.write(&wire::answer(Status::Refused, reason.as_bytes()));
                    let _ = client.close();
                    reason
                }
                // The others are still served.
                Err(Refused(reason)) => reason,
            };
            print(&json!({ "refused": reason }))?;
        }
    }

    /// Serves the clients with pending work. Returns how long to wait for more at most; `None`
    /// means forever.
    fn work(&mut self) -> Outcome<Option<Duration>> {
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
        let more = (!self.to_do.is_empty()).then_some(Duration::ZERO);
        Ok([stuck, more].into_iter().flatten().min())
    }

    fn step(&mut self, number: u64) -> Outcome {
        let is_only = self.clients.len() == 1;
        let Some(client) = self.clients.get_mut(&number) else { return Ok(()) };
        let step = client.step(&mut self.store);
        let again = match &step {
            Ok(Step::Waits(awaited)) => client.stream.arm(number, *awaited, is_only, &self.news),
            _ => Ok(true),
        };
        match step.and_then(|step| Ok((step, again?))) {
            Ok((Step::Over(why), _)) => self.remove(number, &why),
            Err(error) => self.remove(number, &error.to_string()),
            Ok((step, again)) => {
                if again {
                    self.to_do.insert(number);
                }
                // A client that takes a part of its answer gets no more time for the rest.
                if let Step::Waits(Awaited::Room(_)) = step {
                    self.give_time(number)
                } else {
                    self.free(number)
                }
                Ok(())
            }
        }
    }

    /// Sets the deadline of a client that has not taken all of its answer.
    fn give_time(&mut self, number: u64) {
        let until = *self.stuck_until.entry(number).or_insert_with(|| Instant::now() + self.limits.patience);
        self.stuck.insert((until, number));
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
