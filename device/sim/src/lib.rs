//! Seeded simulation of whole fabrics in one thread: real cards, real links, a real switch, the real user library.
//!
//! A seed decides everything: the fabric, its traffic, every interleaving of cards, switch and processes, and all
//! misfortunes. So a run that goes wrong can be run again.
//!
//! | module | holds |
//! |---|---|
//! | `world`, `schedule` | the fabric, and who goes next |
//! | `host`, `machine`, `memory`, `area`, `window`, `clock`, `uplink` | a card's surroundings: its ports, and who uses it |
//! | `driver`, `attachment` | what processes have opened of a card, and how the library asks for it |
//! | `process`, `program`, `traffic`, `sending`, `receiving`, `fetching` | honest programs and their messages, by the library |
//! | `system` | the operating systems, as far as they set connections up and watch over them |
//! | `correspondent`, `streams`, `conversing` | programs of the library's upper layer, their streams and their connections |
//! | `intruder`, `blunders`, `forgery`, `faults`, `standstill` | hostile programs, wrong requests, misfortunes |
//! | `delivery` | a packet reaches its card |
//! | `judge` | what a card must do with one packet, worked out a second time |
//! | `ledger`, `fetches`, `connections` | what each honest message, fetch-and-op and connection should do, and has done |
//! | `invariants` | what holds when everything has come to rest |
//!
//! **What is checked, and when.** At every access of a card to memory: it lies in what the driver has opened. At every
//! packet: the card writes what the judge says and no other byte, the notification last; one counter counts. At every
//! packet of an honest message: it is one that was sent, with the right bytes, for the first time. At every record of a stream:
//! it has the bytes that come next, and does not change while it is held. At every
//! request for a connection, answer and end: it is of that connection, and so. At every
//! notification: its message is whole and was not notified before. At every fetch-and-op: it was asked, the word changes
//! once, and the answer is true. At every call of the library: what it says is so. While a card takes nothing: what is not for it
//! arrives. At rest: nothing accepted is lost
//! while its ends live, every queue is empty, counters balance; every side of a connection knows that it is over, and
//! no operating system remembers any. When all processes have ended: nothing is open, and no page is lost.

mod area;
mod attachment;
mod blunders;
mod clock;
mod connections;
mod conversing;
mod correspondent;
mod delivery;
mod dozing;
mod driver;
mod faults;
mod fetches;
mod fetching;
mod forgery;
mod host;
mod intruder;
mod invariants;
mod judge;
mod ledger;
mod machine;
mod memory;
mod process;
mod program;
mod questions;
mod receiving;
mod rng;
mod scenario;
mod schedule;
mod sending;
mod standstill;
mod streams;
mod system;
mod traffic;
mod uplink;
mod violation;
mod window;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

use hamlyn_abi::hamlyn::statistics::HAMLYN_STATISTICS;
pub use scenario::Scenario;
pub use violation::Violation;

use rng::Rng;
use world::World;

/// How a simulation ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Its seed.
    pub seed: u64,
    /// Steps taken.
    pub steps: u64,
    /// Faults injected.
    pub faults: u64,
    /// Packets that reached a card.
    pub packets: u64,
    /// Honest messages made.
    pub messages: u64,
    /// Honest messages delivered, those among them that had an excuse not to be.
    pub delivered: u64,
    /// Times that a message found its sender's work queue full.
    pub blocked: u64,
    /// Times that a program slept until its requests were finished.
    pub dozed: u64,
    /// Messages that were delivered while a card stood still, and others waited for it.
    pub bystanders: u64,
    /// Notifications that were overwritten unread, and whose reader was told.
    pub overwritten: u64,
    /// Pairs of hosts, sender and receiver, between which a message was delivered.
    pub pairs: u64,
    /// Bytes that streams delivered.
    pub streamed: u64,
    /// Streams that came to a good end.
    pub streams: u64,
    /// Streams that were broken by a misfortune, and whose receiver was told.
    pub broken_streams: u64,
    /// Connections that were established.
    pub connections: u64,
    /// Requests for a connection that were told why there is none.
    pub refused_connections: u64,
    /// Questions for a name that were answered: that somebody listens, that nobody does, not at all.
    pub answers: [u64; 3],
    /// Ends that a side of a connection was told of, by reason, in the order of [`hamlyn::EndReason::ALL`].
    pub connection_ends: Vec<u64>,
    /// The cards' counters at the end, by number, all cards together.
    pub counters: Vec<u64>,
    /// What went wrong.
    pub violation: Option<Violation>,
    /// The last events before that.
    pub events: Vec<String>,
}

/// Runs the simulation of a seed. `cards` fixes the number of cards (2 to 8), else the seed chooses.
pub fn run(seed: u64, cards: Option<u16>) -> Outcome {
    let mut rng = Rng::new(seed);
    let scenario = Scenario::choose(&mut rng, cards);
    run_scenario(seed, rng, scenario)
}

/// Runs a scenario with the decisions of a seed.
pub fn run_as(seed: u64, scenario: Scenario) -> Outcome {
    run_scenario(seed, Rng::new(seed), scenario)
}

fn run_scenario(seed: u64, rng: Rng, scenario: Scenario) -> Outcome {
    let mut outcome = Outcome { seed, ..Outcome::default() };
    let mut world = match World::new(rng, scenario) {
        Ok(world) => world,
        Err(violation) => return Outcome { violation: Some(violation), ..outcome },
    };
    // A card, link or switch that panics has failed as much as one that does wrong.
    let result = catch_unwind(AssertUnwindSafe(|| world.run()));
    outcome.violation = result.unwrap_or_else(|_| Err(Violation::new("it panicked"))).err();
    outcome.steps = world.step;
    outcome.faults = world.faults;
    outcome.packets = world.hosts.iter().map(|host| host.uplink.taken).sum();
    outcome.messages = world.ledger.parts.len() as u64;
    outcome.delivered = world.ledger.delivered();
    outcome.blocked = world.blocked;
    outcome.dozed = world.dozed;
    outcome.bystanders = world.bystanders;
    outcome.overwritten = world.ledger.overwritten;
    outcome.pairs = world.ledger.pairs();
    (outcome.streamed, outcome.streams, outcome.broken_streams) = world.stream_totals();
    (outcome.connections, outcome.refused_connections) = world.connection_totals();
    let answers = world.connections.answers;
    outcome.answers = [answers.listening, answers.nobody, answers.silent];
    outcome.connection_ends = world.connections.ends.to_vec();
    outcome.counters = vec![0; HAMLYN_STATISTICS as usize];
    for host in &world.hosts {
        outcome.counters.iter_mut().zip(host.machine.counters()).for_each(|(sum, count)| *sum += count);
    }
    if outcome.violation.is_some() {
        outcome.events = world.take_events();
    }
    outcome
}
