//! Measures the card alone: a word's round trip by programmed I/O, a load across the network, DMA,
//! and a Tripwire. Also measures the cost of opening or reusing endpoints.

use std::time::Instant;

use clap::{Args, Subcommand};
use hamlyn::Polling;
use hamlyn::clan::programs::End;
use hamlyn::clan::programs::transfer::{Receiver, Sender};
use hamlyn::clan::{Card, EndpointCache, Rights, Transfer, Watch};
use hdrhistogram::Histogram;
use serde_json::json;

use crate::common::{Outcome, print};
use crate::meet;

/// Offset of the word used for signalling, past the programs' control words; and the length
/// including the bytes after it.
const WORD: usize = 4096;
const LENGTH: usize = 8192;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Number of round trips and of loads
    #[arg(long, default_value_t = 1000, global = true)]
    count: u64,
    /// Bytes of each DMA transfer
    #[arg(long, default_value_t = 1 << 20, global = true)]
    bytes: usize,
    /// Number of DMA transfers
    #[arg(long, default_value_t = 20, global = true)]
    transfers: u32,
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

pub(crate) fn run(card: &Card, meet: &meet::Options, options: &Options) -> Outcome {
    match options.what {
        What::Serve => serve(card, meet, options),
        What::Ask => ask(card, meet, options),
    }
}

/// Answers each number stored here by storing it at the peer. Waits by polling alone or with a
/// Tripwire.
fn echo(end: &End, numbers: std::ops::Range<u64>, meet: &meet::Options, spin: bool) -> Outcome {
    let (own, out) = (end.own(), end.out());
    let endpoint = end.connection().endpoint();
    let mut tripwire = endpoint.tripwire(&Watch::local(own, WORD..WORD + 8)?)?;
    endpoint.set_polling(if spin { Polling::MOST } else { Polling::NEVER });
    for number in numbers {
        tripwire.wait_until_timeout(meet.patience(), || {
            Ok(Some(own.load_u64(WORD)?).filter(|found| *found > number))
        })?;
        out.store_u64(WORD, number + 1)?;
    }
    Ok(())
}

/// Returns the round-trip times.
fn round_trips(
    end: &End,
    numbers: std::ops::Range<u64>,
    meet: &meet::Options,
    spin: bool,
) -> Outcome<Histogram<u64>> {
    let mut times = Histogram::new(3)?;
    let (own, out) = (end.own(), end.out());
    let endpoint = end.connection().endpoint();
    let mut tripwire = endpoint.tripwire(&Watch::local(own, WORD..WORD + 8)?)?;
    endpoint.set_polling(if spin { Polling::MOST } else { Polling::NEVER });
    for number in numbers {
        let asked = Instant::now();
        out.store_u64(WORD, number + 1)?;
        tripwire.wait_until_timeout(meet.patience(), || {
            Ok(Some(own.load_u64(WORD)?).filter(|found| *found > number))
        })?;
        times.record(asked.elapsed().as_nanos() as u64)?;
    }
    Ok(times)
}

fn serve(card: &Card, meet: &meet::Options, options: &Options) -> Outcome {
    let listener = meet.listen(card)?;
    let end = meet.accept(card, &listener, LENGTH)?;
    // The sender must know both memories before numbers are counted.
    let (mut sender, mut receiver) = (Sender::new(&end)?, Receiver::new(&end)?);
    let target = card.aperture(options.bytes, Rights::ReadWrite)?;
    sender.send(&target.descriptor()?.to_bytes())?;
    echo(&end, 0..options.count, meet, true)?;
    receiver.recv_into(&mut [])?;
    echo(&end, options.count..2 * options.count, meet, false)?;
    print(&json!({ "answered": 2 * options.count }))?;
    end.connection().wait_end_timeout(meet.patience())?;
    Ok(())
}

fn ask(card: &Card, meet: &meet::Options, options: &Options) -> Outcome {
    let end = meet.connect(card, LENGTH)?;
    let (mut sender, mut receiver) = (Sender::new(&end)?, Receiver::new(&end)?);
    let mut told = [0; 32];
    receiver.recv_into(&mut told)?;
    let target = hamlyn::clan::Descriptor::from_bytes(&told)?;
    let spinning = round_trips(&end, 0..options.count, meet, true)?;
    sender.send(&[])?;
    let asleep = round_trips(&end, options.count..2 * options.count, meet, false)?;

    let mut loads = Histogram::<u64>::new(3)?;
    for _ in 0..options.count {
        let begun = Instant::now();
        end.out().load_u64(WORD)?;
        loads.record(begun.elapsed().as_nanos() as u64)?;
    }
    let from = card.aperture(options.bytes, Rights::None)?;
    let dma = end.connection().endpoint().dma();
    let begun = Instant::now();
    for _ in 0..options.transfers {
        let put = dma.try_put(&Transfer::write(&from, 0, &target, 0, options.bytes)?)?;
        dma.wait_timeout(put, meet.patience())?;
    }
    let sending = begun.elapsed();
    let (opened, used_again) = endpoints(card, options.count.min(200))?;
    let sent = u64::from(options.transfers) * options.bytes as u64;
    print(&json!({
        "round_trips": options.count,
        "spinning_p50_ns": spinning.value_at_quantile(0.5),
        "asleep_p50_ns": asleep.value_at_quantile(0.5),
        "load_p50_ns": loads.value_at_quantile(0.5),
        "sent": sent,
        "bytes_per_second": sent as f64 / sending.as_secs_f64().max(1e-9),
        "endpoint_opened_ns": opened,
        "endpoint_used_again_ns": used_again,
    }))?;
    drop((sender, receiver));
    end.close()?;
    Ok(())
}

/// Returns the cost of an endpoint with its memory: opened each time, and reused (section 3.1).
fn endpoints(card: &Card, count: u64) -> Outcome<(u64, u64)> {
    let mut each = [0; 2];
    for (kept, time) in [0, 1].into_iter().zip(&mut each) {
        let mut cache = EndpointCache::new(card, card.endpoint_builder(), LENGTH, Rights::Write, kept);
        let begun = Instant::now();
        for _ in 0..count {
            let kit = cache.take(0)?;
            cache.give(0, kit);
        }
        *time = begun.elapsed().as_nanos() as u64 / count.max(1);
    }
    Ok((each[0], each[1]))
}
