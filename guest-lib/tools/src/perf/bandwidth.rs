//! Bandwidth, one way: the sender keeps a window of messages under way, and the receiver confirms them.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::Options;
use super::table::{Row, align};
use crate::Outcome;
use crate::end::{WINDOW, Wish};
use crate::peer::Session;
use crate::serve::CHUNK;
use crate::word::{self, LAST};

/// Bytes of a MB, and messages of a Mpps' M.
const MB: f64 = (1 << 20) as f64;
const MILLION: f64 = 1e6;
/// How many confirmed chunks the peak looks back.
const RECENT: usize = 256;

pub(super) struct Result {
    size: usize,
    messages: u64,
    /// Messages in a second: the most between any two moments, and over all.
    peak: f64,
    average: f64,
}

pub(super) fn measure(session: &mut Session, size: usize, options: &Options) -> Outcome<Result> {
    session.ask(Wish::Count, size)?;
    let extent = options.extent();
    let (mut rate, mut sent, mut last) = (Rate::start(), 0, false);
    while !last {
        last = extent.is_last(sent);
        rate.sends(sent);
        let handle = session.send(word::number(sent) | if last { LAST } else { 0 })?;
        sent += 1;
        while rate.confirmed + WINDOW <= sent || (last && rate.confirmed < sent) {
            rate.take(session.next_word(&handle)?, sent);
        }
    }
    let average = rate.average();
    Ok(Result { size, messages: sent, peak: rate.peak.max(average), average })
}

/// Moments of a transfer.
struct Rate {
    start: Instant,
    /// When each recent chunk's first message was sent, with its number.
    sent: VecDeque<(u64, Instant)>,
    confirmed: u64,
    end: Instant,
    peak: f64,
}

impl Rate {
    fn start() -> Self {
        let now = Instant::now();
        Self { start: now, sent: VecDeque::new(), confirmed: 0, end: now, peak: 0.0 }
    }

    /// Message `number` is about to be sent.
    fn sends(&mut self, number: u64) {
        if number % CHUNK == 0 {
            self.sent.truncate(RECENT - 1);
            self.sent.push_front((number, Instant::now()));
        }
    }

    /// A word has come: so many have arrived. What makes no sense, with `sent` messages, is an older word.
    fn take(&mut self, word: u32, sent: u64) {
        let ahead = word::ahead(word, self.confirmed);
        if ahead == 0 || self.confirmed + ahead > sent {
            return;
        }
        self.confirmed += ahead;
        self.end = Instant::now();
        // As perftest's peak: from the sending of any message to the arrival of any later one.
        for (number, at) in self.sent.iter().filter(|(number, _)| *number < self.confirmed) {
            self.peak = self.peak.max(per_second(self.confirmed - number, self.end - *at));
        }
    }

    fn average(&self) -> f64 {
        per_second(self.confirmed, self.end - self.start)
    }
}

fn per_second(messages: u64, time: Duration) -> f64 {
    messages as f64 / time.as_secs_f64().max(1e-9)
}

impl Result {
    fn megabytes(&self, messages: f64) -> f64 {
        messages * self.size as f64 / MB
    }
}

impl Row for Result {
    const HEADER: &'static str = "#bytes   #iterations  BW peak[MB/sec]  BW average[MB/sec]  MsgRate[Mpps]";

    fn line(&self) -> String {
        let [peak, average] = [self.peak, self.average].map(|rate| format!("{:.2}", self.megabytes(rate)));
        let rate = format!("{:.6}", self.average / MILLION);
        let cells = [format!("{:<7}", self.size), self.messages.to_string(), peak, average, rate];
        align(Self::HEADER, &cells)
    }

    fn object(&self) -> Value {
        json!({
            "bytes": self.size,
            "iterations": self.messages,
            "bw_peak_mb_s": self.megabytes(self.peak),
            "bw_average_mb_s": self.megabytes(self.average),
            "msg_rate_mpps": self.average / MILLION,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_or_foreign_word_confirms_nothing() {
        let mut rate = Rate::start();
        rate.sends(0);
        rate.take(16, 40);
        assert_eq!(rate.confirmed, 16);
        for word in [16, 15, 0, 41, word::READY] {
            rate.take(word, 40);
            assert_eq!(rate.confirmed, 16, "word {word:#x}");
        }
        rate.take(40, 40);
        assert_eq!(rate.confirmed, 40);
        assert!(rate.peak >= rate.average() * 0.999);
    }

    #[test]
    fn a_row_has_megabytes_and_millions() {
        let result = Result { size: 1 << 20, messages: 10, peak: 3e6, average: 2e6 };
        let words: Vec<String> = result.line().split_whitespace().map(str::to_owned).collect();
        assert_eq!(words, ["1048576", "10", "3000000.00", "2000000.00", "2.000000"]);
    }
}
