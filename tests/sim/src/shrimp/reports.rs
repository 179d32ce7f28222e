//! The arrival queue, from the card's view and from the driver's.

use std::collections::{BTreeSet, VecDeque};

use hamlyn_abi::shrimp::registers::*;

use crate::engine::memory::Write;
use crate::engine::rng::Rng;
use crate::engine::violation::{Violation, ensure};

use super::machine::Machine;

/// Reports to the driver.
#[derive(Debug, Default)]
pub(super) struct Reports {
    /// Records of the queue; 0: it is closed.
    records: u32,
    /// Records taken, modulo 2^32.
    taken: u32,
    /// Pages of the records that are not taken.
    untaken: VecDeque<u32>,
    /// Pages that have to be reported to the driver.
    owed: BTreeSet<u32>,
    /// Pages whose next arrival is to be reported.
    asked: BTreeSet<u32>,
    /// The vector was raised since the driver last took records.
    raised: bool,
    /// The driver has records to look for.
    is_called: bool,
}

impl Reports {
    /// Opens a queue of `records` records, or closes it if there are 0. Pending reports are
    /// dropped.
    pub(super) fn open(&mut self, records: u32) {
        *self = Self { records, is_called: self.is_called, ..Self::default() };
    }

    pub(super) fn is_called(&self) -> bool {
        self.is_called
    }

    pub(super) fn owed(&self) -> &BTreeSet<u32> {
        &self.owed
    }

    /// Asks for a report of the next arrival in a page.
    pub(super) fn ask(&mut self, page: u32) {
        self.asked.insert(page);
    }

    pub(super) fn forget(&mut self, page: u32) {
        self.asked.remove(&page);
    }

    pub(super) fn arrived(&mut self, page: u32, is_reported: bool) {
        if self.asked.remove(&page) | is_reported && self.records > 0 {
            self.owed.insert(page);
        }
    }

    /// Takes the next records from the card's writes. Each must be for a page that has to be
    /// reported and has no record yet, with its number written last. Returns the number of records,
    /// and how often the queue became full.
    pub(super) fn note(
        &mut self,
        machine: &Machine,
        writes: &mut VecDeque<Write>,
    ) -> Result<(u64, u64), Violation> {
        let (mut arrivals, mut full) = (0, 0);
        loop {
            if self.records == 0 {
                return Ok((arrivals, full));
            }
            let written = self.taken.wrapping_add(self.untaken.len() as u32);
            let place = machine.record(written % self.records);
            let Some(place) = place.filter(|place| writes.front().is_some_and(|it| it.address == *place))
            else {
                return Ok((arrivals, full));
            };
            let [page, number] = [place, place + 4].map(|address| {
                let write = writes.pop_front().filter(|write| write.address == address)?;
                Some(u32::from_le_bytes(write.bytes.try_into().ok()?))
            });
            let (untaken, owed) = (&self.untaken, &self.owed);
            let has_room = untaken.len() < self.records as usize;
            let page = page.filter(|page| owed.contains(page) && !untaken.contains(page) && has_room);
            let page = page.filter(|_| number == Some(written.wrapping_add(1)));
            let page = page.ok_or_else(|| {
                let host = machine.id;
                Violation::new(format!("host {host}: record {written} is not to be written: {self:?}"))
            })?;
            self.untaken.push_back(page);
            full += u64::from(self.untaken.len() == self.records as usize);
            arrivals += 1;
        }
    }

    /// Checks that the arrival vector has a reason if it was raised, and is not missing.
    pub(super) fn check(&mut self, host: u16, raised: bool) -> Result<(), Violation> {
        if raised {
            ensure(!self.untaken.is_empty(), || format!("host {host}: a vector came for no record"))?;
            (self.raised, self.is_called) = (true, true);
        }
        let missing = self.owed.iter().find(|page| !self.untaken.contains(page));
        let has_room = self.untaken.len() < self.records as usize;
        ensure(missing.is_none() || !has_room, || {
            format!("host {host}: no record comes for page {missing:?}")
        })?;
        ensure(self.untaken.is_empty() || self.raised, || format!("host {host}: no vector came"))
    }

    /// Takes up to `most` records as the driver. It first tells the card that it has taken them,
    /// and then looks at the pages. Returns their number.
    pub(super) fn take(&mut self, machine: &Machine, most: usize) -> Result<u64, Violation> {
        let mut pages = Vec::new();
        while pages.len() < most && self.records > 0 {
            let number = self.taken.wrapping_add(pages.len() as u32);
            let Some(place) = machine.record(number % self.records) else { break };
            if machine.memory.peek_u32(place + 4) != number.wrapping_add(1) {
                break;
            }
            pages.push(machine.memory.peek_u32(place));
        }
        let of_card: Vec<u32> = self.untaken.iter().take(pages.len()).copied().collect();
        let all = self.untaken.len();
        ensure(pages == of_card && pages.len() == all.min(most), || {
            let host = machine.id;
            format!("host {host}: the driver finds {pages:?}, and the card wrote {of_card:?} of {all}")
        })?;
        // A driver that has found no record sleeps until a vector comes.
        self.is_called = !pages.is_empty();
        if self.is_called {
            self.taken = self.taken.wrapping_add(pages.len() as u32);
            for page in self.untaken.drain(..pages.len()) {
                self.owed.remove(&page);
            }
            self.raised = false;
            machine.set(SHRIMP_REG_ARRIVALS_TAKEN, self.taken)?;
        }
        Ok(pages.len() as u64)
    }

    /// Acknowledges records that do not exist, as a faulty driver. The card must not believe it.
    pub(super) fn take_too_many(&mut self, machine: &Machine, rng: &mut Rng) -> Result<(), Violation> {
        let there = self.untaken.len() as u32;
        let taken = self.taken.wrapping_add(rng.range(there + 1, there + 100));
        // The card raises the vector again after any acknowledgement.
        self.raised = false;
        machine.set(SHRIMP_REG_ARRIVALS_TAKEN, taken)
    }
}
