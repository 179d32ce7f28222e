//! Clients: any number of them in one program and one thread, each with its own connection.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

use crate::common::{Outcome, fill_pattern};
use crate::news::News;
use crate::session::{Awaited, Stream, now};
use crate::wire::{Frames, Request, Status};

/// A server without an answer for this long is dead.
const PATIENCE: Duration = Duration::from_secs(60);
/// Longer than any answer takes, in nanoseconds.
const LONGEST_NS: u64 = 100_000_000_000;

/// The kind of request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Ask {
    /// For values
    Get,
    /// To keep values
    Put,
}

/// The clients' workload.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Plan {
    /// Number of clients, each with a connection
    #[arg(long, default_value_t = 1)]
    pub(crate) clients: usize,
    /// Number of requests of all clients together; each client first puts its value, which is not
    /// counted
    #[arg(long, default_value_t = 1000)]
    requests: u64,
    /// Number of requests before them that are not measured
    #[arg(long, default_value_t = 0)]
    warmup: u64,
    /// Number of clients that wait for an answer at the same time; they take turns [default: all]
    #[arg(long)]
    at_once: Option<usize>,
    /// Bytes of each value
    #[arg(long, default_value_t = 16)]
    pub(crate) size: usize,
    /// The kind of request that is measured
    #[arg(long, value_enum, default_value = "get")]
    ask: Ask,
}

/// A client.
struct Caller<T> {
    number: u64,
    stream: T,
    frames: Frames,
    key: Vec<u8>,
    value: Vec<u8>,
    request: Vec<u8>,
    sent: usize,
    begun: Instant,
}

/// Runs the workload. The result is for the benchmark.
pub(crate) fn run<T: Stream>(streams: Vec<T>, plan: &Plan) -> Outcome<Value> {
    let mut news = News::new()?;
    let mut callers: Vec<_> =
        (0..).zip(streams).map(|(number, stream)| Caller::new(stream, number, plan.size)).collect();
    let mut samples = Histogram::<u64>::new_with_bounds(1, LONGEST_NS, 3)?;
    let mut ask = |total, ask, samples: &mut Histogram<u64>| {
        let at_once = plan.at_once.unwrap_or(usize::MAX).max(1);
        drive(&mut callers, (total, at_once), ask, samples, &mut news)
    };
    ask(plan.clients as u64, Ask::Put, &mut samples)?;
    ask(plan.warmup, plan.ask, &mut samples)?;
    samples.reset();
    let (begun, before) = (Instant::now(), processor_time());
    ask(plan.requests, plan.ask, &mut samples)?;
    let (ns, cpu_ns) = (begun.elapsed().as_nanos() as u64, processor_time() - before);
    let counts: Vec<_> =
        samples.iter_recorded().map(|step| [step.value_iterated_to(), step.count_at_value()]).collect();
    let (messages, bytes) = (plan.requests, plan.requests * plan.size as u64);
    let all = messages + plan.warmup + plan.clients as u64;
    for caller in &mut callers {
        caller.close(&mut news)?;
    }
    Ok(
        json!({ "samples": counts, "messages": messages, "all": all, "bytes": bytes, "ns": ns, "cpu_ns": cpu_ns }),
    )
}

/// Completes `total` requests, with at most `at_once` in flight. A client whose request was
/// answered goes to the end of the queue.
fn drive<T: Stream>(
    callers: &mut [Caller<T>],
    (total, at_once): (u64, usize),
    ask: Ask,
    samples: &mut Histogram<u64>,
    news: &mut News,
) -> Outcome {
    let (mut idle, is_only): (VecDeque<usize>, _) = ((0..callers.len()).collect(), callers.len() == 1);
    let (mut asked, mut answered, mut to_do, mut heard) = (0, 0, BTreeSet::new(), Instant::now());
    while answered < total {
        let under_way = callers.len() - idle.len();
        let more = (at_once.saturating_sub(under_way) as u64).min(total - asked) as usize;
        for number in idle.drain(..more.min(idle.len())) {
            callers[number].ask(ask);
            asked += 1;
            to_do.insert(number as u64);
        }
        for number in std::mem::take(&mut to_do) {
            let Some(caller) = callers.get_mut(number as usize) else { continue };
            if caller.request.is_empty() {
                continue;
            }
            let failed = |error: io::Error| format!("client {number}: {error}");
            if let Some(answer) = caller.step().map_err(failed)? {
                samples.record(caller.begun.elapsed().as_nanos() as u64)?;
                caller.check(ask, &answer).map_err(|error| format!("client {number}: {error}"))?;
                (answered, heard) = (answered + 1, Instant::now());
                idle.push_back(number as usize);
            } else if caller.arm(is_only, news).map_err(failed)? {
                to_do.insert(number);
            }
        }
        let waits = idle.is_empty() || callers.len() - idle.len() == at_once || asked == total;
        if waits && answered < total {
            let limit = if to_do.is_empty() { PATIENCE } else { Duration::ZERO };
            to_do.extend(news.wait(Some(limit))?);
        }
        if heard.elapsed() > PATIENCE {
            return Err(format!("{answered} of {total} answers, and no more within {PATIENCE:?}").into());
        }
    }
    Ok(())
}

impl<T: Stream> Caller<T> {
    fn new(stream: T, number: u64, size: usize) -> Self {
        let mut value = vec![0; size];
        fill_pattern(number, 0, &mut value);
        // Keys differ from those of clients in other programs.
        let key = format!("{}/{number}", std::process::id()).into_bytes();
        let frames = Frames::new(1 + size.max(1024));
        Self { number, stream, frames, key, value, request: Vec::new(), sent: 0, begun: Instant::now() }
    }

    fn ask(&mut self, ask: Ask) {
        let (key, value) = (&self.key[..], &mut self.value);
        self.request = match ask {
            Ask::Get => Request::Get { key }.frame(),
            Ask::Put => {
                // Changes the value, so that a get must return the last one.
                value.iter_mut().take(8).for_each(|byte| *byte = byte.wrapping_add(1));
                Request::Put { key, value }.frame()
            }
        };
        (self.sent, self.begun) = (0, Instant::now());
    }

    /// Returns the answer if it has arrived.
    fn step(&mut self) -> io::Result<Option<Vec<u8>>> {
        while self.sent < self.request.len() {
            match now(self.stream.write(&self.request[self.sent..]))? {
                Some(length) => self.sent += length,
                None => return Ok(None),
            }
        }
        match now(self.frames.next(&mut self.stream))? {
            None => Ok(None),
            Some(None) => Err(io::Error::other("the server has closed the stream")),
            Some(Some(answer)) => {
                (self.request, self.sent) = (Vec::new(), 0);
                Ok(Some(answer))
            }
        }
    }

    /// Prepares a wait for what [`Caller::step`] lacks. Returns whether it is there already.
    fn arm(&mut self, is_only: bool, news: &News) -> io::Result<bool> {
        let awaited = match self.request.len() - self.sent {
            0 => Awaited::Bytes,
            unsent => Awaited::Room(unsent),
        };
        self.stream.arm(self.number, awaited, is_only, news)
    }

    fn check(&self, ask: Ask, answer: &[u8]) -> Outcome {
        let expected: &[u8] = if ask == Ask::Get { &self.value } else { &[] };
        match answer.split_first() {
            Some((status, bytes)) if *status == Status::Done as u8 && bytes == expected => Ok(()),
            Some((status, bytes)) if *status == Status::Refused as u8 => {
                Err(String::from_utf8_lossy(bytes).into())
            }
            _ => Err(format!("an answer of {} bytes that is not what was put", answer.len()).into()),
        }
    }

    fn close(&mut self, news: &mut News) -> Outcome {
        let begun = Instant::now();
        self.stream.close()?;
        // Waits until the server has closed its side, too. A client that leaves before looks as if
        // it had died.
        while now(self.frames.next(&mut self.stream))?.is_none() {
            if !self.arm(false, news)? {
                news.wait(Some(PATIENCE))?;
            }
            if begun.elapsed() > PATIENCE {
                return Err(format!("the server did not close the stream within {PATIENCE:?}").into());
            }
        }
        Ok(())
    }
}

pub(crate) fn processor_time() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
