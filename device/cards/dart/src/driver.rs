//! Registers and commands of the driver. A command is carried out completely, or refused without
//! any change.

use hamlyn_abi::dart::command::*;
use hamlyn_abi::dart::connection::DART_BROKEN_LINK;
use hamlyn_abi::dart::fifo::*;
use hamlyn_abi::dart::registers::*;
use hamlyn_abi::dart::statistics::DartStatistic;
use hamlyn_abi::family::command::*;
use hamlyn_card::card::Card;
use hamlyn_card::chassis::Written;
use hamlyn_card::chassis::refusal::Refusal;
use hamlyn_card::ports::Ports;
use zerocopy::FromZeros;

use crate::DartCard;
use crate::connections::{Connection, Peer};
use crate::endpoints::{Endpoint, PAGE};
use crate::queues::Queue;

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
        let (number, known) = (value as u32, (value >> 32) as u32);
        match (offset, width) {
            (DART_REG_FIFO_TAKEN, _) => {
                // Only the driver is affected if the FIFO's memory is gone.
                let _ = self.fifo.taken(ports.dma, number);
                self.interrupt(ports);
            }
            (DART_REG_ARM, 8) => {
                let queue = self.queues.get_mut(number as usize).and_then(Option::as_mut);
                if queue.is_some_and(|queue| queue.arm(known)) {
                    self.tell(ports, DART_FIFO_QUEUE | number);
                }
            }
            (DART_REG_ARM_LEFT, 8) => {
                let connection = self.connections.get_mut(number as usize).and_then(Option::as_mut);
                if connection.is_some_and(|connection| connection.arm(known)) {
                    self.tell(ports, DART_FIFO_LEFT | number);
                }
            }
            (DART_REG_TLB_SPACE, 8) => self.told.space = number,
            (DART_REG_TLB_PAGE, 8) => self.told.page = value / PAGE,
            (DART_REG_TLB_FILL, 8) => self.fill(ports, value),
            (DART_REG_TLB_INVALIDATE, 8) => self.invalidate(value),
            _ => tracing::debug!(offset, value, "a store to no register"),
        }
    }

    fn run_command(&mut self, ports: &Ports<'_>) {
        let command = self.chassis.command.take(ports.dma);
        let result = command.map(|command| (command, self.execute(ports, &command)));
        let done = matches!(result, Some((_, Ok(()))));
        self.count(if done { DartStatistic::Commands } else { DartStatistic::CommandsRefused });
        if let Some((command, result)) = result {
            self.chassis.command.answer(ports.dma, command, result);
        }
    }

    fn execute(&mut self, ports: &Ports<'_>, command: &HamlynCommand) -> Result<(), Refusal> {
        let (page, index) = (self.chassis.command, command.index);
        match command.opcode {
            DART_COMMAND_OPEN_ENDPOINT => {
                self.endpoints.check_vacant(index)?;
                self.endpoints.open(index, Endpoint::open(&page.body(ports.dma)?)?);
                Ok(())
            }
            DART_COMMAND_CLOSE_ENDPOINT => {
                let connections = self.endpoints.opened(index)?.connections;
                if connections > 0 {
                    return Err(Refusal::new(HAMLYN_STATUS_IN_USE, connections, 0_u32));
                }
                self.endpoints.vacate(index).map(drop)
            }
            DART_COMMAND_OPEN_CONNECTION => self.open_connection(ports, index, &page.body(ports.dma)?),
            DART_COMMAND_CLOSE_CONNECTION => self.close_connection(index),
            DART_COMMAND_CONNECT => self.connect(index, &page.body(ports.dma)?),
            DART_COMMAND_OPEN_QUEUE => {
                self.queues.check_vacant(index)?;
                self.queues.open(index, Queue::open(&page.body(ports.dma)?)?);
                Ok(())
            }
            DART_COMMAND_CLOSE_QUEUE => self.close_queue(ports, index),
            DART_COMMAND_OPEN_FIFO => {
                let body: DartOpenFifo = page.body(ports.dma)?;
                Refusal::unless_zero(body.reserved.into())?;
                let least = 3 * self.options.connections + self.options.queues;
                self.fifo.open(&body.area, body.records, least..=DART_MAX_FIFO)
            }
            DART_COMMAND_CLOSE_FIFO => {
                self.fifo.close();
                Ok(())
            }
            DART_COMMAND_READ_MISSES => {
                let misses = self.misses(index)?;
                page.write_body(ports.dma, misses)
            }
            DART_COMMAND_SET_REGISTERS => self.set_registers(index, &page.body(ports.dma)?),
            DART_COMMAND_SET_PROGRAM => self.set_program(index, &page.body(ports.dma)?),
            DART_COMMAND_BREAK => self.break_connection(ports, index, &page.body(ports.dma)?),
            HAMLYN_COMMAND_READ_STATISTICS => page.write_counters(ports.dma, self.counters.values()),
            HAMLYN_COMMAND_TEST_DMA => page.test_dma(ports.dma),
            opcode => Err(Refusal::new(HAMLYN_STATUS_BAD_OPCODE, opcode, DART_COMMAND_BREAK)),
        }
    }

    fn open_connection(
        &mut self,
        ports: &Ports<'_>,
        index: u32,
        body: &DartOpenConnection,
    ) -> Result<(), Refusal> {
        self.connections.check_vacant(index)?;
        for queue in [body.events, body.exceptions] {
            if queue != DART_NO_QUEUE {
                self.queues.opened(queue)?;
            }
        }
        let endpoint = self.endpoints.opened(body.endpoint)?;
        let connection = Connection::open(body, &self.options)?;
        endpoint.connections += 1;
        self.connections.open(index, connection);
        if self.here.is_none() {
            self.break_off(ports, index, DART_BROKEN_LINK);
        }
        Ok(())
    }

    fn close_connection(&mut self, index: u32) -> Result<(), Refusal> {
        let closed = self.connections.vacate(index)?;
        self.endpoints.opened(closed.endpoint)?.connections -= 1;
        self.stuck.remove(&index);
        self.leave_queue(index);
        self.busy.retain(|other| *other != index);
        self.stopped.remove(&index);
        if self.in_turn.remove(&index) {
            self.turns.retain(|other| *other != index);
        }
        Ok(())
    }

    fn connect(&mut self, index: u32, body: &DartConnect) -> Result<(), Refusal> {
        Refusal::unless_zero(body.reserved.into())?;
        let limit = crate::cells::CONNECTIONS;
        let connection = self.connections.opened(index)?;
        if body.peer >= limit {
            return Err(Refusal::new(HAMLYN_STATUS_BAD_INDEX, body.peer, limit));
        }
        if connection.is_system {
            return Err(Refusal::new(HAMLYN_STATUS_IN_USE, body.peer, limit));
        }
        if let Some(peer) = connection.peer {
            return Err(Refusal::new(HAMLYN_STATUS_IN_USE, peer.number, limit));
        }
        connection.peer = Some(Peer { number: body.peer, key: body.key });
        self.stir(index);
        Ok(())
    }

    fn break_connection(&mut self, ports: &Ports<'_>, index: u32, body: &DartBreak) -> Result<(), Refusal> {
        Refusal::unless_zero(body.reserved.into())?;
        let connection = self.connections.opened(index)?;
        if connection.is_system {
            return Err(Refusal::new(HAMLYN_STATUS_IN_USE, body.why, 0_u32));
        }
        if body.why == 0 {
            return Err(Refusal::new(HAMLYN_STATUS_BAD_VALUE, body.why, 1_u32));
        }
        self.break_off(ports, index, body.why);
        Ok(())
    }

    fn close_queue(&mut self, ports: &Ports<'_>, index: u32) -> Result<(), Refusal> {
        self.queues.vacate(index)?;
        self.waiters.close(index);
        for connection in self.connections.iter_mut().flatten() {
            for queue in [&mut connection.events, &mut connection.exceptions] {
                *queue = queue.filter(|queue| *queue != index);
            }
        }
        // Messages that waited for room there continue.
        self.go_on(ports);
        Ok(())
    }

    /// Returns the pages that a connection waits for.
    fn misses(&mut self, index: u32) -> Result<DartMisses, Refusal> {
        let connection = self.connections.opened(index)?;
        let endpoint = self.endpoints.opened(connection.endpoint)?;
        let mut misses = DartMisses::new_zeroed();
        misses.space = endpoint.space().unwrap_or_default();
        let waits = [&connection.receiving.wait, &connection.sending.wait];
        let missing = waits.into_iter().flat_map(|wait| &wait.missing);
        for ((number, writes), place) in missing.zip(&mut misses.pages) {
            *place = (number * PAGE) | if *writes { DART_PAGE_WRITES } else { 0 };
            misses.count += 1;
        }
        Ok(misses)
    }

    fn set_registers(&mut self, first: u32, body: &DartValues) -> Result<(), Refusal> {
        Refusal::unless_zero(body.reserved.into())?;
        let count = checked_count(body.count, DART_MAX_VALUES)?;
        let limit = self.options.registers;
        let places = self.registers.get_mut(first as usize..).and_then(|places| places.get_mut(..count));
        let places = places.ok_or(Refusal::new(HAMLYN_STATUS_BAD_INDEX, first, limit))?;
        places.copy_from_slice(&body.values[..count]);
        Ok(())
    }

    fn set_program(&mut self, first: u32, body: &DartProgram) -> Result<(), Refusal> {
        Refusal::unless_zero(body.reserved.into())?;
        let count = checked_count(body.count, DART_MAX_VALUES)?;
        let entries = &body.entries[..count];
        entries.iter().try_for_each(checked_entry)?;
        let limit = self.options.program;
        let places = self.program.get_mut(first as usize..).and_then(|places| places.get_mut(..count));
        places.ok_or(Refusal::new(HAMLYN_STATUS_BAD_INDEX, first, limit))?.copy_from_slice(entries);
        Ok(())
    }
}

fn checked_entry(entry: &DartEntry) -> Result<(), Refusal> {
    match entry.flags {
        0 => Ok(()),
        DART_ENTRY_OPERAND => Refusal::unless_zero(entry.operand),
        flags => Err(Refusal::new(HAMLYN_STATUS_BAD_VALUE, flags, DART_ENTRY_OPERAND)),
    }
}

fn checked_count(count: u32, limit: u32) -> Result<usize, Refusal> {
    if (1..=limit).contains(&count) {
        Ok(count as usize)
    } else {
        Err(Refusal::new(HAMLYN_STATUS_BAD_LENGTH, count, limit))
    }
}
