//! Manual control of DART cards for tests, through `hamlyn::dart` and the driver's own calls.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use common::{Outcome, print};
use hamlyn::dart::Card;
use hamlyn_examples as common;
use hamlyn_examples::pages;
use serde_json::json;

mod calling;
mod desk;
mod frozen;
mod reappear;
mod remap;
mod serving;
mod sparse;
mod trespass;
mod wakes;
mod way;

/// Runs test commands on a DART card and its driver; uses the card at $DART_CARD, else /dev/dart0
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
        #[arg(default_value = "/dev/dart0")]
        node: PathBuf,
    },
    /// Sends to this process' memory while unmapping and moving it, by the driver's calls
    Remap {
        /// The card's node
        #[arg(default_value = "/dev/dart0")]
        node: PathBuf,
    },
    /// Sends to this process' memory that is mapped again while the driver still handles its
    /// absence; only root may
    Reappear {
        /// The card's node
        #[arg(default_value = "/dev/dart0")]
        node: PathBuf,
    },
    /// Reads this process' unpopulated memory, one page in each 2 MiB
    Sparse {
        /// Size of the memory, in GiB
        gibibytes: usize,
        /// The card's node
        #[arg(default_value = "/dev/dart0")]
        node: PathBuf,
    },
    /// Writes to the first page of a file, and to its second page after a line on standard input
    Frozen {
        /// The file, of two pages
        file: PathBuf,
        /// The card's node
        #[arg(default_value = "/dev/dart0")]
        node: PathBuf,
    },
    /// Sleeps in the driver, by each of its calls for that
    Wakes {
        /// The card's node
        #[arg(default_value = "/dev/dart0")]
        node: PathBuf,
    },
    /// Executes commands from standard input
    Desk,
    /// Serves the compound operations to other hosts, by commands on standard input
    Serve,
    /// Runs a client's side of them, by commands on standard input
    Call {
        /// The serving host
        host: u32,
        /// A number that no other client has, from 0
        own: u64,
    },
}

fn main() -> ExitCode {
    common::run(|| {
        let options = Options::parse();
        match options.what {
            What::SelfTest => self_test(&Card::open_default()?),
            What::Trespass { node } => trespass::run(&node),
            What::Remap { node } => remap::run(&node),
            What::Reappear { node } => reappear::run(&node),
            What::Sparse { gibibytes, node } => sparse::run(&node, gibibytes),
            What::Frozen { file, node } => frozen::run(&node, &file),
            What::Wakes { node } => wakes::run(&node),
            What::Desk => desk::run(Card::open_default()?),
            What::Serve => serving::run(&Card::open_default()?),
            What::Call { host, own } => calling::run(&Card::open_default()?, host, own),
        }
    })
}

fn self_test(card: &Card) -> Outcome {
    let results = card.self_test()?;
    print(&json!({ "passed": results.passed() }))?;
    if results.passed() { Ok(()) } else { Err(format!("a self-test failed: {results:?}").into()) }
}
