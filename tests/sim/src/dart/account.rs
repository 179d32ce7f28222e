//! The account of a card: what it was told and what it has taken in. All that the card does is
//! settled with it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hamlyn_abi::dart::command::*;
use hamlyn_abi::dart::connection::*;
use hamlyn_abi::dart::fifo::*;
use hamlyn_abi::dart::queue::*;
use hamlyn_abi::dart::registers::*;
use hamlyn_abi::dart::statistics::DartStatistic as Counter;
use hamlyn_card::ports::{Packet, VolatileSlice};

use crate::engine::memory::PAGE;
use crate::engine::rng::Rng;
use crate::engine::violation::{Violation, ensure};

use super::calling::Entry;
use super::effects::{BARRIER, COMPARE_AND_SWAP, FETCH_AND_INCREMENT, Outcome, outcome};
use super::end::{End, Fate, Send};
use super::explaining::{Explanation, explain};
use super::machine::Machine;
use super::notices::Notices;
use super::packet::{ANSWER, Letter};
use super::pages::Pages;
use super::queue::Queue;
use super::trial::{COUNTED, Facts, Step, Waits};

/// Counters for the report. Critical when messages contend are fetch-and-increments, successful
/// compare-and-swaps, and complete barriers.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Tally {
    pub(super) executed: u64,
    pub(super) fetched: u64,
    pub(super) swapped: u64,
    pub(super) gathered: u64,
    /// Packets that the host sent to itself.
    pub(super) looped: u64,
    pub(super) packets: u64,
    pub(super) fills: u64,
    pub(super) taken_back: u64,
    pub(super) records: u64,
    pub(super) told: u64,
}

impl Tally {
    fn add(&mut self, Step { opcode, reply, event, .. }: &Step) {
        let answer = reply.as_ref().filter(|(kind, _)| *kind == ANSWER).map(|(_, message)| message.block);
        let has_changed = answer.is_some_and(|block| block[..8] != block[8..16]);
        match *opcode {
            FETCH_AND_INCREMENT => self.fetched += u64::from(has_changed),
            COMPARE_AND_SWAP => self.swapped += u64::from(has_changed),
            BARRIER => self.gathered += u64::from(*event),
            _ => {}
        }
    }
}

/// The account of a card.
#[derive(Debug)]
pub(super) struct Account {
    machine: Arc<Machine>,
    registers: Vec<u64>,
    program: Vec<Entry>,
    ends: BTreeMap<u32, End>,
    queues: BTreeMap<u32, Queue>,
    pub(super) pages: Pages,
    notices: Notices,
    /// Connections whose misses the driver is about to serve.
    pub(super) missing: BTreeSet<u32>,
    waits: Waits,
    /// The last values of the counters.
    counters: Vec<u64>,
    /// Number of calls of the card when all its effects were last explained.
    calls: u64,
    pub(super) tally: Tally,
}

impl Account {
    pub(super) fn new(machine: Arc<Machine>, hosts: u16) -> Self {
        Self {
            registers: Vec::new(),
            program: Vec::new(),
            ends: BTreeMap::new(),
            queues: BTreeMap::new(),
            pages: Pages::new(machine.clone(), hosts),
            notices: Notices::default(),
            missing: BTreeSet::new(),
            waits: Waits::default(),
            counters: Vec::new(),
            calls: 0,
            tally: Tally::default(),
            machine,
        }
    }

    pub(super) fn machine(&self) -> Arc<Machine> {
        self.machine.clone()
    }

    pub(super) fn end(&self, index: u32) -> Option<&End> {
        self.ends.get(&index)
    }

    /// Returns the number of a random connection.
    pub(super) fn some_index(&self, rng: &mut Rng) -> Option<u32> {
        let ends: Vec<u32> = self.ends.keys().copied().collect();
        rng.pick(&ends)
    }

    /// Forgets all that the card was told, after a reset.
    pub(super) fn reset(&mut self) {
        let machine = &self.machine;
        std::mem::take(&mut self.ends).into_values().for_each(|end| end.forget(machine));
        std::mem::take(&mut self.queues).into_values().for_each(|queue| queue.forget(machine));
        self.pages.reset();
        self.notices = Notices::default();
        self.missing.clear();
        self.waits = Waits::default();
        self.calls = 0;
    }

    /// Begins the account of a card without objects.
    pub(super) fn begin(&mut self) {
        self.registers = vec![0; self.machine.address_registers()];
        self.program.clear();
        self.counters = self.machine.counters();
    }

    /// Explains what the card has done since the last call. No packet has left it or arrived
    /// meanwhile.
    pub(super) fn settle(&mut self) -> Result<(), Violation> {
        if self.machine.calls() == self.calls {
            return Ok(());
        }
        self.notices.note_vector(&self.machine);
        let counters = self.machine.counters();
        let before = |counter: usize| self.counters.get(counter).copied().unwrap_or_default();
        let counts = COUNTED.map(|counter| counters[usize::from(counter)] - before(counter.into()));
        let writes = self.take_writes();
        let found = explain(&Facts {
            machine: &self.machine,
            registers: &self.registers,
            program: &self.program,
            ends: &self.ends,
            queues: &self.queues,
            pages: &self.pages,
            waits: &self.waits,
            writes,
            counts,
        })?;
        self.commit(found);
        self.tally.executed += counts[0];
        self.counters = counters;
        let host = self.machine.id;
        for (index, end) in &mut self.ends {
            end.settle(|| format!("host {host}: connection {index}"), &self.pages)?;
        }
        if self.ends.values().all(End::is_calm) {
            self.pages.forget_refusals();
        }
        self.calls = self.machine.calls();
        Ok(())
    }

    /// Returns what the card has written to endpoints and queues, byte by byte.
    fn take_writes(&mut self) -> Vec<(u64, u8)> {
        let writes = self.machine.memory.take_writes();
        if writes.is_empty() {
            return Vec::new();
        }
        self.ends.values_mut().for_each(|end| writes.iter().for_each(|write| end.note_written(write)));
        let queues = self.queues.values().flat_map(Queue::frames).copied();
        let frames: Vec<u64> = self.pages.frames().chain(queues).collect();
        let writes = writes.into_iter().filter(|write| frames.contains(&(write.address / PAGE * PAGE)));
        writes.flat_map(|write| (write.address..).zip(write.bytes)).collect()
    }

    fn commit(&mut self, Explanation { effects, waits }: Explanation) {
        self.waits = waits;
        self.registers = effects.registers;
        for (number, written) in effects.written {
            let Some(queue) = self.queues.get_mut(&number) else { continue };
            self.notices.give_reasons(DART_FIFO_QUEUE | number, queue.note_written(written));
        }
        for (page, place, patch) in effects.patches {
            self.pages.note_written(page, place, &patch);
        }
        for step in effects.steps {
            self.tally.add(&step);
            let Step { end: index, reply, trap, .. } = step;
            if self.ends.get_mut(&index).is_some_and(|end| end.finish(reply, trap)) {
                self.notices.give_reasons(DART_FIFO_ARRIVED | index, 1);
            }
        }
    }

    /// Stores a message to the Send Registers as a process.
    pub(super) fn send(&mut self, index: u32, send: Send) -> Result<(), Violation> {
        self.settle()?;
        let machine = &self.machine;
        let Some(end) = self.ends.get_mut(&index) else { return Ok(()) };
        end.send(send, machine.is_linked());
        let Send { control, offset, length } = send;
        let words: [u64; 2] = zerocopy::transmute!(control);
        machine.store_page(index, DART_SEND_CONTROL, words[0])?;
        machine.store_page(index, DART_SEND_OPERAND, words[1])?;
        if offset % 8 == 0 && (offset | u64::from(length)) >> DART_SEND_DATA_SHIFT == 0 {
            machine.store_page(index, DART_SEND_DATA, offset << DART_SEND_DATA_SHIFT | u64::from(length))?;
        } else {
            machine.store_page(index, DART_SEND_OFFSET, offset)?;
            machine.store_page(index, DART_SEND_LENGTH, length.into())?;
        }
        self.settle()
    }

    /// Checks a packet that has left the card.
    pub(super) fn note_sent(&mut self, to: u16, bytes: &[u8]) -> Result<(), Violation> {
        let host = self.machine.id;
        let wrong = |what: &str| Violation::new(format!("host {host}: a packet to {to} {what}"));
        let letter = Letter::read(bytes).ok_or_else(|| wrong("is not a packet"))?;
        let meant = |end: &&mut End| end.is_connected(to, (letter.connection, letter.key));
        let end = self.ends.values_mut().find(meant).ok_or_else(|| wrong("is of no connection"))?;
        end.note_sent(&self.machine, &self.pages, &letter)?;
        self.tally.packets += 1;
        self.tally.looped += u64::from(host == to);
        self.settle()
    }

    /// Hands a packet to the card, and checks its fate.
    pub(super) fn take(&mut self, source: u16, mut bytes: Vec<u8>) -> Result<(), Violation> {
        let (host, machine) = (self.machine.id, self.machine.clone());
        let (fate, index) = self.judge(source, &bytes);
        let packet = Packet { source, bytes: VolatileSlice::from(&mut bytes[..]).into() };
        let before = machine.counters();
        machine.with_card(|card, ports| card.packet_arrived(ports, &packet))?;
        let after = machine.counters();
        let more = |counter: Counter| after[usize::from(counter)] - before[usize::from(counter)];
        let (discarded, executed) =
            (more(Counter::Discarded), more(Counter::Executed) + more(Counter::Exceptions));
        let is_it = match fate {
            Fate::Discarded => discarded == 1 && more(Counter::PacketsArrived) == 0,
            Fate::Taken => discarded == 0,
            Fate::System => discarded + executed == 1,
        };
        ensure(is_it, || {
            format!(
                "host {host}: a packet from {source} is {fate:?}, and was discarded {discarded} times, executed {executed}"
            )
        })?;
        if fate == Fate::System && discarded == 1 {
            self.check_passed_over(index)?;
        }
        self.settle()
    }

    /// Returns the expected fate of a packet from all that is known of it, and takes it in.
    fn judge(&mut self, source: u16, bytes: &[u8]) -> (Fate, u32) {
        let Some(letter) = Letter::read(bytes) else { return (Fate::Discarded, 0) };
        let end = self.ends.get_mut(&letter.connection);
        let fate = end.map_or(Fate::Discarded, |end| end.receive(source, &letter, self.machine.window()));
        (fate, letter.connection)
    }

    /// Checks that there was a reason to pass over an operating system's message: it has a trap, or
    /// finds no room.
    fn check_passed_over(&mut self, index: u32) -> Result<(), Violation> {
        let Some(end) = self.ends.get_mut(&index) else { return Ok(()) };
        let Some(arrived) = end.pass_over() else { return Ok(()) };
        let terms = end.terms();
        let is_full = |queue: Option<u32>, kind: u32| {
            let queue = queue.and_then(|number| self.queues.get(&number));
            queue.is_some_and(|queue| queue.is_full(queue.written(), &arrived.message, kind))
        };
        let has_reason = match outcome(terms, &self.program, &arrived, &self.registers[terms.window.clone()])
        {
            Outcome::Trap(_) => true,
            Outcome::Exception => is_full(terms.exceptions, DART_RECORD_EXCEPTION),
            Outcome::Made(made) => made.event && is_full(terms.events, DART_RECORD_COMPARED),
        };
        ensure(has_reason, || format!("host {}: {arrived:?} was passed over", self.machine.id))
    }

    /// Stores to a register of a process's window. The process sees no other register.
    pub(super) fn store_register(&mut self, index: u32, number: usize, value: u64) -> Result<(), Violation> {
        let Some(end) = self.ends.get(&index) else { return Ok(()) };
        let (machine, window) = (&self.machine, end.terms().window.clone());
        self.registers[window.start + number] = value;
        // The register behind the window belongs to no connection or to another one.
        for number in [number, window.len()] {
            machine.store_page(index, DART_PAGE_REGISTERS + number as u32 * 8, value)?;
        }
        let is = machine.registers(index, window.len() + 1)?;
        let seen = [&self.registers[window], &[u64::MAX]].concat();
        ensure(is == seen, || {
            format!("host {}: connection {index} sees {is:x?}, and not {seen:x?}", machine.id)
        })?;
        self.settle()
    }

    /// Sets address registers as the driver, whichever connections own them.
    pub(super) fn set_registers(&mut self, first: u32, body: &DartValues) -> Result<(), Violation> {
        let values = &body.values[..body.count as usize];
        self.registers[first as usize..][..values.len()].copy_from_slice(values);
        self.machine.run(DART_COMMAND_SET_REGISTERS, first, body)?;
        self.settle()
    }

    pub(super) fn set_program(&mut self, program: Vec<Entry>, body: &DartProgram) -> Result<(), Violation> {
        self.program = program;
        self.machine.run(DART_COMMAND_SET_PROGRAM, 0, body)
    }

    /// Adds an end that the driver has opened.
    pub(super) fn add_end(&mut self, index: u32, end: End) -> Result<(), Violation> {
        self.ends.insert(index, end);
        self.settle()
    }

    pub(super) fn close_end(&mut self, index: u32) -> Result<(), Violation> {
        self.settle()?;
        let Some(end) = self.ends.remove(&index) else { return Ok(()) };
        self.machine.run(DART_COMMAND_CLOSE_CONNECTION, index, &0_u64)?;
        end.forget(&self.machine);
        if end.has_untold_break() {
            // The break is in the FIFO, whichever connection has the number by then.
            self.notices.give_reasons(DART_FIFO_LEFT | index, 1);
        }
        self.missing.remove(&index);
        self.settle()
    }

    /// Tells an end the number and key of the other, unless it knows them.
    pub(super) fn connect(&mut self, index: u32, peer: (u32, u64)) -> Result<(), Violation> {
        if !self.ends.get_mut(&index).is_some_and(|end| end.connect(peer)) {
            return Ok(());
        }
        let body = DartConnect { key: peer.1, peer: peer.0, reserved: 0 };
        self.machine.run(DART_COMMAND_CONNECT, index, &body)?;
        self.settle()
    }

    /// Breaks an end, as its other end is gone.
    pub(super) fn give_up(&mut self, index: u32) -> Result<(), Violation> {
        self.settle()?;
        let Some(end) = self.ends.get_mut(&index) else { return Ok(()) };
        end.break_off(DART_BROKEN_GONE);
        let body = DartBreak { why: DART_BROKEN_GONE, reserved: 0 };
        self.machine.run(DART_COMMAND_BREAK, index, &body)?;
        self.settle()
    }

    pub(super) fn open_queue(&mut self, number: u32, is_immediate: bool) -> Result<(), Violation> {
        self.queues.insert(number, Queue::open(&self.machine, number, is_immediate)?);
        self.settle()
    }

    /// Closes a queue. No connection refers to it after that.
    pub(super) fn close_queue(&mut self, number: u32) -> Result<(), Violation> {
        let Some(queue) = self.queues.remove(&number) else { return Ok(()) };
        self.ends.values_mut().for_each(|end| end.lose_queue(number));
        // The card looks at each connection again.
        self.waits.full.clear();
        self.machine.run(DART_COMMAND_CLOSE_QUEUE, number, &0_u64)?;
        queue.forget(&self.machine);
        self.settle()
    }

    /// Lets the card's process tick the card. Returns whether a tick was due.
    pub(super) fn tick(&mut self) -> Result<bool, Violation> {
        if !self.machine.is_due() {
            return Ok(false);
        }
        self.settle()?;
        self.machine.with_card(|card, ports| card.tick(ports))?;
        // The card looks at each connection again.
        self.waits.full.clear();
        self.settle()?;
        Ok(true)
    }

    /// Notes that the port is going down.
    pub(super) fn unplug(&mut self) -> Result<(), Violation> {
        self.settle()?;
        self.ends.values_mut().for_each(End::unplug);
        Ok(())
    }

    /// Takes the records of the FIFO as the driver, if the driver was called. Returns whether it
    /// was.
    pub(super) fn serve_fifo(&mut self) -> Result<bool, Violation> {
        self.settle()?;
        if !self.notices.take_call() {
            return Ok(false);
        }
        while let Some(what) = self.notices.next(&self.machine) {
            let number = what & 0x3fff_ffff;
            let end = self.ends.get_mut(&number);
            let needs_reason = match what & 0xc000_0000 {
                DART_FIFO_MISSES => {
                    self.missing.insert(number);
                    false
                }
                DART_FIFO_QUEUE => {
                    self.queues.get_mut(&number).into_iter().for_each(Queue::wake);
                    true
                }
                // A process's connection may have been closed since.
                DART_FIFO_ARRIVED => end.is_some_and(|end| {
                    end.clear_news();
                    self.tally.told += 1;
                    true
                }),
                _ => end.is_some_and(|end| !end.wake()),
            };
            if needs_reason {
                self.notices.take_reason(self.machine.id, what)?;
            }
        }
        self.notices.acknowledge(&self.machine)?;
        self.settle()?;
        Ok(true)
    }

    /// Takes the records of a process's queues, except those of a queue that it sleeps on. Returns
    /// whether there were any.
    pub(super) fn take_records(&mut self) -> bool {
        let taken: u64 = self.queues.values_mut().map(|queue| u64::from(queue.take(&self.machine))).sum();
        self.tally.records += taken;
        taken > 0
    }

    /// Puts a process to sleep until messages of a connection have left. The process may have an
    /// old count of them.
    pub(super) fn doze_until_left(&mut self, index: u32, stale: u32) -> Result<(), Violation> {
        let Some(end) = self.ends.get_mut(&index) else { return Ok(()) };
        let known = end.doze(stale);
        self.notices.give_reasons(DART_FIFO_LEFT | index, 1);
        self.machine.set(DART_REG_ARM_LEFT, u64::from(index) | u64::from(known) << 32)?;
        self.settle()
    }

    /// Puts a process to sleep on a queue until there is a record.
    pub(super) fn doze_on_queue(&mut self, number: u32) -> Result<(), Violation> {
        let Some(queue) = self.queues.get_mut(&number) else { return Ok(()) };
        if let Some(taken) = queue.doze() {
            self.notices.give_reasons(DART_FIFO_QUEUE | number, 1);
            self.machine.set(DART_REG_ARM, u64::from(number) | u64::from(taken) << 32)?;
        }
        self.settle()
    }

    /// Checks that nothing waits, and that the memory has the values written there. Connections
    /// whose other end is broken stay as they are.
    pub(super) fn check_at_rest(&self, is_half_broken: impl Fn(u32) -> bool) -> Result<(), Violation> {
        let host = self.machine.id;
        for (index, end) in &self.ends {
            let misses = self.machine.misses(*index)?;
            ensure(end.is_idle() || is_half_broken(*index), || {
                format!("host {host}: connection {index} waits for ever, for {misses:x?}: {end:?}")
            })?;
        }
        self.queues.iter().try_for_each(|(number, queue)| queue.check_at_rest(host, *number))?;
        for (index, end) in &self.ends {
            end.check_at_rest(|| format!("host {host}: connection {index}"))?;
        }
        self.pages.check()
    }
}
