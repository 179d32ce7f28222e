//! Notifications: bits, events, the FIFO, faults (sections 2.5, 3.3 and 3.5).

use hamlyn_abi::clan::endpoint::*;
use hamlyn_abi::clan::event::*;
use hamlyn_abi::clan::fifo::CLAN_FIFO_EVENTS;
use hamlyn_abi::clan::registers::CLAN_VECTOR_FIFO;
use hamlyn_abi::clan::statistics::ClanStatistic;
use hamlyn_card::ports::{DmaFault, Ports};

use crate::ClanCard;
use crate::endpoints::FaultReport;
use crate::events::{Source, Told};

impl ClanCard {
    /// Counts a DMA fault. Missing memory affects only this host.
    pub(super) fn note(&mut self, told: Result<(), DmaFault>) {
        if let Err(fault) = told {
            tracing::debug!(%fault, "memory of an endpoint, a queue or the FIFO");
            self.count(ClanStatistic::Discarded);
        }
    }

    /// Reports something that has a bit and an event to an endpoint.
    pub(super) fn happened(
        &mut self,
        ports: &Ports<'_>,
        index: u32,
        bit: u32,
        kind: u32,
    ) -> Result<(), DmaFault> {
        let Some(endpoint) = self.endpoints.get(index) else { return Ok(()) };
        let (wakes, wants) = (endpoint.set_bit(ports.dma, bit)?, endpoint.wants(bit));
        if wants {
            self.tell(ports, index, kind, 0)?;
        }
        if wakes { self.wake(ports, index) } else { Ok(()) }
    }

    /// Sets the events that an endpoint's owner wants. Something that happened before and was not
    /// wanted then becomes an event now.
    pub(super) fn set_interest(&mut self, ports: &Ports<'_>, index: u32, interest: u32) {
        let Some(endpoint) = self.endpoints.get(index) else { return };
        let before = std::mem::replace(&mut endpoint.interest, interest);
        let kinds = [
            (CLAN_INTERESTED_IN_DMA, CLAN_BIT_DMA, CLAN_EVENT_DMA),
            (CLAN_INTERESTED_IN_MESSAGES, CLAN_BIT_MESSAGE, CLAN_EVENT_MESSAGE),
            (CLAN_INTERESTED_IN_FAULTS, CLAN_BIT_FAULT, CLAN_EVENT_FAULT),
        ];
        let bits = endpoint.bits(ports.dma);
        for (_, _, kind) in kinds.into_iter().filter(|(wanted, bit, _)| {
            interest & !before & wanted != 0 && bits.as_ref().is_ok_and(|bits| bits & 1 << bit != 0)
        }) {
            let told = self.tell(ports, index, kind, 0);
            self.note(told);
        }
    }

    /// Adds an event of an endpoint to the queue for its events.
    pub(super) fn tell(
        &mut self,
        ports: &Ports<'_>,
        endpoint: u32,
        kind: u32,
        detail: u32,
    ) -> Result<(), DmaFault> {
        let Some(index) = self.endpoints.get(endpoint).and_then(|endpoint| endpoint.events) else {
            return Ok(());
        };
        let Some(Some(queue)) = self.events.get_mut(index as usize) else { return Ok(()) };
        let told = queue.tell(ports.dma, Source { endpoint, kind, detail })?;
        let wakes = told == Told::Written && std::mem::take(&mut queue.armed);
        self.count(match told {
            Told::Written => ClanStatistic::Events,
            Told::Coalesced => ClanStatistic::EventsCoalesced,
        });
        if wakes { self.put(ports, CLAN_FIFO_EVENTS | index) } else { Ok(()) }
    }

    /// Wakes a process that sleeps on an endpoint.
    pub(super) fn wake(&mut self, ports: &Ports<'_>, index: u32) -> Result<(), DmaFault> {
        self.put(ports, index)
    }

    /// Puts an endpoint or a queue into the FIFO.
    pub(super) fn put(&mut self, ports: &Ports<'_>, what: u32) -> Result<(), DmaFault> {
        if self.fifo.put(ports.dma, what)? {
            self.count(ClanStatistic::FifoRecords);
        }
        self.interrupt(ports);
        Ok(())
    }

    /// Interrupts if the FIFO holds something that was not yet reported to the driver.
    pub(super) fn interrupt(&mut self, ports: &Ports<'_>) {
        if self.fifo.take_news() {
            self.count(ClanStatistic::Interrupts);
            ports.interrupt.raise(CLAN_VECTOR_FIFO as u16);
        }
    }

    /// Reports a fault of the endpoint with this tag, if it still exists.
    pub(super) fn fault_of(&mut self, ports: &Ports<'_>, tag: u32, report: FaultReport) {
        if let Some((index, _)) = self.endpoints.tagged(tag) {
            self.fault(ports, index, report);
        }
    }

    /// Reports a fault of an endpoint.
    pub(super) fn fault(&mut self, ports: &Ports<'_>, index: u32, report: FaultReport) {
        let faults_to = self.endpoints.get(index).and_then(|endpoint| endpoint.faults_to);
        let index = faults_to.unwrap_or(index);
        let Some(endpoint) = self.endpoints.get(index) else { return };
        self.counters.add(ClanStatistic::Faults, 1);
        let written = endpoint.write_fault(ports.dma, report);
        let told = written.and_then(|()| self.happened(ports, index, CLAN_BIT_FAULT, CLAN_EVENT_FAULT));
        self.note(told);
    }
}
