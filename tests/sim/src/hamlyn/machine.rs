//! A host's machine: its card's station, and the driver's state and work there.
//!
//! It is shared by all parts of a host: the schedule, the driver, and the library of each process.

use std::ops::Deref;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hamlyn_abi::family::control::*;
use hamlyn_abi::family::interrupts::ULN_VECTOR_LINK;
use hamlyn_abi::family::sleep::*;
use hamlyn_abi::hamlyn::window::*;
use hamlyn_card::card::{BarKind, Card, Identity};
use hamlyn_card::ports::Window;
use hamlyn_card_hamlyn::{HamlynCard, HamlynOptions};
use hamlyn_sys::Mapping;
use hamlyn_test_host::Commands;
use rustix::event::{EventfdFlags, eventfd};

use crate::engine::driver::Driver;
use crate::engine::rng::Rng;
use crate::engine::station::Station;
use crate::engine::violation::{Violation, ensure};
use crate::engine::window::Pages;

use crate::hamlyn::express::Express;
use crate::hamlyn::mapping::mapping;
use crate::hamlyn::system::WellKnown;
use crate::hamlyn::tables::{OpenSlot, Tables};

/// Queues and termini for which the card has fired.
#[derive(Debug, Default)]
pub(crate) struct Fired {
    pub(crate) queues: Vec<u32>,
    pub(crate) termini: Vec<u32>,
}

/// Pages of a host's memory, and further ones with express memory, for what channels have of the
/// card.
const FRAMES: u64 = 208;
const FRAMES_OF_CHANNELS: u64 = 240;
/// Heartbeats per period of the handshake timer.
const BEATS: u64 = 4;

/// A machine.
#[derive(Debug)]
pub(crate) struct Machine {
    station: Station,
    pub(crate) options: HamlynOptions,
    /// The window of each terminus, as its owner maps it.
    pub(crate) windows_of_termini: Vec<Arc<Mapping>>,
    /// The mapped BAR.
    bar: u8,
    tables: Mutex<Tables>,
    pub(crate) well_known: Mutex<Option<WellKnown>>,
    /// Its driver has express memory.
    pub(crate) express: Option<Express>,
    command_page: u64,
    /// A file that never becomes readable, for all objects of the library: the simulation itself
    /// decides when a program wakes.
    pub(crate) unread: OwnedFd,
}

/// A machine is a station with its driver's state.
impl Deref for Machine {
    type Target = Station;

    fn deref(&self) -> &Station {
        &self.station
    }
}

impl Machine {
    /// Creates a machine that is powered on. Its operating system handles connections if it has
    /// well-known slots.
    pub(crate) fn new(
        id: u16,
        options: HamlynOptions,
        rng: &mut Rng,
        well_known: Option<WellKnown>,
        express: Option<Express>,
    ) -> Result<Self, Violation> {
        let card = HamlynCard::new(options).map_err(Violation::new)?;
        let (bar, pieces) = windows(&card.identity(), options.termini)?;
        let pages = Pages::new(bar, pieces.iter().map(|piece| piece.clone() as _));
        let slots = options.slots().map_err(Violation::new)?;
        let frames = FRAMES + express.as_ref().map_or(0, |_| FRAMES_OF_CHANNELS);
        let station = Station::new(id, Box::new(card), frames, vec![pages])?;
        let mut tables = Tables::new(Rng::new(rng.next()), options, slots, frames);
        let command_page = tables.frames.take(&station.memory);
        Driver::permit_page(&station, command_page);
        let machine = Self {
            station,
            options,
            windows_of_termini: pieces,
            bar,
            tables: Mutex::new(tables),
            well_known: Mutex::new(well_known),
            express,
            command_page,
            unread: eventfd(0, EventfdFlags::CLOEXEC).map_err(Violation::new)?,
        };
        machine.enable()?;
        Ok(machine)
    }

    /// Returns the objects that the driver has opened.
    pub(crate) fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a slot, if it is open.
    pub(crate) fn slot(&self, index: u32) -> Option<Arc<OpenSlot>> {
        self.tables().slots.get(index as usize).cloned().flatten()
    }

    /// Returns the number of requests that the card has finished, according to its status words.
    pub(crate) fn completed(&self, terminus: u32) -> u32 {
        let status = self.tables().termini[terminus as usize].as_ref().map(|terminus| terminus.status);
        status.map_or(0, |status| self.memory.peek_u32(status))
    }

    /// Returns the mapped BAR: each terminus's window, then the queue control area.
    fn window(&self) -> &Pages {
        self.windows.of(self.bar)
    }

    /// Powers on the card as the driver.
    pub(crate) fn enable(&self) -> Result<(), Violation> {
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
    pub(crate) fn beat(&self) -> Result<(), Violation> {
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
            self.well_known().iter_mut().for_each(|own| own.lapsed = true);
        }
        Ok(())
    }

    /// Gives the card its tick if it is due. Returns whether it was.
    pub(crate) fn tick(&self) -> Result<bool, Violation> {
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
    pub(crate) fn reset(&self) -> Result<(), Violation> {
        self.store(0, ULN_REG_CONTROL.into(), 4, ULN_CONTROL_RESET.into())?;
        let mut tables = self.tables();
        (tables.enabled, tables.running, tables.lapse) = (false, false, None);
        tables.was_reset = true;
        drop(tables);
        self.stop_system()
    }

    pub(crate) fn command_page(&self) -> u64 {
        self.command_page
    }

    pub(crate) fn driver(&self) -> Driver<'_> {
        Driver::new(&self.station, self.command_page)
    }

    /// Puts the last of `tail` requests into a work queue, and rings if the card sleeps.
    pub(crate) fn post(&self, terminus: u32, tail: u32, entry: &[u8]) -> Result<(), Violation> {
        let window = u64::from(terminus) * u64::from(HAMLYN_WINDOW_SIZE);
        let index = u64::from(tail.wrapping_sub(1) % HAMLYN_WORK_QUEUE_ENTRIES);
        let at = window + u64::from(HAMLYN_WINDOW_WORK_QUEUE) + index * u64::from(HAMLYN_ENTRY_SIZE);
        self.window().poke(at, entry);
        self.window().store(window + u64::from(HAMLYN_WINDOW_TAIL), tail);
        let sleeps = self.window().load(window + u64::from(HAMLYN_WINDOW_AWAKE)) == 0;
        if sleeps { self.ring(terminus) } else { Ok(()) }
    }

    pub(crate) fn ring(&self, terminus: u32) -> Result<(), Violation> {
        self.store(4, u64::from(terminus) * u64::from(HAMLYN_DOORBELL_SIZE), 4, 1)
    }

    fn queue_control(&self) -> u64 {
        u64::from(self.options.termini) * u64::from(HAMLYN_WINDOW_SIZE)
    }

    fn armed_word(&self, queue: u32) -> u64 {
        self.queue_control()
            + u64::from(HAMLYN_QUEUE_CONTROL_ARMED)
            + u64::from(queue) * u64::from(ULN_ARMED_STRIDE)
    }

    fn pending_word(&self, vector: u32) -> u64 {
        self.queue_control()
            + u64::from(HAMLYN_QUEUE_CONTROL_PENDING)
            + u64::from(vector) * u64::from(ULN_PENDING_STRIDE)
    }

    pub(crate) fn armed(&self, queue: u32) -> u32 {
        self.window().load(self.armed_word(queue))
    }

    pub(crate) fn set_armed(&self, queue: u32, value: u32) {
        self.window().store(self.armed_word(queue), value);
    }

    /// Returns the offset of a terminus's words in the terminus control area.
    fn terminus_words(&self, terminus: u32) -> u64 {
        let queues = u64::from(self.options.queues.div_ceil(512)) * u64::from(HAMLYN_QUEUE_CONTROL_SIZE);
        self.queue_control() + queues + u64::from(terminus * HAMLYN_TERMINUS_CONTROL_STRIDE)
    }

    /// Makes the card interrupt once `wanted` requests of a terminus are finished, modulo 2^32.
    /// Returns `true` if they already are.
    pub(crate) fn arm_terminus(&self, terminus: u32, wanted: u32) -> bool {
        let words = self.terminus_words(terminus);
        self.window().store(words + u64::from(HAMLYN_TERMINUS_WANTED), wanted);
        self.window().store(words + u64::from(HAMLYN_TERMINUS_ARMED), ULN_ARMED_YES);
        let ready = self.completed(terminus).wrapping_sub(wanted) as i32 >= 0;
        if ready {
            self.window().store(words + u64::from(HAMLYN_TERMINUS_ARMED), ULN_ARMED_NO);
        }
        ready
    }

    /// Takes note if the card has fired for a sleeper on a terminus. Returns whether it has.
    fn take_fired(&self, terminus: u32) -> bool {
        let armed = self.terminus_words(terminus) + u64::from(HAMLYN_TERMINUS_ARMED);
        let fired = self.window().load(armed) == ULN_ARMED_FIRED;
        if fired {
            self.window().store(armed, ULN_ARMED_NO);
        }
        fired
    }

    pub(crate) fn pending(&self, vector: u32) -> u32 {
        self.window().load(self.pending_word(vector))
    }

    /// Runs the driver's interrupt handler: it acknowledges the interrupts, then finds the queues
    /// and termini that fired. Returns `None` if there was no interrupt.
    pub(crate) fn handle_interrupts(&self) -> Option<Fired> {
        let vectors = self.vectors.take();
        if vectors.iter().any(|vector| u32::from(*vector) == ULN_VECTOR_LINK) {
            self.report_link();
        }
        let mut fired = Fired::default();
        for vector in vectors.iter().map(|vector| u32::from(*vector)).filter(|v| *v != ULN_VECTOR_LINK) {
            self.window().store(self.pending_word(vector), 0);
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
}

/// Returns the index of the mapped BAR, and its pieces: a window for each terminus, then the
/// control areas.
fn windows(identity: &Identity, termini: u32) -> Result<(u8, Vec<Arc<Mapping>>), Violation> {
    let mapped = identity.bars.iter().find_map(|bar| match bar.kind {
        BarKind::Window { used } => Some((bar.index, used)),
        BarKind::Registers => None,
    });
    let (bar, used) = mapped.ok_or_else(|| Violation::new("the card has no window"))?;
    let each = u64::from(HAMLYN_WINDOW_SIZE);
    let control = mapping(used - u64::from(termini) * each)?;
    // The card itself clears a terminus's window when it opens the terminus.
    control.write(0, &vec![0; control.length()]);
    let windows = (0..termini).map(|_| mapping(each)).collect::<Result<Vec<_>, _>>()?;
    Ok((bar, windows.into_iter().chain([control]).collect()))
}
