//! Clients of the event-driven server (section 5.3): one process with any number of connections,
//! each with at most one request in flight.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use hamlyn::Polling;
use hamlyn::clan::Card;
use hamlyn::clan::programs::End;
use hamlyn::clan::programs::rpc::Client;
use hdrhistogram::Histogram;
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use serde_json::json;

use crate::common::{Outcome, print};
use crate::meet;

/// Bytes of a client's memory.
const LENGTH: usize = 256;
/// A client spins, because the reply arrives before it could fall asleep (section 5.3).
const SPIN: Polling = Polling::up_to(Duration::from_millis(10));

#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    /// Number of connections
    #[arg(long, default_value_t = 4)]
    connections: usize,
    /// Number of requests
    #[arg(long, default_value_t = 1000)]
    count: u32,
    /// Microseconds between two requests
    #[arg(long, default_value_t = 0)]
    gap: u64,
    /// Number of requests sent, each on another connection, before their replies are collected
    #[arg(long, default_value_t = 1)]
    at_once: usize,
    /// Number of connections that requests are sent on; else all
    #[arg(long)]
    used: Option<usize>,
    /// Sends one request on each used connection before the timed ones, because the first access
    /// faults pages in
    #[arg(long)]
    warm_up: bool,
}

struct Clients {
    all: Vec<(Client, Arc<End>)>,
    times: Histogram<u64>,
}

impl Clients {
    /// Opens each connection separately, with one Tripwire: a card has enough of those for
    /// thousands.
    fn connect(card: &Card, meet: &meet::Options, count: usize) -> Outcome<Self> {
        let builder = card.endpoint_builder().tripwires(1).requests(16).polling(SPIN);
        let mut all = Vec::new();
        for _ in 0..count.max(1) {
            let end = meet.connect_by(card, &builder, LENGTH)?;
            all.push((Client::new(&end)?, end));
        }
        Ok(Self { all, times: Histogram::new(3)? })
    }

    /// Sends requests on consecutive connections among the first `count`, beginning at `first`, and
    /// collects their replies.
    fn ask(&mut self, first: usize, count: usize, requests: Range<u32>) -> Outcome {
        let mut begun = Vec::with_capacity(requests.len());
        for (index, request) in requests.clone().enumerate() {
            begun.push(Instant::now());
            self.all[(first + index) % count].0.begin(&request.to_le_bytes())?;
        }
        for (index, (request, begun)) in requests.zip(begun).enumerate() {
            let mut reply = [0; 4];
            let length = self.all[(first + index) % count].0.reply(&mut reply)?;
            self.times.record(begun.elapsed().as_nanos() as u64)?;
            if length != 4 || reply != request.to_le_bytes() {
                return Err(format!("the answer to request {request} is another's").into());
            }
        }
        Ok(())
    }

    /// Closes all connections. If the server takes messages late, the operating systems notify it
    /// of some of these ends instead.
    fn close(self) -> Outcome {
        for (client, end) in self.all {
            drop(client);
            match end.close() {
                Err(error) if !error.is_would_block() => return Err(error.into()),
                _ => {}
            }
        }
        Ok(())
    }
}

pub(crate) fn run(card: &Card, meet: &meet::Options, options: &Options) -> Outcome {
    let mut clients = Clients::connect(card, meet, options.connections)?;
    let connections = clients.all.len();
    let used = options.used.unwrap_or(connections).clamp(1, connections);
    let (at_once, mut random) = (options.at_once.clamp(1, used), SplitMix64::seed_from_u64(1));
    if options.warm_up {
        (0..used).try_for_each(|each| clients.ask(each, used, 0..1))?;
    }
    let first = std::mem::replace(&mut clients.times, Histogram::new(3)?);
    let begun = Instant::now();
    for start in (0..options.count).step_by(at_once) {
        let requests = start..options.count.min(start + at_once as u32);
        clients.ask((random.next_u64() % used as u64) as usize, used, requests)?;
        std::thread::sleep(Duration::from_micros(options.gap));
    }
    let (ns, times) = (begun.elapsed().as_nanos() as u64, clients.times.clone());
    clients.close()?;
    let samples: Vec<_> =
        times.iter_recorded().map(|step| [step.value_iterated_to(), step.count_at_value()]).collect();
    print(&json!({
        "requests": options.count,
        "connections": connections,
        "first_p50_ns": first.value_at_quantile(0.5),
        "p50_ns": times.value_at_quantile(0.5),
        "p99_ns": times.value_at_quantile(0.99),
        "samples": samples,
        "messages": options.count,
        "ns": ns,
    }))
}
