//! Remote fetch-and-op: an extension, which section 5.1 credits to the first proposal of Hamlyn.
//!
//! A fetch-and-op is a packet that passes the checks of any other, and needs the slot's leave besides. The card of
//! the destination answers it. Two rules keep that from deadlock and loss (section 2.8). A card takes every packet that
//! arrives, so it must have room for an answer to each: a terminus has one fetch-and-op under way at a time, so no
//! host can ask for more answers at once than it has termini. And nobody waits for ever: if a card has died or
//! discards what arrives, the wait for its answer is given up.
//!
//! The asker is not trusted to have a right to ask, nor to take the [answers](super::answers). A fetch-and-op that is refused
//! is answered too, as its asker waits; but who asks for more than a card may ask for gets no answer.

use hamlyn_abi::hamlyn::request::*;
use hamlyn_abi::hamlyn::statistics::Statistic;
use hamlyn_card::ports::{Operation, Packet, Ports};
use zerocopy::{FromZeros, IntoBytes};

use super::HamlynCard;
use super::admission::admit;
use super::answers::Answer;
use super::packet::{ANSWER_REFUSED, FETCH_BYTES, PacketHeader, behind_header};

impl HamlynCard {
    /// A fetch-and-op has arrived: it is carried out or refused, and answered.
    #[inline(never)]
    pub(super) fn fetch(
        &mut self,
        ports: &Ports<'_>,
        packet: &Packet<'_>,
        header: PacketHeader,
    ) -> Result<(), Statistic> {
        if self.answers.are_too_many(packet.source) {
            return Err(Statistic::RefusedFetchOverrun);
        }
        let found = self.carry_out(ports, packet, &header);
        if self.answers.owe(packet.source, Answer { ticket: header.delta, word: found.ok() }) {
            self.answers.have_turn(packet.source);
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
        let terminus = self.tickets.answered(header.delta, packet.source).ok_or(Statistic::RefusedAnswer)?;
        let mut word = 0_u64;
        behind_header(packet).take_into(word.as_mut_bytes()).ok_or(Statistic::RefusedPacket)?;
        self.counters.add(Statistic::PacketsReceived, 1);
        self.counters.add(Statistic::Answers, 1);
        let refused = header.offset == ANSWER_REFUSED;
        self.resume(ports, terminus, if refused { Err(Statistic::RefusedByDestination) } else { Ok(word) });
        Ok(())
    }

    /// Gives up what was not answered in time.
    pub(super) fn give_up(&mut self, ports: &Ports<'_>) {
        let now = ports.clock.now();
        while let Some(terminus) = self.tickets.give_up(now) {
            self.resume(ports, terminus, Err(Statistic::RefusedUnanswered));
        }
    }

    /// Ends the wait of a terminus, and looks at its work queue again.
    fn resume(&mut self, ports: &Ports<'_>, index: u32, found: Result<u64, Statistic>) {
        let Some(terminus) = self.termini.get_mut(index as usize).and_then(Option::as_mut) else { return };
        terminus.fetched(ports, found, &mut self.counters);
        self.wake(ports, index);
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
