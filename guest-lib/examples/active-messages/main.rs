//! Active Messages over channels (section 5.4): a histogram whose bins are spread over several
//! processes; see docs/active-messages.md.
//!
//! Every process has its own samples and a part of the bins. It sends each sample's bin number to
//! the process that counts that bin. Process 0 collects the bins by bulk replies and sends the
//! whole histogram to all processes by bulk requests. All samples are generated from seeds, so
//! every process can check every bin.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use common::{Outcome, print};
use endpoint::{Endpoint, Failure, MAX_ARGUMENTS};
use hamlyn::channel::{self, Card, Channel, Listener};
use hamlyn::{EndReason, Error};
use hamlyn_examples as common;
use histogram::{COUNT, DONE, FETCH, HANDLERS, Histogram, RESULT};
use serde_json::json;
use wire::Head;

mod endpoint;
mod histogram;
mod wire;

/// Delay before a name is looked up again.
const AGAIN: Duration = Duration::from_millis(50);
/// Number of timed exchanges.
const ROUND_TRIPS: u32 = 200;
/// An index past the end of the table of request handlers.
const NO_HANDLER: u16 = 999;

/// Counts the samples of several processes in bins spread over them, by Active Messages
#[derive(Debug, Parser)]
struct Options {
    #[command(flatten)]
    card: common::CardOption,
    /// This process' number in the job
    #[arg(long)]
    rank: usize,
    /// The host id of every process, ordered by process number
    #[arg(long, value_delimiter = ',', required = true)]
    hosts: Vec<u32>,
    /// The job's name
    #[arg(long, default_value = "histogram")]
    job: String,
    /// Number of samples of each process
    #[arg(long, default_value_t = 20_000)]
    samples: u32,
    /// Number of bins of each process; up to 8192 in total
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=(MAX_ARGUMENTS / 8) as i64))]
    bins: u32,
    /// Number of samples in a message
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=(MAX_ARGUMENTS / 4) as i64))]
    batch: u32,
    /// Seconds to wait for the other processes
    #[arg(long, default_value_t = 60)]
    timeout: u64,
}

fn main() -> ExitCode {
    common::run(|| {
        let options = Options::parse();
        if options.rank >= options.hosts.len() {
            let (rank, limit) = (options.rank, options.hosts.len() - 1);
            return Err(format!("rank {rank} is out of range (limit {limit})").into());
        }
        let (bins, limit) = (options.bins as usize * options.hosts.len(), MAX_ARGUMENTS / 8);
        if bins > limit {
            return Err(format!("{bins} bins in all are too many for a message (limit {limit})").into());
        }
        let card = options.card.open_any()?;
        count(gather(&card, &options)?, &options)
    })
}

/// Connects to all other processes: connects to those with a lower rank, then accepts those with a
/// higher one.
fn gather(card: &Card, options: &Options) -> Outcome<Endpoint<Histogram>> {
    let (own, ranks, patience) = (options.rank, options.hosts.len(), Duration::from_secs(options.timeout));
    let (name, mut missing) = (|rank| format!("{}/{rank}", options.job), ranks - 1 - own);
    let longest = channel::Options::for_messages((Head::SIZE + MAX_ARGUMENTS) as u64);
    let mut endpoint = Endpoint::new(own, HANDLERS, Histogram::new(options.bins, ranks));
    for rank in 0..own {
        let mut channel = connect(card, (options.hosts[rank], &name(rank)), longest, patience)?;
        channel.sender.send(&(own as u32).to_le_bytes())?;
        endpoint.add(rank, channel);
    }
    if missing > 0 {
        let listener = Listener::bind(card, &name(own), longest)?;
        while missing > 0 {
            let mut channel = listener.accept_timeout(patience)?;
            let rank = rank_of(&mut channel, patience)?;
            if rank >= ranks || rank <= own || endpoint.has(rank) {
                return Err(format!("rank {rank} is not one that is missing").into());
            }
            endpoint.add(rank, channel);
            missing -= 1;
        }
    }
    Ok(endpoint)
}

/// Opens a channel as soon as the other process has the name.
fn connect(
    card: &Card,
    (host, name): (u32, &str),
    options: channel::Options,
    patience: Duration,
) -> Outcome<Channel> {
    let begun = Instant::now();
    loop {
        match Channel::connect_timeout(card, host, name, options, patience) {
            Err(Error::Ended(end)) if end.reason == EndReason::NoName && begun.elapsed() < patience => {
                std::thread::sleep(AGAIN);
            }
            connected => return connected.map_err(|error| format!("host {host}, {name:?}: {error}").into()),
        }
    }
}

/// Returns the rank in a channel's first message.
fn rank_of(channel: &mut Channel, patience: Duration) -> Outcome<usize> {
    let message = channel.receiver.recv_timeout(patience)?.map(|message| message.to_vec()).transpose()?;
    let rank = message.unwrap_or_default().try_into().map_err(|_| "a process does not tell its rank")?;
    Ok(u32::from_le_bytes(rank) as usize)
}

/// Runs the job.
fn count(mut endpoint: Endpoint<Histogram>, options: &Options) -> Outcome {
    let (own, ranks, patience) = (options.rank, options.hosts.len(), Duration::from_secs(options.timeout));
    print(&json!({ "rank": own, "met": ranks }))?;
    let round_trip = round_trip(&mut endpoint, (own + 1) % ranks, patience)?;
    let messages = send_samples(&mut endpoint, options, patience)?;
    endpoint.finish(patience)?;
    endpoint.request(0, DONE, &[], patience)?;
    if own == 0 {
        endpoint.serve_until(|histogram| histogram.done == ranks, patience)?;
        for rank in 0..ranks {
            endpoint.request(rank, FETCH, &[], patience)?;
        }
        endpoint.finish(patience)?;
        let whole = endpoint.state.whole();
        for rank in 0..ranks {
            endpoint.request(rank, RESULT, &whole, patience)?;
        }
    }
    endpoint.finish(patience)?;
    endpoint.serve_until(|histogram| histogram.result.is_some(), patience)?;
    let verified = endpoint.state.result == Some(expected(options));
    endpoint.close(patience)?;
    print(&json!({
        "rank": own, "messages": messages, "verified": verified, "round_trip_us": round_trip.as_micros() as u64,
    }))?;
    if verified { Ok(()) } else { Err("the histogram is wrong".into()) }
}

/// Returns the shortest of many round trips. Also sends a request for a handler that does not
/// exist; only the requester gets an error.
fn round_trip(endpoint: &mut Endpoint<Histogram>, peer: usize, patience: Duration) -> Outcome<Duration> {
    let mut shortest = Duration::MAX;
    for _ in 0..ROUND_TRIPS {
        let start = Instant::now();
        endpoint.request(peer, COUNT, &[], patience)?;
        endpoint.finish(patience)?;
        shortest = shortest.min(start.elapsed());
    }
    endpoint.request(peer, NO_HANDLER, b"no handler reads this", patience)?;
    endpoint.finish(patience)?;
    match endpoint.failure() {
        Some(Failure::NoHandler { handler: NO_HANDLER, .. }) => Ok(shortest),
        other => Err(format!("a handler that there is not gave {other:?}").into()),
    }
}

/// Sends every sample to the process that counts it. Returns the number of messages sent.
fn send_samples(endpoint: &mut Endpoint<Histogram>, options: &Options, patience: Duration) -> Outcome<u64> {
    let (bins, batch) = (options.bins, options.batch as usize);
    let mut batches = vec![Vec::with_capacity(4 * batch); options.hosts.len()];
    let mut messages = 0;
    for sample in samples(options, options.rank) {
        let owner = (sample / bins) as usize;
        batches[owner].extend((sample % bins).to_le_bytes());
        if batches[owner].len() == 4 * batch {
            endpoint.request(owner, COUNT, &batches[owner], patience)?;
            batches[owner].clear();
            messages += 1;
        }
    }
    for (owner, rest) in batches.iter().enumerate().filter(|(_, rest)| !rest.is_empty()) {
        endpoint.request(owner, COUNT, rest, patience)?;
        messages += 1;
    }
    Ok(messages)
}

/// Returns a process' samples, as bins of the whole histogram.
fn samples(options: &Options, rank: usize) -> impl Iterator<Item = u32> {
    let bins = options.bins * options.hosts.len() as u32;
    (0..options.samples as usize).map(move |number| {
        let mut sample = [0; 4];
        common::fill_pattern(rank as u64, 4 * number, &mut sample);
        u32::from_le_bytes(sample) % bins
    })
}

/// Returns the whole histogram, computed locally.
fn expected(options: &Options) -> Vec<u64> {
    let mut bins = vec![0; options.bins as usize * options.hosts.len()];
    (0..options.hosts.len()).flat_map(|rank| samples(options, rank)).for_each(|bin| bins[bin as usize] += 1);
    bins
}
