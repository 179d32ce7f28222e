//! Connections, opened and closed by the drivers of two hosts, which exchange numbers and keys.
//! Also the objects that exist after power-on.

use std::collections::VecDeque;

use hamlyn_abi::dart::command::*;
use hamlyn_abi::dart::connection::*;
use hamlyn_abi::dart::control::DartControl;
use hamlyn_abi::dart::fifo::DART_FIFO_LEFT;
use hamlyn_abi::dart::queue::*;
use hamlyn_abi::family::control::{ULN_CONTROL_RESET, ULN_REG_CONTROL};
use zerocopy::FromZeros;

use crate::engine::area::Area;
use crate::engine::memory::{PAGE, Right};
use crate::engine::violation::Violation;
use crate::engine::world::World;

use super::calling::Entry;
use super::ledger::{BROKEN, End, Endpoint, Ledger, Queue, State};
use super::machine::Machine;
use super::model::{Dart, OPTIONS, PROCESSES, Pair};
use super::paging::{FIRST, PAGES};

/// The key of operating systems' connections.
const SYSTEM_KEY: u64 = 0x5452_4144;
/// Queues of a host.
const QUEUES: u32 = 3;

/// Returns the endpoints of a host, numbered from 1.
fn endpoints() -> [Endpoint; 3] {
    let at = |page: u64, offset: u64| (FIRST + page) * PAGE + offset;
    [
        Endpoint { space: 1, base: at(0, 0x120), length: 3 * PAGE },
        Endpoint { space: 1, base: at(2, 8), length: 3 * PAGE - 8 },
        Endpoint { space: 2, base: at(0, 0xffc), length: (PAGES[1] - 1) * PAGE },
    ]
}

impl World<Dart> {
    /// Does what an operating system does after power-on.
    pub(super) fn set_up(&mut self, host: usize) -> Result<(), Violation> {
        let machine = self.hosts[host].machine.clone();
        let ledger = &mut self.model.ledgers[host];
        ledger.registers = vec![0; OPTIONS.registers as usize];
        ledger.program = Vec::new();
        ledger.counters = machine.counters();
        self.open_endpoints(host)?;
        machine.open_observer()?;
        for number in 0..QUEUES {
            self.open_queue(host, number)?;
        }
        self.set_program(host)?;
        let systems = (0..self.hosts.len()).filter(|other| *other != host).collect::<Vec<_>>();
        systems.into_iter().try_for_each(|other| self.open_end(host, other as u32, other as u16))
    }

    fn open_endpoints(&mut self, host: usize) -> Result<(), Violation> {
        let machine = self.hosts[host].machine.clone();
        let spaces = &self.model.spaces[host];
        let frames: Vec<u64> =
            (0..self.hosts.len()).filter_map(|page| spaces.frame((0, page as u64))).collect();
        for (page, frame) in frames.iter().enumerate() {
            machine.permit_page(*frame, Right::Read, true);
            machine.permit_page(*frame, Right::Write, true);
            self.model.ledgers[host].known.insert((0, page as u64), (*frame, true));
        }
        let length = frames.len() as u64 * PAGE;
        let area = Area::over(&machine.memory, &mut machine.frames(), frames, 0, length);
        area.permit_lists(&machine.memory, true);
        let body = DartOpenEndpoint {
            area: area.abi(),
            flags: DART_ENDPOINT_PINNED,
            ..DartOpenEndpoint::new_zeroed()
        };
        self.model.pinned[host] = Some(area);
        machine.run(DART_COMMAND_OPEN_ENDPOINT, 0, &body)?;
        for (number, Endpoint { space, base, length }) in (1..).zip(endpoints()) {
            let body = DartOpenEndpoint { base, length, space, ..DartOpenEndpoint::new_zeroed() };
            machine.run(DART_COMMAND_OPEN_ENDPOINT, number, &body)?;
        }
        Ok(())
    }

    fn open_queue(&mut self, host: usize, number: u32) -> Result<(), Violation> {
        let machine = self.hosts[host].machine.clone();
        let length = u64::from(DART_QUEUE_HEAD + DART_MIN_RECORDS * DART_RECORD_SIZE);
        let area = Area::new(&machine.memory, &mut machine.frames(), 0, length);
        area.permit_lists(&machine.memory, true);
        area.permit(&machine.memory, Right::Read, DART_QUEUE_TAKEN.into(), 4, true);
        area.permit(&machine.memory, Right::Write, DART_QUEUE_HEAD.into(), length - PAGE, true);
        let is_immediate = self.rng.percent(40);
        let flags = if is_immediate { DART_QUEUE_IMMEDIATE } else { 0 };
        let body = DartOpenQueue { memory: area.abi(), records: DART_MIN_RECORDS, flags };
        machine.run(DART_COMMAND_OPEN_QUEUE, number, &body)?;
        let queue = Queue { area, written: 0, taken: 0, is_immediate, asleep: false, woken: false };
        self.model.ledgers[host].queues.insert(number, queue);
        self.settle(host)
    }

    /// Closes a queue and opens it again. No connection refers to it after that.
    pub(super) fn reopen_queue(&mut self, host: usize) -> Result<(), Violation> {
        self.settle(host)?;
        let machine = self.hosts[host].machine.clone();
        let number = self.rng.range(0, QUEUES - 1);
        let ledger = &mut self.model.ledgers[host];
        let Some(queue) = ledger.queues.remove(&number) else { return Ok(()) };
        for end in ledger.ends.values_mut() {
            end.events = end.events.filter(|queue| *queue != number);
            end.exceptions = end.exceptions.filter(|queue| *queue != number);
            // The card looks at all connections again.
            end.was_full = false;
        }
        machine.run(DART_COMMAND_CLOSE_QUEUE, number, &0_u64)?;
        forget_queue(&machine, &queue);
        self.settle(host)?;
        self.open_queue(host, number)
    }

    fn set_program(&mut self, host: usize) -> Result<(), Violation> {
        let mut body = DartProgram { count: OPTIONS.program, ..DartProgram::new_zeroed() };
        let mut program = Vec::new();
        for at in 0..OPTIONS.program as usize {
            let DartControl { opcode, operand, .. } = self.some_control();
            let is_callers = self.rng.percent(40);
            let (flags, operand) = if is_callers { (DART_ENTRY_OPERAND, 0) } else { (0, operand) };
            body.entries[at] = DartEntry { opcode, flags, operand };
            program.push(Entry { opcode, is_callers, operand });
        }
        self.model.ledgers[host].program = program;
        self.hosts[host].machine.run(DART_COMMAND_SET_PROGRAM, 0, &body)
    }

    /// Opens one end. It is an operating system's end if its number is that of a host.
    pub(super) fn open_end(&mut self, host: usize, index: u32, other: u16) -> Result<(), Violation> {
        let machine = self.hosts[host].machine.clone();
        let is_system = index < PROCESSES;
        let end = self.some_end(&machine, index, other);
        let number = endpoints().iter().position(|known| known.base == end.endpoint.base);
        let flag = |is: bool, flag: u32| if is { flag } else { 0 };
        let body = DartOpenConnection {
            state: end.area.abi(),
            endpoint: number.map_or(0, |number| number as u32 + 1),
            host: other.into(),
            register_base: end.window.start as u32,
            register_bound: end.window.len() as u32,
            program_base: end.program.start as u32,
            program_bound: end.program.len() as u32,
            events: end.events.unwrap_or(DART_NO_QUEUE),
            exceptions: end.exceptions.unwrap_or(DART_NO_QUEUE),
            flags: flag(end.may_write, DART_CONNECTION_WRITE)
                | flag(end.may_read, DART_CONNECTION_READ)
                | flag(is_system, DART_CONNECTION_SYSTEM),
            reserved: 0,
            key: end.key,
        };
        machine.run(DART_COMMAND_OPEN_CONNECTION, index, &body)?;
        self.model.ledgers[host].ends.insert(index, end);
        self.settle(host)
    }

    fn some_end(&mut self, machine: &Machine, index: u32, other: u16) -> End {
        let is_system = index < PROCESSES;
        let area = Area::new(&machine.memory, &mut machine.frames(), 0, DART_STATE_SIZE.into());
        area.permit_lists(&machine.memory, true);
        area.permit(&machine.memory, Right::Write, 0, DART_STATE_SIZE.into(), true);
        let cards = self.hosts.len() as u64;
        let system = Endpoint { space: 0, base: 0, length: cards * PAGE };
        let endpoint = self.rng.pick(&endpoints()).filter(|_| !is_system).unwrap_or(system);
        let own = u64::from(other) * PAGE..(u64::from(other) + 1) * PAGE;
        // Half of them share registers, like users of a common counter, lock or barrier.
        let shares = self.rng.percent(50);
        let start = if shares { 0 } else { self.rng.range(0, OPTIONS.registers - 8) as usize };
        let first = self.rng.range(0, OPTIONS.program - 4) as usize;
        let bound = self.rng.range(if shares { 4 } else { 0 }, 8) as usize;
        let entries = self.rng.range(0, 4) as usize;
        let mut queue = || Some(self.rng.range(0, QUEUES)).filter(|queue| *queue < QUEUES);
        let (events, exceptions) = (queue(), queue());
        let here = self.hosts[usize::from(machine.id)].uplink.is_up();
        let mut state = State::default();
        state[BROKEN] = if here || is_system { 0 } else { DART_BROKEN_LINK };
        End {
            host: other,
            key: if is_system { SYSTEM_KEY } else { self.rng.next() },
            peer: is_system.then_some((machine.id.into(), SYSTEM_KEY)),
            endpoint,
            reach: if is_system { own } else { 0..endpoint.length },
            window: start..start + bound,
            program: first..first + entries,
            events,
            exceptions,
            may_write: self.rng.percent(85),
            may_read: self.rng.percent(85),
            is_system,
            state,
            said: State::default(),
            area,
            sends: Default::default(),
            replies: Default::default(),
            numbered: 0,
            on_their_way: 0,
            spent: 0,
            returned: 0,
            expected: 0,
            waiting: Default::default(),
            questions: VecDeque::new(),
            limit: self.model.options.window.min(DART_SMALLEST_WINDOW),
            done: 0,
            told: 0,
            was_full: false,
            asked: Vec::new(),
            sleeper: None,
            woken: false,
            break_told: false,
            has_news: false,
        }
    }

    fn close_end(&mut self, host: usize, index: u32) -> Result<(), Violation> {
        self.settle(host)?;
        let machine = self.hosts[host].machine.clone();
        let Some(end) = self.model.ledgers[host].ends.remove(&index) else { return Ok(()) };
        machine.run(DART_COMMAND_CLOSE_CONNECTION, index, &0_u64)?;
        forget_end(&machine, &end);
        if end.is_broken() && !end.break_told {
            // The break is in the FIFO, whichever connection has the number by then.
            self.model.ledgers[host].give_reason(DART_FIFO_LEFT | index);
        }
        self.model.ledgers[host].missing.remove(&index);
        self.settle(host)
    }

    /// Lets the drivers check a connection, and connect, break or reopen it.
    pub(super) fn tend(&mut self, pair: Pair) -> Result<(), Violation> {
        let Pair(sides) = pair;
        if sides.iter().any(|(host, _)| self.hosts[*host].stopped) {
            return Ok(());
        }
        let ends = sides.map(|(host, index)| self.model.ledgers[host].ends.get(&index));
        let is_well = ends.iter().all(|end| end.is_some_and(|end| !end.is_broken()));
        if is_well {
            let side = self.rng.index(2);
            return self.connect(sides[side], sides[1 - side]);
        }
        if self.rng.percent(30) {
            return sides.into_iter().try_for_each(|side| self.give_up(side));
        }
        for (host, index) in sides {
            self.close_end(host, index)?;
        }
        pair.sides().try_for_each(|[(host, index), (other, _)]| self.open_end(host, index, other as u16))
    }

    /// Tells one end the number and key of the other, unless it knows them.
    fn connect(&mut self, (host, index): (usize, u32), other: (usize, u32)) -> Result<(), Violation> {
        let key = self.model.ledgers[other.0].ends.get(&other.1).map(|end| end.key);
        let end = self.model.ledgers[host].ends.get_mut(&index);
        let (Some(key), Some(end)) = (key, end.filter(|end| end.peer.is_none())) else { return Ok(()) };
        end.peer = Some((other.1, key));
        let body = DartConnect { key, peer: other.1, reserved: 0 };
        self.hosts[host].machine.run(DART_COMMAND_CONNECT, index, &body)?;
        self.settle(host)
    }

    /// Breaks an end, as its other end is gone.
    pub(super) fn give_up(&mut self, (host, index): (usize, u32)) -> Result<(), Violation> {
        self.settle(host)?;
        let Some(end) = self.model.ledgers[host].ends.get_mut(&index) else { return Ok(()) };
        end.break_off(DART_BROKEN_GONE);
        let body = DartBreak { why: DART_BROKEN_GONE, reserved: 0 };
        self.hosts[host].machine.run(DART_COMMAND_BREAK, index, &body)?;
        self.settle(host)
    }

    /// Breaks all half-broken connections, and connects all others.
    pub(super) fn tidy_up(&mut self) -> Result<(), Violation> {
        for Pair(sides) in self.model.pairs.clone() {
            let ends = sides.map(|(host, index)| self.model.ledgers[host].ends.get(&index));
            if ends.iter().all(|end| end.is_some_and(|end| !end.is_broken())) {
                self.connect(sides[0], sides[1])?;
                self.connect(sides[1], sides[0])?;
            } else {
                sides.into_iter().try_for_each(|side| self.give_up(side))?;
            }
        }
        Ok(())
    }

    /// Resets the card. It then has no objects, and accesses no memory.
    pub(super) fn reset(&mut self, host: usize) -> Result<(), Violation> {
        self.note(|| format!("host {host} resets its card"));
        let machine = self.hosts[host].machine.clone();
        machine.store(0, ULN_REG_CONTROL.into(), 4, ULN_CONTROL_RESET.into())?;
        let old = std::mem::take(&mut self.model.ledgers[host]);
        self.forget(host, &old);
        machine.memory.take_writes();
        machine.enable()?;
        machine.vectors.take();
        self.set_up(host)
    }

    fn forget(&mut self, host: usize, old: &Ledger) {
        let machine = self.hosts[host].machine.clone();
        old.ends.values().for_each(|end| forget_end(&machine, end));
        old.queues.values().for_each(|queue| forget_queue(&machine, queue));
        for (frame, writable) in old.known.values() {
            machine.permit_page(*frame, Right::Read, false);
            if *writable {
                machine.permit_page(*frame, Right::Write, false);
            }
        }
        if let Some(area) = self.model.pinned[host].take() {
            area.permit_lists(&machine.memory, false);
            area.give_lists_back(&mut machine.frames());
        }
    }
}

fn forget_end(machine: &Machine, end: &End) {
    end.area.permit(&machine.memory, Right::Write, 0, DART_STATE_SIZE.into(), false);
    forget_area(machine, &end.area);
}

fn forget_queue(machine: &Machine, queue: &Queue) {
    let length = queue.area.length - PAGE;
    queue.area.permit(&machine.memory, Right::Read, DART_QUEUE_TAKEN.into(), 4, false);
    queue.area.permit(&machine.memory, Right::Write, DART_QUEUE_HEAD.into(), length, false);
    forget_area(machine, &queue.area);
}

fn forget_area(machine: &Machine, area: &Area) {
    area.permit_lists(&machine.memory, false);
    let mut frames = machine.frames();
    area.give_lists_back(&mut frames);
    area.give_pages_back(&machine.memory, &mut frames);
}
