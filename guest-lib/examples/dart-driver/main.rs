//! DART cards by hand, `hamlyn::dart`, and by the driver's own calls: for tests.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use common::{Outcome, print};
use hamlyn::dart::Card;
use serde_json::json;

mod calling;
#[path = "../common/mod.rs"]
mod common;
mod desk;
mod frozen;
#[path = "../common/pages.rs"]
mod pages;
mod reappear;
mod remap;
mod serving;
mod sparse;
mod trespass;
mod wakes;
mod way;

/// Does what tests ask of a DART card and its driver; the card is that of $DART_CARD, else
/// /dev/dart0
#[derive(Debug, Parser)]
struct Options {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Runs the card's self-tests; in a machine only root may
    SelfTest,
    /// Attempts what a process may not, by the driver's calls and by what it shares with the driver
    Trespass {
        /// The card's node
        #[arg(default_value = "/dev/dart0")]
        node: PathBuf,
    },
    /// Sends to memory of this process that it takes away and puts elsewhere meanwhile, by the
    /// driver's calls
    Remap {
        /// The card's node
        #[arg(default_value = "/dev/dart0")]
        node: PathBuf,
    },
    /// Sends to memory of this process that is there again, while the driver still looks for what
    /// there was not; only root may
    Reappear {
        /// The card's node
        #[arg(default_value = "/dev/dart0")]
        node: PathBuf,
    },
    /// Reads memory of this process that nothing is in, a page in each 2 MiB of it
    Sparse {
        /// How much memory, in GiB
        gibibytes: usize,
        /// The card's node
        #[arg(default_value = "/dev/dart0")]
        node: PathBuf,
    },
    /// Writes to the first page of a file, and at a line on standard input to its second
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
    /// Does what lines on standard input say
    Desk,
    /// Does the one host's part of the compound operations, as lines on standard input say
    Serve,
    /// Does another host's part of them, as lines on standard input say
    Call {
        /// The one host
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
