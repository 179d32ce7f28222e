//! Remote fetch-and-op: several processes count in one word, and guard another one by a lock.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};
use common::{Outcome, print};
use hamlyn::{Card, FetchOp, Terminus, Ticket};
use hamlyn_examples as common;
use serde_json::json;

/// Byte offsets of the counter, the lock (0: open), and the word guarded by it.
const COUNTER: u32 = 0;
const LOCK: u32 = 8;
const GUARDED: u32 = 16;

/// Counts in another host's memory
#[derive(Debug, Parser)]
struct Options {
    #[command(flatten)]
    card: common::CardOption,
    /// Seconds to wait for an answer
    #[arg(long, global = true, default_value_t = 30)]
    timeout: u64,
    #[command(subcommand)]
    role: Role,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// Prints a ticket, waits for a line or the end of standard input, and prints the words
    Serve {
        /// Forbids fetch-and-op on the slot
        #[arg(long)]
        forbid: bool,
    },
    /// Adds 1, many times
    Add {
        /// The server's ticket
        #[arg(long)]
        ticket: Ticket,
        /// Number of additions
        #[arg(long, default_value_t = 1000)]
        count: u64,
    },
    /// Takes the lock by compare-and-swap, reads the guarded word and writes it back plus 1, many
    /// times
    Lock {
        /// The server's ticket
        #[arg(long)]
        ticket: Ticket,
        /// Number of rounds
        #[arg(long, default_value_t = 100)]
        count: u64,
    },
}

fn main() -> ExitCode {
    common::run(|| {
        let options = Options::parse();
        let card = options.card.open()?;
        let client = |ticket| -> Outcome<Client> {
            Ok(Client {
                terminus: card.create_terminus()?,
                ticket,
                timeout: Duration::from_secs(options.timeout),
            })
        };
        match options.role {
            Role::Serve { forbid } => serve(&card, forbid),
            Role::Add { ticket, count } => client(ticket)?.add(count),
            Role::Lock { ticket, count } => client(ticket)?.lock(count),
        }
    })
}

fn serve(card: &Card, forbid: bool) -> Outcome {
    let area = card.create_area(24)?;
    let slot = card.slot(&area);
    let slot = if forbid { slot.create()? } else { slot.allow_fetch().create()? };
    print(&json!({ "ticket": slot.fast_ticket()?.to_string() }))?;
    // A line and the end of input both end the wait.
    let _ = common::read_line();
    let word = |offset| common::word_at(&area, offset as usize);
    print(&json!({ "value": word(COUNTER)?, "guarded": word(GUARDED)?, "lock": word(LOCK)? }))
}

struct Client {
    terminus: Terminus,
    ticket: Ticket,
    timeout: Duration,
}

impl Client {
    fn fetch(&self, offset: u32, operation: FetchOp) -> Outcome<u64> {
        Ok(self.terminus.fetch(&self.ticket, offset, operation)?.wait_timeout(self.timeout)?)
    }

    fn add(&self, count: u64) -> Outcome {
        let start = Instant::now();
        let mut found = Vec::new();
        for _ in 0..count {
            found.push(self.fetch(COUNTER, FetchOp::Add(1))?);
        }
        let rising = found.windows(2).all(|pair| pair[0] < pair[1]);
        let op_us = start.elapsed().as_micros() as u64 / count.max(1);
        let (first, last) = (found.first(), found.last());
        print(&json!({ "added": count, "first": first, "last": last, "rising": rising, "op_us": op_us }))?;
        if rising { Ok(()) } else { Err("the counter did not rise from one answer to the next".into()) }
    }

    fn lock(&self, count: u64) -> Outcome {
        // Any nonzero number works; a random one tells processes apart.
        let own = hamlyn::random_key()? | 1;
        let mut tries = 0_u64;
        for _ in 0..count {
            while {
                tries += 1;
                self.fetch(LOCK, FetchOp::CompareSwap { compare: 0, swap: own })? != 0
            } {
                std::thread::yield_now();
            }
            let value = self.fetch(GUARDED, FetchOp::Add(0))?;
            self.fetch(GUARDED, FetchOp::Swap(value + 1))?;
            if self.fetch(LOCK, FetchOp::Swap(0))? != own {
                return Err("another process had the lock as well".into());
            }
        }
        print(&json!({ "locked": count, "tries": tries }))
    }
}
