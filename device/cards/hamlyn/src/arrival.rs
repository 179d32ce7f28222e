//! Arrivals from the link: the one place where the card's two halves meet.
//!
//! A message concerns only the receiving half. A fetch-and-op and its answer concern both halves.
//!
//! Remote fetch-and-op is an extension, which section 5.1 credits to the first proposal of Hamlyn.
//! A fetch-and-op packet passes the same checks as any other packet, and the slot must also permit
//! it. The destination's card answers it. Two rules prevent deadlock and loss (section 2.8):
//!
//! - A card takes every packet that arrives, so it must have room for an answer to each request. A
//!   terminus has one fetch-and-op in flight at a time, so a host cannot request more answers at
//!   once than it has termini.
//! - No wait is unbounded: if a card has died or discards what arrives, the wait for its answer
//!   times out.
//!
//! The requester is not trusted to have the right to ask, nor to take the answers. A refused
//! fetch-and-op is answered too, because its requester waits. But a requester that exceeds the
//! number of requests a card may have gets no answer.

use hamlyn_abi::hamlyn::statistics::Statistic;
use hamlyn_card::ports::{Packet, Ports};
use zerocopy::IntoBytes;

use super::HamlynCard;
use super::packet::{
    ANSWER_REFUSED, PACKET_ANSWER, PACKET_FETCH, PACKET_RETRACTION, PacketHeader, behind_header,
};
use super::sending::Answer;

impl HamlynCard {
    /// Handles a packet from the link: accepts it, or refuses it and counts the reason.
    pub(super) fn arrive(&mut self, ports: &Ports<'_>, packet: &Packet<'_>) {
        if !self.chassis.is_enabled() {
            self.counters.add(Statistic::Discarded, 1);
            return;
        }
        if let Err(reason) = self.accept(ports, packet) {
            self.refuse(packet.source, reason);
        }
    }

    #[cold]
    fn refuse(&mut self, source: u16, reason: Statistic) {
        self.counters.add(reason, 1);
        tracing::debug!(source, reason = reason.name(), "packet refused");
    }

    fn accept(&mut self, ports: &Ports<'_>, packet: &Packet<'_>) -> Result<(), Statistic> {
        let header = PacketHeader::parse(&packet.bytes).ok_or(Statistic::RefusedPacket)?;
        if header.has(PACKET_FETCH) {
            self.fetch(ports, packet, header)
        } else if header.has(PACKET_ANSWER) {
            self.answered(ports, packet, header)
        } else if header.has(PACKET_RETRACTION) {
            self.receiving.retract(ports, packet, &header, &mut self.counters)
        } else {
            self.receiving.deliver(ports, packet, &header, &mut self.counters)
        }
    }

    /// Handles a fetch-and-op: the receiving half executes or refuses it, and the sending half
    /// queues the answer.
    #[inline(never)]
    fn fetch(
        &mut self,
        ports: &Ports<'_>,
        packet: &Packet<'_>,
        header: PacketHeader,
    ) -> Result<(), Statistic> {
        if self.sending.owes_too_much(packet.source) {
            return Err(Statistic::RefusedFetchOverrun);
        }
        let found = self.receiving.fetch(ports, packet, &header);
        self.sending.owe(packet.source, Answer { ticket: header.delta, word: found.ok() });
        found?;
        self.counters.add(Statistic::PacketsReceived, 1);
        self.counters.add(Statistic::Fetches, 1);
        Ok(())
    }

    /// Handles an answer: finishes the request of the sending half that waits for it.
    #[inline(never)]
    fn answered(
        &mut self,
        ports: &Ports<'_>,
        packet: &Packet<'_>,
        header: PacketHeader,
    ) -> Result<(), Statistic> {
        let terminus = self.sending.end_wait(header.delta, packet.source).ok_or(Statistic::RefusedAnswer)?;
        let mut word = 0_u64;
        behind_header(packet).take_into(word.as_mut_bytes()).ok_or(Statistic::RefusedPacket)?;
        self.counters.add(Statistic::PacketsReceived, 1);
        self.counters.add(Statistic::Answers, 1);
        let refused = header.offset == ANSWER_REFUSED;
        let found = if refused { Err(Statistic::RefusedByDestination) } else { Ok(word) };
        self.sending.resume(ports, terminus, found, &mut self.counters);
        Ok(())
    }
}
