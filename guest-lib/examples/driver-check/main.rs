//! Checks the driver's calls (`hamlyn_abi::uapi`) one by one: good ones, every field that can be wrong, limits, sleeping.
//!
//! A line for each check; one that fails does not end the others. Nothing of the library is used but its system calls,
//! so what the library would never ask for is asked for here.

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
mod connections;
mod fetch;
mod hold;
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
    /// Several wait for one queue at different places
    Waiters,
    /// Creates all that the card can have, and one more (as root: the ordinary limit on pinned memory is lower)
    Tables,
    /// Holds one of everything, waits for a line on standard input, and checks that all of it is gone
    Hold,
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
            What::Waiters => waiters::waiters(checks, &options.card)?,
            What::Tables => tables::tables(checks, &options.card)?,
            What::Hold => hold::hold(checks, &options.card)?,
            What::Stress { seconds } => return stress::stress(&options.card, Duration::from_secs(seconds)),
        }
        print(&json!({ "checks": checks.count, "failed": checks.failed }))?;
        if checks.failed == 0 { Ok(()) } else { Err(format!("{} checks failed", checks.failed).into()) }
    })
}
