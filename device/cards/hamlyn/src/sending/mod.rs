//! The sending half of the card: termini with their requests, and pending answers to other hosts.
//!
//! It does not use slots or queues. Its callers pass in the counters, the words that are shared
//! with the driver, and the ports.

mod allowance;
mod answers;
mod aside;
mod command;
mod gather;
mod request;
mod retractions;
mod scheduler;
mod segment;
mod terminus;
mod tickets;

use std::collections::VecDeque;
use std::time::Duration;

use hamlyn_abi::hamlyn::statistics::Statistic;
use hamlyn_card::card::Progress;
use hamlyn_card::chassis::table::Table;
use hamlyn_card::ports::{Link, Ports};

pub(super) use self::answers::Answer;
use self::answers::Answers;
use self::aside::Aside;
use self::retractions::Retractions;
use self::terminus::Terminus;
use self::tickets::Tickets;
use super::options::HamlynOptions;
use super::statistics::Counters;

/// The sending half.
#[derive(Debug)]
pub(super) struct Sending {
    /// The most data in a packet, in bytes.
    packet_size: u32,
    /// Bytes that a terminus of weight 1 may send in a round.
    quantum: usize,
    termini: Table<Terminus>,
    /// Termini that the card polls without a doorbell, in the order of their turns.
    awake: VecDeque<u32>,
    /// Termini, answers and retractions that wait for a host that takes nothing.
    aside: Aside,
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
            // At least the size of the largest packet. Otherwise the overdraft of a terminus could
            // grow from round to round.
            quantum: options.largest_packet(),
            termini: Table::new(options.termini),
            awake: VecDeque::new(),
            aside: Aside::default(),
            tickets: Tickets::default(),
            answers: Answers::default(),
            retractions: Retractions::default(),
        }
    }

    /// Closes all termini. The retractions stay, because receivers still hold the counts of
    /// messages that were half sent.
    pub(super) fn reset(&mut self) {
        self.retractions.add(self.termini.all_open().filter_map(Terminus::retraction));
        self.retractions.add(self.aside.take_retractions());
        self.termini.close_all();
        self.awake.clear();
        self.aside = Aside::default();
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
        self.look_aside(link);
        self.send_retraction(link, counters)
            .or_else(|| self.send_answer(link, counters))
            .unwrap_or_else(|| self.take_turns(ports, link, counters))
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
