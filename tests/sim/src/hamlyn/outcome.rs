//! The result of a simulation of Hamlyn cards.

use hamlyn_abi::hamlyn::statistics::HAMLYN_STATISTICS;

use crate::engine::rng::Rng;
use crate::engine::run::{self, Report};
use crate::hamlyn::channels::CHANNEL_ENDS;
use crate::hamlyn::scenario::Scenario;
use crate::hamlyn::world::{Hamlyn, World};

/// The result of a simulation of Hamlyn cards.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The report that every simulation has.
    pub report: Report,
    /// Honest messages made.
    pub messages: u64,
    /// Honest messages delivered, including those that had an excuse not to be.
    pub delivered: u64,
    /// Number of times a message found its sender's work queue full.
    pub blocked: u64,
    /// Number of times a program slept until its requests were finished.
    pub dozed: u64,
    /// Messages that were delivered while a card was stalled and others waited for it.
    pub bystanders: u64,
    /// Number of times a card's memory was full, and the card reported it.
    pub filled: u64,
    /// Notifications that were overwritten unread, and whose reader was told.
    pub overwritten: u64,
    /// Pairs of hosts, sender and receiver, between which a message was delivered.
    pub pairs: u64,
    /// Bytes that streams delivered.
    pub streamed: u64,
    /// Streams that completed.
    pub streams: u64,
    /// Streams that were broken by a fault, and whose receiver was told.
    pub broken_streams: u64,
    /// Connections that were established.
    pub connections: u64,
    /// Ends of channels that programs had.
    pub channels: u64,
    /// Messages that those delivered.
    pub said: u64,
    /// Number of times such an end slept.
    pub slept: u64,
    /// Ends of channels that a side was told of, in the order of [`CHANNEL_ENDS`].
    pub channel_ends: [u64; CHANNEL_ENDS.len()],
    /// Requests for a connection that were told why there is none.
    pub refused_connections: u64,
    /// Questions for a name by answer: a process listens, no process listens, no answer.
    pub answers: [u64; 3],
    /// Ends that a side of a connection was told of, by reason, in the order of
    /// [`hamlyn::EndReason::ALL`].
    pub connection_ends: Vec<u64>,
    /// The cards' counters at the end, by number, summed over all cards.
    pub counters: Vec<u64>,
}

/// Runs the simulation of a seed. `cards` fixes the number of cards (2 to 16); otherwise the seed
/// chooses it.
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
    let (report, world) = run::run(seed, rng, scenario.course(), Hamlyn::new(scenario));
    let Some(world) = world else { return Outcome { report, ..Outcome::default() } };
    let mut outcome = Outcome::of(&world);
    outcome.report = report;
    outcome.report.figures =
        vec![("connections", outcome.connections), ("messages of channels", outcome.said)];
    outcome
}

impl Outcome {
    /// Returns the totals of a fabric.
    fn of(world: &World) -> Self {
        let model = &world.model;
        let (streamed, streams, broken_streams) = model.streams.totals();
        let (connections, refused_connections) = model.connections.totals();
        let answers = model.connections.answers;
        let mut counters = vec![0; HAMLYN_STATISTICS as usize];
        for host in &world.hosts {
            counters.iter_mut().zip(host.machine.counters()).for_each(|(sum, count)| *sum += count);
        }
        Self {
            report: Report::default(),
            messages: model.ledger.parts.len() as u64,
            delivered: model.ledger.delivered(),
            blocked: model.tally.blocked,
            dozed: model.tally.dozed,
            bystanders: model.tally.bystanders,
            filled: model.tally.filled,
            overwritten: model.ledger.overwritten,
            pairs: model.ledger.pairs(),
            streamed,
            streams,
            broken_streams,
            connections,
            channels: model.tally.channels,
            said: model.tally.said,
            slept: model.tally.slept,
            channel_ends: model.tally.channel_ends,
            refused_connections,
            answers: [answers.listening, answers.not_listening, answers.silent],
            connection_ends: model.connections.ends.to_vec(),
            counters,
        }
    }
}
