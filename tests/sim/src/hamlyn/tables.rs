//! The objects that the driver has opened, and what the card may access while they are open. The
//! judge uses these tables, not the card's own state.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hamlyn_abi::hamlyn::metadata::HAMLYN_METADATA_SIZE;
use hamlyn_abi::hamlyn::notification::HAMLYN_NOTIFICATION_SIZE;
use hamlyn_card_hamlyn::HamlynOptions;

use crate::engine::area::{Area, Frames};
use crate::engine::memory::{Memory, Right};
use crate::engine::rng::Rng;
use crate::hamlyn::sram::{Object, Sram};

/// A terminus as the driver opened it.
#[derive(Debug, Clone)]
pub(super) struct OpenTerminus {
    pub(super) pid: u64,
    /// Address of its status words.
    pub(super) status: u64,
    pub(super) send: BTreeMap<u32, Arc<Area>>,
    /// The vector that wakes an owner which sleeps until requests are finished.
    pub(super) vector: u32,
}

/// A slot as the driver opened it.
#[derive(Debug, Clone)]
pub(super) struct OpenSlot {
    pub(super) pid: u64,
    pub(super) area: Area,
    pub(super) metadata: Option<Area>,
    pub(super) entries: u32,
    pub(super) pointer: u64,
    pub(super) key: u64,
    pub(super) mode: u32,
    pub(super) queue: u32,
    pub(super) notification_index: u32,
    pub(super) interrupt: bool,
    /// Senders that may write may also fetch-and-op.
    pub(super) fetch: bool,
    /// Its owner has made the key public, and scribbles on its metadata.
    pub(super) prey: bool,
    /// It takes only packets of this host's operating system (section 6.3).
    pub(super) privileged: Option<u16>,
    /// It belongs to the library's upper layer: messages to it are checked by what the streams
    /// there deliver.
    pub(super) streams: bool,
}

/// A notification queue as the driver opened it, and the card's expected position in it.
#[derive(Debug, Clone)]
pub(super) struct OpenQueue {
    pub(super) pid: u64,
    pub(super) area: Area,
    pub(super) entries: u32,
    pub(super) vector: u32,
    /// Entries that the card has written.
    pub(super) written: u64,
    /// The deliveries that they were for, if its owner is honest.
    pub(super) deliveries: Vec<usize>,
}

impl OpenQueue {
    /// Returns the address that the card writes next.
    pub(super) fn next_entry(&self) -> u64 {
        let index = self.written % u64::from(self.entries);
        self.area.address(index * u64::from(HAMLYN_NOTIFICATION_SIZE))
    }

    /// Returns the wrap word of the next entry, without the bit of fast mode: the pass over the
    /// queue, and its wrap flag.
    pub(super) fn wrap(&self) -> u32 {
        let pass = (self.written / u64::from(self.entries)) as u32;
        pass << 2 | u32::from(pass % 2 == 0)
    }
}

/// The driver's state.
#[derive(Debug)]
pub(super) struct Tables {
    pub(super) frames: Frames,
    pub(super) rng: Rng,
    pub(super) termini: Vec<Option<OpenTerminus>>,
    pub(super) queues: Vec<Option<OpenQueue>>,
    pub(super) slots: Vec<Option<Arc<OpenSlot>>>,
    pub(super) sram: Sram,
    /// Processes that were killed. The library's destructors still run, and must not close their
    /// connections: the driver ends those.
    pub(super) killed: BTreeSet<u64>,
    /// The driver has started the card since its last reset.
    pub(super) running: bool,
    /// The card takes packets.
    pub(super) enabled: bool,
    /// When its handshake timer expires, in milliseconds.
    pub(super) lapse: Option<u64>,
    /// It has expired before.
    pub(super) has_lapsed: bool,
    /// When the driver restarts it.
    pub(super) next_beat: u64,
    /// The card was reset, so its counters are incomplete.
    pub(super) was_reset: bool,
    /// What was free before any process started.
    pub(super) baseline: [usize; 4],
}

/// Returns a random free entry of a table.
pub(super) fn vacancy<T>(table: &[Option<T>], rng: &mut Rng) -> Option<u32> {
    let free: Vec<u32> =
        table.iter().zip(0..).filter(|(taken, _)| taken.is_none()).map(|(_, index)| index).collect();
    rng.pick(&free)
}

impl Tables {
    pub(super) fn new(mut rng: Rng, options: HamlynOptions, slots: u32, frames: u64) -> Self {
        Self {
            frames: Frames::new(Rng::new(rng.next()), frames),
            rng,
            termini: vec![None; options.termini as usize],
            queues: vec![None; options.queues as usize],
            slots: vec![None; slots as usize],
            sram: Sram::new(&options, slots),
            killed: BTreeSet::new(),
            running: false,
            enabled: false,
            lapse: None,
            has_lapsed: false,
            next_beat: 0,
            was_reset: false,
            baseline: [0; 4],
        }
    }

    /// Returns whether a process with this number of pages can start.
    pub(super) fn have_room(&self, pages: usize) -> bool {
        self.termini.iter().any(Option::is_none)
            && self.queues.iter().any(Option::is_none)
            && self.sram.has_room_for_process()
            && self.frames.left() >= pages
    }

    /// Returns whether a slot can be opened.
    pub(super) fn have_slot(&self) -> bool {
        self.free_slots() != 0 && self.sram.has_room_for(Object::Slot)
    }

    fn free_slots(&self) -> usize {
        self.slots.iter().filter(|slot| slot.is_none()).count()
    }

    /// Returns the number of free slots, termini, queues and pages.
    pub(super) fn free(&self) -> [usize; 4] {
        let termini = self.termini.iter().filter(|terminus| terminus.is_none()).count();
        let queues = self.queues.iter().filter(|queue| queue.is_none()).count();
        [self.free_slots(), termini, queues, self.frames.left()]
    }

    /// Notes what is free now: the same must be free in the end.
    pub(super) fn note_baseline(&mut self) {
        self.baseline = self.free();
    }

    /// Returns whether a process has any open object.
    pub(super) fn has_any_of(&self, pid: u64) -> bool {
        self.termini.iter().flatten().any(|terminus| terminus.pid == pid)
            || self.queues.iter().flatten().any(|queue| queue.pid == pid)
            || self.slots.iter().flatten().any(|slot| slot.pid == pid)
    }

    pub(super) fn termini_on(&self, vector: u32) -> Vec<u32> {
        let termini = self.termini.iter().zip(0..);
        termini
            .filter(|(terminus, _)| terminus.as_ref().is_some_and(|terminus| terminus.vector == vector))
            .map(|(_, index)| index)
            .collect()
    }

    pub(super) fn queues_on(&self, vector: u32) -> Vec<u32> {
        let queues = self.queues.iter().zip(0..);
        queues
            .filter(|(queue, _)| queue.as_ref().is_some_and(|queue| queue.vector == vector))
            .map(|(_, index)| index)
            .collect()
    }
}

impl OpenSlot {
    /// Allows or forbids the card to write what the open slot lets it write. These are the message
    /// area, and of each metadata entry the user's metadata, the accumulator and the lock.
    pub(super) fn permit(&self, memory: &Memory, allowed: bool) {
        self.area.permit_lists(memory, allowed);
        self.area.permit(memory, Right::Write, 0, self.area.length, allowed);
        if self.fetch {
            self.area.permit(memory, Right::Fetch, 0, self.area.length, allowed);
        }
        let Some(metadata) = &self.metadata else { return };
        metadata.permit_lists(memory, allowed);
        metadata.permit(memory, Right::Read, 0, metadata.length, allowed);
        for entry in 0..self.entries {
            let at = u64::from(entry) * u64::from(HAMLYN_METADATA_SIZE);
            metadata.permit(memory, Right::Write, at, ENTRY_ACCUMULATOR + 4, allowed);
            metadata.permit(memory, Right::Write, at + ENTRY_ONE_SHOT, 4, allowed);
        }
    }

    /// Returns the address of a metadata entry.
    pub(super) fn entry_address(&self, entry: u32) -> Option<u64> {
        let metadata = self.metadata.as_ref().filter(|_| entry < self.entries)?;
        Some(metadata.address(u64::from(entry) * u64::from(HAMLYN_METADATA_SIZE)))
    }
}

/// Offsets in a metadata entry, from the datasheet's Table 2.
pub(super) const ENTRY_ACCUMULATOR: u64 = 0x3c;
pub(super) const ENTRY_KEY: u64 = 0x40;
pub(super) const ENTRY_LOW: u64 = 0x48;
pub(super) const ENTRY_HIGH: u64 = 0x50;
pub(super) const ENTRY_ONE_SHOT: u64 = 0x60;
