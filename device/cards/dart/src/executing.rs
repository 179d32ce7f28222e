//! Messages that have arrived: executed in their order, at one moment each, or not at all (section 3).

use std::ops::Range;

use hamlyn_abi::dart::connection::DART_BROKEN_MEMORY;
use hamlyn_abi::dart::control::DartControl;
use hamlyn_abi::dart::fifo::{DART_FIFO_MISSES, DART_FIFO_QUEUE};
use hamlyn_abi::dart::queue::*;
use hamlyn_abi::dart::statistics::DartStatistic;
use hamlyn_abi::dart::trap::*;
use hamlyn_card::ports::{DmaFault, Ports, VolatileSlice};
use zerocopy::{FromBytes, IntoBytes};

use crate::DartCard;
use crate::blocks::runs;
use crate::cells::{BLOCK, Message};
use crate::connections::{Arrived, answer_cells, asked};
use crate::endpoints::{Absent, Piece};
use crate::logic::{Executed, Trap, execute};
use crate::opcode::{Main, Opcode};
use crate::packet::{ANSWER, TRAPPED};

/// Why a message is not done with.
enum Pause {
    /// It waits for pages.
    Pages,
    /// It waits for a place in a queue, or for answers to leave.
    Room,
    /// It has a trap.
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

/// What a message is to do, once a CALL is looked up.
struct Task {
    opcode: Opcode,
    control: DartControl,
}

impl Task {
    /// Bytes of memory that it is about, those that its mask deselects among them.
    fn length(&self, message: &Message) -> usize {
        match self.opcode.main {
            Main::Write | Main::Read => BLOCK,
            Main::WriteMultiple => message.body.len(),
            Main::ReadMultiple => asked(message),
            Main::None | Main::Answer | Main::Call | Main::Exception => 0,
        }
    }
}

impl DartCard {
    /// Executes what a connection has, as far as it goes.
    pub(super) fn run(&mut self, ports: &Ports<'_>, index: u32) {
        self.stuck.remove(&index);
        while let Some(arrived) = self.next_of(index) {
            let outcome = match self.attempt(ports, index, &arrived) {
                Err(Pause::Trap(trap)) => self.trap(ports, index, &arrived, trap),
                outcome => outcome,
            };
            let Some(connection) = self.connections.get_mut(index as usize).and_then(Option::as_mut) else {
                return;
            };
            if let Err(pause) = outcome {
                connection.receiving.waiting.push_front(arrived);
                if matches!(pause, Pause::Room) {
                    self.stuck.insert(index);
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

    /// Executes a message that nobody waits for. False: it had to be, or has a trap.
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
            // A connection whose owner wants no exceptions has no software for them, and the sender hears of it.
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
        let selected = runs(task.control.mask, task.length(message));
        // What has a trap waits for no room: it has nothing to tell but that.
        let pieces = self.place(ports, index, &task, executed.address, &selected)?;
        self.has_room(ports, index, &task, &executed)?;
        match task.opcode.main {
            Main::Write => self.write(ports, &pieces, &selected, &message.block)?,
            Main::WriteMultiple => self.write(ports, &pieces, &selected, &message.body)?,
            Main::Read => {
                let mut block = [0; BLOCK];
                self.read(ports, &pieces, &selected, &mut block)?;
                self.answer(index, message, block, Vec::new());
            }
            Main::ReadMultiple => {
                let mut body = vec![0; task.length(message)];
                self.read(ports, &pieces, &selected, &mut body)?;
                self.answer(index, message, [0; BLOCK], body);
            }
            Main::Answer => {
                let mut block = [0; BLOCK];
                block[..16].copy_from_slice(executed.answer.as_bytes());
                self.answer(index, message, block, Vec::new());
            }
            Main::None | Main::Call | Main::Exception => {}
        }
        self.commit(index, &task, &executed);
        if executed.event {
            let queue = self.connections.get(index as usize).and_then(Option::as_ref);
            let queue = queue.and_then(|connection| connection.events);
            self.write_record(ports, queue, (index, &arrived.message), DART_RECORD_COMPARED);
        }
        Ok(())
    }

    /// What a message is to do.
    fn task(&self, index: u32, arrived: &Arrived) -> Result<Task, Pause> {
        let mut control = arrived.message.control;
        let unimplemented = Pause::Trap(DART_TRAP_UNIMPLEMENTED);
        let Some(mut opcode) = Opcode::decode(control.opcode) else { return Err(unimplemented) };
        if opcode.main == Main::Call {
            let program = self.connections.get(index as usize).and_then(Option::as_ref);
            let program = program.map_or(0..0, |connection| connection.program.clone());
            let entry = usize::try_from(control.operand).ok().filter(|entry| *entry < program.len());
            let Some(entry) = entry.and_then(|entry| self.program.get(program.start + entry)) else {
                return Err(unimplemented);
            };
            (control.opcode, control.operand) = (entry.opcode, entry.operand);
            match Opcode::decode(control.opcode).filter(|opcode| opcode.main != Main::Call) {
                Some(called) => opcode = called,
                None => return Err(unimplemented),
            }
        }
        let asks = matches!(opcode.main, Main::Read | Main::ReadMultiple | Main::Answer);
        // An answer's credits are paid by who asks, so what is called must be as long as what the caller has paid for.
        let is_unpaid = asks && (arrived.is_answer || answer_cells(&arrived.message) == 0);
        let is_long = !arrived.message.body.is_empty() && opcode.main != Main::WriteMultiple;
        if is_unpaid || is_long { Err(unimplemented) } else { Ok(Task { opcode, control }) }
    }

    fn window(&self, index: u32) -> Range<usize> {
        let connection = self.connections.get(index as usize).and_then(Option::as_ref);
        connection.map_or(0..0, |connection| connection.window.clone())
    }

    /// Whether what a message makes has a place to go to.
    fn has_room(
        &mut self,
        ports: &Ports<'_>,
        index: u32,
        task: &Task,
        executed: &Executed,
    ) -> Result<(), Pause> {
        let Some(Some(connection)) = self.connections.get(index as usize) else { return Ok(()) };
        let asks = matches!(task.opcode.main, Main::Read | Main::ReadMultiple | Main::Answer);
        if asks && !connection.takes_replies(self.options.window) {
            return Err(Pause::Room);
        }
        if !executed.event {
            return Ok(());
        }
        let Some(queue) = connection.events else { return Ok(()) };
        self.queue_has_room(ports, queue)
    }

    fn queue_has_room(&mut self, ports: &Ports<'_>, queue: u32) -> Result<(), Pause> {
        let Some(Some(queue)) = self.queues.get(queue as usize) else { return Ok(()) };
        // A queue whose memory is gone has lost its records by its owner's doing.
        if queue.has_room(ports.dma).unwrap_or(true) {
            return Ok(());
        }
        self.count(DartStatistic::QueueWaits);
        Err(Pause::Room)
    }

    /// Where the runs of a message's bytes are, if it uses memory; all checks have been done when this succeeds.
    fn place(
        &mut self,
        ports: &Ports<'_>,
        index: u32,
        task: &Task,
        address: u64,
        bytes: &[Range<usize>],
    ) -> Result<Vec<Piece>, Pause> {
        if !task.opcode.main.has_address() {
            return Ok(Vec::new());
        }
        let writes = matches!(task.opcode.main, Main::Write | Main::WriteMultiple);
        let Some(Some(connection)) = self.connections.get_mut(index as usize) else {
            return Err(Pause::Pages);
        };
        let allowed = if writes { connection.may_write } else { connection.may_read };
        if !allowed {
            return Err(Pause::Trap(DART_TRAP_RIGHT));
        }
        if address % 4 != 0 {
            return Err(Pause::Trap(DART_TRAP_MISALIGNED));
        }
        let Some(Some(endpoint)) = self.endpoints.get(connection.endpoint as usize) else {
            return Err(Pause::Pages);
        };
        let part = connection.part();
        let inside = |run: &Range<usize>| {
            let (start, length) = (address.checked_add(run.start as u64), run.len() as u64);
            start.is_some_and(|start| endpoint.contains(start, length) && holds(&part, start, length))
        };
        if !bytes.iter().all(inside) {
            return Err(Pause::Trap(DART_TRAP_BOUNDS));
        }
        // The registers may have changed since, and with them the pages that it needs.
        let whole = bytes
            .first()
            .zip(bytes.last())
            .map_or(0..0, |(first, last)| address + first.start as u64..address + last.end as u64);
        connection.receiving.wait.keep(&endpoint.pages(&whole));
        let (mut pieces, mut missing) = (Vec::new(), None);
        for run in bytes {
            let run = address + run.start as u64..address + run.end as u64;
            match endpoint.find(ports.dma, &mut self.tlb, &mut connection.receiving.wait, run, writes) {
                Ok(found) => pieces.extend(found),
                Err(Absent::NoMemory) => return Err(Pause::Trap(DART_TRAP_NO_MEMORY)),
                Err(Absent::Missing(new)) => missing = Some(missing.unwrap_or(0) + new),
            }
        }
        let Some(new) = missing else { return Ok(pieces) };
        if !connection.is_system {
            self.miss(ports, index, new);
        }
        Err(Pause::Pages)
    }

    /// The driver is to find so many pages more for a connection.
    pub(super) fn miss(&mut self, ports: &Ports<'_>, index: u32, new: u64) {
        if new > 0 {
            self.counters.add(DartStatistic::Misses, new);
            self.tell(ports, DART_FIFO_MISSES | index);
        }
    }

    fn write(
        &mut self,
        ports: &Ports<'_>,
        pieces: &[Piece],
        selected: &[Range<usize>],
        data: &[u8],
    ) -> Result<(), DmaFault> {
        // A frame that the driver named and that there is not is found before the first byte is written.
        if let [_, _, ..] = pieces {
            for piece in pieces {
                ports.dma.lend_to_write(piece.address, piece.length)?;
            }
        }
        let mut bytes = Vec::with_capacity(data.len());
        selected.iter().for_each(|run| bytes.extend_from_slice(&data[run.clone()]));
        let mut rest = &mut bytes[..];
        for piece in pieces {
            let (now, later) = rest.split_at_mut(piece.length);
            ports.dma.write(piece.address, VolatileSlice::from(now))?;
            self.counters.add(DartStatistic::BytesDeposited, piece.length as u64);
            rest = later;
        }
        Ok(())
    }

    fn read(
        &mut self,
        ports: &Ports<'_>,
        pieces: &[Piece],
        selected: &[Range<usize>],
        into: &mut [u8],
    ) -> Result<(), DmaFault> {
        let mut packed = vec![0; selected.iter().map(ExactSizeIterator::len).sum()];
        let mut rest = &mut packed[..];
        for piece in pieces {
            let (now, later) = rest.split_at_mut(piece.length);
            ports.dma.read(piece.address, VolatileSlice::from(now))?;
            rest = later;
        }
        self.counters.add(DartStatistic::BytesRead, packed.len() as u64);
        let mut taken = &packed[..];
        for run in selected {
            let (now, later) = taken.split_at(run.len());
            into[run.clone()].copy_from_slice(now);
            taken = later;
        }
        Ok(())
    }

    /// Answers, as the question's data says.
    fn answer(&mut self, index: u32, question: &Message, block: [u8; BLOCK], body: Vec<u8>) {
        let Some(Some(connection)) = self.connections.get_mut(index as usize) else { return };
        let control = DartControl::read_from_prefix(&question.block).map(|(control, _)| control);
        connection.reply(ANSWER, Message { control: control.unwrap_or_default(), block, body });
    }

    /// Nothing can go wrong any more: registers change.
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

    /// A message has a trap: the software is told, and the sender.
    fn trap(&mut self, ports: &Ports<'_>, index: u32, arrived: &Arrived, trap: u32) -> Result<(), Pause> {
        let connection = self.connections.get(index as usize).and_then(Option::as_ref);
        let is_full = connection.is_some_and(|connection| !connection.takes_replies(self.options.window));
        if is_full && !arrived.is_answer {
            return Err(Pause::Room);
        }
        self.except(ports, index, &arrived.message, DART_RECORD_TRAP + trap)?;
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

    /// Tells the software of a message, as soon as its queue has room.
    fn except(&mut self, ports: &Ports<'_>, index: u32, message: &Message, kind: u32) -> Result<(), Pause> {
        let connection = self.connections.get(index as usize).and_then(Option::as_ref);
        let queue = connection.and_then(|connection| connection.exceptions);
        if let Some(queue) = queue {
            self.queue_has_room(ports, queue)?;
        }
        self.write_record(ports, queue, (index, message), kind);
        Ok(())
    }

    /// Tells a queue, if there is one, of a connection's message.
    fn write_record(
        &mut self,
        ports: &Ports<'_>,
        queue: Option<u32>,
        (connection, message): (u32, &Message),
        kind: u32,
    ) {
        let Some(number) = queue else { return };
        let Some(Some(queue)) = self.queues.get_mut(number as usize) else { return };
        let data = zerocopy::transmute!(message.block);
        let length = message.body.len() as u32;
        let record = DartRecord { control: message.control, data, length, connection, kind, number: 0 };
        // Memory of a queue that is not there is its owner's affair.
        let Ok(is_awaited) = queue.write(ports.dma, record) else { return };
        self.count(DartStatistic::Records);
        if is_awaited {
            self.tell(ports, DART_FIFO_QUEUE | number);
        }
    }

    /// Memory in which a connection's owner is told how it fares is there, or the connection is of no use.
    pub(super) fn note(&mut self, ports: &Ports<'_>, index: u32, told: Result<(), DmaFault>) {
        if told.is_err() {
            self.break_off(ports, index, DART_BROKEN_MEMORY);
        }
    }
}

/// Whether all of these bytes are in a part.
fn holds(part: &Range<u64>, start: u64, length: u64) -> bool {
    part.start <= start && start.checked_add(length).is_some_and(|end| end <= part.end)
}
