//! Actions of operating systems: entries, thresholds, resets. Also attempts of hostile ones.

use hamlyn_abi::family::control::{ULN_CONTROL_RESET, ULN_REG_CONTROL};
use hamlyn_abi::shrimp::command::*;
use hamlyn_abi::shrimp::entry::*;
use hamlyn_abi::shrimp::registers::*;
use hamlyn_abi::shrimp::statistics::ShrimpStatistic as Counter;

use crate::engine::memory::PAGE;
use crate::engine::violation::{Violation, ensure};
use crate::engine::world::World;

use super::ledger::{Ledger, Reports, Transfer};
use super::mapping::{PAGES, goes_on, some_entry};
use super::model::Shrimp;

impl World<Shrimp> {
    /// Replaces an entry. After that, the card may not access the ranges of the old one.
    pub(super) fn set_entry(&mut self, host: usize, page: u32, entry: ShrimpEntry) -> Result<(), Violation> {
        self.settle(host)?;
        let machine = self.hosts[host].machine.clone();
        let ledger = &mut self.model.ledgers[host];
        let (before, now) = (ledger.table.entry(page), ledger.table.prepared(page, entry));
        let ends = |transfer: &Transfer| {
            let rest = transfer.next..transfer.next + transfer.left;
            transfer.base / PAGE == u64::from(page) && !goes_on(&rest, &before, &now)
        };
        if entry.flags & SHRIMP_ENTRY_UNLESS_BUSY != 0 && ledger.transfers.iter().any(ends) {
            let refused = machine.command(SHRIMP_COMMAND_SET_ENTRY, page, &entry)?.is_err();
            ensure(refused, || format!("host {host}: a transfer from page {page} was to go on"))?;
            return self.check_card(host);
        }
        machine.run(SHRIMP_COMMAND_SET_ENTRY, page, &entry)?;
        machine.permit_entry(page, &before, false);
        machine.permit_entry(page, &now, true);
        ledger.table.set(page, now);
        let transfers = ledger.transfers.len();
        ledger.transfers.retain(|transfer| !ends(transfer));
        let cut = transfers - ledger.transfers.len();
        ledger.count(Counter::TransfersCut, cut as u64);
        if !ledger.table.is_mapped_in(page) {
            ledger.reports.asked.remove(&page);
        }
        self.check_card(host)
    }

    /// Maps a random page to a new target.
    pub(super) fn map_anew(&mut self, host: usize) -> Result<(), Violation> {
        let page = self.some_page();
        let entry = match self.rng.below(10) {
            0 => ShrimpEntry::default(),
            1 | 2 => {
                // A variant of the current entry: its modes are those that processes have chosen,
                // or those of another random entry.
                let mut entry = self.model.ledgers[host].table.entry(page);
                let other = some_entry(&mut self.rng, host as u16, self.model.taste);
                entry.incoming = other.incoming;
                entry.out[0].mode = other.out[0].mode;
                entry.out[1].mode = other.out[1].mode;
                // A part that is mapped again may have a new target.
                if self.rng.percent(20) {
                    entry.out[0].page = other.out[0].page;
                }
                ShrimpEntry { flags: self.rng.below(16), ..entry }
            }
            _ => some_entry(&mut self.rng, host as u16, self.model.taste),
        };
        self.note(|| format!("host {host} maps page {page}: {entry:?}"));
        self.set_entry(host, page, entry)
    }

    /// Sets a random page for the messages of another host's operating system, or removes it.
    pub(super) fn set_system_page(&mut self, host: usize, other: u16) -> Result<(), Violation> {
        self.settle(host)?;
        let machine = self.hosts[host].machine.clone();
        let page = u64::from(self.some_page());
        let mapped = self.rng.percent(80);
        let body = ShrimpSystemPage { page, mapped: mapped.into(), reserved: 0 };
        if mapped {
            machine.permit_system(page, true);
        }
        machine.run(SHRIMP_COMMAND_SET_SYSTEM_PAGE, other.into(), &body)?;
        let system = &mut self.model.ledgers[host].system;
        let before = if mapped { system.insert(other, page) } else { system.remove(&other) };
        if let Some(before) = before {
            machine.permit_system(before, false);
        }
        self.check_card(host)
    }

    pub(super) fn open_queue(&mut self, host: usize) -> Result<(), Violation> {
        let records = self.rng.pick(&[16, 16, 32]).unwrap_or(16);
        self.hosts[host].machine.clone().open_queue(records)?;
        self.model.ledgers[host].reports = Reports { records, ..Reports::default() };
        self.check_card(host)
    }

    /// Closes the queue and opens another one. Pending reports are dropped.
    pub(super) fn reopen_queue(&mut self, host: usize) -> Result<(), Violation> {
        self.settle(host)?;
        let machine = self.hosts[host].machine.clone();
        machine.run(SHRIMP_COMMAND_CLOSE_ARRIVALS, 0, &[0_u8; 0])?;
        machine.forget_queue();
        self.model.ledgers[host].reports = Reports::default();
        self.check_card(host)?;
        self.open_queue(host)
    }

    /// Sets a threshold or a time, occasionally out of range.
    pub(super) fn set_limits(&mut self, host: usize) -> Result<(), Violation> {
        self.settle(host)?;
        let machine = self.hosts[host].machine.clone();
        let ledger = &mut self.model.ledgers[host];
        let capacity = ledger.outgoing.capacity();
        let value = match self.rng.below(6) {
            0 => self.rng.range(0, 1),
            1 => u32::MAX,
            2 => capacity as u32,
            3 => self.rng.range(1, 100),
            _ => self.rng.range(1, capacity as u32),
        };
        let in_range = u64::from(value).clamp(1, capacity);
        let (register, must) = match self.rng.below(3) {
            0 => {
                ledger.outgoing.threshold = in_range;
                (SHRIMP_REG_OUT_THRESHOLD, in_range)
            }
            1 => {
                ledger.in_threshold = in_range;
                (SHRIMP_REG_IN_THRESHOLD, in_range)
            }
            _ => {
                ledger.merge_us = u64::from(value.min(SHRIMP_MAX_MERGE_TIME));
                (SHRIMP_REG_MERGE_TIME, ledger.merge_us)
            }
        };
        machine.set(register, value)?;
        let says = u64::from(machine.load(register)?);
        ensure(says == must, || format!("host {host}: register {register:#x} says {says}, and not {must}"))?;
        self.check_card(host)
    }

    /// Makes the card hold arriving packets in the Incoming FIFO, or deposit them.
    pub(super) fn hold(&mut self, host: usize, hold: bool) -> Result<(), Violation> {
        self.settle(host)?;
        let now = self.hosts[host].machine.clock.milliseconds();
        self.model.ledgers[host].hold = hold && !self.model.ledgers[host].is_held_too_long(now);
        self.hosts[host].machine.clone().set(SHRIMP_REG_HOLD, hold.into())?;
        self.drained(host)?;
        self.check_card(host)
    }

    /// Called after a tick of the card. Packets that were held for too long are let in, and no
    /// others.
    pub(super) fn let_in(&mut self, host: usize) -> Result<(), Violation> {
        let machine = self.hosts[host].machine.clone();
        let ledger = &mut self.model.ledgers[host];
        let now = machine.clock.milliseconds();
        ledger.hold &= !ledger.is_held_too_long(now);
        let (is, must) = (machine.load(SHRIMP_REG_HOLD)? != 0, ledger.hold);
        ensure(is == must, || format!("host {host}: it holds what arrives: {is}, and must: {must}"))?;
        self.drained(host)
    }

    /// Resets the card. Its unsent data is lost, and nothing is mapped.
    pub(super) fn reset(&mut self, host: usize) -> Result<(), Violation> {
        self.settle(host)?;
        self.hear_vectors(host)?;
        self.note(|| format!("host {host} resets its card"));
        let machine = self.hosts[host].machine.clone();
        machine.set(ULN_REG_CONTROL, ULN_CONTROL_RESET)?;
        let options = machine.options;
        let fresh = Ledger::new(options.fifo.into(), options.merge_us.into());
        let mut old = std::mem::replace(&mut self.model.ledgers[host], fresh);
        old.hold = false;
        old.note_held(machine.clock.milliseconds());
        self.model.ledgers[host].stops = old.stops;
        for (page, entry) in old.table.entries() {
            machine.permit_entry(page, entry, false);
        }
        for page in old.system.values() {
            machine.permit_system(*page, false);
        }
        machine.forget_queue();
        self.model.ledgers[host].watched = old.watched;
        self.model.drivers[host] = false;
        self.check_card(host)?;
        machine.enable()?;
        self.set_up(host)
    }

    /// Does what an operating system does after power-on.
    pub(super) fn set_up(&mut self, host: usize) -> Result<(), Violation> {
        let cards = self.hosts.len() as u16;
        self.open_queue(host)?;
        for page in 1..=self.model.taste.pages {
            let entry = some_entry(&mut self.rng, host as u16, self.model.taste);
            self.set_entry(host, page, entry)?;
        }
        let others = (0..cards).filter(|_| self.rng.percent(80)).collect::<Vec<_>>();
        others.into_iter().try_for_each(|other| self.set_system_page(host, other))
    }

    /// Runs an invalid command, which must be refused and must change nothing.
    pub(super) fn command_nonsense(&mut self, host: usize) -> Result<(), Violation> {
        self.settle(host)?;
        let machine = self.hosts[host].machine.clone();
        let page = self.some_page();
        let good = some_entry(&mut self.rng, host as u16, self.model.taste);
        let mut bad = good;
        let refused = match self.rng.below(12) {
            0 => machine.command(SHRIMP_COMMAND_SET_ENTRY, PAGES + page, &good)?,
            1 => {
                let body = ShrimpSystemPage { page: PAGES.into(), mapped: 1, reserved: 0 };
                machine.command(SHRIMP_COMMAND_SET_SYSTEM_PAGE, 0, &body)?
            }
            2 => {
                let body = ShrimpSystemPage { page: page.into(), mapped: 2, reserved: 0 };
                machine.command(SHRIMP_COMMAND_SET_SYSTEM_PAGE, 0, &body)?
            }
            3 => machine.command(SHRIMP_COMMAND_OPEN_ARRIVALS, 0, &[0_u8; 32])?,
            4 => machine.command(self.rng.range(11, 0x0fff), page, &good)?,
            which => {
                match which {
                    5 => bad.split_out = 4097,
                    6 => bad.split_in = u32::MAX,
                    7 => bad.out[1].mode = 4,
                    8 => bad.out[0].node = 1 << 16,
                    9 => bad.out[0].page = SHRIMP_SYSTEM_PAGE + 1,
                    10 => bad.incoming[1].flags = 2,
                    _ => bad.flags = 16,
                }
                machine.command(SHRIMP_COMMAND_SET_ENTRY, page, &bad)?
            }
        };
        ensure(refused.is_err(), || format!("host {host}: nonsense was carried out: {bad:?}"))?;
        self.check_card(host)
    }
}
