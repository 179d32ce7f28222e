//! Deliberate update, and other commands by command pages.

use hamlyn_abi::shrimp::entry::{SHRIMP_MODE_DELIBERATE, SHRIMP_SYSTEM_PAGE};
use hamlyn_abi::shrimp::memory::*;
use hamlyn_abi::shrimp::statistics::ShrimpStatistic as Counter;

use crate::engine::memory::PAGE;
use crate::engine::violation::{Violation, ensure};
use crate::engine::world::World;

use super::ledger::{Ledger, Transfer};
use super::model::Shrimp;

impl World<Shrimp> {
    /// Loads from a command page: the first half of a compare-and-exchange.
    pub(super) fn load_command(&mut self, host: usize, address: u64) -> Result<u32, Violation> {
        self.settle(host)?;
        let machine = self.hosts[host].machine.clone();
        let said = machine.load_memory(address, 4)? as u32;
        let first = self.model.ledgers[host].transfers.front();
        let must = first.map_or(0, |transfer| {
            let base = if transfer.base == address { SHRIMP_BASE } else { 0 };
            SHRIMP_BUSY | base | (transfer.left / 4) as u32
        });
        ensure(said == must, || {
            format!("host {host}: the command page of {address:#x} says {said:#x}, and not {must:#x}")
        })?;
        Ok(said)
    }

    /// Stores any value to a command page.
    pub(super) fn store_command(
        &mut self,
        host: usize,
        address: u64,
        width: u8,
        value: u64,
    ) -> Result<(), Violation> {
        self.settle(host)?;
        let ledger = &mut self.model.ledgers[host];
        let word = value as u32;
        let counter = if width != 4 {
            Counter::CommandsMappedRefused
        } else if word == 0 || word & SHRIMP_BUSY != 0 {
            Counter::WritesBack
        } else if word < SHRIMP_SET_MODE {
            ledger.start(address, word)
        } else {
            ledger.operate(address, word)
        };
        ledger.count(counter, 1);
        self.hosts[host].machine.clone().store_memory(address, width, value)?;
        self.model.commands += 1;
        self.check_card(host)
    }
}

impl Ledger {
    fn start(&mut self, address: u64, words: u32) -> Counter {
        let length = u64::from(words) * 4;
        let is_mapped = self.table.way(address).is_some_and(|way| way.mode == SHRIMP_MODE_DELIBERATE);
        let fits = words <= SHRIMP_MAX_WORDS && self.table.is_one_part(address, length);
        let is_system = self.table.way(address).is_some_and(|way| way.address / PAGE == SHRIMP_SYSTEM_PAGE);
        if !is_mapped || !fits || !self.may_wait(address, is_system) {
            return Counter::TransfersRefused;
        }
        self.transfers.push_back(Transfer { base: address, next: address, left: length, is_system });
        Counter::TransfersStarted
    }

    /// Returns whether a transfer may be queued. Transfers of processes have 64 places, one per
    /// page; those of an operating system have one per address.
    fn may_wait(&self, address: u64, is_system: bool) -> bool {
        let mut waiting = self.transfers.iter().skip(1);
        if is_system {
            return waiting.all(|transfer| transfer.base != address);
        }
        let theirs = self.transfers.iter().filter(|transfer| !transfer.is_system).count();
        theirs <= SHRIMP_MAX_WAITING as usize
            && waiting.all(|transfer| transfer.base / PAGE != address / PAGE)
    }

    fn operate(&mut self, address: u64, word: u32) -> Counter {
        let page = (address / PAGE) as u32;
        let mode = word.wrapping_sub(SHRIMP_SET_MODE);
        if (1..=SHRIMP_MODE_DELIBERATE).contains(&mode) && self.table.way(address).is_some() {
            self.table.set_mode(address, mode);
            return Counter::CommandsMapped;
        }
        if word != SHRIMP_REPORT_NEXT || !self.table.is_mapped_in(page) {
            return Counter::CommandsMappedRefused;
        }
        self.reports.asked.insert(page);
        Counter::CommandsMapped
    }
}
