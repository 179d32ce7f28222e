//! The events of several cards, in the order of their times.

use std::cmp::{Ordering, Reverse};
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

/// What earlier events of other cards may still precede. Of the same time, the first comes first.
#[derive(Debug)]
struct Waiting {
    time: u64,
    number: u64,
    what: What,
}

#[derive(Debug)]
enum What {
    /// A record of a card, with its bytes.
    Record(usize, Record, Vec<u8>),
    Event(Event),
}

impl Waiting {
    fn place(&self) -> (u64, u64) {
        (self.time, self.number)
    }
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.place() == other.place()
    }
}

impl Eq for Waiting {}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> Ordering {
        self.place().cmp(&other.place())
    }
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
            self.put(record.time, What::Record(card, record, bytes.to_vec()));
        }
    }

    /// Adds an event that a card has not recorded.
    pub fn push_event(&mut self, event: Event) {
        self.put(event.time, What::Event(event));
    }

    fn put(&mut self, time: u64, what: What) {
        self.pushed += 1;
        self.waiting.push(Reverse(Waiting { time, number: self.pushed, what }));
    }

    /// Takes the next event if it happened before `end`, in nanoseconds.
    pub fn next_before(&mut self, end: u64) -> Option<Event> {
        while self.waiting.peek().is_some_and(|Reverse(next)| next.time < end) {
            let Reverse(Waiting { what, .. }) = self.waiting.pop()?;
            let event = match what {
                What::Event(event) => Some(event),
                What::Record(card, record, bytes) => {
                    self.decoders.get_mut(card).and_then(|decoder| decoder.decode(&record, bytes))
                }
            };
            if event.is_some() {
                return event;
            }
        }
        None
    }
}
