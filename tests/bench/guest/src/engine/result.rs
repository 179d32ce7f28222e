//! A role's output: samples, times, words for its peer.

use std::io::{BufRead, Write};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

/// Result of a role.
pub(crate) type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// Upper bound of a round trip's time; its end gives up earlier.
const LONGEST_NS: u64 = 100_000_000_000;

/// Number of round trips, and number of warm-up trips before them.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Rounds {
    /// Round trips to measure
    #[arg(long, default_value_t = 1000)]
    pub(crate) count: u64,
    /// Round trips before them, which are not measured
    #[arg(long, default_value_t = 100)]
    pub(crate) warmup: u64,
}

impl Rounds {
    /// Returns the number of all round trips.
    pub(crate) fn total(self) -> u64 {
        self.count + self.warmup
    }

    /// Makes every round trip and times each one after the warm-up. `trip` gets its number.
    pub(crate) fn measure(self, mut trip: impl FnMut(u64) -> Outcome) -> Outcome<Value> {
        // Allocate all of its memory now: growing it would be a system call between two messages.
        let mut samples = Histogram::<u64>::new_with_bounds(1, LONGEST_NS, 3)?;
        for round in 0..self.warmup {
            trip(round)?;
        }
        let meter = Meter::start();
        for round in self.warmup..self.total() {
            let start = Instant::now();
            trip(round)?;
            samples.record(nanoseconds(start.elapsed()))?;
        }
        let (wall, cpu) = meter.stop();
        let counts: Vec<_> =
            samples.iter_recorded().map(|step| [step.value_iterated_to(), step.count_at_value()]).collect();
        let all = self.total();
        Ok(json!({ "samples": counts, "messages": self.count, "all": all, "ns": wall, "cpu_ns": cpu }))
    }

    /// Answers every round trip, and measures the processor time of those after the warm-up.
    pub(crate) fn answer(self, mut trip: impl FnMut(u64) -> Outcome) -> Outcome<Value> {
        for round in 0..self.warmup {
            trip(round)?;
        }
        let meter = Meter::start();
        for round in self.warmup..self.total() {
            trip(round)?;
        }
        let (wall, cpu) = meter.stop();
        Ok(json!({ "messages": self.count, "ns": wall, "cpu_ns": cpu }))
    }
}

/// Measures wall-clock time and this process's processor time.
pub(crate) struct Meter(Instant, u64);

impl Meter {
    pub(crate) fn start() -> Self {
        Self(Instant::now(), processor_time())
    }

    /// Returns both, in nanoseconds.
    pub(crate) fn stop(self) -> (u64, u64) {
        (nanoseconds(self.0.elapsed()), processor_time() - self.1)
    }
}

fn processor_time() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

pub(crate) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Prints a JSON object.
pub(crate) fn say(value: &Value) -> Outcome {
    // Use one system call, however long the line is: activity around the messages must not depend
    // on the messages.
    let line = format!("{value}\n");
    let mut out = std::io::stdout().lock();
    out.write_all(line.as_bytes())?;
    Ok(out.flush()?)
}

/// Prints this end's ticket, in the card's own format, and reads the peer's.
pub(crate) fn exchange_words(own: &str) -> Outcome<String> {
    say(&json!({ "ticket": own }))?;
    let mut line = String::new();
    if std::io::stdin().lock().read_line(&mut line)? == 0 {
        return Err("standard input ended before the peer's ticket came".into());
    }
    Ok(line.trim().to_owned())
}
