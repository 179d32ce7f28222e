//! Actions of processes and drivers: messages, registers, queues, the FIFO. Also packets of hostile
//! hosts.

use hamlyn_abi::dart::command::{DART_COMMAND_SET_REGISTERS, DartValues};
use hamlyn_abi::dart::connection::DART_PAGE_REGISTERS;
use hamlyn_abi::dart::control::DartControl;
use hamlyn_abi::dart::fifo::*;
use hamlyn_abi::dart::queue::*;
use hamlyn_abi::dart::registers::*;
use hamlyn_fabric::{Header, HostId, Protocol};
use zerocopy::FromZeros;

use crate::engine::violation::{Violation, ensure};
use crate::engine::world::World;

use super::calling::is_question;
use super::effects::{BARRIER, COMPARE_AND_SWAP, FETCH_AND_INCREMENT, Outcome, outcome};
use super::explaining::parts;
use super::interpreter::is_implemented;
use super::ledger::{Arrived, LEFT};
use super::model::{Dart, PROCESSES};
use super::packet::{BLOCK, LONGEST, Letter, Message, TRAPPED};

/// Opcodes of random programs. The first four meet other messages at a register: the three named
/// ones and swap. Then come append, an unconditional event and increments.
const KNOWN: [u32; 8] = [
    FETCH_AND_INCREMENT,
    BARRIER,
    COMPARE_AND_SWAP,
    5 | 1 << 8,
    1 | 2 << 3 | 0x26 << 8,
    7 << 24,
    4 << 8,
    2 | 0x44 << 8 | 7 << 24,
];

impl World<Dart> {
    /// Returns the control of a random message.
    pub(super) fn some_control(&mut self) -> DartControl {
        let word = self.rng.next() as u32;
        let known = self.rng.pick(&KNOWN).unwrap_or_default();
        let opcode = match self.rng.below(10) {
            0 => word,
            1..4 => word & 7 | word & 0x18 | (word >> 5 & 3) << 5,
            4 => word & 7,
            // Calls of any kind.
            5 => 6 | word & 0x18 | if word & 0x10 == 0 { 0 } else { (word >> 8 & 15) << 16 },
            6 => word & 0x7f7f_7f7f,
            _ => known,
        };
        let operand = match self.rng.below(6) {
            0 => self.rng.below(4),
            // Values that registers often have.
            1..5 if KNOWN[..4].contains(&opcode) => self.rng.below(4),
            1 => self.rng.next() >> self.rng.below(64),
            _ => self.rng.below(3 * 1024) * 4,
        };
        let mask = if self.rng.percent(70) { 0 } else { self.rng.next() as u8 };
        let index = self.rng.below(3) as u8;
        let indices = [self.rng.below(8) as u8 / 2, index, self.rng.below(8) as u8 / 2];
        DartControl { opcode, mask, indices, operand }
    }

    /// Sends a random message as a process.
    pub(super) fn send_some(&mut self, host: usize) -> Result<(), Violation> {
        let Some(index) = self.some_index(host) else { return Ok(()) };
        let control = self.some_control();
        if is_question(control.opcode) {
            return self.ask(host, index, control);
        }
        let is_softwares = control.opcode & 7 == 7 || !is_implemented(control.opcode);
        let length = match self.rng.below(8) {
            0 => self.rng.range(0, 40),
            1 => 0,
            2..5 if is_softwares => self.rng.range(1, 1500),
            _ if control.opcode & 7 == 2 => self.rng.range(1, 1500),
            2 if control.opcode & 7 == 6 => self.rng.range(1, 1500),
            _ => 32,
        };
        let offset = if self.rng.percent(2) { self.rng.next() } else { self.rng.below(3 * 4096) };
        self.send(host, index, control, (offset, length.min(1500)))
    }

    fn some_index(&mut self, host: usize) -> Option<u32> {
        let ends: Vec<u32> = self.model.ledgers[host].ends.keys().copied().collect();
        self.rng.pick(&ends)
    }

    /// Stores to a register of a process's window, or to its memory.
    pub(super) fn store_some(&mut self, host: usize) -> Result<(), Violation> {
        let Some(index) = self.some_index(host) else { return Ok(()) };
        let Some(end) = self.model.ledgers[host].ends.get(&index) else { return Ok(()) };
        let (window, place) = (end.window.clone(), end.place(self.rng.below(end.endpoint.length)));
        if window.is_empty() || self.rng.percent(50) {
            let bytes = self.rng.bytes(40);
            self.store_memory(host, place.0, place.1, &bytes);
            return Ok(());
        }
        let number = self.rng.index(window.len());
        let value = self.some_value();
        let machine = self.hosts[host].machine.clone();
        let registers = &mut self.model.ledgers[host].registers;
        registers[window.start + number] = value;
        // The register behind the window belongs to no connection or to another one.
        for number in [number, window.len()] {
            machine.store_page(index, DART_PAGE_REGISTERS + number as u32 * 8, value)?;
        }
        let is = machine.registers(index, window.len() + 1)?;
        let seen = [&registers[window.clone()], &[u64::MAX]].concat();
        ensure(is == seen, || format!("host {host}: connection {index} sees {is:x?}, and not {seen:x?}"))?;
        self.settle(host)
    }

    fn some_value(&mut self) -> u64 {
        if self.rng.percent(50) { self.rng.below(4) } else { self.rng.below(2000) * 4 }
    }

    /// Sets address registers as the driver, whichever connections own them.
    pub(super) fn set_registers(&mut self, host: usize) -> Result<(), Violation> {
        self.settle(host)?;
        let (first, count) = (self.rng.below(20) as u32, self.rng.range(1, 4));
        let mut body = DartValues { count, ..DartValues::new_zeroed() };
        for at in 0..count as usize {
            body.values[at] = self.some_value();
            self.model.ledgers[host].registers[first as usize + at] = body.values[at];
        }
        self.hosts[host].machine.run(DART_COMMAND_SET_REGISTERS, first, &body)?;
        self.settle(host)
    }

    /// Takes the records of the FIFO as the driver, if the driver was called. Returns whether it
    /// was.
    pub(super) fn serve_fifo(&mut self, host: usize) -> Result<bool, Violation> {
        self.settle(host)?;
        let machine = self.hosts[host].machine.clone();
        let ledger = &mut self.model.ledgers[host];
        if !std::mem::take(&mut ledger.is_called) {
            return Ok(false);
        }
        while let Some(what) = machine.record(ledger.fifo_taken) {
            ledger.fifo_taken += 1;
            let number = what & 0x3fff_ffff;
            match what & 0xc000_0000 {
                DART_FIFO_MISSES => drop(ledger.missing.insert(number)),
                DART_FIFO_QUEUE => {
                    if let Some(queue) = ledger.queues.get_mut(&number) {
                        queue.woken = true;
                    }
                }
                DART_FIFO_ARRIVED => {
                    // A process's connection may have been closed since.
                    let Some(end) = ledger.ends.get_mut(&number) else { continue };
                    end.has_news = false;
                    self.model.told += 1;
                }
                _ => {
                    let Some(end) = ledger.ends.get_mut(&number) else { continue };
                    end.woken = true;
                    if end.is_broken() && !std::mem::replace(&mut end.break_told, true) {
                        continue;
                    }
                }
            }
            let has_reason = what & 0xc000_0000 == DART_FIFO_MISSES || ledger.take_reason(what).is_some();
            ensure(has_reason, || format!("host {host}: the driver is told of {what:#x} for no reason"))?;
        }
        machine.store(0, DART_REG_FIFO_TAKEN.into(), 4, ledger.fifo_taken.into())?;
        self.settle(host)?;
        Ok(true)
    }

    /// Takes the records of a process's queues, except those of a queue that it sleeps on. Returns
    /// whether there were any.
    pub(super) fn take_records(&mut self, host: usize) -> Result<bool, Violation> {
        let machine = self.hosts[host].machine.clone();
        let mut any = false;
        for queue in self.model.ledgers[host].queues.values_mut() {
            if queue.asleep && !queue.woken {
                continue;
            }
            (queue.asleep, queue.woken) = (false, false);
            any |= queue.taken != queue.written;
            self.model.records += u64::from(queue.written.wrapping_sub(queue.taken));
            queue.taken = queue.written;
            queue.area.poke(&machine.memory, DART_QUEUE_TAKEN.into(), &queue.taken.to_le_bytes());
        }
        Ok(any)
    }

    /// Puts a process to sleep until messages of a connection have left. The process may have an
    /// old count of them.
    fn doze_until_left(&mut self, host: usize) -> Result<(), Violation> {
        self.settle(host)?;
        let Some(index) = self.some_index(host) else { return Ok(()) };
        let stale = u32::from(self.rng.percent(20));
        let ledger = &mut self.model.ledgers[host];
        let Some(end) = ledger.ends.get_mut(&index) else { return Ok(()) };
        let known = end.state[LEFT].wrapping_sub(stale);
        (end.sleeper, end.woken) = (Some(known), false);
        ledger.give_reason(DART_FIFO_LEFT | index);
        self.hosts[host].machine.set(DART_REG_ARM_LEFT, u64::from(index) | u64::from(known) << 32)?;
        self.settle(host)
    }

    /// Puts a process to sleep on a queue until there is a record, or until messages have left.
    pub(super) fn doze(&mut self, host: usize) -> Result<(), Violation> {
        if self.rng.percent(50) {
            return self.doze_until_left(host);
        }
        let number = self.rng.range(0, 2);
        let machine = self.hosts[host].machine.clone();
        let ledger = &mut self.model.ledgers[host];
        let Some(queue) = ledger.queues.get_mut(&number) else { return Ok(()) };
        if !queue.is_immediate && !queue.asleep {
            (queue.asleep, queue.woken) = (true, false);
            let taken = queue.taken;
            ledger.give_reason(DART_FIFO_QUEUE | number);
            machine.set(DART_REG_ARM, u64::from(number) | u64::from(taken) << 32)?;
        }
        self.settle(host)
    }

    /// Checks that there was a reason to pass over an operating system's message.
    pub(super) fn check_passed_over(
        &self,
        host: usize,
        index: u32,
        arrived: Option<Arrived>,
    ) -> Result<(), Violation> {
        let ledger = &self.model.ledgers[host];
        let Some((end, arrived)) = ledger.ends.get(&index).zip(arrived) else { return Ok(()) };
        let is_full = |queue: Option<u32>, kind: u32| {
            let queue = queue.and_then(|number| ledger.queues.get(&number));
            let needed = 1 + parts(&arrived.message, kind).len() as u32;
            queue.is_some_and(|queue| queue.written.wrapping_sub(queue.taken) + needed > DART_MIN_RECORDS)
        };
        let has_reason = match outcome(end, &ledger.program, &arrived, &ledger.registers[end.window.clone()])
        {
            Outcome::Trap(_) => true,
            Outcome::Exception => is_full(end.exceptions, DART_RECORD_EXCEPTION),
            Outcome::Made(made) => made.event && is_full(end.events, DART_RECORD_COMPARED),
        };
        ensure(has_reason, || format!("host {host}: {arrived:?} was passed over"))
    }

    /// Sends a hostile host's packet, bypassing its card: a replayed packet, noise, or a valid
    /// packet with at most one defect.
    pub(super) fn forge(&mut self, host: usize) -> Result<(), Violation> {
        let victim = self.rng.index(self.hosts.len());
        let at = self.rng.index(self.model.captured.len());
        let replayed = self.model.captured.get(at).cloned();
        let (victim, mut bytes) = match (self.rng.below(4), replayed) {
            (0, Some((to, bytes))) => (usize::from(to), bytes),
            _ => (victim, self.some_packet(victim)),
        };
        match self.rng.below(8) {
            0 => {
                let bit = self.rng.index(bytes.len() * 8);
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
            1 => bytes.truncate(self.rng.index(bytes.len())),
            _ => {}
        }
        let protocol = self.hosts[host].machine.with_card(|card, _| card.identity().protocol)?;
        let protocol = Protocol::parse(protocol).map_err(Violation::new)?;
        let to = HostId(victim as u16);
        let header = Header { destination: to, source: to, protocol };
        if self.hosts[host].uplink.inject(header.to_bytes(), &bytes)? {
            let excused = !self.hosts[victim].uplink.is_up();
            self.model.flights.send((host as u16, victim as u16), [bytes], excused);
            self.model.forged += 1;
        }
        Ok(())
    }

    fn some_packet(&mut self, victim: usize) -> Vec<u8> {
        let index = self.some_index(victim).unwrap_or(PROCESSES);
        let end = self.model.ledgers[victim].ends.get(&index);
        let known = end.map_or((0, 0, 0), |end| (end.expected, end.returned, end.key));
        let mut block = [0; BLOCK];
        block[..17].copy_from_slice(&self.rng.bytes(17));
        let body = match self.rng.below(3) {
            0 => self.rng.range(1, LONGEST as u32) as usize,
            _ => 0,
        };
        let message = Message { control: self.some_control(), block, body: self.rng.bytes(body) };
        let mut letter = Letter {
            connection: index,
            number: known.0,
            done: known.1,
            kind: self.rng.pick(&[0, 0, 0, 1, 2, 3, TRAPPED + 1, TRAPPED]).unwrap_or(0),
            window: self.rng.pick(&[48, 64, 256, 65536, self.model.options.window]).unwrap_or(48),
            key: known.2,
            cells: message.write(index),
        };
        match self.rng.below(8) {
            0 => letter.key ^= 1 << self.rng.below(64),
            1 => letter.number = letter.number.wrapping_add(self.rng.range(1, 3)),
            2 => letter.done = self.rng.next() as u32,
            3 => letter.connection = self.rng.range(0, 40),
            4 => letter.cells.truncate(self.rng.index(letter.cells.len())),
            5 => letter.window = 0,
            _ => {}
        }
        letter.write()
    }
}
