//! Straight to a card's vfio-user socket from a host process, with no VM: the library plays VMM and driver.
//!
//! Memory is lent to the card by memfd. One process has the card to itself.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hamlyn_abi::family::area::HamlynArea;
use hamlyn_abi::family::command::*;
use hamlyn_abi::family::control::{HAMLYN_CONTROL_RESET, HAMLYN_REG_CONTROL};
use hamlyn_abi::family::identity::HAMLYN_REG_SCRATCH;
use hamlyn_abi::family::interrupts::{HAMLYN_MAX_VECTORS, HAMLYN_REG_INTERRUPT_TEST};
use hamlyn_abi::family::link::{HAMLYN_REG_HOST_ID, HAMLYN_REG_PORTS};
use hamlyn_abi::hamlyn::command::*;
use hamlyn_abi::hamlyn::metadata::HAMLYN_METADATA_SIZE;
use hamlyn_abi::hamlyn::notification::{
    HAMLYN_NOTIFICATION_SIZE, HAMLYN_QUEUE_MAX_ENTRIES, HAMLYN_QUEUE_MIN_ENTRIES,
};
use hamlyn_abi::hamlyn::statistics::HAMLYN_STATISTICS;
use hamlyn_abi::hamlyn::window::{HAMLYN_DOORBELL_SIZE, HAMLYN_WINDOW_SIZE};
use hamlyn_abi::kernel::well_known::HAMLYN_WELL_KNOWN_SLOTS;
use hamlyn_abi::uapi::{
    HAMLYN_CAPABILITY_CONNECTIONS, HamlynQuery, HamlynSelfTest, HamlynSendBuffer, HamlynSlotCreate,
    HamlynStatistics,
};
use hamlyn_sys::window::{QueueEntries, StatusWords, Window};
use hamlyn_sys::{Access, Mapping};
use zerocopy::{FromZeros, IntoBytes};

use self::client::{Client, MappableRegion};
use self::commands::Commands;
use self::handshake::Handshake;
use self::identity::{check_card, describe, map_control};
use self::interrupts::Interrupts;
use self::lender::Lender;
use self::message::{REGION_BAR0, REGION_BAR2, REGION_BAR4, REGION_CONFIG};
use self::names::Names;
use self::tables::{Queue, Tables, Terminus, free_index};
use super::{
    Attachment, ConnectionParts, Doorbell, ListenerParts, QueueFile, QueueParts, QueueWait, TerminusParts,
};
use crate::error::{Error, GivenBack, Result, at_most};
use crate::memory::Memory;

mod area;
mod client;
mod commands;
mod handshake;
mod identity;
mod interrupts;
mod lender;
mod message;
mod names;
mod own;
mod sleeper;
mod tables;

/// Size of a page, in bytes.
const PAGE: usize = 4096;
/// Command register in configuration space, and its bits for memory accesses and bus mastering.
const CONFIG_COMMAND: u32 = 4;
const CONFIG_COMMAND_MEMORY_AND_MASTER: u16 = 6;
/// A card reached through its vfio-user socket.
#[derive(Debug)]
pub struct SocketAttachment {
    // In the order in which they must go: the threads, the tables' memory, the command page, the connection.
    /// The operating system's part of connections, if the card has room for it.
    names: Option<Names>,
    interrupts: Interrupts,
    _handshake: Handshake,
    tables: Mutex<Tables>,
    commands: Commands,
    lender: Lender,
    windows: MappableRegion,
    description: HamlynQuery,
    client: Arc<Client>,
}

impl SocketAttachment {
    /// Connects to a card's socket, resets the card, enables it and keeps its handshake (section 2.8).
    ///
    /// # Errors
    /// [`Error::System`] if there is no card to talk to, [`Error::Incompatible`] if it is another.
    pub fn connect(path: &Path) -> Result<Self> {
        let failed = || Error::system(format!("attach to {}", path.display()));
        let client = Arc::new(Client::connect(path).map_err(failed())?);
        let description = describe(&client).map_err(failed())?;
        check_card(&client, &description, failed)?;
        let bits = CONFIG_COMMAND_MEMORY_AND_MASTER.to_le_bytes();
        client.write(REGION_CONFIG, CONFIG_COMMAND.into(), &bits).map_err(failed())?;
        client.write_u32(REGION_BAR0, HAMLYN_REG_CONTROL, HAMLYN_CONTROL_RESET).map_err(failed())?;
        let windows = client.region(REGION_BAR2).map_err(failed())?;
        let control = map_control(&windows, &description).map_err(failed())?;
        let interrupts = Interrupts::start(&client, control, description.vectors).map_err(failed())?;
        let lender = Lender::new(client.clone());
        let commands = Commands::start(client.clone(), lender.lend(HAMLYN_COMMAND_PAGE_SIZE as usize)?)?;
        let lapses = Arc::<AtomicU32>::default();
        let _handshake = Handshake::start(&client, lapses.clone()).map_err(failed())?;
        let tables = Mutex::default();
        let names = None;
        let mut own =
            Self { names, interrupts, _handshake, tables, commands, lender, windows, description, client };
        if names::has_room(&own.description) {
            own.names = Some(Names::start(&own, lapses)?);
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

    /// Describes `length` bytes at `address`, which must be `memory`'s, for the card. The page lists are to be kept
    /// for as long as the card may use them.
    fn area(&self, memory: &Memory, address: u64, length: u64) -> Result<(HamlynArea, Memory)> {
        let offset = address.wrapping_sub(memory.card_address());
        crate::error::inside("memory", offset, length, memory.len() as u64)?;
        let lists = self.lender.lend(area::list_pages(address, length) * PAGE)?;
        let (area, bytes) = area::page_lists(address, length, lists.card_address());
        lists.write(0, &bytes)?;
        Ok((area, lists))
    }

    fn map_terminus(&self, terminus: u32, status: &Memory) -> io::Result<TerminusParts> {
        let offset = u64::from(terminus) * u64::from(HAMLYN_WINDOW_SIZE);
        let window = self.windows.map(offset, HAMLYN_WINDOW_SIZE as usize)?;
        let offset = u64::from(terminus) * u64::from(HAMLYN_DOORBELL_SIZE);
        let doorbell = TrappedDoorbell { client: self.client.clone(), offset };
        Ok(TerminusParts {
            terminus,
            window: Window::new(Arc::new(window))?,
            status: StatusWords::new(status.mapping().clone())?,
            doorbell: Box::new(doorbell),
        })
    }
}

impl Attachment for SocketAttachment {
    fn query(&self) -> Result<HamlynQuery> {
        let host = self
            .client
            .read_u32(REGION_BAR0, HAMLYN_REG_HOST_ID)
            .map_err(Error::system("ask for the host id"))?;
        let ports = self.client.read_u32(REGION_BAR0, HAMLYN_REG_PORTS);
        let ports = ports.map_err(Error::system("ask for the switch's ports"))?;
        let mut query = HamlynQuery { host, ports, ..self.description };
        // What the operating system's part has is not the program's.
        if self.names.is_some() {
            query.termini -= 1;
            query.queues -= 1;
            query.slots -= HAMLYN_WELL_KNOWN_SLOTS;
            query.capabilities |= HAMLYN_CAPABILITY_CONNECTIONS;
        }
        Ok(query)
    }

    fn allocate(&self, length: usize) -> Result<Memory> {
        self.lender.lend(length)
    }

    fn lend(&self, mapping: Mapping) -> Result<Memory, GivenBack<Mapping>> {
        self.lender.lend_own(mapping)
    }

    fn create_terminus(&self, weight: u32) -> Result<TerminusParts> {
        self.open_terminus(weight, 0)
    }

    fn destroy_terminus(&self, terminus: u32) -> Result<()> {
        let mut tables = self.tables();
        self.commands.run("close a terminus", HAMLYN_COMMAND_CLOSE_TERMINUS, terminus, &[])?;
        if let Some(sleeper) = tables.termini.remove(&terminus).and_then(|closed| closed.sleeper) {
            self.interrupts.remove(&sleeper);
        }
        Ok(())
    }

    fn wait_terminus(&self, terminus: u32, completed: u32, timeout: Option<Duration>) -> Result<()> {
        let (status, sleeper) = self.tables().sleeper_of(terminus)?;
        sleeper.wait(Some(completed), timeout, || has_reached(&status, completed));
        Ok(())
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
        let (area, lists) = self.area(memory, address, length)?;
        let mut tables = self.tables();
        let body = HamlynSetSendBuffer { tag, reserved: 0, area };
        self.commands.run("set a send buffer", HAMLYN_COMMAND_SET_SEND_BUFFER, terminus, body.as_bytes())?;
        if let Some(terminus) = tables.termini.get_mut(&terminus) {
            terminus.buffers.insert(tag, lists);
        }
        Ok(())
    }

    fn clear_send_buffer(&self, terminus: u32, tag: u32) -> Result<()> {
        let mut tables = self.tables();
        let body = HamlynSetSendBuffer { tag, ..HamlynSetSendBuffer::default() };
        self.commands.run(
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
        self.commands.run("close a queue", HAMLYN_COMMAND_CLOSE_QUEUE, queue, &[])?;
        if let Some(closed) = tables.queues.remove(&queue) {
            self.interrupts.remove(&closed.sleeper);
        }
        Ok(())
    }

    fn wait_queue(&self, wait: QueueWait, timeout: Option<Duration>) -> Result<()> {
        let (entries, sleeper) = self.tables().sleeper(wait.queue)?;
        let look = || wait.is_over(entries.word(wait.cursor));
        sleeper.wait(None, timeout, look);
        Ok(())
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
        let (area, lists) = self.area(area, slot.area_address, slot.area_length)?;
        let mut kept = vec![lists];
        let mut metadata_area = HamlynArea::default();
        if let Some(memory) = metadata {
            let length = u64::from(slot.metadata_entries) * u64::from(HAMLYN_METADATA_SIZE);
            let (area, lists) = self.area(memory, slot.metadata_address, length)?;
            metadata_area = area;
            kept.push(lists);
        }
        let mut tables = self.tables();
        let index = free_index(&tables.slots, self.description.slots, "slots")?;
        let key = crate::key::random_key()?;
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
        self.commands.run("open a slot", HAMLYN_COMMAND_OPEN_SLOT, index, body.as_bytes())?;
        tables.slots.insert(index, kept);
        (slot.slot, slot.key) = (index, key);
        Ok(())
    }

    fn destroy_slot(&self, slot: u32) -> Result<()> {
        let mut tables = self.tables();
        self.commands.run("close a slot", HAMLYN_COMMAND_CLOSE_SLOT, slot, &[])?;
        tables.slots.remove(&slot);
        Ok(())
    }

    fn statistics(&self) -> Result<HamlynStatistics> {
        let mut statistics = HamlynStatistics::new_zeroed();
        statistics.count = HAMLYN_STATISTICS;
        let values = &mut statistics.values[..HAMLYN_STATISTICS as usize];
        self.commands.run_and_read(
            "read the counters",
            HAMLYN_COMMAND_READ_STATISTICS,
            0,
            &[],
            values.as_mut_bytes(),
        )?;
        Ok(statistics)
    }

    fn self_test(&self) -> Result<HamlynSelfTest> {
        let mut results = HamlynSelfTest::default();
        let failed = || Error::system("run the self-tests");
        let pattern = 0x1234_5678;
        self.client.write_u32(REGION_BAR0, HAMLYN_REG_SCRATCH, pattern).map_err(failed())?;
        let answer = self.client.read_u32(REGION_BAR0, HAMLYN_REG_SCRATCH).map_err(failed())?;
        results.access = u32::from(answer != !pattern);
        results.dma = self.test_dma()?;
        for vector in 0..self.description.vectors.min(HAMLYN_MAX_VECTORS) {
            let raise = || self.client.write_u32(REGION_BAR0, HAMLYN_REG_INTERRUPT_TEST, vector);
            if results.interrupt == 0 && !self.interrupts.test(vector, raise).map_err(failed())? {
                results.interrupt = vector + 1;
            }
        }
        Ok(results)
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

impl SocketAttachment {
    fn open_terminus(&self, weight: u32, flags: u32) -> Result<TerminusParts> {
        let action = "open a terminus";
        let mut tables = self.tables();
        let terminus = free_index(&tables.termini, self.description.termini, "termini")?;
        let memory = self.lender.lend(PAGE)?;
        let parts = self.map_terminus(terminus, &memory).map_err(Error::system("map a terminus"))?;
        let status = StatusWords::new(memory.mapping().clone()).map_err(Error::system("map a terminus"))?;
        let status = Arc::new(status);
        let serve = || self.interrupts.add_terminus(terminus, status.clone());
        let sleeper = self.interrupts.serve_termini().then(serve);
        let sleeper = sleeper.transpose().map_err(Error::system("serve a terminus"))?;
        let body = HamlynOpenTerminus {
            status: memory.card_address(),
            weight,
            flags: flags | if sleeper.is_some() { HAMLYN_TERMINUS_WAKES } else { 0 },
            vector: self.interrupts.vector_of(terminus),
            reserved: 0,
        };
        self.commands
            .run(action, HAMLYN_COMMAND_OPEN_TERMINUS, terminus, body.as_bytes())
            .inspect_err(|_| sleeper.iter().for_each(|sleeper| self.interrupts.remove(sleeper)))?;
        let buffers = BTreeMap::new();
        tables.termini.insert(terminus, Terminus { status, sleeper, _memory: memory, buffers });
        Ok(parts)
    }

    fn open_queue(&self, entries: u32) -> Result<QueueParts> {
        let mut tables = self.tables();
        let queue = free_index(&tables.queues, self.description.queues, "notification queues")?;
        let memory = self.lender.lend(entries as usize * HAMLYN_NOTIFICATION_SIZE as usize)?;
        let (area, lists) = self.area(&memory, memory.card_address(), memory.len() as u64)?;
        let view =
            || QueueEntries::new(memory.mapping().clone(), entries).map_err(Error::system("map a queue"));
        let parts = QueueParts { queue, entries: view()? };
        let entries = Arc::new(view()?);
        let sleeper = self.interrupts.add_queue(queue).map_err(Error::system("serve a queue"))?;
        let body =
            HamlynOpenQueue { area, entries: entries.entries(), vector: self.interrupts.vector_of(queue) };
        self.commands
            .run("open a queue", HAMLYN_COMMAND_OPEN_QUEUE, queue, body.as_bytes())
            .inspect_err(|_| self.interrupts.remove(&sleeper))?;
        tables.queues.insert(queue, Queue { entries, sleeper, _memory: [memory, lists] });
        Ok(parts)
    }

    /// 0 if the card copies a page as told, 1 if it refuses, 2 if the bytes are wrong.
    fn test_dma(&self) -> Result<u32> {
        let memory = self.lender.lend(2 * PAGE)?;
        let pattern: Vec<u8> = (0..PAGE).map(|index| (index * 7 + 1) as u8).collect();
        memory.write(0, &pattern)?;
        let from = memory.card_address();
        let body = HamlynTestDma { from, to: from + PAGE as u64, length: PAGE as u64 };
        if self.commands.run("test DMA", HAMLYN_COMMAND_TEST_DMA, 0, body.as_bytes()).is_err() {
            return Ok(1);
        }
        let mut copy = vec![0; PAGE];
        memory.read(PAGE, &mut copy)?;
        Ok(if copy == pattern { 0 } else { 2 })
    }
}

impl Drop for SocketAttachment {
    fn drop(&mut self) {
        if let Some(names) = &mut self.names {
            names.stop();
        }
        // Before the memory goes that the card may still write to. A card that is gone needs no reset.
        let _ = self.client.write_u32(REGION_BAR0, HAMLYN_REG_CONTROL, HAMLYN_CONTROL_RESET);
    }
}

/// Rings by a message to the card, which is not waited for: a doorbell is but news.
#[derive(Debug)]
struct TrappedDoorbell {
    client: Arc<Client>,
    offset: u64,
}

impl Doorbell for TrappedDoorbell {
    fn ring(&self) -> Result<()> {
        let rung = self.client.post(REGION_BAR4, self.offset, &1_u32.to_le_bytes());
        rung.map_err(Error::system("ring a doorbell"))
    }
}

impl MappableRegion {
    fn map(&self, offset: u64, length: usize) -> io::Result<Mapping> {
        if offset + length as u64 > self.size {
            let size = self.size;
            return Err(io::Error::other(format!("{length} bytes at {offset} of a region of {size} bytes")));
        }
        Mapping::of_file(&self.file, self.offset + offset, length, Access::ReadWrite)
    }
}

/// Whether the card has finished with the requests before this number.
fn has_reached(status: &StatusWords, completed: u32) -> bool {
    status.completed().wrapping_sub(completed) as i32 >= 0
}
