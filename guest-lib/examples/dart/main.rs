//! DART cards, `hamlyn::dart`: one program for all that is shown of them, as an image has little
//! room.
//!
//! One host keeps memory and address registers (`dart keep counter`), and others do something with
//! them (`dart join counter`), of which it tells afterwards how often its card has interrupted it.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use common::{Outcome, print};
use hamlyn::dart::Card;
use serde_json::json;

mod barrier;
mod blocks;
mod call;
#[path = "../common/mod.rs"]
mod common;
mod counter;
mod events;
mod exception;
mod hello;
mod lock;
mod log;
mod meet;
mod memory;
#[path = "../common/pages.rs"]
mod pages;
mod priority;
mod queue;
mod rpc;
mod trespass;

/// Does something with another host's memory and address registers; the card is that of $DART_CARD,
/// else /dev/dart0
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Runs the card's self-tests; in a machine only root may
    SelfTest,
    /// Has the memory and the registers, until all others are done
    Keep(Options),
    /// Is one of the others
    Join(Options),
}

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// What is done
    #[arg(value_enum)]
    operation: Operation,
    /// The name that they meet by, if it is not the operation's own
    #[arg(long)]
    name: Option<String>,
    /// The host that has it; else whichever host has the name
    #[arg(long)]
    host: Option<u32>,
    /// How many others there are; it is enough if who keeps it is told
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=16))]
    others: u32,
    /// How often each of them does it; the same at all of them
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    count: u64,
    /// Seconds to wait for anything
    #[arg(long, default_value_t = 30)]
    timeout: u64,
}

impl Options {
    fn patience(&self) -> Option<Duration> {
        Some(Duration::from_secs(self.timeout))
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
    /// A lock, and memory that is read and written while somebody has it
    Lock,
    /// Store indirect with postincrement: entries are appended to a log
    Log,
    /// A queue of several producers that wait while it is full
    Queue,
    /// Entries of a priority queue, which tell of themselves only if they are urgent
    Priority,
    /// A barrier
    Barrier,
    /// Remote reads of scattered blocks
    Blocks,
    /// Remote procedure calls
    Rpc,
    /// Calls of an operation that is the receiver's own, which it changes meanwhile
    Call,
    /// Events that are taken when it suits
    Delayed,
    /// Events each of which interrupts
    Immediate,
    /// What the card cannot do: the host's software multiplies
    Exception,
    /// Deposits in memory that nobody has touched
    Untouched,
    /// The same, and in memory that has been swapped out; there must be swap space
    Swapped,
    /// Attempts at what the connection does not allow
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
