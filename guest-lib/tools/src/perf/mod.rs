//! `hamlyn-perf`: latency and bandwidth, with the conventions of RDMA's perftest.

mod bandwidth;
mod latency;
mod rate;
mod table;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use hamlyn::channel::Card;

use crate::card::CardOption;
use crate::end::Wait;
use crate::flow::CHUNK;
use crate::hello::{DEPTH, Wish};
use crate::ping::seconds;
use crate::serve;
use crate::session::{Meeting, Session};
use crate::{Outcome, say};
use table::Row;

const EXAMPLES: &str = "\
Examples:
  hamlyn-perf                  on host 1: what is measured against
  hamlyn-perf 1                on another: latency of 2 bytes, as ib_send_lat
  hamlyn-perf -a -e 1          latency of every size, both ends asleep in between
  hamlyn-perf --bw -D 5 1      bandwidth of 64 KiB messages, for 5 seconds, as ib_send_bw
  hamlyn-perf --bw -b -q 4 --report_gbits 1      both ways at once, by 4 channels
  hamlyn-perf --express 1      through memory that both hosts share";

/// Default name of the server.
const NAME: &str = "hamlyn-perf";
/// Maximum number of pairs of a measurement.
const MAX_PAIRS: u16 = 64;

/// Measures latency or bandwidth to a peer, as RDMA's perftest does
///
/// Without a peer it is the server, until it is stopped; it needs no options then. Latency is half
/// of a round trip. A MB is 2^20 bytes and a Gb 10^9 bits, as in perftest. The peak of the
/// bandwidth is that between any two moments. Option letters have the same meaning as in perftest.
/// Letters that perftest has and this tool does not are refused.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(flatten)]
    meeting: Meeting,
    #[command(flatten)]
    card: CardOption,
    /// Measure bandwidth, like ib_send_bw, instead of latency, like ib_send_lat
    #[arg(long = "bw")]
    bandwidth: bool,
    /// Both ends send at once; the sum is shown
    #[arg(short, long, requires = "bandwidth")]
    bidirectional: bool,
    /// Number of queue pairs: channels, each with its own thread at each end
    #[arg(short, long = "qp", value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=i64::from(MAX_PAIRS)))]
    qps: u16,
    /// Messages of each pair that may be in flight, from 16 to 64
    #[arg(short, long, value_name = "N", requires = "bandwidth", default_value_t = DEPTH as u8)]
    #[arg(value_parser = clap::value_parser!(u8).range(CHUNK as i64..=DEPTH as i64))]
    tx_depth: u8,
    /// Do not determine the peak, which costs time: it is shown as 0
    #[arg(short = 'N', long = "noPeak", requires = "bandwidth")]
    no_peak: bool,
    /// Report Gb/sec instead of MB/sec
    #[arg(long = "report_gbits", alias = "report-gbits", requires = "bandwidth")]
    report_gbits: bool,
    /// Ignored: perftest's scripts pass it, but no processor frequency is measured here
    #[arg(short = 'F', long = "CPU-freq")]
    cpu_freq: bool,
    /// Size of each message in bytes [default: 2 for latency, 65536 for bandwidth]
    #[arg(short, long, value_name = "BYTES")]
    size: Option<usize>,
    /// Number of messages of each size
    #[arg(short = 'n', long, default_value_t = 1000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    iters: u64,
    /// Measure all powers of two from 2 to 8388608 as size, if the card's model sends messages of
    /// that size
    #[arg(short, long, conflicts_with = "size")]
    all: bool,
    /// Send messages of each size for this many seconds
    #[arg(short = 'D', long, value_name = "SECONDS", value_parser = seconds, conflicts_with = "iters")]
    duration: Option<f64>,
    /// Both ends sleep until an interrupt reports a message, and do not poll before; otherwise they
    /// only poll
    #[arg(short, long)]
    events: bool,
    /// Seconds to wait for the peer
    #[arg(long, default_value_t = 30.0, value_name = "SECONDS", value_parser = seconds)]
    timeout: f64,
    /// Print only a JSON object for each size, on its own line
    #[arg(long)]
    json: bool,
}

/// Length of a measurement.
#[derive(Debug, Clone, Copy)]
enum Extent {
    Messages(u64),
    Until(Instant),
}

impl Extent {
    /// Returns whether message `number`, counted from 0, is the last.
    fn is_last(self, number: u64) -> bool {
        match self {
            Extent::Messages(messages) => number + 1 >= messages,
            Extent::Until(end) => Instant::now() >= end,
        }
    }
}

impl Options {
    /// Returns the server's task.
    fn wish(&self) -> Wish {
        match (self.bandwidth, self.bidirectional) {
            (false, _) => Wish::Answer,
            (true, false) => Wish::Count,
            (true, true) => Wish::Both,
        }
    }

    /// Returns the sizes to measure.
    fn sizes(&self, card: &Card) -> Outcome<Vec<usize>> {
        if self.all {
            let sizes = (1..=23).map(|power| 1 << power);
            return Ok(sizes.take_while(|size| *size <= self.meeting.max_size(card)).collect());
        }
        let size = self.size.unwrap_or(if self.bandwidth { 65536 } else { 2 });
        self.meeting.check(card, size)?;
        Ok(vec![size])
    }

    fn extent(&self) -> Extent {
        let until = |seconds| Instant::now() + Duration::from_secs_f64(seconds);
        self.duration.map_or(Extent::Messages(self.iters), |seconds| Extent::Until(until(seconds)))
    }
}

pub(crate) fn run(options: &Options) -> Outcome<ExitCode> {
    let (card, meeting) = (options.card.open()?, &options.meeting);
    let name = meeting.name(NAME);
    let Some(host) = meeting.peer else { return serve::listen(&card, name, options.json) };
    let sizes = options.sizes(&card)?;
    let wait = if options.events { Wait::Sleep } else { Wait::Poll };
    let timeout = Duration::from_secs_f64(options.timeout);
    let open = |size| {
        let session = Session::open(&card, (meeting, host, name), size, wait, timeout)?;
        Ok(session.with_depth(options.tx_depth))
    };
    if options.bandwidth {
        measure(options, &sizes, open, bandwidth::measure)?;
    } else {
        measure(options, &sizes, open, latency::measure)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Measures every size over its own channels, and shows each result at once.
fn measure<R: Row>(
    options: &Options,
    sizes: &[usize],
    open: impl Fn(usize) -> Outcome<Session>,
    one: impl Fn(&mut [Session], usize, &Options) -> Outcome<R>,
) -> Outcome {
    let header = R::header(options);
    if !options.json {
        say(header)?;
    }
    for size in sizes {
        let pairs = if options.bandwidth { options.qps } else { 1 };
        let mut sessions = (0..pairs).map(|_| open(*size)).collect::<Outcome<Vec<_>>>()?;
        let row = one(&mut sessions, *size, options)?;
        if options.json { say(row.object()) } else { say(row.line(header)) }?;
        sessions.into_iter().try_for_each(Session::close)?;
    }
    Ok(())
}
