//! A distributed barrier (section 2.5): no process leaves a round before all have entered it.
//!
//! To check this, each process counts its entries in a word of process 0 by fetch-and-op, and reads
//! that word when it leaves.

use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clap::Parser;
use common::{Outcome, print};
use hamlyn::protocol::barrier::Entrance;
use hamlyn::{FetchOp, Ticket};
use hamlyn_examples as common;
use serde_json::json;

/// Meets all other processes in a barrier, round after round. Prints its own ticket and that of its
/// counter. Then reads tickets from standard input, one per line: those of all processes, including
/// its own, ordered by index, and last that of process 0's counter. Process 0 exits at the end of
/// its standard input
#[derive(Debug, Parser)]
struct Options {
    #[command(flatten)]
    card: common::CardOption,
    /// This process' index
    #[arg(long)]
    index: usize,
    /// Number of processes
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    of: u32,
    /// Number of rounds
    #[arg(long, default_value_t = 1000)]
    rounds: u64,
    /// Seconds to wait for the others
    #[arg(long, default_value_t = 30)]
    timeout: u64,
}

fn main() -> ExitCode {
    common::run(|| {
        let options = Options::parse();
        let timeout = common::seconds(options.timeout);
        let card = options.card.open()?;
        let words = card.create_area(8)?;
        let counter = card.slot(&words).allow_fetch().create()?;
        let entrance = Entrance::create(&card)?;
        print(&json!({
            "index": options.index,
            "ticket": entrance.ticket()?.to_string(),
            "counter": counter.fast_ticket()?.to_string(),
        }))?;
        let tickets = (0..options.of).map(|_| common::read_ticket()).collect::<Outcome<Vec<Ticket>>>()?;
        let counter = common::read_ticket()?;
        let terminus = card.create_terminus()?;
        let mut barrier = entrance.join(terminus.clone(), &tickets, options.index)?;
        let count = |change| terminus.fetch(&counter, 0, FetchOp::Add(change))?.wait_timeout(timeout);
        let (mut early, mut inside) = (0_u64, Duration::ZERO);
        for round in 1..=options.rounds {
            count(1)?;
            let start = Instant::now();
            barrier.wait_timeout(timeout)?;
            inside += start.elapsed();
            early += u64::from(count(0)? < round * u64::from(options.of));
        }
        let round_us = inside.as_micros() as u64 / options.rounds.max(1);
        print(
            &json!({ "rounds": options.rounds, "early": early, "verified": early == 0, "round_us": round_us }),
        )?;
        if options.index == 0 {
            let ended = common::input_ended();
            while !ended.load(Ordering::Acquire) {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        if early == 0 {
            Ok(())
        } else {
            Err(format!("{early} rounds were left before all had entered").into())
        }
    })
}
