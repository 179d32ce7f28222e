//! The answers that this card owes to other hosts' fetch-and-ops.
//!
//! Who asks is not trusted to take the answers. Each asking host has a queue of its own for them,
//! of bounded length. The queues are served in turn, and all of them together take turns with the
//! termini. A host that takes nothing is [set aside](super::aside), and costs nobody else anything.

use std::collections::{BTreeMap, VecDeque};

use hamlyn_abi::hamlyn::statistics::Statistic;
use hamlyn_card::card::Progress;
use hamlyn_card::ports::{Link, VolatileSlice};
use zerocopy::IntoBytes;

use super::Sending;
use crate::packet::{ANSWER_REFUSED, PACKET_ANSWER, PacketHeader};
use crate::statistics::Counters;

/// Answers that a card owes a host at most: as many as a card may have termini.
const OWED_TO_ONE: usize = 1024;

/// An answer that is to be sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answer {
    pub(crate) ticket: u32,
    /// The word as it was; `None` if the fetch-and-op was refused.
    pub(crate) word: Option<u64>,
}

/// What is owed to whom.
#[derive(Debug, Default)]
pub(super) struct Answers {
    /// What each host is owed; no queue is empty.
    owed: BTreeMap<u16, VecDeque<Answer>>,
    /// Hosts that are owed something and take it, in the order of their turns.
    turns: VecDeque<u16>,
    /// Whether an answer was what the card sent last: answers and termini take turns.
    sent_last: bool,
}

impl Answers {
    /// Whether a host is owed so many that it is answered no more.
    fn are_too_many(&self, host: u16) -> bool {
        self.owed.get(&host).is_some_and(|owed| owed.len() >= OWED_TO_ONE)
    }

    /// Whether an answer may go.
    pub(super) fn has_turns(&self) -> bool {
        !self.turns.is_empty()
    }

    /// A host that is owed answers takes them again.
    pub(super) fn have_turn(&mut self, host: u16) {
        self.turns.push_back(host);
    }

    /// Owes a host one more answer. `true`: it is the first.
    fn owe(&mut self, host: u16, answer: Answer) -> bool {
        let answers = self.owed.entry(host).or_default();
        answers.push_back(answer);
        answers.len() == 1
    }

    /// The host whose turn it is, and what it is owed.
    fn due(&self) -> Option<(u16, Answer)> {
        let host = *self.turns.front()?;
        Some((host, *self.owed.get(&host)?.front()?))
    }

    /// The answer that was due is sent: it is another host's turn.
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
}

impl Sending {
    /// Whether a host is owed so many answers that it is answered no more.
    pub(crate) fn owes_too_much(&self, host: u16) -> bool {
        self.answers.are_too_many(host)
    }

    /// From now on a host is owed this answer, too.
    pub(crate) fn owe(&mut self, host: u16, answer: Answer) {
        // Who was owed something before has its turn already, or is set aside.
        if self.answers.owe(host, answer) {
            self.answers.have_turn(host);
        }
    }

    /// The next answer to a host that takes some; the others' are set aside.
    fn answer_that_may_go(&mut self, link: &dyn Link, counters: &mut Counters) -> Option<(u16, Answer)> {
        loop {
            let (host, answer) = self.answers.due()?;
            if !link.is_stopped(host) {
                return Some((host, answer));
            }
            counters.add(Statistic::LinkStalls, 1);
            self.answers.turns.pop_front();
            self.aside.put_answers(host);
        }
    }

    /// Sends an answer, if one is due. `None`: it is the termini's turn, until they have had it.
    pub(super) fn send_answer(&mut self, link: &mut dyn Link, counters: &mut Counters) -> Option<Progress> {
        let due = !self.answers.sent_last;
        self.answers.sent_last = false;
        let (host, answer) = self.answer_that_may_go(link, counters).filter(|_| due)?;
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
        self.answers.paid();
        self.answers.sent_last = true;
        Some(Progress::Worked)
    }
}
