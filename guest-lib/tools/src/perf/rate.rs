//! How fast messages arrive, over all pairs of a measurement together.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::flow::CHUNK;

/// How many chunks the peak looks back.
const RECENT: usize = 256;

/// Moments of a transfer.
pub(super) struct Rate {
    start: Instant,
    /// The recent chunks, each as it stood just before its first message was sent.
    marks: VecDeque<Mark>,
    /// Whether the peak is wanted at all.
    with_peak: bool,
    /// Messages of the chunks that were begun.
    begun: u64,
    /// Messages sent of which it is known that they have arrived, and messages that have come from
    /// the peer.
    confirmed: u64,
    came: u64,
    end: Instant,
    /// Messages in a second: the most between any two moments.
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

    /// The first message of a chunk is about to be sent.
    pub(super) fn begins(&mut self) {
        if self.with_peak {
            self.marks.truncate(RECENT - 1);
            self.marks.push_front(Mark { begun: self.begun, came: self.came, at: Instant::now() });
        }
        self.begun += CHUNK;
    }

    /// So many more have arrived at the peer.
    pub(super) fn confirms(&mut self, messages: u64) {
        self.confirmed += messages;
        self.end = Instant::now();
        // As perftest's peak: from the sending of any message to the arrival of any later one. Of
        // what was confirmed, no more than a mark's sum can have been sent before the mark,
        // whichever pair did it.
        for mark in self.marks.iter().filter(|mark| mark.begun < self.confirmed) {
            let messages = self.confirmed - mark.begun + self.came - mark.came;
            self.peak = self.peak.max(per_second(messages, self.end - mark.at));
        }
    }

    /// Another has come from the peer.
    pub(super) fn comes(&mut self) {
        self.came += 1;
        self.end = Instant::now();
    }

    /// Messages that were sent.
    pub(super) fn sent(&self) -> u64 {
        self.confirmed
    }

    /// Messages in a second, both ways, over all.
    pub(super) fn average(&self) -> f64 {
        per_second(self.confirmed + self.came, self.end - self.start)
    }

    /// The most between any two moments, if that is wanted.
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
    fn both_directions_count_and_the_peak_is_no_less_than_the_average() {
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
    fn no_peak_is_none() {
        let mut rate = Rate::start(false);
        rate.begins();
        rate.confirms(16);
        assert_eq!(rate.peak(), 0.0);
    }
}
