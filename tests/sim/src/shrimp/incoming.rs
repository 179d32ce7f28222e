//! Packets that arrive at a card: which it may refuse, and its Incoming FIFO.

use std::collections::VecDeque;

use hamlyn_abi::shrimp::statistics::ShrimpStatistic as Counter;
use hamlyn_card::ports::{Packet, VolatileSlice};

use crate::engine::memory::Write;
use crate::engine::violation::{Violation, ensure};

use super::machine::Machine;
use super::packet::{LARGEST, Letter, OVERHEAD, place};

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

/// Reasons for which a packet may not be accepted.
const FAULTS: [Counter; 4] =
    [Counter::Malformed, Counter::BadChecksum, Counter::WrongNode, Counter::Discarded];

/// Hands a packet to a card. Returns its contents if the card has accepted it. The card refuses a
/// packet for one of its defects, and for nothing else.
pub(super) fn hand_over(
    machine: &Machine,
    (source, columns): (u16, u16),
    mut bytes: Vec<u8>,
) -> Result<Option<Letter>, Violation> {
    let id = machine.id;
    ensure(machine.takes_packets(), || format!("host {id}: a packet comes though it takes none"))?;
    let (letter, faults) = judge(machine, (source, columns), &bytes)?;
    let before = machine.counters();
    let packet = Packet { source, bytes: VolatileSlice::from(&mut bytes[..]).into() };
    machine.with_card(|card, ports| card.packet_arrived(ports, &packet))?;
    let after = machine.counters();
    let more = |counter: Counter| after[usize::from(counter)] - before[usize::from(counter)];
    let counted: Vec<Counter> = FAULTS.into_iter().filter(|counter| more(*counter) > 0).collect();
    let accepted = letter.filter(|_| faults.is_empty());
    let is_it = match accepted {
        Some(_) => counted.is_empty(),
        None => counted.len() == 1 && faults.contains(&counted[0]),
    };
    ensure(is_it, || {
        format!("host {id}: a packet from {source} has {faults:?}, and was counted as {counted:?}")
    })?;
    Ok(accepted)
}

/// Returns the contents of an arriving packet, and all its defects.
fn judge(
    machine: &Machine,
    (source, columns): (u16, u16),
    bytes: &[u8],
) -> Result<(Option<Letter>, Vec<Counter>), Violation> {
    let places = (place(machine.id, columns), place(source, columns));
    let (is_enabled, read) = (machine.is_enabled()?, Letter::read(bytes));
    let is = |test: fn(&(Letter, bool)) -> bool| read.as_ref().is_some_and(test);
    let named = read.as_ref().map(|(letter, _)| (Some(letter.to), Some(letter.from)));
    let faults = [
        (!is_enabled, Counter::Discarded),
        (is(|(_, is_sound)| !is_sound), Counter::BadChecksum),
        (read.is_none() || is(|(letter, _)| !letter.is_whole()), Counter::Malformed),
        // Without a link, the card does not know its own place.
        (named.is_some_and(|named| named != places) || !machine.is_linked(), Counter::WrongNode),
    ];
    let faults = faults.into_iter().filter(|(is_wrong, _)| *is_wrong).map(|(_, fault)| fault).collect();
    Ok((read.map(|(letter, _)| letter), faults))
}

/// Merges the next writes into one of up to `length` bytes. Each must be a word or less, directly
/// behind the previous one.
pub(super) fn in_order(writes: &mut VecDeque<Write>, length: usize) -> Option<Write> {
    let mut whole = writes.front().map(|first| Write { address: first.address, bytes: Vec::new() })?;
    let follows = |whole: &Write, next: &Write| {
        let end = whole.address + whole.bytes.len() as u64;
        next.address == end && next.bytes.len() <= 8 && whole.bytes.len() + next.bytes.len() <= length
    };
    while writes.front().is_some_and(|next| follows(&whole, next)) {
        whole.bytes.extend(writes.pop_front()?.bytes);
    }
    Some(whole)
}
