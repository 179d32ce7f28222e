//! A counter: several hosts add to a register of one host's card, by fetch and increment or by
//! compare and swap.

use std::time::Instant;

use hamlyn::dart::programs::Caller;
use hamlyn::dart::{Card, Step};
use hdrhistogram::Histogram;
use serde_json::json;

use crate::Options;
use crate::common::Outcome;
use crate::meet::{Guest, Home, Plan};

/// The register used as counter.
const COUNT: u8 = 1;
/// Offset that questions are sent from.
const SCRATCH: u64 = 4096;

pub(crate) fn keep(card: &Card, options: &Options) -> Outcome {
    let mut home = Home::open(card, options, Plan::default())?;
    home.begin()?;
    let counted = home.wait()?;
    let value = home.others[0].register(COUNT.into())?;
    let expected = u64::from(options.others) * options.count;
    if value != expected {
        return Err(format!("the counter is {value}, not {expected}").into());
    }
    home.end(&json!({ "value": value }), counted)
}

pub(crate) fn join(card: &Card, options: &Options, by_swap: bool) -> Outcome {
    let mut guest = Guest::meet(card, options)?;
    let own = guest.register();
    let mut caller =
        Caller::new(guest.connection.clone(), guest.answers()?, SCRATCH).with_timeout(guest.patience);
    let (mut times, mut known, mut tries) = (Histogram::<u64>::new(3)?, 0, 0_u64);
    for _ in 0..options.count {
        let begun = Instant::now();
        if by_swap {
            loop {
                tries += 1;
                let found = caller.compare_and_swap(COUNT, own, known, known + 1)?;
                if found == known {
                    break;
                }
                known = found;
            }
            known += 1;
        } else {
            tries += 1;
            known = caller.fetch(COUNT, Step::Increment, 0)?.1;
        }
        times.record(begun.elapsed().as_nanos() as u64)?;
    }
    guest.end(&json!({
        "added": options.count,
        "last": known,
        "tries": tries,
        "p50_ns": times.value_at_quantile(0.5),
    }))
}
