//! This host's own fetch-and-ops on their way: who asked, whom, and until when it waits.

use std::collections::VecDeque;
use std::time::Duration;

/// How long a terminus waits for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// A fetch-and-op of this host that is not answered yet.
#[derive(Debug)]
struct Waiting {
    ticket: u32,
    terminus: u32,
    destination: u16,
    deadline: Duration,
}

/// The numbers of fetch-and-ops, and those that are not answered.
#[derive(Debug, Default)]
pub(super) struct Tickets {
    last: u32,
    /// In the order of their deadlines.
    waiting: VecDeque<Waiting>,
}

impl Tickets {
    /// Numbers fetch-and-ops, beginning with the time of the reset. So an answer to one from before
    /// the reset fits nobody. Enabling the card again is no reset: those that wait for answers go
    /// on waiting.
    pub(super) fn number_from(&mut self, now: Duration) {
        if self.waiting.is_empty() {
            self.last = now.as_micros() as u32;
        }
    }

    /// A number for the next fetch-and-op, which its answer will name.
    pub(super) fn next(&mut self) -> u32 {
        self.last = self.last.wrapping_add(1);
        self.last
    }

    /// The fetch-and-op of a terminus is on its way.
    pub(super) fn wait(&mut self, ticket: u32, terminus: u32, destination: u16, now: Duration) {
        self.waiting.push_back(Waiting { ticket, terminus, destination, deadline: now + ANSWER_TIMEOUT });
    }

    /// An answer has come: the terminus that waits for it, and waits no more. The switch says truly
    /// where a packet comes from: nobody can answer for another host.
    pub(super) fn answered(&mut self, ticket: u32, source: u16) -> Option<u32> {
        let asked = |waiting: &Waiting| waiting.ticket == ticket && waiting.destination == source;
        let place = self.waiting.iter().position(asked)?;
        self.waiting.remove(place).map(|waiting| waiting.terminus)
    }

    /// A terminus that has waited for too long, and waits no more.
    pub(super) fn give_up(&mut self, now: Duration) -> Option<u32> {
        self.deadline().filter(|deadline| *deadline <= now)?;
        self.waiting.pop_front().map(|waiting| waiting.terminus)
    }

    /// A terminus is closed: nobody waits for its answer any more.
    pub(super) fn forget(&mut self, terminus: u32) {
        self.waiting.retain(|waiting| waiting.terminus != terminus);
    }

    pub(super) fn deadline(&self) -> Option<Duration> {
        self.waiting.front().map(|waiting| waiting.deadline)
    }
}
