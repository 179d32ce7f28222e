//! Barriers (section 2). A register of one host's card counts the nodes that have not arrived yet.
//! That host's software gets an event when the count reaches zero, and releases all nodes. Each
//! node is a thread with its own connection; half of them run in each machine.

use std::sync::Arc;
use std::thread;

use hamlyn::dart::programs::{Barrier, Member};
use hamlyn::dart::{Bank, Card, Connection, Endpoint, Queue, Urgency};
use serde_json::json;

use crate::dart::ends::{RECORDS, connect, other_host};
use crate::engine::lap_words::PAGE;
use crate::engine::result::{Outcome, Rounds, say};
use crate::engine::wait::PATIENCE;

/// The register that counts.
const REGISTER: u8 = 0;

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    rounds: Rounds,
    /// Nodes, half of them in each machine
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(2..=64))]
    nodes: u32,
}

/// The parts that connections are built from.
struct Parts {
    card: Card,
    endpoint: Endpoint,
    bank: Bank,
}

impl Parts {
    fn open() -> Outcome<Self> {
        let card = Card::open_default()?;
        let (endpoint, bank) = (card.endpoint(PAGE)?, card.bank(2, 0)?);
        Ok(Self { card, endpoint, bank })
    }

    /// Opens `count` connections to a host, each with its own queue.
    fn members(&self, host: u32, count: u32) -> Outcome<Vec<(Arc<Connection>, Queue)>> {
        let one = |_| {
            let queue = self.card.queue(RECORDS, Urgency::Delayed)?;
            let builder = self.card.connection(&self.endpoint, &self.bank).events(&queue);
            Ok((Arc::new(builder.open(host)?), queue))
        };
        (0..count).map(one).collect()
    }

    /// Opens `count` connections to a host whose events go to one shared queue.
    fn doors(&self, host: u32, count: u32, queue: &Queue) -> Outcome<Vec<Arc<Connection>>> {
        let builder = self.card.connection(&self.endpoint, &self.bank).events(queue);
        (0..count).map(|_| Ok(Arc::new(builder.open(host)?))).collect()
    }
}

/// Takes part in a barrier for all rounds.
fn come(mut member: Member, rounds: Rounds) -> Result<(), String> {
    (0..rounds.total()).try_for_each(|round| arrive(&mut member, round))
}

/// Waits at the barrier once. All nodes are in the same round.
fn arrive(member: &mut Member, round: u64) -> Result<(), String> {
    match member.wait_timeout(PATIENCE) {
        Ok(found) if found == round + 1 => Ok(()),
        Ok(found) => Err(format!("round {found} of the barrier, not {}", round + 1)),
        Err(error) => Err(error.to_string()),
    }
}

fn member((connection, queue): (Arc<Connection>, Queue)) -> Member {
    Member::new(connection, queue, REGISTER)
}

/// Keeps the barrier and runs half of its nodes.
pub(crate) fn keep(options: &Options) -> Outcome {
    let (rounds, half) = (options.rounds, options.nodes / 2);
    let (keeper, nodes) = (Parts::open()?, Parts::open()?);
    let own = 1 - other_host(&keeper.card)?;
    let complete = keeper.card.queue(RECORDS, Urgency::Delayed)?;
    let far = keeper.doors(1 - own, half, &complete)?;
    let near = keeper.doors(own, half, &complete)?;
    let members = nodes.members(own, half)?;
    for (door, (member, _)) in near.iter().zip(&members) {
        door.connect(&member.address()?)?;
        member.connect(&door.address()?)?;
    }
    // Every connected node takes part.
    let all: Vec<_> = far.iter().chain(&near).cloned().collect();
    let mut barrier = Barrier::new(all.clone(), complete, REGISTER)?;
    connect(far.iter().map(|door| &**door))?;
    let threads: Vec<_> =
        members.into_iter().map(|one| thread::spawn(move || come(member(one), rounds))).collect();
    let kept = rounds.answer(|_| Ok(barrier.release_timeout(PATIENCE).map(drop)?))?;
    join(threads)?;
    // Wait until the last round's messages have left, too, before the connections are closed.
    all.iter().try_for_each(|door| door.wait_until_left_timeout(PATIENCE))?;
    say(&kept)
}

/// Runs the other half of the nodes. The first of them measures.
pub(crate) fn meet(options: &Options) -> Outcome {
    let (rounds, half) = (options.rounds, options.nodes / 2);
    let nodes = Parts::open()?;
    let members = nodes.members(other_host(&nodes.card)?, half)?;
    connect(members.iter().map(|(connection, _)| &**connection))?;
    let mut members = members.into_iter().map(member);
    let mut first = members.next().ok_or("a barrier has at least one node in each machine")?;
    let threads: Vec<_> = members.map(|one| thread::spawn(move || come(one, rounds))).collect();
    let mut result = rounds.measure(|round| Ok(arrive(&mut first, round)?))?;
    join(threads)?;
    result["nodes"] = json!(options.nodes);
    say(&result)
}

fn join(threads: Vec<thread::JoinHandle<Result<(), String>>>) -> Outcome {
    for thread in threads {
        thread.join().map_err(|_| "a node has panicked")??;
    }
    Ok(())
}
