//! The card's logic alone, on ports of memory, in one thread: what `cargo bench` and goal 9 measure.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, ensure};
use criterion::{BenchmarkId, Criterion, Throughput};
use hamlyn_abi::hamlyn::command::*;
use hamlyn_abi::hamlyn::metadata::HAMLYN_METADATA_SIZE;
use hamlyn_abi::hamlyn::notification::HAMLYN_NOTIFICATION_SIZE;
use hamlyn_abi::hamlyn::registers::*;
use hamlyn_abi::hamlyn::request::{HAMLYN_FAST_MODE, HAMLYN_REQUEST_DMA, HamlynGather, HamlynRequest};
use hamlyn_abi::hamlyn::window::*;
use hamlyn_models::card::{Card, Progress};
use hamlyn_models::hamlyn::{HamlynCard, HamlynOptions};
use hamlyn_models::ports::{
    Dma, DmaFault, Operation, Packet, Pieces, Ports, VolatileSlice, Window, add_to_word, replace_entry,
};
use vm_memory::{Bytes, MmapRegion, VolatileMemory};
use zerocopy::IntoBytes;

use crate::quiet::{Silent, Stopped, Wire};

const KEY: u64 = 0x1234_5678_9abc_def0;
const QUEUE_ENTRIES: u32 = 1024;
/// Bytes of the packets that are delivered.
const SIZES: [u32; 2] = [64, 4096];
/// As many are delivered in turn, each with a place of its own: 2 MiB of 4 KiB packets, as for the 64 KiB messages of goal 3.
const PACKETS: usize = 512;
/// The datasheet's packet header.
const HEADER_BYTES: usize = 40;
/// Bytes of a message that is cut into packets.
const LONG: u32 = 64 << 10;

/// Segmentation, delivery and notification.
pub fn benchmark(criterion: &mut Criterion) -> anyhow::Result<()> {
    segmentation(criterion)?;
    for size in SIZES {
        delivery(criterion, size, 1)?;
    }
    delivery(criterion, 4096, LONG as usize / 4096)?;
    notification(criterion)
}

/// Requests that a card makes into packets: short ones of a packet each, and a long one from a send buffer.
fn segmentation(criterion: &mut Criterion) -> anyhow::Result<()> {
    let mut group = criterion.benchmark_group("segmentation");
    let (mut host, mut posted) = (Host::create()?, 0);
    host.open_terminus()?;
    group.throughput(Throughput::Elements(1));
    group.bench_function("64 bytes", |bencher| {
        bencher.iter(|| {
            host.post();
            host.transmit();
            posted += 1;
        });
    });
    host.counted("packets_sent", posted)?;
    let (mut host, mut posted) = (Host::create()?, 0);
    host.open_terminus()?;
    host.set_send_buffer(LONG)?;
    group.throughput(Throughput::Bytes(LONG.into()));
    group.bench_function("64 KiB in packets of 4 KiB", |bencher| {
        bencher.iter(|| {
            host.post_gather(LONG);
            host.transmit();
            posted += 1;
        });
    });
    host.counted("packets_sent", posted * u64::from(LONG / 4096))?;
    group.finish();
    Ok(())
}

/// Packets of one size that a card delivers, each to where the one before ends. So many of them are a message, which has a
/// metadata entry and a notification.
fn delivery(criterion: &mut Criterion, size: u32, message: usize) -> anyhow::Result<()> {
    let mut group = criterion.benchmark_group("delivery");
    let (mut packets, mut host, mut delivered) = (Packets::create(size, message)?, Host::create()?, 0);
    host.open_slot()?;
    group.throughput(throughput(size));
    let name = match message {
        1 => format!("{size} bytes"),
        _ => format!("{size} bytes, {message} packets a message"),
    };
    group.bench_function(BenchmarkId::from_parameter(name), |bencher| {
        bencher.iter(|| {
            host.deliver(&packets.packet(delivered as usize));
            delivered += 1;
        });
    });
    group.finish();
    host.counted("notifications", delivered / message as u64)
}

/// Messages without data in fast mode: what is left of a delivery is its notification.
fn notification(criterion: &mut Criterion) -> anyhow::Result<()> {
    let mut group = criterion.benchmark_group("notification");
    let mut packet = one_packet(0, HAMLYN_FAST_MODE)?;
    let (mut host, mut delivered) = (Host::create()?, 0);
    host.open_slot()?;
    group.throughput(Throughput::Elements(1));
    group.bench_function("fast mode, no data", |bencher| {
        bencher.iter(|| {
            host.deliver(&[VolatileSlice::from(&mut packet[..])]);
            delivered += 1;
        });
    });
    group.finish();
    host.counted("notifications", delivered)
}

/// Packets a second for small ones, bytes a second for large ones.
pub(crate) fn throughput(size: u32) -> Throughput {
    if size < 1024 { Throughput::Elements(1) } else { Throughput::Bytes(size.into()) }
}

/// Copies of the same bytes, from where packets are to where a card puts them: the bound of everything that copies once.
pub fn memcpy(criterion: &mut Criterion) -> anyhow::Result<()> {
    let mut group = criterion.benchmark_group("memcpy");
    for size in SIZES {
        let (mut packets, memory, mut copied) = (Packets::create(size, 1)?, Memory::create()?, 0);
        let mut asked = false;
        group.throughput(throughput(size));
        group.bench_function(BenchmarkId::from_parameter(format!("{size} bytes")), |bencher| {
            asked = true;
            bencher.iter(|| {
                let place = (copied % PACKETS * size as usize) as u64;
                memory.write(place, packets.packet(copied)[1]).is_ok().then(|| copied += 1)
            });
        });
        ensure!(copied > 0 || !asked, "nothing was copied");
    }
    group.finish();
    Ok(())
}

/// Packets for a message area: the first's data goes to its start, the next's behind that, and so on. As in the fabric process,
/// the header is the sending card's own, which has just written it, and the data is where the sender has it.
struct Packets {
    header: Vec<u8>,
    data: Memory,
    size: usize,
    /// Packets of a message.
    message: usize,
}

impl Packets {
    fn create(size: u32, message: usize) -> anyhow::Result<Self> {
        let mut header = one_packet(size, 0)?;
        header.truncate(HEADER_BYTES);
        let data = Memory::create()?;
        data.put(0, &vec![0x5a; PACKETS * size as usize]);
        Ok(Self { header, data, size: size as usize, message })
    }

    /// The pieces of a packet. The last of each message makes the packet accumulator 0 (section 2.5).
    fn packet(&mut self, number: usize) -> [VolatileSlice<'_>; 2] {
        let (offset, last) = (number % PACKETS * self.size, self.message - 1);
        let delta = if number % self.message == last { (last as u32).wrapping_neg() } else { 1 };
        self.header[0x10..0x14].copy_from_slice(&(offset as u32).to_le_bytes());
        self.header[0x18..0x1c].copy_from_slice(&delta.to_le_bytes());
        let Self { header, data, size, .. } = self;
        let data = data.at(offset as u64, *size);
        [VolatileSlice::from(&mut header[..]), data.unwrap_or_else(|_| VolatileSlice::from(&mut [][..]))]
    }
}

/// A packet with so many bytes of data: as a card sends it, but for its length.
fn one_packet(size: u32, metadata_index: u32) -> anyhow::Result<Vec<u8>> {
    let mut host = Host::create()?;
    host.open_terminus()?;
    let request = HamlynRequest { key: KEY, metadata_index, length: 64, ..Default::default() };
    host.post_request(request, &[0x5a; 64]);
    host.transmit();
    host.counted("packets_sent", 1)?;
    let mut packet = host.wire.bytes;
    // The packet's length (the datasheet's packet header), and so much data behind its header.
    packet[0x14..0x18].copy_from_slice(&size.to_le_bytes());
    packet.resize(HEADER_BYTES + size as usize, 0x5a);
    Ok(packet)
}

/// A host in memory: a card with its ports, and the little that a driver and a library do.
struct Host {
    card: HamlynCard,
    memory: Memory,
    window: Pages,
    wire: Wire,
    free: Cell<u64>,
    tail: u32,
}

const COMMAND_PAGE: u64 = 4096;
const PAGE: u64 = 4096;

impl Host {
    fn create() -> anyhow::Result<Self> {
        let card = HamlynCard::new(HamlynOptions::default()).context("no card")?;
        let used = card.identity().bars.iter().map(|bar| bar.size).max().unwrap_or_default();
        let mut host = Self {
            card,
            memory: Memory::create()?,
            window: Pages(RefCell::new(vec![0; used as usize])),
            wire: Wire::default(),
            free: Cell::new(2 * PAGE),
            tail: 0,
        };
        host.with_card(|card, ports, _| card.link_changed(ports, Some(0)));
        host.write_register(HAMLYN_REG_COMMAND_PAGE, 8, COMMAND_PAGE);
        host.write_register(HAMLYN_REG_CONTROL, 4, HAMLYN_CONTROL_ENABLE.into());
        Ok(host)
    }

    fn with_card<T>(&mut self, verb: impl FnOnce(&mut HamlynCard, &Ports<'_>, &mut Wire) -> T) -> T {
        let ports = Ports { dma: &self.memory, window: &self.window, interrupt: &Silent, clock: &Stopped };
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
        ensure!(status == u64::from(HAMLYN_STATUS_OK), "the card refused command {opcode} (status {status})");
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

    fn open_terminus(&mut self) -> anyhow::Result<()> {
        let body = HamlynOpenTerminus { status: self.pages(1), weight: 1, flags: 0 };
        self.command(HAMLYN_COMMAND_OPEN_TERMINUS, body.as_bytes())
    }

    fn set_send_buffer(&mut self, length: u32) -> anyhow::Result<()> {
        let body = HamlynSetSendBuffer { tag: 0, reserved: 0, area: self.area(length.into()) };
        self.command(HAMLYN_COMMAND_SET_SEND_BUFFER, body.as_bytes())
    }

    fn open_slot(&mut self) -> anyhow::Result<()> {
        let entries = self.area(u64::from(QUEUE_ENTRIES * HAMLYN_NOTIFICATION_SIZE));
        let queue = HamlynOpenQueue { area: entries, entries: QUEUE_ENTRIES, vector: 1 };
        self.command(HAMLYN_COMMAND_OPEN_QUEUE, queue.as_bytes())?;
        let slot = HamlynOpenSlot {
            area: self.area(PACKETS as u64 * PAGE),
            metadata: self.area(HAMLYN_METADATA_SIZE.into()),
            key: KEY,
            metadata_entries: 1,
            mode: HAMLYN_MODE_NORMAL,
            ..Default::default()
        };
        self.command(HAMLYN_COMMAND_OPEN_SLOT, slot.as_bytes())
    }

    /// Posts a message of 64 bytes by direct I/O.
    fn post(&mut self) {
        self.post_request(HamlynRequest { key: KEY, length: 64, ..Default::default() }, &[0x5a; 64]);
    }

    /// Posts a message from the send buffer.
    fn post_gather(&mut self, length: u32) {
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

    fn post_request(&mut self, request: HamlynRequest, body: &[u8]) {
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

    fn transmit(&mut self) {
        while self.with_card(|card, ports, wire| card.transmit(ports, wire)) == Progress::Worked {}
    }

    fn deliver(&mut self, packet: &[VolatileSlice<'_>]) {
        let arrived = Packet { source: 0, bytes: Pieces::new(packet) };
        self.with_card(|card, ports, _| card.packet_arrived(ports, &arrived));
    }

    /// Fails unless the card has counted so many: what it refused took no time worth measuring.
    fn counted(&self, name: &str, expected: u64) -> anyhow::Result<()> {
        let counters = self.card.counters();
        let count = counters.iter().find(|counter| counter.0 == name).map(|counter| counter.1);
        ensure!(count == Some(expected), "the card counted {count:?} {name} (not {expected}): {counters:?}");
        Ok(())
    }
}

/// Host memory, from address 0.
struct Memory(MmapRegion);

impl Memory {
    fn create() -> anyhow::Result<Self> {
        Ok(Self(MmapRegion::new(8 << 20).context("no memory")?))
    }

    fn at(&self, address: u64, length: usize) -> Result<VolatileSlice<'_>, DmaFault> {
        let fault = DmaFault { address, length: length as u64 };
        self.0.get_slice(address as usize, length).map_err(|_| fault)
    }

    fn put(&self, address: u64, bytes: &[u8]) {
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

    fn accumulate(&self, address: u64, amount: u32) -> Result<u32, DmaFault> {
        add_to_word(&self.at(address, 4)?, amount).ok_or(DmaFault { address, length: 4 })
    }

    fn publish_entry(
        &self,
        address: u64,
        from: VolatileSlice<'_>,
        word: usize,
        stale: Option<u32>,
        fresh: u32,
    ) -> Result<(), DmaFault> {
        replace_entry(&self.at(address, from.len())?, from, word, stale, fresh)
            .ok_or(DmaFault { address, length: from.len() as u64 })
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
    fn put(&self, offset: usize, bytes: &[u8]) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_timed_is_done() {
        let mut host = Host::create().unwrap();
        host.open_slot().unwrap();
        for size in [0, 64, 4096] {
            let packet = &mut one_packet(size, 0).unwrap()[..];
            host.deliver(&[VolatileSlice::from(packet)]);
        }
        let packet = &mut one_packet(0, HAMLYN_FAST_MODE).unwrap()[..];
        host.deliver(&[VolatileSlice::from(packet)]);
        host.counted("notifications", 4).unwrap();
        let mut packets = Packets::create(4096, 16).unwrap();
        (0..40).for_each(|number| host.deliver(&packets.packet(number)));
        host.counted("notifications", 6).unwrap();
        let mut packets = Packets::create(64, 1).unwrap();
        (0..3).for_each(|number| host.deliver(&packets.packet(number)));
        host.counted("notifications", 9).unwrap();
        host.open_terminus().unwrap();
        host.set_send_buffer(LONG).unwrap();
        host.post_gather(LONG);
        host.transmit();
        host.counted("packets_sent", 16).unwrap();
    }
}
