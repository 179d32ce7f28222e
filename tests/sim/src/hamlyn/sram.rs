//! The memory of a card, as far as the driver knows it: where the card says that each open object lies.
//!
//! The oracle has no list of free pieces. It looks at each unit, and so says exactly when the card must be full.

use std::collections::BTreeMap;

use hamlyn_abi::family::area::HamlynArea;
use hamlyn_abi::family::command::{HAMLYN_COMMAND_BODY, HAMLYN_STATUS_MEMORY_FULL};
use hamlyn_abi::hamlyn::command::{HAMLYN_NO_QUEUE, HamlynOpenSlot, HamlynOpenTerminus};
use hamlyn_abi::hamlyn::notification::{HAMLYN_NOTIFICATION_SIZE, HAMLYN_QUEUE_MIN_ENTRIES};
use hamlyn_abi::hamlyn::registers::{HAMLYN_REG_SRAM_FREE, HAMLYN_REG_SRAM_LONGEST};
use hamlyn_abi::hamlyn::sram::*;
use hamlyn_card_hamlyn::HamlynOptions;
use hamlyn_test_host::Refusal;
use hamlyn_test_host::hamlyn::HamlynCommands;

use crate::engine::rng::Rng;
use crate::engine::violation::{Violation, ensure};
use crate::hamlyn::machine::Machine;
use crate::hamlyn::tables::{Tables, vacancy};
use crate::hamlyn::world::World;

/// What has bytes of the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Object {
    Terminus,
    Queue,
    Slot,
}

impl Object {
    fn bytes(self) -> u32 {
        match self {
            Object::Terminus => HAMLYN_SRAM_TERMINUS,
            Object::Queue => HAMLYN_SRAM_QUEUE,
            Object::Slot => HAMLYN_SRAM_SLOT,
        }
    }
}

/// What is open, and where.
#[derive(Debug)]
pub(crate) struct Sram {
    directory: u32,
    size: u32,
    places: BTreeMap<(Object, u32), HamlynSramPlace>,
}

impl Sram {
    pub(crate) fn new(options: &HamlynOptions, slots: u32) -> Self {
        let numbers = options.termini + options.queues + slots;
        let directory = (numbers * HAMLYN_SRAM_NUMBER).next_multiple_of(HAMLYN_SRAM_UNIT);
        Self { directory, size: options.sram_size, places: BTreeMap::new() }
    }

    /// Bytes of the longest free piece, and of all of them.
    fn left(&self) -> (u32, u32) {
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

    pub(crate) fn has_room_for(&self, object: Object) -> bool {
        self.left().0 >= object.bytes()
    }

    /// Whether a process can have a terminus and a queue.
    pub(crate) fn has_room_for_process(&self) -> bool {
        self.left().0 >= HAMLYN_SRAM_TERMINUS + HAMLYN_SRAM_QUEUE
    }

    /// The object is closed.
    pub(crate) fn forget(&mut self, object: Object, index: u32) {
        self.places.remove(&(object, index));
    }

    fn enter(&mut self, object: Object, index: u32, place: HamlynSramPlace) -> Result<(), Violation> {
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

impl Machine {
    /// Whether the card's memory has a piece for an object. If it has none, the card must refuse to open one, and say so.
    pub(crate) fn has_memory(&self, tables: &Tables, object: Object, index: u32) -> Result<bool, Violation> {
        if tables.sram.has_room_for(object) {
            return Ok(true);
        }
        let mut driver = self.driver();
        let area = HamlynArea { length: 1, ..HamlynArea::default() };
        let answer = match object {
            Object::Terminus => {
                driver.open_terminus(index, &HamlynOpenTerminus { weight: 1, ..Default::default() })
            }
            Object::Queue => {
                let entries = HAMLYN_QUEUE_MIN_ENTRIES;
                let area = HamlynArea { length: (entries * HAMLYN_NOTIFICATION_SIZE).into(), ..area };
                driver.open_queue(index, area, entries, 1)
            }
            Object::Slot => driver
                .open_slot(index, &HamlynOpenSlot { area, queue: HAMLYN_NO_QUEUE, ..Default::default() }),
        }?;
        let (status, limit) = (HAMLYN_STATUS_MEMORY_FULL, tables.sram.left().1.into());
        let full = Refusal { status, value: object.bytes().into(), limit };
        ensure(answer == Err(full), || {
            format!("host {}: {object:?} {index} in full memory: {answer:?} (must be {full:?})", self.id)
        })?;
        Ok(false)
    }

    /// Notes where the card says that the object lies which it has just opened.
    pub(crate) fn note_place(
        &self,
        tables: &mut Tables,
        object: Object,
        index: u32,
    ) -> Result<(), Violation> {
        let at = self.command_page() + u64::from(HAMLYN_COMMAND_BODY);
        let (address, bytes) = (self.memory.peek_u32(at), self.memory.peek_u32(at + 4));
        tables.sram.enter(object, index, HamlynSramPlace { address, bytes })?;
        self.check_memory(tables)
    }

    /// The card's registers agree with what is open.
    fn check_memory(&self, tables: &Tables) -> Result<(), Violation> {
        let read = (self.load(HAMLYN_REG_SRAM_LONGEST)?, self.load(HAMLYN_REG_SRAM_FREE)?);
        let left = tables.sram.left();
        ensure(read == left, || {
            format!("host {}: longest piece and free bytes are {read:?} (must be {left:?})", self.id)
        })
    }

    /// Opens slots until the card's memory is full, or all slots are, and closes them in any order. Nothing else happens
    /// meanwhile. Returns whether the memory was full.
    pub(crate) fn fill_memory(&self, rng: &mut Rng) -> Result<bool, Violation> {
        let mut tables = self.tables();
        let area = HamlynArea { length: 1, ..HamlynArea::default() };
        let body = HamlynOpenSlot { area, queue: HAMLYN_NO_QUEUE, ..Default::default() };
        let mut own = Vec::new();
        let is_full = loop {
            let free: Vec<u32> = (0..tables.slots.len() as u32)
                .filter(|index| tables.slots[*index as usize].is_none() && !own.contains(index))
                .collect();
            let Some(index) = rng.pick(&free) else { break false };
            if !self.has_memory(&tables, Object::Slot, index)? {
                break true;
            }
            let what = format_args!("to open slot {index}");
            self.driver().must(what, |driver| driver.open_slot(index, &body))?;
            self.note_place(&mut tables, Object::Slot, index)?;
            own.push(index);
        };
        if let Some(index) = vacancy(&tables.termini, rng) {
            if !tables.sram.has_room_for(Object::Terminus) {
                self.has_memory(&tables, Object::Terminus, index)?;
            }
        }
        while !own.is_empty() {
            let index = own.swap_remove(rng.index(own.len()));
            self.driver().must(format_args!("to close slot {index}"), |driver| driver.close_slot(index))?;
            tables.sram.forget(Object::Slot, index);
            self.check_memory(&tables)?;
        }
        Ok(is_full)
    }
}

impl World {
    /// The memory of a card is filled and emptied again.
    pub(crate) fn fill_memory(&mut self) -> Result<(), Violation> {
        let host = self.rng.index(self.hosts.len());
        let machine = self.hosts[host].machine.clone();
        if machine.tables().running && machine.fill_memory(&mut self.rng)? {
            self.model.filled += 1;
            self.note(|| format!("host {host}: the card's memory was full"));
        }
        Ok(())
    }
}
