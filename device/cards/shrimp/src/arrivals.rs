//! The arrival queue: arrivals that must be reported to the driver (section 4.2).

use std::collections::{BTreeSet, VecDeque};

use hamlyn_abi::family::command::ULN_STATUS_BAD_LENGTH;
use hamlyn_abi::shrimp::arrival::*;
use hamlyn_abi::shrimp::command::ShrimpOpenArrivals;
use hamlyn_abi::shrimp::registers::SHRIMP_VECTOR_ARRIVAL;
use hamlyn_card::chassis::area::Area;
use hamlyn_card::chassis::refusal::Refusal;
use hamlyn_card::ports::{DmaFault, Ports, VolatileSlice};

/// The queue, once it is open, and the pages whose arrivals must be reported.
#[derive(Debug, Default)]
pub(crate) struct Arrivals {
    queue: Option<Queue>,
    /// Pages whose next arrival must be reported.
    asked: BTreeSet<u32>,
}

#[derive(Debug)]
struct Queue {
    area: Area,
    records: u32,
    /// Number of records written, and taken by the driver, modulo 2^32.
    written: u32,
    taken: u32,
    /// Pages of the untaken records, in order, and the same pages for look-ups.
    untaken: VecDeque<u32>,
    pages: BTreeSet<u32>,
    /// Pages for which there was no room.
    waiting: BTreeSet<u32>,
    /// The vector was raised, and the driver has not reported taken records since.
    raised: bool,
}

/// The result of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Report {
    /// A record was written.
    Written,
    /// The page already has a record, or there is no queue or no room yet.
    Coalesced,
}

impl Arrivals {
    pub(crate) fn open(&mut self, body: &ShrimpOpenArrivals) -> Result<(), Refusal> {
        Refusal::unless_zero(body.reserved.into())?;
        let possible = (SHRIMP_MIN_ARRIVALS..=SHRIMP_MAX_ARRIVALS).contains(&body.records);
        if !possible || !body.records.is_power_of_two() {
            return Err(Refusal::new(ULN_STATUS_BAD_LENGTH, body.records, SHRIMP_MAX_ARRIVALS));
        }
        let area = Area::table(&body.queue, body.records, SHRIMP_ARRIVAL_SIZE)?;
        self.queue = Some(Queue {
            area,
            records: body.records,
            written: 0,
            taken: 0,
            untaken: VecDeque::new(),
            pages: BTreeSet::new(),
            waiting: BTreeSet::new(),
            raised: false,
        });
        Ok(())
    }

    pub(crate) fn is_open(&self) -> bool {
        self.queue.is_some()
    }

    pub(crate) fn close(&mut self) {
        *self = Self::default();
    }

    /// Requests a report of the next arrival for the page.
    pub(crate) fn ask(&mut self, page: u32) {
        self.asked.insert(page);
    }

    /// Drops the request of a page for which nothing can arrive.
    pub(crate) fn forget(&mut self, page: u32) {
        self.asked.remove(&page);
    }

    /// Returns whether a report of an arrival for the page was requested, and clears the request.
    pub(crate) fn take_asked(&mut self, page: u32) -> bool {
        !self.asked.is_empty() && self.asked.remove(&page)
    }

    /// Reports an arrival.
    pub(crate) fn report(&mut self, ports: &Ports<'_>, page: u32) -> Result<Report, DmaFault> {
        match &mut self.queue {
            Some(queue) if !queue.pages.contains(&page) => queue.report(ports, page),
            _ => Ok(Report::Coalesced),
        }
    }

    /// Returns whether the vector must be raised for new records.
    pub(crate) fn take_news(&mut self) -> bool {
        let Some(queue) = &mut self.queue else { return false };
        let news = queue.written != queue.taken && !queue.raised;
        queue.raised |= news;
        news
    }

    /// Handles the number of records that the driver has taken, modulo 2^32, since the queue was
    /// opened. Out-of-range counts are ignored. Returns how many of the waiting pages now have a
    /// record.
    pub(crate) fn taken(&mut self, ports: &Ports<'_>, taken: u32) -> u32 {
        let Some(queue) = &mut self.queue else { return 0 };
        queue.raised = false;
        if taken.wrapping_sub(queue.taken) > queue.written.wrapping_sub(queue.taken) {
            return 0;
        }
        while queue.taken != taken {
            queue.taken = queue.taken.wrapping_add(1);
            if let Some(page) = queue.untaken.pop_front() {
                queue.pages.remove(&page);
            }
        }
        let before = queue.written;
        while queue.has_room() {
            let Some(page) = queue.waiting.pop_first() else { break };
            // Only the driver is affected by a record whose memory is gone.
            if queue.report(ports, page).is_err() {
                break;
            }
        }
        queue.written.wrapping_sub(before)
    }
}

impl Queue {
    fn has_room(&self) -> bool {
        self.written.wrapping_sub(self.taken) < self.records
    }

    fn report(&mut self, ports: &Ports<'_>, page: u32) -> Result<Report, DmaFault> {
        if !self.has_room() {
            self.waiting.insert(page);
            return Ok(Report::Coalesced);
        }
        let place = u64::from(self.written % self.records) * u64::from(SHRIMP_ARRIVAL_SIZE);
        let address = self.area.locate(ports.dma, place)?;
        ports.dma.write(address, VolatileSlice::from(&mut page.to_le_bytes()[..]))?;
        self.written = self.written.wrapping_add(1);
        self.untaken.push_back(page);
        self.pages.insert(page);
        ports.dma.publish(address + 4, self.written)?;
        Ok(Report::Written)
    }
}

/// [`SHRIMP_VECTOR_ARRIVAL`], in the type of interrupt lines.
pub(crate) const VECTOR: u16 = SHRIMP_VECTOR_ARRIVAL as u16;
