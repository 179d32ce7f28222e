//! A distributed lock manager over remote procedure calls: see docs/lock-manager.md.
//!
//! Mutual exclusion is checked as follows. The first manager's process has an area of words, which
//! clients change by fetch-and-op while they hold a lock. A client reports an error if a word
//! contradicts its lock.

use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::{Parser, Subcommand};
use common::{Outcome, print};
use hamlyn::{Card, channel};
use hamlyn_examples as common;
use hamlyn_examples::calls::{Client, Server};
use serde_json::json;

use crate::guard::Guard;
use crate::manager::LockManager;
use crate::table::Mode;

mod client;
mod guard;
mod manager;
mod table;

/// Locks shared by processes of several machines
#[derive(Debug, Parser)]
struct Options {
    #[command(flatten)]
    card: common::CardOption,
    /// The managers' host ids; a lock belongs to the manager that its name hashes to
    #[arg(long, global = true, value_delimiter = ',', default_values_t = [0])]
    managers: Vec<u32>,
    /// Seconds to wait for a lock
    #[arg(long, global = true, default_value_t = 60)]
    timeout: u64,
    #[command(subcommand)]
    role: Role,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// Runs a manager until standard input ends
    Manage,
    /// Takes shared and exclusive locks repeatedly, and checks mutual exclusion
    Work {
        /// Number of rounds
        #[arg(long, default_value_t = 50)]
        count: u64,
        /// Seed of the order of locks and modes
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Takes one lock, prints that, and holds it until standard input ends; or prints that it was
    /// not free in time
    Hold {
        /// The lock's name
        lock: String,
        /// Shares it
        #[arg(long)]
        shared: bool,
    },
}

fn main() -> ExitCode {
    common::run(|| {
        let options = Options::parse();
        let card = options.card.open()?;
        match &options.role {
            Role::Manage => manage(&card),
            Role::Work { count, seed } => work(&card, &options, *count, *seed),
            Role::Hold { lock, shared } => hold(&card, &options, lock, *shared),
        }
    })
}

/// The name under which each manager listens.
const NAME: &str = "locks";

fn manage(card: &Card) -> Outcome {
    let words = guard::words(card)?;
    let mut manager = LockManager::new(words.ticket()?);
    let mut server = Server::open(&channel::Card::from(card.clone()), NAME)?;
    let ended = common::input_ended();
    print(&json!({ "managing": NAME, "host": card.info()?.host }))?;
    while !ended.load(Ordering::Acquire) {
        if let Some(event) = server.next(Duration::from_millis(100))? {
            manager.handle(&mut server, event);
        }
    }
    print(&json!({
        "granted": manager.granted(), "freed": manager.freed(), "held": manager.held(), "counted": words.counted()?,
    }))
}

fn connect(card: &Card, options: &Options) -> Outcome<client::Locks> {
    let card = channel::Card::from(card.clone());
    let clients = options.managers.iter().map(|host| Client::connect(&card, *host, NAME));
    client::Locks::new(clients.collect::<Outcome<_>>()?, Duration::from_secs(options.timeout))
}

fn work(card: &Card, options: &Options, count: u64, seed: u64) -> Outcome {
    let mut locks = connect(card, options)?;
    let guard = Guard::new(card, locks.words()?, Duration::from_secs(options.timeout))?;
    let (mut exclusive, mut shared) = (0_u64, 0_u64);
    for turn in 0..count {
        let mut choice = [0; 2];
        common::fill_pattern(seed, turn as usize * 8, &mut choice);
        let index = u32::from(choice[0]) % guard::LOCKS;
        let mode = if choice[1] % 3 == 0 { Mode::Shared } else { Mode::Exclusive };
        let name = format!("lock {index}");
        let number = locks.lock(&name, mode)?.ok_or("a lock is not free in time")?;
        match mode {
            Mode::Exclusive => {
                guard.alone(index, number)?;
                exclusive += 1;
            }
            Mode::Shared => {
                guard.together(index)?;
                shared += 1;
            }
        }
        locks.unlock(&name)?;
    }
    locks.close()?;
    print(&json!({ "exclusive": exclusive, "shared": shared, "verified": true }))
}

fn hold(card: &Card, options: &Options, lock: &str, shared: bool) -> Outcome {
    let mut locks = connect(card, options)?;
    print(&json!({ "asked": lock }))?;
    let number = locks.lock(lock, if shared { Mode::Shared } else { Mode::Exclusive })?;
    match number {
        Some(number) => print(&json!({ "held": lock, "number": number }))?,
        None => print(&json!({ "given_up": lock }))?,
    }
    // A line and the end of input both end the wait.
    let _ = common::read_line();
    if number.is_some() {
        locks.unlock(lock)?;
    }
    locks.close()?;
    print(&json!({ "released": lock }))
}
