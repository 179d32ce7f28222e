//! Delivery (sections 2.2, 2.4 to 2.7; Figure 2): a packet's checks, deposit, count and
//! notification.
//!
//! All checks ([`admission`](super::admission)) come before the first byte is written. A packet
//! that fails one changes only a counter.
//!
//! The result of one check is passed to the next in registers, hence `inline(always)` here, in
//! `admission` and in `metadata`. In memory, it would be written in parts and read as a whole. A
//! processor can do that only after its earlier stores are in the cache. That wait takes longer
//! than all checks together.

use hamlyn_abi::hamlyn::statistics::Statistic;
use hamlyn_card::ports::{Dma, DmaFault, Packet, Pieces, Ports};

use super::Receiving;
use super::admission::{Admitted, admit};
use super::notification::{Nqcb, Subject};
use super::slot::Mode;
use crate::WINDOWS;
use crate::packet::{PACKET_INTERRUPT, PACKET_SILENT, PacketHeader, behind_header};
use crate::statistics::{Counters, count_wake};

impl Receiving {
    /// Delivers a packet of a message. Fails with the reason's counter if the packet is refused.
    #[inline(always)]
    pub(crate) fn deliver(
        &mut self,
        ports: &Ports<'_>,
        packet: &Packet<'_>,
        header: &PacketHeader,
        counters: &mut Counters,
    ) -> Result<(), Statistic> {
        let admitted = admit(&self.slots, ports.dma, packet.source, header)?;
        let whole = deposit(ports.dma, &admitted, header, behind_header(packet))
            .map_err(|_| Statistic::RefusedReceiveDma)?;
        counters.add(Statistic::PacketsReceived, 1);
        counters.add(Statistic::BytesReceived, u64::from(header.length) + u64::from(header.metadata_length));
        if whole {
            complete(&mut self.queues, ports, &admitted, header, counters)?;
        }
        Ok(())
    }

    /// Takes back the counts of packets whose message will stay incomplete. Fails with the reason's
    /// counter if the packet is refused.
    #[cold]
    pub(crate) fn retract(
        &self,
        ports: &Ports<'_>,
        packet: &Packet<'_>,
        header: &PacketHeader,
        counters: &mut Counters,
    ) -> Result<(), Statistic> {
        let entry = admit(&self.slots, ports.dma, packet.source, header)?.entry;
        let entry = entry.ok_or(Statistic::RefusedPacket)?;
        entry.retract(ports.dma, header.delta).map_err(|_| Statistic::RefusedReceiveDma)?;
        counters.add(Statistic::PacketsReceived, 1);
        Ok(())
    }
}

/// Completes a message whose packets have all arrived: locks its entry if the mode requires it, and
/// notifies the receiver.
#[inline(always)]
fn complete(
    queues: &mut [Option<Nqcb>],
    ports: &Ports<'_>,
    &Admitted { slot, entry }: &Admitted<'_>,
    header: &PacketHeader,
    counters: &mut Counters,
) -> Result<(), Statistic> {
    counters.add(Statistic::MessagesReceived, 1);
    if let (Mode::ParanoidOneShot, Some(entry)) = (slot.mode, entry) {
        entry.lock(ports.dma).map_err(|_| Statistic::RefusedReceiveDma)?;
    }
    let Some(queue) = slot.queue.filter(|_| !header.has(PACKET_SILENT)) else { return Ok(()) };
    let Some(nqcb) = queues.get_mut(queue as usize).and_then(Option::as_mut) else { return Ok(()) };
    let subject = entry.map_or(Subject::Word(header.delta), |entry| Subject::Entry(entry.pointer));
    nqcb.append(ports.dma, header.slot, slot.notification_index, subject)
        .map_err(|_| Statistic::RefusedReceiveDma)?;
    counters.add(Statistic::Notifications, 1);
    if slot.interrupt || header.has(PACKET_INTERRUPT) {
        count_wake(counters, nqcb.sleeper.wake(ports.window(WINDOWS), ports.interrupt));
    }
    Ok(())
}

/// Writes metadata and data, then counts the packet. Returns `true` if its message is complete.
fn deposit(
    dma: &dyn Dma,
    &Admitted { slot, entry }: &Admitted<'_>,
    header: &PacketHeader,
    bytes: Pieces<'_>,
) -> Result<bool, DmaFault> {
    let mut data = bytes;
    data.skip(header.metadata_length as usize);
    slot.area.write(dma, header.offset.into(), &mut data, header.length as usize)?;
    match entry {
        None => Ok(true),
        Some(entry) => {
            entry.deposit(dma, bytes, header.metadata_length as usize)?;
            entry.count(dma, header.delta)
        }
    }
}
