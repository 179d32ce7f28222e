//! The card's logic alone, on ports of memory, in one thread: the code that `cargo bench` and goal
//! 9 measure.

mod host;

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use criterion::{BenchmarkId, Criterion, Throughput};
use hamlyn_abi::hamlyn::request::{HAMLYN_FAST_MODE, HamlynRequest};
use hamlyn_card::ports::VolatileSlice;
use hamlyn_test_host::Memory;

use self::host::Host;
use crate::engine::copies::{PACKETS, Places, SIZES, copy, throughput, timed};

const KEY: u64 = 0x1234_5678_9abc_def0;
const QUEUE_ENTRIES: u32 = 1024;
/// The datasheet's packet header.
const HEADER_BYTES: usize = 40;
/// Bytes of a message that is segmented into packets.
const LONG: u32 = 64 << 10;
/// Bytes of Table 4's message.
const FAST_BYTES: u32 = 16;
/// The name of its measurements.
pub(super) const FAST: &str = "16 bytes, fast mode";

/// Delivers and copies `count` packets. As in [`one_process`](crate::hamlyn::one_process),
/// callgrind counts functions that are never inlined.
pub fn walk_paths(count: u64) -> anyhow::Result<()> {
    let (mut small, mut large) = (Delivery::create(64, 1)?, Delivery::create(4096, 16)?);
    let memory = Memory::new().context("no memory")?;
    for number in 0..count as usize {
        for delivery in [&mut small, &mut large] {
            delivery.packets.places.fill(number);
            delivery.delivered = number + 1;
        }
        path_deliver_64(&mut small.host, &small.packets.packet(number));
        path_deliver_4096(&mut large.host, &large.packets.packet(number));
        let place = large.packets.places.place(number) as u64;
        ensure!(path_copy_4096(&memory, place, large.packets.packet(number)[1]), "no room to copy");
        for Delivery { packets, host, .. } in [&small, &large] {
            packets.places.check(number, host.memory(), host.place)?;
        }
    }
    small.finish()?;
    large.finish()
}

#[inline(never)]
fn path_deliver_64(host: &mut Host, packet: &[VolatileSlice<'_>]) -> u64 {
    host.deliver(packet);
    // This prevents a jump at the end, which callgrind would treat as the function's end. The code
    // differs from the next function, because the compiler merges identical functions.
    black_box(host.place + 64)
}

#[inline(never)]
fn path_deliver_4096(host: &mut Host, packet: &[VolatileSlice<'_>]) -> u64 {
    host.deliver(packet);
    black_box(host.place + 4096)
}

#[inline(never)]
fn path_copy_4096(memory: &Memory, place: u64, from: VolatileSlice<'_>) -> bool {
    black_box(copy(memory, place, from))
}

/// Measures segmentation, delivery and notification.
pub fn benchmark(criterion: &mut Criterion) -> anyhow::Result<()> {
    segmentation(criterion)?;
    for size in SIZES {
        delivery(criterion, size, 1)?;
    }
    delivery(criterion, 4096, LONG as usize / 4096)?;
    fast_delivery(criterion)?;
    notification(criterion)?;
    refusal(criterion)
}

/// Measures requests that a card makes into packets: short ones of one packet each, and a long one
/// from a send buffer.
fn segmentation(criterion: &mut Criterion) -> anyhow::Result<()> {
    let mut group = criterion.benchmark_group("segmentation");
    for (name, post) in [("64 bytes", Host::post as fn(&mut Host)), (FAST, Host::post_fast)] {
        let (mut host, mut posted) = (Host::create()?, 0);
        host.open_terminus()?;
        group.throughput(Throughput::Elements(1));
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                post(&mut host);
                host.transmit();
                posted += 1;
            });
        });
        host.counted("packets_sent", posted)?;
    }
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

/// Measures the delivery of packets of one size, each to the end of the previous one. `message`
/// packets form a message with a metadata entry and a notification.
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

/// Measures messages of Table 4: 16 bytes in fast mode.
fn fast_delivery(criterion: &mut Criterion) -> anyhow::Result<()> {
    let mut group = criterion.benchmark_group("delivery");
    let mut delivery = Delivery::create_fast()?;
    group.throughput(throughput(FAST_BYTES));
    let mut outcome = Ok(());
    group.bench_function(FAST, |bencher| {
        bencher.iter_custom(|count| timed(&mut outcome, || delivery.run(count)));
    });
    group.finish();
    outcome.and_then(|()| delivery.finish())
}

/// Packets, and the host that they are delivered to, in laps. Before each lap, every packet gets
/// different bytes; after it, every byte is checked. Neither is timed.
pub struct Delivery {
    packets: Packets,
    host: Host,
    delivered: usize,
}

impl Delivery {
    /// Prepares packets of `size` bytes. `message` of them form a message.
    pub fn create(size: u32, message: usize) -> anyhow::Result<Self> {
        let mut host = Host::create()?;
        host.open_slot()?;
        Ok(Self { packets: Packets::create(size, 0, message)?, host, delivered: 0 })
    }

    /// Prepares messages of Table 4.
    fn create_fast() -> anyhow::Result<Self> {
        let mut host = Host::create()?;
        host.open_slot()?;
        Ok(Self { packets: Packets::create(FAST_BYTES, HAMLYN_FAST_MODE, 1)?, host, delivered: 0 })
    }

    /// Delivers `count` more packets. Returns the time.
    pub fn run(&mut self, count: u64) -> anyhow::Result<Duration> {
        let (mut time, end) = (Duration::ZERO, self.delivered + count as usize);
        while self.delivered < end {
            let lap = self.delivered..end.min(self.delivered + PACKETS);
            lap.clone().for_each(|number| self.packets.places.fill(number));
            let start = Instant::now();
            for number in lap.clone() {
                self.host.deliver(&self.packets.packet(number));
            }
            time += start.elapsed();
            let (packets, host) = (&self.packets, &self.host);
            lap.clone().try_for_each(|number| packets.places.check(number, host.memory(), host.place))?;
            self.delivered = lap.end;
        }
        Ok(time)
    }

    /// Fails unless the card's counter shows that all were delivered.
    pub fn finish(&self) -> anyhow::Result<()> {
        self.host.counted("notifications", (self.delivered / self.packets.message) as u64)
    }
}

/// Measures messages without data in fast mode, whose delivery consists only of the notification.
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

/// Measures packets that the card discards because of their key (section 6.5).
fn refusal(criterion: &mut Criterion) -> anyhow::Result<()> {
    let mut group = criterion.benchmark_group("refusal");
    let mut packet = wrong_key_packet()?;
    let (mut host, mut refused) = (Host::create()?, 0);
    host.open_slot()?;
    group.throughput(Throughput::Elements(1));
    group.bench_function("wrong key", |bencher| {
        bencher.iter(|| {
            host.deliver(&[VolatileSlice::from(&mut packet[..])]);
            refused += 1;
        });
    });
    group.finish();
    host.counted("refused_key", refused)
}

/// Returns a packet whose key is wrong in one bit.
fn wrong_key_packet() -> anyhow::Result<Vec<u8>> {
    let mut packet = one_packet(64, 0)?;
    packet[0x08] ^= 1;
    Ok(packet)
}

/// Packets for a message area. The first one's data goes to its start, and each further one's to
/// the end of the previous one. As in the fabric process, the header is in the sending card's own
/// memory and was just written; the data is in the sender's memory.
struct Packets {
    header: Vec<u8>,
    places: Places,
    /// Packets of a message.
    message: usize,
}

impl Packets {
    fn create(size: u32, metadata_index: u32, message: usize) -> anyhow::Result<Self> {
        let mut header = one_packet(size, metadata_index)?;
        header.truncate(HEADER_BYTES);
        Ok(Self { header, places: Places::create(size)?, message })
    }

    /// Returns the pieces of a packet. The last packet of each message sets the packet accumulator
    /// to 0 (section 2.5).
    fn packet(&mut self, number: usize) -> [VolatileSlice<'_>; 2] {
        let (offset, last) = (self.places.place(number), self.message - 1);
        let delta = if number % self.message == last { (last as u32).wrapping_neg() } else { 1 };
        self.header[0x10..0x14].copy_from_slice(&(offset as u32).to_le_bytes());
        self.header[0x18..0x1c].copy_from_slice(&delta.to_le_bytes());
        [VolatileSlice::from(&mut self.header[..]), self.places.data(number)]
    }
}

/// Returns a packet with `size` bytes of data. It is as a card sends it, except for its length.
fn one_packet(size: u32, metadata_index: u32) -> anyhow::Result<Vec<u8>> {
    let mut host = Host::create()?;
    host.open_terminus()?;
    let request = HamlynRequest { key: KEY, metadata_index, length: 64, ..Default::default() };
    host.post_request(request, &[0x5a; 64]);
    let mut packet = host.sent()?;
    host.counted("packets_sent", 1)?;
    // Set the packet's length (the datasheet's packet header), and append that much data to its
    // header.
    packet[0x14..0x18].copy_from_slice(&size.to_le_bytes());
    packet.resize(HEADER_BYTES + size as usize, 0x5a);
    Ok(packet)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timed_operations_are_executed() {
        let mut host = Host::create().unwrap();
        host.open_slot().unwrap();
        for size in [0, 64, 4096] {
            let packet = &mut one_packet(size, 0).unwrap()[..];
            host.deliver(&[VolatileSlice::from(packet)]);
        }
        let packet = &mut one_packet(0, HAMLYN_FAST_MODE).unwrap()[..];
        host.deliver(&[VolatileSlice::from(packet)]);
        host.counted("notifications", 4).unwrap();
        host.deliver(&[VolatileSlice::from(&mut wrong_key_packet().unwrap()[..])]);
        host.counted("refused_key", 1).unwrap();
        let mut packets = Packets::create(4096, 0, 16).unwrap();
        (0..40).for_each(|number| host.deliver(&packets.packet(number)));
        host.counted("notifications", 6).unwrap();
        let mut packets = Packets::create(64, 0, 1).unwrap();
        (0..3).for_each(|number| host.deliver(&packets.packet(number)));
        host.counted("notifications", 9).unwrap();
        host.open_terminus().unwrap();
        host.set_send_buffer(LONG).unwrap();
        host.post_gather(LONG);
        host.transmit();
        host.counted("packets_sent", 16).unwrap();
        host.post_fast();
        host.transmit();
        host.counted("packets_sent", 17).unwrap();
    }

    #[test]
    fn every_byte_of_every_lap_is_checked() {
        let mut delivery = Delivery::create(4096, 16).unwrap();
        delivery.run(2 * PACKETS as u64 + 64).unwrap();
        delivery.finish().unwrap();
        let mut delivery = Delivery::create_fast().unwrap();
        delivery.run(PACKETS as u64 + 3).unwrap();
        delivery.finish().unwrap();
        crate::engine::copies::Copies::create(64).unwrap().run(PACKETS as u64 + 3).unwrap();
    }

    #[test]
    fn every_path_is_walked() {
        walk_paths(1000).unwrap();
    }

    #[test]
    fn missing_packet_is_detected() {
        let mut delivery = Delivery::create(64, 1).unwrap();
        delivery.run(PACKETS as u64).unwrap();
        let Delivery { packets, host, delivered } = &mut delivery;
        for number in *delivered..*delivered + 3 {
            packets.places.fill(number);
            if number != *delivered + 1 {
                host.deliver(&packets.packet(number));
            }
        }
        let came: Vec<bool> = (*delivered..*delivered + 3)
            .map(|number| packets.places.check(number, host.memory(), host.place).is_ok())
            .collect();
        assert_eq!(came, [true, false, true]);
    }
}
