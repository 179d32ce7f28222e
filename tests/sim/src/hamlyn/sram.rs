//! The memory of a card from the driver's view: where the card reports each open object to be.
//!
//! This model has no list of free pieces. It checks each unit, and so knows exactly when the card
//! must be full.

use std::collections::BTreeMap;

use hamlyn_abi::hamlyn::sram::*;
use hamlyn_card_hamlyn::HamlynOptions;

use crate::engine::violation::{Violation, ensure};

/// A kind of object in the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Object {
    Terminus,
    Queue,
    Slot,
}

impl Object {
    pub(super) fn bytes(self) -> u32 {
        match self {
            Object::Terminus => HAMLYN_SRAM_TERMINUS,
            Object::Queue => HAMLYN_SRAM_QUEUE,
            Object::Slot => HAMLYN_SRAM_SLOT,
        }
    }
}

/// The open objects, and their places.
#[derive(Debug)]
pub(super) struct Sram {
    directory: u32,
    size: u32,
    places: BTreeMap<(Object, u32), HamlynSramPlace>,
}

impl Sram {
    pub(super) fn new(options: &HamlynOptions, slots: u32) -> Self {
        let numbers = options.termini + options.queues + slots;
        let directory = (numbers * HAMLYN_SRAM_NUMBER).next_multiple_of(HAMLYN_SRAM_UNIT);
        Self { directory, size: options.sram_size, places: BTreeMap::new() }
    }

    /// Returns the bytes of the longest free piece, and of all free pieces.
    pub(super) fn left(&self) -> (u32, u32) {
        let (mut longest, mut run, mut all) = (0, 0, 0);
        for at in (self.directory..self.size).step_by(HAMLYN_SRAM_UNIT as usize) {
            let taken =
                self.places.values().any(|place| (place.address..place.address + place.bytes).contains(&at));
            run = if taken { 0 } else { run + HAMLYN_SRAM_UNIT };
            all += if taken { 0 } else { HAMLYN_SRAM_UNIT };
            longest = longest.max(run);
        }
        (longest, all)
    }

    pub(super) fn has_room_for(&self, object: Object) -> bool {
        self.left().0 >= object.bytes()
    }

    /// Returns whether a process can have a terminus and a queue.
    pub(super) fn has_room_for_process(&self) -> bool {
        self.left().0 >= HAMLYN_SRAM_TERMINUS + HAMLYN_SRAM_QUEUE
    }

    /// Notes that an object is closed.
    pub(super) fn forget(&mut self, object: Object, index: u32) {
        self.places.remove(&(object, index));
    }

    /// Notes the place of an object that was opened.
    pub(super) fn enter(
        &mut self,
        object: Object,
        index: u32,
        place: HamlynSramPlace,
    ) -> Result<(), Violation> {
        let (start, end) = (place.address, place.address.saturating_add(place.bytes));
        ensure(place.bytes == object.bytes() && start >= self.directory && end <= self.size, || {
            format!("{object:?} {index} lies at {place:?}: behind {} of {}", self.directory, self.size)
        })?;
        let other =
            self.places.iter().find(|(_, other)| start < other.address + other.bytes && other.address < end);
        ensure(other.is_none(), || format!("{object:?} {index} lies at {place:?}, where {other:?} is"))?;
        self.places.insert((object, index), place);
        Ok(())
    }
}
