//! Bytes that are delivered or copied, in laps. Before each lap, every packet gets different bytes;
//! after it, every byte is checked. Neither is timed. Also copies of the same bytes, the upper
//! bound for everything that copies once.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use criterion::{BenchmarkId, Criterion, Throughput};
use hamlyn_bench_guest::pattern::Pattern;
use hamlyn_card::ports::VolatileSlice;
use hamlyn_test_host::Memory;

/// Bytes of the packets.
pub(crate) const SIZES: [u32; 2] = [64, 4096];
/// Number of packets that are delivered in turn, each with a different place: 2 MiB of 4 KiB
/// packets.
pub(crate) const PACKETS: usize = 512;

/// The data of packets, each in its place, at the sender and at the destination.
pub(crate) struct Places {
    memory: Memory,
    size: usize,
    /// Buffer for a packet's bytes, before and after the delivery.
    room: RefCell<Vec<u8>>,
}

impl Places {
    /// Allocates packets of `size` bytes.
    pub(crate) fn create(size: u32) -> anyhow::Result<Self> {
        let (memory, size) = (Memory::new().context("no memory")?, size as usize);
        Ok(Self { memory, size, room: RefCell::new(vec![0; size]) })
    }

    /// Returns the offset of a packet's data at both ends.
    pub(crate) fn place(&self, number: usize) -> usize {
        number % PACKETS * self.size
    }

    fn pattern(number: usize) -> Pattern {
        Pattern::new(number as u64, (number / PACKETS) as u64)
    }

    /// Fills a packet with bytes that no other packet has.
    pub(crate) fn fill(&self, number: usize) {
        let mut bytes = self.room.borrow_mut();
        Self::pattern(number).fill(0, &mut bytes);
        self.data(number).copy_from(&bytes[..]);
    }

    /// Returns a packet's data.
    pub(crate) fn data(&self, number: usize) -> VolatileSlice<'_> {
        let data = self.memory.at(self.place(number) as u64, self.size);
        data.unwrap_or_else(|_| VolatileSlice::from(&mut [][..]))
    }

    /// Fails unless a packet's bytes have arrived in their place, in a memory from `start` on.
    pub(crate) fn check(&self, number: usize, memory: &Memory, start: u64) -> anyhow::Result<()> {
        let mut bytes = self.room.borrow_mut();
        memory.at(start + self.place(number) as u64, self.size)?.copy_to(&mut bytes[..]);
        let wrong = Self::pattern(number).wrong(0, &bytes);
        ensure!(wrong.is_none(), "packet {number} did not bring its byte {}", wrong.unwrap_or_default());
        Ok(())
    }
}

/// Copies bytes to a place in a memory, as a card does. Returns false if there is no such place.
#[inline]
pub fn copy(memory: &Memory, place: u64, from: VolatileSlice<'_>) -> bool {
    memory.at(place, from.len()).map(|to| from.copy_to_volatile_slice(to)).is_ok()
}

/// Copies of the same amount of data.
pub struct Copies {
    packets: Places,
    memory: Memory,
    copied: usize,
}

impl Copies {
    /// Prepares copies of `size` bytes.
    pub fn create(size: u32) -> anyhow::Result<Self> {
        Ok(Self { packets: Places::create(size)?, memory: Memory::new().context("no memory")?, copied: 0 })
    }

    /// Makes `count` more copies. Returns the time.
    pub fn run(&mut self, count: u64) -> anyhow::Result<Duration> {
        let (mut time, end) = (Duration::ZERO, self.copied + count as usize);
        while self.copied < end {
            let lap = self.copied..end.min(self.copied + PACKETS);
            lap.clone().for_each(|number| self.packets.fill(number));
            let start = Instant::now();
            for number in lap.clone() {
                let place = self.packets.place(number) as u64;
                ensure!(copy(&self.memory, place, self.packets.data(number)), "no room to copy");
            }
            time += start.elapsed();
            lap.clone().try_for_each(|number| self.packets.check(number, &self.memory, 0))?;
            self.copied = lap.end;
        }
        Ok(time)
    }
}

/// Returns the time of an action. Stores an error for after the measurement.
pub(crate) fn timed(
    outcome: &mut anyhow::Result<()>,
    act: impl FnOnce() -> anyhow::Result<Duration>,
) -> Duration {
    act().unwrap_or_else(|error| {
        *outcome = Err(error);
        // Criterion fails if the time is zero.
        Duration::from_nanos(1)
    })
}

/// Returns packets a second for small sizes, and bytes a second for large ones.
pub(crate) fn throughput(size: u32) -> Throughput {
    if size < 1024 { Throughput::Elements(1) } else { Throughput::Bytes(size.into()) }
}

/// Copies the same bytes from a packet's place to a card's destination: the upper bound for
/// everything that copies once.
pub(crate) fn benchmark(criterion: &mut Criterion) -> anyhow::Result<()> {
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
