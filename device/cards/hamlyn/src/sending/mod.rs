//! The half of the card that sends: termini with their requests, and what other hosts are owed.
//!
//! It knows nothing of slots and queues. Counters, the words that are shared with the driver, and
//! the ports are handed in.

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

/// What sends.
#[derive(Debug)]
pub(super) struct Sending {
    /// The most data in a packet.
    packet_size: u32,
    /// What a terminus of weight 1 may send in a round, in bytes.
    quantum: usize,
    termini: Table<Terminus>,
    /// Termini at which the card looks unasked, in the order of their turns.
    awake: VecDeque<u32>,
    /// Those of them that wait for a host which takes nothing.
    aside: Aside,
    /// Fetch-and-ops of this host.
    tickets: Tickets,
    /// What it owes to those of others.
    answers: Answers,
    /// What it sends for messages that it cannot finish.
    retractions: Retractions,
}

impl Sending {
    pub(super) fn new(options: &HamlynOptions) -> Self {
        Self {
            packet_size: options.packet_size,
            // At least as much as the largest packet takes, or else what a terminus owes could grow
            // from round to round.
            quantum: options.largest_packet(),
            termini: Table::new(options.termini),
            awake: VecDeque::new(),
            aside: Aside::default(),
            tickets: Tickets::default(),
            answers: Answers::default(),
            retractions: Retractions::default(),
        }
    }

    /// Closes everything. Receivers still hold the counts of messages that were half sent: their
    /// retractions stay.
    pub(super) fn reset(&mut self) {
        self.retractions.add(self.termini.all_open().filter_map(Terminus::retraction));
        self.retractions.add(self.aside.take_retractions());
        self.termini.close_all();
        self.awake.clear();
        self.aside = Aside::default();
        self.tickets = Tickets::default();
        self.answers = Answers::default();
    }

    /// Sends a packet, if there is one that may go.
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

    /// Numbers this host's fetch-and-ops, beginning with the time.
    pub(super) fn number_from(&mut self, now: Duration) {
        self.tickets.number_from(now);
    }

    /// The terminus that waits for this answer, and waits no more.
    pub(super) fn end_wait(&mut self, ticket: u32, source: u16) -> Option<u32> {
        self.tickets.answered(ticket, source)
    }

    /// When [`Sending::give_up`] is next due.
    pub(super) fn deadline(&self) -> Option<Duration> {
        self.tickets.deadline()
    }

    /// Gives up what was not answered in time.
    pub(super) fn give_up(&mut self, ports: &Ports<'_>, counters: &mut Counters) {
        let now = ports.clock.now();
        while let Some(terminus) = self.tickets.give_up(now) {
            self.resume(ports, terminus, Err(Statistic::RefusedUnanswered), counters);
        }
    }

    /// The fetch-and-op of a terminus is over: its work queue is looked at again.
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
