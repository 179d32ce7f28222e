//! Remote fetch-and-op: an extension, which section 5.1 credits to the first proposal of Hamlyn.
//!
//! A fetch-and-op is a packet that passes the checks of any other, and needs the slot's leave besides. The card of
//! the destination answers it. Two rules keep that from deadlock and loss (section 2.8). A card takes every packet that
//! arrives, so it must have room for an answer to each: a terminus has one fetch-and-op under way at a time, so no
//! host can ask for more answers at once than it has termini. And nobody waits for ever: if a card has died or
//! discards what arrives, the wait for its answer is given up.
//!
//! The asker is not trusted to have a right to ask, nor to take the answers. A fetch-and-op that is refused is answered too, as
//! its asker waits. Each asking host has a queue of its own for the answers, of bounded length; one that asks for more gets no
//! answer. The queues are served in turn, and all of them together take turns with the termini. A host that takes nothing is
//! [set aside](super::aside), and costs nobody else anything.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use hamlyn_abi::hamlyn::request::*;
use hamlyn_abi::hamlyn::statistics::Statistic;
use zerocopy::{FromZeros, IntoBytes};

use super::HamlynCard;
use super::delivery::admit;
use super::packet::{ANSWER_REFUSED, FETCH_BYTES, PACKET_ANSWER, PacketHeader, behind_header};
use super::terminus::set_awake;
use crate::card::Progress;
use crate::ports::{Link, Operation, Packet, Ports, VolatileSlice};

/// How long a terminus waits for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Answers that a card owes a host at most: as many as a card may have termini.
const OWED_TO_ONE: usize = 1024;

/// A fetch-and-op of this host that is not answered yet.
#[derive(Debug)]
struct Waiting {
    ticket: u32,
    terminus: u32,
    destination: u16,
    deadline: Duration,
}

/// An answer that is to be sent.
#[derive(Debug, Clone, Copy)]
struct Answer {
    ticket: u32,
    /// The word as it was; `None` if the fetch-and-op was refused.
    word: Option<u64>,
}

/// What the card remembers of fetch-and-ops.
#[derive(Debug, Default)]
pub(super) struct Fetches {
    last_ticket: u32,
    /// In the order of their deadlines.
    waiting: VecDeque<Waiting>,
    /// What each host is owed; no queue is empty.
    owed: BTreeMap<u16, VecDeque<Answer>>,
    /// Hosts that are owed something and take it, in the order of their turns.
    turns: VecDeque<u16>,
    /// Whether an answer was what the card sent last: answers and termini take turns.
    answered_last: bool,
}

impl Fetches {
    /// Numbers fetch-and-ops, beginning with the time of the reset. So an answer to one from before the reset fits nobody.
    /// Enabling the card again is no reset: those that wait for answers go on waiting.
    pub(super) fn number_from(&mut self, now: Duration) {
        if self.waiting.is_empty() {
            self.last_ticket = now.as_micros() as u32;
        }
    }

    /// A number for the next fetch-and-op, which its answer will name.
    pub(super) fn next_ticket(&mut self) -> u32 {
        self.last_ticket = self.last_ticket.wrapping_add(1);
        self.last_ticket
    }

    /// The fetch-and-op of a terminus is on its way.
    pub(super) fn wait(&mut self, ticket: u32, terminus: u32, destination: u16, now: Duration) {
        self.waiting.push_back(Waiting { ticket, terminus, destination, deadline: now + ANSWER_TIMEOUT });
    }

    /// A terminus is closed: nobody waits for its answer any more.
    pub(super) fn forget(&mut self, terminus: u32) {
        self.waiting.retain(|waiting| waiting.terminus != terminus);
    }

    pub(super) fn deadline(&self) -> Option<Duration> {
        self.waiting.front().map(|waiting| waiting.deadline)
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

impl HamlynCard {
    /// A fetch-and-op has arrived: it is carried out or refused, and answered.
    #[inline(never)]
    pub(super) fn fetch(
        &mut self,
        ports: &Ports<'_>,
        packet: &Packet<'_>,
        header: PacketHeader,
    ) -> Result<(), Statistic> {
        if self.fetches.owed.get(&packet.source).is_some_and(|owed| owed.len() >= OWED_TO_ONE) {
            return Err(Statistic::RefusedFetchOverrun);
        }
        let found = self.carry_out(ports, packet, &header);
        if self.fetches.owe(packet.source, Answer { ticket: header.delta, word: found.ok() }) {
            self.fetches.have_turn(packet.source);
        }
        found?;
        self.counters.add(Statistic::PacketsReceived, 1);
        self.counters.add(Statistic::Fetches, 1);
        Ok(())
    }

    fn carry_out(
        &self,
        ports: &Ports<'_>,
        packet: &Packet<'_>,
        header: &PacketHeader,
    ) -> Result<u64, Statistic> {
        let slot = admit(&self.slots, ports.dma, packet.source, header)?.slot;
        if !slot.fetch {
            return Err(Statistic::RefusedFetch);
        }
        let mut body = HamlynFetch::new_zeroed();
        behind_header(packet).take_into(body.as_mut_bytes()).ok_or(Statistic::RefusedPacket)?;
        let operation = operation(header.operation, &body).ok_or(Statistic::RefusedPacket)?;
        let fault = |_| Statistic::RefusedReceiveDma;
        let address = slot.area.locate(ports.dma, header.offset.into()).map_err(fault)?;
        // An aligned word does not straddle two pages.
        if address % u64::from(FETCH_BYTES) != 0 {
            return Err(Statistic::RefusedFetchAddress);
        }
        ports.dma.fetch(address, operation).map_err(fault)
    }

    /// An answer has arrived: the terminus that waits for it goes on.
    #[inline(never)]
    pub(super) fn answered(
        &mut self,
        ports: &Ports<'_>,
        packet: &Packet<'_>,
        header: PacketHeader,
    ) -> Result<(), Statistic> {
        // The switch says truly where a packet comes from: nobody can answer for another host.
        let asked =
            |waiting: &Waiting| waiting.ticket == header.delta && waiting.destination == packet.source;
        let place = self.fetches.waiting.iter().position(asked).ok_or(Statistic::RefusedAnswer)?;
        let Some(waiting) = self.fetches.waiting.remove(place) else { return Ok(()) };
        let mut word = 0_u64;
        behind_header(packet).take_into(word.as_mut_bytes()).ok_or(Statistic::RefusedPacket)?;
        self.counters.add(Statistic::PacketsReceived, 1);
        self.counters.add(Statistic::Answers, 1);
        let refused = header.offset == ANSWER_REFUSED;
        self.resume(
            ports,
            waiting.terminus,
            if refused { Err(Statistic::RefusedByDestination) } else { Ok(word) },
        );
        Ok(())
    }

    /// Gives up what was not answered in time.
    pub(super) fn give_up(&mut self, ports: &Ports<'_>) {
        let now = ports.clock.now();
        while self.fetches.deadline().is_some_and(|deadline| deadline <= now) {
            let Some(waiting) = self.fetches.waiting.pop_front() else { return };
            self.resume(ports, waiting.terminus, Err(Statistic::RefusedUnanswered));
        }
    }

    /// Ends the wait of a terminus, and looks at its work queue again.
    fn resume(&mut self, ports: &Ports<'_>, index: u32, found: Result<u64, Statistic>) {
        let Some(terminus) = self.termini.get_mut(index as usize).and_then(Option::as_mut) else { return };
        terminus.fetched(ports, found, &mut self.counters);
        self.wake(ports, index);
    }

    /// The card looks at a terminus' work queue unasked from now on.
    pub(super) fn wake(&mut self, ports: &Ports<'_>, terminus: u32) {
        if !self.awake.contains(&terminus) && !self.aside.has_terminus(terminus) {
            set_awake(ports.window, terminus, true);
            self.awake.push_back(terminus);
        }
    }

    /// The next answer to a host that takes some; the others' are set aside.
    fn answer_that_may_go(&mut self, link: &dyn Link) -> Option<(u16, Answer)> {
        loop {
            let (host, answer) = self.fetches.due()?;
            if !link.is_stopped(host) {
                return Some((host, answer));
            }
            self.counters.add(Statistic::LinkStalls, 1);
            self.fetches.turns.pop_front();
            self.aside.put_answers(host);
        }
    }

    /// Sends an answer, if one is due. `None`: it is the termini's turn, until they have had it.
    pub(super) fn send_answer(&mut self, link: &mut dyn Link) -> Option<Progress> {
        let due = !self.fetches.answered_last;
        self.fetches.answered_last = false;
        let (host, answer) = self.answer_that_may_go(link).filter(|_| due)?;
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
            self.counters.add(Statistic::LinkStalls, 1);
            return Some(Progress::LinkFull);
        }
        self.counters.add(Statistic::PacketsSent, 1);
        self.counters.add(Statistic::BytesSent, u64::from(header.length));
        self.fetches.paid();
        self.fetches.answered_last = true;
        Some(Progress::Worked)
    }
}

/// What a fetch-and-op's code and operands ask for, if the code means something.
fn operation(code: u32, body: &HamlynFetch) -> Option<Operation> {
    let HamlynFetch { operand, compare } = *body;
    match code {
        HAMLYN_FETCH_ADD => Some(Operation::Add(operand)),
        HAMLYN_FETCH_AND => Some(Operation::And(operand)),
        HAMLYN_FETCH_OR => Some(Operation::Or(operand)),
        HAMLYN_FETCH_XOR => Some(Operation::Xor(operand)),
        HAMLYN_FETCH_SWAP => Some(Operation::Swap(operand)),
        HAMLYN_FETCH_COMPARE_SWAP => Some(Operation::CompareSwap { compare, swap: operand }),
        _ => None,
    }
}
