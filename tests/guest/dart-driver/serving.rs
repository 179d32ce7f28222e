//! The server's side of the compound operations. Reads one command per line and answers each.
//!
//! | line | answer |
//! |---|---|
//! | `admit` | `admitted`: the next client, for all operations |
//! | `counter REGISTER` | its `value` |
//! | `word OFFSET` | the `value` of 8 bytes in memory |
//! | `log ENTRIES` | `set`: creates a log of ENTRIES entries |
//! | `logged` | the `entries` of the log, sorted |
//! | `items COUNT` | the number that `came`, and the number of each client, ordered by client |
//! | `backlog` | `begun` |
//! | `urgent` | whether an `event` arrived within a moment, and the priorities of the entries `taken` |
//! | `barrier ROUNDS` | the last `round` |
//! | `calls COUNT` | the number `answered` |

use std::collections::BTreeMap;
use std::io::BufRead;
use std::sync::Arc;
use std::time::Duration;

use hamlyn::Listener;
use hamlyn::dart::programs::{Backlog, Barrier, Log, PriorityRegisters, Server};
use hamlyn::dart::*;
use serde_json::{Value, json};

use crate::common::{Outcome, print};

/// Purposes of a client's connections.
pub(crate) const NAMES: [&str; 5] = ["memory", "items", "urgent", "barrier", "calls"];
pub(crate) const LENGTH: usize = 1 << 20;
pub(crate) const LOG: Log = Log { tail: 8, step: 9, end: 10 };
pub(crate) const ENTRY: u32 = 16;
pub(crate) const LOG_START: u64 = 4096;
pub(crate) const URGENT: PriorityRegisters = PriorityRegisters { tail: 11, most: 12, step: 13 };
const URGENT_START: u64 = 1 << 19;
pub(crate) const BARRIER: u8 = 14;
/// Bytes of each client's place for arguments.
pub(crate) const SIZE: u64 = 1024;
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
const MOMENT: Duration = Duration::from_secs(2);

struct Part {
    endpoint: Arc<Endpoint>,
    bank: Bank,
    /// `None` once a program has taken it.
    events: Option<Queue>,
    listener: Listener,
    clients: Vec<Arc<Connection>>,
}

pub(crate) fn run(card: &Card) -> Outcome {
    let mut parts = Vec::new();
    for name in NAMES {
        let endpoint = Arc::new(card.endpoint(LENGTH)?);
        let events = Some(card.queue(16, Urgency::Delayed)?);
        let (bank, listener) = (card.bank(32, 0)?, card.listen(name)?);
        parts.push(Part { endpoint, bank, events, listener, clients: Vec::new() });
    }
    print(&json!({ "serving": true }))?;
    let mut serving = Serving { card, parts, known: Vec::new(), backlog: None, barrier: None, server: None };
    for line in std::io::stdin().lock().lines() {
        let answer = serving.obey(&line?).unwrap_or_else(|error| json!({ "error": error.to_string() }));
        print(&answer)?;
    }
    Ok(())
}

struct Serving<'a> {
    card: &'a Card,
    parts: Vec<Part>,
    known: Vec<hamlyn::Connection>,
    backlog: Option<(Backlog, Queue)>,
    barrier: Option<Barrier>,
    server: Option<Server>,
}

impl Serving<'_> {
    fn obey(&mut self, line: &str) -> Outcome<Value> {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["admit"] => self.admit(),
            ["counter", register] => Ok(json!({ "value": self.client(0)?.register(register.parse()?)? })),
            ["word", offset] => {
                let mut bytes = [0; 8];
                self.parts[0].endpoint.read(offset.parse()?, &mut bytes)?;
                Ok(json!({ "value": u64::from_le_bytes(bytes) }))
            }
            ["log", entries] => {
                LOG.set(self.client(0)?, LOG_START, ENTRY, entries.parse()?)?;
                Ok(json!({ "set": true }))
            }
            ["logged"] => self.logged(),
            ["items", count] => self.items(count.parse()?),
            ["backlog"] => {
                let backlog = Backlog::new(self.client(2)?.clone(), URGENT, URGENT_START)?;
                let events = self.parts[2].events.take().ok_or("it has begun")?;
                self.backlog = Some((backlog, events));
                Ok(json!({ "begun": true }))
            }
            ["urgent"] => self.urgent(),
            ["barrier", rounds] => self.barrier(rounds.parse()?),
            ["calls", count] => self.calls(count.parse()?),
            _ => Err(format!("what is {line:?}?").into()),
        }
    }

    fn client(&self, part: usize) -> Outcome<&Arc<Connection>> {
        self.parts[part].clients.first().ok_or_else(|| "there is no client".into())
    }

    fn admit(&mut self) -> Outcome<Value> {
        for part in &mut self.parts {
            let events = part.events.as_ref().ok_or("a program has begun")?;
            // Each client also has its own registers, from 16 on. The window contains more
            // registers than those shared by all clients.
            let builder = self.card.connection(&part.endpoint, &part.bank).events(events);
            let (connection, known) = builder.admit(part.listener.request_timeout(PATIENCE)?)?;
            part.clients.push(Arc::new(connection));
            self.known.push(known);
        }
        Ok(json!({ "admitted": self.parts[0].clients.len() }))
    }

    fn logged(&self) -> Outcome<Value> {
        let written = LOG.written(self.client(0)?, LOG_START)?;
        let mut entries = Vec::new();
        for at in (0..written).step_by(ENTRY as usize) {
            let mut bytes = [0; 8];
            self.parts[0].endpoint.read((LOG_START + at) as usize, &mut bytes)?;
            entries.push(u64::from_le_bytes(bytes));
        }
        entries.sort_unstable();
        Ok(json!({ "entries": entries }))
    }

    fn items(&mut self, count: u64) -> Outcome<Value> {
        let events = self.parts[1].events.as_mut().ok_or("a program has them")?;
        let mut next = BTreeMap::new();
        for _ in 0..count {
            let record = events.recv_timeout(PATIENCE)?;
            let own = next.entry(record.connection).or_insert(0);
            if record.operand() != *own || record.word(0) != Some(*own * 3) {
                return Err(format!("item {} of {}, not {own}", record.operand(), record.connection).into());
            }
            *own += 1;
        }
        Ok(json!({ "came": count, "each": next.into_values().collect::<Vec<u64>>() }))
    }

    fn urgent(&mut self) -> Outcome<Value> {
        let (backlog, events) = self.backlog.as_mut().ok_or("there is no backlog")?;
        let event = events.recv_timeout(MOMENT).is_ok();
        while events.try_recv().is_some() {}
        let taken = backlog.take(&self.parts[2].endpoint)?;
        let taken: Vec<u64> = taken.into_iter().map(|(priority, _)| priority).collect();
        Ok(json!({ "event": event, "taken": taken }))
    }

    fn barrier(&mut self, rounds: u64) -> Outcome<Value> {
        let part = &mut self.parts[3];
        if let Some(events) = part.events.take() {
            self.barrier = Some(Barrier::new(part.clients.clone(), events, BARRIER)?);
        }
        let barrier = self.barrier.as_mut().ok_or("there is no barrier")?;
        let mut last = 0;
        // The members may join now.
        print(&json!({ "open": true }))?;
        for _ in 0..rounds {
            last = barrier.release_timeout(PATIENCE)?;
        }
        Ok(json!({ "round": last }))
    }

    fn calls(&mut self, count: u64) -> Outcome<Value> {
        let part = &mut self.parts[4];
        if let Some(events) = part.events.take() {
            let (endpoint, clients) = (part.endpoint.clone(), part.clients.clone());
            self.server = Some(Server::new(endpoint, clients, events, SIZE));
        }
        let server = self.server.as_mut().ok_or("there is no server")?;
        for _ in 0..count {
            let call = server.recv_timeout(PATIENCE)?;
            let result: Vec<u8> = call.arguments.iter().rev().copied().collect();
            server.answer(&call, &result)?;
        }
        Ok(json!({ "answered": count }))
    }
}
