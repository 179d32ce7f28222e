//! A host's machine: the real card, the memory and lines that it reaches, and what the driver knows.
//!
//! It is shared by all that a host runs, as a machine is: the schedule, the driver, and the library of each process. One
//! thread does it all, so no lock is ever waited for.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hamlyn_abi::family::command::{
    HAMLYN_COMMAND_BODY, HAMLYN_REG_COMMAND_GO, HAMLYN_REG_COMMAND_PAGE, HAMLYN_STATUS_OK, HamlynCommand,
};
use hamlyn_abi::family::control::*;
use hamlyn_abi::family::interrupts::HAMLYN_VECTOR_LINK;
use hamlyn_abi::family::sleep::*;
use hamlyn_abi::hamlyn::window::*;
use hamlyn_card::card::{BarKind, Card, Place};
use hamlyn_card::ports::{Ports, Window};
use hamlyn_card_hamlyn::{HamlynCard, HamlynOptions};
use zerocopy::{Immutable, IntoBytes};

use crate::clock::SimClock;
use crate::driver::Tables;
use crate::memory::{Memory, PAGE, Right};
use crate::rng::Rng;
use crate::system::WellKnown;
use crate::violation::{Violation, ensure};
use crate::window::{Pages, Vectors};

/// For whom the card has fired.
#[derive(Debug, Default)]
pub(crate) struct Fired {
    pub(crate) queues: Vec<u32>,
    pub(crate) termini: Vec<u32>,
}

/// Heartbeats in a period of the handshake timer.
const BEATS: u64 = 4;

/// A card and its surroundings.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) id: u16,
    pub(crate) options: HamlynOptions,
    pub(crate) memory: Memory,
    pub(crate) window: Pages,
    pub(crate) vectors: Vectors,
    pub(crate) clock: SimClock,
    card: Mutex<HamlynCard>,
    tables: Mutex<Tables>,
    pub(crate) well_known: Mutex<Option<WellKnown>>,
    command_page: u64,
    /// The card's process waits for its bell or for a doorbell.
    asleep: AtomicBool,
}

impl Machine {
    /// A machine that has been switched on. Its operating system has to do with connections if it has well-known slots.
    pub(crate) fn new(
        id: u16,
        options: HamlynOptions,
        rng: &mut Rng,
        well_known: Option<WellKnown>,
    ) -> Result<Self, Violation> {
        let card = HamlynCard::new(options).map_err(Violation::new)?;
        let used = card.identity().bars.iter().find_map(|bar| match bar.kind {
            BarKind::Window { used } => Some(used),
            BarKind::Registers => None,
        });
        let slots = options.slots().map_err(Violation::new)?;
        let memory = Memory::new()?;
        let mut tables = Tables::new(Rng::new(rng.next()), options, slots);
        let command_page = tables.frames.take(&memory);
        for right in [Right::Read, Right::Write] {
            memory.permit(right, command_page, PAGE, true);
        }
        let machine = Self {
            id,
            options,
            memory,
            window: Pages::new(options.termini, used.unwrap_or(0))?,
            vectors: Vectors::default(),
            clock: SimClock::default(),
            card: Mutex::new(card),
            tables: Mutex::new(tables),
            well_known: Mutex::new(well_known),
            command_page,
            asleep: AtomicBool::new(false),
        };
        machine.enable()?;
        Ok(machine)
    }

    /// What the driver has opened.
    pub(crate) fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn card(&self) -> MutexGuard<'_, HamlynCard> {
        self.card.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls the card, and finds out whether it did what it must not.
    pub(crate) fn with_card<T>(
        &self,
        verb: impl FnOnce(&mut HamlynCard, &Ports<'_>) -> T,
    ) -> Result<T, Violation> {
        let ports =
            Ports { dma: &self.memory, windows: &self.window, interrupt: &self.vectors, clock: &self.clock };
        let result = verb(&mut self.card(), &ports);
        match self.memory.take_complaint() {
            Some(complaint) => Err(Violation::new(format!("host {}: {complaint}", self.id))),
            None => Ok(result),
        }
    }

    /// Whether the card's process waits for its bell or for a doorbell.
    pub(crate) fn is_asleep(&self) -> bool {
        self.asleep.load(Ordering::Relaxed)
    }

    pub(crate) fn set_asleep(&self, asleep: bool) {
        self.asleep.store(asleep, Ordering::Relaxed);
    }

    /// A trapped store: a message to the card's process, which wakes it.
    fn store(&self, bar: u8, offset: u64, width: u8, value: u64) -> Result<(), Violation> {
        self.set_asleep(false);
        self.with_card(|card, ports| card.register_write(ports, bar, offset, width, value))
    }

    pub(crate) fn load(&self, register: u32) -> Result<u32, Violation> {
        self.with_card(|card, ports| {
            card.register_read(ports, 0, register.into(), 4).now().unwrap_or(0) as u32
        })
    }

    /// What the driver does with a card at power-on.
    pub(crate) fn enable(&self) -> Result<(), Violation> {
        self.store(0, HAMLYN_REG_COMMAND_PAGE.into(), 8, self.command_page)?;
        self.store(0, HAMLYN_REG_CONTROL.into(), 4, HAMLYN_CONTROL_ENABLE.into())?;
        self.tables().running = true;
        self.is_enabled_now();
        self.start_system()?;
        self.report_link();
        Ok(())
    }

    /// The card takes packets from now on, and its handshake timer runs.
    fn is_enabled_now(&self) {
        let mut tables = self.tables();
        tables.enabled = true;
        tables.lapse = self.next_lapse();
    }

    /// When the handshake timer runs out if it is restarted now, in milliseconds.
    fn next_lapse(&self) -> Option<u64> {
        let period = u64::from(self.options.handshake_ms);
        (period != 0).then(|| self.clock.milliseconds() + period)
    }

    /// What the driver of a host that runs does, some times in a period: restarts the timer, then looks whether that was
    /// in time (section 2.8).
    pub(crate) fn beat(&self) -> Result<(), Violation> {
        let now = self.clock.milliseconds();
        let mut tables = self.tables();
        if !tables.running || self.options.handshake_ms == 0 || now < tables.next_beat {
            return Ok(());
        }
        tables.next_beat = now + u64::from(self.options.handshake_ms) / BEATS;
        let enabled = tables.enabled;
        drop(tables);
        self.store(0, HAMLYN_REG_HANDSHAKE.into(), 4, 1)?;
        if enabled {
            self.tables().lapse = self.next_lapse();
        } else {
            self.store(0, HAMLYN_REG_CONTROL.into(), 4, HAMLYN_CONTROL_ENABLE.into())?;
            self.is_enabled_now();
            self.well_known().iter_mut().for_each(|own| own.lapsed = true);
        }
        Ok(())
    }

    /// The card's process gives the card the tick that it asked for, if it is time. Returns whether it was.
    pub(crate) fn tick(&self) -> Result<bool, Violation> {
        let now = self.clock.milliseconds();
        if self.with_card(|card, _| card.alarm())?.is_none_or(|alarm| alarm.as_millis() > now.into()) {
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

    /// Resets the card. Everything in it is closed; the processes find out from the driver.
    pub(crate) fn reset(&self) -> Result<(), Violation> {
        self.store(0, HAMLYN_REG_CONTROL.into(), 4, HAMLYN_CONTROL_RESET.into())?;
        let mut tables = self.tables();
        (tables.enabled, tables.running, tables.lapse) = (false, false, None);
        tables.was_reset = true;
        drop(tables);
        self.stop_system()
    }

    pub(crate) fn set_link_state(&self, up: bool) -> Result<(), Violation> {
        self.set_asleep(false);
        let place = up.then_some(Place { host: self.id, ports: 0 });
        self.with_card(|card, ports| card.link_changed(ports, place))
    }

    /// Runs a command that must succeed.
    pub(crate) fn command(
        &self,
        opcode: u32,
        index: u32,
        body: &(impl IntoBytes + Immutable),
    ) -> Result<(), Violation> {
        let head = HamlynCommand { opcode, index, ..Default::default() };
        self.memory.poke(self.command_page, head.as_bytes());
        self.memory.poke(self.command_page + u64::from(HAMLYN_COMMAND_BODY), body.as_bytes());
        self.store(0, HAMLYN_REG_COMMAND_GO.into(), 4, 1)?;
        let status = self.memory.peek_u32(self.command_page + 8);
        ensure(status == HAMLYN_STATUS_OK, || {
            format!("host {}: command {opcode} on {index} was refused with status {status}", self.id)
        })
    }

    /// Puts the last of `tail` requests into a work queue, and rings if the card sleeps.
    pub(crate) fn post(&self, terminus: u32, tail: u32, entry: &[u8]) -> Result<(), Violation> {
        let window = u64::from(terminus) * u64::from(HAMLYN_WINDOW_SIZE);
        let index = u64::from(tail.wrapping_sub(1) % HAMLYN_WORK_QUEUE_ENTRIES);
        let at = window + u64::from(HAMLYN_WINDOW_WORK_QUEUE) + index * u64::from(HAMLYN_ENTRY_SIZE);
        self.window.poke(at, entry);
        self.window.store(window + u64::from(HAMLYN_WINDOW_TAIL), tail);
        let sleeps = self.window.load(window + u64::from(HAMLYN_WINDOW_AWAKE)) == 0;
        if sleeps { self.ring(terminus) } else { Ok(()) }
    }

    pub(crate) fn ring(&self, terminus: u32) -> Result<(), Violation> {
        self.store(4, u64::from(terminus) * u64::from(HAMLYN_DOORBELL_SIZE), 4, 1)
    }

    /// The card's counters, by number.
    pub(crate) fn counters(&self) -> Vec<u64> {
        self.card().counters().into_iter().map(|(_, count)| count).collect()
    }

    fn queue_control(&self) -> u64 {
        u64::from(self.options.termini) * u64::from(HAMLYN_WINDOW_SIZE)
    }

    fn armed_word(&self, queue: u32) -> u64 {
        self.queue_control()
            + u64::from(HAMLYN_QUEUE_CONTROL_ARMED)
            + u64::from(queue) * u64::from(HAMLYN_ARMED_STRIDE)
    }

    fn pending_word(&self, vector: u32) -> u64 {
        self.queue_control()
            + u64::from(HAMLYN_QUEUE_CONTROL_PENDING)
            + u64::from(vector) * u64::from(HAMLYN_PENDING_STRIDE)
    }

    pub(crate) fn armed(&self, queue: u32) -> u32 {
        self.window.load(self.armed_word(queue))
    }

    pub(crate) fn set_armed(&self, queue: u32, value: u32) {
        self.window.store(self.armed_word(queue), value);
    }

    /// Where a terminus' words in the terminus control area are.
    fn terminus_words(&self, terminus: u32) -> u64 {
        let queues = u64::from(self.options.queues.div_ceil(512)) * u64::from(HAMLYN_QUEUE_CONTROL_SIZE);
        self.queue_control() + queues + u64::from(terminus * HAMLYN_TERMINUS_CONTROL_STRIDE)
    }

    /// Has the card interrupt once so many requests of a terminus are finished, modulo 2^32. `true`: they are already.
    pub(crate) fn arm_terminus(&self, terminus: u32, wanted: u32) -> bool {
        let words = self.terminus_words(terminus);
        self.window.store(words + u64::from(HAMLYN_TERMINUS_WANTED), wanted);
        self.window.store(words + u64::from(HAMLYN_TERMINUS_ARMED), HAMLYN_ARMED_YES);
        let ready = self.completed(terminus).wrapping_sub(wanted) as i32 >= 0;
        if ready {
            self.window.store(words + u64::from(HAMLYN_TERMINUS_ARMED), HAMLYN_ARMED_NO);
        }
        ready
    }

    /// Takes note that the card has fired for who sleeps on a terminus.
    fn take_fired(&self, terminus: u32) -> bool {
        let armed = self.terminus_words(terminus) + u64::from(HAMLYN_TERMINUS_ARMED);
        let fired = self.window.load(armed) == HAMLYN_ARMED_FIRED;
        if fired {
            self.window.store(armed, HAMLYN_ARMED_NO);
        }
        fired
    }

    pub(crate) fn pending(&self, vector: u32) -> u32 {
        self.window.load(self.pending_word(vector))
    }

    /// The driver's interrupt handler: says that it has seen the interrupts, then finds out which queues and termini fired.
    /// Returns them, or none if there was no interrupt.
    pub(crate) fn handle_interrupts(&self) -> Option<Fired> {
        let vectors = self.vectors.take();
        if vectors.iter().any(|vector| u32::from(*vector) == HAMLYN_VECTOR_LINK) {
            self.report_link();
        }
        let mut fired = Fired::default();
        for vector in vectors.iter().map(|vector| u32::from(*vector)).filter(|v| *v != HAMLYN_VECTOR_LINK) {
            self.window.store(self.pending_word(vector), 0);
            for queue in self.tables().queues_on(vector) {
                if self.armed(queue) == HAMLYN_ARMED_FIRED {
                    self.set_armed(queue, HAMLYN_ARMED_NO);
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
