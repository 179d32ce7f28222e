//! A card's station, and a driver's access to it: commands, the mapped windows, doorbells and the
//! words by which programs sleep.

use std::ops::Deref;
use std::sync::Arc;

use hamlyn_abi::family::sleep::*;
use hamlyn_abi::hamlyn::window::*;
use hamlyn_card::card::{BarKind, Card, Identity};
use hamlyn_card::ports::Window;
use hamlyn_card_hamlyn::{HamlynCard, HamlynOptions};
use hamlyn_sys::Mapping;

use crate::engine::driver::Driver;
use crate::engine::memory::Memory;
use crate::engine::station::Station;
use crate::engine::violation::Violation;
use crate::engine::window::Pages;
use crate::hamlyn::mapping::mapping;

/// A card's station, and its driver's access to it.
#[derive(Debug)]
pub(super) struct Access {
    station: Station,
    pub(super) options: HamlynOptions,
    /// The window of each terminus, as its owner maps it.
    pub(super) windows_of_termini: Vec<Arc<Mapping>>,
    /// The mapped BAR.
    bar: u8,
    command_page: u64,
}

impl Deref for Access {
    type Target = Station;

    fn deref(&self) -> &Station {
        &self.station
    }
}

impl Access {
    /// Creates a station with a card that is off, in a machine with `frames` pages. `take_page`
    /// takes a free one, for commands.
    pub(super) fn new(
        id: u16,
        options: HamlynOptions,
        frames: u64,
        take_page: impl FnOnce(&Memory) -> u64,
    ) -> Result<Self, Violation> {
        let card = move || HamlynCard::new(options).map_err(Violation::new);
        let (bar, windows_of_termini) = windows(&card()?.identity(), options.termini)?;
        let pages = Pages::new(bar, windows_of_termini.iter().map(|piece| piece.clone() as _));
        let station = Station::new(id, card, frames, vec![pages])?;
        let command_page = take_page(&station.memory);
        Driver::permit_page(&station, command_page);
        Ok(Self { station, options, windows_of_termini, bar, command_page })
    }

    /// Returns the mapped BAR: each terminus's window, then the queue control area.
    fn window(&self) -> &Pages {
        self.windows.of(self.bar)
    }

    pub(super) fn command_page(&self) -> u64 {
        self.command_page
    }

    pub(super) fn driver(&self) -> Driver<'_> {
        Driver::new(&self.station, self.command_page)
    }

    /// Puts the last of `tail` requests into a work queue, and rings if the card sleeps.
    pub(super) fn post(&self, terminus: u32, tail: u32, entry: &[u8]) -> Result<(), Violation> {
        let window = u64::from(terminus) * u64::from(HAMLYN_WINDOW_SIZE);
        let index = u64::from(tail.wrapping_sub(1) % HAMLYN_WORK_QUEUE_ENTRIES);
        let at = window + u64::from(HAMLYN_WINDOW_WORK_QUEUE) + index * u64::from(HAMLYN_ENTRY_SIZE);
        self.window().poke(at, entry);
        self.window().store(window + u64::from(HAMLYN_WINDOW_TAIL), tail);
        let sleeps = self.window().load(window + u64::from(HAMLYN_WINDOW_AWAKE)) == 0;
        if sleeps { self.ring(terminus) } else { Ok(()) }
    }

    pub(super) fn ring(&self, terminus: u32) -> Result<(), Violation> {
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

    pub(super) fn armed(&self, queue: u32) -> u32 {
        self.window().load(self.armed_word(queue))
    }

    pub(super) fn set_armed(&self, queue: u32, value: u32) {
        self.window().store(self.armed_word(queue), value);
    }

    /// Returns the offset of a terminus's words in the terminus control area.
    fn terminus_words(&self, terminus: u32) -> u64 {
        let queues = u64::from(self.options.queues.div_ceil(512)) * u64::from(HAMLYN_QUEUE_CONTROL_SIZE);
        self.queue_control() + queues + u64::from(terminus * HAMLYN_TERMINUS_CONTROL_STRIDE)
    }

    /// Takes note if the card has fired for a sleeper on a terminus. Returns whether it has.
    pub(super) fn take_fired(&self, terminus: u32) -> bool {
        let armed = self.terminus_words(terminus) + u64::from(HAMLYN_TERMINUS_ARMED);
        let fired = self.window().load(armed) == ULN_ARMED_FIRED;
        if fired {
            self.window().store(armed, ULN_ARMED_NO);
        }
        fired
    }

    /// Makes the card interrupt once `wanted` requests of a terminus are finished, modulo 2^32.
    /// `is_ready` is queried after that: if they already are, the card is told not to.
    pub(super) fn arm_terminus_unless(
        &self,
        terminus: u32,
        wanted: u32,
        is_ready: impl FnOnce() -> bool,
    ) -> bool {
        let words = self.terminus_words(terminus);
        self.window().store(words + u64::from(HAMLYN_TERMINUS_WANTED), wanted);
        self.window().store(words + u64::from(HAMLYN_TERMINUS_ARMED), ULN_ARMED_YES);
        let ready = is_ready();
        if ready {
            self.window().store(words + u64::from(HAMLYN_TERMINUS_ARMED), ULN_ARMED_NO);
        }
        ready
    }

    pub(super) fn pending(&self, vector: u32) -> u32 {
        self.window().load(self.pending_word(vector))
    }

    /// Notes that the driver handles an interrupt of a vector.
    pub(super) fn acknowledge(&self, vector: u32) {
        self.window().store(self.pending_word(vector), 0);
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
