//! Hosts in memory: a card with its ports, and the little that a driver and a library do.

#![allow(dead_code, missing_docs, unreachable_pub, reason = "each test file uses a part")]

use std::cell::{Cell, RefCell};
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use hamlyn_abi::family::area::HamlynArea;
use hamlyn_abi::family::command::{
    HAMLYN_COMMAND_BODY, HAMLYN_REG_COMMAND_GO, HAMLYN_REG_COMMAND_PAGE, HAMLYN_REG_COMMAND_STATUS,
    HAMLYN_STATUS_OK, HamlynCommand,
};
use hamlyn_abi::family::control::{HAMLYN_CONTROL_ENABLE, HAMLYN_REG_CONTROL};
use hamlyn_abi::hamlyn::command::*;
use hamlyn_abi::hamlyn::metadata::{HAMLYN_METADATA_SIZE, HamlynMetadataEntry};
use hamlyn_abi::hamlyn::notification::{HAMLYN_NOTIFICATION_SIZE, HamlynNotification};
use hamlyn_abi::hamlyn::request::HamlynRequest;
use hamlyn_abi::hamlyn::statistics::Statistic;
use hamlyn_abi::hamlyn::window::*;
use hamlyn_card::card::{Card, Place, Progress};
use hamlyn_card::ports::{
    Clock, Dma, DmaFault, Interrupt, Link, Operation, Packet, Pieces, Ports, VolatileSlice, Window,
};
use hamlyn_card_hamlyn::{HamlynCard, HamlynOptions};
use vm_memory::{MmapRegion, VolatileMemory};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

/// Host memory, 8 MiB from address 0, and what its owner writes there as soon as the card has read from an address.
pub struct Memory(MmapRegion, pub Cell<Option<(u64, u64, u64)>>);

const MEMORY_BYTES: usize = 8 << 20;

impl Memory {
    fn new() -> Self {
        Self(MmapRegion::new(MEMORY_BYTES).unwrap(), Cell::default())
    }

    fn at(&self, address: u64, length: usize) -> Result<VolatileSlice<'_>, DmaFault> {
        self.0.get_slice(address as usize, length).map_err(|_| DmaFault { address, length: length as u64 })
    }
}

impl Dma for Memory {
    fn read(&self, address: u64, into: VolatileSlice<'_>) -> Result<(), DmaFault> {
        self.at(address, into.len())?.copy_to_volatile_slice(into);
        if let Some((_, to, value)) = self.1.get().filter(|(read, ..)| *read == address) {
            self.1.set(None);
            self.at(to, 8)?.copy_from(&value.to_le_bytes());
        }
        Ok(())
    }

    fn lend(&self, address: u64, length: usize) -> Result<VolatileSlice<'_>, DmaFault> {
        self.at(address, length)
    }

    fn write(&self, address: u64, from: VolatileSlice<'_>) -> Result<(), DmaFault> {
        from.copy_to_volatile_slice(self.at(address, from.len())?);
        Ok(())
    }

    fn lend_to_write(&self, address: u64, length: usize) -> Result<Option<VolatileSlice<'_>>, DmaFault> {
        self.at(address, length).map(Some)
    }

    fn lend_to_change(&self, address: u64, length: usize) -> Result<Option<VolatileSlice<'_>>, DmaFault> {
        self.at(address, length).map(Some)
    }

    fn publish(&self, address: u64, value: u32) -> Result<(), DmaFault> {
        self.at(address, 4)?.copy_from(&value.to_le_bytes());
        Ok(())
    }

    fn fetch(&self, address: u64, operation: Operation) -> Result<u64, DmaFault> {
        let word = self.at(address, 8)?;
        Ok(operation.apply(word.get_atomic_ref::<AtomicU64>(0).unwrap()))
    }
}

/// A clock that a test sets.
#[derive(Default)]
pub struct TestClock(pub Cell<Duration>);

impl Clock for TestClock {
    fn now(&self) -> Duration {
        self.0.get()
    }
}

pub struct Pages(RefCell<Vec<u8>>);

impl Window for Pages {
    fn load(&self, offset: u64) -> u32 {
        let at = offset as usize;
        u32::from_le_bytes(self.0.borrow()[at..at + 4].try_into().unwrap())
    }

    fn store(&self, offset: u64, value: u32) {
        let at = offset as usize;
        self.0.borrow_mut()[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }

    fn copy_out(&self, offset: u64, into: &mut [u8]) {
        into.copy_from_slice(&self.0.borrow()[offset as usize..][..into.len()]);
    }

    fn clear(&self, offset: u64, length: u64) {
        self.0.borrow_mut()[offset as usize..][..length as usize].fill(0);
    }
}

#[derive(Default)]
pub struct Interrupts(pub RefCell<Vec<u16>>);

impl Interrupt for Interrupts {
    fn raise(&self, vector: u16) {
        self.0.borrow_mut().push(vector);
    }
}

/// A link that keeps packets: `(destination, bytes)`.
#[derive(Default)]
pub struct Wire {
    pub sent: Vec<(u16, Vec<u8>)>,
    /// How many packets it takes before it is full.
    pub room: Option<usize>,
    /// Hosts for which it takes nothing now.
    pub stopped: Vec<u16>,
    /// How often the switch wanted packets to one of these again.
    pub resumptions: u64,
}

impl Link for Wire {
    fn send(&mut self, destination: u16, packet: &[VolatileSlice<'_>]) -> bool {
        if self.room.is_some_and(|room| self.sent.len() >= room) {
            return false;
        }
        let mut pieces = Pieces::new(packet);
        let mut bytes = vec![0; pieces.len()];
        pieces.take_into(&mut bytes).unwrap();
        self.sent.push((destination, bytes));
        true
    }

    fn is_stopped(&self, destination: u16) -> bool {
        self.stopped.contains(&destination)
    }

    fn resumptions(&self) -> u64 {
        self.resumptions
    }
}

/// A host: memory, a card, and the driver's and library's side of both.
pub struct Host {
    pub id: u16,
    pub card: HamlynCard,
    pub memory: Memory,
    pub window: Pages,
    pub interrupts: Interrupts,
    pub clock: TestClock,
    pub wire: Wire,
    /// Where free memory starts.
    free: Cell<u64>,
    queues: Vec<Reader>,
}

#[derive(Clone, Copy)]
struct Reader {
    area: TestArea,
    entries: u32,
    cursor: u32,
    wrap: u32,
}

/// An area of scattered pages.
#[derive(Debug, Clone, Copy)]
pub struct TestArea {
    pub abi: HamlynArea,
}

const COMMAND_PAGE: u64 = 4096;

#[derive(Debug, PartialEq, Eq)]
pub struct Refusal {
    pub status: u32,
    pub value: u64,
    pub limit: u64,
}

impl Host {
    pub fn new(id: u16, options: HamlynOptions) -> Self {
        let card = HamlynCard::new(options).unwrap();
        let used = card.identity().bars[1].size as usize;
        let mut host = Self {
            id,
            card,
            memory: Memory::new(),
            window: Pages(RefCell::new(vec![0; used])),
            interrupts: Interrupts::default(),
            clock: TestClock::default(),
            wire: Wire::default(),
            free: Cell::new(2 * 4096),
            queues: Vec::new(),
        };
        host.with_card(|card, ports, _| card.link_changed(ports, Some(Place { host: id, ports: 64 })));
        host.interrupts.0.borrow_mut().clear();
        host.write_register(HAMLYN_REG_COMMAND_PAGE, 8, COMMAND_PAGE);
        host.write_register(HAMLYN_REG_CONTROL, 4, HAMLYN_CONTROL_ENABLE.into());
        host
    }

    pub fn with_card<T>(&mut self, verb: impl FnOnce(&mut HamlynCard, &Ports<'_>, &mut Wire) -> T) -> T {
        let ports = Ports {
            dma: &self.memory,
            windows: &self.window,
            interrupt: &self.interrupts,
            clock: &self.clock,
        };
        verb(&mut self.card, &ports, &mut self.wire)
    }

    pub fn write_register(&mut self, register: u32, width: u8, value: u64) {
        self.with_card(|card, ports, _| card.register_write(ports, 0, register.into(), width, value));
    }

    pub fn read_register(&mut self, register: u32, width: u8) -> u64 {
        let reading = self.with_card(|card, ports, _| card.register_read(ports, 0, register.into(), width));
        reading.now().unwrap()
    }

    pub fn write<T: IntoBytes + FromBytes>(&self, address: u64, mut value: T) {
        self.memory.write(address, VolatileSlice::from(value.as_mut_bytes())).unwrap();
    }

    pub fn read<T: FromBytes + IntoBytes>(&self, address: u64) -> T {
        let mut value = T::new_zeroed();
        self.memory.read(address, VolatileSlice::from(value.as_mut_bytes())).unwrap();
        value
    }

    /// Runs a command.
    pub fn command<T: IntoBytes + FromBytes>(
        &mut self,
        opcode: u32,
        index: u32,
        body: T,
    ) -> Result<(), Refusal> {
        self.write(COMMAND_PAGE, HamlynCommand { opcode, index, ..Default::default() });
        self.write(COMMAND_PAGE + u64::from(HAMLYN_COMMAND_BODY), body);
        self.write_register(HAMLYN_REG_COMMAND_GO, 4, 1);
        let HamlynCommand { status, value, limit, .. } = self.read(COMMAND_PAGE);
        assert_eq!(u64::from(status), self.read_register(HAMLYN_REG_COMMAND_STATUS, 4));
        if status == HAMLYN_STATUS_OK { Ok(()) } else { Err(Refusal { status, value, limit }) }
    }

    pub fn page(&self) -> u64 {
        // Every second page, so that no area is contiguous.
        let page = self.free.get();
        self.free.set(page + 8192);
        page
    }

    /// An area of `length` bytes that starts at byte `first` of its first page.
    pub fn area(&self, length: u64, first: u32) -> TestArea {
        let directory = self.page();
        let pages = (length + u64::from(first)).div_ceil(4096);
        let mut list = 0;
        for i in 0..pages {
            if i % 512 == 0 {
                list = self.page();
                self.write(directory + i / 512 * 8, list);
            }
            let page = self.page();
            self.write(list + i % 512 * 8, page);
        }
        TestArea { abi: HamlynArea { directory, length, first, reserved: 0 } }
    }

    pub fn address(&self, area: &TestArea, offset: u64) -> u64 {
        let byte = u64::from(area.abi.first) + offset;
        let list: u64 = self.read(area.abi.directory + byte / 4096 / 512 * 8);
        self.read::<u64>(list + byte / 4096 % 512 * 8) + byte % 4096
    }

    pub fn poke(&self, area: &TestArea, offset: u64, bytes: &[u8]) {
        for (i, byte) in bytes.iter().enumerate() {
            self.write(self.address(area, offset + i as u64), *byte);
        }
    }

    pub fn peek(&self, area: &TestArea, offset: u64, length: usize) -> Vec<u8> {
        (0..length).map(|i| self.read(self.address(area, offset + i as u64))).collect()
    }

    pub fn open_terminus(&mut self, terminus: u32) -> u64 {
        self.open_terminus_weighted(terminus, 1)
    }

    pub fn open_terminus_weighted(&mut self, terminus: u32, weight: u32) -> u64 {
        let status = self.page();
        let body = HamlynOpenTerminus { status, weight, ..Default::default() };
        self.command(HAMLYN_COMMAND_OPEN_TERMINUS, terminus, body).unwrap();
        status
    }

    /// Lets time pass, and the card notice.
    pub fn pass(&mut self, time: Duration) {
        self.clock.0.set(self.clock.0.get() + time);
        while self.card.alarm().is_some_and(|alarm| alarm <= self.clock.0.get()) {
            self.with_card(|card, ports, _| card.tick(ports));
        }
    }

    pub fn set_send_buffer(&mut self, terminus: u32, tag: u32, area: &TestArea) {
        let body = HamlynSetSendBuffer { tag, reserved: 0, area: area.abi };
        self.command(HAMLYN_COMMAND_SET_SEND_BUFFER, terminus, body).unwrap();
    }

    /// Opens the next notification queue.
    pub fn open_queue(&mut self, entries: u32) -> u32 {
        let area = self.area(u64::from(entries) * u64::from(HAMLYN_NOTIFICATION_SIZE), 0);
        let queue = self.queues.len() as u32;
        let body = HamlynOpenQueue { area: area.abi, entries, vector: 1 };
        self.command(HAMLYN_COMMAND_OPEN_QUEUE, queue, body).unwrap();
        self.queues.push(Reader { area, entries, cursor: 0, wrap: 1 });
        queue
    }

    pub fn queue_area(&self, queue: u32) -> TestArea {
        self.queues[queue as usize].area
    }

    pub fn open_slot(&mut self, slot: u32, body: HamlynOpenSlot) {
        self.command(HAMLYN_COMMAND_OPEN_SLOT, slot, body).unwrap();
    }

    /// The next notification, if it is there.
    pub fn receive(&mut self, queue: u32) -> Option<HamlynNotification> {
        let mut reader = self.queues[queue as usize];
        let offset = u64::from(reader.cursor) * u64::from(HAMLYN_NOTIFICATION_SIZE);
        let entry: HamlynNotification = self.read(self.address(&reader.area, offset));
        if entry.wrap & 1 != reader.wrap {
            return None;
        }
        reader.cursor += 1;
        if reader.cursor == reader.entries {
            reader.cursor = 0;
            reader.wrap ^= 1;
        }
        self.queues[queue as usize] = reader;
        Some(entry)
    }

    /// Posts a request and rings if the card sleeps.
    pub fn post(&mut self, terminus: u32, request: HamlynRequest, body: &[u8]) {
        let window = u64::from(terminus) * u64::from(HAMLYN_WINDOW_SIZE);
        let tail = self.window.load(window + u64::from(HAMLYN_WINDOW_TAIL));
        let entry = window
            + u64::from(HAMLYN_WINDOW_WORK_QUEUE)
            + u64::from(tail % HAMLYN_WORK_QUEUE_ENTRIES) * u64::from(HAMLYN_ENTRY_SIZE);
        let mut bytes = request.as_bytes().to_vec();
        bytes.extend(body);
        self.window.0.borrow_mut()[entry as usize..][..bytes.len()].copy_from_slice(&bytes);
        self.window.store(window + u64::from(HAMLYN_WINDOW_TAIL), tail.wrapping_add(1));
        if self.window.load(window + u64::from(HAMLYN_WINDOW_AWAKE)) == 0 {
            self.ring(terminus);
        }
    }

    pub fn ring(&mut self, terminus: u32) {
        let offset = u64::from(terminus) * u64::from(HAMLYN_DOORBELL_SIZE);
        self.with_card(|card, ports, _| card.register_write(ports, 4, offset, 4, 1));
    }

    /// Transmits until there is nothing left or the link is full, then sleeps.
    pub fn transmit_all(&mut self) -> Progress {
        loop {
            match self.with_card(|card, ports, wire| card.transmit(ports, wire)) {
                Progress::Worked => {}
                Progress::LinkFull => return Progress::LinkFull,
                Progress::Idle => {
                    if self.with_card(|card, ports, _| card.sleep(ports)) {
                        return Progress::Idle;
                    }
                }
            }
        }
    }

    pub fn deliver(&mut self, source: u16, mut bytes: Vec<u8>) {
        let packet = Packet { source, bytes: VolatileSlice::from(&mut bytes[..]).into() };
        self.with_card(|card, ports, _| card.packet_arrived(ports, &packet));
    }

    pub fn counter(&self, statistic: Statistic) -> u64 {
        self.card.counters()[statistic as usize].1
    }

    /// Everything in host memory but the command page and the status words.
    pub fn memory_image(&self) -> Vec<u8> {
        let mut image = vec![0; MEMORY_BYTES - 2 * 4096];
        self.memory.at(2 * 4096, image.len()).unwrap().copy_to(&mut image[..]);
        image
    }
}

/// A sender and a receiver whose slot 3 has 64 KiB from byte 100 of its first page, 4 metadata entries and queue 0.
pub struct Two {
    pub sender: Host,
    pub receiver: Host,
    pub area: TestArea,
    pub metadata: TestArea,
}

pub const KEY: u64 = 0x1234_5678_9abc_def0;
pub const SLOT: u32 = 3;
pub const AREA: u64 = 65536;
pub const POINTER: u64 = 0x7000_0000;

impl Two {
    pub fn new(options: HamlynOptions, mode: u32) -> Self {
        let mut sender = Host::new(0, options);
        let mut receiver = Host::new(1, options);
        sender.open_terminus(0);
        let queue = receiver.open_queue(4);
        let area = receiver.area(AREA, 100);
        let metadata = receiver.area(4 * u64::from(HAMLYN_METADATA_SIZE), 256);
        let body = HamlynOpenSlot {
            area: area.abi,
            metadata: metadata.abi,
            key: KEY,
            metadata_pointer: POINTER,
            metadata_entries: 4,
            mode,
            queue,
            notification_index: 77,
            ..Default::default()
        };
        receiver.open_slot(SLOT, body);
        Self { sender, receiver, area, metadata }
    }

    /// Carries every packet across.
    pub fn carry(&mut self) {
        assert_eq!(self.sender.transmit_all(), Progress::Idle);
        for (destination, bytes) in std::mem::take(&mut self.sender.wire.sent) {
            assert_eq!(destination, self.receiver.id);
            self.receiver.deliver(self.sender.id, bytes);
        }
    }

    pub fn entry(&self, index: u64) -> HamlynMetadataEntry {
        let bytes = self.receiver.peek(&self.metadata, index * 128, 128);
        HamlynMetadataEntry::read_from_bytes(&bytes).unwrap()
    }

    pub fn set_entry(&self, index: u64, entry: HamlynMetadataEntry) {
        self.receiver.poke(&self.metadata, index * 128, entry.as_bytes());
    }
}

/// A request to the receiver's slot.
pub fn request(offset: u32, length: u32) -> HamlynRequest {
    HamlynRequest { destination: 1, slot: SLOT, key: KEY, offset, length, ..HamlynRequest::new_zeroed() }
}
