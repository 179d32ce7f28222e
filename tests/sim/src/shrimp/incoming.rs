//! Packets that a card has accepted, in its Incoming FIFO.

use std::collections::VecDeque;

use super::packet::{LARGEST, Letter, OVERHEAD};

/// The Incoming FIFO.
#[derive(Debug)]
pub(super) struct Incoming {
    waiting: VecDeque<(u16, Letter)>,
    threshold: u64,
    capacity: u64,
    hold: bool,
    /// Time since which the card takes no packets because of the hold, in milliseconds.
    full_since: Option<u64>,
    /// Start and end of earlier such times.
    stops: Vec<(u64, u64)>,
}

impl Incoming {
    pub(super) fn new(capacity: u64) -> Self {
        let (waiting, threshold) = (VecDeque::new(), capacity / 2);
        Self { waiting, threshold, capacity, hold: false, full_since: None, stops: Vec::new() }
    }

    /// Empties the FIFO at a reset of the card, which remembers when it has stopped the network.
    pub(super) fn reset(&mut self, now: u64) {
        self.hold = false;
        self.note_held(now);
        *self = Self { stops: std::mem::take(&mut self.stops), ..Self::new(self.capacity) };
    }

    pub(super) fn set_threshold(&mut self, threshold: u64) {
        self.threshold = threshold;
    }

    pub(super) fn add(&mut self, source: u16, letter: Letter) {
        self.waiting.push_back((source, letter));
    }

    /// Takes the next packet, unless they are held.
    pub(super) fn next(&mut self) -> Option<(u16, Letter)> {
        if self.hold { None } else { self.waiting.pop_front() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn fill(&self) -> u64 {
        self.waiting.iter().map(|(_, letter)| OVERHEAD + letter.data.len() as u64).sum()
    }

    /// Returns whether the FIFO is below its threshold and any packet still fits.
    pub(super) fn takes_packets(&self) -> bool {
        let fill = self.fill();
        fill < self.threshold && fill + LARGEST as u64 <= self.capacity
    }

    pub(super) fn hold(&mut self, hold: bool, now: u64) {
        self.hold = hold && !self.is_held_too_long(now);
    }

    /// Lets in packets that were held for too long. Returns whether packets are still held.
    pub(super) fn let_in(&mut self, now: u64) -> bool {
        self.hold(self.hold, now);
        self.hold
    }

    /// Notes the time since which no packet is taken because of the hold.
    pub(super) fn note_held(&mut self, now: u64) {
        let is_full = self.hold && !self.takes_packets();
        match self.full_since {
            None if is_full => self.full_since = Some(now),
            Some(since) if !is_full => {
                self.full_since = None;
                self.stops.push((since, now));
            }
            _ => {}
        }
    }

    /// Returns whether the card has stopped the network for five seconds in total, so that it holds
    /// nothing. Only stops with less than five minutes between them and until now are added up.
    fn is_held_too_long(&self, now: u64) -> bool {
        let going_on = self.full_since.map(|since| (since, now));
        let mut next = now;
        let mut sum = 0;
        for (from, to) in self.stops.iter().copied().chain(going_on).rev() {
            if next - to >= 300_000 {
                break;
            }
            (next, sum) = (from, sum + (to - from));
        }
        sum >= 5000
    }
}
