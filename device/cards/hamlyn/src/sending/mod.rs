//! The sending half of the card: termini with their requests, and pending answers to other hosts.
//!
//! It does not use slots or queues. Its callers pass in the counters, the words that are shared
//! with the driver, and the ports.

mod allowance;
mod answers;
mod command;
mod gather;
mod parked;
mod request;
mod retractions;
mod scheduler;
mod segment;
mod terminus;
mod tickets;

use std::time::Duration;

use hamlyn_abi::hamlyn::statistics::Statistic;
use hamlyn_card::card::Progress;
use hamlyn_card::chassis::table::Table;
use hamlyn_card::ports::{Link, Ports};

pub(super) use self::answers::Answer;
use self::answers::Answers;
use self::parked::{Parked, Waiting};
use self::retractions::Retractions;
use self::scheduler::Scheduler;
use self::terminus::{Outlet, Terminus};
use self::tickets::Tickets;
use super::options::HamlynOptions;
use super::statistics::Counters;

/// The sending half.
#[derive(Debug)]
pub(super) struct Sending {
    /// The most data in a packet, in bytes.
    packet_size: u32,
    termini: Table<Terminus>,
    /// The termini that have turns.
    scheduler: Scheduler,
    /// Termini, answers and retractions that wait for a host that takes nothing.
    parked: Parked,
    /// Pending fetch-and-ops of this host.
    tickets: Tickets,
    /// Pending answers to fetch-and-ops of other hosts.
    answers: Answers,
    /// Retractions of messages that the card cannot finish.
    retractions: Retractions,
}

impl Sending {
    pub(super) fn new(options: &HamlynOptions) -> Self {
        Self {
            packet_size: options.packet_size,
            termini: Table::new(options.termini),
            // At least the size of the largest packet. Otherwise the overdraft of a terminus could
            // grow from round to round.
            scheduler: Scheduler::new(options.largest_packet()),
            parked: Parked::default(),
            tickets: Tickets::default(),
            answers: Answers::default(),
            retractions: Retractions::default(),
        }
    }

    /// Closes all termini. The retractions stay, because receivers still hold the counts of
    /// messages that were half sent.
    pub(super) fn reset(&mut self) {
        self.retractions.add(self.termini.all_open().filter_map(Terminus::retraction));
        self.retractions.add(self.parked.take_retractions());
        self.termini.close_all();
        self.scheduler.clear();
        self.parked = Parked::default();
        self.tickets = Tickets::default();
        self.answers = Answers::default();
    }

    /// Sends a packet, if one may be sent.
    pub(super) fn transmit(
        &mut self,
        ports: &Ports<'_>,
        link: &mut dyn Link,
        counters: &mut Counters,
    ) -> Progress {
        for (host, waiting) in self.parked.take_resumed(link) {
            self.give_turns_back(host, waiting);
        }
        let Self { packet_size, termini, scheduler, parked, tickets, answers, retractions } = self;
        let sent = retractions.send(link, parked, counters).or_else(|| answers.send(link, parked, counters));
        sent.unwrap_or_else(|| {
            let mut outlet = Outlet { link, packet_size: *packet_size, counters, tickets, retractions };
            scheduler.take_turns(ports, termini, parked, &mut outlet)
        })
    }

    /// Gives turns again to all senders after the link has changed or gone.
    pub(super) fn end_stops(&mut self) {
        for (host, waiting) in self.parked.take_all() {
            self.give_turns_back(host, waiting);
        }
    }

    fn give_turns_back(&mut self, host: u16, waiting: Waiting) {
        self.scheduler.resume(waiting.termini);
        self.retractions.add(waiting.retractions);
        if waiting.answers {
            self.answers.have_turn(host);
        }
    }

    /// Handles a doorbell: from now on the card polls the terminus's work queue.
    pub(super) fn ring(&mut self, ports: &Ports<'_>, terminus: u32) {
        if self.termini.get(terminus as usize).is_some_and(Option::is_some) {
            self.wake(ports, terminus);
        }
    }

    /// Starts to poll a terminus's work queue, unless the terminus is parked.
    fn wake(&mut self, ports: &Ports<'_>, terminus: u32) {
        if !self.parked.has_terminus(terminus) {
            self.scheduler.wake(ports, terminus);
        }
    }

    /// Tells the owners of awake termini to ring again. Returns `true` if nothing is left to send.
    pub(super) fn fall_asleep(&mut self, ports: &Ports<'_>) -> bool {
        let idle = self.scheduler.fall_asleep(ports, &self.termini);
        idle && !self.answers.has_turns() && !self.retractions.are_due()
    }

    /// Returns whether a host has reached the limit of pending answers, and gets no further ones.
    pub(super) fn owes_too_much(&self, host: u16) -> bool {
        self.answers.are_too_many(host)
    }

    /// Queues an answer to a host.
    pub(super) fn owe(&mut self, host: u16, answer: Answer) {
        self.answers.owe(host, answer);
    }

    /// Starts the numbers of this host's fetch-and-ops at the time `now`.
    pub(super) fn number_from(&mut self, now: Duration) {
        self.tickets.number_from(now);
    }

    /// Ends the wait for an answer. Returns the terminus that waited.
    pub(super) fn end_wait(&mut self, ticket: u32, source: u16) -> Option<u32> {
        self.tickets.answered(ticket, source)
    }

    /// Returns when [`Sending::give_up`] is next due.
    pub(super) fn deadline(&self) -> Option<Duration> {
        self.tickets.deadline()
    }

    /// Fails the fetch-and-ops that were not answered in time.
    pub(super) fn give_up(&mut self, ports: &Ports<'_>, counters: &mut Counters) {
        let now = ports.clock.now();
        while let Some(terminus) = self.tickets.give_up(now) {
            self.resume(ports, terminus, Err(Statistic::RefusedUnanswered), counters);
        }
    }

    /// Finishes the fetch-and-op of a terminus. The card then looks at its work queue again.
    pub(super) fn resume(
        &mut self,
        ports: &Ports<'_>,
        index: u32,
        found: Result<u64, Statistic>,
        counters: &mut Counters,
    ) {
        let Some(terminus) = self.termini.get_mut(index as usize).and_then(Option::as_mut) else { return };
        terminus.fetched(ports, found, counters);
        self.wake(ports, index);
    }
}
