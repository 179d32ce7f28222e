//! How the programs meet: one host has memory and registers, others do something with them.
//!
//! Each of the others says that it is ready, and begins when it is told its number, and how many
//! there are. Register 0 counts how often one of them was done, so that nobody has to be disturbed
//! to know it. What the card has counted in between is that of the operation alone.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hamlyn::dart::{
    Bank, Card, Connection, Endpoint, Operation, Queue, Rights, Source, Step, Target, Urgency,
};
use hamlyn::{Connection as Known, EndReason, Error, ErrorKind};
use serde_json::{Map, Value, json};

use crate::Options;
use crate::common::{Outcome, print};

/// Bytes of an endpoint that nobody wants larger.
pub(crate) const MEMORY: usize = 4 * PAGE;
const PAGE: usize = 4096;
/// Registers of a window: this one counts who is done; from `OWN` on each of the others has one for
/// itself.
const REGISTERS: u32 = 32;
const DONE: u8 = 0;
pub(crate) const OWN: u8 = 16;
/// How soon it is asked again who has the name.
const AGAIN: Duration = Duration::from_millis(50);
/// How soon register 0 is looked at again.
const LOOK: Duration = Duration::from_millis(2);
/// What the card counts that is told of.
const TOLD: [&str; 6] = ["executed", "primitives", "records", "queue_waits", "misses", "interrupts"];

/// Looks until there is something; others may run meanwhile.
pub(crate) fn look<T>(
    patience: Option<Duration>,
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
        if patience.is_some_and(|patience| begun.elapsed() > patience) {
            return Err(format!("{what} did not come within {:?}", begun.elapsed()).into());
        }
        std::thread::yield_now();
    }
}

/// What a home is like.
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

/// What the one host has.
pub(crate) struct Home {
    card: Card,
    pub(crate) endpoint: Arc<Endpoint>,
    pub(crate) bank: Bank,
    /// None once a program has it.
    events: Option<Queue>,
    pub(crate) exceptions: Queue,
    pub(crate) others: Vec<Arc<Connection>>,
    known: Vec<Known>,
    pub(crate) patience: Option<Duration>,
    /// What the card had counted when they began.
    before: Vec<(&'static str, u64)>,
    /// How often all were done.
    rounds: u64,
}

impl Home {
    /// Waits for all others, who do not begin yet.
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
            let (connection, other) = builder.admit(listener.request(patience)?)?;
            others.push(Arc::new(connection));
            known.push(other);
        }
        for _ in 0..options.others {
            events.wait(patience)?;
        }
        let events = Some(events);
        let card = card.clone();
        let before = Vec::new();
        Ok(Self { card, endpoint, bank, events, exceptions, others, known, patience, before, rounds: 0 })
    }

    /// Its queue of events.
    pub(crate) fn events(&mut self) -> Outcome<Queue> {
        Ok(self.events.take().ok_or("somebody has the queue of events")?)
    }

    /// Lets them begin.
    pub(crate) fn begin(&mut self) -> Outcome {
        self.before = self.card.statistics()?;
        let others = (self.others.len() as u64) << 32;
        for (own, other) in self.others.iter().enumerate() {
            other.send_wait(&Operation::registers(others | own as u64).tell(), 0..0, self.patience)?;
        }
        Ok(())
    }

    /// Looks until all are done once more. What the card has counted since they began.
    pub(crate) fn wait(&mut self) -> Outcome<Map<String, Value>> {
        self.rounds += self.others.len() as u64;
        let (first, begun) = (&self.others[0], Instant::now());
        while first.register(DONE.into())? < self.rounds {
            if let Some(broken) = self.others.iter().find_map(|other| other.status().broken) {
                return Err(broken.into());
            }
            if self.patience.is_some_and(|patience| begun.elapsed() > patience) {
                return Err("not all are done in time".into());
            }
            std::thread::sleep(LOOK);
        }
        let now = self.card.statistics()?;
        let counted = self.before.iter().zip(now).filter(|((name, _), _)| TOLD.contains(name));
        Ok(counted.map(|((name, before), (_, now))| ((*name).to_owned(), json!(now - before))).collect())
    }

    /// How much of something the card has counted since they began.
    pub(crate) fn counted(&self, name: &str) -> Outcome<u64> {
        let of = |all: &[(&str, u64)]| all.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
        let (before, now) = (of(&self.before), of(&self.card.statistics()?));
        Ok(now.zip(before).map(|(now, before)| now - before).ok_or("the card has no such counter")?)
    }

    /// Says what came of it, and lets all go.
    pub(crate) fn end(self, result: &Value, counted: Map<String, Value>) -> Outcome {
        let mut told = counted;
        told.extend(result.as_object().cloned().unwrap_or_default());
        print(&told.into())?;
        self.known.into_iter().try_for_each(|known| Ok(known.close(b"")?))
    }
}

/// What one of the others has.
pub(crate) struct Guest {
    pub(crate) endpoint: Arc<Endpoint>,
    pub(crate) connection: Arc<Connection>,
    /// None once a program has it.
    answers: Option<Queue>,
    /// A number that no other has, from 0.
    pub(crate) own: u64,
    /// How many others there are, this one among them.
    pub(crate) others: u64,
    known: Known,
    pub(crate) patience: Option<Duration>,
}

impl Guest {
    /// Finds who has the name, and waits until it may begin.
    pub(crate) fn meet(card: &Card, options: &Options) -> Outcome<Self> {
        Self::reach(card, options, MEMORY, true)
    }

    /// The same with so much memory of its own. If it is to be `warm`, pages of the other's memory
    /// are written to first, whose misses interrupt that host.
    pub(crate) fn reach(card: &Card, options: &Options, memory: usize, warm: bool) -> Outcome<Self> {
        let patience = options.patience();
        let (endpoint, bank) = (Arc::new(card.endpoint(memory)?), card.bank(REGISTERS, 0)?);
        let answers = card.queue(64, Urgency::Delayed)?;
        let builder = card.connection(&endpoint, &bank).events(&answers);
        let begun = Instant::now();
        let (connection, known) = loop {
            let hosts = match options.host {
                Some(host) => vec![host],
                None => card.find(&options.name(), Some(hamlyn::FIND_TIMEOUT))?.hosts,
            };
            let reached = hosts.first().map(|host| builder.reach(card, *host, &options.name()));
            match reached {
                Some(Err(error)) if !is_passing(&error) => return Err(error.into()),
                Some(Ok(found)) => break found,
                _ if patience.is_some_and(|patience| begun.elapsed() > patience) => {
                    return Err(format!("no host has the name {}", options.name()).into());
                }
                _ => std::thread::sleep(AGAIN),
            }
        };
        let connection = Arc::new(connection);
        for page in (0..if warm { MEMORY } else { 0 }).step_by(PAGE) {
            connection.send_wait(&Operation::write(page as u64).mask(0xfe), 0..4, patience)?;
        }
        connection.send_wait(&Operation::registers(0).tell(), 0..0, patience)?;
        let answers = Some(answers);
        let mut guest = Self { endpoint, connection, answers, own: 0, others: 0, known, patience };
        let told = guest.next()?;
        (guest.own, guest.others) = (told & u64::from(u32::MAX), told >> 32);
        Ok(guest)
    }

    /// Waits until it may begin, once more.
    pub(crate) fn next(&mut self) -> Outcome<u64> {
        let answers = self.answers.as_mut().ok_or("a program has the queue")?;
        Ok(answers.wait(self.patience)?.operand())
    }

    /// The queue of what is told to it.
    pub(crate) fn answers(&mut self) -> Outcome<Queue> {
        Ok(self.answers.take().ok_or("a program has the queue")?)
    }

    /// The register that is its alone.
    pub(crate) fn register(&self) -> u8 {
        OWN + self.own as u8
    }

    /// It is done.
    pub(crate) fn done(&self) -> Outcome {
        let one = Operation::registers(0).first(Step::Increment, Source::Operand, Target::I);
        Ok(self.connection.send_wait(&one.indices([DONE, 0, 0]), 0..0, self.patience)?)
    }

    /// It is done, and waits until the other lets it go.
    pub(crate) fn end(self, result: &Value) -> Outcome {
        self.done()?;
        self.known.wait_end(self.patience)?;
        print(result)
    }
}

/// Returns whether a later attempt may succeed: the name is not registered yet. A rejection is
/// final.
fn is_passing(error: &Error) -> bool {
    let is_refused = matches!(error, Error::Ended(end) if end.reason == EndReason::Rejected);
    error.kind() == ErrorKind::PeerLost && !is_refused
}
