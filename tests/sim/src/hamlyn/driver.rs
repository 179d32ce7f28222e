//! The driver's work for processes: it opens and closes termini, queues and slots by commands.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hamlyn_abi::family::sleep::ULN_ARMED_NO;
use hamlyn_abi::hamlyn::command::*;
use hamlyn_abi::hamlyn::window::HamlynTerminusStatus;
use hamlyn_card_hamlyn::HamlynOptions;
use hamlyn_sys::Mapping;
use hamlyn_test_host::hamlyn::HamlynCommands;

use crate::engine::area::{Area, Frames};
use crate::engine::memory::Right;
use crate::engine::rng::Rng;
use crate::engine::violation::Violation;
use crate::hamlyn::access::Access;
use crate::hamlyn::room::{has_memory, note_place};
use crate::hamlyn::sram::Object;
use crate::hamlyn::tables::{OpenQueue, OpenSlot, OpenTerminus, Tables, vacancy};

/// A card's driver, and the objects that it has opened for processes.
#[derive(Debug)]
pub(super) struct Objects {
    access: Access,
    tables: Mutex<Tables>,
}

impl Deref for Objects {
    type Target = Access;

    fn deref(&self) -> &Access {
        &self.access
    }
}

impl Objects {
    /// Creates a machine with `frames` pages of memory, whose card is off.
    pub(super) fn new(
        id: u16,
        options: HamlynOptions,
        rng: &mut Rng,
        frames: u64,
    ) -> Result<Self, Violation> {
        let slots = options.slots().map_err(Violation::new)?;
        let mut tables = Tables::new(Rng::new(rng.next()), options, slots, frames);
        let access = Access::new(id, options, frames, |memory| tables.frames.take(memory))?;
        Ok(Self { access, tables: Mutex::new(tables) })
    }

    /// Returns the objects that the driver has opened.
    pub(super) fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a slot, if it is open.
    pub(super) fn slot(&self, index: u32) -> Option<Arc<OpenSlot>> {
        self.tables().slots.get(index as usize).cloned().flatten()
    }

    /// Returns the number of requests that the card has finished, according to its status words.
    pub(super) fn completed(&self, terminus: u32) -> u32 {
        let status = self.tables().termini[terminus as usize].as_ref().map(|terminus| terminus.status);
        status.map_or(0, |status| self.memory.peek_u32(status))
    }

    /// Makes the card interrupt once `wanted` requests of a terminus are finished, modulo 2^32.
    /// Returns `true` if they already are.
    pub(super) fn arm_terminus(&self, terminus: u32, wanted: u32) -> bool {
        let is_ready = || self.completed(terminus).wrapping_sub(wanted) as i32 >= 0;
        self.arm_terminus_unless(terminus, wanted, is_ready)
    }

    /// Opens a terminus. `words` is the mapping in which its owner sees the status words, if it
    /// maps them. Returns `None` if all termini are in use.
    pub(super) fn open_terminus(
        &self,
        pid: u64,
        weight: u32,
        words: Option<&Arc<Mapping>>,
    ) -> Result<Option<u32>, Violation> {
        self.open_terminus_as(pid, weight, words, 0)
    }

    /// Like [`Objects::open_terminus`], but with `HAMLYN_TERMINUS_*` flags.
    pub(super) fn open_terminus_as(
        &self,
        pid: u64,
        weight: u32,
        words: Option<&Arc<Mapping>>,
        flags: u32,
    ) -> Result<Option<u32>, Violation> {
        let mut tables = self.tables();
        let Tables { termini, rng, frames, .. } = &mut *tables;
        let Some(index) = vacancy(termini, rng).filter(|_| frames.left() > 0) else { return Ok(None) };
        if !has_memory(self, &tables, Object::Terminus, index)? {
            return Ok(None);
        }
        let Tables { termini, frames, .. } = &mut *tables;
        let status = frames.take(&self.memory);
        if let Some(mapping) = words {
            self.memory.map(status, mapping.clone(), 0);
        }
        self.memory.permit(Right::Write, status, size_of::<HamlynTerminusStatus>() as u64, true);
        let vector = 1 + index % (self.options.vectors - 1);
        termini[index as usize] = Some(OpenTerminus { pid, status, send: BTreeMap::new(), vector });
        let flags = flags | HAMLYN_TERMINUS_WAKES;
        let body = HamlynOpenTerminus { status, weight, flags, vector, reserved: 0 };
        self.driver()
            .must(format_args!("to open terminus {index}"), |driver| driver.open_terminus(index, &body))?;
        note_place(self, &mut tables, Object::Terminus, index)?;
        Ok(Some(index))
    }

    /// Closes a terminus, unless a reset has closed it already. The same holds for all closing
    /// functions here.
    pub(super) fn close_terminus(&self, index: u32) -> Result<(), Violation> {
        let mut tables = self.tables();
        if tables.running {
            self.driver()
                .must(format_args!("to close terminus {index}"), |driver| driver.close_terminus(index))?;
        }
        tables.sram.forget(Object::Terminus, index);
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

    pub(super) fn set_send_buffer(&self, terminus: u32, tag: u32, area: Area) -> Result<(), Violation> {
        area.permit_lists(&self.memory, true);
        area.permit(&self.memory, Right::Read, 0, area.length, true);
        let abi = area.abi();
        if let Some(terminus) = &mut self.tables().termini[terminus as usize] {
            terminus.send.insert(tag, Arc::new(area));
        }
        let what = format_args!("to set send buffer {tag} of terminus {terminus}");
        self.driver().must(what, |driver| driver.set_send_buffer(terminus, tag, abi))
    }

    pub(super) fn clear_send_buffer(&self, terminus: u32, tag: u32) -> Result<(), Violation> {
        let mut tables = self.tables();
        if tables.running {
            let what = format_args!("to clear send buffer {tag} of terminus {terminus}");
            self.driver().must(what, |driver| driver.clear_send_buffer(terminus, tag))?;
        }
        let Tables { termini, frames, .. } = &mut *tables;
        if let Some(area) =
            termini[terminus as usize].as_mut().and_then(|terminus| terminus.send.remove(&tag))
        {
            self.close_area(frames, &area, Right::Read);
        }
        Ok(())
    }

    /// Returns whether a queue can be opened.
    pub(super) fn has_queue(&self) -> Result<bool, Violation> {
        let mut tables = self.tables();
        let Tables { queues, rng, .. } = &mut *tables;
        let index = vacancy(queues, rng);
        index.map_or(Ok(false), |index| has_memory(self, &tables, Object::Queue, index))
    }

    /// Opens a queue over a zeroed area. Returns `None` if all queues are in use.
    pub(super) fn open_queue(&self, pid: u64, area: Area, entries: u32) -> Result<Option<u32>, Violation> {
        let mut tables = self.tables();
        let Tables { queues, rng, .. } = &mut *tables;
        let Some(index) = vacancy(queues, rng) else { return Ok(None) };
        if !has_memory(self, &tables, Object::Queue, index)? {
            return Ok(None);
        }
        let Tables { queues, rng, .. } = &mut *tables;
        let vector = rng.range(1, self.options.vectors - 1);
        area.permit_lists(&self.memory, true);
        area.permit(&self.memory, Right::Write, 0, area.length, true);
        let abi = area.abi();
        queues[index as usize] =
            Some(OpenQueue { pid, area, entries, vector, written: 0, deliveries: Vec::new() });
        self.driver().must(format_args!("to open queue {index}"), |driver| {
            driver.open_queue(index, abi, entries, vector)
        })?;
        note_place(self, &mut tables, Object::Queue, index)?;
        Ok(Some(index))
    }

    pub(super) fn close_queue(&self, index: u32) -> Result<(), Violation> {
        let mut tables = self.tables();
        if tables.running {
            self.driver().must(format_args!("to close queue {index}"), |driver| driver.close_queue(index))?;
        }
        tables.sram.forget(Object::Queue, index);
        self.set_armed(index, ULN_ARMED_NO);
        if let Some(OpenQueue { area, .. }) = tables.queues[index as usize].take() {
            self.close_area(&mut tables.frames, &area, Right::Write);
            area.give_pages_back(&self.memory, &mut tables.frames);
        }
        Ok(())
    }

    /// Returns the number of a slot that can be opened, if there is one: it is free, and the card
    /// has memory for it.
    pub(super) fn free_slot(&self) -> Result<Option<u32>, Violation> {
        let mut tables = self.tables();
        let Tables { slots, rng, .. } = &mut *tables;
        let Some(index) = vacancy(slots, rng) else { return Ok(None) };
        Ok(has_memory(self, &tables, Object::Slot, index)?.then_some(index))
    }

    /// Opens a slot. Returns `None` if all slots are in use, or the card's memory is full.
    pub(super) fn open_slot(&self, slot: OpenSlot) -> Result<Option<u32>, Violation> {
        self.free_slot()?.map(|index| self.open_slot_as(index, slot).map(|()| index)).transpose()
    }

    /// Opens the free slot with a number.
    pub(super) fn open_slot_as(&self, index: u32, slot: OpenSlot) -> Result<(), Violation> {
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
        self.driver().must(format_args!("to open slot {index}"), |driver| driver.open_slot(index, &body))?;
        note_place(self, &mut tables, Object::Slot, index)
    }

    pub(super) fn close_slot(&self, index: u32) -> Result<(), Violation> {
        let mut tables = self.tables();
        if tables.running {
            self.driver().must(format_args!("to close slot {index}"), |driver| driver.close_slot(index))?;
        }
        tables.sram.forget(Object::Slot, index);
        let Some(slot) = tables.slots[index as usize].take() else { return Ok(()) };
        slot.permit(&self.memory, false);
        for area in [Some(&slot.area), slot.metadata.as_ref()].into_iter().flatten() {
            area.give_lists_back(&mut tables.frames);
        }
        Ok(())
    }

    /// Closes all objects of a process.
    pub(super) fn release(&self, pid: u64) -> Result<(), Violation> {
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
