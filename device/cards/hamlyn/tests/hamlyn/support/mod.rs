//! Hosts in memory: a card with its ports, and the small part of a driver and a library that tests
//! need.

#![allow(dead_code, missing_docs, unreachable_pub, reason = "each test file uses a part")]

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use hamlyn_abi::family::area::UlnArea;
use hamlyn_abi::family::command::{ULN_REG_COMMAND_STATUS, ULN_STATUS_OK};
use hamlyn_abi::hamlyn::command::*;
use hamlyn_abi::hamlyn::metadata::{HAMLYN_METADATA_SIZE, HamlynMetadataEntry};
use hamlyn_abi::hamlyn::notification::{HAMLYN_NOTIFICATION_SIZE, HamlynNotification};
use hamlyn_abi::hamlyn::request::HamlynRequest;
use hamlyn_abi::hamlyn::statistics::Statistic;
use hamlyn_card::card::{Card, Progress};
use hamlyn_card::ports::{Dma, VolatileSlice};
use hamlyn_card_hamlyn::{HamlynCard, HamlynOptions};
use hamlyn_test_host::hamlyn::{HamlynCommands, HamlynProgram};
use hamlyn_test_host::{Commands, MEMORY_BYTES, Refusal, list_pages};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes};

/// A host with a Hamlyn card, whose programs read their notification queues.
pub struct Host {
    pub host: hamlyn_test_host::Host<HamlynCard>,
    queues: Vec<Reader>,
}

impl Deref for Host {
    type Target = hamlyn_test_host::Host<HamlynCard>;

    fn deref(&self) -> &Self::Target {
        &self.host
    }
}

impl DerefMut for Host {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.host
    }
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
    pub abi: UlnArea,
}

impl Host {
    pub fn new(id: u16, options: HamlynOptions) -> Self {
        let card = HamlynCard::new(options).unwrap();
        Self { host: hamlyn_test_host::Host::new(id, card).unwrap(), queues: Vec::new() }
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

    /// Runs a command. Checks that the command register holds its status, too.
    pub fn command(
        &mut self,
        opcode: u32,
        index: u32,
        body: impl IntoBytes + Immutable,
    ) -> Result<(), Refusal> {
        let done = self.run(opcode, index, &body);
        let status = done.map_or_else(|refusal| refusal.status, |()| ULN_STATUS_OK);
        assert_eq!(u64::from(status), self.read_register(ULN_REG_COMMAND_STATUS, 4));
        done
    }

    pub fn page(&self) -> u64 {
        // Takes every second page, so that no area is contiguous.
        self.pages(2)
    }

    /// Returns an area of `length` bytes that starts at byte `first` of its first page.
    pub fn area(&self, length: u64, first: u32) -> TestArea {
        let put = |address, bytes: &[u8]| self.put(address, bytes);
        TestArea { abi: list_pages(length, first, || self.page(), |_| self.page(), put) }
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
        let Ok(done) = self.host.open_terminus(terminus, &body);
        done.unwrap();
        status
    }

    /// Advances the clock, and runs the card's alarms that are due.
    pub fn pass(&mut self, time: Duration) {
        self.clock.0.set(self.clock.0.get() + time);
        while self.card.alarm().is_some_and(|alarm| alarm <= self.clock.0.get()) {
            self.with_card(|card, ports, _| card.tick(ports));
        }
    }

    pub fn set_send_buffer(&mut self, terminus: u32, tag: u32, area: &TestArea) {
        let Ok(done) = self.host.set_send_buffer(terminus, tag, area.abi);
        done.unwrap();
    }

    /// Opens the next notification queue. Returns its number.
    pub fn open_queue(&mut self, entries: u32) -> u32 {
        let area = self.area(u64::from(entries) * u64::from(HAMLYN_NOTIFICATION_SIZE), 0);
        let queue = self.queues.len() as u32;
        let Ok(done) = self.host.open_queue(queue, area.abi, entries, 1);
        done.unwrap();
        self.queues.push(Reader { area, entries, cursor: 0, wrap: 1 });
        queue
    }

    pub fn queue_area(&self, queue: u32) -> TestArea {
        self.queues[queue as usize].area
    }

    pub fn open_slot(&mut self, slot: u32, body: HamlynOpenSlot) {
        let Ok(done) = self.host.open_slot(slot, &body);
        done.unwrap();
    }

    /// Returns the next notification, if it has arrived.
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
        self.host.post(terminus, &request, body);
    }

    pub fn ring(&mut self, terminus: u32) {
        self.host.ring(terminus);
    }

    /// Transmits until nothing is left or the link is full, then lets the card sleep.
    pub fn transmit_all(&mut self) -> Progress {
        loop {
            match self.transmit() {
                Progress::Worked | Progress::Yielded => {}
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
        self.host.deliver(source, &[VolatileSlice::from(&mut bytes[..])]);
    }

    pub fn counter(&self, statistic: Statistic) -> u64 {
        self.card.counters()[statistic as usize].1
    }

    /// Returns all of host memory except the command page and the status words.
    pub fn memory_image(&self) -> Vec<u8> {
        let mut image = vec![0; MEMORY_BYTES - 2 * 4096];
        self.memory.at(2 * 4096, image.len()).unwrap().copy_to(&mut image[..]);
        image
    }
}

/// A sender and a receiver whose slot 3 has 64 KiB from byte 100 of its first page, 4 metadata
/// entries and queue 0.
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

    /// Carries every packet of the sender to the receiver.
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

/// Returns a request to the receiver's slot.
pub fn request(offset: u32, length: u32) -> HamlynRequest {
    HamlynRequest { destination: 1, slot: SLOT, key: KEY, offset, length, ..HamlynRequest::new_zeroed() }
}
