//! Registers and commands of the driver. A command is carried out completely, or refused without
//! any change.

use hamlyn_abi::dart::command::*;
use hamlyn_abi::dart::registers::*;
use hamlyn_abi::dart::statistics::DartStatistic;
use hamlyn_abi::family::command::*;
use hamlyn_card::card::Card;
use hamlyn_card::chassis::Written;
use hamlyn_card::chassis::refusal::Refusal;
use hamlyn_card::ports::Ports;

use crate::DartCard;
use crate::connections::Connection;

impl DartCard {
    pub(super) fn read_register(&self, offset: u32) -> u64 {
        self.chassis.read(offset).unwrap_or_else(|| match offset {
            DART_REG_CONNECTIONS => self.options.connections.into(),
            DART_REG_ENDPOINTS => self.options.endpoints.into(),
            DART_REG_REGISTERS => self.options.registers.into(),
            DART_REG_PROGRAM => self.options.program.into(),
            DART_REG_QUEUES => self.options.queues.into(),
            DART_REG_TLB => self.options.tlb.into(),
            DART_REG_WINDOW => self.options.window.into(),
            _ => 0,
        })
    }

    pub(super) fn write_register(&mut self, ports: &Ports<'_>, offset: u32, width: u8, value: u64) {
        match self.chassis.write(ports, offset, width, value) {
            Written::Done | Written::Enabled => {}
            Written::Reset => self.reset(ports),
            Written::Command => self.run_command(ports),
            Written::Elsewhere => self.write_own(ports, offset, width, value),
        }
    }

    fn write_own(&mut self, ports: &Ports<'_>, offset: u32, width: u8, value: u64) {
        let (traffic, mut around) = self.traffic(ports);
        let (number, known) = (value as u32, (value >> 32) as u32);
        match (offset, width) {
            (DART_REG_FIFO_TAKEN, _) => around.telling.fifo_taken(ports, number),
            (DART_REG_ARM, 8) => around.telling.arm_queue(ports, number, known),
            (DART_REG_ARM_LEFT, 8) => traffic.arm(ports, around.telling, number, known),
            (DART_REG_TLB_SPACE, 8) => around.memory.fill_registers().set_space(number),
            (DART_REG_TLB_PAGE, 8) => around.memory.fill_registers().set_page(value),
            (DART_REG_TLB_FILL, 8) => traffic.fill(&mut around, value),
            (DART_REG_TLB_INVALIDATE, 8) => traffic.invalidate(around.memory, value),
            _ => tracing::debug!(offset, value, "a store to no register"),
        }
    }

    fn run_command(&mut self, ports: &Ports<'_>) {
        let command = self.chassis.command.take(ports.dma);
        let result = command.map(|command| (command, self.execute(ports, &command)));
        let done = matches!(result, Some((_, Ok(()))));
        self.telling.count(if done { DartStatistic::Commands } else { DartStatistic::CommandsRefused });
        if let Some((command, result)) = result {
            self.chassis.command.answer(ports.dma, command, result);
        }
    }

    fn execute(&mut self, ports: &Ports<'_>, command: &UlnCommand) -> Result<(), Refusal> {
        let Self { traffic, memory, telling, .. } = self;
        let (page, index) = (self.chassis.command, command.index);
        match command.opcode {
            DART_COMMAND_OPEN_ENDPOINT => memory.open_endpoint(index, &page.body(ports.dma)?),
            DART_COMMAND_CLOSE_ENDPOINT => memory.close_endpoint(index),
            DART_COMMAND_OPEN_CONNECTION => self.open_connection(ports, index, &page.body(ports.dma)?),
            DART_COMMAND_CLOSE_CONNECTION => {
                memory.opened_endpoint(traffic.close(index)?)?.connections -= 1;
                Ok(())
            }
            DART_COMMAND_CONNECT => traffic.connect(index, &page.body(ports.dma)?),
            DART_COMMAND_OPEN_QUEUE => telling.open_queue(index, &page.body(ports.dma)?),
            DART_COMMAND_CLOSE_QUEUE => {
                telling.close_queue(index)?;
                let (traffic, mut around) = self.traffic(ports);
                traffic.queue_closed(&mut around, index);
                Ok(())
            }
            DART_COMMAND_OPEN_FIFO => {
                let least = 3 * self.options.connections + self.options.queues;
                telling.open_fifo(&page.body(ports.dma)?, least)
            }
            DART_COMMAND_CLOSE_FIFO => {
                telling.close_fifo();
                Ok(())
            }
            DART_COMMAND_READ_MISSES => {
                let misses = traffic.misses(memory, index)?;
                page.write_body(ports.dma, misses)
            }
            DART_COMMAND_SET_REGISTERS => memory.set_registers(index, &page.body(ports.dma)?),
            DART_COMMAND_SET_PROGRAM => memory.set_program(index, &page.body(ports.dma)?),
            DART_COMMAND_BREAK => traffic.break_connection(ports, telling, index, &page.body(ports.dma)?),
            ULN_COMMAND_READ_STATISTICS => page.write_counters(ports.dma, telling.counters().values()),
            ULN_COMMAND_TEST_DMA => page.test_dma(ports.dma),
            opcode => Err(Refusal::new(ULN_STATUS_BAD_OPCODE, opcode, DART_COMMAND_BREAK)),
        }
    }

    fn open_connection(
        &mut self,
        ports: &Ports<'_>,
        index: u32,
        body: &DartOpenConnection,
    ) -> Result<(), Refusal> {
        self.traffic.check_vacant(index)?;
        for queue in [body.events, body.exceptions] {
            if queue != DART_NO_QUEUE {
                self.telling.check_queue(queue)?;
            }
        }
        let endpoint = self.memory.opened_endpoint(body.endpoint)?;
        let connection = Connection::open(index, body, &self.options)?;
        endpoint.connections += 1;
        self.traffic.open(ports, &mut self.telling, connection);
        Ok(())
    }
}
