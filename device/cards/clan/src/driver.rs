//! Registers and commands of the driver. A command is carried out completely, or refused without
//! any change.

use std::time::Duration;

use hamlyn_abi::clan::command::*;
use hamlyn_abi::clan::endpoint::{CLAN_BIT_DMA, CLAN_BIT_MESSAGE};
use hamlyn_abi::clan::event::{CLAN_EVENT_DMA, CLAN_EVENT_MESSAGE};
use hamlyn_abi::clan::registers::*;
use hamlyn_abi::clan::statistics::ClanStatistic;
use hamlyn_abi::family::command::*;
use hamlyn_card::card::Card;
use hamlyn_card::chassis::Written;
use hamlyn_card::chassis::refusal::Refusal;
use hamlyn_card::ports::Ports;

use super::ClanCard;
use super::reads::{Reader, Waiting};

impl ClanCard {
    pub(super) fn read_register(&self, offset: u32) -> u64 {
        self.chassis.read(offset).unwrap_or_else(|| match offset {
            CLAN_REG_APERTURES => self.options.apertures.into(),
            CLAN_REG_WINDOW_PAGES => self.options.window_pages.into(),
            CLAN_REG_ENDPOINTS => self.options.endpoints.into(),
            CLAN_REG_TRIPWIRES => self.options.tripwires.into(),
            CLAN_REG_EVENT_QUEUES => self.options.event_queues.into(),
            CLAN_REG_BURST => self.options.burst.into(),
            CLAN_REG_JOIN => self.join.into(),
            CLAN_REG_READ_TIMEOUT => self.reads.timeout().as_millis() as u64,
            CLAN_REG_CREDITS => self.options.credits.into(),
            _ => 0,
        })
    }

    pub(super) fn write_register(&mut self, ports: &Ports<'_>, offset: u32, width: u8, value: u64) {
        let was_enabled = self.chassis.is_enabled();
        match self.chassis.write(ports, offset, width, value) {
            // A driver may enable an enabled card again, which changes nothing.
            Written::Enabled if was_enabled => {}
            // The card discarded the announcements that arrived while it was disabled.
            Written::Enabled => self.peers.greet(),
            Written::Done => {}
            Written::Reset => self.reset(ports),
            Written::Command => self.run_command(ports),
            Written::Elsewhere => self.write_own(ports, offset, width, value),
        }
    }

    fn write_own(&mut self, ports: &Ports<'_>, offset: u32, width: u8, value: u64) {
        match (offset, width) {
            (CLAN_REG_JOIN, _) => self.join = value as u32 & (CLAN_JOIN_LEAVING | CLAN_JOIN_ARRIVING),
            (CLAN_REG_READ_TIMEOUT, _) => {
                let ms = (value as u32).clamp(1, CLAN_MAX_READ_TIMEOUT);
                self.reads.set_timeout(Duration::from_millis(ms.into()));
            }
            (CLAN_REG_FIFO_TAKEN, _) => self.telling.fifo_taken(ports, value as u32),
            (CLAN_REG_ARM, 8) => self.telling.arm_bits(ports, value as u32 & 0xffff, value >> 16),
            (CLAN_REG_ARM_EVENTS, 8) => self.telling.arm_events(ports, value as u32, (value >> 32) as u32),
            (CLAN_REG_POST, _) => {
                let posted = value as u32;
                let (bit, event) = match posted & CLAN_POST_DMA {
                    0 => (CLAN_BIT_MESSAGE, CLAN_EVENT_MESSAGE),
                    _ => (CLAN_BIT_DMA, CLAN_EVENT_DMA),
                };
                let told = self.telling.happened(ports, posted & !CLAN_POST_DMA, bit, event);
                self.telling.note(told);
            }
            _ => tracing::debug!(offset, value, "write to a register that is not there"),
        }
    }

    fn run_command(&mut self, ports: &Ports<'_>) {
        let command = self.chassis.command.take(ports.dma);
        let result = command.map(|command| (command, self.execute(ports, &command)));
        self.peers.join_groups(self.apertures.groups());
        let done = matches!(result, Some((_, Ok(()))));
        self.telling.count(if done { ClanStatistic::Commands } else { ClanStatistic::CommandsRefused });
        if let Some((command, result)) = result {
            self.chassis.command.answer(ports.dma, command, result);
        }
    }

    fn execute(&mut self, ports: &Ports<'_>, command: &UlnCommand) -> Result<(), Refusal> {
        let (page, index) = (self.chassis.command, command.index);
        match command.opcode {
            CLAN_COMMAND_OPEN_APERTURE => self.apertures.open(index, &page.body(ports.dma)?),
            CLAN_COMMAND_CLOSE_APERTURE => {
                self.apertures.close(index)?;
                self.tripwires.disarm_all_of(index);
                Ok(())
            }
            CLAN_COMMAND_OPEN_WINDOW => self.open_window(index, &page.body(ports.dma)?),
            CLAN_COMMAND_CLOSE_WINDOW => self.close_window(index),
            CLAN_COMMAND_OPEN_ENDPOINT => self.open_endpoint(ports, index, &page.body(ports.dma)?),
            CLAN_COMMAND_CLOSE_ENDPOINT => self.close_endpoint(ports, index),
            CLAN_COMMAND_OPEN_EVENTS => self.telling.open_events(index, &page.body(ports.dma)?),
            CLAN_COMMAND_CLOSE_EVENTS => self.telling.close_events(index),
            CLAN_COMMAND_OPEN_FIFO => {
                let least = self.options.endpoints + self.options.event_queues + self.options.tripwires;
                self.telling.open_fifo(&page.body(ports.dma)?, least)
            }
            CLAN_COMMAND_CLOSE_FIFO => {
                self.telling.close_fifo();
                Ok(())
            }
            CLAN_COMMAND_SET_EVENTS => {
                let body: ClanSetEvents = page.body(ports.dma)?;
                Refusal::unless_zero(body.reserved.into())?;
                self.telling.set_events(ports, index, body.events)
            }
            ULN_COMMAND_READ_STATISTICS => page.write_counters(ports.dma, self.telling.counters().values()),
            ULN_COMMAND_TEST_DMA => page.test_dma(ports.dma),
            opcode => Err(Refusal::new(ULN_STATUS_BAD_OPCODE, opcode, CLAN_COMMAND_SET_EVENTS)),
        }
    }

    fn open_window(&mut self, first: u32, body: &ClanOpenWindow) -> Result<(), Refusal> {
        let endpoint = self.telling.endpoints().opened(body.endpoint)?;
        // A privileged window needs a privileged endpoint.
        if body.flags & CLAN_PRIVILEGED != 0 && !endpoint.privileged {
            return Err(Refusal::new(ULN_STATUS_BAD_VALUE, body.flags, 0_u32));
        }
        self.windows.open(first, body)
    }

    /// Closes a window. Its waiting loads read as ones.
    fn close_window(&mut self, first: u32) -> Result<(), Refusal> {
        self.windows.close(first)?;
        let is_concerned =
            |waiting: &Waiting| matches!(waiting.reader, Reader::Load { window, .. } if window == first);
        for read in self.reads.give_up(is_concerned) {
            self.reads.load_done(&read, u64::MAX);
        }
        Ok(())
    }

    fn open_endpoint(
        &mut self,
        ports: &Ports<'_>,
        index: u32,
        body: &ClanOpenEndpoint,
    ) -> Result<(), Refusal> {
        self.telling.endpoints().open(index, body)?;
        self.tripwires.open(index, body.tripwires);
        self.engine.open(index);
        // The endpoint's memory is written last, so that a refused endpoint finds nothing in it.
        let opened = self.telling.set_events(ports, index, body.events).and_then(|()| {
            let idle = self.telling.endpoint(index).map_or(Ok(()), |endpoint| endpoint.begin(ports.dma));
            idle.map_err(Refusal::from)
        });
        if opened.is_err() {
            self.close_endpoint(ports, index)?;
        }
        opened
    }

    fn close_endpoint(&mut self, ports: &Ports<'_>, index: u32) -> Result<(), Refusal> {
        let tag = self.telling.endpoints().opened(index)?.tag;
        if self.windows.name(index) {
            return Err(Refusal::new(ULN_STATUS_IN_USE, index, self.options.endpoints));
        }
        self.tripwires.close(index);
        self.telling.set_events(ports, index, CLAN_NO_EVENTS)?;
        self.reads.give_up(|waiting| waiting.tag == tag);
        self.engine.close(index);
        self.peers.forget_writer(tag);
        self.telling.endpoints().close(index)
    }
}
