//! SHRIMP cards, `hamlyn::shrimp`. All its examples are one program, because space in an image is
//! limited.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use common::{Outcome, print};
use hamlyn::shrimp::Card;
use hamlyn_examples as common;
use hamlyn_examples::pages;
use serde_json::json;

mod channel;
mod count;
mod desk;
mod hello;
mod lock;
mod measure;
mod primitives;
mod queue;
mod remap;
mod seek;
mod stream;
mod trespass;

/// Stores to another host's memory, in several ways; uses the card at $SHRIMP_CARD, else
/// /dev/shrimp0
#[derive(Debug, Parser)]
struct Options {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Runs the card's self-tests; in a machine only root may
    SelfTest,
    /// Says hello to another host by storing it there
    Hello(hello::Options),
    /// Passes items from one host to another through shared memory
    Queue(queue::Options),
    /// Mutual exclusion between two hosts through shared memory
    Lock(lock::Options),
    /// Measures a flag's round trip and deliberate updates
    Measure(measure::Options),
    /// Passes messages by the primitives of section 5.2
    Primitives(primitives::Options),
    /// Lets c-count count their instructions; started by c-count
    Count(count::Options),
    /// Attempts forbidden operations, through the driver's calls and the card's pages
    Trespass {
        /// The card's node
        #[arg(default_value = "/dev/shrimp0")]
        node: PathBuf,
    },
    /// Exports and unmaps memory, by commands on standard input, for tests
    Remap {
        /// The card's node
        #[arg(default_value = "/dev/shrimp0")]
        node: PathBuf,
    },
    /// Executes commands from standard input, for tests
    Desk,
}

fn main() -> ExitCode {
    common::run(|| {
        let options = Options::parse();
        let card = Card::open_default()?;
        match options.what {
            What::SelfTest => self_test(&card),
            What::Hello(options) => hello::run(&card, &options),
            What::Queue(options) => queue::run(&card, &options),
            What::Lock(options) => lock::run(&card, &options),
            What::Measure(options) => measure::run(&card, &options),
            What::Primitives(options) => primitives::run(&card, &options),
            What::Count(options) => count::run(&card, &options),
            What::Trespass { node } => trespass::run(&node, card.host()?.ok_or("the link is down")?),
            What::Remap { node } => remap::run(&node, card.host()?.ok_or("the link is down")?),
            What::Desk => desk::run(card),
        }
    })
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
    if results.passed() { Ok(()) } else { Err(format!("a self-test failed: {results:?}").into()) }
}
