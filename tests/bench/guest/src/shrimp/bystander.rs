//! Loops of a program that does not use any card. They show the cost of snooping their machine's
//! stores.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::ValueEnum;
use serde_json::json;

use crate::engine::result::{Meter, Outcome, say};

/// The work of the loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Loop {
    /// Stores a word, in 64 KiB in turn
    Stores,
    /// Computes in registers
    Registers,
    /// Copies 64 KiB
    Copies,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// What the loop does
    #[arg(long = "loop", value_enum)]
    what: Loop,
    /// Number of iterations
    #[arg(long, default_value_t = 1_000_000)]
    count: u64,
}

/// Words of 64 KiB.
const WORDS: usize = 8192;

pub(crate) fn run(options: &Options) -> Outcome {
    let act: fn(u64) = match options.what {
        Loop::Stores => store,
        Loop::Registers => compute,
        Loop::Copies => copy,
    };
    // This run translates the code and touches the memory.
    act(options.count / 10);
    let meter = Meter::start();
    act(options.count);
    let (ns, cpu_ns) = meter.stop();
    say(&json!({ "messages": options.count, "ns": ns, "cpu_ns": cpu_ns }))
}

fn store(count: u64) {
    let words: Vec<AtomicU64> = (0..WORDS).map(|_| AtomicU64::new(0)).collect();
    let words = black_box(&words[..WORDS]);
    for number in 0..count {
        words[number as usize % WORDS].store(number, Ordering::Relaxed);
    }
}

fn compute(count: u64) {
    let mut word = black_box(count | 1);
    for _ in 0..count {
        // Marsaglia's xorshift: no compiler knows a shorter way.
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
    }
    black_box(word);
}

fn copy(count: u64) {
    let from = vec![1_u64; WORDS];
    let mut to = vec![0_u64; WORDS];
    for _ in 0..count {
        black_box(&mut to[..]).copy_from_slice(black_box(&from));
    }
}
