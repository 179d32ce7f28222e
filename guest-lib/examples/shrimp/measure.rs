//! Measures the round trip of a flag by automatic update, and the throughput of deliberate update.

use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use hamlyn::shrimp::{Card, Handle, Mode};
use hdrhistogram::Histogram;
use serde_json::json;

use crate::common::{Outcome, print};
use crate::seek::seek;

/// Offsets of words in the first page: the asking side stores one, the server the other.
const ASKED: usize = 0;
const ANSWERED: usize = 64;
const VERIFIED: usize = 128;
/// Offset of the bytes that are sent.
const BYTES: usize = 4096;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The server's name
    #[arg(long, default_value = "shrimp-measure", global = true)]
    name: String,
    /// Seconds to wait for anything
    #[arg(long, default_value_t = 30, global = true)]
    timeout: u64,
    /// Number of round trips
    #[arg(long, default_value_t = 1000, global = true)]
    count: u32,
    /// Bytes of each deliberate update, a multiple of 4; each is verified
    #[arg(long, default_value_t = 1 << 20, global = true)]
    bytes: usize,
    /// Number of deliberate updates
    #[arg(long, default_value_t = 20, global = true)]
    updates: u32,
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Clone, Copy, Subcommand)]
enum What {
    /// Answers
    Serve,
    /// Measures
    Ask,
}

impl Options {
    fn patience(&self) -> Duration {
        Duration::from_secs(self.timeout)
    }

    /// Returns the number of bytes of each side's memory.
    fn length(&self) -> usize {
        BYTES + self.bytes
    }
}

pub(crate) fn run(card: &Card, options: &Options) -> Outcome {
    match options.what {
        What::Serve => serve(card, options),
        What::Ask => ask(card, options),
    }
}

/// Returns word `index` of an update, which is unique to the update. Works in words, because an
/// emulated machine needs seconds for the same number of bytes.
fn word(update: u32, index: usize) -> [u8; 4] {
    (update << 24 ^ index as u32).wrapping_mul(0x9e37_79b9).to_le_bytes()
}

fn fill(update: u32, bytes: &mut [u8]) {
    bytes.chunks_exact_mut(4).enumerate().for_each(|(at, place)| place.copy_from_slice(&word(update, at)));
}

fn difference(update: u32, bytes: &[u8]) -> Option<usize> {
    bytes.chunks_exact(4).enumerate().position(|(at, found)| found != word(update, at))
}

fn serve(card: &Card, options: &Options) -> Outcome {
    let (listener, own) = (card.listen(&options.name)?, card.export(options.length(), card.hosts()?)?);
    print(&json!({ "listening": options.name }))?;
    let request = listener.request_timeout(options.patience())?;
    let other = Handle::from_bytes(request.private())?;
    let flags = card.map(&other, 0, BYTES, Mode::Single)?;
    let connection = request.accept(&own.handle()?.to_bytes())?;
    let mut bytes = vec![0; options.bytes];
    for asked in 0..options.count {
        flags.store_u32(ANSWERED, own.wait_timeout(ASKED, asked, options.patience())?)?;
    }
    for update in 0..options.updates {
        let number = own.wait_timeout(ASKED, options.count + update, options.patience())?;
        flags.store_u32(ANSWERED, number)?;
        own.read(BYTES, &mut bytes)?;
        if let Some(at) = difference(update, &bytes) {
            return Err(format!("word {at} of update {update} is another").into());
        }
        flags.store_u32(VERIFIED, update + 1)?;
    }
    print(&json!({ "answered": options.count, "verified": options.updates }))?;
    connection.wait_end_timeout(options.patience())?;
    Ok(())
}

fn ask(card: &Card, options: &Options) -> Outcome {
    let own = card.export(options.length(), card.hosts()?)?;
    let handle = own.handle()?.to_bytes();
    let connection = seek(card, &options.name, &handle, options.patience())?;
    let other = Handle::from_bytes(connection.private())?;
    let flags = card.map(&other, 0, BYTES, Mode::Single)?;
    let pages = card.map(&other, BYTES as u64, options.bytes, Mode::Deliberate)?;
    let mut number = 0;
    let mut say = || {
        flags.store_u32(ASKED, number + 1)?;
        number = own.wait_timeout(ANSWERED, number, options.patience())?;
        Ok::<_, hamlyn::Error>(())
    };
    let mut times = Histogram::<u64>::new(3)?;
    for _ in 0..options.count {
        let asked = Instant::now();
        say()?;
        times.record(asked.elapsed().as_nanos() as u64)?;
    }
    let mut sending = Duration::ZERO;
    let mut bytes = vec![0; options.bytes];
    for update in 0..options.updates {
        fill(update, &mut bytes);
        pages.write(0, &bytes)?;
        let begun = Instant::now();
        pages.send(0, options.bytes)?;
        pages.wait_until_sent_timeout(options.patience())?;
        say()?;
        // The pages have arrived, because later stores have. The comparison is not measured.
        sending += begun.elapsed();
        own.wait_timeout(VERIFIED, update, options.patience())?;
    }
    connection.close(b"")?;
    let sent = u64::from(options.updates) * options.bytes as u64;
    print(&json!({
        "round_trips": options.count,
        "p50_ns": times.value_at_quantile(0.5),
        "snoops": card.info()?.snoops,
        "sent": sent,
        "bytes_per_second": sent as f64 / sending.as_secs_f64().max(1e-9),
        "verified": true,
    }))
}
