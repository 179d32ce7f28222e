//! Actions of operating systems: entries, thresholds, resets. Also attempts of hostile ones.

use hamlyn_abi::family::control::{ULN_CONTROL_RESET, ULN_REG_CONTROL};
use hamlyn_abi::shrimp::command::*;
use hamlyn_abi::shrimp::entry::*;
use hamlyn_abi::shrimp::registers::*;
use hamlyn_abi::shrimp::statistics::ShrimpStatistic as Counter;

use crate::engine::rng::Rng;
use crate::engine::violation::{Violation, ensure};

use super::account::Account;
use super::mapping::{PAGES, Taste, some_entry};

/// The operating system of a host, and its card's account.
#[derive(Debug)]
pub(super) struct Driver<'a> {
    pub(super) account: &'a mut Account,
    pub(super) rng: &'a mut Rng,
    pub(super) taste: Taste,
}

impl Driver<'_> {
    fn some_entry(&mut self) -> ShrimpEntry {
        some_entry(self.rng, self.account.id(), self.taste)
    }

    /// Replaces an entry. After that, the card may not access the ranges of the old one.
    pub(super) fn set_entry(&mut self, page: u32, entry: ShrimpEntry) -> Result<(), Violation> {
        self.account.settle()?;
        let (id, machine) = (self.account.id(), self.account.machine());
        if entry.flags & SHRIMP_ENTRY_UNLESS_BUSY != 0 && self.account.would_end(page, entry) {
            let refused = machine.command(SHRIMP_COMMAND_SET_ENTRY, page, &entry)?.is_err();
            ensure(refused, || format!("host {id}: a transfer from page {page} was to go on"))?;
            return self.account.check();
        }
        machine.run(SHRIMP_COMMAND_SET_ENTRY, page, &entry)?;
        let (before, now) = self.account.replace(page, entry);
        machine.permit_entry(page, &before, false);
        machine.permit_entry(page, &now, true);
        self.account.check()
    }

    /// Returns a random page and a new target for it.
    pub(super) fn some_mapping(&mut self) -> (u32, ShrimpEntry) {
        let page = self.taste.page(self.rng);
        let entry = match self.rng.below(10) {
            0 => ShrimpEntry::default(),
            1 | 2 => {
                // A variant of the current entry: its modes are those that processes have chosen,
                // or those of another random entry.
                let mut entry = self.account.table().entry(page);
                let other = self.some_entry();
                entry.incoming = other.incoming;
                entry.out[0].mode = other.out[0].mode;
                entry.out[1].mode = other.out[1].mode;
                // A part that is mapped again may have a new target.
                if self.rng.percent(20) {
                    entry.out[0].page = other.out[0].page;
                }
                ShrimpEntry { flags: self.rng.below(32), ..entry }
            }
            _ => self.some_entry(),
        };
        (page, entry)
    }

    /// Sets a random page for the messages of another host's operating system, or removes it.
    pub(super) fn set_system_page(&mut self, other: u16) -> Result<(), Violation> {
        self.account.settle()?;
        let machine = self.account.machine();
        let page = u64::from(self.taste.page(self.rng));
        let mapped = self.rng.percent(80);
        let body = ShrimpSystemPage { page, mapped: mapped.into(), reserved: 0 };
        if mapped {
            machine.permit_system(page, true);
        }
        machine.run(SHRIMP_COMMAND_SET_SYSTEM_PAGE, other.into(), &body)?;
        if let Some(before) = self.account.set_system_page(other, mapped.then_some(page)) {
            machine.permit_system(before, false);
        }
        self.account.check()
    }

    fn open_queue(&mut self) -> Result<(), Violation> {
        let records = self.rng.pick(&[16, 16, 32]).unwrap_or(16);
        self.account.machine().open_queue(records)?;
        self.account.open_queue(records)
    }

    /// Closes the queue and opens another one. Pending reports are dropped.
    pub(super) fn reopen_queue(&mut self) -> Result<(), Violation> {
        self.account.settle()?;
        let machine = self.account.machine();
        machine.run(SHRIMP_COMMAND_CLOSE_ARRIVALS, 0, &[0_u8; 0])?;
        machine.forget_queue();
        self.account.open_queue(0)?;
        self.open_queue()
    }

    /// Sets a threshold or a time, occasionally out of range.
    pub(super) fn set_limits(&mut self) -> Result<(), Violation> {
        self.account.settle()?;
        let (id, machine) = (self.account.id(), self.account.machine());
        let capacity = machine.options.fifo;
        let value = match self.rng.below(6) {
            0 => self.rng.range(0, 1),
            1 => u32::MAX,
            2 => capacity,
            3 => self.rng.range(1, 100),
            _ => self.rng.range(1, capacity),
        };
        let register = match self.rng.below(3) {
            0 => SHRIMP_REG_OUT_THRESHOLD,
            1 => SHRIMP_REG_IN_THRESHOLD,
            _ => SHRIMP_REG_MERGE_TIME,
        };
        let must = self.account.limit(register, value);
        machine.set(register, value)?;
        let says = u64::from(machine.load(register)?);
        ensure(says == must, || format!("host {id}: register {register:#x} says {says}, and not {must}"))?;
        self.account.check()
    }

    /// Resets the card. Its unsent data is lost, and nothing is mapped.
    pub(super) fn reset(&mut self) -> Result<(), Violation> {
        let machine = self.account.machine();
        machine.set(ULN_REG_CONTROL, ULN_CONTROL_RESET)?;
        self.account.reset()?;
        machine.enable()?;
        self.set_up()
    }

    /// Does what an operating system does after power-on.
    pub(super) fn set_up(&mut self) -> Result<(), Violation> {
        self.open_queue()?;
        for page in 1..=self.taste.pages {
            let entry = self.some_entry();
            self.set_entry(page, entry)?;
        }
        let others = (0..self.taste.cards).filter(|_| self.rng.percent(80)).collect::<Vec<_>>();
        others.into_iter().try_for_each(|other| self.set_system_page(other))
    }

    /// Stores to a window page repeatedly, as a processor that ignores whether the card has room.
    pub(super) fn flood_window(&mut self) -> Result<(), Violation> {
        let (address, width) = self.taste.window_place(self.rng);
        let before = self.account.counted(Counter::StoresRefused);
        for _ in 0..1000 {
            self.account.store_to_window(address, width, self.rng.next())?;
            if self.account.counted(Counter::StoresRefused) > before {
                break;
            }
        }
        Ok(())
    }

    /// Runs an invalid command, which must be refused and must change nothing.
    pub(super) fn command_nonsense(&mut self) -> Result<(), Violation> {
        self.account.settle()?;
        let machine = self.account.machine();
        let page = self.taste.page(self.rng);
        let good = self.some_entry();
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
                    _ => bad.flags = 32,
                }
                machine.command(SHRIMP_COMMAND_SET_ENTRY, page, &bad)?
            }
        };
        ensure(refused.is_err(), || format!("host {}: nonsense was carried out: {bad:?}", machine.id))?;
        self.account.check()
    }
}
