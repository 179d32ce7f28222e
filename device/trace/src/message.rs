//! The way of each packet, from the store that rang for it to the interrupt at its receiver.

use std::collections::{BTreeMap, VecDeque};

use crate::event::Event;
use crate::record::Kind;

/// Maximum number of packets in flight between two cards. A trace that misses records has more.
const IN_FLIGHT: usize = 4096;

/// A packet's way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Number in the trace, from 1.
    pub number: u64,
    /// Cards, by their numbers in the trace.
    pub cards: [usize; 2],
    /// Bytes of the packet.
    pub bytes: u64,
    /// What happened, with times in nanoseconds, in order.
    pub steps: Vec<Step>,
}

/// A step of a packet's way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// What happened: `send`.
    pub what: &'static str,
    /// The card where it happened.
    pub card: usize,
    /// When, in nanoseconds.
    pub time: u64,
}

/// Finds the ways of packets in a trace.
#[derive(Debug)]
pub struct Messages {
    /// Host id of each card.
    hosts: Vec<Option<u16>>,
    /// What each card has done since it sent last: a machine's store, a request.
    before: Vec<Vec<Step>>,
    /// Packets that have not arrived, by the cards' numbers.
    flying: BTreeMap<(usize, usize), VecDeque<Message>>,
    /// The packet that each card handles.
    handled: Vec<Option<Message>>,
    sent: u64,
}

impl Messages {
    /// Follows packets between cards with these host ids, if they have a link.
    #[must_use]
    pub fn new(hosts: Vec<Option<u16>>) -> Self {
        let cards = hosts.len();
        let (before, handled) = (vec![Vec::new(); cards], vec![None; cards]);
        Messages { hosts, before, flying: BTreeMap::new(), handled, sent: 0 }
    }

    /// Takes the next event. Returns the packet whose receiver has handled it with this event.
    pub fn push(&mut self, event: &Event) -> Option<Message> {
        let card = event.card;
        let step = |what| Step { what, card, time: event.time };
        match event.kind {
            Kind::RegisterWrite | Kind::Store if self.handled[card].is_none() => {
                self.before[card] = vec![step(if event.kind == Kind::Store { "store" } else { "doorbell" })];
            }
            Kind::WindowCopy => self.prepared(card, step("request")),
            Kind::DmaRead | Kind::DmaLendRead => self.prepared(card, step("fetch")),
            Kind::Link => self.hosts[card] = event.field("host").map(|host| host as u16),
            Kind::Send => self.send(event, step("send")),
            Kind::Arrive => self.arrive(event, step("arrive")),
            Kind::DmaWrite | Kind::DmaLendWrite => self.received(card, step("deposit")),
            Kind::DmaPublish => self.received(card, step("publish")),
            Kind::Interrupt => self.received(card, step("interrupt")),
            Kind::Done => return self.handled[card].take(),
            _ => {}
        }
        None
    }

    /// Notes a step before the next send, if it is the first of its kind.
    fn prepared(&mut self, card: usize, step: Step) {
        if self.handled[card].is_none() && self.before[card].iter().all(|known| known.what != step.what) {
            self.before[card].push(step);
        }
    }

    /// Notes a step of the packet that the card handles. Of several deposits the last counts.
    fn received(&mut self, card: usize, step: Step) {
        let Some(message) = &mut self.handled[card] else { return };
        match message.steps.last_mut().filter(|last| last.what == step.what) {
            Some(last) => *last = step,
            None => message.steps.push(step),
        }
    }

    fn send(&mut self, event: &Event, step: Step) {
        // A copy for each member of a group would have no single receiver.
        let Some(receiver) = self.card_of(event.number) else { return };
        self.sent += 1;
        let mut steps = std::mem::take(&mut self.before[event.card]);
        steps.push(step);
        let (cards, bytes) = ([event.card, receiver], event.field("bytes").unwrap_or(0));
        let flying = self.flying.entry((event.card, receiver)).or_default();
        if flying.len() == IN_FLIGHT {
            flying.pop_front();
        }
        flying.push_back(Message { number: self.sent, cards, bytes, steps });
    }

    fn card_of(&self, host: u64) -> Option<usize> {
        self.hosts.iter().position(|known| known.map(u64::from) == Some(host))
    }

    fn arrive(&mut self, event: &Event, step: Step) {
        let flying = self.card_of(event.number).and_then(|sender| self.flying.get_mut(&(sender, event.card)));
        let bytes = event.field("bytes");
        // Packets that the trace missed, or that a switch has joined, find no partner.
        let place = flying.as_ref().and_then(|all| all.iter().position(|one| Some(one.bytes) == bytes));
        let found = flying.zip(place).and_then(|(flying, place)| flying.remove(place));
        self.handled[event.card] = found.map(|mut message| {
            message.steps.push(step);
            message
        });
    }
}
