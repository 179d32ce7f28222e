//! Direct access to a Hamlyn card's vfio-user socket from a host process, with no VM: what the
//! driver does for this card only.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hamlyn_abi::family::area::UlnArea;
use hamlyn_abi::hamlyn::command::*;
use hamlyn_abi::hamlyn::metadata::HAMLYN_METADATA_SIZE;
use hamlyn_abi::hamlyn::notification::{
    HAMLYN_NOTIFICATION_SIZE, HAMLYN_QUEUE_MAX_ENTRIES, HAMLYN_QUEUE_MIN_ENTRIES,
};
use hamlyn_abi::hamlyn::registers::*;
use hamlyn_abi::hamlyn::sram::{HAMLYN_SRAM_NUMBER, HAMLYN_SRAM_UNIT};
use hamlyn_abi::hamlyn::statistics::HAMLYN_STATISTICS;
use hamlyn_abi::hamlyn::uapi::HamlynSramQuery;
use hamlyn_abi::hamlyn::window::{HAMLYN_DOORBELL_SIZE, HAMLYN_WINDOW_SIZE};
use hamlyn_abi::kernel::well_known::ULN_WELL_KNOWN_SLOTS;
use hamlyn_abi::uapi::{
    HAMLYN_SHARE_QUEUES, HAMLYN_SHARE_SLOTS, HAMLYN_SHARE_TERMINI, HamlynSendBuffer, HamlynSlotCreate,
    ULN_CAPABILITY_CONNECTIONS, UlnQuery, UlnSelfTest, UlnStatistics,
};
use hamlyn_sys::Mapping;
use hamlyn_sys::hamlyn::window::{QueueEntries, StatusWords, Window};
use zerocopy::IntoBytes;

use self::control::{Completed, Layout};
use self::tables::{Queue, Tables, Terminus, free_index};
use self::well_known::WellKnown;
use super::attach::{Attachment, QueueParts, QueueWait, TerminusParts};
use super::device::{Hamlyn, QUEUES, SLOTS, TERMINI, memory_full};
use crate::core::attach::{CardAttachment, ConnectionParts, ListenerParts, QueueFile};
use crate::core::memory::Memory;
use crate::core::socket::client::{Client, MappableRegion};
use crate::core::socket::commands::MEMORY_FULL;
use crate::core::socket::message::{REGION_BAR0, REGION_BAR2, REGION_BAR4};
use crate::core::socket::names::Names;
use crate::core::socket::{PAGE, Seat, TrappedDoorbell, identity, reach};
use crate::error::{Error, GivenBack, Result, at_most};

mod control;
mod tables;
mod well_known;

/// A Hamlyn card accessed through its vfio-user socket.
#[derive(Debug)]
pub struct SocketAttachment {
    // Fields are in the order in which they must be dropped.
    /// The operating system's part of connections, if the card has room for it.
    names: Option<Names>,
    tables: Mutex<Tables>,
    seat: Seat,
    layout: Layout,
    windows: MappableRegion,
    description: UlnQuery,
}

impl SocketAttachment {
    /// Connects to a card's socket, resets the card, enables it and keeps its handshake (section
    /// 2.8).
    ///
    /// # Errors
    /// [`Error::System`] if there is no card to talk to, [`Error::Incompatible`] or
    /// [`Error::OtherModel`] if it is another card.
    pub fn connect(path: &Path) -> Result<Self> {
        let failed = || Error::system(format!("attach to {}", path.display()));
        let client = reach::<Hamlyn>(path)?;
        let description = describe(&client).map_err(failed())?;
        let windows = client.region(REGION_BAR2).map_err(failed())?;
        let (control, layout) = control::map(&windows, &description).map_err(failed())?;
        let seat = Seat::take(client, control, description.vectors)?;
        let mut own = Self { names: None, tables: Mutex::default(), seat, layout, windows, description };
        if well_known::has_room(&own.description) {
            own.names = Some(Names::start(&own.seat, Box::new(WellKnown::open(&own)?))?);
        }
        Ok(own)
    }

    fn names(&self) -> Result<&Names> {
        self.names.as_ref().ok_or(Error::Unsupported(
            "the card has no room for connections: they take 64 slots, a terminus and a queue, and packets of 320 bytes",
        ))
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn map_terminus(&self, terminus: u32, status: &Memory) -> io::Result<TerminusParts> {
        let offset = u64::from(terminus) * u64::from(HAMLYN_WINDOW_SIZE);
        let window = self.windows.map(offset, HAMLYN_WINDOW_SIZE as usize)?;
        let offset = u64::from(terminus) * u64::from(HAMLYN_DOORBELL_SIZE);
        let doorbell = TrappedDoorbell { client: self.seat.client.clone(), region: REGION_BAR4, offset };
        Ok(TerminusParts {
            terminus,
            window: Window::new(Arc::new(window))?,
            status: StatusWords::new(status.mapping().clone())?,
            doorbell: Box::new(doorbell),
        })
    }
}

/// The first version of the card's ABI with one memory for all objects.
const ONE_MEMORY: u32 = 0x0002_0006;

/// Describes the card's memory as a driver would.
fn describe_memory(client: &Client, card: &mut UlnQuery) -> io::Result<()> {
    if card.abi_version < ONE_MEMORY {
        return Ok(());
    }
    let register = |offset| client.read_u32(REGION_BAR0, offset);
    let numbers = u64::from(card.termini) + u64::from(card.slots) + u64::from(card.queues);
    let directory = (numbers * u64::from(HAMLYN_SRAM_NUMBER)).next_multiple_of(HAMLYN_SRAM_UNIT.into());
    let room = u64::from(card.sram_size).saturating_sub(directory) as u32;
    let (free, longest) = (register(HAMLYN_REG_SRAM_FREE)?, register(HAMLYN_REG_SRAM_LONGEST)?);
    card.set_card(&HamlynSramQuery { room, free, longest, reserved: 0 });
    Ok(())
}

/// Returns what a driver would answer to a query, without the host id.
fn describe(client: &Client) -> io::Result<UlnQuery> {
    let register = |offset| client.read_u32(REGION_BAR0, offset);
    let mut card = UlnQuery {
        packet_size: register(HAMLYN_REG_PACKET_SIZE)?,
        sram_size: register(HAMLYN_REG_SRAM_SIZE)?,
        termini: register(HAMLYN_REG_TERMINI)?,
        slots: register(HAMLYN_REG_SLOTS)?,
        queues: register(HAMLYN_REG_QUEUES)?,
        ..identity::describe(client)?
    };
    describe_memory(client, &mut card)?;
    Ok(card)
}

impl CardAttachment for SocketAttachment {
    fn query(&self) -> Result<UlnQuery> {
        let mut query = self.seat.query(self.description)?;
        describe_memory(&self.seat.client, &mut query).map_err(Error::system("ask for the card's memory"))?;
        // The program cannot use what the operating system's part uses.
        if self.names.is_some() {
            query.termini -= 1;
            query.queues -= 1;
            query.slots -= ULN_WELL_KNOWN_SLOTS;
            query.capabilities |= ULN_CAPABILITY_CONNECTIONS;
        }
        Ok(query)
    }

    fn allocate(&self, length: usize) -> Result<Memory> {
        self.seat.lender.lend(length)
    }

    fn lend(&self, mapping: Mapping) -> Result<Memory, GivenBack<Mapping>> {
        self.seat.lender.lend_own(mapping)
    }

    fn statistics(&self) -> Result<UlnStatistics> {
        self.seat.statistics(HAMLYN_STATISTICS)
    }

    fn self_test(&self) -> Result<UlnSelfTest> {
        self.seat.self_test(self.description.vectors)
    }

    fn listen(&self, name: &str, backlog: u32) -> Result<Box<dyn ListenerParts>> {
        self.names()?.listen(name, backlog)
    }

    fn connect(&self, host: u32, name: &str, private: &[u8]) -> Result<Box<dyn ConnectionParts>> {
        self.names()?.connect(host, name, private)
    }

    fn ask(&self, host: u32, name: &str) -> Result<Box<dyn ConnectionParts>> {
        self.names()?.ask(host, name)
    }
}

impl Attachment for SocketAttachment {
    fn create_terminus(&self, weight: u32) -> Result<TerminusParts> {
        self.open_terminus(weight, 0)
    }

    fn destroy_terminus(&self, terminus: u32) -> Result<()> {
        let mut tables = self.tables();
        self.seat.commands.run("close a terminus", HAMLYN_COMMAND_CLOSE_TERMINUS, terminus, &[])?;
        if let Some(sleeper) = tables.termini.remove(&terminus).and_then(|closed| closed.sleeper) {
            self.seat.interrupts.remove(&sleeper);
        }
        Ok(())
    }

    fn wait_terminus(&self, terminus: u32, completed: u32, timeout: Option<Duration>) -> Result<()> {
        let (status, sleeper) = self.tables().sleeper_of(terminus)?;
        let waited = sleeper.wait(Some(completed), timeout, || has_reached(&status, completed));
        waited.map_err(Error::system("wait for requests"))
    }

    fn arm_terminus(&self, terminus: u32, completed: u32) -> Result<bool> {
        let (status, sleeper) = self.tables().sleeper_of(terminus)?;
        let armed = sleeper.arm(Some(completed), || has_reached(&status, completed));
        armed.map_err(Error::system("arm a terminus"))
    }

    fn terminus_file(&self, terminus: u32) -> Result<QueueFile<'_>> {
        Ok(QueueFile::Shared(self.tables().sleeper_of(terminus)?.1.file()))
    }

    fn set_send_buffer(&self, buffer: HamlynSendBuffer, memory: &Memory) -> Result<()> {
        let HamlynSendBuffer { terminus, tag, address, length, .. } = buffer;
        let (area, lists) = self.seat.area(memory, address, length)?;
        let mut tables = self.tables();
        let body = HamlynSetSendBuffer { tag, reserved: 0, area };
        self.seat.commands.run(
            "set a send buffer",
            HAMLYN_COMMAND_SET_SEND_BUFFER,
            terminus,
            body.as_bytes(),
        )?;
        if let Some(terminus) = tables.termini.get_mut(&terminus) {
            terminus.buffers.insert(tag, lists);
        }
        Ok(())
    }

    fn clear_send_buffer(&self, terminus: u32, tag: u32) -> Result<()> {
        let mut tables = self.tables();
        let body = HamlynSetSendBuffer { tag, ..HamlynSetSendBuffer::default() };
        self.seat.commands.run(
            "clear a send buffer",
            HAMLYN_COMMAND_CLEAR_SEND_BUFFER,
            terminus,
            body.as_bytes(),
        )?;
        if let Some(terminus) = tables.termini.get_mut(&terminus) {
            terminus.buffers.remove(&tag);
        }
        Ok(())
    }

    fn create_queue(&self, entries: u32) -> Result<QueueParts> {
        at_most("queue entries", entries.into(), HAMLYN_QUEUE_MAX_ENTRIES.into())?;
        if entries < HAMLYN_QUEUE_MIN_ENTRIES {
            return Err(Error::Invalid("a notification queue has at least 2 entries"));
        }
        self.open_queue(entries)
    }

    fn destroy_queue(&self, queue: u32) -> Result<()> {
        let mut tables = self.tables();
        self.seat.commands.run("close a queue", HAMLYN_COMMAND_CLOSE_QUEUE, queue, &[])?;
        if let Some(closed) = tables.queues.remove(&queue) {
            self.seat.interrupts.remove(&closed.sleeper);
        }
        Ok(())
    }

    fn wait_queue(&self, wait: QueueWait, timeout: Option<Duration>) -> Result<()> {
        let (entries, sleeper) = self.tables().sleeper(wait.queue)?;
        let look = || wait.is_over(entries.word(wait.cursor));
        sleeper.wait(None, timeout, look).map_err(Error::system("wait for a notification"))
    }

    fn arm_queue(&self, wait: QueueWait) -> Result<bool> {
        let (entries, sleeper) = self.tables().sleeper(wait.queue)?;
        let look = || wait.is_over(entries.word(wait.cursor));
        sleeper.arm(None, look).map_err(Error::system("arm a queue"))
    }

    fn queue_file(&self, queue: u32) -> Result<QueueFile<'_>> {
        Ok(QueueFile::Shared(self.tables().sleeper(queue)?.1.file()))
    }

    fn create_slot(
        &self,
        slot: &mut HamlynSlotCreate,
        area: &Memory,
        metadata: Option<&Memory>,
    ) -> Result<()> {
        let (area, lists) = self.seat.area(area, slot.area_address, slot.area_length)?;
        let mut kept = vec![lists];
        let mut metadata_area = UlnArea::default();
        if let Some(memory) = metadata {
            let length = u64::from(slot.metadata_entries) * u64::from(HAMLYN_METADATA_SIZE);
            let (area, lists) = self.seat.area(memory, slot.metadata_address, length)?;
            metadata_area = area;
            kept.push(lists);
        }
        let mut tables = self.tables();
        let index = free_index(&tables.slots, &self.description, &SLOTS)?;
        let key = crate::core::key::random_key()?;
        let body = HamlynOpenSlot {
            area,
            metadata: metadata_area,
            key,
            metadata_pointer: slot.metadata_address,
            metadata_entries: slot.metadata_entries,
            mode: slot.mode,
            queue: slot.queue,
            notification_index: slot.notification_index,
            flags: slot.flags,
            source: 0,
        };
        let action = "open a slot";
        self.open(HAMLYN_SHARE_SLOTS, action, HAMLYN_COMMAND_OPEN_SLOT, index, body.as_bytes())?;
        tables.slots.insert(index, kept);
        (slot.slot, slot.key) = (index, key);
        Ok(())
    }

    fn destroy_slot(&self, slot: u32) -> Result<()> {
        let mut tables = self.tables();
        self.seat.commands.run("close a slot", HAMLYN_COMMAND_CLOSE_SLOT, slot, &[])?;
        tables.slots.remove(&slot);
        Ok(())
    }
}

impl SocketAttachment {
    /// Runs a command that opens an object of a `HAMLYN_SHARE_*` kind.
    fn open(&self, kind: u32, action: &'static str, opcode: u32, index: u32, body: &[u8]) -> Result<()> {
        self.seat.commands.run(action, opcode, index, body).map_err(|error| match error {
            Error::Command { status: MEMORY_FULL, .. } => {
                self.query().ok().and_then(|card| memory_full(action, kind, &card)).unwrap_or(error)
            }
            _ => error,
        })
    }

    fn open_terminus(&self, weight: u32, flags: u32) -> Result<TerminusParts> {
        let action = "open a terminus";
        let mut tables = self.tables();
        let terminus = free_index(&tables.termini, &self.description, &TERMINI)?;
        let memory = self.seat.lender.lend(PAGE)?;
        let parts = self.map_terminus(terminus, &memory).map_err(Error::system("map a terminus"))?;
        let status = StatusWords::new(memory.mapping().clone()).map_err(Error::system("map a terminus"))?;
        let status = Arc::new(status);
        let count = Arc::new(Completed(status.clone()));
        let serve = |words| self.seat.interrupts.add(words, terminus, Some(count));
        let sleeper = self.layout.of_terminus(terminus).map(serve);
        let sleeper = sleeper.transpose().map_err(Error::system("serve a terminus"))?;
        let body = HamlynOpenTerminus {
            status: memory.card_address(),
            weight,
            flags: flags | if sleeper.is_some() { HAMLYN_TERMINUS_WAKES } else { 0 },
            vector: self.seat.interrupts.vector_of(terminus),
            reserved: 0,
        };
        self.open(HAMLYN_SHARE_TERMINI, action, HAMLYN_COMMAND_OPEN_TERMINUS, terminus, body.as_bytes())
            .inspect_err(|_| sleeper.iter().for_each(|sleeper| self.seat.interrupts.remove(sleeper)))?;
        let buffers = BTreeMap::new();
        tables.termini.insert(terminus, Terminus { status, sleeper, _memory: memory, buffers });
        Ok(parts)
    }

    fn open_queue(&self, entries: u32) -> Result<QueueParts> {
        let mut tables = self.tables();
        let queue = free_index(&tables.queues, &self.description, &QUEUES)?;
        let memory = self.seat.lender.lend(entries as usize * HAMLYN_NOTIFICATION_SIZE as usize)?;
        let (area, lists) = self.seat.area(&memory, memory.card_address(), memory.len() as u64)?;
        let view =
            || QueueEntries::new(memory.mapping().clone(), entries).map_err(Error::system("map a queue"));
        let parts = QueueParts { queue, entries: view()?, offset: None };
        let entries = Arc::new(view()?);
        let sleeper = self
            .seat
            .interrupts
            .add(Layout::of_queue(queue), queue, None)
            .map_err(Error::system("serve a queue"))?;
        let body = HamlynOpenQueue {
            area,
            entries: entries.entries(),
            vector: self.seat.interrupts.vector_of(queue),
        };
        self.open(HAMLYN_SHARE_QUEUES, "open a queue", HAMLYN_COMMAND_OPEN_QUEUE, queue, body.as_bytes())
            .inspect_err(|_| self.seat.interrupts.remove(&sleeper))?;
        tables.queues.insert(queue, Queue { entries, sleeper, _memory: [memory, lists] });
        Ok(parts)
    }
}

impl Drop for SocketAttachment {
    fn drop(&mut self) {
        if let Some(names) = &mut self.names {
            names.stop();
        }
        self.seat.reset();
    }
}

/// Returns true if the card has completed the requests before this number.
fn has_reached(status: &StatusWords, completed: u32) -> bool {
    status.completed().wrapping_sub(completed) as i32 >= 0
}
