//! What the owners of endpoints are told: bits, events, the FIFO, faults (sections 2.5, 3.3 and
//! 3.5). The counters are here as well.

use hamlyn_abi::clan::command::{CLAN_NO_EVENTS, ClanOpenEvents, ClanOpenFifo};
use hamlyn_abi::clan::endpoint::*;
use hamlyn_abi::clan::event::*;
use hamlyn_abi::clan::fifo::{CLAN_FIFO_EVENTS, CLAN_MAX_FIFO};
use hamlyn_abi::clan::registers::CLAN_VECTOR_FIFO;
use hamlyn_abi::clan::statistics::{CLAN_STATISTICS, ClanStatistic};
use hamlyn_abi::family::command::ULN_STATUS_NOT_OPEN;
use hamlyn_card::chassis::counters::Counters;
use hamlyn_card::chassis::fifo::Fifo;
use hamlyn_card::chassis::refusal::Refusal;
use hamlyn_card::chassis::table::Table;
use hamlyn_card::ports::{DmaFault, Ports};

use crate::endpoints::{Endpoint, Endpoints, FaultReport};
use crate::events::{Events, Recorded, Source};
use crate::model::Options;

/// The endpoints, and all that their owners and the driver are told by.
#[derive(Debug)]
pub(crate) struct Telling {
    endpoints: Endpoints,
    events: Table<Events>,
    fifo: Fifo,
    counters: Counters<{ CLAN_STATISTICS as usize }>,
}

impl Telling {
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            endpoints: Endpoints::new(options.endpoints, options.tripwires),
            events: Table::new(options.event_queues),
            fifo: Fifo::default(),
            counters: Counters::default(),
        }
    }

    /// Closes everything.
    pub(crate) fn clear(&mut self) {
        self.endpoints.clear();
        self.events.close_all();
        self.fifo.close();
        self.counters = Counters::default();
    }

    pub(crate) fn count(&mut self, statistic: ClanStatistic) {
        self.add(statistic, 1);
    }

    pub(crate) fn add(&mut self, statistic: ClanStatistic, amount: u64) {
        self.counters.add(statistic, amount);
    }

    pub(crate) fn counters(&self) -> &Counters<{ CLAN_STATISTICS as usize }> {
        &self.counters
    }

    pub(crate) fn endpoints(&mut self) -> &mut Endpoints {
        &mut self.endpoints
    }

    pub(crate) fn endpoint(&mut self, index: u32) -> Option<&mut Endpoint> {
        self.endpoints.get(index)
    }

    pub(crate) fn open_events(&mut self, index: u32, body: &ClanOpenEvents) -> Result<(), Refusal> {
        self.events.check_vacant(index)?;
        self.events.open(index, Events::open(body)?);
        Ok(())
    }

    pub(crate) fn close_events(&mut self, index: u32) -> Result<(), Refusal> {
        self.events.vacate(index)?;
        self.endpoints.events_closed(index);
        Ok(())
    }

    /// Directs an endpoint's events to another queue, or to none.
    pub(crate) fn set_events(&mut self, ports: &Ports<'_>, index: u32, to: u32) -> Result<(), Refusal> {
        let endpoint = self.endpoints.opened(index)?;
        let from = endpoint.events;
        let to = (to != CLAN_NO_EVENTS).then_some(to);
        if from == to {
            return Ok(());
        }
        if let Some(to) = to {
            let queues = self.events.len() as u64;
            let queue = self.events.opened(to)?;
            if queue.owner != endpoint.owner {
                return Err(Refusal::new(ULN_STATUS_NOT_OPEN, to, queues));
            }
            queue.join(ports.dma, index, endpoint.tripwires)?;
        }
        if let Some(from) = from.and_then(|from| self.events.at_mut(from)) {
            from.leave(index);
        }
        endpoint.events = to;
        Ok(())
    }

    /// Arms an endpoint's bits for a process that sleeps on them.
    pub(crate) fn arm_bits(&mut self, ports: &Ports<'_>, index: u32, bits: u64) {
        let Some(endpoint) = self.endpoints.get(index) else { return };
        let told = match endpoint.bits(ports.dma) {
            Ok(set) if set & bits != 0 => self.wake(ports, index),
            Ok(_) => {
                endpoint.armed |= bits;
                Ok(())
            }
            Err(fault) => Err(fault),
        };
        self.note(told);
    }

    /// Arms an event queue for a sleeping process that has taken `taken` records.
    pub(crate) fn arm_events(&mut self, ports: &Ports<'_>, index: u32, taken: u32) {
        let Some(queue) = self.events.at_mut(index) else { return };
        queue.armed |= !queue.has_more_than(taken);
        let told =
            if queue.has_more_than(taken) { self.put(ports, CLAN_FIFO_EVENTS | index) } else { Ok(()) };
        self.note(told);
    }

    pub(crate) fn open_fifo(&mut self, body: &ClanOpenFifo, least: u32) -> Result<(), Refusal> {
        Refusal::unless_zero(body.reserved.into())?;
        self.fifo.open(&body.area, body.records, least..=CLAN_MAX_FIFO)
    }

    pub(crate) fn close_fifo(&mut self) {
        self.fifo.close();
    }

    /// Handles the driver's report of how many of the FIFO's records it has taken.
    pub(crate) fn fifo_taken(&mut self, ports: &Ports<'_>, taken: u32) {
        let put = self.fifo.taken(ports.dma, taken);
        self.add(ClanStatistic::FifoRecords, u64::from(*put.as_ref().unwrap_or(&0)));
        self.note(put.map(drop));
        self.interrupt(ports);
    }

    /// Counts a DMA fault. Missing memory affects only this host.
    pub(crate) fn note(&mut self, told: Result<(), DmaFault>) {
        if let Err(fault) = told {
            tracing::debug!(%fault, "memory of an endpoint, a queue or the FIFO");
            self.count(ClanStatistic::Discarded);
        }
    }

    /// Reports something that has a bit and an event to an endpoint.
    pub(crate) fn happened(
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
    pub(crate) fn set_interest(&mut self, ports: &Ports<'_>, index: u32, interest: u32) {
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
    pub(crate) fn tell(
        &mut self,
        ports: &Ports<'_>,
        endpoint: u32,
        kind: u32,
        detail: u32,
    ) -> Result<(), DmaFault> {
        let index = self.endpoints.get(endpoint).and_then(|endpoint| endpoint.events);
        let Some((index, queue)) = index.and_then(|index| Some((index, self.events.at_mut(index)?))) else {
            return Ok(());
        };
        let recorded = queue.tell(ports.dma, Source { endpoint, kind, detail })?;
        let wakes = recorded == Recorded::Written && std::mem::take(&mut queue.armed);
        self.count(match recorded {
            Recorded::Written => ClanStatistic::Events,
            Recorded::Coalesced => ClanStatistic::EventsCoalesced,
        });
        if wakes { self.put(ports, CLAN_FIFO_EVENTS | index) } else { Ok(()) }
    }

    /// Wakes a process that sleeps on an endpoint.
    pub(crate) fn wake(&mut self, ports: &Ports<'_>, index: u32) -> Result<(), DmaFault> {
        self.put(ports, index)
    }

    /// Puts an endpoint or a queue into the FIFO.
    pub(crate) fn put(&mut self, ports: &Ports<'_>, what: u32) -> Result<(), DmaFault> {
        if self.fifo.put(ports.dma, what)? {
            self.count(ClanStatistic::FifoRecords);
        }
        self.interrupt(ports);
        Ok(())
    }

    /// Interrupts if the FIFO holds something that was not yet reported to the driver.
    fn interrupt(&mut self, ports: &Ports<'_>) {
        if self.fifo.take_news() {
            self.count(ClanStatistic::Interrupts);
            ports.interrupt.raise(CLAN_VECTOR_FIFO as u16);
        }
    }

    /// Reports a fault of the endpoint with this tag, if it still exists.
    pub(crate) fn fault_of(&mut self, ports: &Ports<'_>, tag: u32, report: FaultReport) {
        if let Some((index, _)) = self.endpoints.tagged(tag) {
            self.fault(ports, index, report);
        }
    }

    /// Reports a fault of an endpoint.
    pub(crate) fn fault(&mut self, ports: &Ports<'_>, index: u32, report: FaultReport) {
        let faults_to = self.endpoints.get(index).and_then(|endpoint| endpoint.faults_to);
        let index = faults_to.unwrap_or(index);
        let Some(endpoint) = self.endpoints.get(index) else { return };
        self.counters.add(ClanStatistic::Faults, 1);
        let written = endpoint.write_fault(ports.dma, report);
        let told = written.and_then(|()| self.happened(ports, index, CLAN_BIT_FAULT, CLAN_EVENT_FAULT));
        self.note(told);
    }

    /// Reports that a member of a group has no room for its copy of an endpoint's write.
    pub(crate) fn copy_lost(
        &mut self,
        ports: &Ports<'_>,
        endpoint: u32,
        (host, group): (u16, u32),
        offset: u64,
    ) {
        self.count(ClanStatistic::CopiesLost);
        let report = FaultReport { reason: CLAN_FAULT_LOST, host, aperture: group, offset };
        self.fault(ports, endpoint, report);
    }
}
