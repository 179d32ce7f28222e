//! Copies within memory: the upper bound for every transfer that copies once. They are done in
//! laps, like the transfers they are compared with. So the memory is in the same state: freshly
//! written at one end and just read at the other.

use std::hint::black_box;

use serde_json::json;

use crate::engine::laps::{Laps, Sum};
use crate::engine::result::{Meter, Outcome, say};

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    laps: Laps,
    /// Copies always between the same two places, which stay in the processor's cache
    #[arg(long)]
    hot: bool,
}

pub(crate) fn run(options: &Options) -> Outcome {
    let laps = options.laps;
    let mut from = vec![0_u8; laps.bytes()];
    let mut to = vec![0_u8; laps.bytes()];
    let mut sum = Sum::default();
    for lap in laps.laps() {
        laps.fill(&lap, |at, bytes| {
            from[at..at + bytes.len()].copy_from_slice(bytes);
            Ok(())
        })?;
        let meter = Meter::start();
        for message in lap.messages.clone() {
            let place = if options.hot { 0 } else { laps.place(message) };
            let place = place..place + laps.size;
            black_box(&mut to[place.clone()]).copy_from_slice(black_box(&from[place]));
        }
        sum.add(&lap, meter);
        if !options.hot {
            laps.check(&lap, |at, bytes| {
                bytes.copy_from_slice(&to[at..at + bytes.len()]);
                Ok(())
            })?;
        }
    }
    let bytes = laps.count * laps.size as u64;
    say(&json!({ "bytes": bytes, "messages": laps.count, "ns": sum.ns, "cpu_ns": sum.cpu_ns }))
}
