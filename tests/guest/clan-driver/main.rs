//! Manual control of CLAN cards for tests, through `hamlyn::clan` and the driver's own calls.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use common::{Outcome, print};
use hamlyn::clan::Card;
use hamlyn_examples as common;
use serde_json::json;

mod desk;
mod names;
mod programs;
mod reach;
mod storm;
mod trespass;
mod tripwires;
mod wakes;

/// Runs test commands on a CLAN card and its driver; uses the card at $CLAN_CARD, else /dev/clan0
#[derive(Debug, Parser)]
struct Options {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Runs the card's self-tests; in a machine only root may
    SelfTest,
    /// Attempts forbidden operations, through the driver's calls and the memory shared with the
    /// driver
    Trespass {
        /// The card's node
        #[arg(default_value = "/dev/clan0")]
        node: PathBuf,
    },
    /// Sleeps in the driver's own call for each of many stores; for host 0
    Wakes {
        /// The card's node
        #[arg(default_value = "/dev/clan0")]
        node: PathBuf,
    },
    /// Executes commands from standard input
    Desk,
    /// Receives by the programs of section 4.3
    Receive,
    /// Sends to the receiver
    Send {
        /// The receiver's host
        host: u32,
    },
}

fn main() -> ExitCode {
    common::run(|| {
        let options = Options::parse();
        match options.what {
            What::SelfTest => self_test(&Card::open_default()?),
            What::Trespass { node } => trespass::run(&node),
            What::Wakes { node } => wakes::run(&node),
            What::Desk => desk::run(Card::open_default()?),
            What::Receive => programs::receive(&Card::open_default()?),
            What::Send { host } => programs::send(&Card::open_default()?, host),
        }
    })
}

fn self_test(card: &Card) -> Outcome {
    let results = card.self_test()?;
    print(&json!({ "passed": results.passed() }))?;
    if results.passed() { Ok(()) } else { Err(format!("a self-test failed: {results:?}").into()) }
}
