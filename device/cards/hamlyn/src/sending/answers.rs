//! Pending answers to other hosts' fetch-and-ops.
//!
//! The requester is not trusted to take the answers. Each requesting host has its own queue of
//! bounded length. The queues are served in turn, and all of them together take turns with the
//! termini. The answers to a host that takes nothing are [parked](super::parked), and delay no
//! other sender.

use std::collections::{BTreeMap, VecDeque};

use hamlyn_abi::hamlyn::statistics::Statistic;
use hamlyn_card::card::Progress;
use hamlyn_card::ports::{Link, VolatileSlice};
use zerocopy::IntoBytes;

use super::parked::Parked;
use crate::packet::{ANSWER_REFUSED, PACKET_ANSWER, PacketHeader};
use crate::statistics::Counters;

/// Limit of pending answers to one host: as many as a card may have termini.
const OWED_TO_ONE: usize = 1024;

/// A pending answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answer {
    pub(crate) ticket: u32,
    /// The word's previous value, or `None` if the fetch-and-op was refused.
    pub(crate) word: Option<u64>,
}

/// Pending answers by host.
#[derive(Debug, Default)]
pub(super) struct Answers {
    /// Queue of each host's pending answers. No queue is empty.
    owed: BTreeMap<u16, VecDeque<Answer>>,
    /// Hosts with pending answers that take packets, in the order of their turns.
    turns: VecDeque<u16>,
    /// Whether the card sent an answer last: answers and termini take turns.
    sent_last: bool,
}

impl Answers {
    /// Returns whether a host has reached the limit of pending answers, and gets no further ones.
    pub(super) fn are_too_many(&self, host: u16) -> bool {
        self.owed.get(&host).is_some_and(|owed| owed.len() >= OWED_TO_ONE)
    }

    /// Returns whether an answer may be sent.
    pub(super) fn has_turns(&self) -> bool {
        !self.turns.is_empty()
    }

    /// Gives a host with pending answers a turn.
    pub(super) fn have_turn(&mut self, host: u16) {
        self.turns.push_back(host);
    }

    /// Queues an answer to a host.
    pub(super) fn owe(&mut self, host: u16, answer: Answer) {
        let answers = self.owed.entry(host).or_default();
        answers.push_back(answer);
        // A host with earlier pending answers already has a turn, or is parked.
        if answers.len() == 1 {
            self.turns.push_back(host);
        }
    }

    /// Returns the host whose turn it is, and its next answer.
    fn due(&self) -> Option<(u16, Answer)> {
        let host = *self.turns.front()?;
        Some((host, *self.owed.get(&host)?.front()?))
    }

    /// Removes the answer that was sent, and passes the turn to the next host.
    fn paid(&mut self) {
        let Some(host) = self.turns.pop_front() else { return };
        let Some(answers) = self.owed.get_mut(&host) else { return };
        answers.pop_front();
        if answers.is_empty() {
            self.owed.remove(&host);
        } else {
            self.have_turn(host);
        }
    }

    /// Returns the next answer to a host that takes packets. Parks the answers to stopped hosts.
    fn that_may_go(
        &mut self,
        link: &dyn Link,
        parked: &mut Parked,
        counters: &mut Counters,
    ) -> Option<(u16, Answer)> {
        loop {
            let (host, answer) = self.due()?;
            if !link.is_stopped(host) {
                return Some((host, answer));
            }
            counters.add(Statistic::LinkStalls, 1);
            self.turns.pop_front();
            parked.put_answers(host);
        }
    }

    /// Sends an answer, if one is due. Returns `None` if none is due or the termini have the turn.
    pub(super) fn send(
        &mut self,
        link: &mut dyn Link,
        parked: &mut Parked,
        counters: &mut Counters,
    ) -> Option<Progress> {
        let due = !self.sent_last;
        self.sent_last = false;
        let (host, answer) = self.that_may_go(link, parked, counters).filter(|_| due)?;
        let mut header = PacketHeader {
            flags: PACKET_ANSWER,
            delta: answer.ticket,
            offset: if answer.word.is_none() { ANSWER_REFUSED } else { 0 },
            length: size_of::<u64>() as u32,
            ..PacketHeader::default()
        };
        let mut word = answer.word.unwrap_or_default();
        let packet = [VolatileSlice::from(header.as_mut_bytes()), VolatileSlice::from(word.as_mut_bytes())];
        if !link.send(host, &packet) {
            counters.add(Statistic::LinkStalls, 1);
            return Some(Progress::LinkFull);
        }
        counters.add(Statistic::PacketsSent, 1);
        counters.add(Statistic::BytesSent, u64::from(header.length));
        self.paid();
        self.sent_last = true;
        Some(Progress::Worked)
    }
}
