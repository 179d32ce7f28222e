//! Bytes that are delivered or copied, in laps: before each every packet gets bytes of its own,
//! after it every byte is looked at. Neither is timed. And copies of them, the bound of everything
//! that copies once.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use criterion::{BenchmarkId, Criterion, Throughput};
use hamlyn_bench_guest::pattern::Pattern;
use hamlyn_card::ports::VolatileSlice;
use hamlyn_test_host::Memory;

/// Bytes of the packets.
pub(crate) const SIZES: [u32; 2] = [64, 4096];
/// As many are delivered in turn, each with a place of its own: 2 MiB of 4 KiB packets.
pub(crate) const PACKETS: usize = 512;

/// The data of packets, each in its place: where a sender has it, and where it goes.
pub(crate) struct Places {
    memory: Memory,
    size: usize,
    /// A packet's bytes, before and after.
    room: RefCell<Vec<u8>>,
}

impl Places {
    /// Packets of `size` bytes.
    pub(crate) fn create(size: u32) -> anyhow::Result<Self> {
        let (memory, size) = (Memory::new().context("no memory")?, size as usize);
        Ok(Self { memory, size, room: RefCell::new(vec![0; size]) })
    }

    /// Where a packet's data is, and where it goes.
    pub(crate) fn place(&self, number: usize) -> usize {
        number % PACKETS * self.size
    }

    fn pattern(number: usize) -> Pattern {
        Pattern::new(number as u64, (number / PACKETS) as u64)
    }

    /// Gives a packet bytes that no other has.
    pub(crate) fn fill(&self, number: usize) {
        let mut bytes = self.room.borrow_mut();
        Self::pattern(number).fill(0, &mut bytes);
        self.data(number).copy_from(&bytes[..]);
    }

    /// A packet's data.
    pub(crate) fn data(&self, number: usize) -> VolatileSlice<'_> {
        let data = self.memory.at(self.place(number) as u64, self.size);
        data.unwrap_or_else(|_| VolatileSlice::from(&mut [][..]))
    }

    /// Fails unless a packet's bytes are where they belong, in a memory from `start` on.
    pub(crate) fn check(&self, number: usize, memory: &Memory, start: u64) -> anyhow::Result<()> {
        let mut bytes = self.room.borrow_mut();
        memory.at(start + self.place(number) as u64, self.size)?.copy_to(&mut bytes[..]);
        let wrong = Self::pattern(number).wrong(0, &bytes);
        ensure!(wrong.is_none(), "packet {number} did not bring its byte {}", wrong.unwrap_or_default());
        Ok(())
    }
}

/// Copies bytes to a place in a memory, as a card does; false if there is no such place.
#[inline]
pub fn copy(memory: &Memory, place: u64, from: VolatileSlice<'_>) -> bool {
    memory.at(place, from.len()).map(|to| from.copy_to_volatile_slice(to)).is_ok()
}

/// Copies of as many bytes.
pub struct Copies {
    packets: Places,
    memory: Memory,
    copied: usize,
}

impl Copies {
    /// Copies of `size` bytes.
    pub fn create(size: u32) -> anyhow::Result<Self> {
        Ok(Self { packets: Places::create(size)?, memory: Memory::new().context("no memory")?, copied: 0 })
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
                ensure!(copy(&self.memory, place, self.packets.data(number)), "no room to copy");
            }
            time += start.elapsed();
            lap.clone().try_for_each(|number| self.packets.check(number, &self.memory, 0))?;
            self.copied = lap.end;
        }
        Ok(time)
    }
}

/// The time that something took; what went wrong is kept for when the measurement is over.
pub(crate) fn timed(
    outcome: &mut anyhow::Result<()>,
    act: impl FnOnce() -> anyhow::Result<Duration>,
) -> Duration {
    act().unwrap_or_else(|error| {
        *outcome = Err(error);
        // Criterion cannot do with none.
        Duration::from_nanos(1)
    })
}

/// Packets a second for small ones, bytes a second for large ones.
pub(crate) fn throughput(size: u32) -> Throughput {
    if size < 1024 { Throughput::Elements(1) } else { Throughput::Bytes(size.into()) }
}

/// Copies of the same bytes, from where packets are to where a card puts them: the bound of
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
