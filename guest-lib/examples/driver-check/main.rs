//! Checks the driver's calls (`hamlyn_abi::uapi`) one by one: good ones, every field that can be
//! wrong, limits, sleeping.
//!
//! A line for each check; one that fails does not end the others. Nothing of the library is used
//! but its system calls, so what the library would never ask for is asked for here.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use checks::Checks;
use clap::{Parser, Subcommand};
use common::print;
use serde_json::json;

mod bench;
mod calls;
mod checks;
#[path = "../common/mod.rs"]
mod common;
mod completions;
mod connections;
mod crowd;
mod fetch;
mod hold;
mod memlock;
mod quotas;
mod sleep;
mod stress;
mod tables;
mod waiters;

/// Checks the driver's calls
#[derive(Debug, Parser)]
struct Options {
    /// The device
    #[arg(long, global = true, default_value = "/dev/hamlyn0")]
    card: PathBuf,
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Clone, Subcommand)]
enum What {
    /// Every call and mapping, good and wrong
    Calls,
    /// Sleeping: wait and poll, and all that ends them
    Sleep,
    /// Sleeping until requests are finished
    Completions,
    /// Several wait for one queue at different places
    Waiters,
    /// Creates all that the card can have, and one more (as root: the ordinary limit on pinned
    /// memory is lower)
    Tables,
    /// Holds one of everything, waits for a line on standard input, and checks that all of it is
    /// gone
    Hold,
    /// Holds a slot and a terminus, and closes the file as soon as the card is reset
    CloseOnReset {
        /// MiB of the slot
        #[arg(long)]
        mib: usize,
    },
    /// The limit on pinned memory, and ways around it
    Memlock,
    /// Pins memory through the open device that is its standard input: part of `memlock`
    Pin {
        /// How many pages
        #[arg(long)]
        pages: usize,
    },
    /// Takes all of the card that it gets, says how much that is, and waits for a line on standard
    /// input
    Greedy,
    /// Connections that have ended beside their user's share
    Ended,
    /// A file that another user gets passed (as root)
    Passed,
    /// Opens many slots over one memory, and waits to be killed
    Hoard {
        /// How many slots
        #[arg(long)]
        slots: u32,
        /// How many pages each has
        #[arg(long)]
        pages: usize,
    },
    /// Makes calls until so many pages more have been unpinned: how many were carried out amid that
    Beside {
        /// How many pages
        #[arg(long)]
        pages: u64,
    },
    /// Random calls from several threads
    Stress {
        /// For how long
        #[arg(long)]
        seconds: u64,
    },
}

fn main() -> ExitCode {
    common::run(|| {
        let options = Options::parse();
        let checks = &mut Checks::default();
        match options.what {
            What::Calls => calls::calls(checks, &options.card)?,
            What::Sleep => sleep::sleep(checks, &options.card)?,
            What::Completions => completions::completions(checks, &options.card)?,
            What::Waiters => waiters::waiters(checks, &options.card)?,
            What::Tables => tables::tables(checks, &options.card)?,
            What::Hold => hold::hold(checks, &options.card)?,
            What::Memlock => memlock::memlock(checks, &options.card)?,
            What::Ended => quotas::ended(checks, &options.card)?,
            What::Passed => quotas::passed(checks, &options.card)?,
            What::CloseOnReset { mib } => return hold::close_on_reset(&options.card, mib),
            What::Pin { pages } => return memlock::pin(pages),
            What::Greedy => return quotas::greedy(&options.card),
            What::Hoard { slots, pages } => return crowd::hoard(&options.card, slots, pages),
            What::Beside { pages } => return crowd::beside(&options.card, pages),
            What::Stress { seconds } => return stress::stress(&options.card, Duration::from_secs(seconds)),
        }
        print(&json!({ "checks": checks.count, "failed": checks.failed }))?;
        if checks.failed == 0 { Ok(()) } else { Err(format!("{} checks failed", checks.failed).into()) }
    })
}
