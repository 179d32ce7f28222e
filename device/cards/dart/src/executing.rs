//! Executes messages that have arrived: in order, each at one moment or not at all (section 3).

use std::ops::Range;

use hamlyn_abi::dart::command::DART_ENTRY_OPERAND;
use hamlyn_abi::dart::connection::DART_BROKEN_MEMORY;
use hamlyn_abi::dart::control::DartControl;
use hamlyn_abi::dart::fifo::{DART_FIFO_ARRIVED, DART_FIFO_QUEUE};
use hamlyn_abi::dart::queue::*;
use hamlyn_abi::dart::statistics::DartStatistic;
use hamlyn_abi::dart::trap::*;
use hamlyn_card::ports::{DmaFault, Ports};
use zerocopy::{FromBytes, IntoBytes};

use crate::DartCard;
use crate::cells::{self, BLOCK, Message};
use crate::connections::{Arrived, answer_length, asked};
use crate::logic::{Executed, Trap, execute};
use crate::opcode::{Call, Main, Opcode};
use crate::packet::{ANSWER, TRAPPED};

/// Number of cells that a card executes in one turn. The rest has another turn at once.
pub const TURN: usize = 2048;
/// Cost of a message beside its cells.
const MESSAGE_COST: usize = 16;

/// Why a message is not done.
pub(crate) enum Pause {
    /// The card has executed enough for one turn.
    Turn,
    /// The message waits for pages.
    Pages,
    /// The message waits for places in a queue.
    Places,
    /// The message waits for answers to leave.
    Answers,
    /// The message has a trap.
    Trap(u32),
}

impl From<DmaFault> for Pause {
    fn from(_: DmaFault) -> Self {
        Pause::Trap(DART_TRAP_NO_MEMORY)
    }
}

impl From<Trap> for Pause {
    fn from(trap: Trap) -> Self {
        Pause::Trap(trap.number())
    }
}

/// The operation of a message, after a CALL has been looked up.
pub(crate) struct Task {
    pub(crate) opcode: Opcode,
    pub(crate) control: DartControl,
    /// The message is the answer to a question of this end.
    pub(crate) is_answer: bool,
}

impl Task {
    /// Returns the number of memory bytes that the message accesses, including those that its mask
    /// deselects.
    fn length(&self, message: &Message) -> usize {
        match self.opcode.main {
            Main::Write | Main::Read => BLOCK,
            Main::WriteMultiple => message.body.len(),
            Main::ReadMultiple => asked(message),
            Main::None | Main::Answer | Main::Call(_) | Main::Exception => 0,
        }
    }
}

impl DartCard {
    /// Executes the messages of a connection, as far as this turn allows.
    pub(super) fn run(&mut self, ports: &Ports<'_>, index: u32) {
        self.stuck.remove(&index);
        while let Some(arrived) = self.next_of(index) {
            let outcome = match self.turn_left {
                0 => Err(Pause::Turn),
                _ => self.attempt(ports, index, &arrived),
            };
            let outcome = match outcome {
                Err(Pause::Trap(trap)) => self.trap(ports, index, &arrived, trap),
                outcome => outcome,
            };
            let cost =
                MESSAGE_COST + arrived.cells() + answer_length(&arrived.message).map_or(0, cells::cells);
            self.turn_left = self.turn_left.saturating_sub(cost);
            // A message that waits for a page or for answers must not block the waiters behind it.
            if !matches!(outcome, Err(Pause::Places | Pause::Turn)) {
                self.leave_queue(index);
            }
            let Some(connection) = self.connections.get_mut(index as usize).and_then(Option::as_mut) else {
                return;
            };
            if let Err(pause) = outcome {
                connection.receiving.waiting.push_front(arrived);
                match pause {
                    Pause::Places | Pause::Answers => drop(self.stuck.insert(index)),
                    Pause::Turn if !self.busy.contains(&index) => self.busy.push_back(index),
                    _ => {}
                }
                return;
            }
            let cells = arrived.cells();
            connection.receiving.wait.clear();
            if arrived.is_answer {
                connection.sending.on_their_way -= cells as u32;
            } else {
                connection.receiving.cells -= cells;
                connection.receiving.done = connection.receiving.done.wrapping_add(cells as u32);
            }
            self.stir(index);
        }
    }

    /// Removes a connection from the waiters of its queue, and wakes the next waiter.
    pub(super) fn leave_queue(&mut self, index: u32) {
        let next = self.waiters.leave(index);
        self.serve(next);
    }

    /// Retries a waiter that became the first of its queue.
    fn serve(&mut self, next: Option<u32>) {
        if let Some(next) = next.filter(|next| self.stuck.remove(next)) {
            self.busy.push_back(next);
        }
    }

    /// Continues with connections whose messages had no turn left.
    pub(super) fn run_busy(&mut self, ports: &Ports<'_>) {
        while self.turn_left > 0 {
            let Some(index) = self.busy.pop_front() else { return };
            self.run(ports, index);
            self.stir(index);
            // Pages that were found before may have been taken back meanwhile.
            self.ask_again(ports, index);
        }
    }

    /// Executes a message that must not wait. Returns `false` if it would have to wait, or has a
    /// trap.
    pub(super) fn execute_now(&mut self, ports: &Ports<'_>, index: u32, message: Message) -> bool {
        let outcome = self.attempt(ports, index, &Arrived { message, is_answer: false });
        if let Some(Some(connection)) = self.connections.get_mut(index as usize) {
            connection.receiving.wait.clear();
        }
        outcome.is_ok()
    }

    fn next_of(&mut self, index: u32) -> Option<Arrived> {
        self.connections.get_mut(index as usize)?.as_mut()?.receiving.waiting.pop_front()
    }

    fn attempt(&mut self, ports: &Ports<'_>, index: u32, arrived: &Arrived) -> Result<(), Pause> {
        let task = self.task(index, arrived)?;
        if task.opcode.main == Main::Exception {
            // A connection whose owner wants no exceptions has no software for them, so the sender
            // gets a trap.
            if !self.takes_exceptions(index) {
                return Err(Pause::Trap(DART_TRAP_UNIMPLEMENTED));
            }
            self.except(ports, index, &arrived.message, DART_RECORD_EXCEPTION)?;
            self.count(DartStatistic::Exceptions);
            return Ok(());
        }
        let window = self.window(index);
        let executed = execute(&task.opcode, &task.control, &self.registers[window])?;
        let message = &arrived.message;
        // A message with a trap does not wait for room, because it reports only the trap.
        let access = self.place(ports, index, &task, (executed.address, task.length(message)))?;
        self.has_room(ports, index, &task, &executed)?;
        match (task.opcode.main, &access) {
            (Main::Write, Some(access)) => self.deposit(ports, access, &message.block)?,
            (Main::WriteMultiple, Some(access)) => self.deposit(ports, access, &message.body)?,
            (Main::Read, Some(access)) => {
                let mut block = [0; BLOCK];
                block.copy_from_slice(&self.fetch(ports, access)?);
                self.answer(index, message, block, Vec::new());
            }
            (Main::ReadMultiple, Some(access)) => {
                let body = self.fetch(ports, access)?;
                self.answer(index, message, [0; BLOCK], body);
            }
            (Main::Answer, _) => {
                let mut block = [0; BLOCK];
                block[..16].copy_from_slice(executed.answer.as_bytes());
                self.answer(index, message, block, Vec::new());
            }
            _ => {}
        }
        self.commit(index, &task, &executed);
        if executed.event {
            let queue = self.connections.get(index as usize).and_then(Option::as_ref);
            let queue = queue.and_then(|connection| connection.events);
            self.write_record(ports, queue, (index, &arrived.message), DART_RECORD_COMPARED, &[]);
        }
        Ok(())
    }

    /// Returns the operation of a message. Fails with a trap if the card has no such operation.
    fn task(&self, index: u32, arrived: &Arrived) -> Result<Task, Pause> {
        let message = &arrived.message;
        let unimplemented = Pause::Trap(DART_TRAP_UNIMPLEMENTED);
        let decoded = Opcode::decode(message.control.opcode);
        let own =
            decoded.map(|opcode| Task { opcode, control: message.control, is_answer: arrived.is_answer });
        let task = own.and_then(|task| match task.opcode.main {
            Main::Call(call) => self.called(index, call, task),
            _ => Some(task),
        });
        let Some(task) = task else { return Err(unimplemented) };
        let main = task.opcode.main;
        // The credits for an answer are paid with the question, so each answer must be as long as
        // the question requests.
        let answer = match main {
            _ if !main.is_answered() => None,
            Main::ReadMultiple => Some(asked(message)),
            _ => Some(0),
        };
        let paid = answer_length(message).filter(|_| !arrived.is_answer);
        let is_long = !message.body.is_empty() && !matches!(main, Main::WriteMultiple | Main::Exception);
        if answer != paid || is_long { Err(unimplemented) } else { Ok(task) }
    }

    /// Returns what an entry of a connection's program makes of a CALL.
    fn called(&self, index: u32, call: Call, mut task: Task) -> Option<Task> {
        let program = self.connections.get(index as usize)?.as_ref()?.program.clone();
        let number =
            call.entry.map_or(usize::try_from(task.control.operand).ok(), |entry| Some(entry.into()));
        let entry = self.program.get(program)?.get(number?)?;
        let is_senders = entry.flags & DART_ENTRY_OPERAND != 0;
        if is_senders && call.entry.is_none() {
            return None;
        }
        task.control.opcode = entry.opcode;
        if !is_senders {
            task.control.operand = entry.operand;
        }
        task.opcode = Opcode::decode(entry.opcode).filter(|opcode| !matches!(opcode.main, Main::Call(_)))?;
        Some(task)
    }

    fn window(&self, index: u32) -> Range<usize> {
        let connection = self.connections.get(index as usize).and_then(Option::as_ref);
        connection.map_or(0..0, |connection| connection.window.clone())
    }

    /// Checks that there is room for what a message produces.
    fn has_room(
        &mut self,
        ports: &Ports<'_>,
        index: u32,
        task: &Task,
        executed: &Executed,
    ) -> Result<(), Pause> {
        let Some(Some(connection)) = self.connections.get(index as usize) else { return Ok(()) };
        if task.opcode.main.is_answered() && !connection.takes_replies(self.options.window) {
            return Err(Pause::Answers);
        }
        if !executed.event {
            return Ok(());
        }
        let Some(queue) = connection.events else { return Ok(()) };
        self.queue_has_room(ports, index, (queue, 0))
    }

    /// Checks that a queue has room for a record and `parts` behind it, and that no other
    /// connection waits there since earlier.
    fn queue_has_room(
        &mut self,
        ports: &Ports<'_>,
        index: u32,
        (number, parts): (u32, u32),
    ) -> Result<(), Pause> {
        let Some(Some(queue)) = self.queues.get(number as usize) else { return Ok(()) };
        // A queue whose memory is gone has lost its records through its owner's fault. Messages of
        // operating systems do not wait, so they are not among the waiters.
        let is_system = self
            .connections
            .get(index as usize)
            .and_then(Option::as_ref)
            .is_some_and(|connection| connection.is_system);
        let is_next = is_system || self.waiters.is_first(number, index);
        if is_next && queue.has_room(ports.dma, parts).unwrap_or(true) {
            return Ok(());
        }
        if !is_system {
            let next = self.waiters.join(number, index);
            self.serve(next);
        }
        self.count(DartStatistic::QueueWaits);
        Err(Pause::Places)
    }

    /// Queues the answer, whose operation is in the question's data.
    fn answer(&mut self, index: u32, question: &Message, block: [u8; BLOCK], body: Vec<u8>) {
        let Some(Some(connection)) = self.connections.get_mut(index as usize) else { return };
        let control = DartControl::read_from_prefix(&question.block).map(|(control, _)| control);
        connection.reply(ANSWER, Message { control: control.unwrap_or_default(), block, body });
    }

    /// Changes the registers, after everything that can fail.
    fn commit(&mut self, index: u32, task: &Task, executed: &Executed) {
        let start = self.window(index).start;
        for written in executed.written.into_iter().flatten() {
            if let Some(register) = self.registers.get_mut(start + usize::from(written.index)) {
                *register = written.value;
            }
        }
        self.count(DartStatistic::Executed);
        self.counters.add(DartStatistic::Primitives, task.opcode.primitives());
    }

    /// Handles a trap of a message: reports it to the software and to the sender.
    fn trap(&mut self, ports: &Ports<'_>, index: u32, arrived: &Arrived, trap: u32) -> Result<(), Pause> {
        let connection = self.connections.get(index as usize).and_then(Option::as_ref);
        let is_full = connection.is_some_and(|connection| !connection.takes_replies(self.options.window));
        if is_full && !arrived.is_answer {
            return Err(Pause::Answers);
        }
        self.except(ports, index, &arrived.message, DART_RECORD_TRAP + trap)?;
        self.report(ports, index, arrived.message.control.opcode, trap);
        self.count(match trap {
            DART_TRAP_UNIMPLEMENTED => DartStatistic::TrapsUnimplemented,
            DART_TRAP_INDEX => DartStatistic::TrapsIndex,
            DART_TRAP_REFUSED => DartStatistic::TrapsRefused,
            DART_TRAP_RIGHT => DartStatistic::TrapsRight,
            DART_TRAP_MISALIGNED => DartStatistic::TrapsMisaligned,
            DART_TRAP_BOUNDS => DartStatistic::TrapsBounds,
            _ => DartStatistic::TrapsNoMemory,
        });
        let Some(Some(connection)) = self.connections.get_mut(index as usize) else { return Ok(()) };
        let Message { control, block, .. } = arrived.message;
        if arrived.is_answer {
            let told = connection.trapped(ports.dma, trap, control.opcode);
            self.note(ports, index, told);
        } else {
            connection.reply(TRAPPED + trap, Message { control, block, body: Vec::new() });
        }
        Ok(())
    }

    fn takes_exceptions(&self, index: u32) -> bool {
        let connection = self.connections.get(index as usize).and_then(Option::as_ref);
        connection.is_some_and(|connection| connection.exceptions.is_some())
    }

    /// Reports a message with all of its data to the software, as soon as its queue has room.
    fn except(&mut self, ports: &Ports<'_>, index: u32, message: &Message, kind: u32) -> Result<(), Pause> {
        let connection = self.connections.get(index as usize).and_then(Option::as_ref);
        let number = connection.and_then(|connection| connection.exceptions);
        let queue = number.and_then(|number| self.queues.get(number as usize)?.as_ref());
        let (Some(number), Some(queue)) = (number, queue) else { return Ok(()) };
        let rest = message.behind_block();
        let parts = DartPart::count(message.body.len() as u32);
        // A queue that can never hold the data gets only the record, with a flag for that.
        let (kind, rest, parts) =
            if queue.holds(parts) { (kind, rest, parts) } else { (kind | DART_RECORD_CUT, &[][..], 0) };
        self.queue_has_room(ports, index, (number, parts))?;
        self.write_record(ports, Some(number), (index, message), kind, rest);
        Ok(())
    }

    /// Interrupts the host for a trap that no queue takes.
    fn report(&mut self, ports: &Ports<'_>, index: u32, opcode: u32, trap: u32) {
        let Some(Some(connection)) = self.connections.get_mut(index as usize) else { return };
        if connection.exceptions.is_some() {
            return;
        }
        let told = connection.excepted(ports.dma, trap, opcode);
        self.note(ports, index, told);
        self.tell(ports, DART_FIFO_ARRIVED | index);
    }

    /// Writes a record of a connection's message to a queue, if there is one.
    fn write_record(
        &mut self,
        ports: &Ports<'_>,
        queue: Option<u32>,
        (connection, message): (u32, &Message),
        kind: u32,
        parts: &[u8],
    ) {
        let Some(number) = queue else { return };
        let Some(Some(queue)) = self.queues.get_mut(number as usize) else { return };
        let data = zerocopy::transmute!(message.block);
        let length = message.body.len() as u32;
        let record = DartRecord { control: message.control, data, length, connection, kind, number: 0 };
        // Only the owner is affected if a queue's memory is gone.
        let Ok(is_awaited) = queue.write(ports.dma, record, parts) else { return };
        self.count(DartStatistic::Records);
        if is_awaited {
            self.tell(ports, DART_FIFO_QUEUE | number);
        }
    }

    /// Breaks a connection if its state could not be written to its owner's memory: it is then
    /// useless.
    pub(super) fn note(&mut self, ports: &Ports<'_>, index: u32, told: Result<(), DmaFault>) {
        if told.is_err() {
            self.break_off(ports, index, DART_BROKEN_MEMORY);
        }
    }
}
