//! A host's machine: its card's station, and its driver's pages.

use std::ops::Deref;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hamlyn_abi::clan::endpoint::CLAN_ENDPOINT_SIZE;
use hamlyn_abi::family::control::*;
use hamlyn_card::card::Reading;
use hamlyn_card_clan::{ClanCard, Options};
use hamlyn_test_host::{Commands, Refusal};
use zerocopy::{Immutable, IntoBytes};

use crate::engine::area::{Area, Frames};
use crate::engine::driver::Driver;
use crate::engine::rng::Rng;
use crate::engine::station::Station;
use crate::engine::violation::{Violation, ensure};

/// Pages of a host's memory.
pub(super) const FRAMES: u64 = 200;
/// Pages that must be left for an object to be opened.
const SPARE: usize = 12;
/// BAR 2.
const PAGES: u8 = 2;
/// Heartbeats per period of the handshake timer.
const BEATS: u64 = 4;

/// A machine.
#[derive(Debug)]
pub(super) struct Machine {
    station: Station,
    pub(super) command_page: u64,
    pub(super) options: Options,
    driver: Mutex<Pages>,
}

#[derive(Debug)]
struct Pages {
    frames: Frames,
    next_beat: u64,
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
        let station = Station::new(id, move || Ok(ClanCard::new(options)), FRAMES, Vec::new())?;
        let mut frames = Frames::new(Rng::new(rng.next()), FRAMES);
        let command_page = frames.take(&station.memory);
        Driver::permit_page(&station, command_page);
        let driver = Mutex::new(Pages { frames, next_beat: 0 });
        let machine = Self { station, command_page, options, driver };
        machine.enable()?;
        Ok(machine)
    }

    fn driver(&self) -> MutexGuard<'_, Pages> {
        self.driver.lock().unwrap_or_else(PoisonError::into_inner)
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
        Driver::new(&self.station, self.command_page).command(opcode, index, body)
    }

    /// Allocates zeroed pages, and the driver's lists of them. Returns `None` if few are left.
    pub(super) fn allocate(&self, first: u64, length: u64) -> Option<Area> {
        let mut driver = self.driver();
        if driver.frames.left() < SPARE + ((first + length) / 4096) as usize {
            return None;
        }
        let area = Area::new(&self.memory, &mut driver.frames, first, length);
        area.permit_lists(&self.memory, true);
        Some(area)
    }

    /// Frees an area. If its rights were taken back, any later access of the card to it is
    /// detected.
    pub(super) fn give_back(&self, area: &Area) {
        let mut driver = self.driver();
        area.permit_lists(&self.memory, false);
        area.give_lists_back(&mut driver.frames);
        area.give_pages_back(&self.memory, &mut driver.frames);
    }

    /// Stores to a register of BAR 0.
    pub(super) fn set(&self, register: u32, value: u32) -> Result<(), Violation> {
        self.store(0, register.into(), 4, value.into())
    }

    /// Stores 8 bytes to a register of BAR 0.
    pub(super) fn set_long(&self, register: u32, value: u64) -> Result<(), Violation> {
        self.store(0, register.into(), 8, value)
    }

    /// Stores to an endpoint's page.
    pub(super) fn store_page(&self, page: u32, offset: u64, width: u8, value: u64) -> Result<(), Violation> {
        self.store(PAGES, u64::from(page) * u64::from(CLAN_ENDPOINT_SIZE) + offset, width, value)
    }

    /// Loads from BAR 2.
    pub(super) fn load_page(&self, page: u32, offset: u64, width: u8) -> Result<Reading, Violation> {
        let place = u64::from(page) * u64::from(CLAN_ENDPOINT_SIZE) + offset;
        self.set_asleep(false);
        self.with_card(|card, ports| card.register_read(ports, PAGES, place, width))
    }

    /// Returns whether the card takes a store now. If not, the processor stalls before it.
    pub(super) fn takes_stores(&self) -> Result<bool, Violation> {
        self.with_card(|card, _| card.takes_stores())
    }

    /// Returns the next load that has got its value.
    pub(super) fn late_reading(&self) -> Result<Option<(u64, u64)>, Violation> {
        self.with_card(|card, _| card.late_reading())
    }

    /// Does a heartbeat as the driver of a running host, several times in a period. It restarts the
    /// timer, and enables the card again if that was too late.
    pub(super) fn beat(&self) -> Result<(), Violation> {
        let (now, period) = (self.clock.milliseconds(), u64::from(self.options.handshake_ms));
        if period == 0 || now < self.driver().next_beat {
            return Ok(());
        }
        self.driver().next_beat = now + period / BEATS;
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
