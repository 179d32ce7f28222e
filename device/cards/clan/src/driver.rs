//! Registers and commands of the driver. A command is carried out completely, or refused without
//! any change.

use std::time::Duration;

use hamlyn_abi::clan::command::*;
use hamlyn_abi::clan::endpoint::{CLAN_BIT_DMA, CLAN_BIT_MESSAGE};
use hamlyn_abi::clan::event::{CLAN_EVENT_DMA, CLAN_EVENT_MESSAGE};
use hamlyn_abi::clan::fifo::{CLAN_FIFO_EVENTS, CLAN_MAX_FIFO};
use hamlyn_abi::clan::registers::*;
use hamlyn_abi::clan::statistics::ClanStatistic;
use hamlyn_abi::family::command::*;
use hamlyn_card::card::Card;
use hamlyn_card::chassis::Written;
use hamlyn_card::chassis::refusal::Refusal;
use hamlyn_card::ports::Ports;

use super::ClanCard;
use super::cam::Wire;
use super::events::Events;
use super::reads::Reader;

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
            CLAN_REG_READ_TIMEOUT => self.read_timeout.as_millis() as u64,
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
            Written::Enabled => self.greet(),
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
                self.read_timeout = Duration::from_millis(ms.into());
            }
            (CLAN_REG_FIFO_TAKEN, _) => {
                let put = self.fifo.taken(ports.dma, value as u32);
                self.counters.add(ClanStatistic::FifoRecords, u64::from(*put.as_ref().unwrap_or(&0)));
                self.note(put.map(drop));
                self.interrupt(ports);
            }
            (CLAN_REG_ARM, 8) => self.arm_bits(ports, value as u32 & 0xffff, value >> 16),
            (CLAN_REG_ARM_EVENTS, 8) => self.arm_events(ports, value as u32, (value >> 32) as u32),
            (CLAN_REG_POST, _) => {
                let posted = value as u32;
                let (bit, event) = match posted & CLAN_POST_DMA {
                    0 => (CLAN_BIT_MESSAGE, CLAN_EVENT_MESSAGE),
                    _ => (CLAN_BIT_DMA, CLAN_EVENT_DMA),
                };
                let told = self.happened(ports, posted & !CLAN_POST_DMA, bit, event);
                self.note(told);
            }
            _ => tracing::debug!(offset, value, "write to a register that is not there"),
        }
    }

    /// Arms an endpoint's bits for a process that sleeps on them.
    fn arm_bits(&mut self, ports: &Ports<'_>, index: u32, bits: u64) {
        let Some(endpoint) = self.endpoints.get(index) else { return };
        let told = match endpoint.bits(ports.dma) {
            Ok(set) if set & bits != 0 => self.wake(ports, index),
            Ok(_) => {
                endpoint.armed |= bits;
                Ok(())
            }
            Err(fault) => Err(fault),
        };
        self.note(told);
    }

    /// Arms an event queue for a sleeping process that has taken `taken` records.
    fn arm_events(&mut self, ports: &Ports<'_>, index: u32, taken: u32) {
        let Some(Some(queue)) = self.events.get_mut(index as usize) else { return };
        queue.armed |= !queue.has_more_than(taken);
        let told =
            if queue.has_more_than(taken) { self.put(ports, CLAN_FIFO_EVENTS | index) } else { Ok(()) };
        self.note(told);
    }

    fn run_command(&mut self, ports: &Ports<'_>) {
        let command = self.chassis.command.take(ports.dma);
        let result = command.map(|command| (command, self.execute(ports, &command)));
        self.peers.join_groups(self.here.map(|here| here.host), self.apertures.groups());
        let done = matches!(result, Some((_, Ok(()))));
        self.count(if done { ClanStatistic::Commands } else { ClanStatistic::CommandsRefused });
        if let Some((command, result)) = result {
            self.chassis.command.answer(ports.dma, command, result);
        }
    }

    fn execute(&mut self, ports: &Ports<'_>, command: &HamlynCommand) -> Result<(), Refusal> {
        let (page, index) = (self.chassis.command, command.index);
        match command.opcode {
            CLAN_COMMAND_OPEN_APERTURE => self.apertures.open(index, &page.body(ports.dma)?),
            CLAN_COMMAND_CLOSE_APERTURE => {
                self.apertures.close(index)?;
                self.disarm_all_of(index);
                Ok(())
            }
            CLAN_COMMAND_OPEN_WINDOW => self.open_window(index, &page.body(ports.dma)?),
            CLAN_COMMAND_CLOSE_WINDOW => self.close_window(index),
            CLAN_COMMAND_OPEN_ENDPOINT => self.open_endpoint(ports, index, &page.body(ports.dma)?),
            CLAN_COMMAND_CLOSE_ENDPOINT => self.close_endpoint(ports, index),
            CLAN_COMMAND_OPEN_EVENTS => {
                self.events.check_vacant(index)?;
                self.events.open(index, Events::open(&page.body(ports.dma)?)?);
                Ok(())
            }
            CLAN_COMMAND_CLOSE_EVENTS => self.close_events(index),
            CLAN_COMMAND_OPEN_FIFO => {
                let body: ClanOpenFifo = page.body(ports.dma)?;
                Refusal::unless_zero(body.reserved.into())?;
                let least = self.options.endpoints + self.options.event_queues + self.options.tripwires;
                self.fifo.open(&body.area, body.records, least..=CLAN_MAX_FIFO)
            }
            CLAN_COMMAND_CLOSE_FIFO => {
                self.fifo.close();
                Ok(())
            }
            CLAN_COMMAND_SET_EVENTS => {
                let body: ClanSetEvents = page.body(ports.dma)?;
                Refusal::unless_zero(body.reserved.into())?;
                self.endpoints.table.opened(index)?;
                self.set_events(ports, index, body.events)
            }
            HAMLYN_COMMAND_READ_STATISTICS => page.write_counters(ports.dma, self.counters.values()),
            HAMLYN_COMMAND_TEST_DMA => page.test_dma(ports.dma),
            opcode => Err(Refusal::new(HAMLYN_STATUS_BAD_OPCODE, opcode, CLAN_COMMAND_SET_EVENTS)),
        }
    }

    fn open_window(&mut self, first: u32, body: &ClanOpenWindow) -> Result<(), Refusal> {
        let endpoint = self.endpoints.table.opened(body.endpoint)?;
        // A privileged window needs a privileged endpoint.
        if body.flags & CLAN_PRIVILEGED != 0 && !endpoint.privileged {
            return Err(Refusal::new(HAMLYN_STATUS_BAD_VALUE, body.flags, 0_u32));
        }
        self.windows.open(first, body)
    }

    /// Closes a window. Its waiting loads read as ones.
    fn close_window(&mut self, first: u32) -> Result<(), Refusal> {
        self.windows.close(first)?;
        let ended = self
            .reads
            .give_up(|waiting| matches!(waiting.reader, Reader::Load { window, .. } if window == first));
        self.loaded.extend(ended.iter().map(|read| (read.number.into(), u64::MAX)));
        Ok(())
    }

    fn open_endpoint(
        &mut self,
        ports: &Ports<'_>,
        index: u32,
        body: &ClanOpenEndpoint,
    ) -> Result<(), Refusal> {
        self.endpoints.open(index, body)?;
        // The endpoint's memory is written last, so that a refused endpoint finds nothing in it.
        let opened = self.set_events(ports, index, body.events).and_then(|()| {
            let idle = self.endpoints.get(index).map_or(Ok(()), |endpoint| endpoint.begin(ports.dma));
            idle.map_err(Refusal::from)
        });
        if opened.is_err() {
            self.close_endpoint(ports, index)?;
        }
        opened
    }

    fn close_endpoint(&mut self, ports: &Ports<'_>, index: u32) -> Result<(), Refusal> {
        let tag = self.endpoints.table.opened(index)?.tag;
        if self.windows.name(index) {
            return Err(Refusal::new(HAMLYN_STATUS_IN_USE, index, self.options.endpoints));
        }
        let tripwires = self.endpoints.table.opened(index)?.tripwires.len() as u32;
        for number in 0..tripwires {
            self.disarm(Wire { endpoint: index, number });
        }
        self.set_events(ports, index, CLAN_NO_EVENTS)?;
        self.reads.give_up(|waiting| waiting.tag == tag);
        self.engine.forget(index);
        self.peers.forget_writer(tag);
        self.endpoints.close(index).map(drop)
    }

    fn close_events(&mut self, index: u32) -> Result<(), Refusal> {
        self.events.vacate(index)?;
        for endpoint in self.endpoints.table.iter_mut().flatten() {
            endpoint.events = endpoint.events.filter(|events| *events != index);
        }
        Ok(())
    }

    /// Directs an endpoint's events to another queue, or to none.
    fn set_events(&mut self, ports: &Ports<'_>, index: u32, to: u32) -> Result<(), Refusal> {
        let endpoint = self.endpoints.table.opened(index)?;
        let tripwires = endpoint.tripwires.len() as u32;
        let from = endpoint.events;
        let to = (to != CLAN_NO_EVENTS).then_some(to);
        if from == to {
            return Ok(());
        }
        if let Some(to) = to {
            let queue = self.events.opened(to)?;
            if queue.owner != endpoint.owner {
                return Err(Refusal::new(HAMLYN_STATUS_NOT_OPEN, to, self.options.event_queues));
            }
            queue.join(ports.dma, index, tripwires)?;
        }
        if let Some(from) = from.and_then(|from| self.events.get_mut(from as usize)?.as_mut()) {
            from.leave(index);
        }
        endpoint.events = to;
        Ok(())
    }
}
