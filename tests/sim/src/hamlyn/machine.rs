//! A host's machine: its card's station, and the driver's state and work there.
//!
//! It is shared by all parts of a host: the schedule, the driver, and the library of each process.

use std::ops::Deref;
use std::os::fd::OwnedFd;

use hamlyn_abi::family::control::*;
use hamlyn_abi::family::interrupts::ULN_VECTOR_LINK;
use hamlyn_abi::family::sleep::*;
use hamlyn_card_hamlyn::HamlynOptions;
use hamlyn_test_host::Commands;
use rustix::event::{EventfdFlags, eventfd};

use crate::engine::rng::Rng;
use crate::engine::station::Station;
use crate::engine::violation::{Violation, ensure};
use crate::engine::world::HasStation;
use crate::hamlyn::areas;
use crate::hamlyn::driver::Objects;
use crate::hamlyn::express::Express;
use crate::hamlyn::kernel::{Kernel, WellKnown};

/// Queues and termini for which the card has fired.
#[derive(Debug, Default)]
pub(super) struct Fired {
    pub(super) queues: Vec<u32>,
    pub(super) termini: Vec<u32>,
}

/// Heartbeats per period of the handshake timer.
const BEATS: u64 = 4;

/// Pages of a host's memory, and further ones with express memory, for what channels have of the
/// card.
const FRAMES: u64 = 208;
const FRAMES_OF_CHANNELS: u64 = 240;
/// A machine.
#[derive(Debug)]
pub(super) struct Machine {
    kernel: Kernel,
    /// A file that never becomes readable, for all objects of the library: the simulation itself
    /// decides when a program wakes.
    pub(super) unread: OwnedFd,
}

impl HasStation for Machine {
    fn station(&self) -> &Station {
        self
    }
}

impl Deref for Machine {
    type Target = Kernel;

    fn deref(&self) -> &Kernel {
        &self.kernel
    }
}

impl Machine {
    /// Creates a machine that is powered on. Its operating system handles connections if it has
    /// well-known slots.
    pub(super) fn new(
        id: u16,
        options: HamlynOptions,
        rng: &mut Rng,
        well_known: Option<WellKnown>,
        express: Option<Express>,
    ) -> Result<Self, Violation> {
        let frames = FRAMES + express.as_ref().map_or(0, |_| FRAMES_OF_CHANNELS);
        let objects = Objects::new(id, options, rng, frames)?;
        let unread = eventfd(0, EventfdFlags::CLOEXEC).map_err(Violation::new)?;
        let machine = Self { kernel: Kernel::new(objects, well_known, express), unread };
        machine.enable()?;
        Ok(machine)
    }

    /// Powers on the card as the driver.
    pub(super) fn enable(&self) -> Result<(), Violation> {
        self.driver().enable()?;
        self.tables().running = true;
        self.is_enabled_now();
        self.start_system()?;
        self.report_link();
        Ok(())
    }

    /// Notes that the card now takes packets, and that its handshake timer runs.
    fn is_enabled_now(&self) {
        let mut tables = self.tables();
        tables.enabled = true;
        tables.lapse = self.next_lapse();
    }

    /// Returns when the handshake timer expires if it is restarted now, in milliseconds.
    fn next_lapse(&self) -> Option<u64> {
        let period = u64::from(self.options.handshake_ms);
        (period != 0).then(|| self.clock.milliseconds() + period)
    }

    /// Does a heartbeat as the driver of a running host, several times in a period. It restarts the
    /// timer, then checks whether that was in time (section 2.8).
    pub(super) fn beat(&self) -> Result<(), Violation> {
        let now = self.clock.milliseconds();
        let mut tables = self.tables();
        if !tables.running || self.options.handshake_ms == 0 || now < tables.next_beat {
            return Ok(());
        }
        tables.next_beat = now + u64::from(self.options.handshake_ms) / BEATS;
        let enabled = tables.enabled;
        drop(tables);
        self.store(0, ULN_REG_HANDSHAKE.into(), 4, 1)?;
        if enabled {
            self.tables().lapse = self.next_lapse();
        } else {
            self.store(0, ULN_REG_CONTROL.into(), 4, ULN_CONTROL_ENABLE.into())?;
            self.is_enabled_now();
            self.note_lapse();
        }
        Ok(())
    }

    /// Gives the card its tick if it is due. Returns whether it was.
    pub(super) fn tick(&self) -> Result<bool, Violation> {
        let now = self.clock.milliseconds();
        if self.alarm().is_none_or(|alarm| alarm > now.into()) {
            return Ok(false);
        }
        let mut tables = self.tables();
        if tables.lapse.is_some_and(|lapse| lapse <= now) {
            (tables.enabled, tables.lapse, tables.has_lapsed) = (false, None, true);
        }
        let due = tables.enabled;
        drop(tables);
        let enabled = self.with_card(|card, ports| {
            card.tick(ports);
            card.is_enabled()
        })?;
        ensure(enabled == due, || {
            format!("host {}: the card is enabled: {enabled} (must be {due}) at {now} ms", self.id)
        })?;
        Ok(true)
    }

    /// Resets the card. All its objects are closed; the processes learn it from the driver.
    pub(super) fn reset(&self) -> Result<(), Violation> {
        self.store(0, ULN_REG_CONTROL.into(), 4, ULN_CONTROL_RESET.into())?;
        let mut tables = self.tables();
        (tables.enabled, tables.running, tables.lapse) = (false, false, None);
        tables.was_reset = true;
        drop(tables);
        self.stop_system()
    }

    /// Runs the driver's interrupt handler: it acknowledges the interrupts, then finds the queues
    /// and termini that fired. Returns `None` if there was no interrupt.
    pub(super) fn handle_interrupts(&self) -> Option<Fired> {
        let vectors = self.vectors.take();
        if vectors.iter().any(|vector| u32::from(*vector) == ULN_VECTOR_LINK) {
            self.report_link();
        }
        let mut fired = Fired::default();
        for vector in vectors.iter().map(|vector| u32::from(*vector)).filter(|v| *v != ULN_VECTOR_LINK) {
            self.acknowledge(vector);
            for queue in self.tables().queues_on(vector) {
                if self.armed(queue) == ULN_ARMED_FIRED {
                    self.set_armed(queue, ULN_ARMED_NO);
                    fired.queues.push(queue);
                }
            }
            for terminus in self.tables().termini_on(vector) {
                if self.take_fired(terminus) {
                    fired.termini.push(terminus);
                }
            }
        }
        (!vectors.is_empty()).then_some(fired)
    }

    /// Closes all objects of a process, as when its file is closed.
    pub(super) fn release(&self, pid: u64) -> Result<(), Violation> {
        areas::close_all_of(self, pid);
        self.kernel.release(pid)
    }
}
