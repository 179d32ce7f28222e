//! DART cards, `hamlyn::dart`. All its examples are one program, because space in an image is
//! limited.
//!
//! One host provides memory and address registers (`dart keep counter`), and others operate on them
//! (`dart join counter`). The first host then reports how often its card has interrupted it.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use common::{Outcome, print};
use hamlyn::dart::Card;
use hamlyn_examples as common;
use hamlyn_examples::pages;
use serde_json::json;

mod barrier;
mod blocks;
mod call;
mod counter;
mod events;
mod exception;
mod hello;
mod lock;
mod log;
mod meet;
mod memory;
mod priority;
mod queue;
mod rpc;
mod trespass;

/// Operates on another host's memory and address registers; uses the card at $DART_CARD, else
/// /dev/dart0
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Runs the card's self-tests; in a machine only root may
    SelfTest,
    /// Provides the memory and the registers until all others are done
    Keep(Options),
    /// Runs one of the other hosts
    Join(Options),
}

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The operation
    #[arg(value_enum)]
    operation: Operation,
    /// The name to meet by; else the operation's own
    #[arg(long)]
    name: Option<String>,
    /// The host that provides it; else any host that has the name
    #[arg(long)]
    host: Option<u32>,
    /// Number of other hosts; only the providing host needs it
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=16))]
    others: u32,
    /// Number of operations of each other host; must be the same on all of them
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    count: u64,
    /// Seconds to wait for anything
    #[arg(long, default_value_t = 30)]
    timeout: u64,
}

impl Options {
    fn patience(&self) -> Duration {
        Duration::from_secs(self.timeout)
    }

    fn name(&self) -> String {
        let own = || self.operation.to_possible_value().map(|value| format!("dart-{}", value.get_name()));
        self.name.clone().or_else(own).unwrap_or_default()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Operation {
    /// A deposit of 32 bytes, there and back
    Hello,
    /// Fetch and increment
    Counter,
    /// The same by compare and swap
    Swap,
    /// A lock, and memory that is read and written while it is held
    Lock,
    /// Store indirect with postincrement: entries are appended to a log
    Log,
    /// A queue of several producers that wait while it is full
    Queue,
    /// Entries of a priority queue, which cause an event only if they are urgent
    Priority,
    /// A barrier
    Barrier,
    /// Remote reads of scattered blocks
    Blocks,
    /// Remote procedure calls
    Rpc,
    /// Calls of an operation of the receiver, which it changes meanwhile
    Call,
    /// Events that the receiver takes later
    Delayed,
    /// Events that interrupt one by one
    Immediate,
    /// An operation that the card cannot do: the host's software multiplies
    Exception,
    /// Deposits in memory that was never touched
    Untouched,
    /// The same, and in memory that has been swapped out; needs swap space
    Swapped,
    /// Attempts that the connection does not allow
    Trespass,
}

fn main() -> ExitCode {
    common::run(|| {
        let Arguments { what } = Arguments::parse();
        let card = Card::open_default()?;
        match what {
            What::SelfTest => self_test(&card),
            What::Keep(options) => keep(&card, &options),
            What::Join(options) => join(&card, &options),
        }
    })
}

fn keep(card: &Card, options: &Options) -> Outcome {
    match options.operation {
        Operation::Hello => hello::keep(card, options),
        Operation::Counter | Operation::Swap => counter::keep(card, options),
        Operation::Lock => lock::keep(card, options),
        Operation::Log => log::keep(card, options),
        Operation::Queue => queue::keep(card, options),
        Operation::Priority => priority::keep(card, options),
        Operation::Barrier => barrier::keep(card, options),
        Operation::Blocks => blocks::keep(card, options),
        Operation::Rpc => rpc::keep(card, options),
        Operation::Call => call::keep(card, options),
        Operation::Delayed => events::keep(card, options, hamlyn::dart::Urgency::Delayed),
        Operation::Immediate => events::keep(card, options, hamlyn::dart::Urgency::Immediate),
        Operation::Exception => exception::keep(card, options),
        Operation::Untouched => memory::keep(card, options, false),
        Operation::Swapped => memory::keep(card, options, true),
        Operation::Trespass => trespass::keep(card, options),
    }
}

fn join(card: &Card, options: &Options) -> Outcome {
    match options.operation {
        Operation::Hello => hello::join(card, options),
        Operation::Counter => counter::join(card, options, false),
        Operation::Swap => counter::join(card, options, true),
        Operation::Lock => lock::join(card, options),
        Operation::Log => log::join(card, options),
        Operation::Queue => queue::join(card, options),
        Operation::Priority => priority::join(card, options),
        Operation::Barrier => barrier::join(card, options),
        Operation::Blocks => blocks::join(card, options),
        Operation::Rpc => rpc::join(card, options),
        Operation::Call => call::join(card, options),
        Operation::Delayed | Operation::Immediate => events::join(card, options),
        Operation::Exception => exception::join(card, options),
        Operation::Untouched => memory::join(card, options, false),
        Operation::Swapped => memory::join(card, options, true),
        Operation::Trespass => trespass::join(card, options),
    }
}

fn self_test(card: &Card) -> Outcome {
    let results = card.self_test()?;
    let vector = results.interrupt.map(|vector| format!("vector {vector} did not arrive"));
    print(&json!({
        "passed": results.passed(),
        "access": results.access.unwrap_or("passed"),
        "dma": results.dma.unwrap_or("passed"),
        "interrupt": vector.as_deref().unwrap_or("passed"),
    }))?;
    if results.passed() { Ok(()) } else { Err("a self-test failed".into()) }
}
