//! Copies within memory: the bound of everything that copies once.

use std::hint::black_box;

use serde_json::json;

use crate::Outcome;
use crate::result::{Meter, say};

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Bytes of each copy
    #[arg(long, default_value_t = 1 << 20)]
    size: usize,
    /// Bytes in all
    #[arg(long, default_value_t = 1 << 30)]
    total: u64,
}

pub(crate) fn run(options: &Options) -> Outcome {
    let from = vec![0xa5_u8; options.size];
    let mut to = vec![0_u8; options.size];
    let copies = (options.total / options.size.max(1) as u64).max(1);
    // The first touch of every page is not part of a copy.
    to.copy_from_slice(black_box(&from));
    let meter = Meter::start();
    for _ in 0..copies {
        black_box(&mut to).copy_from_slice(black_box(&from));
    }
    let (ns, cpu_ns) = meter.stop();
    say(&json!({ "bytes": copies * options.size as u64, "messages": copies, "ns": ns, "cpu_ns": cpu_ns }))
}
