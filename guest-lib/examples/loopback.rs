//! A process sends to itself, through the card and the switch and back (section 4.3, Figure 10).

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use common::{Outcome, print};
use hamlyn::protocol::tagged_write::{TagReceiver, TagSender};
use hamlyn::{Card, Message};
use hamlyn_examples as common;
use hdrhistogram::Histogram;
use serde_json::json;

/// Bytes of a short message.
const SHORT: usize = 64;

/// Sends short messages and a long one to itself, and verifies them
#[derive(Debug, Parser)]
struct Options {
    #[command(flatten)]
    card: common::CardOption,
    /// Number of short messages, sent one after the other
    #[arg(long, default_value_t = 1000)]
    count: u32,
    /// Bytes of the long message
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..=1 << 28))]
    bytes: u32,
    /// Seconds to wait for a message
    #[arg(long, default_value_t = 30)]
    timeout: u64,
}

fn main() -> ExitCode {
    common::run(|| {
        let options = Options::parse();
        let timeout = Duration::from_secs(options.timeout);
        let card = options.card.open()?;
        let times = short(&card, options.count, timeout)?;
        let bytes = options.bytes as usize;
        let time = long(&card, bytes, timeout)?;
        let rate = bytes as f64 / 1e6 / time.as_secs_f64();
        print(&json!({
            "short": options.count,
            "long": bytes,
            "verified": true,
            "p50_ns": times.value_at_quantile(0.5),
            "p99_ns": times.value_at_quantile(0.99),
            "mb_per_s": (rate * 10.0).round() / 10.0,
        }))
    })
}

/// Returns the times from send to receipt, in nanoseconds.
fn short(card: &Card, count: u32, timeout: Duration) -> Outcome<Histogram<u64>> {
    let mut receiver = TagReceiver::create(card, SHORT, 16)?;
    let sender = TagSender::new(card.create_terminus()?);
    let ticket = receiver.ticket()?;
    let mut times = Histogram::new(3)?;
    let (mut sent, mut back) = ([0; SHORT], [0; SHORT]);
    for tag in 0..count {
        common::fill_pattern(tag.into(), 0, &mut sent);
        let start = Instant::now();
        sender.send(&ticket, &sent, 0, tag)?;
        let arrived = receiver.recv_polling_timeout(timeout)?;
        times.record(start.elapsed().as_nanos() as u64)?;
        receiver.read(0, &mut back)?;
        if arrived != tag || back != sent {
            return Err(format!("short message {tag} came as {arrived}, or with other bytes").into());
        }
    }
    Ok(times)
}

fn long(card: &Card, bytes: usize, timeout: Duration) -> Outcome<Duration> {
    let area = card.create_area(bytes)?;
    let queue = card.create_queue(2)?;
    let slot = card.slot(&area).metadata_entries(1).queue(&queue).create()?;
    let ticket = slot.ticket(0)?;
    let terminus = card.create_terminus()?;
    let mut buffer = terminus.create_send_buffer(bytes)?;
    let mut data = vec![0; bytes];
    common::fill_pattern(1, 0, &mut data);
    buffer.write(0, &data)?;
    let start = Instant::now();
    terminus.send_dma(&Message::to(&ticket), buffer.piece(0, bytes)?)?;
    queue.recv_timeout(timeout)?;
    let time = start.elapsed();
    slot.read(0, &mut data)?;
    match common::find_difference(1, 0, &data) {
        Some(offset) => Err(format!("byte {offset} of the long message is wrong").into()),
        None => Ok(time),
    }
}
