//! Bandwidth in one or both directions: each end keeps messages in flight, and the other confirms
//! them.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::table::{Row, align};
use super::{Extent, Options};
use crate::Outcome;
use crate::end::ROOM;
use crate::flow::{CHUNK, Event, Flow};
use crate::hello::Wish;
use crate::perf::rate::Rate;
use crate::session::Session;

/// Bytes per MB, bits per Gb, and messages per Mpps.
const MB: f64 = (1 << 20) as f64;
const GIGABIT: f64 = 1e9;
const MILLION: f64 = 1e6;

pub(super) struct Result {
    size: usize,
    /// Messages that this end sent, over all its pairs.
    messages: u64,
    /// Messages per second, in both directions: the peak between any two moments, and the average.
    peak: f64,
    average: f64,
    gigabits: bool,
}

pub(super) fn measure(sessions: &mut [Session], size: usize, options: &Options) -> Outcome<Result> {
    let wish = options.wish();
    let messages = options.duration.map_or(options.iters, |_| 0);
    for session in &mut *sessions {
        session.ask(wish, size, messages)?;
    }
    let (extent, rate) = (options.extent(), Mutex::new(Rate::start(!options.no_peak)));
    let rates = &rate;
    thread::scope(|scope| {
        let (first, others) = sessions.split_first_mut().ok_or("no pair to measure")?;
        // Errors cross threads as text.
        let text = |outcome: Outcome| outcome.map_err(|error| error.to_string());
        let pairs: Vec<_> = others
            .iter_mut()
            .map(|session| scope.spawn(move || text(exchange(session, (wish, size), extent, rates))))
            .collect();
        exchange(first, (wish, size), extent, rates)?;
        for pair in pairs {
            pair.join().map_err(|_| "a pair's thread has panicked")??;
        }
        Outcome::Ok(())
    })?;
    let rate = lock(&rate);
    let (messages, peak, average) = (rate.sent(), rate.peak(), rate.average());
    Ok(Result { size, messages, peak, average, gigabits: options.report_gbits })
}

fn lock(rate: &Mutex<Rate>) -> MutexGuard<'_, Rate> {
    rate.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sends the messages of one pair and, in both directions, receives the peer's.
fn exchange(
    session: &mut Session,
    (wish, size): (Wish, usize),
    extent: Extent,
    rate: &Mutex<Rate>,
) -> Outcome {
    let (mut flow, timeout) = (Flow::new(session.depth()), session.timeout());
    // In both directions, messages are received while the ring to the peer is full.
    let for_room = if wish == Wish::Both { Duration::ZERO } else { timeout };
    let mut owed = None;
    // When something last went out or came in.
    let mut progress = Instant::now();
    loop {
        let sent = flow.sent();
        let mut is_full = !session.end.try_say(&mut owed)?;
        while flow.may_send() && !is_full {
            match session.end.reserve(size, Some(for_room)) {
                Ok(room) => {
                    if flow.sent() % CHUNK == 0 {
                        lock(rate).begins();
                    }
                    let is_last = extent.is_last(flow.sent());
                    room.send(flow.next_word(is_last))?;
                }
                Err(error) if error.is_would_block() => is_full = true,
                Err(error) => return Err(error.into()),
            }
        }
        if flow.is_confirmed() && (wish == Wish::Count || flow.peer_has_ended()) && owed.is_none() {
            return Ok(());
        }
        if flow.sent() != sent {
            progress = Instant::now();
        }
        let word = if is_full {
            match session.end.receive(Some(ROOM)).map(|received| received.map(|found| found.word)) {
                Err(error) if error.is_timed_out() && progress.elapsed() < timeout => continue,
                Err(error) if error.is_timed_out() => return Err(session.silence().into()),
                received => received?.ok_or("the peer has closed the channel")?,
            }
        } else {
            session.next_word()?
        };
        progress = Instant::now();
        match flow.take(word) {
            Event::Stale => {}
            Event::Confirmed(messages) => lock(rate).confirms(messages),
            Event::Came(answer) => {
                lock(rate).comes();
                owed = answer.or(owed);
            }
        }
    }
}

impl Result {
    /// Converts a message rate to MB or Gb per second.
    fn bytes(&self, messages: f64) -> f64 {
        let bytes = messages * self.size as f64;
        if self.gigabits { bytes * 8.0 / GIGABIT } else { bytes / MB }
    }
}

impl Row for Result {
    fn header(options: &Options) -> &'static str {
        if options.report_gbits {
            "#bytes   #iterations  BW peak[Gb/sec]  BW average[Gb/sec]  MsgRate[Mpps]"
        } else {
            "#bytes   #iterations  BW peak[MB/sec]  BW average[MB/sec]  MsgRate[Mpps]"
        }
    }

    fn line(&self, header: &str) -> String {
        let [peak, average] = [self.peak, self.average].map(|rate| format!("{:.2}", self.bytes(rate)));
        let rate = format!("{:.6}", self.average / MILLION);
        let cells = [format!("{:<7}", self.size), self.messages.to_string(), peak, average, rate];
        align(header, &cells)
    }

    fn object(&self) -> Value {
        let (peak, average) = if self.gigabits {
            ("bw_peak_gb_s", "bw_average_gb_s")
        } else {
            ("bw_peak_mb_s", "bw_average_mb_s")
        };
        json!({
            "bytes": self.size,
            "iterations": self.messages,
            peak: self.bytes(self.peak),
            average: self.bytes(self.average),
            "msg_rate_mpps": self.average / MILLION,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(gigabits: bool) -> Vec<String> {
        let result = Result { size: 1 << 20, messages: 10, peak: 3e6, average: 2e6, gigabits };
        let header = "#bytes   #iterations  BW peak[MB/sec]  BW average[MB/sec]  MsgRate[Mpps]";
        result.line(header).split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn rows_use_binary_megabytes_and_decimal_gigabits() {
        assert_eq!(words(false), ["1048576", "10", "3000000.00", "2000000.00", "2.000000"]);
        assert_eq!(words(true), ["1048576", "10", "25165.82", "16777.22", "2.000000"]);
    }
}
