//! A host in memory: a card with its ports, and the little that a driver and a library do.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, ensure};
use hamlyn_abi::family::area::HamlynArea;
use hamlyn_abi::family::command::{
    HAMLYN_COMMAND_BODY, HAMLYN_REG_COMMAND_GO, HAMLYN_REG_COMMAND_PAGE, HAMLYN_REG_COMMAND_STATUS,
    HAMLYN_STATUS_OK, HamlynCommand,
};
use hamlyn_abi::family::control::{HAMLYN_CONTROL_ENABLE, HAMLYN_REG_CONTROL};
use hamlyn_abi::hamlyn::command::*;
use hamlyn_abi::hamlyn::metadata::HAMLYN_METADATA_SIZE;
use hamlyn_abi::hamlyn::notification::HAMLYN_NOTIFICATION_SIZE;
use hamlyn_abi::hamlyn::request::{HAMLYN_REQUEST_DMA, HamlynGather, HamlynRequest};
use hamlyn_abi::hamlyn::window::*;
use hamlyn_card::card::{Card, Place, Progress, Reading};
use hamlyn_card::ports::{Dma, DmaFault, Operation, Packet, Pieces, Ports, VolatileSlice, Window};
use hamlyn_card_hamlyn::{HamlynCard, HamlynOptions};
use vm_memory::{Bytes, MmapRegion, VolatileMemory};
use zerocopy::IntoBytes;

use super::{KEY, PACKETS, QUEUE_ENTRIES};
use crate::quiet::{Silent, Stopped, Wire};

/// A host in memory: a card with its ports, and the little that a driver and a library do.
pub(super) struct Host {
    card: HamlynCard,
    pub(super) memory: Memory,
    window: Pages,
    pub(super) wire: Wire,
    free: Cell<u64>,
    tail: u32,
    /// Where the open slot's area starts.
    pub(super) place: u64,
}

const COMMAND_PAGE: u64 = 4096;
const PAGE: u64 = 4096;

impl Host {
    pub(super) fn create() -> anyhow::Result<Self> {
        let card = HamlynCard::new(HamlynOptions::default()).context("no card")?;
        let used = card.identity().bars.iter().map(|bar| bar.size).max().unwrap_or_default();
        let mut host = Self {
            card,
            memory: Memory::create()?,
            window: Pages(RefCell::new(vec![0; used as usize])),
            wire: Wire::default(),
            free: Cell::new(2 * PAGE),
            tail: 0,
            place: 0,
        };
        host.with_card(|card, ports, _| card.link_changed(ports, Some(Place { host: 0, ports: 1 })));
        host.write_register(HAMLYN_REG_COMMAND_PAGE, 8, COMMAND_PAGE);
        host.write_register(HAMLYN_REG_CONTROL, 4, HAMLYN_CONTROL_ENABLE.into());
        Ok(host)
    }

    fn with_card<T>(&mut self, verb: impl FnOnce(&mut HamlynCard, &Ports<'_>, &mut Wire) -> T) -> T {
        let ports = Ports { dma: &self.memory, windows: &self.window, interrupt: &Silent, clock: &Stopped };
        verb(&mut self.card, &ports, &mut self.wire)
    }

    fn write_register(&mut self, register: u32, width: u8, value: u64) {
        self.with_card(|card, ports, _| card.register_write(ports, 0, register.into(), width, value));
    }

    fn command(&mut self, opcode: u32, body: &[u8]) -> anyhow::Result<()> {
        let command = HamlynCommand { opcode, index: 0, ..Default::default() };
        self.memory.put(COMMAND_PAGE, command.as_bytes());
        self.memory.put(COMMAND_PAGE + u64::from(HAMLYN_COMMAND_BODY), body);
        self.write_register(HAMLYN_REG_COMMAND_GO, 4, 1);
        let status = HAMLYN_REG_COMMAND_STATUS.into();
        let status = self.with_card(|card, ports, _| card.register_read(ports, 0, status, 4));
        let done = Reading::Now(HAMLYN_STATUS_OK.into());
        ensure!(status == done, "the card refused command {opcode} ({status:?})");
        Ok(())
    }

    fn pages(&self, count: u64) -> u64 {
        let first = self.free.get();
        self.free.set(first + count * PAGE);
        first
    }

    fn area(&self, length: u64) -> HamlynArea {
        let (directory, list) = (self.pages(1), self.pages(1));
        self.memory.put(directory, &list.to_le_bytes());
        for index in 0..length.div_ceil(PAGE) {
            self.memory.put(list + index * 8, &self.pages(1).to_le_bytes());
        }
        HamlynArea { directory, length, first: 0, reserved: 0 }
    }

    pub(super) fn open_terminus(&mut self) -> anyhow::Result<()> {
        let body = HamlynOpenTerminus { status: self.pages(1), weight: 1, ..Default::default() };
        self.command(HAMLYN_COMMAND_OPEN_TERMINUS, body.as_bytes())
    }

    pub(super) fn set_send_buffer(&mut self, length: u32) -> anyhow::Result<()> {
        let body = HamlynSetSendBuffer { tag: 0, reserved: 0, area: self.area(length.into()) };
        self.command(HAMLYN_COMMAND_SET_SEND_BUFFER, body.as_bytes())
    }

    pub(super) fn open_slot(&mut self) -> anyhow::Result<()> {
        let entries = self.area(u64::from(QUEUE_ENTRIES * HAMLYN_NOTIFICATION_SIZE));
        let queue = HamlynOpenQueue { area: entries, entries: QUEUE_ENTRIES, vector: 1 };
        self.command(HAMLYN_COMMAND_OPEN_QUEUE, queue.as_bytes())?;
        let area = self.area(PACKETS as u64 * PAGE);
        // Behind its lists come its pages, one after the other.
        self.place = area.directory + 2 * PAGE;
        let slot = HamlynOpenSlot {
            area,
            metadata: self.area(HAMLYN_METADATA_SIZE.into()),
            key: KEY,
            metadata_entries: 1,
            mode: HAMLYN_MODE_NORMAL,
            ..Default::default()
        };
        self.command(HAMLYN_COMMAND_OPEN_SLOT, slot.as_bytes())
    }

    /// Posts a message of 64 bytes by direct I/O.
    pub(super) fn post(&mut self) {
        self.post_request(HamlynRequest { key: KEY, length: 64, ..Default::default() }, &[0x5a; 64]);
    }

    /// Posts a message from the send buffer.
    pub(super) fn post_gather(&mut self, length: u32) {
        let request = HamlynRequest {
            key: KEY,
            length,
            flags: HAMLYN_REQUEST_DMA,
            gather_count: 1,
            ..Default::default()
        };
        let gather = HamlynGather { length, ..Default::default() };
        self.post_request(request, gather.as_bytes());
    }

    pub(super) fn post_request(&mut self, request: HamlynRequest, body: &[u8]) {
        let entry = HAMLYN_WINDOW_WORK_QUEUE + self.tail % HAMLYN_WORK_QUEUE_ENTRIES * HAMLYN_ENTRY_SIZE;
        let head = request.as_bytes();
        self.window.put(entry as usize, head);
        self.window.put(entry as usize + head.len(), body);
        self.tail = self.tail.wrapping_add(1);
        self.window.store(HAMLYN_WINDOW_TAIL.into(), self.tail);
        if self.window.load(HAMLYN_WINDOW_AWAKE.into()) == 0 {
            self.with_card(|card, ports, _| card.register_write(ports, 4, 0, 4, 1));
        }
    }

    pub(super) fn transmit(&mut self) {
        while self.with_card(|card, ports, wire| card.transmit(ports, wire)) == Progress::Worked {}
    }

    pub(super) fn deliver(&mut self, packet: &[VolatileSlice<'_>]) {
        let arrived = Packet { source: 0, bytes: Pieces::new(packet) };
        self.with_card(|card, ports, _| card.packet_arrived(ports, &arrived));
    }

    /// Fails unless the card has counted so many: what it refused took no time worth measuring.
    pub(super) fn counted(&self, name: &str, expected: u64) -> anyhow::Result<()> {
        let counters = self.card.counters();
        let count = counters.iter().find(|counter| counter.0 == name).map(|counter| counter.1);
        ensure!(count == Some(expected), "the card counted {count:?} {name} (not {expected}): {counters:?}");
        Ok(())
    }
}

/// Host memory, from address 0.
pub(super) struct Memory(MmapRegion);

impl Memory {
    pub(super) fn create() -> anyhow::Result<Self> {
        Ok(Self(MmapRegion::new(8 << 20).context("no memory")?))
    }

    pub(super) fn at(&self, address: u64, length: usize) -> Result<VolatileSlice<'_>, DmaFault> {
        let fault = DmaFault { address, length: length as u64 };
        self.0.get_slice(address as usize, length).map_err(|_| fault)
    }

    pub(super) fn put(&self, address: u64, bytes: &[u8]) {
        if let Ok(place) = self.at(address, bytes.len()) {
            place.copy_from(bytes);
        }
    }
}

impl Dma for Memory {
    fn read(&self, address: u64, into: VolatileSlice<'_>) -> Result<(), DmaFault> {
        self.at(address, into.len())?.copy_to_volatile_slice(into);
        Ok(())
    }

    fn lend(&self, address: u64, length: usize) -> Result<VolatileSlice<'_>, DmaFault> {
        self.at(address, length)
    }

    fn write(&self, address: u64, from: VolatileSlice<'_>) -> Result<(), DmaFault> {
        from.copy_to_volatile_slice(self.at(address, from.len())?);
        Ok(())
    }

    fn publish(&self, address: u64, value: u32) -> Result<(), DmaFault> {
        let misaligned = DmaFault { address, length: 4 };
        self.at(address, 4)?.store(value.to_le(), 0, Ordering::Release).map_err(|_| misaligned)
    }

    fn lend_to_write(&self, address: u64, length: usize) -> Result<Option<VolatileSlice<'_>>, DmaFault> {
        self.at(address, length).map(Some)
    }

    fn lend_to_change(&self, address: u64, length: usize) -> Result<Option<VolatileSlice<'_>>, DmaFault> {
        self.at(address, length).map(Some)
    }

    fn fetch(&self, address: u64, operation: Operation) -> Result<u64, DmaFault> {
        let word = self.at(address, 8)?;
        let misaligned = DmaFault { address, length: 8 };
        word.get_atomic_ref::<AtomicU64>(0).map(|word| operation.apply(word)).map_err(|_| misaligned)
    }
}

/// The mapped window.
struct Pages(RefCell<Vec<u8>>);

impl Pages {
    pub(super) fn put(&self, offset: usize, bytes: &[u8]) {
        self.0.borrow_mut()[offset..][..bytes.len()].copy_from_slice(bytes);
    }
}

impl Window for Pages {
    fn load(&self, offset: u64) -> u32 {
        let mut word = [0; 4];
        self.copy_out(offset, &mut word);
        u32::from_le_bytes(word)
    }

    fn store(&self, offset: u64, value: u32) {
        self.put(offset as usize, &value.to_le_bytes());
    }

    fn copy_out(&self, offset: u64, into: &mut [u8]) {
        into.copy_from_slice(&self.0.borrow()[offset as usize..][..into.len()]);
    }

    fn clear(&self, offset: u64, length: u64) {
        self.0.borrow_mut()[offset as usize..][..length as usize].fill(0);
    }
}
