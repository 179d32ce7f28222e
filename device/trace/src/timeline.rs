//! The events of several cards, in the order of their times.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use hamlyn_card::packet::PacketField;

use crate::decode::Decoder;
use crate::event::Event;
use crate::hello::CardName;
use crate::record::{Record, split};

/// Merges the records of several cards.
#[derive(Debug, Default)]
pub struct Timeline {
    decoders: Vec<Decoder>,
    waiting: BinaryHeap<Reverse<Waiting>>,
    pushed: u64,
}

/// A record that later records of other cards may precede. Of the same time, the first comes first.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Waiting {
    time: u64,
    number: u64,
    card: usize,
    record: Record,
    bytes: Vec<u8>,
}

impl Timeline {
    /// Adds a card, whose packets have this header. Returns its number.
    pub fn add(&mut self, name: &CardName, packet: &'static [PacketField]) -> usize {
        let card = self.decoders.len();
        self.decoders.push(Decoder::new(card, name, packet));
        card
    }

    /// Adds what a card wrote at once.
    pub fn push(&mut self, card: usize, batch: &[u8]) {
        for (record, bytes) in split(batch) {
            self.pushed += 1;
            let (time, number) = (record.time, self.pushed);
            self.waiting.push(Reverse(Waiting { time, number, card, record, bytes: bytes.to_vec() }));
        }
    }

    /// Takes the next event if it happened before `end`, in nanoseconds.
    pub fn next_before(&mut self, end: u64) -> Option<Event> {
        while self.waiting.peek().is_some_and(|Reverse(next)| next.time < end) {
            let Reverse(Waiting { card, record, bytes, .. }) = self.waiting.pop()?;
            if let Some(event) =
                self.decoders.get_mut(card).and_then(|decoder| decoder.decode(&record, bytes))
            {
                return Some(event);
            }
        }
        None
    }
}
