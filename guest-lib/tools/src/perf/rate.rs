//! Message rate over all pairs of a measurement.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::flow::CHUNK;

/// Number of chunks over which the peak is searched.
const RECENT: usize = 256;

/// Progress of a transfer over time.
pub(super) struct Rate {
    start: Instant,
    /// State just before the first message of each recent chunk was sent.
    marks: VecDeque<Mark>,
    /// Whether the peak is determined at all.
    with_peak: bool,
    /// Messages of the chunks begun so far.
    begun: u64,
    /// Messages sent that are known to have arrived, and messages received from the peer.
    confirmed: u64,
    came: u64,
    end: Instant,
    /// Peak of messages per second between any two moments.
    peak: f64,
}

#[derive(Debug, Clone, Copy)]
struct Mark {
    begun: u64,
    came: u64,
    at: Instant,
}

impl Rate {
    pub(super) fn start(with_peak: bool) -> Self {
        let now = Instant::now();
        let marks = VecDeque::with_capacity(RECENT);
        Self { start: now, marks, with_peak, begun: 0, confirmed: 0, came: 0, end: now, peak: 0.0 }
    }

    /// Records that the first message of a chunk is about to be sent.
    pub(super) fn begins(&mut self) {
        if self.with_peak {
            self.marks.truncate(RECENT - 1);
            self.marks.push_front(Mark { begun: self.begun, came: self.came, at: Instant::now() });
        }
        self.begun += CHUNK;
    }

    /// Records that `messages` more have arrived at the peer.
    pub(super) fn confirms(&mut self, messages: u64) {
        self.confirmed += messages;
        self.end = Instant::now();
        // Like perftest's peak: from the sending of any message to the arrival of any later one. At
        // most `mark.begun` of the confirmed messages can have been sent before the mark, whichever
        // pair sent them.
        for mark in self.marks.iter().filter(|mark| mark.begun < self.confirmed) {
            let messages = self.confirmed - mark.begun + self.came - mark.came;
            self.peak = self.peak.max(per_second(messages, self.end - mark.at));
        }
    }

    /// Records that a message has arrived from the peer.
    pub(super) fn comes(&mut self) {
        self.came += 1;
        self.end = Instant::now();
    }

    /// Returns the number of messages sent.
    pub(super) fn sent(&self) -> u64 {
        self.confirmed
    }

    /// Returns the average of messages per second, in both directions.
    pub(super) fn average(&self) -> f64 {
        per_second(self.confirmed + self.came, self.end - self.start)
    }

    /// Returns the peak between any two moments, or 0 if it is not determined.
    pub(super) fn peak(&self) -> f64 {
        if self.with_peak { self.peak.max(self.average()) } else { 0.0 }
    }
}

fn per_second(messages: u64, time: Duration) -> f64 {
    messages as f64 / time.as_secs_f64().max(1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_directions_count_and_peak_reaches_average() {
        let mut rate = Rate::start(true);
        rate.begins();
        rate.begins();
        (0..8).for_each(|_| rate.comes());
        rate.confirms(24);
        let time = (rate.end - rate.start).as_secs_f64().max(1e-9);
        assert!((rate.average() * time - 32.0).abs() < 1e-6);
        assert!(rate.peak() >= rate.average());
        assert_eq!(rate.sent(), 24);
    }

    #[test]
    fn disabled_peak_is_zero() {
        let mut rate = Rate::start(false);
        rate.begins();
        rate.confirms(16);
        assert_eq!(rate.peak(), 0.0);
    }
}
