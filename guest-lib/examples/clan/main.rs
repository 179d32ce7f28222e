//! CLAN cards, `hamlyn::clan`. All its examples are one program, because space in an image is
//! limited.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use common::{Outcome, print};
use hamlyn::clan::Card;
use hamlyn_examples as common;
use serde_json::json;

mod clients;
mod hello;
mod measure;
mod meet;
mod queue;
mod rpc;
mod server;
mod sleep;

/// Accesses another host's memory and detects accesses to its own; uses the card at $CLAN_CARD,
/// else /dev/clan0
#[derive(Debug, Parser)]
struct Options {
    #[command(flatten)]
    meet: meet::Options,
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Runs the card's self-tests; in a machine only root may
    SelfTest,
    /// Says hello to another host by storing it there
    Hello(hello::Options),
    /// Passes items from one host to another through a distributed queue
    Queue(queue::Options),
    /// Calls a procedure of another host
    Rpc(rpc::Options),
    /// Serves any number of clients from one event queue
    Server(server::Options),
    /// Measures round trips, remote reads, DMA, and the cost of opening and reusing endpoints
    Measure(measure::Options),
}

fn main() -> ExitCode {
    common::run(|| {
        let Options { meet, what } = Options::parse();
        let card = Card::open_default()?;
        match what {
            What::SelfTest => self_test(&card),
            What::Hello(options) => hello::run(&card, &meet, &options),
            What::Queue(options) => queue::run(&card, &meet, &options),
            What::Rpc(options) => rpc::run(&card, &meet, &options),
            What::Server(options) => server::run(&card, &meet, &options),
            What::Measure(options) => measure::run(&card, &meet, &options),
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
    if results.passed() { Ok(()) } else { Err("a self-test failed".into()) }
}
