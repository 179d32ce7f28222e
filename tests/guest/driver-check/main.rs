//! Checks the driver's calls (`hamlyn_abi::uapi`) one by one: valid calls, every invalid field,
//! limits, sleeping.
//!
//! Each check prints a line; a failed check does not stop the others. The program uses only the
//! library's system calls, so it can also make calls that the library never makes.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use checks::Checks;
use clap::{Parser, Subcommand};
use common::print;
use hamlyn_examples as common;
use serde_json::json;

mod bench;
mod calls;
mod checks;
mod completions;
mod connections;
mod crowd;
mod fetch;
mod hold;
mod memlock;
mod object_files;
mod quotas;
mod registrations;
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
    /// Every call and mapping, with valid and invalid arguments
    Calls,
    /// Sleeping: wait and poll, and everything that ends them
    Sleep,
    /// Sleeping until requests are completed
    Completions,
    /// Several waiters on one queue at different entries
    Waiters,
    /// Creates all objects that the card can have, and one more (as root: the ordinary limit on
    /// pinned memory is lower)
    Tables,
    /// Holds one object of each kind, waits for a line on standard input, and checks that all are
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
        /// Number of pages
        #[arg(long)]
        pages: usize,
    },
    /// Takes as much of the card as it can get, prints how much that is, and waits for a line on
    /// standard input
    Greedy,
    /// Ended connections and their user's share
    Ended,
    /// A file that is passed to another user (as root)
    Passed,
    /// Opens many slots over one memory, and waits to be killed
    Hoard {
        /// Number of slots
        #[arg(long)]
        slots: u32,
        /// Number of pages of each slot
        #[arg(long)]
        pages: usize,
    },
    /// Makes calls until a number of further pages have been unpinned; prints how many calls
    /// completed during that
    Beside {
        /// Number of pages
        #[arg(long)]
        pages: u64,
    },
    /// Random calls from several threads
    Stress {
        /// Duration in seconds
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
