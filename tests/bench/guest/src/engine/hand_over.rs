//! Messages handed from core to core: one thread copies each message into a ring, and a thread on
//! another core copies it out, in turns. Only the write is timed, into memory that the other core
//! has read last. This is the processor's part of a stream between two machines. If the host moves
//! its virtual processors between cores, this time changes from second to second, and such a stream
//! changes with it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde_json::json;

use crate::engine::result::{Outcome, say};

/// Places of the ring, and places at each end that messages come from and go to in turn.
const RING: usize = 3;
const PLACES: usize = 32;

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Bytes of each message
    #[arg(long, default_value_t = 1 << 20, value_parser = clap::value_parser!(u64).range(8..=64 << 20))]
    size: u64,
    /// Messages
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u64).range(1..))]
    count: u64,
}

/// Words of 8 bytes; an emulated processor copies in this unit, too.
struct Words(Vec<AtomicU64>);

impl Words {
    fn new(places: usize, size: usize) -> Self {
        // Touch all pages now.
        Self((0..places * size / 8).map(|word| AtomicU64::new(word as u64 + 1)).collect())
    }

    fn place(&self, number: u64, places: usize) -> &[AtomicU64] {
        let size = self.0.len() / places;
        &self.0[number as usize % places * size..][..size]
    }
}

fn copy(to: &[AtomicU64], from: &[AtomicU64]) {
    for (to, from) in to.iter().zip(from) {
        to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

/// Returns the first two cores that this process may use.
fn two_cores() -> Outcome<[usize; 2]> {
    let may = sched_getaffinity(None)?;
    let mut cores = (0..CpuSet::MAX_CPU).filter(|core| may.is_set(*core));
    match (cores.next(), cores.next()) {
        (Some(first), Some(second)) => Ok([first, second]),
        _ => Err("this takes 2 cores, and there is 1".into()),
    }
}

pub(crate) fn stay_on(core: usize) -> Outcome {
    let mut cores = CpuSet::new();
    cores.set(core);
    Ok(sched_setaffinity(None, &cores)?)
}

pub(crate) fn run(options: &Options) -> Outcome {
    let (size, count) = (options.size as usize, options.count);
    let [first, second] = two_cores()?;
    let ring = Arc::new(Words::new(RING, size));
    // Number of messages written, and number of messages read.
    let (written, read) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let reader = thread::spawn({
        let (ring, written, read) = (ring.clone(), written.clone(), read.clone());
        move || {
            // If pinning fails, run to the end anyway and report the error there: that takes no
            // longer.
            let stays = stay_on(second).map_err(|error| error.to_string());
            let to = Words::new(PLACES, size);
            for number in 0..count {
                while written.load(Ordering::Acquire) == number {
                    std::hint::spin_loop();
                }
                copy(to.place(number, PLACES), ring.place(number, RING));
                read.store(number + 1, Ordering::Release);
            }
            stays
        }
    });
    stay_on(first)?;
    let from = Words::new(PLACES, size);
    let mut time = Duration::ZERO;
    for number in 0..count {
        while read.load(Ordering::Acquire) != number {
            std::hint::spin_loop();
        }
        let start = Instant::now();
        copy(ring.place(number, RING), from.place(number, PLACES));
        time += start.elapsed();
        written.store(number + 1, Ordering::Release);
    }
    reader.join().map_err(|_| "the reader failed")??;
    let (bytes, ns) = (ring.0.len() / RING * 8 * count as usize, time.as_nanos() as u64);
    say(&json!({ "bytes": bytes, "messages": count, "ns": ns, "cpu_ns": ns }))
}
