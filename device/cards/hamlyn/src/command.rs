//! Commands of the driver (section 3.1): each is carried out whole, or refused and changes nothing.

use hamlyn_abi::family::command::*;
use hamlyn_abi::family::interrupts::HAMLYN_VECTOR_LINK;
use hamlyn_abi::hamlyn::command::*;
use hamlyn_abi::hamlyn::metadata::HAMLYN_METADATA_SIZE;
use hamlyn_abi::hamlyn::notification::{
    HAMLYN_NOTIFICATION_SIZE, HAMLYN_QUEUE_MAX_ENTRIES, HAMLYN_QUEUE_MIN_ENTRIES,
};
use hamlyn_abi::hamlyn::request::HAMLYN_SEND_BUFFERS;
use hamlyn_abi::hamlyn::statistics::Statistic;
use hamlyn_card::chassis::area::Area;
use hamlyn_card::chassis::refusal::Refusal;
use hamlyn_card::ports::Ports;

use super::notification::Nqcb;
use super::scheduler::set_awake;
use super::slot::{Mode, Slot};
use super::terminus::Terminus;
use super::{HamlynCard, WINDOWS};

impl HamlynCard {
    /// Runs the command in the command page.
    pub(super) fn run_command(&mut self, ports: &Ports<'_>) {
        let Some(command) = self.chassis.command.take(ports.dma) else {
            self.counters.add(Statistic::CommandsRefused, 1);
            return;
        };
        let result = self.execute(ports, &command);
        self.counters.add(if result.is_ok() { Statistic::Commands } else { Statistic::CommandsRefused }, 1);
        self.chassis.command.answer(ports.dma, command, result);
    }

    fn execute(&mut self, ports: &Ports<'_>, command: &HamlynCommand) -> Result<(), Refusal> {
        let index = command.index;
        match command.opcode {
            HAMLYN_COMMAND_OPEN_TERMINUS => self.open_terminus(ports, index),
            HAMLYN_COMMAND_CLOSE_TERMINUS => self.close_terminus(ports, index),
            HAMLYN_COMMAND_SET_SEND_BUFFER => self.set_send_buffer(ports, index),
            HAMLYN_COMMAND_CLEAR_SEND_BUFFER => self.clear_send_buffer(ports, index),
            HAMLYN_COMMAND_OPEN_QUEUE => self.open_queue(ports, index),
            HAMLYN_COMMAND_CLOSE_QUEUE => self.close_queue(index),
            HAMLYN_COMMAND_OPEN_SLOT => self.open_slot(ports, index),
            HAMLYN_COMMAND_CLOSE_SLOT => self.slots.vacate(index).map(drop),
            HAMLYN_COMMAND_READ_STATISTICS => {
                self.chassis.command.write_counters(ports.dma, self.counters.values())
            }
            HAMLYN_COMMAND_TEST_DMA => self.chassis.command.test_dma(ports.dma),
            opcode => Err(Refusal::new(HAMLYN_STATUS_BAD_OPCODE, opcode, HAMLYN_COMMAND_TEST_DMA)),
        }
    }

    fn open_terminus(&mut self, ports: &Ports<'_>, index: u32) -> Result<(), Refusal> {
        let body: HamlynOpenTerminus = self.chassis.command.body(ports.dma)?;
        self.termini.check_vacant(index)?;
        let flags = HAMLYN_TERMINUS_PRIVILEGED | HAMLYN_TERMINUS_WAKES;
        if body.flags & !flags != 0 {
            return Err(Refusal::new(HAMLYN_STATUS_BAD_VALUE, body.flags, flags));
        }
        let wakes = body.flags & HAMLYN_TERMINUS_WAKES != 0;
        let sleeper = wakes.then(|| self.check_vector(body.vector)).transpose()?;
        let sleeper = sleeper.map(|vector| self.control.of_terminus(index, vector));
        if !(1..=HAMLYN_MAX_WEIGHT).contains(&body.weight) {
            return Err(Refusal::new(HAMLYN_STATUS_BAD_VALUE, body.weight, HAMLYN_MAX_WEIGHT));
        }
        if body.status % 4096 != 0 {
            return Err(Refusal::new(HAMLYN_STATUS_BAD_ADDRESS, body.status, 4096_u32));
        }
        let terminus = Terminus::open(ports, index, &body, sleeper)?;
        self.termini.open(index, terminus);
        Ok(())
    }

    fn close_terminus(&mut self, ports: &Ports<'_>, index: u32) -> Result<(), Refusal> {
        let terminus = self.termini.vacate(index)?;
        self.counters.add(Statistic::Abandoned, terminus.unfinished(ports.window(WINDOWS)).into());
        self.tickets.forget(index);
        self.awake.retain(|awake| *awake != index);
        self.aside.forget(index);
        set_awake(ports.window(WINDOWS), index, false);
        Ok(())
    }

    fn set_send_buffer(&mut self, ports: &Ports<'_>, index: u32) -> Result<(), Refusal> {
        let body: HamlynSetSendBuffer = self.chassis.command.body(ports.dma)?;
        let area = Area::check(&body.area)?;
        Refusal::unless_zero(body.reserved.into())?;
        let buffer = self.send_buffer(index, body.tag)?;
        if buffer.is_some() {
            return Err(Refusal::new(HAMLYN_STATUS_IN_USE, body.tag, HAMLYN_SEND_BUFFERS));
        }
        *buffer = Some(area);
        Ok(())
    }

    fn clear_send_buffer(&mut self, ports: &Ports<'_>, index: u32) -> Result<(), Refusal> {
        let body: HamlynSetSendBuffer = self.chassis.command.body(ports.dma)?;
        let buffer = self.send_buffer(index, body.tag)?;
        buffer.take().map(drop).ok_or(Refusal::new(HAMLYN_STATUS_NOT_OPEN, body.tag, HAMLYN_SEND_BUFFERS))
    }

    fn send_buffer(&mut self, index: u32, tag: u32) -> Result<&mut Option<Area>, Refusal> {
        let terminus = self.termini.opened(index)?;
        terminus.buffers.get_mut(tag as usize).ok_or(Refusal::new(
            HAMLYN_STATUS_BAD_VALUE,
            tag,
            HAMLYN_SEND_BUFFERS - 1,
        ))
    }

    fn open_queue(&mut self, ports: &Ports<'_>, index: u32) -> Result<(), Refusal> {
        let body: HamlynOpenQueue = self.chassis.command.body(ports.dma)?;
        self.queues.check_vacant(index)?;
        if !(HAMLYN_QUEUE_MIN_ENTRIES..=HAMLYN_QUEUE_MAX_ENTRIES).contains(&body.entries) {
            return Err(Refusal::new(HAMLYN_STATUS_BAD_LENGTH, body.entries, HAMLYN_QUEUE_MAX_ENTRIES));
        }
        let sleeper = self.control.of_queue(index, self.check_vector(body.vector)?);
        let area = Area::table(&body.area, body.entries, HAMLYN_NOTIFICATION_SIZE)?;
        self.queues.open(index, Nqcb::new(area, body.entries, sleeper));
        sleeper.disarm(ports.window(WINDOWS));
        Ok(())
    }

    /// A vector that may wake somebody: the first is the link's.
    fn check_vector(&self, vector: u32) -> Result<u32, Refusal> {
        if vector == HAMLYN_VECTOR_LINK || vector >= self.options.vectors {
            return Err(Refusal::new(HAMLYN_STATUS_BAD_VALUE, vector, self.options.vectors - 1));
        }
        Ok(vector)
    }

    fn close_queue(&mut self, index: u32) -> Result<(), Refusal> {
        let users = self.slots.all_open().filter(|slot| slot.queue == Some(index)).count();
        if users != 0 {
            return Err(Refusal::new(HAMLYN_STATUS_IN_USE, users as u64, 0_u32));
        }
        self.queues.vacate(index).map(drop)
    }

    fn open_slot(&mut self, ports: &Ports<'_>, index: u32) -> Result<(), Refusal> {
        let body: HamlynOpenSlot = self.chassis.command.body(ports.dma)?;
        self.slots.check_vacant(index)?;
        let mode = Mode::from_abi(body.mode).ok_or(Refusal::new(
            HAMLYN_STATUS_BAD_VALUE,
            body.mode,
            HAMLYN_MODE_PARANOID_ONE_SHOT,
        ))?;
        let flags = HAMLYN_SLOT_FLAGS | HAMLYN_SLOT_PRIVILEGED;
        if body.flags & !flags != 0 {
            return Err(Refusal::new(HAMLYN_STATUS_BAD_VALUE, body.flags, flags));
        }
        let privileged = privileged(&body)?;
        let queue = (body.queue != HAMLYN_NO_QUEUE).then_some(body.queue);
        if let Some(queue) = queue {
            self.queues.opened(queue)?;
        }
        let metadata = match body.metadata_entries {
            0 => None,
            entries => Some((Area::table(&body.metadata, entries, HAMLYN_METADATA_SIZE)?, entries)),
        };
        let slot = Slot {
            area: Area::check(&body.area)?,
            metadata,
            metadata_pointer: body.metadata_pointer,
            key: body.key,
            mode,
            queue,
            notification_index: body.notification_index,
            interrupt: body.flags & HAMLYN_SLOT_INTERRUPT != 0,
            fetch: body.flags & HAMLYN_SLOT_FETCH != 0,
            privileged,
        };
        self.slots.open(index, slot);
        Ok(())
    }
}

/// The host whose operating system alone may write to the slot, if it is such a slot.
fn privileged(body: &HamlynOpenSlot) -> Result<Option<u16>, Refusal> {
    if body.flags & HAMLYN_SLOT_PRIVILEGED == 0 {
        return Refusal::unless_zero(body.source.into()).map(|()| None);
    }
    let source = u16::try_from(body.source);
    source.map(Some).map_err(|_| Refusal::new(HAMLYN_STATUS_BAD_VALUE, body.source, u16::MAX))
}
