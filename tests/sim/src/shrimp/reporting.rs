//! The arrival queue from the driver's view.

use std::collections::VecDeque;

use hamlyn_abi::shrimp::registers::*;
use hamlyn_abi::shrimp::statistics::ShrimpStatistic as Counter;

use crate::engine::memory::Write;
use crate::engine::violation::{Violation, ensure};
use crate::engine::world::World;

use super::model::Shrimp;

const ARRIVAL: u16 = SHRIMP_VECTOR_ARRIVAL as u16;
const OUTGOING: u16 = SHRIMP_VECTOR_OUTGOING as u16;

impl World<Shrimp> {
    /// Takes the next records from the card's writes. Each must be for a page that has to be
    /// reported and has no record yet, with its number written last.
    pub(super) fn take_records(
        &mut self,
        host: usize,
        writes: &mut VecDeque<Write>,
    ) -> Result<(), Violation> {
        let machine = self.hosts[host].machine.clone();
        let ledger = &mut self.model.ledgers[host];
        loop {
            let reports = &mut ledger.reports;
            if reports.records == 0 {
                return Ok(());
            }
            let written = reports.taken.wrapping_add(reports.untaken.len() as u32);
            let Some(place) = machine.record(written % reports.records) else { return Ok(()) };
            if writes.front().is_none_or(|write| write.address != place) {
                return Ok(());
            }
            let [page, number] = [place, place + 4].map(|address| {
                let write = writes.pop_front().filter(|write| write.address == address)?;
                Some(u32::from_le_bytes(write.bytes.try_into().ok()?))
            });
            let (untaken, owed) = (&mut reports.untaken, &reports.owed);
            let has_room = untaken.len() < reports.records as usize;
            let page = page.filter(|page| owed.contains(page) && !untaken.contains(page) && has_room);
            let page = page.filter(|_| number == Some(written.wrapping_add(1)));
            let page = page.ok_or_else(|| {
                Violation::new(format!("host {host}: record {written} is not to be written: {reports:?}"))
            })?;
            reports.untaken.push_back(page);
            self.model.queues_full += u64::from(reports.untaken.len() == reports.records as usize);
            ledger.count(Counter::Arrivals, 1);
        }
    }

    /// Checks the raised vectors: each has a reason, and none is missing.
    pub(super) fn hear_vectors(&mut self, host: usize) -> Result<(), Violation> {
        let vectors = self.hosts[host].machine.vectors.take();
        let ledger = &mut self.model.ledgers[host];
        ledger.full_raised += vectors.iter().filter(|vector| **vector == OUTGOING).count() as u64;
        let full = ledger.counted(Counter::OutgoingFull);
        ensure(ledger.full_raised == full, || {
            format!("host {host}: the FIFO was full {full} times, and {} vectors came", ledger.full_raised)
        })?;
        let reports = &mut ledger.reports;
        if vectors.contains(&ARRIVAL) {
            ensure(!reports.untaken.is_empty(), || format!("host {host}: a vector came for no record"))?;
            reports.raised = true;
            self.model.drivers[host] = true;
        }
        let reports = &self.model.ledgers[host].reports;
        let missing = reports.owed.iter().find(|page| !reports.untaken.contains(page));
        let has_room = reports.untaken.len() < reports.records as usize;
        ensure(missing.is_none() || !has_room, || {
            format!("host {host}: no record comes for page {missing:?}")
        })?;
        ensure(reports.untaken.is_empty() || reports.raised, || format!("host {host}: no vector came"))
    }

    /// Takes up to `most` records as the driver, if a vector has come since it last found none. It
    /// first tells the card that it has taken them, and then looks at the pages. Returns whether
    /// there were any.
    pub(super) fn take_reports(&mut self, host: usize, most: usize) -> Result<bool, Violation> {
        let machine = self.hosts[host].machine.clone();
        if !self.model.drivers[host] {
            return Ok(false);
        }
        self.settle(host)?;
        let reports = &mut self.model.ledgers[host].reports;
        let mut pages = Vec::new();
        while pages.len() < most && reports.records > 0 {
            let number = reports.taken.wrapping_add(pages.len() as u32);
            let Some(place) = machine.record(number % reports.records) else { break };
            if machine.memory.peek_u32(place + 4) != number.wrapping_add(1) {
                break;
            }
            pages.push(machine.memory.peek_u32(place));
        }
        let of_card: Vec<u32> = reports.untaken.iter().take(pages.len()).copied().collect();
        let all = reports.untaken.len();
        ensure(pages == of_card && pages.len() == all.min(most), || {
            format!("host {host}: the driver finds {pages:?}, and the card wrote {of_card:?} of {all}")
        })?;
        // A driver that has found no record sleeps until a vector comes.
        self.model.drivers[host] = !pages.is_empty();
        if pages.is_empty() {
            return Ok(false);
        }
        reports.taken = reports.taken.wrapping_add(pages.len() as u32);
        for page in reports.untaken.drain(..pages.len()) {
            reports.owed.remove(&page);
        }
        reports.raised = false;
        self.model.reported += pages.len() as u64;
        let taken = reports.taken;
        machine.set(SHRIMP_REG_ARRIVALS_TAKEN, taken)?;
        self.drained(host)?;
        self.check_card(host)?;
        Ok(true)
    }

    /// Acknowledges records that do not exist, as a faulty driver. The card must not believe it.
    pub(super) fn take_too_many(&mut self, host: usize) -> Result<(), Violation> {
        self.settle(host)?;
        let machine = self.hosts[host].machine.clone();
        let reports = &mut self.model.ledgers[host].reports;
        let there = reports.untaken.len() as u32;
        let taken = reports.taken.wrapping_add(self.rng.range(there + 1, there + 100));
        // The card raises the vector again after any acknowledgement.
        reports.raised = false;
        machine.set(SHRIMP_REG_ARRIVALS_TAKEN, taken)?;
        self.drained(host)?;
        self.check_card(host)
    }
}
