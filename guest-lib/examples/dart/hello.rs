//! Deposits: 32 bytes are stored where their sender asks, and are sent back. Both hosts poll their
//! memory, and neither is interrupted.

use std::time::{Duration, Instant};

use hamlyn::dart::{Card, Connection, Endpoint, Operation};
use hdrhistogram::Histogram;
use serde_json::json;

use crate::Options;
use crate::common::{Outcome, fill_pattern, find_difference};
use crate::meet::{Guest, Home, Plan, look};

/// Offsets where blocks arrive, and where they are sent from.
const BLOCK: u64 = 0;
const SOURCE: u64 = 64;
const BYTES: usize = 32;
/// The block's last word is written last, and is its number.
const DATA: usize = BYTES - 4;

fn send(connection: &Connection, endpoint: &Endpoint, number: u64) -> Outcome {
    let mut block = [0; BYTES];
    fill_pattern(number, 0, &mut block[..DATA]);
    block[DATA..].copy_from_slice(&(number as u32).to_le_bytes());
    // The previous block has left, because it was answered.
    endpoint.write(SOURCE as usize, &block)?;
    Ok(connection.try_send(&Operation::write(BLOCK), SOURCE..SOURCE + BYTES as u64)?)
}

fn receive(endpoint: &Endpoint, number: u64, patience: Duration) -> Outcome {
    look(patience, "a block", || {
        Ok((endpoint.load_u32(BLOCK as usize + DATA)? == number as u32).then_some(()))
    })?;
    let mut found = [0; DATA];
    endpoint.read(BLOCK as usize, &mut found)?;
    match find_difference(number, 0, &found) {
        Some(at) => Err(format!("byte {at} of block {number} is another").into()),
        None => Ok(()),
    }
}

pub(crate) fn keep(card: &Card, options: &Options) -> Outcome {
    let mut home = Home::open(card, options, Plan::default())?;
    home.begin()?;
    for number in 1..=options.count {
        receive(&home.endpoint, number, home.patience)?;
        send(&home.others[0], &home.endpoint, number)?;
    }
    let counted = home.wait()?;
    let deposits = home.counted("bytes_deposited")? / BYTES as u64;
    home.end(&json!({ "deposits": deposits, "verified": true }), counted)
}

pub(crate) fn join(card: &Card, options: &Options) -> Outcome {
    let guest = Guest::meet(card, options)?;
    let mut times = Histogram::<u64>::new(3)?;
    for number in 1..=options.count {
        let begun = Instant::now();
        send(&guest.connection, &guest.endpoint, number)?;
        receive(&guest.endpoint, number, guest.patience)?;
        times.record(begun.elapsed().as_nanos() as u64)?;
    }
    guest.end(&json!({ "round_trips": options.count, "p50_ns": times.value_at_quantile(0.5) }))
}
