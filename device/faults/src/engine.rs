//! The decisions: which events of a card have a fault.

use std::time::Duration;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};

use crate::packets::{Delivery, Packets, Waiting};
use crate::parse::Rules;
use crate::rule::{CommandFault, Fault, Interrupt, PacketFault, Read, State, TimedFault, What, When};

/// Number of a card's functions, each of which has accesses that wait.
const FUNCTIONS: usize = 2;
/// Maximum number of notes that are kept.
const NOTES: usize = 64;

/// What to do with an interrupt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Raise {
    /// Raise it this many times now.
    Now(u32),
    /// It is due later ([`Faults::due_interrupt`]).
    Later,
}

/// What to do with a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// Carry it out this many times.
    Times(u32),
    /// Do not carry it out, and answer with this status.
    Refuse(u32),
    /// Carry it out, and answer with this status.
    Answer(u32),
}

/// What is to be done at a tick.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Due {
    /// The link went down or came up.
    pub link_changed: bool,
    /// Reset the card.
    pub reset: bool,
    /// The clock goes ahead by this.
    pub jump: Duration,
}

/// A rule, and how often it had its way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// The rule as text.
    pub rule: String,
    /// Number of its events. A rule with a time of its own has none.
    pub events: u64,
    /// Number of faults.
    pub faults: u64,
}

#[derive(Debug)]
struct Active {
    text: String,
    what: What,
    events: u64,
    faults: u64,
    /// When the next fault with a time of its own begins.
    next: Option<Duration>,
    /// The first value that a read returned.
    value: Option<u64>,
}

/// The faults of one card. All times are those of one clock.
#[derive(Debug)]
pub struct Faults {
    rules: Vec<Active>,
    seed: u64,
    random: Xoshiro256PlusPlus,
    /// What has happened since [`Faults::take_notes`].
    notes: Vec<String>,
    /// Interrupts that are due later.
    interrupts: Vec<(Duration, u16)>,
    packets: Packets,
    /// States with their ends.
    states: Vec<(State, Duration)>,
    /// When the access may be made that waits at each function.
    holds: [Duration; FUNCTIONS],
    /// The status that a command was answered with, instead of the card's.
    status: Option<u32>,
}

impl Faults {
    /// Returns a card without faults.
    #[must_use]
    pub fn none() -> Faults {
        Faults {
            rules: Vec::new(),
            seed: 0,
            random: Xoshiro256PlusPlus::seed_from_u64(0),
            notes: Vec::new(),
            interrupts: Vec::new(),
            packets: Packets::default(),
            states: Vec::new(),
            holds: [Duration::ZERO; FUNCTIONS],
            status: None,
        }
    }

    /// Starts rules, which replace the earlier ones. What waits by those is due. The same seed and
    /// events give the same faults.
    pub fn start(&mut self, rules: Rules, seed: u64, now: Duration) {
        let active = |(text, what): (String, What)| {
            let next = match what {
                What::Event(..) => None,
                What::Timed(_, timing) => (timing.times != Some(0)).then(|| now + timing.after),
            };
            Active { text, what, events: 0, faults: 0, next, value: None }
        };
        self.rules = rules.0.into_iter().map(active).collect();
        (self.seed, self.random) = (seed, Xoshiro256PlusPlus::seed_from_u64(seed));
        self.packets.release();
        self.interrupts.iter_mut().for_each(|(due, _)| *due = Duration::ZERO);
        self.states.iter_mut().for_each(|(_, end)| *end = Duration::ZERO);
        self.holds = [Duration::ZERO; FUNCTIONS];
        self.status = None;
    }

    /// Returns the seed.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Returns the rules with their counts.
    #[must_use]
    pub fn tallies(&self) -> Vec<Tally> {
        let tally =
            |rule: &Active| Tally { rule: rule.text.clone(), events: rule.events, faults: rule.faults };
        self.rules.iter().map(tally).collect()
    }

    /// Takes the rules of the faults since the last call, at most 64 of them.
    pub fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    /// Whether the card behaves as if there were no faults.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.rules.is_empty()
            && self.packets.is_empty()
            && self.interrupts.is_empty()
            && self.states.is_empty()
    }

    /// Whether the card is in a state.
    #[must_use]
    pub fn is(&self, state: State) -> bool {
        self.states.iter().any(|(current, _)| *current == state)
    }

    /// Decides about an interrupt that the card raises.
    pub fn raise(&mut self, vector: u16, now: Duration) -> Raise {
        if self.is(State::Removed) {
            return Raise::Now(0);
        }
        let fault = self.first(|fault| match fault {
            Fault::Interrupt { vector: only, how } if only.is_none_or(|only| only == vector) => Some(how),
            _ => None,
        });
        match fault {
            None => Raise::Now(1),
            Some(Interrupt::Drop) => Raise::Now(0),
            Some(Interrupt::Twice) => Raise::Now(2),
            Some(Interrupt::Delay(by)) => {
                self.interrupts.push((now + by, vector));
                Raise::Later
            }
            Some(Interrupt::Coalesce(by)) => {
                if !self.interrupts.iter().any(|(_, late)| *late == vector) {
                    self.interrupts.push((now + by, vector));
                }
                Raise::Later
            }
        }
    }

    /// Takes an interrupt that was delayed and is due.
    pub fn due_interrupt(&mut self, now: Duration) -> Option<u16> {
        let place = self.interrupts.iter().position(|(due, _)| *due <= now)?;
        Some(self.interrupts.remove(place).1)
    }

    /// Returns what the machine reads from a register that has this value.
    pub fn read(&mut self, bar: u8, offset: u64, value: u64) -> u64 {
        if self.is(State::Removed) {
            return u64::MAX;
        }
        for at in 0..self.rules.len() {
            let What::Event(Fault::Read { place, how }, when) = self.rules[at].what else { continue };
            if place.is_none_or(|place| place.is_at(bar, offset)) && self.hits(at, when) {
                let first = *self.rules[at].value.get_or_insert(value);
                return match how {
                    Read::Value(value) => value,
                    Read::Stuck => first,
                };
            }
        }
        value
    }

    /// Returns how often a write of the machine's is made.
    pub fn write(&mut self, bar: u8, offset: u64) -> u32 {
        if self.is(State::Removed) {
            return 0;
        }
        let fault = self.first(|fault| match fault {
            Fault::Write { place, twice } if place.is_none_or(|place| place.is_at(bar, offset)) => {
                Some(twice)
            }
            _ => None,
        });
        fault.map_or(1, |twice| if twice { 2 } else { 0 })
    }

    /// Decides about a command.
    pub fn command(&mut self, opcode: u32) -> Command {
        let fault = self.first(|fault| match fault {
            Fault::Command { opcode: only, how } if only.is_none_or(|only| only == opcode) => Some(how),
            _ => None,
        });
        self.status = None;
        match fault {
            None => Command::Times(1),
            Some(CommandFault::Drop) => Command::Times(0),
            Some(CommandFault::Twice) => Command::Times(2),
            Some(CommandFault::Refuse(status)) => {
                self.status = Some(status);
                Command::Refuse(status)
            }
            Some(CommandFault::Answer(status)) => {
                self.status = Some(status);
                Command::Answer(status)
            }
        }
    }

    /// Whether a rule is about commands.
    #[must_use]
    pub fn has_commands(&self) -> bool {
        self.rules.iter().any(|rule| matches!(rule.what, What::Event(Fault::Command { .. }, _)))
    }

    /// Returns the status of the last command, if it is not the card's.
    #[must_use]
    pub fn status(&self) -> Option<u32> {
        self.status
    }

    /// Whether an access of the card to guest memory fails.
    pub fn fails(&mut self, address: u64, length: u64, writes: bool) -> bool {
        let is_in = |page: u64| address < page.saturating_add(4096) && page < address.saturating_add(length);
        self.is(State::Removed)
            || self
                .first(|fault| match fault {
                    Fault::Dma { page, writes: only }
                        if page.is_none_or(is_in) && only.is_none_or(|only| only == writes) =>
                    {
                        Some(())
                    }
                    _ => None,
                })
                .is_some()
    }

    /// Whether packets must pass through here ([`Faults::arrive`]): a rule is about them, or
    /// earlier ones wait.
    #[must_use]
    pub fn takes_packets(&self) -> bool {
        let is_about = |rule: &Active| matches!(rule.what, What::Event(Fault::Packet { .. }, _));
        !self.packets.is_empty() || self.is(State::Removed) || self.rules.iter().any(is_about)
    }

    /// Whether too many packets wait to take another one.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.packets.is_full()
    }

    /// Takes a packet that has arrived. [`Faults::next_packet`] returns what is to be delivered.
    pub fn arrive(&mut self, source: u16, mut bytes: Vec<u8>, now: Duration) {
        if self.is(State::Removed) {
            return;
        }
        let (mut copies, mut delivery) = (1, Delivery::default());
        for at in 0..self.rules.len() {
            let What::Event(Fault::Packet { from, how }, when) = self.rules[at].what else { continue };
            if from.is_some_and(|from| from != source) || !self.hits(at, when) {
                continue;
            }
            match how {
                PacketFault::Drop => copies = 0,
                PacketFault::Twice => copies *= 2,
                PacketFault::Reorder => delivery.after_next = true,
                PacketFault::Cut(count) => bytes.truncate(bytes.len().saturating_sub(count)),
                PacketFault::Corrupt => self.corrupt(&mut bytes),
                PacketFault::Delay { by, jitter, rate } => {
                    let jitter = jitter.mul_f64(self.fraction());
                    delivery =
                        Delivery { by: delivery.by + by + jitter, rate: delivery.rate.or(rate), ..delivery };
                }
            }
        }
        for _ in 0..copies {
            self.packets.add(source, bytes.clone(), delivery, now);
        }
    }

    fn corrupt(&mut self, bytes: &mut [u8]) {
        let bits = bytes.len() as u64 * 8;
        if bits > 0 {
            let bit = self.random.next_u64() % bits;
            bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
        }
    }

    /// Takes the next packet that is to be delivered.
    pub fn next_packet(&mut self, now: Duration) -> Option<Waiting> {
        self.packets.next(now)
    }

    /// Decides about an access that has come to a function of the card's.
    pub fn access(&mut self, function: usize, now: Duration) {
        let by = self.first(|fault| match fault {
            Fault::Access { by } => Some(by),
            _ => None,
        });
        self.holds[function] = by.map_or(Duration::ZERO, |by| now + by);
    }

    /// Whether an access has to wait longer.
    #[must_use]
    pub fn holds(&self, function: usize, now: Duration) -> bool {
        self.is(State::Stuck) || self.is(State::Full) || now < self.holds[function]
    }

    /// Ends the wait of an access.
    pub fn release(&mut self, function: usize) {
        self.holds[function] = Duration::ZERO;
    }

    /// Begins and ends what is due.
    pub fn tick(&mut self, now: Duration) -> Due {
        let mut due = Due::default();
        let was_down = self.is(State::Down);
        self.states.retain(|(_, end)| *end > now);
        self.holds.iter_mut().for_each(|until| *until = if *until > now { *until } else { Duration::ZERO });
        for at in 0..self.rules.len() {
            let What::Timed(fault, timing) = self.rules[at].what else { continue };
            if self.rules[at].next.is_none_or(|next| next > now) {
                continue;
            }
            let rule = &mut self.rules[at];
            rule.faults += 1;
            let more = timing.times.is_none_or(|times| rule.faults < times);
            rule.next = timing.every.filter(|_| more).map(|every| now + every);
            self.note(at);
            match fault {
                TimedFault::State(state, lasting) => self.states.push((state, now + lasting)),
                TimedFault::Reset => due.reset = true,
                TimedFault::Jump(by) => due.jump += by,
            }
        }
        Due { link_changed: was_down != self.is(State::Down), ..due }
    }

    /// Returns when something is due. A packet is due only if the card takes one.
    #[must_use]
    pub fn alarm(&self, takes_packet: bool) -> Option<Duration> {
        let rules = self.rules.iter().filter_map(|rule| rule.next);
        let states = self.states.iter().map(|(_, end)| *end);
        let interrupts = self.interrupts.iter().map(|(due, _)| *due);
        let holds = self.holds.into_iter().filter(|until| !until.is_zero());
        let packet = self.packets.due().filter(|_| takes_packet);
        rules.chain(states).chain(interrupts).chain(holds).chain(packet).min()
    }

    /// Returns the first fault that this event has. Each rule about it counts the event.
    fn first<T>(&mut self, about: impl Fn(Fault) -> Option<T>) -> Option<T> {
        let mut first = None;
        for at in 0..self.rules.len() {
            let What::Event(fault, when) = self.rules[at].what else { continue };
            let Some(fault) = about(fault) else { continue };
            if first.is_none() && self.hits(at, when) {
                first = Some(fault);
            }
        }
        first
    }

    /// Counts an event of a rule, and returns whether it has the fault.
    fn hits(&mut self, at: usize, when: When) -> bool {
        let rule = &mut self.rules[at];
        rule.events += 1;
        let count = rule.events;
        let is_due = when.nth.is_none_or(|nth| nth == count)
            && when.every.is_none_or(|every| count % every == 0)
            && when.times.is_none_or(|times| rule.faults < times);
        // Each event takes a number, so that one rule's faults do not depend on its conditions.
        if !(when.chance.is_none_or(|chance| self.fraction() < chance) && is_due) {
            return false;
        }
        self.rules[at].faults += 1;
        self.note(at);
        true
    }

    fn note(&mut self, at: usize) {
        if self.notes.len() < NOTES {
            self.notes.push(self.rules[at].text.clone());
        }
    }

    /// Returns a number from 0 to below 1.
    fn fraction(&mut self) -> f64 {
        (self.random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
#[path = "engine_tests.rs"]
mod tests;
