//! What the driver does for processes: termini, queues and slots, opened and closed by commands.
//!
//! Here it is written down what the card may touch while something is open. The judge goes by these tables, not by what
//! the card has made of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use hamlyn_abi::family::sleep::HAMLYN_ARMED_NO;
use hamlyn_abi::hamlyn::command::*;
use hamlyn_abi::hamlyn::metadata::HAMLYN_METADATA_SIZE;
use hamlyn_abi::hamlyn::notification::HAMLYN_NOTIFICATION_SIZE;
use hamlyn_abi::hamlyn::window::HamlynTerminusStatus;
use hamlyn_card_hamlyn::HamlynOptions;
use hamlyn_sys::Mapping;

use crate::area::{Area, Frames};
use crate::machine::Machine;
use crate::memory::{Memory, Right};
use crate::rng::Rng;
use crate::violation::Violation;

/// A terminus as the driver opened it.
#[derive(Debug, Clone)]
pub(crate) struct OpenTerminus {
    pub(crate) pid: u64,
    /// Where its status words are.
    pub(crate) status: u64,
    pub(crate) send: BTreeMap<u32, Arc<Area>>,
    /// What wakes an owner that sleeps until requests are finished.
    pub(crate) vector: u32,
}

/// A slot as the driver opened it.
#[derive(Debug, Clone)]
pub(crate) struct OpenSlot {
    pub(crate) pid: u64,
    pub(crate) area: Area,
    pub(crate) metadata: Option<Area>,
    pub(crate) entries: u32,
    pub(crate) pointer: u64,
    pub(crate) key: u64,
    pub(crate) mode: u32,
    pub(crate) queue: u32,
    pub(crate) notification_index: u32,
    pub(crate) interrupt: bool,
    /// Who may write may fetch-and-op.
    pub(crate) fetch: bool,
    /// Its owner has given the key to everybody, and scribbles on its metadata.
    pub(crate) prey: bool,
    /// It takes packets of this host's operating system alone (section 6.3).
    pub(crate) privileged: Option<u16>,
    /// It belongs to the library's upper layer: messages to it are judged by what the streams there deliver.
    pub(crate) streams: bool,
}

/// A notification queue as the driver opened it, and where the card must be in it.
#[derive(Debug, Clone)]
pub(crate) struct OpenQueue {
    pub(crate) pid: u64,
    pub(crate) area: Area,
    pub(crate) entries: u32,
    pub(crate) vector: u32,
    /// Entries that the card has written.
    pub(crate) written: u64,
    /// Which deliveries they were for, if its owner is honest.
    pub(crate) deliveries: Vec<usize>,
}

impl OpenQueue {
    /// Where the card writes next.
    pub(crate) fn next_entry(&self) -> u64 {
        let index = self.written % u64::from(self.entries);
        self.area.address(index * u64::from(HAMLYN_NOTIFICATION_SIZE))
    }

    /// The wrap word of the next entry, but for the bit of fast mode: the pass over the queue, and its wrap flag.
    pub(crate) fn wrap(&self) -> u32 {
        let pass = (self.written / u64::from(self.entries)) as u32;
        pass << 2 | u32::from(pass % 2 == 0)
    }
}

/// All that the driver knows.
#[derive(Debug)]
pub(crate) struct Tables {
    pub(crate) frames: Frames,
    pub(crate) rng: Rng,
    pub(crate) termini: Vec<Option<OpenTerminus>>,
    pub(crate) queues: Vec<Option<OpenQueue>>,
    pub(crate) slots: Vec<Option<Arc<OpenSlot>>>,
    /// The driver has started the card since its last reset.
    pub(crate) running: bool,
    /// The card takes packets.
    pub(crate) enabled: bool,
    /// When its handshake timer runs out, in milliseconds.
    pub(crate) lapse: Option<u64>,
    /// It has run out before.
    pub(crate) has_lapsed: bool,
    /// When the driver restarts it.
    pub(crate) next_beat: u64,
    /// The card's counters do not tell the whole story.
    pub(crate) was_reset: bool,
}

/// An entry of a table that is free.
fn vacancy<T>(table: &[Option<T>], rng: &mut Rng) -> Option<u32> {
    let free: Vec<u32> =
        table.iter().zip(0..).filter(|(taken, _)| taken.is_none()).map(|(_, index)| index).collect();
    rng.pick(&free)
}

impl Tables {
    pub(crate) fn new(mut rng: Rng, options: HamlynOptions, slots: u32) -> Self {
        Self {
            frames: Frames::new(Rng::new(rng.next())),
            rng,
            termini: vec![None; options.termini as usize],
            queues: vec![None; options.queues as usize],
            slots: vec![None; slots as usize],
            running: false,
            enabled: false,
            lapse: None,
            has_lapsed: false,
            next_beat: 0,
            was_reset: false,
        }
    }

    /// Whether a process that takes so many pages can start.
    pub(crate) fn have_room(&self, pages: usize) -> bool {
        self.termini.iter().any(Option::is_none) && self.have_queue() && self.frames.left() >= pages
    }

    pub(crate) fn have_queue(&self) -> bool {
        self.queues.iter().any(Option::is_none)
    }

    pub(crate) fn free_slots(&self) -> usize {
        self.slots.iter().filter(|slot| slot.is_none()).count()
    }

    /// Slots, termini, queues and pages that are free.
    pub(crate) fn free(&self) -> [usize; 4] {
        let termini = self.termini.iter().filter(|terminus| terminus.is_none()).count();
        let queues = self.queues.iter().filter(|queue| queue.is_none()).count();
        [self.free_slots(), termini, queues, self.frames.left()]
    }

    /// Whether a process has anything open.
    pub(crate) fn has_any_of(&self, pid: u64) -> bool {
        self.termini.iter().flatten().any(|terminus| terminus.pid == pid)
            || self.queues.iter().flatten().any(|queue| queue.pid == pid)
            || self.slots.iter().flatten().any(|slot| slot.pid == pid)
    }

    pub(crate) fn termini_on(&self, vector: u32) -> Vec<u32> {
        let termini = self.termini.iter().zip(0..);
        termini
            .filter(|(terminus, _)| terminus.as_ref().is_some_and(|terminus| terminus.vector == vector))
            .map(|(_, index)| index)
            .collect()
    }

    pub(crate) fn queues_on(&self, vector: u32) -> Vec<u32> {
        let queues = self.queues.iter().zip(0..);
        queues
            .filter(|(queue, _)| queue.as_ref().is_some_and(|queue| queue.vector == vector))
            .map(|(_, index)| index)
            .collect()
    }
}

impl Machine {
    /// A slot, if it is open.
    pub(crate) fn slot(&self, index: u32) -> Option<Arc<OpenSlot>> {
        self.tables().slots.get(index as usize).cloned().flatten()
    }

    /// Requests that the card has finished with, as its status words say.
    pub(crate) fn completed(&self, terminus: u32) -> u32 {
        let status = self.tables().termini[terminus as usize].as_ref().map(|terminus| terminus.status);
        status.map_or(0, |status| self.memory.peek_u32(status))
    }

    /// Opens a terminus whose owner sees its status words in a mapping, if it maps them; `None`: all are in use.
    pub(crate) fn open_terminus(
        &self,
        pid: u64,
        weight: u32,
        words: Option<&Arc<Mapping>>,
    ) -> Result<Option<u32>, Violation> {
        self.open_terminus_as(pid, weight, words, 0)
    }

    /// The same, with `HAMLYN_TERMINUS_*`.
    pub(crate) fn open_terminus_as(
        &self,
        pid: u64,
        weight: u32,
        words: Option<&Arc<Mapping>>,
        flags: u32,
    ) -> Result<Option<u32>, Violation> {
        let mut tables = self.tables();
        let Tables { termini, rng, frames, .. } = &mut *tables;
        let Some(index) = vacancy(termini, rng).filter(|_| frames.left() > 0) else { return Ok(None) };
        let status = frames.take(&self.memory);
        if let Some(mapping) = words {
            self.memory.map(status, mapping, 0);
        }
        self.memory.permit(Right::Write, status, size_of::<HamlynTerminusStatus>() as u64, true);
        let vector = 1 + index % (self.options.vectors - 1);
        termini[index as usize] = Some(OpenTerminus { pid, status, send: BTreeMap::new(), vector });
        let flags = flags | HAMLYN_TERMINUS_WAKES;
        let body = HamlynOpenTerminus { status, weight, flags, vector, reserved: 0 };
        self.command(HAMLYN_COMMAND_OPEN_TERMINUS, index, &body)?;
        Ok(Some(index))
    }

    /// Closes a terminus, unless a reset has closed it already. The same holds for everything here that closes.
    pub(crate) fn close_terminus(&self, index: u32) -> Result<(), Violation> {
        let mut tables = self.tables();
        if tables.running {
            self.command(HAMLYN_COMMAND_CLOSE_TERMINUS, index, &[0_u8; 0])?;
        }
        let Some(OpenTerminus { status, send, .. }) = tables.termini[index as usize].take() else {
            return Ok(());
        };
        self.memory.permit(Right::Write, status, size_of::<HamlynTerminusStatus>() as u64, false);
        self.memory.unmap(status);
        tables.frames.give(status);
        for area in send.values() {
            self.close_area(&mut tables.frames, area, Right::Read);
        }
        Ok(())
    }

    pub(crate) fn set_send_buffer(&self, terminus: u32, tag: u32, area: Area) -> Result<(), Violation> {
        area.permit_lists(&self.memory, true);
        area.permit(&self.memory, Right::Read, 0, area.length, true);
        let body = HamlynSetSendBuffer { tag, reserved: 0, area: area.abi() };
        if let Some(terminus) = &mut self.tables().termini[terminus as usize] {
            terminus.send.insert(tag, Arc::new(area));
        }
        self.command(HAMLYN_COMMAND_SET_SEND_BUFFER, terminus, &body)
    }

    pub(crate) fn clear_send_buffer(&self, terminus: u32, tag: u32) -> Result<(), Violation> {
        let mut tables = self.tables();
        if tables.running {
            self.command(
                HAMLYN_COMMAND_CLEAR_SEND_BUFFER,
                terminus,
                &HamlynSetSendBuffer { tag, ..Default::default() },
            )?;
        }
        let Tables { termini, frames, .. } = &mut *tables;
        if let Some(area) =
            termini[terminus as usize].as_mut().and_then(|terminus| terminus.send.remove(&tag))
        {
            self.close_area(frames, &area, Right::Read);
        }
        Ok(())
    }

    /// Opens a queue over an area of zeros; `None`: all are in use.
    pub(crate) fn open_queue(&self, pid: u64, area: Area, entries: u32) -> Result<Option<u32>, Violation> {
        let mut tables = self.tables();
        let Tables { queues, rng, .. } = &mut *tables;
        let Some(index) = vacancy(queues, rng) else { return Ok(None) };
        let vector = rng.range(1, self.options.vectors - 1);
        area.permit_lists(&self.memory, true);
        area.permit(&self.memory, Right::Write, 0, area.length, true);
        let body = HamlynOpenQueue { area: area.abi(), entries, vector };
        queues[index as usize] =
            Some(OpenQueue { pid, area, entries, vector, written: 0, deliveries: Vec::new() });
        self.command(HAMLYN_COMMAND_OPEN_QUEUE, index, &body)?;
        Ok(Some(index))
    }

    pub(crate) fn close_queue(&self, index: u32) -> Result<(), Violation> {
        let mut tables = self.tables();
        if tables.running {
            self.command(HAMLYN_COMMAND_CLOSE_QUEUE, index, &[0_u8; 0])?;
        }
        self.set_armed(index, HAMLYN_ARMED_NO);
        if let Some(OpenQueue { area, .. }) = tables.queues[index as usize].take() {
            self.close_area(&mut tables.frames, &area, Right::Write);
            area.give_pages_back(&self.memory, &mut tables.frames);
        }
        Ok(())
    }

    /// Opens a slot; `None`: all are in use.
    pub(crate) fn open_slot(&self, slot: OpenSlot) -> Result<Option<u32>, Violation> {
        let index = {
            let Tables { slots, rng, .. } = &mut *self.tables();
            vacancy(slots, rng)
        };
        index.map(|index| self.open_slot_as(index, slot).map(|()| index)).transpose()
    }

    /// Opens the slot of a number, which is free.
    pub(crate) fn open_slot_as(&self, index: u32, slot: OpenSlot) -> Result<(), Violation> {
        let mut tables = self.tables();
        slot.permit(&self.memory, true);
        let body = HamlynOpenSlot {
            area: slot.area.abi(),
            metadata: slot.metadata.as_ref().map(Area::abi).unwrap_or_default(),
            key: slot.key,
            metadata_pointer: slot.pointer,
            metadata_entries: slot.entries,
            mode: slot.mode,
            queue: slot.queue,
            notification_index: slot.notification_index,
            flags: flag(slot.interrupt, HAMLYN_SLOT_INTERRUPT)
                | flag(slot.fetch, HAMLYN_SLOT_FETCH)
                | flag(slot.privileged.is_some(), HAMLYN_SLOT_PRIVILEGED),
            source: slot.privileged.unwrap_or_default().into(),
        };
        tables.slots[index as usize] = Some(Arc::new(slot));
        self.command(HAMLYN_COMMAND_OPEN_SLOT, index, &body)
    }

    pub(crate) fn close_slot(&self, index: u32) -> Result<(), Violation> {
        let mut tables = self.tables();
        if tables.running {
            self.command(HAMLYN_COMMAND_CLOSE_SLOT, index, &[0_u8; 0])?;
        }
        let Some(slot) = tables.slots[index as usize].take() else { return Ok(()) };
        slot.permit(&self.memory, false);
        for area in [Some(&slot.area), slot.metadata.as_ref()].into_iter().flatten() {
            area.give_lists_back(&mut tables.frames);
        }
        Ok(())
    }

    /// Closes all that a process has open, as when its file is closed.
    pub(crate) fn release(&self, pid: u64) -> Result<(), Violation> {
        let numbers =
            |open: Vec<bool>| open.into_iter().zip(0..).filter(|(own, _)| *own).map(|(_, index)| index);
        let tables = self.tables();
        let slots =
            tables.slots.iter().map(|slot| slot.as_ref().is_some_and(|slot| slot.pid == pid)).collect();
        let termini =
            tables.termini.iter().map(|open| open.as_ref().is_some_and(|open| open.pid == pid)).collect();
        let queues =
            tables.queues.iter().map(|open| open.as_ref().is_some_and(|open| open.pid == pid)).collect();
        drop(tables);
        numbers(slots).try_for_each(|index| self.close_slot(index))?;
        numbers(termini).try_for_each(|index| self.close_terminus(index))?;
        numbers(queues).try_for_each(|index| self.close_queue(index))
    }

    fn close_area(&self, frames: &mut Frames, area: &Area, right: Right) {
        area.permit(&self.memory, right, 0, area.length, false);
        area.permit_lists(&self.memory, false);
        area.give_lists_back(frames);
    }
}

fn flag(set: bool, flag: u32) -> u32 {
    if set { flag } else { 0 }
}

impl OpenSlot {
    /// What the card may write because the slot is open: the message area, and of each metadata entry the user's
    /// metadata, the accumulator and the lock.
    fn permit(&self, memory: &Memory, allowed: bool) {
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

    /// The address of a metadata entry.
    pub(crate) fn entry_address(&self, entry: u32) -> Option<u64> {
        let metadata = self.metadata.as_ref().filter(|_| entry < self.entries)?;
        Some(metadata.address(u64::from(entry) * u64::from(HAMLYN_METADATA_SIZE)))
    }
}

/// Table 2, as the datasheet has it.
pub(crate) const ENTRY_ACCUMULATOR: u64 = 0x3c;
pub(crate) const ENTRY_KEY: u64 = 0x40;
pub(crate) const ENTRY_LOW: u64 = 0x48;
pub(crate) const ENTRY_HIGH: u64 = 0x50;
pub(crate) const ENTRY_ONE_SHOT: u64 = 0x60;
