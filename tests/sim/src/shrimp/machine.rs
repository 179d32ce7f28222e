//! A host's machine: its card's station, its driver's pages, and the ranges that the card may
//! access.

use std::ops::{Deref, Range};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hamlyn_abi::family::control::*;
use hamlyn_abi::shrimp::arrival::SHRIMP_ARRIVAL_SIZE;
use hamlyn_abi::shrimp::command::*;
use hamlyn_abi::shrimp::entry::ShrimpEntry;
use hamlyn_card::card::Store;
use hamlyn_card_shrimp::{Options, ShrimpCard};
use hamlyn_test_host::{Commands, Refusal};
use zerocopy::{Immutable, IntoBytes};

use crate::engine::area::{Area, Frames};
use crate::engine::driver::Driver;
use crate::engine::memory::{PAGE, Right};
use crate::engine::rng::Rng;
use crate::engine::station::Station;
use crate::engine::violation::{Violation, ensure};

use super::mapping::{DATA_PAGES, PAGES, rights};

/// Pages of a host's memory: more than its card's page table has entries.
const FRAMES: u64 = 40;
/// BAR 2.
const MEMORY: u8 = 2;
/// Heartbeats per period of the handshake timer.
const BEATS: u64 = 4;

/// A machine.
#[derive(Debug)]
pub(super) struct Machine {
    station: Station,
    command_page: u64,
    pub(super) options: Options,
    tables: Mutex<Tables>,
}

#[derive(Debug)]
struct Tables {
    frames: Frames,
    queue: Option<Area>,
    next_beat: u64,
}

impl Deref for Machine {
    type Target = Station;

    fn deref(&self) -> &Station {
        &self.station
    }
}

impl Machine {
    /// Creates a machine that is powered on. `snoops` is whether its card sees stores on the bus.
    pub(super) fn new(id: u16, options: Options, snoops: bool, rng: &mut Rng) -> Result<Self, Violation> {
        let station = Station::new(id, move || Ok(ShrimpCard::new(options)), FRAMES, Vec::new())?;
        let mut all = Frames::new(Rng::new(rng.next()), FRAMES);
        let pages: Vec<u64> = (1..FRAMES).map(|_| all.take(&station.memory)).collect();
        let mut frames = all;
        let is_data = |page: &u64| page / PAGE <= DATA_PAGES.into();
        pages.into_iter().filter(|page| !is_data(page)).for_each(|page| frames.give(page));
        let command_page = frames.take(&station.memory);
        Driver::permit_page(&station, command_page);
        let tables = Mutex::new(Tables { frames, queue: None, next_beat: 0 });
        let machine = Self { station, command_page, options, tables };
        machine.with_card(|card, ports| card.snooping_changed(ports, snoops))?;
        machine.enable()?;
        Ok(machine)
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn enable(&self) -> Result<(), Violation> {
        Driver::new(&self.station, self.command_page).enable()
    }

    /// Runs a command. The inner result is the card's answer.
    pub(super) fn command(
        &self,
        opcode: u32,
        index: u32,
        body: &(impl IntoBytes + Immutable),
    ) -> Result<Result<(), Refusal>, Violation> {
        let done = Driver::new(&self.station, self.command_page).command(opcode, index, body)?;
        // The checks of writes must not see the answer in the command page.
        self.memory.take_writes();
        Ok(done)
    }

    /// Runs a command that must succeed.
    pub(super) fn run(
        &self,
        opcode: u32,
        index: u32,
        body: &(impl IntoBytes + Immutable),
    ) -> Result<(), Violation> {
        let refused = |refusal| {
            Violation::new(format!("host {}: command {opcode} on {index} was refused: {refusal:?}", self.id))
        };
        self.command(opcode, index, body)?.map_err(refused)
    }

    /// Allows or forbids the card to access the ranges that an entry maps.
    pub(super) fn permit_entry(&self, page: u32, entry: &ShrimpEntry, allowed: bool) {
        let (writable, readable) = rights(entry);
        let all = |right, ranges: Vec<Range<u64>>| {
            for range in ranges {
                let start = u64::from(page) * PAGE + range.start;
                self.memory.permit(right, start, range.end - range.start, allowed);
            }
        };
        all(Right::Write, writable);
        all(Right::Read, readable);
    }

    /// Allows or forbids the card to write to a page that another host's operating system stores
    /// to.
    pub(super) fn permit_system(&self, page: u64, allowed: bool) {
        self.memory.permit(Right::Write, page * PAGE, PAGE, allowed);
    }

    /// Opens the arrival queue.
    pub(super) fn open_queue(&self, records: u32) -> Result<(), Violation> {
        let length = u64::from(records * SHRIMP_ARRIVAL_SIZE);
        let area = Area::new(&self.memory, &mut self.tables().frames, 0, length);
        area.permit_lists(&self.memory, true);
        area.permit(&self.memory, Right::Write, 0, length, true);
        let body = ShrimpOpenArrivals { queue: area.abi(), records, reserved: 0 };
        self.run(SHRIMP_COMMAND_OPEN_ARRIVALS, 0, &body)?;
        self.tables().queue = Some(area);
        Ok(())
    }

    /// Drops the queue. Any later access of the card to its memory is detected.
    pub(super) fn forget_queue(&self) {
        let mut tables = self.tables();
        if let Some(area) = tables.queue.take() {
            area.permit(&self.memory, Right::Write, 0, area.length, false);
            area.permit_lists(&self.memory, false);
            area.give_lists_back(&mut tables.frames);
            area.give_pages_back(&self.memory, &mut tables.frames);
        }
    }

    /// Returns the address of a record of the queue, if the queue is open.
    pub(super) fn record(&self, index: u32) -> Option<u64> {
        let tables = self.tables();
        let area = tables.queue.as_ref()?;
        Some(area.address(u64::from(index) * u64::from(SHRIMP_ARRIVAL_SIZE)))
    }

    /// Stores to a register of BAR 0.
    pub(super) fn set(&self, register: u32, value: u32) -> Result<(), Violation> {
        self.store(0, register.into(), 4, value.into())
    }

    /// Stores to BAR 2.
    pub(super) fn store_memory(&self, offset: u64, width: u8, value: u64) -> Result<(), Violation> {
        self.store(MEMORY, offset, width, value)
    }

    /// Loads from BAR 2.
    pub(super) fn load_memory(&self, offset: u64, width: u8) -> Result<u64, Violation> {
        let read = self.with_card(|card, ports| card.register_read(ports, MEMORY, offset, width).now())?;
        read.ok_or_else(|| Violation::new(format!("host {}: a load gets no answer", self.id)))
    }

    /// Returns the offset of an address in the window pages.
    pub(super) fn window(address: u64) -> u64 {
        u64::from(PAGES) * PAGE + address
    }

    /// Shows the card a store that was made on the bus.
    pub(super) fn seen(&self, address: u64, bytes: &[u8]) -> Result<(), Violation> {
        let mut value = [0; 16];
        value[..bytes.len()].copy_from_slice(bytes);
        let store = Store::new(address, value, bytes.len() as u8);
        let store = store.ok_or_else(|| Violation::new("the simulation makes a store that there is not"))?;
        self.set_asleep(false);
        self.with_card(|card, ports| card.store_seen(ports, &store))
    }

    pub(super) fn takes_stores(&self) -> Result<bool, Violation> {
        self.with_card(|card, _| card.takes_stores())
    }

    /// Does a heartbeat as the driver of a running host, several times in a period. It restarts the
    /// timer, and enables the card again if that was too late.
    pub(super) fn beat(&self) -> Result<(), Violation> {
        let (now, period) = (self.clock.milliseconds(), u64::from(self.options.handshake_ms));
        if period == 0 || now < self.tables().next_beat {
            return Ok(());
        }
        self.tables().next_beat = now + period / BEATS;
        self.set(ULN_REG_HANDSHAKE, 1)?;
        self.set(ULN_REG_CONTROL, ULN_CONTROL_ENABLE)
    }

    /// Gives the card its tick if it is due.
    pub(super) fn tick(&self) -> Result<bool, Violation> {
        if self.alarm().is_none_or(|alarm| alarm > self.clock.milliseconds().into()) {
            return Ok(false);
        }
        self.with_card(|card, ports| card.tick(ports))?;
        Ok(true)
    }

    /// Returns whether the card accepts packets.
    pub(super) fn is_enabled(&self) -> Result<bool, Violation> {
        let enabled = self.with_card(|card, _| card.is_enabled())?;
        let must = self.options.handshake_ms == 0;
        ensure(enabled || !must, || format!("host {}: the card takes no part", self.id))?;
        Ok(enabled)
    }
}
