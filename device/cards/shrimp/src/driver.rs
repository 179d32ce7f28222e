//! What the driver says: registers and commands. A command is carried out whole, or refused and changes nothing.

use std::time::Duration;

use hamlyn_abi::family::command::*;
use hamlyn_abi::shrimp::command::*;
use hamlyn_abi::shrimp::entry::{SHRIMP_ENTRY_UNLESS_BUSY, ShrimpEntry};
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

    fn execute(&mut self, ports: &Ports<'_>, command: &HamlynCommand) -> Result<(), Refusal> {
        let page = &self.chassis.command;
        match command.opcode {
            SHRIMP_COMMAND_SET_ENTRY => self.set_entry(command.index, page.body(ports.dma)?),
            SHRIMP_COMMAND_SET_SYSTEM_PAGE => self.set_system_page(command.index, page.body(ports.dma)?),
            SHRIMP_COMMAND_OPEN_ARRIVALS if self.arrivals.is_open() => {
                Err(Refusal::new(HAMLYN_STATUS_IN_USE, 0_u32, 1_u32))
            }
            SHRIMP_COMMAND_OPEN_ARRIVALS => self.arrivals.open(&page.body(ports.dma)?),
            SHRIMP_COMMAND_CLOSE_ARRIVALS => {
                self.arrivals.close();
                Ok(())
            }
            HAMLYN_COMMAND_READ_STATISTICS => page.write_counters(ports.dma, self.counters.values()),
            HAMLYN_COMMAND_TEST_DMA => page.test_dma(ports.dma),
            opcode => Err(Refusal::new(HAMLYN_STATUS_BAD_OPCODE, opcode, HAMLYN_COMMAND_TEST_DMA)),
        }
    }

    fn set_entry(&mut self, page: u32, entry: ShrimpEntry) -> Result<(), Refusal> {
        let unless_busy = entry.flags & SHRIMP_ENTRY_UNLESS_BUSY != 0;
        let entry = self.nipt.prepare(page, entry)?;
        if unless_busy && self.engine.is_ended_by(&self.nipt, page.into(), &entry) {
            return Err(Refusal::new(HAMLYN_STATUS_IN_USE, page, 0_u32));
        }
        // What was stored before this is sent as it was to be sent then.
        self.outgoing.close();
        let cut = self.engine.cut(&self.nipt, page.into(), &entry);
        self.nipt.set(page, entry);
        self.counters.add(ShrimpStatistic::TransfersCut, cut as u64);
        if !self.nipt.is_mapped_in(page) {
            self.arrivals.forget(page);
        }
        Ok(())
    }

    fn set_system_page(&mut self, host: u32, body: ShrimpSystemPage) -> Result<(), Refusal> {
        Refusal::unless_zero(body.reserved.into())?;
        let limit = u32::from(u16::MAX);
        let host = u16::try_from(host).map_err(|_| Refusal::new(HAMLYN_STATUS_BAD_INDEX, host, limit))?;
        let pages = u64::from(self.nipt.pages());
        match body.mapped {
            0 => self.system_pages.remove(&host),
            _ if body.page >= pages => return Err(Refusal::new(HAMLYN_STATUS_BAD_ADDRESS, body.page, pages)),
            1 => self.system_pages.insert(host, body.page),
            other => return Err(Refusal::new(HAMLYN_STATUS_BAD_VALUE, other, 1_u32)),
        };
        Ok(())
    }
}
