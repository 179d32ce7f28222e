//! Commands of the driver (section 3.1). Each opens, closes or changes an object of one half of the
//! card.

use hamlyn_abi::family::command::*;
use hamlyn_abi::hamlyn::command::*;
use hamlyn_abi::hamlyn::sram::HamlynSramPlace;
use hamlyn_abi::hamlyn::statistics::Statistic;
use hamlyn_card::chassis::refusal::Refusal;
use hamlyn_card::ports::Ports;

use super::HamlynCard;

impl HamlynCard {
    /// Runs the command in the command page.
    pub(super) fn run_command(&mut self, ports: &Ports<'_>) {
        let Some(command) = self.chassis.command.take(ports.dma) else {
            self.counters.add(Statistic::CommandsRefused, 1);
            return;
        };
        let result = self.execute(ports, &command);
        let result = result.map(|place| {
            if let Some(place) = place {
                // If the page cannot be written, the answer cannot be written either, and reports
                // the fault.
                let _ = self.chassis.command.write_body(ports.dma, place);
            }
        });
        self.counters.add(if result.is_ok() { Statistic::Commands } else { Statistic::CommandsRefused }, 1);
        self.chassis.command.answer(ports.dma, command, result);
    }

    /// Executes a command. Returns the SRAM place of the object that the command opened, if any.
    fn execute(
        &mut self,
        ports: &Ports<'_>,
        command: &UlnCommand,
    ) -> Result<Option<HamlynSramPlace>, Refusal> {
        let Self { chassis, sram, control, sending, receiving, .. } = self;
        let (page, dma, index) = (&chassis.command, ports.dma, command.index);
        let place = match command.opcode {
            HAMLYN_COMMAND_OPEN_TERMINUS => {
                sending.open_terminus(ports, *control, sram, index, &page.body(dma)?)
            }
            HAMLYN_COMMAND_OPEN_QUEUE => receiving.open_queue(ports, *control, sram, index, &page.body(dma)?),
            HAMLYN_COMMAND_OPEN_SLOT => receiving.open_slot(sram, index, &page.body(dma)?),
            _ => return self.execute_other(ports, command).map(|()| None),
        };
        place.map(Some)
    }

    /// Executes a command that opens nothing.
    fn execute_other(&mut self, ports: &Ports<'_>, command: &UlnCommand) -> Result<(), Refusal> {
        let Self { chassis, sram, sending, receiving, counters, .. } = self;
        let (page, dma, index) = (&chassis.command, ports.dma, command.index);
        match command.opcode {
            HAMLYN_COMMAND_CLOSE_TERMINUS => sending.close_terminus(ports, sram, index, counters),
            HAMLYN_COMMAND_SET_SEND_BUFFER => sending.set_send_buffer(index, &page.body(dma)?),
            HAMLYN_COMMAND_CLEAR_SEND_BUFFER => sending.clear_send_buffer(index, &page.body(dma)?),
            HAMLYN_COMMAND_CLOSE_QUEUE => receiving.close_queue(sram, index),
            HAMLYN_COMMAND_CLOSE_SLOT => receiving.close_slot(sram, index),
            ULN_COMMAND_READ_STATISTICS => page.write_counters(dma, counters.values()),
            ULN_COMMAND_TEST_DMA => page.test_dma(dma),
            opcode => Err(Refusal::new(ULN_STATUS_BAD_OPCODE, opcode, ULN_COMMAND_TEST_DMA)),
        }
    }
}
