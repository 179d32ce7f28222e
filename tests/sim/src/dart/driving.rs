//! The driver opens the objects that exist after power-on and the ends of connections, sets
//! registers, and resets the card.

use hamlyn_abi::dart::command::*;
use hamlyn_abi::dart::control::DartControl;
use hamlyn_abi::family::control::{ULN_CONTROL_RESET, ULN_REG_CONTROL};
use zerocopy::FromZeros;

use crate::engine::memory::PAGE;
use crate::engine::rng::Rng;
use crate::engine::violation::Violation;

use super::account::Account;
use super::calling::Entry;
use super::controls::{some_control, some_value};
use super::end::End;
use super::machine::OPTIONS;
use super::pages::{FIRST, PAGES};
use super::terms::{Endpoint, Terms};

/// First number of a process's connection.
pub(super) const PROCESSES: u32 = 8;
/// The key of operating systems' connections.
const SYSTEM_KEY: u64 = 0x5452_4144;
/// Queues of a host.
pub(super) const QUEUES: u32 = 3;

/// Returns the endpoints of a host, numbered from 1.
fn endpoints() -> [Endpoint; 3] {
    let at = |page: u64, offset: u64| (FIRST + page) * PAGE + offset;
    [
        Endpoint { space: 1, base: at(0, 0x120), length: 3 * PAGE },
        Endpoint { space: 1, base: at(2, 8), length: 3 * PAGE - 8 },
        Endpoint { space: 2, base: at(0, 0xffc), length: (PAGES[1] - 1) * PAGE },
    ]
}

/// The driver of a card.
#[derive(Debug)]
pub(super) struct Driver<'a> {
    pub(super) account: &'a mut Account,
    pub(super) rng: &'a mut Rng,
    /// Number of hosts.
    pub(super) hosts: u16,
}

impl Driver<'_> {
    /// Does what an operating system does after power-on.
    pub(super) fn set_up(&mut self) -> Result<(), Violation> {
        let machine = self.account.machine();
        self.account.begin();
        let pinned = DartOpenEndpoint {
            area: self.account.pages.pin(),
            flags: DART_ENDPOINT_PINNED,
            ..DartOpenEndpoint::new_zeroed()
        };
        machine.run(DART_COMMAND_OPEN_ENDPOINT, 0, &pinned)?;
        for (number, Endpoint { space, base, length }) in (1..).zip(endpoints()) {
            let body = DartOpenEndpoint { base, length, space, ..DartOpenEndpoint::new_zeroed() };
            machine.run(DART_COMMAND_OPEN_ENDPOINT, number, &body)?;
        }
        machine.open_observer()?;
        (0..QUEUES).try_for_each(|number| self.open_queue(number))?;
        self.set_program()?;
        let others = (0..self.hosts).filter(|other| *other != machine.id);
        others.into_iter().try_for_each(|other| self.open_end(other.into(), other))
    }

    fn open_queue(&mut self, number: u32) -> Result<(), Violation> {
        self.account.open_queue(number, self.rng.percent(40))
    }

    /// Closes a queue and opens it again.
    pub(super) fn reopen_queue(&mut self) -> Result<(), Violation> {
        self.account.settle()?;
        let number = self.rng.range(0, QUEUES - 1);
        self.account.close_queue(number)?;
        self.open_queue(number)
    }

    fn set_program(&mut self) -> Result<(), Violation> {
        let mut body = DartProgram { count: OPTIONS.program, ..DartProgram::new_zeroed() };
        let mut program = Vec::new();
        for at in 0..OPTIONS.program as usize {
            let DartControl { opcode, operand, .. } = some_control(self.rng);
            let is_callers = self.rng.percent(40);
            let (flags, operand) = if is_callers { (DART_ENTRY_OPERAND, 0) } else { (0, operand) };
            body.entries[at] = DartEntry { opcode, flags, operand };
            program.push(Entry { opcode, is_callers, operand });
        }
        self.account.set_program(program, &body)
    }

    /// Sets some address registers.
    pub(super) fn set_registers(&mut self) -> Result<(), Violation> {
        self.account.settle()?;
        let (first, count) = (self.rng.below(20) as u32, self.rng.range(1, 4));
        let mut body = DartValues { count, ..DartValues::new_zeroed() };
        body.values[..count as usize].fill_with(|| some_value(self.rng));
        self.account.set_registers(first, &body)
    }

    /// Opens one end. It is an operating system's end if its number is that of a host.
    pub(super) fn open_end(&mut self, index: u32, other: u16) -> Result<(), Violation> {
        let machine = self.account.machine();
        let terms = self.some_terms(index < PROCESSES, other);
        let end = End::new(&machine, terms.clone(), machine.new_state());
        let number = endpoints().iter().position(|known| known.base == terms.endpoint.base);
        let flag = |is: bool, flag: u32| if is { flag } else { 0 };
        let body = DartOpenConnection {
            state: end.state_area(),
            endpoint: number.map_or(0, |number| number as u32 + 1),
            host: other.into(),
            register_base: terms.window.start as u32,
            register_bound: terms.window.len() as u32,
            program_base: terms.program.start as u32,
            program_bound: terms.program.len() as u32,
            events: terms.events.unwrap_or(DART_NO_QUEUE),
            exceptions: terms.exceptions.unwrap_or(DART_NO_QUEUE),
            flags: flag(terms.may_write, DART_CONNECTION_WRITE)
                | flag(terms.may_read, DART_CONNECTION_READ)
                | flag(terms.is_system, DART_CONNECTION_SYSTEM),
            reserved: 0,
            key: terms.key,
        };
        machine.run(DART_COMMAND_OPEN_CONNECTION, index, &body)?;
        self.account.add_end(index, end)
    }

    fn some_terms(&mut self, is_system: bool, other: u16) -> Terms {
        let system = Endpoint { space: 0, base: 0, length: u64::from(self.hosts) * PAGE };
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
        Terms {
            host: other,
            key: if is_system { SYSTEM_KEY } else { self.rng.next() },
            endpoint,
            reach: if is_system { own } else { 0..endpoint.length },
            window: start..start + bound,
            program: first..first + entries,
            events,
            exceptions,
            may_write: self.rng.percent(85),
            may_read: self.rng.percent(85),
            is_system,
        }
    }

    /// Resets the card. It then has no objects, and accesses no memory.
    pub(super) fn reset(&mut self) -> Result<(), Violation> {
        let machine = self.account.machine();
        machine.store(0, ULN_REG_CONTROL.into(), 4, ULN_CONTROL_RESET.into())?;
        self.account.reset();
        machine.memory.take_writes();
        machine.enable()?;
        machine.vectors.take();
        self.set_up()
    }
}
