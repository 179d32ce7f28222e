//! The card's logic alone, on ports of memory, in one thread: what `cargo bench` and goal 9 measure.

mod host;

use std::cell::RefCell;
use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::ensure;
use criterion::{BenchmarkId, Criterion, Throughput};
use hamlyn_abi::hamlyn::request::{HAMLYN_FAST_MODE, HamlynRequest};
use hamlyn_bench_guest::pattern::Pattern;
use hamlyn_card::ports::{Dma, VolatileSlice};

use self::host::{Host, Memory};

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

/// Delivers and copies so many packets. As in [`one_process`](crate::one_process), what callgrind counts are functions that are never
/// inlined.
pub fn walk_paths(count: u64) -> anyhow::Result<()> {
    let (mut small, mut large) = (Delivery::create(64, 1)?, Delivery::create(4096, 16)?);
    let memory = Memory::create()?;
    for number in 0..count as usize {
        for delivery in [&mut small, &mut large] {
            delivery.packets.fill(number);
            delivery.delivered = number + 1;
        }
        path_deliver_64(&mut small.host, &small.packets.packet(number));
        path_deliver_4096(&mut large.host, &large.packets.packet(number));
        let place = large.packets.place(number) as u64;
        ensure!(path_copy_4096(&memory, place, large.packets.packet(number)[1]), "no room to copy");
        for Delivery { packets, host, .. } in [&small, &large] {
            packets.check(number, &host.memory, host.place)?;
        }
    }
    small.finish()?;
    large.finish()
}

#[inline(never)]
fn path_deliver_64(host: &mut Host, packet: &[VolatileSlice<'_>]) -> u64 {
    host.deliver(packet);
    // Something is left to do: else this would end in a jump, which callgrind would take for its end. It is another thing than
    // below: of two functions that are the same the compiler makes one.
    black_box(host.place + 64)
}

#[inline(never)]
fn path_deliver_4096(host: &mut Host, packet: &[VolatileSlice<'_>]) -> u64 {
    host.deliver(packet);
    black_box(host.place + 4096)
}

#[inline(never)]
fn path_copy_4096(memory: &Memory, place: u64, from: VolatileSlice<'_>) -> bool {
    black_box(memory.write(place, from).is_ok())
}

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
    let mut delivery = Delivery::create(size, message)?;
    group.throughput(throughput(size));
    let name = match message {
        1 => format!("{size} bytes"),
        _ => format!("{size} bytes, {message} packets a message"),
    };
    let mut outcome = Ok(());
    group.bench_function(BenchmarkId::from_parameter(name), |bencher| {
        bencher.iter_custom(|count| timed(&mut outcome, || delivery.run(count)));
    });
    group.finish();
    outcome.and_then(|()| delivery.finish())
}

/// The time that something took; what went wrong is kept for when the measurement is over.
fn timed(outcome: &mut anyhow::Result<()>, act: impl FnOnce() -> anyhow::Result<Duration>) -> Duration {
    act().unwrap_or_else(|error| {
        *outcome = Err(error);
        // Criterion cannot do with none.
        Duration::from_nanos(1)
    })
}

/// Packets, and the host that they are delivered to, in laps: before each every packet gets bytes of its own, after it every byte
/// is looked at. Neither is timed.
pub struct Delivery {
    packets: Packets,
    host: Host,
    delivered: usize,
}

impl Delivery {
    /// Packets of `size` bytes, so many of them a message.
    pub fn create(size: u32, message: usize) -> anyhow::Result<Self> {
        let mut host = Host::create()?;
        host.open_slot()?;
        Ok(Self { packets: Packets::create(size, message)?, host, delivered: 0 })
    }

    /// Delivers so many more. The time that took.
    pub fn run(&mut self, count: u64) -> anyhow::Result<Duration> {
        let (mut time, end) = (Duration::ZERO, self.delivered + count as usize);
        while self.delivered < end {
            let lap = self.delivered..end.min(self.delivered + PACKETS);
            lap.clone().for_each(|number| self.packets.fill(number));
            let start = Instant::now();
            for number in lap.clone() {
                self.host.deliver(&self.packets.packet(number));
            }
            time += start.elapsed();
            let (packets, host) = (&self.packets, &self.host);
            lap.clone().try_for_each(|number| packets.check(number, &host.memory, host.place))?;
            self.delivered = lap.end;
        }
        Ok(time)
    }

    /// Fails unless the card says that all were delivered.
    pub fn finish(&self) -> anyhow::Result<()> {
        self.host.counted("notifications", (self.delivered / self.packets.message) as u64)
    }
}

/// Copies of the bytes that a [`Delivery`] delivers, in laps as well.
pub struct Copies {
    packets: Packets,
    memory: Memory,
    copied: usize,
}

impl Copies {
    /// Copies of `size` bytes.
    pub fn create(size: u32) -> anyhow::Result<Self> {
        Ok(Self { packets: Packets::create(size, 1)?, memory: Memory::create()?, copied: 0 })
    }

    /// Makes so many more. The time that took.
    pub fn run(&mut self, count: u64) -> anyhow::Result<Duration> {
        let (mut time, end) = (Duration::ZERO, self.copied + count as usize);
        while self.copied < end {
            let lap = self.copied..end.min(self.copied + PACKETS);
            lap.clone().for_each(|number| self.packets.fill(number));
            let start = Instant::now();
            for number in lap.clone() {
                let place = self.packets.place(number) as u64;
                ensure!(self.memory.write(place, self.packets.packet(number)[1]).is_ok(), "no room to copy");
            }
            time += start.elapsed();
            lap.clone().try_for_each(|number| self.packets.check(number, &self.memory, 0))?;
            self.copied = lap.end;
        }
        Ok(time)
    }
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
        let (mut copies, mut outcome) = (Copies::create(size)?, Ok(()));
        group.throughput(throughput(size));
        group.bench_function(BenchmarkId::from_parameter(format!("{size} bytes")), |bencher| {
            bencher.iter_custom(|count| timed(&mut outcome, || copies.run(count)));
        });
        outcome?;
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
    /// A packet's bytes, before and after.
    room: RefCell<Vec<u8>>,
}

impl Packets {
    fn create(size: u32, message: usize) -> anyhow::Result<Self> {
        let mut header = one_packet(size, 0)?;
        header.truncate(HEADER_BYTES);
        let size = size as usize;
        Ok(Self { header, data: Memory::create()?, size, message, room: RefCell::new(vec![0; size]) })
    }

    /// Where a packet's data is, and where it goes.
    fn place(&self, number: usize) -> usize {
        number % PACKETS * self.size
    }

    fn pattern(number: usize) -> Pattern {
        Pattern::new(number as u64, (number / PACKETS) as u64)
    }

    /// Gives a packet bytes that no other has.
    fn fill(&self, number: usize) {
        let mut bytes = self.room.borrow_mut();
        Self::pattern(number).fill(0, &mut bytes);
        self.data.put(self.place(number) as u64, &bytes);
    }

    /// Fails unless a packet's bytes are where they belong, in a memory from `start` on.
    fn check(&self, number: usize, memory: &Memory, start: u64) -> anyhow::Result<()> {
        let mut bytes = self.room.borrow_mut();
        memory.at(start + self.place(number) as u64, self.size)?.copy_to(&mut bytes[..]);
        let wrong = Self::pattern(number).wrong(0, &bytes);
        ensure!(wrong.is_none(), "packet {number} did not bring its byte {}", wrong.unwrap_or_default());
        Ok(())
    }

    /// The pieces of a packet. The last of each message makes the packet accumulator 0 (section 2.5).
    fn packet(&mut self, number: usize) -> [VolatileSlice<'_>; 2] {
        let (offset, last) = (self.place(number), self.message - 1);
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

    #[test]
    fn every_byte_of_every_lap_is_looked_at() {
        let mut delivery = Delivery::create(4096, 16).unwrap();
        delivery.run(2 * PACKETS as u64 + 64).unwrap();
        delivery.finish().unwrap();
        Copies::create(64).unwrap().run(PACKETS as u64 + 3).unwrap();
    }

    #[test]
    fn every_path_is_walked() {
        walk_paths(1000).unwrap();
    }

    #[test]
    fn a_packet_that_did_not_come_is_noticed() {
        let mut delivery = Delivery::create(64, 1).unwrap();
        delivery.run(PACKETS as u64).unwrap();
        let Delivery { packets, host, delivered } = &mut delivery;
        for number in *delivered..*delivered + 3 {
            packets.fill(number);
            if number != *delivered + 1 {
                host.deliver(&packets.packet(number));
            }
        }
        let came: Vec<bool> = (*delivered..*delivered + 3)
            .map(|number| packets.check(number, &host.memory, host.place).is_ok())
            .collect();
        assert_eq!(came, [true, false, true]);
    }
}
