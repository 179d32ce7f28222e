//! How the programs meet: one host provides memory and registers, others operate on them.
//!
//! Each of the others reports that it is ready. It begins when it receives its number and the
//! number of others. Register 0 counts how often one of them was done, so that counting needs no
//! interrupt. The card's counters in between are therefore those of the operation alone.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hamlyn::dart::{
    Bank, Card, Connection, Endpoint, Operation, Queue, Rights, Source, Step, Target, Urgency,
};
use hamlyn::{Connection as Known, EndReason, Error, ErrorKind};
use serde_json::{Map, Value, json};

use crate::Options;
use crate::common::{Outcome, print};

/// Bytes of an endpoint, unless a program needs more.
pub(crate) const MEMORY: usize = 4 * PAGE;
const PAGE: usize = 4096;
/// Number of registers of a window. `DONE` counts the others that are done; from `OWN` on, each of
/// the others has its own register.
const REGISTERS: u32 = 32;
const DONE: u8 = 0;
pub(crate) const OWN: u8 = 16;
/// Delay before a name is looked up again.
const AGAIN: Duration = Duration::from_millis(50);
/// Interval between two polls of register 0.
const LOOK: Duration = Duration::from_millis(2);
/// The card's counters have come to rest if they do not change in this time.
const SETTLED: Duration = Duration::from_millis(20);
/// The card's counters that are reported.
const TOLD: [&str; 6] = ["executed", "primitives", "records", "queue_waits", "misses", "interrupts"];

/// Polls until `look` returns a value; other threads may run meanwhile.
pub(crate) fn look<T>(
    patience: Duration,
    what: &str,
    mut look: impl FnMut() -> Outcome<Option<T>>,
) -> Outcome<T> {
    let begun = Instant::now();
    loop {
        for _ in 0..200 {
            if let Some(found) = look()? {
                return Ok(found);
            }
            std::hint::spin_loop();
        }
        if begun.elapsed() > patience {
            return Err(format!("{what} did not come within {:?}", begun.elapsed()).into());
        }
        std::thread::yield_now();
    }
}

/// The resources of a home.
pub(crate) struct Plan {
    pub(crate) memory: usize,
    /// Entries of its program, which the others may call.
    pub(crate) entries: u32,
    pub(crate) records: u32,
    pub(crate) urgency: Urgency,
    pub(crate) rights: Rights,
}

impl Default for Plan {
    fn default() -> Self {
        Self { memory: MEMORY, entries: 0, records: 64, urgency: Urgency::Delayed, rights: Rights::ReadWrite }
    }
}

/// The objects of the one host.
pub(crate) struct Home {
    card: Card,
    pub(crate) endpoint: Arc<Endpoint>,
    pub(crate) bank: Bank,
    /// `None` once a program has taken it.
    events: Option<Queue>,
    pub(crate) exceptions: Queue,
    pub(crate) others: Vec<Arc<Connection>>,
    known: Vec<Known>,
    pub(crate) patience: Duration,
    /// The card's counters when the others began.
    before: Vec<(&'static str, u64)>,
    /// Number of `DONE` counts expected so far.
    rounds: u64,
}

impl Home {
    /// Waits until all others have connected. They do not begin yet.
    pub(crate) fn open(card: &Card, options: &Options, plan: Plan) -> Outcome<Self> {
        let (endpoint, bank) = (Arc::new(card.endpoint(plan.memory)?), card.bank(REGISTERS, plan.entries)?);
        let mut events = card.queue(plan.records, plan.urgency)?;
        let exceptions = card.queue(16, Urgency::Immediate)?;
        let (listener, patience) = (card.listen(&options.name())?, options.patience());
        print(&json!({ "listening": options.name(), "host": card.host()? }))?;
        let builder = card.connection(&endpoint, &bank).rights(plan.rights);
        let builder = builder.program(0..plan.entries).events(&events).exceptions(&exceptions);
        let (mut others, mut known) = (Vec::new(), Vec::new());
        for _ in 0..options.others {
            let (connection, other) = builder.admit(listener.request_timeout(patience)?)?;
            others.push(Arc::new(connection));
            known.push(other);
        }
        for _ in 0..options.others {
            events.recv_timeout(patience)?;
        }
        let events = Some(events);
        let card = card.clone();
        let before = Vec::new();
        Ok(Self { card, endpoint, bank, events, exceptions, others, known, patience, before, rounds: 0 })
    }

    /// Takes its queue of events.
    pub(crate) fn events(&mut self) -> Outcome<Queue> {
        Ok(self.events.take().ok_or("the queue of events is taken")?)
    }

    /// Lets the others begin.
    pub(crate) fn begin(&mut self) -> Outcome {
        self.before = self.settled()?;
        let others = (self.others.len() as u64) << 32;
        for (own, other) in self.others.iter().enumerate() {
            other.send_timeout(&Operation::registers(others | own as u64).tell(), 0..0, self.patience)?;
        }
        Ok(())
    }

    /// Waits until the card counts nothing more of what came before: the interrupt for the last
    /// record may come after it was taken. Returns the counters.
    fn settled(&self) -> Outcome<Vec<(&'static str, u64)>> {
        let (mut counted, begun) = (self.card.statistics()?, Instant::now());
        loop {
            std::thread::sleep(SETTLED);
            let now = self.card.statistics()?;
            let told = |all: &[(&str, u64)]| -> Vec<u64> {
                all.iter().filter(|(name, _)| TOLD.contains(name)).map(|(_, value)| *value).collect()
            };
            if told(&now) == told(&counted) {
                return Ok(now);
            }
            if begun.elapsed() > self.patience {
                return Err("the card's counters do not come to rest".into());
            }
            counted = now;
        }
    }

    /// Waits until all others are done once more. Returns what the card has counted since they
    /// began.
    pub(crate) fn wait(&mut self) -> Outcome<Map<String, Value>> {
        self.rounds += self.others.len() as u64;
        let (first, begun) = (&self.others[0], Instant::now());
        while first.register(DONE.into())? < self.rounds {
            if let Some(broken) = self.others.iter().find_map(|other| other.status().broken) {
                return Err(broken.into());
            }
            if begun.elapsed() > self.patience {
                return Err("not all are done in time".into());
            }
            std::thread::sleep(LOOK);
        }
        let now = self.card.statistics()?;
        let counted = self.before.iter().zip(now).filter(|((name, _), _)| TOLD.contains(name));
        Ok(counted.map(|((name, before), (_, now))| ((*name).to_owned(), json!(now - before))).collect())
    }

    /// Returns how much one of the card's counters has grown since they began.
    pub(crate) fn counted(&self, name: &str) -> Outcome<u64> {
        let of = |all: &[(&str, u64)]| all.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
        let (before, now) = (of(&self.before), of(&self.card.statistics()?));
        Ok(now.zip(before).map(|(now, before)| now - before).ok_or("the card has no such counter")?)
    }

    /// Prints the result, and releases all others.
    pub(crate) fn end(self, result: &Value, counted: Map<String, Value>) -> Outcome {
        let mut told = counted;
        told.extend(result.as_object().cloned().unwrap_or_default());
        print(&told.into())?;
        self.known.into_iter().try_for_each(|known| Ok(known.close(b"")?))
    }
}

/// The objects of one of the other hosts.
pub(crate) struct Guest {
    pub(crate) endpoint: Arc<Endpoint>,
    pub(crate) connection: Arc<Connection>,
    /// `None` once a program has taken it.
    answers: Option<Queue>,
    /// A number that no other has, from 0.
    pub(crate) own: u64,
    /// Number of other hosts, including this one.
    pub(crate) others: u64,
    known: Known,
    pub(crate) patience: Duration,
}

impl Guest {
    /// Finds the host that has the name, and waits for the start signal.
    pub(crate) fn meet(card: &Card, options: &Options) -> Outcome<Self> {
        Self::reach(card, options, MEMORY, true)
    }

    /// Like [`Guest::meet`], with `memory` bytes of own memory. If `warm` is true, it writes to the
    /// pages of the other's memory first. The misses of these writes interrupt that host.
    pub(crate) fn reach(card: &Card, options: &Options, memory: usize, warm: bool) -> Outcome<Self> {
        let patience = options.patience();
        let (endpoint, bank) = (Arc::new(card.endpoint(memory)?), card.bank(REGISTERS, 0)?);
        let answers = card.queue(64, Urgency::Delayed)?;
        let builder = card.connection(&endpoint, &bank).events(&answers);
        let begun = Instant::now();
        let (connection, known) = loop {
            let hosts = match options.host {
                Some(host) => vec![host],
                None => card.find_timeout(&options.name(), hamlyn::FIND_TIMEOUT)?.hosts,
            };
            let reached = hosts.first().map(|host| builder.reach(card, *host, &options.name()));
            match reached {
                Some(Err(error)) if !is_passing(&error) => return Err(error.into()),
                Some(Ok(found)) => break found,
                _ if begun.elapsed() > patience => {
                    return Err(format!("no host has the name {}", options.name()).into());
                }
                _ => std::thread::sleep(AGAIN),
            }
        };
        let connection = Arc::new(connection);
        for page in (0..if warm { MEMORY } else { 0 }).step_by(PAGE) {
            connection.send_timeout(&Operation::write(page as u64).mask(0xfe), 0..4, patience)?;
        }
        connection.send_timeout(&Operation::registers(0).tell(), 0..0, patience)?;
        let answers = Some(answers);
        let mut guest = Self { endpoint, connection, answers, own: 0, others: 0, known, patience };
        let told = guest.next()?;
        (guest.own, guest.others) = (told & u64::from(u32::MAX), told >> 32);
        Ok(guest)
    }

    /// Waits for the next start signal.
    pub(crate) fn next(&mut self) -> Outcome<u64> {
        let answers = self.answers.as_mut().ok_or("a program has the queue")?;
        Ok(answers.recv_timeout(self.patience)?.operand())
    }

    /// Takes the queue of the answers to this host.
    pub(crate) fn answers(&mut self) -> Outcome<Queue> {
        Ok(self.answers.take().ok_or("a program has the queue")?)
    }

    /// Returns this host's own register.
    pub(crate) fn register(&self) -> u8 {
        OWN + self.own as u8
    }

    /// Signals that it is done.
    pub(crate) fn done(&self) -> Outcome {
        let one = Operation::registers(0).first(Step::Increment, Source::Operand, Target::I);
        Ok(self.connection.send_timeout(&one.indices([DONE, 0, 0]), 0..0, self.patience)?)
    }

    /// Signals that it is done, and waits until the other releases it.
    pub(crate) fn end(self, result: &Value) -> Outcome {
        self.done()?;
        self.known.wait_end_timeout(self.patience)?;
        print(result)
    }
}

/// Returns whether a later attempt may succeed: the name is not registered yet. A rejection is
/// final.
fn is_passing(error: &Error) -> bool {
    let is_refused = matches!(error, Error::Ended(end) if end.reason == EndReason::Rejected);
    error.kind() == ErrorKind::PeerLost && !is_refused
}
