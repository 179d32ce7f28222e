//! A host's machine: its card's station, its driver's pages, and the ranges that the card may
//! access.

use std::ops::Deref;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hamlyn_abi::dart::command::*;
use hamlyn_abi::dart::connection::{DART_PAGE_REGISTERS, DART_PAGE_SIZE, DART_STATE_SIZE};
use hamlyn_abi::dart::fifo::DART_FIFO_SIZE;
use hamlyn_abi::family::command::ULN_COMMAND_BODY;
use hamlyn_card_dart::{DartCard, Options, Policy};
use hamlyn_test_host::Commands;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes};

use crate::engine::area::{Area, Frames};
use crate::engine::driver::Driver;
use crate::engine::memory::{PAGE, Right};
use crate::engine::rng::Rng;
use crate::engine::station::Station;
use crate::engine::violation::Violation;

/// Pages of a host's memory.
const FRAMES: u64 = 160;
/// Records of the FIFO.
const FIFO: u32 = 128;

/// A small card, whose resources are often exhausted.
pub(super) const OPTIONS: Options = Options {
    connections: 32,
    endpoints: 4,
    registers: 24,
    program: 16,
    queues: 4,
    tlb: 4,
    policy: Policy::LeastRecentlyUsed,
    window: 48,
    handshake_ms: 0,
};

/// A machine.
#[derive(Debug)]
pub(super) struct Machine {
    station: Station,
    command_page: u64,
    frames: Mutex<Frames>,
    fifo: Area,
    options: Options,
    /// State of the observer: a connection without a peer, whose window contains all registers.
    state: Area,
}

impl Deref for Machine {
    type Target = Station;

    fn deref(&self) -> &Station {
        &self.station
    }
}

impl Machine {
    /// Creates a machine that is powered on.
    pub(super) fn new(id: u16, options: Options, rng: &mut Rng) -> Result<Self, Violation> {
        let station = Station::new(id, move || Ok(DartCard::new(options)), FRAMES, Vec::new())?;
        let mut frames = Frames::new(Rng::new(rng.next()), FRAMES);
        let command_page = frames.take(&station.memory);
        Driver::permit_page(&station, command_page);
        let fifo = Area::new(&station.memory, &mut frames, 0, u64::from(FIFO * DART_FIFO_SIZE));
        fifo.permit_lists(&station.memory, true);
        fifo.permit(&station.memory, Right::Write, 0, fifo.length, true);
        let state = new_state(&station, &mut frames);
        let machine = Self { station, command_page, frames: Mutex::new(frames), fifo, options, state };
        machine.enable()?;
        Ok(machine)
    }

    pub(super) fn frames(&self) -> MutexGuard<'_, Frames> {
        self.frames.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enables the card and opens its FIFO.
    pub(super) fn enable(&self) -> Result<(), Violation> {
        Driver::new(&self.station, self.command_page).enable()?;
        self.fifo.poke(&self.memory, 0, &vec![0; self.fifo.length as usize]);
        let body = DartOpenFifo { area: self.fifo.abi(), records: FIFO, reserved: 0 };
        self.run(DART_COMMAND_OPEN_FIFO, 0, &body)
    }

    /// Opens the connection through which all registers are visible. It needs an endpoint.
    pub(super) fn open_observer(&self) -> Result<(), Violation> {
        let body = DartOpenConnection {
            state: self.state.abi(),
            host: u16::MAX.into(),
            register_bound: self.options.registers,
            events: DART_NO_QUEUE,
            exceptions: DART_NO_QUEUE,
            ..DartOpenConnection::new_zeroed()
        };
        self.run(DART_COMMAND_OPEN_CONNECTION, self.observer(), &body)
    }

    fn observer(&self) -> u32 {
        self.options.connections - 1
    }

    /// Returns all address registers, whether or not a connection has them.
    pub(super) fn all_registers(&self) -> Result<Vec<u64>, Violation> {
        self.registers(self.observer(), self.address_registers())
    }

    /// Runs a command that must succeed.
    pub(super) fn run(
        &self,
        opcode: u32,
        index: u32,
        body: &(impl IntoBytes + Immutable),
    ) -> Result<(), Violation> {
        Driver::new(&self.station, self.command_page).run(opcode, index, body)
    }

    /// Returns the pages that a connection waits for, whether each is to be written, and the
    /// address space that they belong to.
    pub(super) fn misses(&self, index: u32) -> Result<(u32, Vec<(u64, bool)>), Violation> {
        self.run(DART_COMMAND_READ_MISSES, index, &0_u64)?;
        let body = self.memory.peek(self.command_page + u64::from(ULN_COMMAND_BODY), size_of::<DartMisses>());
        let misses =
            DartMisses::read_from_bytes(&body).map_err(|_| Violation::new("an answer is too short"))?;
        let page = |page: &u64| (page / PAGE, page & DART_PAGE_WRITES != 0);
        Ok((misses.space, misses.pages.iter().take(misses.count as usize).map(page).collect()))
    }

    /// Returns the record of the FIFO after `taken` records, if there is one.
    pub(super) fn record(&self, taken: u32) -> Option<u32> {
        let place = self.fifo.address(u64::from(taken % FIFO * DART_FIFO_SIZE));
        let is_there = self.memory.peek_u32(place + 4) == taken.wrapping_add(1);
        is_there.then(|| self.memory.peek_u32(place))
    }

    /// Stores 8 bytes to a register of BAR 0.
    pub(super) fn set(&self, register: u32, value: u64) -> Result<(), Violation> {
        self.store(0, register.into(), 8, value)
    }

    /// Stores to a connection's page.
    pub(super) fn store_page(&self, index: u32, place: u32, value: u64) -> Result<(), Violation> {
        self.store(2, u64::from(index * DART_PAGE_SIZE + place), 8, value)
    }

    /// Returns the first registers of a connection's window.
    pub(super) fn registers(&self, index: u32, count: usize) -> Result<Vec<u64>, Violation> {
        let start = u64::from(index * DART_PAGE_SIZE + DART_PAGE_REGISTERS);
        self.with_card(|card, ports| {
            let offsets = (0..count as u64).map(|number| start + number * 8);
            offsets.map(|offset| card.register_read(ports, 2, offset, 8).now().unwrap_or_default()).collect()
        })
    }

    /// Allows or forbids the card to use a page.
    pub(super) fn permit_page(&self, frame: u64, right: Right, allowed: bool) {
        self.memory.permit(right, frame, PAGE, allowed);
    }

    /// Returns memory for the state of a connection, which the card may write.
    pub(super) fn new_state(&self) -> Area {
        new_state(&self.station, &mut self.frames())
    }

    /// Frees the memory of a state, which the card may no longer access.
    pub(super) fn forget_state(&self, area: &Area) {
        area.permit(&self.memory, Right::Write, 0, DART_STATE_SIZE.into(), false);
        self.forget_area(area);
    }

    /// Frees an area, whose page lists the card may no longer access.
    pub(super) fn forget_area(&self, area: &Area) {
        area.permit_lists(&self.memory, false);
        let mut frames = self.frames();
        area.give_lists_back(&mut frames);
        area.give_pages_back(&self.memory, &mut frames);
    }

    /// Returns the number of address registers.
    pub(super) fn address_registers(&self) -> usize {
        self.options.registers as usize
    }

    /// Returns the card's window, in cells.
    pub(super) fn window(&self) -> u32 {
        self.options.window
    }

    /// Returns whether the tick that the card asked for is due.
    pub(super) fn is_due(&self) -> bool {
        self.alarm().is_some_and(|alarm| alarm <= self.clock.milliseconds().into())
    }
}

fn new_state(station: &Station, frames: &mut Frames) -> Area {
    let area = Area::new(&station.memory, frames, 0, DART_STATE_SIZE.into());
    area.permit_lists(&station.memory, true);
    area.permit(&station.memory, Right::Write, 0, DART_STATE_SIZE.into(), true);
    area
}
