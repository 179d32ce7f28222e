//! Registers and commands of the driver. A command is carried out completely, or refused without
//! any change.

use std::collections::HashSet;
use std::time::Duration;

use hamlyn_abi::family::command::*;
use hamlyn_abi::shrimp::command::*;
use hamlyn_abi::shrimp::entry::{SHRIMP_ENTRY_UNLESS_BUSY, ShrimpEntry, ShrimpPageEntry};
use hamlyn_abi::shrimp::registers::*;
use hamlyn_abi::shrimp::statistics::ShrimpStatistic;
use hamlyn_card::card::Card;
use hamlyn_card::chassis::Written;
use hamlyn_card::chassis::refusal::Refusal;
use hamlyn_card::ports::Ports;

use super::ShrimpCard;

impl ShrimpCard {
    pub(super) fn read_register(&self, offset: u32) -> u64 {
        self.chassis.read(offset).unwrap_or_else(|| match offset {
            SHRIMP_REG_PAGES => self.nipt.pages().into(),
            SHRIMP_REG_COLUMNS => self.columns.into(),
            SHRIMP_REG_FIFO => self.outgoing.capacity() as u64,
            SHRIMP_REG_OUT_THRESHOLD => self.outgoing.threshold() as u64,
            SHRIMP_REG_IN_THRESHOLD => self.incoming.threshold() as u64,
            SHRIMP_REG_OUT_FILL => self.outgoing.fill() as u64,
            SHRIMP_REG_IN_FILL => self.incoming.fill() as u64,
            SHRIMP_REG_MERGE_TIME => self.merge_time.as_micros() as u64,
            SHRIMP_REG_HOLD => self.incoming.holds().into(),
            SHRIMP_REG_CUT_OFF => self.outgoing.cut_off(),
            SHRIMP_REG_SNOOPS => self.snoops.into(),
            _ => 0,
        })
    }

    pub(super) fn write_register(&mut self, ports: &Ports<'_>, offset: u32, width: u8, value: u64) {
        match self.chassis.write(ports, offset, width, value) {
            Written::Done | Written::Enabled => {}
            Written::Reset => self.reset(ports),
            Written::Command => self.run_command(ports),
            Written::Elsewhere => self.write_own(ports, offset, value as u32),
        }
    }

    fn write_own(&mut self, ports: &Ports<'_>, offset: u32, value: u32) {
        match offset {
            SHRIMP_REG_OUT_THRESHOLD => {
                self.outgoing.set_threshold(value as usize);
                self.look(ports);
            }
            SHRIMP_REG_IN_THRESHOLD => {
                self.incoming.set_threshold(value as usize);
                self.incoming.look(ports.clock.now());
            }
            SHRIMP_REG_MERGE_TIME => {
                self.merge_time = Duration::from_micros(value.min(SHRIMP_MAX_MERGE_TIME).into());
            }
            SHRIMP_REG_HOLD => {
                if !self.incoming.set_hold(value & 1 != 0, ports.clock.now()) {
                    self.count(ShrimpStatistic::HoldsRefused);
                }
                self.drain(ports);
            }
            SHRIMP_REG_ARRIVALS_TAKEN => {
                let reported = self.arrivals.taken(ports, value);
                self.counters.add(ShrimpStatistic::Arrivals, reported.into());
                self.drain(ports);
            }
            _ => tracing::debug!(offset, value, "write to a register that is not there"),
        }
    }

    fn run_command(&mut self, ports: &Ports<'_>) {
        let command = self.chassis.command.take(ports.dma);
        let result = command.map(|command| (command, self.execute(ports, &command)));
        let done = matches!(result, Some((_, Ok(()))));
        self.count(if done { ShrimpStatistic::Commands } else { ShrimpStatistic::CommandsRefused });
        if let Some((command, result)) = result {
            self.chassis.command.answer(ports.dma, command, result);
        }
    }

    fn execute(&mut self, ports: &Ports<'_>, command: &UlnCommand) -> Result<(), Refusal> {
        let page = &self.chassis.command;
        match command.opcode {
            SHRIMP_COMMAND_SET_ENTRY => self.set_entry(command.index, page.body(ports.dma)?),
            SHRIMP_COMMAND_SET_ENTRIES => self.set_entries(ports, command.index),
            SHRIMP_COMMAND_SET_SYSTEM_PAGE => self.set_system_page(command.index, page.body(ports.dma)?),
            SHRIMP_COMMAND_OPEN_ARRIVALS if self.arrivals.is_open() => {
                Err(Refusal::new(ULN_STATUS_IN_USE, 0_u32, 1_u32))
            }
            SHRIMP_COMMAND_OPEN_ARRIVALS => self.arrivals.open(&page.body(ports.dma)?),
            SHRIMP_COMMAND_CLOSE_ARRIVALS => {
                self.arrivals.close();
                Ok(())
            }
            ULN_COMMAND_READ_STATISTICS => page.write_counters(ports.dma, self.counters.values()),
            ULN_COMMAND_TEST_DMA => page.test_dma(ports.dma),
            opcode => Err(Refusal::new(ULN_STATUS_BAD_OPCODE, opcode, ULN_COMMAND_TEST_DMA)),
        }
    }

    fn set_entry(&mut self, page: u32, entry: ShrimpEntry) -> Result<(), Refusal> {
        let prepared = self.nipt.prepare(page, entry)?;
        if self.must_wait(page, &entry, &prepared) {
            return Err(Refusal::new(ULN_STATUS_IN_USE, page, 0_u32));
        }
        self.replace_entry(page, prepared);
        Ok(())
    }

    /// Sets several entries, and reports to the driver which of them must wait for a transfer.
    fn set_entries(&mut self, ports: &Ports<'_>, count: u32) -> Result<(), Refusal> {
        if !(1..=SHRIMP_MAX_ENTRIES).contains(&count) {
            return Err(Refusal::new(ULN_STATUS_BAD_LENGTH, count, SHRIMP_MAX_ENTRIES));
        }
        let page = &self.chassis.command;
        let body: [ShrimpPageEntry; SHRIMP_MAX_ENTRIES as usize] = page.body(ports.dma)?;
        let entries = self.prepare_entries(&body[..count as usize])?;
        let skips = entries.iter().enumerate().filter(|(_, (_, prepared))| prepared.is_none());
        let skipped = skips.fold(0_u64, |bits, (number, _)| bits | 1 << number);
        // This comes before any entry is set, so a command that fails here changes nothing.
        page.write_body(ports.dma, skipped)?;
        for (page, prepared) in entries {
            if let Some(prepared) = prepared {
                self.replace_entry(page, prepared);
            }
        }
        Ok(())
    }

    /// Returns the entries to set by page, with `None` for an entry that must wait.
    fn prepare_entries(&self, body: &[ShrimpPageEntry]) -> Result<Vec<(u32, Option<ShrimpEntry>)>, Refusal> {
        let mut pages = HashSet::new();
        let prepare = |one: &ShrimpPageEntry| {
            Refusal::unless_zero(one.reserved.into())?;
            let prepared = self.nipt.prepare(one.page, one.entry)?;
            if !pages.insert(one.page) {
                return Err(Refusal::new(ULN_STATUS_BAD_VALUE, one.page, 1_u32));
            }
            let waits = self.must_wait(one.page, &one.entry, &prepared);
            Ok((one.page, (!waits).then_some(prepared)))
        };
        body.iter().map(prepare).collect()
    }

    /// Returns whether a page's entry must not be set now, because that would end a transfer.
    fn must_wait(&self, page: u32, asked: &ShrimpEntry, prepared: &ShrimpEntry) -> bool {
        asked.flags & SHRIMP_ENTRY_UNLESS_BUSY != 0
            && self.engine.is_ended_by(&self.nipt, page.into(), prepared)
    }

    fn replace_entry(&mut self, page: u32, entry: ShrimpEntry) {
        // Stores before this are sent by the entry that they were made with.
        self.outgoing.close();
        let cut = self.engine.cut(&self.nipt, page.into(), &entry);
        self.nipt.set(page, entry);
        self.counters.add(ShrimpStatistic::TransfersCut, cut as u64);
        if !self.nipt.is_mapped_in(page) {
            self.arrivals.forget(page);
        }
    }

    fn set_system_page(&mut self, host: u32, body: ShrimpSystemPage) -> Result<(), Refusal> {
        Refusal::unless_zero(body.reserved.into())?;
        let limit = u32::from(u16::MAX);
        let host = u16::try_from(host).map_err(|_| Refusal::new(ULN_STATUS_BAD_INDEX, host, limit))?;
        let pages = u64::from(self.nipt.pages());
        match body.mapped {
            0 => self.system_pages.remove(&host),
            _ if body.page >= pages => return Err(Refusal::new(ULN_STATUS_BAD_ADDRESS, body.page, pages)),
            1 => self.system_pages.insert(host, body.page),
            other => return Err(Refusal::new(ULN_STATUS_BAD_VALUE, other, 1_u32)),
        };
        Ok(())
    }
}
