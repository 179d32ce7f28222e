//! Several termini of one process, all busy at once: each gets its share of the link (section 2.3),
//! according to its weight.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use common::{Outcome, print};
use hamlyn::{Card, Message, SendBuffer, Terminus, Ticket};
use hamlyn_examples as common;
use serde_json::json;

/// Minimum number of messages that each terminus completes, so that one more or less matters
/// little.
const ENOUGH: u64 = 50;

/// Sends as much as it can from several termini, and prints how much each completed; the receiver
/// is `flood sink`
#[derive(Debug, Parser)]
struct Options {
    #[command(flatten)]
    card: common::CardOption,
    /// The sink's ticket
    #[arg(long)]
    ticket: Ticket,
    /// A weight for each terminus; more than 1 requires CAP_SYS_NICE in a guest
    #[arg(long, value_delimiter = ',', default_values_t = [1, 1, 1, 1])]
    weights: Vec<u32>,
    /// Minimum number of seconds; each terminus completes at least 50 messages
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Bytes in a message
    #[arg(long, default_value_t = 65_536, value_parser = clap::value_parser!(u32).range(1..=1 << 28))]
    size: u32,
}

fn main() -> ExitCode {
    common::run(|| {
        let options = Options::parse();
        let card = options.card.open()?;
        let size = options.size as usize;
        let busy = options.weights.iter().map(|weight| Busy::create(&card, *weight, size));
        let mut busy = busy.collect::<Outcome<Vec<_>>>()?;
        fill(&mut busy, &options.ticket)?;
        let start = Instant::now();
        let mut last: Vec<u64> = busy.iter().map(|busy| busy.terminus.completed()).collect();
        let mut messages = vec![0; busy.len()];
        while start.elapsed() < Duration::from_secs(options.seconds)
            || messages.iter().any(|count| *count < ENOUGH)
        {
            let now: Vec<u64> = busy.iter().map(|busy| busy.terminus.completed()).collect();
            // If this process did not run for a while, a terminus may have run dry. The messages
            // completed meanwhile are not representative.
            if busy.iter().zip(&now).all(|(busy, completed)| busy.posted > *completed) {
                for (count, (now, last)) in messages.iter_mut().zip(now.iter().zip(&last)) {
                    *count += now - last;
                }
            }
            last = now;
            fill(&mut busy, &options.ticket)?;
            std::thread::yield_now();
        }
        let bytes: Vec<u64> = messages.iter().map(|count| count * size as u64).collect();
        let per_weight: Vec<f64> = bytes
            .iter()
            .zip(&options.weights)
            .map(|(bytes, weight)| *bytes as f64 / f64::from(*weight))
            .collect();
        let mean = per_weight.iter().sum::<f64>() / per_weight.len() as f64;
        let relative: Vec<f64> =
            per_weight.iter().map(|share| (share / mean * 1000.0).round() / 1000.0).collect();
        let spread = relative.iter().map(|share| (share - 1.0).abs()).fold(0.0, f64::max);
        let idle: u64 = busy.iter().map(|busy| busy.idle).sum();
        print(&json!({
            "weights": options.weights,
            "bytes": bytes,
            "per_weight": relative,
            "spread": (spread * 1000.0).round() / 1000.0,
            "idle": idle,
        }))
    })
}

struct Busy {
    terminus: Terminus,
    buffer: SendBuffer,
    posted: u64,
    /// Number of times that all its posted messages were found sent: the terminus was not busy
    /// then.
    idle: u64,
}

impl Busy {
    fn create(card: &Card, weight: u32, size: usize) -> Outcome<Self> {
        let terminus = card.create_terminus_weighted(weight)?;
        let buffer = terminus.create_send_buffer(size)?;
        Ok(Self { terminus, buffer, posted: 0, idle: 0 })
    }
}

/// Fills every work queue completely.
fn fill(all: &mut [Busy], ticket: &Ticket) -> Outcome {
    for busy in all {
        busy.idle += u64::from(busy.posted > 0 && busy.terminus.completed() == busy.posted);
        let piece = busy.buffer.piece(0, busy.buffer.len())?;
        loop {
            match busy.terminus.try_send(&Message::to(ticket).silent(), piece) {
                Ok(_) => busy.posted += 1,
                Err(error) if error.is_would_block() => break,
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(())
}
