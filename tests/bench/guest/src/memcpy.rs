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
    /// Bytes that the copies walk through, from start to end and again: as many are copied from as to. None: always the
    /// same, which stay in the processor's cache
    #[arg(long)]
    span: Option<usize>,
}

pub(crate) fn run(options: &Options) -> Outcome {
    let size = options.size.max(1);
    let places = (options.span.unwrap_or(size) / size).max(1);
    let from = vec![0xa5_u8; places * size];
    let mut to = vec![0_u8; places * size];
    let copies = (options.total / size as u64).max(1);
    // The first touch of every page is not part of a copy.
    to.copy_from_slice(black_box(&from));
    let meter = Meter::start();
    let mut place = 0..size;
    for _ in 0..copies {
        black_box(&mut to[place.clone()]).copy_from_slice(black_box(&from[place.clone()]));
        place = if place.end == to.len() { 0..size } else { place.end..place.end + size };
    }
    let (ns, cpu_ns) = meter.stop();
    say(&json!({ "bytes": copies * size as u64, "messages": copies, "ns": ns, "cpu_ns": cpu_ns }))
}
