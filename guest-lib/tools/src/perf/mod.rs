//! `hamlyn-perf`: latency and bandwidth, with the conventions of RDMA's perftest.

mod bandwidth;
mod latency;
mod table;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::card::CardOption;
use crate::end::{MAX_SIZE, Wait};
use crate::peer::{Meeting, Session};
use crate::ping::seconds;
use crate::serve;
use crate::{Outcome, say};
use table::Row;

const EXAMPLES: &str = "\
Examples:
  hamlyn-perf                  on host 1: what is measured against
  hamlyn-perf 1                on another: latency of 2 bytes
  hamlyn-perf -a -e 1          latency of every size, both ends asleep in between
  hamlyn-perf -b -D 5 1        bandwidth of 64 KiB messages, for 5 seconds";

/// What it listens under.
const NAME: &str = "hamlyn-perf";

/// Measures latency or bandwidth to a peer, as RDMA's perftest does
///
/// Without a peer it is the one that is measured against, until it is stopped; it needs no options then.
/// Latency is half of a round trip. A MB is 2^20 bytes, as in perftest; the peak of the bandwidth is that between any two
/// moments.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(flatten)]
    meeting: Meeting,
    #[command(flatten)]
    card: CardOption,
    /// Bandwidth instead of latency
    #[arg(short, long)]
    bandwidth: bool,
    /// Bytes of each message [default: 2 for latency, 65536 for bandwidth]
    #[arg(short, long, value_name = "BYTES")]
    size: Option<usize>,
    /// Messages of each size
    #[arg(short = 'n', long, default_value_t = 1000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    iters: u64,
    /// Every power of two from 2 to 8388608 as size
    #[arg(short, long, conflicts_with = "size")]
    all: bool,
    /// As many messages as go in so many seconds, of each size
    #[arg(short = 'D', long, value_name = "SECONDS", value_parser = seconds, conflicts_with = "iters")]
    duration: Option<f64>,
    /// Both ends sleep until an interrupt says that a message is there; otherwise they poll
    #[arg(short, long)]
    events: bool,
    /// Seconds to wait for the peer
    #[arg(long, default_value_t = 30.0, value_name = "SECONDS", value_parser = seconds)]
    timeout: f64,
    /// A JSON object for each size, on a line of its own, and nothing else
    #[arg(long)]
    json: bool,
}

/// How long a measurement goes on.
#[derive(Debug, Clone, Copy)]
enum Extent {
    Messages(u64),
    Until(Instant),
}

impl Extent {
    /// Whether message `number`, the first being 0, is the last.
    fn is_last(self, number: u64) -> bool {
        match self {
            Extent::Messages(messages) => number + 1 >= messages,
            Extent::Until(end) => Instant::now() >= end,
        }
    }
}

impl Options {
    fn sizes(&self) -> Outcome<Vec<usize>> {
        if self.all {
            return Ok((1..=23).map(|power| 1 << power).collect());
        }
        let size = self.size.unwrap_or(if self.bandwidth { 65536 } else { 2 });
        if size > MAX_SIZE {
            return Err(format!("message size {size} is out of range (limit {MAX_SIZE})").into());
        }
        Ok(vec![size])
    }

    fn extent(&self) -> Extent {
        let until = |seconds| Instant::now() + Duration::from_secs_f64(seconds);
        self.duration.map_or(Extent::Messages(self.iters), |seconds| Extent::Until(until(seconds)))
    }
}

pub(crate) fn run(options: &Options) -> Outcome<ExitCode> {
    let card = options.card.open()?;
    let meeting = &options.meeting;
    let name = meeting.name.as_deref().unwrap_or(NAME);
    let Some(peer) = &meeting.peer else {
        return if meeting.ticket {
            serve::ticket(&card, options.json)
        } else {
            serve::listen(&card, name, options.json)
        };
    };
    let sizes = options.sizes()?;
    let largest = sizes.iter().copied().max().unwrap_or_default();
    let wait = if options.events { Wait::Sleep } else { Wait::Poll };
    let timeout = Duration::from_secs_f64(options.timeout);
    let mut session = Session::open(&card, (peer, name), largest, wait, timeout)?;
    if options.bandwidth {
        measure::<bandwidth::Result>(options, &mut session, &sizes, bandwidth::measure)?;
    } else {
        measure::<latency::Result>(options, &mut session, &sizes, latency::measure)?;
    }
    session.close()?;
    Ok(ExitCode::SUCCESS)
}

/// Measures every size and shows each as soon as it is known.
fn measure<R: Row>(
    options: &Options,
    session: &mut Session,
    sizes: &[usize],
    one: impl Fn(&mut Session, usize, &Options) -> Outcome<R>,
) -> Outcome {
    if !options.json {
        say(R::HEADER)?;
    }
    for size in sizes {
        let row = one(session, *size, options)?;
        if options.json { say(row.object()) } else { say(row.line()) }?;
    }
    Ok(())
}
