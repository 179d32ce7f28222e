//! Executes messages that have arrived: in order, each at one moment or not at all (section 3).

use hamlyn_abi::dart::control::DartControl;
use hamlyn_abi::dart::fifo::DART_FIFO_ARRIVED;
use hamlyn_abi::dart::queue::*;
use hamlyn_abi::dart::statistics::DartStatistic;
use hamlyn_abi::dart::trap::*;
use hamlyn_card::ports::{DmaFault, Ports};
use zerocopy::{FromBytes, IntoBytes};

use crate::access::Access;
use crate::backlog::Backlog;
use crate::cells::{self, BLOCK, Message};
use crate::connections::{Arrived, Connection, answer_length};
use crate::logic::{Executed, execute};
use crate::memory::Memory;
use crate::opcode::Main;
use crate::packet::{ANSWER, TRAPPED};
use crate::task::{Pause, Task};
use crate::telling::Telling;

/// Cost of a message beside its cells.
const MESSAGE_COST: usize = 16;

/// The execution of a connection's messages, and the parts of the card that it needs.
pub(crate) struct Execution<'a> {
    pub(crate) ports: &'a Ports<'a>,
    pub(crate) connection: &'a mut Connection,
    pub(crate) memory: &'a mut Memory,
    pub(crate) backlog: &'a mut Backlog,
    pub(crate) telling: &'a mut Telling,
}

impl Execution<'_> {
    /// Executes the messages of the connection, as far as this turn allows.
    pub(crate) fn run(&mut self) {
        let index = self.connection.number;
        self.backlog.try_now(index);
        while let Some(arrived) = self.connection.receiving.waiting.pop_front() {
            let outcome = match self.backlog.has_turn_left() {
                false => Err(Pause::Turn),
                true => self.attempt(&arrived),
            };
            let outcome = match outcome {
                Err(Pause::Trap(trap)) => self.trap(&arrived, trap),
                outcome => outcome,
            };
            let cost =
                MESSAGE_COST + arrived.cells() + answer_length(&arrived.message).map_or(0, cells::cells);
            self.backlog.spend(cost);
            // A message that waits for a page or for answers must not block the waiters behind it.
            if !matches!(outcome, Err(Pause::Places | Pause::Turn)) {
                self.backlog.leave_queue(index);
            }
            match outcome {
                Ok(()) => {
                    self.connection.done(&arrived);
                    continue;
                }
                Err(Pause::Places | Pause::Answers) => self.backlog.stick(index),
                Err(Pause::Turn) => self.backlog.postpone(index),
                Err(Pause::Pages(_) | Pause::Trap(_)) => {}
            }
            return self.connection.receiving.waiting.push_front(arrived);
        }
    }

    /// Executes a message that must not wait. Returns `false` if it would have to wait, or has a
    /// trap.
    pub(crate) fn execute_now(&mut self, message: Message) -> bool {
        let outcome = self.attempt(&Arrived { message, is_answer: false });
        self.connection.receiving.wait.clear();
        outcome.is_ok()
    }

    fn attempt(&mut self, arrived: &Arrived) -> Result<(), Pause> {
        let task = Task::of(arrived, self.memory, &self.connection.program)?;
        let message = &arrived.message;
        if task.opcode.main == Main::Exception {
            // A connection whose owner wants no exceptions has no software for them, so the sender
            // gets a trap.
            if self.connection.exceptions.is_none() {
                return Err(Pause::Trap(DART_TRAP_UNIMPLEMENTED));
            }
            self.except(message, DART_RECORD_EXCEPTION)?;
            self.telling.count(DartStatistic::Exceptions);
            return Ok(());
        }
        let executed = execute(&task.opcode, &task.control, self.memory.window(&self.connection.window))?;
        // A message with a trap does not wait for room, because it reports only the trap.
        let access = self.place(&task, executed.address, message)?;
        self.has_room(&task, &executed)?;
        match (task.opcode.main, &access) {
            (Main::Write, Some(access)) => self.deposit(access, &message.block)?,
            (Main::WriteMultiple, Some(access)) => self.deposit(access, &message.body)?,
            (Main::Read, Some(access)) => {
                let mut block = [0; BLOCK];
                block.copy_from_slice(&self.fetch(access)?);
                self.answer(message, block, Vec::new());
            }
            (Main::ReadMultiple, Some(access)) => {
                let body = self.fetch(access)?;
                self.answer(message, [0; BLOCK], body);
            }
            (Main::Answer, _) => {
                let mut block = [0; BLOCK];
                block[..16].copy_from_slice(executed.answer.as_bytes());
                self.answer(message, block, Vec::new());
            }
            _ => {}
        }
        self.commit(&task, &executed);
        if let Some(queue) = self.connection.events.filter(|_| executed.event) {
            self.write_record(queue, message, DART_RECORD_COMPARED, &[]);
        }
        Ok(())
    }

    /// Returns the memory that a message accesses. Asks the driver for the pages that it lacks.
    fn place(&mut self, task: &Task, address: u64, message: &Message) -> Result<Option<Access>, Pause> {
        let bytes = (address, task.length(message));
        let found = Access::find(self.ports.dma, self.connection, self.memory, task, bytes);
        if let Err(Pause::Pages(new)) = found {
            self.telling.miss(self.ports, self.connection.number, new);
        }
        found
    }

    fn deposit(&mut self, access: &Access, data: &[u8]) -> Result<(), DmaFault> {
        access.write(self.ports.dma, data)?;
        self.telling.add(DartStatistic::BytesDeposited, access.bytes());
        Ok(())
    }

    fn fetch(&mut self, access: &Access) -> Result<Vec<u8>, DmaFault> {
        let data = access.read(self.ports.dma)?;
        self.telling.add(DartStatistic::BytesRead, access.bytes());
        Ok(data)
    }

    /// Checks that there is room for what a message produces.
    fn has_room(&mut self, task: &Task, executed: &Executed) -> Result<(), Pause> {
        if task.opcode.main.is_answered() && !self.connection.takes_replies() {
            return Err(Pause::Answers);
        }
        match self.connection.events.filter(|_| executed.event) {
            Some(queue) => self.queue_has_room(queue, 0),
            None => Ok(()),
        }
    }

    /// Checks that a queue has room for a record and `parts` behind it, and that no other
    /// connection waits there since earlier.
    fn queue_has_room(&mut self, number: u32, parts: u32) -> Result<(), Pause> {
        let Some(queue) = self.telling.queue(number) else { return Ok(()) };
        // A queue whose memory is gone has lost its records through its owner's fault. Messages of
        // operating systems do not wait, so they are not among the waiters.
        let Connection { number: index, is_system, .. } = *self.connection;
        let is_next = is_system || self.backlog.is_first(number, index);
        if is_next && queue.has_room(self.ports.dma, parts).unwrap_or(true) {
            return Ok(());
        }
        if !is_system {
            self.backlog.join_queue(number, index);
        }
        self.telling.count(DartStatistic::QueueWaits);
        Err(Pause::Places)
    }

    /// Queues the answer, whose operation is in the question's data.
    fn answer(&mut self, question: &Message, block: [u8; BLOCK], body: Vec<u8>) {
        let control = DartControl::read_from_prefix(&question.block).map(|(control, _)| control);
        self.connection.reply(ANSWER, Message { control: control.unwrap_or_default(), block, body });
    }

    /// Changes the registers, after everything that can fail.
    fn commit(&mut self, task: &Task, executed: &Executed) {
        let start = self.connection.window.start;
        for written in executed.written.into_iter().flatten() {
            self.memory.set_register(start + usize::from(written.index), written.value);
        }
        self.telling.count(DartStatistic::Executed);
        self.telling.add(DartStatistic::Primitives, task.opcode.primitives());
    }

    /// Handles a trap of a message: reports it to the software and to the sender.
    fn trap(&mut self, arrived: &Arrived, trap: u32) -> Result<(), Pause> {
        let is_full = !self.connection.takes_replies();
        if is_full && !arrived.is_answer {
            return Err(Pause::Answers);
        }
        let Message { control, block, .. } = arrived.message;
        self.except(&arrived.message, DART_RECORD_TRAP + trap)?;
        self.report(control.opcode, trap);
        self.telling.count(match trap {
            DART_TRAP_UNIMPLEMENTED => DartStatistic::TrapsUnimplemented,
            DART_TRAP_INDEX => DartStatistic::TrapsIndex,
            DART_TRAP_REFUSED => DartStatistic::TrapsRefused,
            DART_TRAP_RIGHT => DartStatistic::TrapsRight,
            DART_TRAP_MISALIGNED => DartStatistic::TrapsMisaligned,
            DART_TRAP_BOUNDS => DartStatistic::TrapsBounds,
            _ => DartStatistic::TrapsNoMemory,
        });
        if arrived.is_answer {
            let told = self.connection.trapped(self.ports.dma, trap, control.opcode);
            self.note(told);
        } else {
            self.connection.reply(TRAPPED + trap, Message { control, block, body: Vec::new() });
        }
        Ok(())
    }

    /// Reports a message with all of its data to the software, as soon as its queue has room.
    fn except(&mut self, message: &Message, kind: u32) -> Result<(), Pause> {
        let number = self.connection.exceptions;
        let queue = number.and_then(|number| self.telling.queue(number));
        let (Some(number), Some(queue)) = (number, queue) else { return Ok(()) };
        let rest = message.behind_block();
        let parts = DartPart::count(message.body.len() as u32);
        // A queue that can never hold the data gets only the record, with a flag for that.
        let (kind, rest, parts) =
            if queue.holds(parts) { (kind, rest, parts) } else { (kind | DART_RECORD_CUT, &[][..], 0) };
        self.queue_has_room(number, parts)?;
        self.write_record(number, message, kind, rest);
        Ok(())
    }

    /// Interrupts the host for a trap that no queue takes.
    fn report(&mut self, opcode: u32, trap: u32) {
        if self.connection.exceptions.is_some() {
            return;
        }
        let told = self.connection.excepted(self.ports.dma, trap, opcode);
        self.note(told);
        self.telling.tell(self.ports, DART_FIFO_ARRIVED | self.connection.number);
    }

    fn write_record(&mut self, queue: u32, message: &Message, kind: u32, parts: &[u8]) {
        self.telling.write_record(self.ports, queue, (self.connection.number, message), kind, parts);
    }

    fn note(&mut self, told: Result<(), DmaFault>) {
        self.connection.note(self.ports, self.backlog, self.telling, told);
    }
}
