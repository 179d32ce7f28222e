//! The driver's work for processes: it opens and closes termini, queues and slots by commands.

use std::collections::BTreeMap;
use std::sync::Arc;

use hamlyn_abi::family::sleep::ULN_ARMED_NO;
use hamlyn_abi::hamlyn::command::*;
use hamlyn_abi::hamlyn::window::HamlynTerminusStatus;
use hamlyn_sys::Mapping;
use hamlyn_test_host::hamlyn::HamlynCommands;

use crate::engine::area::{Area, Frames};
use crate::engine::memory::Right;
use crate::engine::violation::Violation;
use crate::hamlyn::machine::Machine;
use crate::hamlyn::sram::Object;
use crate::hamlyn::tables::{OpenQueue, OpenSlot, OpenTerminus, Tables, vacancy};

impl Machine {
    /// Opens a terminus. `words` is the mapping in which its owner sees the status words, if it
    /// maps them. Returns `None` if all termini are in use.
    pub(crate) fn open_terminus(
        &self,
        pid: u64,
        weight: u32,
        words: Option<&Arc<Mapping>>,
    ) -> Result<Option<u32>, Violation> {
        self.open_terminus_as(pid, weight, words, 0)
    }

    /// Like [`Machine::open_terminus`], but with `HAMLYN_TERMINUS_*` flags.
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
        if !self.has_memory(&tables, Object::Terminus, index)? {
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
        self.note_place(&mut tables, Object::Terminus, index)?;
        Ok(Some(index))
    }

    /// Closes a terminus, unless a reset has closed it already. The same holds for all closing
    /// functions here.
    pub(crate) fn close_terminus(&self, index: u32) -> Result<(), Violation> {
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

    pub(crate) fn set_send_buffer(&self, terminus: u32, tag: u32, area: Area) -> Result<(), Violation> {
        area.permit_lists(&self.memory, true);
        area.permit(&self.memory, Right::Read, 0, area.length, true);
        let abi = area.abi();
        if let Some(terminus) = &mut self.tables().termini[terminus as usize] {
            terminus.send.insert(tag, Arc::new(area));
        }
        let what = format_args!("to set send buffer {tag} of terminus {terminus}");
        self.driver().must(what, |driver| driver.set_send_buffer(terminus, tag, abi))
    }

    pub(crate) fn clear_send_buffer(&self, terminus: u32, tag: u32) -> Result<(), Violation> {
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
    pub(crate) fn has_queue(&self) -> Result<bool, Violation> {
        let mut tables = self.tables();
        let Tables { queues, rng, .. } = &mut *tables;
        let index = vacancy(queues, rng);
        index.map_or(Ok(false), |index| self.has_memory(&tables, Object::Queue, index))
    }

    /// Opens a queue over a zeroed area. Returns `None` if all queues are in use.
    pub(crate) fn open_queue(&self, pid: u64, area: Area, entries: u32) -> Result<Option<u32>, Violation> {
        let mut tables = self.tables();
        let Tables { queues, rng, .. } = &mut *tables;
        let Some(index) = vacancy(queues, rng) else { return Ok(None) };
        if !self.has_memory(&tables, Object::Queue, index)? {
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
        self.note_place(&mut tables, Object::Queue, index)?;
        Ok(Some(index))
    }

    pub(crate) fn close_queue(&self, index: u32) -> Result<(), Violation> {
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
    pub(crate) fn free_slot(&self) -> Result<Option<u32>, Violation> {
        let mut tables = self.tables();
        let Tables { slots, rng, .. } = &mut *tables;
        let Some(index) = vacancy(slots, rng) else { return Ok(None) };
        Ok(self.has_memory(&tables, Object::Slot, index)?.then_some(index))
    }

    /// Opens a slot. Returns `None` if all slots are in use, or the card's memory is full.
    pub(crate) fn open_slot(&self, slot: OpenSlot) -> Result<Option<u32>, Violation> {
        self.free_slot()?.map(|index| self.open_slot_as(index, slot).map(|()| index)).transpose()
    }

    /// Opens the free slot with a number.
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
        self.driver().must(format_args!("to open slot {index}"), |driver| driver.open_slot(index, &body))?;
        self.note_place(&mut tables, Object::Slot, index)
    }

    pub(crate) fn close_slot(&self, index: u32) -> Result<(), Violation> {
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

    /// Closes all objects of a process, as when its file is closed.
    pub(crate) fn release(&self, pid: u64) -> Result<(), Violation> {
        self.close_ends_of(pid);
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
