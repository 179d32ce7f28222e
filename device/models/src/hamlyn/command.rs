//! Commands of the driver (section 3.1): each is carried out whole, or refused and changes nothing.

use hamlyn_abi::hamlyn::command::*;
use hamlyn_abi::hamlyn::metadata::HAMLYN_METADATA_SIZE;
use hamlyn_abi::hamlyn::notification::{
    HAMLYN_NOTIFICATION_SIZE, HAMLYN_QUEUE_MAX_ENTRIES, HAMLYN_QUEUE_MIN_ENTRIES,
};
use hamlyn_abi::hamlyn::registers::HAMLYN_VECTOR_LINK;
use hamlyn_abi::hamlyn::request::HAMLYN_SEND_BUFFERS;
use hamlyn_abi::hamlyn::statistics::Statistic;
use zerocopy::{FromBytes, IntoBytes};

use super::HamlynCard;
use super::area::{Area, BadArea};
use super::notification::Nqcb;
use super::slot::{Mode, Slot};
use super::table::Table;
use super::terminus::{Terminus, set_awake};
use crate::ports::{Dma, DmaFault, Ports, VolatileSlice, read_value, write_value};

/// Why a command was refused: a status, what was wrong, and what the limit is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Refused {
    status: u32,
    value: u64,
    limit: u64,
}

impl From<DmaFault> for Refused {
    fn from(fault: DmaFault) -> Self {
        refused(HAMLYN_STATUS_DMA_FAULT, fault.address, fault.length)
    }
}

impl From<BadArea> for Refused {
    fn from(bad: BadArea) -> Self {
        match bad {
            BadArea::Length { value, limit } => refused(HAMLYN_STATUS_BAD_LENGTH, value, limit),
            BadArea::Address { value } => refused(HAMLYN_STATUS_BAD_ADDRESS, value, 4096_u32),
            BadArea::Reserved { value } => refused(HAMLYN_STATUS_BAD_VALUE, value, 0_u32),
        }
    }
}

fn refused(status: u32, value: impl Into<u64>, limit: impl Into<u64>) -> Refused {
    Refused { status, value: value.into(), limit: limit.into() }
}

impl HamlynCard {
    /// Runs the command in the command page; the status also goes to its register.
    pub(super) fn run_command(&mut self, ports: &Ports<'_>) {
        let Ok(mut command) = read_value::<HamlynCommand>(ports.dma, self.command_page) else {
            self.command_status = HAMLYN_STATUS_NO_PAGE;
            self.counters.add(Statistic::CommandsRefused, 1);
            return;
        };
        let result = self.execute(ports, &command).err().unwrap_or(refused(HAMLYN_STATUS_OK, 0_u32, 0_u32));
        (command.status, command.value, command.limit) = (result.status, result.value, result.limit);
        let counter =
            if command.status == HAMLYN_STATUS_OK { Statistic::Commands } else { Statistic::CommandsRefused };
        self.counters.add(counter, 1);
        if command.status != HAMLYN_STATUS_OK {
            tracing::debug!(?command, "command refused");
        }
        self.command_status = match write_value(ports.dma, self.command_page, command) {
            Ok(()) => command.status,
            Err(_) => HAMLYN_STATUS_NO_PAGE,
        };
    }

    fn execute(&mut self, ports: &Ports<'_>, command: &HamlynCommand) -> Result<(), Refused> {
        let index = command.index;
        match command.opcode {
            HAMLYN_COMMAND_OPEN_TERMINUS => self.open_terminus(ports, index),
            HAMLYN_COMMAND_CLOSE_TERMINUS => self.close_terminus(ports, index),
            HAMLYN_COMMAND_SET_SEND_BUFFER => self.set_send_buffer(ports, index),
            HAMLYN_COMMAND_CLEAR_SEND_BUFFER => self.clear_send_buffer(ports, index),
            HAMLYN_COMMAND_OPEN_QUEUE => self.open_queue(ports, index),
            HAMLYN_COMMAND_CLOSE_QUEUE => self.close_queue(index),
            HAMLYN_COMMAND_OPEN_SLOT => self.open_slot(ports, index),
            HAMLYN_COMMAND_CLOSE_SLOT => vacate(&mut self.slots, index).map(drop),
            HAMLYN_COMMAND_READ_STATISTICS => self.read_statistics(ports),
            HAMLYN_COMMAND_TEST_DMA => self.test_dma(ports),
            opcode => Err(refused(HAMLYN_STATUS_BAD_OPCODE, opcode, HAMLYN_COMMAND_TEST_DMA)),
        }
    }

    fn body<T: FromBytes + IntoBytes>(&self, ports: &Ports<'_>) -> Result<T, Refused> {
        Ok(read_value(ports.dma, self.body_address())?)
    }

    fn body_address(&self) -> u64 {
        self.command_page + u64::from(HAMLYN_COMMAND_BODY)
    }

    fn open_terminus(&mut self, ports: &Ports<'_>, index: u32) -> Result<(), Refused> {
        let body: HamlynOpenTerminus = self.body(ports)?;
        vacant(&self.termini, index)?;
        let flags = HAMLYN_TERMINUS_PRIVILEGED | HAMLYN_TERMINUS_WAKES;
        if body.flags & !flags != 0 {
            return Err(refused(HAMLYN_STATUS_BAD_VALUE, body.flags, flags));
        }
        let wakes = body.flags & HAMLYN_TERMINUS_WAKES != 0;
        let sleeper = wakes.then(|| self.check_vector(body.vector)).transpose()?;
        let sleeper = sleeper.map(|vector| self.control.of_terminus(index, vector));
        if !(1..=HAMLYN_MAX_WEIGHT).contains(&body.weight) {
            return Err(refused(HAMLYN_STATUS_BAD_VALUE, body.weight, HAMLYN_MAX_WEIGHT));
        }
        if body.status % 4096 != 0 {
            return Err(refused(HAMLYN_STATUS_BAD_ADDRESS, body.status, 4096_u32));
        }
        let terminus = Terminus::open(ports, index, &body, sleeper)?;
        self.termini.open(index, terminus);
        Ok(())
    }

    fn close_terminus(&mut self, ports: &Ports<'_>, index: u32) -> Result<(), Refused> {
        let terminus = vacate(&mut self.termini, index)?;
        self.counters.add(Statistic::Abandoned, terminus.unfinished(ports.window).into());
        self.fetches.forget(index);
        self.awake.retain(|awake| *awake != index);
        self.aside.forget(index);
        set_awake(ports.window, index, false);
        Ok(())
    }

    fn set_send_buffer(&mut self, ports: &Ports<'_>, index: u32) -> Result<(), Refused> {
        let body: HamlynSetSendBuffer = self.body(ports)?;
        let area = Area::check(&body.area)?;
        zero(body.reserved.into())?;
        let buffer = self.send_buffer(index, body.tag)?;
        if buffer.is_some() {
            return Err(refused(HAMLYN_STATUS_IN_USE, body.tag, HAMLYN_SEND_BUFFERS));
        }
        *buffer = Some(area);
        Ok(())
    }

    fn clear_send_buffer(&mut self, ports: &Ports<'_>, index: u32) -> Result<(), Refused> {
        let body: HamlynSetSendBuffer = self.body(ports)?;
        let buffer = self.send_buffer(index, body.tag)?;
        buffer.take().map(drop).ok_or(refused(HAMLYN_STATUS_NOT_OPEN, body.tag, HAMLYN_SEND_BUFFERS))
    }

    fn send_buffer(&mut self, index: u32, tag: u32) -> Result<&mut Option<Area>, Refused> {
        let terminus = open(&mut self.termini, index)?;
        terminus.buffers.get_mut(tag as usize).ok_or(refused(
            HAMLYN_STATUS_BAD_VALUE,
            tag,
            HAMLYN_SEND_BUFFERS - 1,
        ))
    }

    fn open_queue(&mut self, ports: &Ports<'_>, index: u32) -> Result<(), Refused> {
        let body: HamlynOpenQueue = self.body(ports)?;
        vacant(&self.queues, index)?;
        if !(HAMLYN_QUEUE_MIN_ENTRIES..=HAMLYN_QUEUE_MAX_ENTRIES).contains(&body.entries) {
            return Err(refused(HAMLYN_STATUS_BAD_LENGTH, body.entries, HAMLYN_QUEUE_MAX_ENTRIES));
        }
        let sleeper = self.control.of_queue(index, self.check_vector(body.vector)?);
        let area = table(&body.area, body.entries, HAMLYN_NOTIFICATION_SIZE)?;
        self.queues.open(index, Nqcb::new(area, body.entries, sleeper));
        sleeper.disarm(ports.window);
        Ok(())
    }

    /// A vector that may wake somebody: the first is the link's.
    fn check_vector(&self, vector: u32) -> Result<u32, Refused> {
        if vector == HAMLYN_VECTOR_LINK || vector >= self.options.vectors {
            return Err(refused(HAMLYN_STATUS_BAD_VALUE, vector, self.options.vectors - 1));
        }
        Ok(vector)
    }

    fn close_queue(&mut self, index: u32) -> Result<(), Refused> {
        let users = self.slots.all_open().filter(|slot| slot.queue == Some(index)).count();
        if users != 0 {
            return Err(refused(HAMLYN_STATUS_IN_USE, users as u64, 0_u32));
        }
        vacate(&mut self.queues, index).map(drop)
    }

    fn open_slot(&mut self, ports: &Ports<'_>, index: u32) -> Result<(), Refused> {
        let body: HamlynOpenSlot = self.body(ports)?;
        vacant(&self.slots, index)?;
        let mode = Mode::from_abi(body.mode).ok_or(refused(
            HAMLYN_STATUS_BAD_VALUE,
            body.mode,
            HAMLYN_MODE_PARANOID_ONE_SHOT,
        ))?;
        let flags = HAMLYN_SLOT_FLAGS | HAMLYN_SLOT_PRIVILEGED;
        if body.flags & !flags != 0 {
            return Err(refused(HAMLYN_STATUS_BAD_VALUE, body.flags, flags));
        }
        let privileged = privileged(&body)?;
        let queue = (body.queue != HAMLYN_NO_QUEUE).then_some(body.queue);
        if let Some(queue) = queue {
            open(&mut self.queues, queue)?;
        }
        let metadata = match body.metadata_entries {
            0 => None,
            entries => Some((table(&body.metadata, entries, HAMLYN_METADATA_SIZE)?, entries)),
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

    fn read_statistics(&self, ports: &Ports<'_>) -> Result<(), Refused> {
        Ok(write_value(ports.dma, self.body_address(), self.counters.values())?)
    }

    fn test_dma(&self, ports: &Ports<'_>) -> Result<(), Refused> {
        let body: HamlynTestDma = self.body(ports)?;
        if body.length == 0 || body.length > 4096 {
            return Err(refused(HAMLYN_STATUS_BAD_LENGTH, body.length, 4096_u32));
        }
        Ok(copy(ports.dma, &body)?)
    }
}

fn copy(dma: &dyn Dma, test: &HamlynTestDma) -> Result<(), DmaFault> {
    let mut page = [0; 4096];
    let bytes = &mut page[..test.length as usize];
    dma.read(test.from, VolatileSlice::from(&mut *bytes))?;
    dma.write(test.to, VolatileSlice::from(bytes))
}

/// An area that holds `entries` structures of `size` bytes, none of which straddles two pages.
fn table(area: &HamlynArea, entries: u32, size: u32) -> Result<Area, Refused> {
    let checked = Area::check(area)?;
    let needed = u64::from(entries) * u64::from(size);
    if !checked.is_aligned(size.into()) {
        Err(refused(HAMLYN_STATUS_BAD_ADDRESS, area.first, size))
    } else if checked.length() != needed {
        Err(refused(HAMLYN_STATUS_BAD_LENGTH, checked.length(), needed))
    } else {
        Ok(checked)
    }
}

/// The host whose operating system alone may write to the slot, if it is such a slot.
fn privileged(body: &HamlynOpenSlot) -> Result<Option<u16>, Refused> {
    if body.flags & HAMLYN_SLOT_PRIVILEGED == 0 {
        return zero(body.source.into()).map(|()| None);
    }
    let source = u16::try_from(body.source);
    source.map(Some).map_err(|_| refused(HAMLYN_STATUS_BAD_VALUE, body.source, u16::MAX))
}

fn zero(reserved: u64) -> Result<(), Refused> {
    if reserved == 0 { Ok(()) } else { Err(refused(HAMLYN_STATUS_BAD_VALUE, reserved, 0_u32)) }
}

fn entry<T>(table: &mut [Option<T>], index: u32) -> Result<&mut Option<T>, Refused> {
    let size = table.len() as u64;
    table.get_mut(index as usize).ok_or(refused(HAMLYN_STATUS_BAD_INDEX, index, size))
}

fn open<T>(table: &mut [Option<T>], index: u32) -> Result<&mut T, Refused> {
    let size = table.len() as u64;
    entry(table, index)?.as_mut().ok_or(refused(HAMLYN_STATUS_NOT_OPEN, index, size))
}

fn vacant<T>(table: &Table<T>, index: u32) -> Result<(), Refused> {
    let size = table.len() as u64;
    match table.get(index as usize) {
        None => Err(refused(HAMLYN_STATUS_BAD_INDEX, index, size)),
        Some(Some(_)) => Err(refused(HAMLYN_STATUS_IN_USE, index, size)),
        Some(None) => Ok(()),
    }
}

fn vacate<T>(table: &mut Table<T>, index: u32) -> Result<T, Refused> {
    let size = table.len() as u64;
    entry(table, index)?;
    table.close(index).ok_or(refused(HAMLYN_STATUS_NOT_OPEN, index, size))
}
