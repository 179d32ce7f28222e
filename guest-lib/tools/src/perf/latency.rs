//! Latency: half of a round trip (sections 4.1 and 4.2 measure the same).

use std::time::Instant;

use hdrhistogram::Histogram;
use serde_json::{Value, json};

use super::Options;
use super::table::{Row, align};
use crate::Outcome;
use crate::hello::Wish;
use crate::session::Session;
use crate::word;

/// Round trips before the measured ones.
const WARM_UP: u64 = 16;

pub(super) struct Result {
    size: usize,
    round_trips: Histogram<u64>,
}

pub(super) fn measure(sessions: &mut [Session], size: usize, options: &Options) -> Outcome<Result> {
    let session = sessions.first_mut().ok_or("no pair to measure")?;
    session.ask(Wish::Answer, size, 0)?;
    for number in 0..WARM_UP {
        round_trip(session, size, number)?;
    }
    let mut round_trips = Histogram::new(3)?;
    let extent = options.extent();
    for number in 0.. {
        let start = Instant::now();
        round_trip(session, size, WARM_UP + number)?;
        round_trips.record(start.elapsed().as_nanos() as u64)?;
        if extent.is_last(number) {
            break;
        }
    }
    Ok(Result { size, round_trips })
}

fn round_trip(session: &mut Session, size: usize, number: u64) -> Outcome {
    let timeout = session.timeout();
    session.end.reserve(size, Some(timeout))?.send(word::number(number))?;
    while session.next_word()? != word::number(number) {}
    Ok(())
}

impl Result {
    /// Returns one-way times in microseconds: min, max, typical, average, deviation, 99%, 99.9%.
    fn times(&self) -> [f64; 7] {
        let times = &self.round_trips;
        let quantile = |quantile| times.value_at_quantile(quantile) as f64;
        let (min, max) = (times.min() as f64, times.max() as f64);
        [min, max, quantile(0.5), times.mean(), times.stdev(), quantile(0.99), quantile(0.999)]
            .map(|round_trip| round_trip / 2e3)
    }
}

const HEADER: &str = "#bytes   #iterations  t_min[usec]  t_max[usec]  t_typical[usec]  t_avg[usec]  \
                      t_stdev[usec]  99% percentile[usec]  99.9% percentile[usec]";

impl Row for Result {
    fn header(_options: &Options) -> &'static str {
        HEADER
    }

    fn line(&self, header: &str) -> String {
        let mut cells = vec![format!("{:<7}", self.size), self.round_trips.len().to_string()];
        cells.extend(self.times().map(|time| format!("{time:.2}")));
        align(header, &cells)
    }

    fn object(&self) -> Value {
        let [min, max, typical, avg, stdev, p99, p999] = self.times();
        json!({
            "bytes": self.size,
            "iterations": self.round_trips.len(),
            "t_min_us": min,
            "t_max_us": max,
            "t_typical_us": typical,
            "t_avg_us": avg,
            "t_stdev_us": stdev,
            "p99_us": p99,
            "p999_us": p999,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_half_of_each_round_trip() {
        let mut round_trips = Histogram::new(3).unwrap();
        [1000, 2000, 2000, 3000].iter().for_each(|time| round_trips.record(*time).unwrap());
        let result = Result { size: 64, round_trips };
        let words: Vec<String> = result.line(HEADER).split_whitespace().map(str::to_owned).collect();
        assert_eq!(words[..6], ["64", "4", "0.50", "1.50", "1.00", "1.00"]);
        assert_eq!(words.len(), 9);
        assert_eq!(result.object()["bytes"], 64);
    }
}
