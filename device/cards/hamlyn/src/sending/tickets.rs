//! This host's own pending fetch-and-ops: requester, destination and deadline.

use std::collections::VecDeque;
use std::time::Duration;

/// How long a terminus waits for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// A fetch-and-op of this host that is not yet answered.
#[derive(Debug)]
struct Waiting {
    ticket: u32,
    terminus: u32,
    destination: u16,
    deadline: Duration,
}

/// The numbers of fetch-and-ops, and those that are not yet answered.
#[derive(Debug, Default)]
pub(super) struct Tickets {
    last: u32,
    /// In the order of their deadlines.
    waiting: VecDeque<Waiting>,
}

impl Tickets {
    /// Starts the numbers of fetch-and-ops at the time of the reset. An answer to one from before
    /// the reset then matches none. Enabling the card again is not a reset: pending fetch-and-ops
    /// keep waiting.
    pub(super) fn number_from(&mut self, now: Duration) {
        if self.waiting.is_empty() {
            self.last = now.as_micros() as u32;
        }
    }

    /// Returns a number for the next fetch-and-op. Its answer carries the number.
    pub(super) fn next(&mut self) -> u32 {
        self.last = self.last.wrapping_add(1);
        self.last
    }

    /// Records a terminus's fetch-and-op as in flight.
    pub(super) fn wait(&mut self, ticket: u32, terminus: u32, destination: u16, now: Duration) {
        self.waiting.push_back(Waiting { ticket, terminus, destination, deadline: now + ANSWER_TIMEOUT });
    }

    /// Ends the wait of the terminus whose answer has arrived, and returns the terminus. The switch
    /// reports a packet's source truthfully, so no host can answer for another.
    pub(super) fn answered(&mut self, ticket: u32, source: u16) -> Option<u32> {
        let asked = |waiting: &Waiting| waiting.ticket == ticket && waiting.destination == source;
        let place = self.waiting.iter().position(asked)?;
        self.waiting.remove(place).map(|waiting| waiting.terminus)
    }

    /// Ends the wait of a terminus that has waited too long, and returns the terminus.
    pub(super) fn give_up(&mut self, now: Duration) -> Option<u32> {
        self.deadline().filter(|deadline| *deadline <= now)?;
        self.waiting.pop_front().map(|waiting| waiting.terminus)
    }

    /// Forgets the fetch-and-op of a terminus that is being closed.
    pub(super) fn forget(&mut self, terminus: u32) {
        self.waiting.retain(|waiting| waiting.terminus != terminus);
    }

    pub(super) fn deadline(&self) -> Option<Duration> {
        self.waiting.front().map(|waiting| waiting.deadline)
    }
}
