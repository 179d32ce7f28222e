//! Registers and commands of the driver. A command is carried out completely, or refused without
//! any change.

use hamlyn_abi::echo::command::{ECHO_COMMAND_CLOSE_MAILBOX, ECHO_COMMAND_OPEN_MAILBOX, EchoOpenMailbox};
use hamlyn_abi::echo::registers::{ECHO_REG_MAILBOXES, ECHO_VECTOR};
use hamlyn_abi::echo::statistics::EchoStatistic;
use hamlyn_abi::echo::window::{ECHO_CONTROL_ARMED, ECHO_CONTROL_PENDING};
use hamlyn_abi::family::command::*;
use hamlyn_abi::family::sleep::{ULN_ARMED_STRIDE, ULN_PENDING_STRIDE};
use hamlyn_card::card::Card;
use hamlyn_card::chassis::Written;
use hamlyn_card::chassis::refusal::Refusal;
use hamlyn_card::chassis::sleeper::Sleeper;
use hamlyn_card::ports::Ports;

use super::mailbox::Mailbox;
use super::{EchoCard, OUTBOXES};

impl EchoCard {
    pub(super) fn read_register(&self, offset: u32) -> u64 {
        self.chassis.read(offset).unwrap_or(match offset {
            ECHO_REG_MAILBOXES => self.mailboxes.len() as u64,
            _ => 0,
        })
    }

    pub(super) fn write_register(&mut self, ports: &Ports<'_>, offset: u32, width: u8, value: u64) {
        match self.chassis.write(ports, offset, width, value) {
            Written::Done | Written::Enabled => {}
            Written::Reset => self.reset(ports),
            Written::Command => self.run_command(ports),
            Written::Elsewhere => tracing::debug!(offset, value, "write to a register that is not there"),
        }
    }

    fn run_command(&mut self, ports: &Ports<'_>) {
        let command = self.chassis.command.take(ports.dma);
        let result = command.map(|command| (command, self.execute(ports, &command)));
        let done = matches!(result, Some((_, Ok(()))));
        self.counters.add(if done { EchoStatistic::Commands } else { EchoStatistic::CommandsRefused }, 1);
        if let Some((command, result)) = result {
            self.chassis.command.answer(ports.dma, command, result);
        }
    }

    fn execute(&mut self, ports: &Ports<'_>, command: &UlnCommand) -> Result<(), Refusal> {
        let page = &self.chassis.command;
        match command.opcode {
            ECHO_COMMAND_OPEN_MAILBOX => self.open_mailbox(ports, command.index),
            ECHO_COMMAND_CLOSE_MAILBOX => self.mailboxes.vacate(command.index).map(drop),
            ULN_COMMAND_READ_STATISTICS => page.write_counters(ports.dma, self.counters.values()),
            ULN_COMMAND_TEST_DMA => page.test_dma(ports.dma),
            opcode => Err(Refusal::new(ULN_STATUS_BAD_OPCODE, opcode, ULN_COMMAND_TEST_DMA)),
        }
    }

    fn open_mailbox(&mut self, ports: &Ports<'_>, index: u32) -> Result<(), Refusal> {
        let body: EchoOpenMailbox = self.chassis.command.body(ports.dma)?;
        self.mailboxes.check_vacant(index)?;
        let control = self.control();
        let armed = u64::from(ECHO_CONTROL_ARMED) + u64::from(index) * u64::from(ULN_ARMED_STRIDE);
        let pending =
            u64::from(ECHO_CONTROL_PENDING) + u64::from(ECHO_VECTOR) * u64::from(ULN_PENDING_STRIDE);
        let sleeper = Sleeper::new(control + armed, control + pending, ECHO_VECTOR as u16);
        self.mailboxes.open(index, Mailbox::open(&body, sleeper)?);
        sleeper.disarm(ports.window(OUTBOXES));
        Ok(())
    }
}
