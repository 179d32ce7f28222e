//! The library's access to the simulated machine: the driver's calls, implemented on the tables and
//! the card of a host.
//!
//! Each allocation of a process has its own address, and is backed by scattered pages of host
//! memory.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hamlyn::attach::{
    Attachment, CardAttachment, ConnectionParts, Doorbell, ExpressParts, ListenerParts, QueueFile,
    QueueParts, QueueWait, TerminusParts,
};
use hamlyn::{Error, Result};
use hamlyn_abi::family::identity::{ULN_REG_ABI_VERSION, ULN_REG_MODEL};
use hamlyn_abi::family::link::ULN_REG_HOST_ID;
use hamlyn_abi::family::sleep::{ULN_ARMED_NO, ULN_ARMED_YES};
use hamlyn_abi::hamlyn::command::{HAMLYN_SLOT_FETCH, HAMLYN_SLOT_INTERRUPT};
use hamlyn_abi::hamlyn::metadata::HAMLYN_METADATA_SIZE;
use hamlyn_abi::hamlyn::notification::HAMLYN_NOTIFICATION_SIZE;
use hamlyn_abi::hamlyn::registers::HAMLYN_REG_PACKET_SIZE;
use hamlyn_abi::uapi::*;
use hamlyn_sys::Mapping;
use hamlyn_sys::hamlyn::window::{QueueEntries, StatusWords, Window};

use crate::engine::area::Area;
use crate::engine::memory::PAGE;
use crate::hamlyn::areas::{self, wrong};
use crate::hamlyn::handles::{ConnectionHandle, ListenerHandle};
use crate::hamlyn::machine::Machine;
use crate::hamlyn::mapping::mapping;
use crate::hamlyn::matrix::AreaName;
use crate::hamlyn::tables::OpenSlot;

/// An open file of the driver: one protection domain.
#[derive(Debug)]
pub(super) struct SimAttachment {
    machine: Arc<Machine>,
    pid: u64,
    space: Arc<Space>,
    /// Its slots belong to the library's upper layer, or to channels.
    streams: bool,
    /// The queue that was armed last.
    armed: AtomicU32,
}

/// A process's address space: its regions and their pages.
#[derive(Debug)]
struct Space {
    machine: Arc<Machine>,
    regions: Mutex<BTreeMap<u64, Vec<u64>>>,
}

impl Space {
    fn regions(&self) -> MutexGuard<'_, BTreeMap<u64, Vec<u64>>> {
        self.regions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds a free address, with a hole behind all existing regions, and allocates pages.
    fn map(&self, length: usize) -> Result<u64> {
        let pages = (length as u64).div_ceil(PAGE);
        let frames = &mut self.machine.tables().frames;
        if (frames.left() as u64) < pages {
            return Err(Error::OutOfRange { object: "memory length", value: length as u64, limit: 0 });
        }
        let mut regions = self.regions();
        let last = regions.last_key_value();
        let address = last.map_or(FIRST_ADDRESS, |(start, pages)| start + (pages.len() as u64 + 1) * PAGE);
        regions.insert(address, (0..pages).map(|_| frames.take_as_it_is()).collect());
        Ok(address)
    }

    /// Returns the pages of a range of the process, and the offset of the range in the first of
    /// them.
    fn pages(&self, address: u64, length: u64) -> Result<(Vec<u64>, u64)> {
        let regions = self.regions();
        let found = regions.range(..=address).next_back().and_then(|(start, pages)| {
            let from = (address - start) / PAGE;
            let to = (address - start + length).div_ceil(PAGE);
            pages.get(from as usize..to as usize)
        });
        match found {
            Some(pages) => Ok((pages.to_vec(), address % PAGE)),
            None => Err(Error::PastEnd { object: "memory", offset: address, length, limit: 0 }),
        }
    }
}

/// Address of the first region of a process.
const FIRST_ADDRESS: u64 = 0x7f00_0000_0000;

/// Frees a region's pages when the process unmaps it.
#[derive(Debug)]
struct Loan {
    space: Arc<Space>,
    address: u64,
}

impl Drop for Loan {
    fn drop(&mut self) {
        let machine = &self.space.machine;
        for page in self.space.regions().remove(&self.address).into_iter().flatten() {
            machine.memory.unmap(page);
            machine.tables().frames.give(page);
        }
    }
}

impl SimAttachment {
    pub(super) fn new(machine: Arc<Machine>, pid: u64) -> Self {
        let space = Arc::new(Space { machine: machine.clone(), regions: Mutex::default() });
        Self { machine, pid, space, streams: false, armed: AtomicU32::new(0) }
    }

    /// Creates the file of a process of the library's upper layer.
    pub(super) fn with_streams(machine: Arc<Machine>, pid: u64) -> Self {
        Self { streams: true, ..Self::new(machine, pid) }
    }

    /// Returns the queue that was armed last.
    pub(super) fn armed(&self) -> u32 {
        self.armed.load(Ordering::Relaxed)
    }

    /// Refuses objects that do not belong to this file.
    fn own(&self, pid: Option<u64>) -> Result<()> {
        let own = pid == Some(self.pid);
        own.then_some(()).ok_or(Error::Unsupported("not an object of this file"))
    }

    /// Returns the area of a range of the process's memory, as it is described to the card.
    fn area(&self, address: u64, length: u64) -> Result<Area> {
        let (pages, first) = self.space.pages(address, length)?;
        let mut tables = self.machine.tables();
        have_lists(tables.frames.left(), 1)?;
        Ok(Area::over(&self.machine.memory, &mut tables.frames, pages, first, length))
    }
}

/// Fails if there are no pages for the lists of `areas` areas.
fn have_lists(left: usize, areas: usize) -> Result<()> {
    if left < 2 * areas { Err(full("pages")) } else { Ok(()) }
}

fn map(length: u64) -> Result<Arc<Mapping>> {
    let mapping = mapping(length.next_multiple_of(PAGE)).map_err(wrong)?;
    mapping.write(0, &vec![0; mapping.length()]);
    Ok(mapping)
}

fn small(source: std::io::Error) -> Error {
    Error::System { action: "use a mapping".into(), source }
}

fn full(object: &'static str) -> Error {
    Error::Exhausted { object, limit: 0, remedy: "free some" }
}

/// Rings by a trapped store.
#[derive(Debug)]
struct TrappedDoorbell {
    machine: Arc<Machine>,
    terminus: u32,
}

impl Doorbell for TrappedDoorbell {
    fn ring(&self) -> Result<()> {
        self.machine.ring(self.terminus).map_err(wrong)
    }
}

impl CardAttachment for SimAttachment {
    fn query(&self) -> Result<UlnQuery> {
        let load = |register| self.machine.load(register).map_err(wrong);
        Ok(UlnQuery {
            uapi_version: ULN_UAPI_VERSION,
            abi_version: load(ULN_REG_ABI_VERSION)?,
            model: load(ULN_REG_MODEL)?,
            host: load(ULN_REG_HOST_ID)?,
            packet_size: load(HAMLYN_REG_PACKET_SIZE)?,
            ..UlnQuery::default()
        })
    }

    fn allocate(&self, length: usize) -> Result<hamlyn::Memory> {
        let mapping = map(length as u64)?;
        let address = self.space.map(length)?;
        let loan = Loan { space: self.space.clone(), address };
        let memory = hamlyn::Memory::lent(mapping, length, Some(address), Some(Box::new(loan)));
        let (pages, _) = self.space.pages(address, length as u64)?;
        for (index, page) in pages.into_iter().enumerate() {
            self.machine.memory.map(page, memory.mapping().clone(), index * PAGE as usize);
        }
        Ok(memory)
    }

    fn statistics(&self) -> Result<UlnStatistics> {
        let counters = self.machine.counters();
        let mut statistics = UlnStatistics { count: counters.len() as u32, reserved: 0, values: [0; 64] };
        statistics.values.iter_mut().zip(counters).for_each(|(value, counter)| *value = counter);
        Ok(statistics)
    }

    fn listen(&self, name: &str, backlog: u32) -> Result<Box<dyn ListenerParts>> {
        Ok(Box::new(ListenerHandle::open(&self.machine, self.pid, name, backlog)?))
    }

    fn connect(&self, host: u32, name: &str, private: &[u8]) -> Result<Box<dyn ConnectionParts>> {
        Ok(Box::new(ConnectionHandle::request(&self.machine, self.pid, host, name, private)?))
    }

    fn ask(&self, host: u32, name: &str) -> Result<Box<dyn ConnectionParts>> {
        Ok(Box::new(ConnectionHandle::ask(&self.machine, self.pid, host, name)?))
    }

    fn create_express(&self, host: u32, length: usize) -> Result<ExpressParts> {
        areas::create(&self.machine, self.pid, host, length)
    }

    /// Maps a view that was asked for before: the simulation's only thread cannot wait for the
    /// answer.
    fn map_express(&self, host: u32, area: u32, key: u64) -> Result<ExpressParts> {
        areas::map_view(&self.machine, self.pid, AreaName { host, number: area }, key)
    }

    fn destroy_express(&self, number: u32) -> Result<()> {
        areas::give_back(&self.machine, self.pid, number)
    }

    fn query_express(&self, host: u32) -> Result<UlnExpressQuery> {
        areas::query(&self.machine, host)
    }

    fn self_test(&self) -> Result<UlnSelfTest> {
        Err(Error::Unsupported("the simulation checks more than that"))
    }
}

impl Attachment for SimAttachment {
    fn create_terminus(&self, weight: u32) -> Result<TerminusParts> {
        let words = map(PAGE)?;
        let opened = self.machine.open_terminus(self.pid, weight, Some(&words)).map_err(wrong)?;
        let terminus = opened.ok_or(full("termini"))?;
        Ok(TerminusParts {
            terminus,
            window: Window::new(self.machine.windows_of_termini[terminus as usize].clone()).map_err(small)?,
            status: StatusWords::new(words).map_err(small)?,
            doorbell: Box::new(TrappedDoorbell { machine: self.machine.clone(), terminus }),
        })
    }

    fn destroy_terminus(&self, terminus: u32) -> Result<()> {
        let pid = self.machine.tables().termini[terminus as usize].as_ref().map(|open| open.pid);
        self.own(pid)?;
        self.machine.close_terminus(terminus).map_err(wrong)
    }

    /// Fails as if the time had passed: the simulation's only thread cannot wait.
    fn wait_terminus(&self, _terminus: u32, _completed: u32, timeout: Option<Duration>) -> Result<()> {
        Err(Error::TimedOut { what: "the card", after: timeout.unwrap_or_default() })
    }

    fn arm_terminus(&self, terminus: u32, completed: u32) -> Result<bool> {
        Ok(self.machine.arm_terminus(terminus, completed))
    }

    fn set_send_buffer(&self, buffer: HamlynSendBuffer, _memory: &hamlyn::Memory) -> Result<()> {
        let area = self.area(buffer.address, buffer.length)?;
        self.machine.set_send_buffer(buffer.terminus, buffer.tag, area).map_err(wrong)
    }

    fn clear_send_buffer(&self, terminus: u32, tag: u32) -> Result<()> {
        let pid = self.machine.tables().termini[terminus as usize].as_ref().map(|open| open.pid);
        self.own(pid)?;
        self.machine.clear_send_buffer(terminus, tag).map_err(wrong)
    }

    fn create_queue(&self, entries: u32) -> Result<QueueParts> {
        let length = entries * HAMLYN_NOTIFICATION_SIZE;
        let mapping = map(length.into())?;
        if !self.machine.has_queue().map_err(wrong)? {
            return Err(full("queues"));
        }
        let area = {
            let frames = &mut self.machine.tables().frames;
            let count = u64::from(length).div_ceil(PAGE) as usize;
            have_lists(frames.left().saturating_sub(count), 1)?;
            let pages: Vec<u64> = (0..count).map(|_| frames.take_as_it_is()).collect();
            for (index, page) in pages.iter().enumerate() {
                self.machine.memory.map(*page, mapping.clone(), index * PAGE as usize);
            }
            Area::over(&self.machine.memory, frames, pages, 0, length.into())
        };
        let opened = self.machine.open_queue(self.pid, area, entries).map_err(wrong)?;
        let queue = opened.ok_or(full("queues"))?;
        let entries = QueueEntries::new(mapping, entries).map_err(small)?;
        Ok(QueueParts { queue, entries, offset: None })
    }

    fn destroy_queue(&self, queue: u32) -> Result<()> {
        let pid = self.machine.tables().queues[queue as usize].as_ref().map(|open| open.pid);
        self.own(pid)?;
        self.machine.close_queue(queue).map_err(wrong)
    }

    fn wait_queue(&self, _wait: QueueWait, _timeout: Option<Duration>) -> Result<()> {
        Err(Error::Unsupported("the simulation's one thread cannot wait"))
    }

    fn arm_queue(&self, wait: QueueWait) -> Result<bool> {
        self.armed.store(wait.queue, Ordering::Relaxed);
        self.machine.set_armed(wait.queue, ULN_ARMED_YES);
        let offset = u64::from(wait.cursor) * u64::from(HAMLYN_NOTIFICATION_SIZE);
        let tables = self.machine.tables();
        let queue = tables.queues.get(wait.queue as usize).and_then(Option::as_ref);
        let entry = queue.ok_or(Error::Unsupported("the queue is not open"))?.area.address(offset);
        let ready = wait.is_over(self.machine.memory.peek_u32(entry + 28));
        if ready {
            self.machine.set_armed(wait.queue, ULN_ARMED_NO);
        }
        Ok(ready)
    }

    fn queue_file(&self, _queue: u32) -> Result<QueueFile<'_>> {
        Ok(QueueFile::Borrowed(self.machine.unread.as_fd()))
    }

    fn create_slot(
        &self,
        slot: &mut HamlynSlotCreate,
        _area: &hamlyn::Memory,
        metadata: Option<&hamlyn::Memory>,
    ) -> Result<()> {
        let length = u64::from(slot.metadata_entries) * u64::from(HAMLYN_METADATA_SIZE);
        if self.machine.free_slot().map_err(wrong)?.is_none() {
            return Err(full("slots"));
        }
        // Either everything that it needs is available, or nothing is allocated.
        let areas = 1 + usize::from(metadata.is_some());
        have_lists(self.machine.tables().frames.left(), areas)?;
        let opened = OpenSlot {
            pid: self.pid,
            area: self.area(slot.area_address, slot.area_length)?,
            metadata: metadata.map(|_| self.area(slot.metadata_address, length)).transpose()?,
            entries: slot.metadata_entries,
            pointer: slot.metadata_address,
            key: self.machine.tables().rng.next(),
            mode: slot.mode,
            queue: slot.queue,
            notification_index: slot.notification_index,
            interrupt: slot.flags & HAMLYN_SLOT_INTERRUPT != 0,
            fetch: slot.flags & HAMLYN_SLOT_FETCH != 0,
            prey: false,
            privileged: None,
            streams: self.streams,
        };
        slot.key = opened.key;
        slot.slot = self.machine.open_slot(opened).map_err(wrong)?.ok_or(full("slots"))?;
        Ok(())
    }

    fn destroy_slot(&self, slot: u32) -> Result<()> {
        let pid = self.machine.slot(slot).map(|open| open.pid);
        self.own(pid)?;
        self.machine.close_slot(slot).map_err(wrong)
    }
}
