//! Two ends without a card, for tests: stores of one end appear in the other's memory at once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hamlyn_sys::Mapping;

use super::end::{Idle, Memories, expired};
use crate::core::loss::PeerLoss;
use crate::error::{Error, Result};

/// Timeout of a test.
const PATIENCE: Duration = Duration::from_secs(20);

/// The memory of each of two ends, and their timeouts.
pub(super) struct Pair {
    pub(super) memory: [Mapping; 2],
    waits: [Waits; 2],
}

struct Waits {
    memory: Mapping,
    patience: Duration,
    /// Whether the other end is gone.
    is_gone: AtomicBool,
}

impl Pair {
    /// Creates ends that wait for each other.
    pub(super) fn new(length: usize) -> Self {
        Self::with_patience(length, PATIENCE)
    }

    /// Creates ends that do not wait.
    pub(super) fn hasty(length: usize) -> Self {
        Self::with_patience(length, Duration::ZERO)
    }

    fn with_patience(length: usize, patience: Duration) -> Self {
        let file = rustix::fs::memfd_create("pair-test", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&file, 2 * length as u64).unwrap();
        let map = |end: usize| {
            Mapping::of_file(&file, (end * length) as u64, length, hamlyn_sys::Access::ReadWrite).unwrap()
        };
        let waits = |end| Waits { memory: map(end), patience, is_gone: AtomicBool::new(false) };
        Self { memory: [map(0), map(1)], waits: [waits(0), waits(1)] }
    }

    pub(super) fn end(&self, end: usize) -> Memories<'_> {
        let (own, out) = (&self.memory[end], &self.memory[1 - end]);
        Memories { own, own_length: own.length(), out, out_length: out.length(), idle: &self.waits[end] }
    }

    /// Marks an end as gone, and the other end is notified.
    pub(super) fn leave(&self, end: usize) {
        self.waits[1 - end].is_gone.store(true, Ordering::Relaxed);
    }
}

impl Idle for Waits {
    fn wait(&self, offset: usize, value: u32) -> Result<()> {
        let begun = Instant::now();
        while self.memory.load_u32_acquire(offset) == value {
            expired(begun, Some(self.patience))?;
            std::thread::yield_now();
        }
        Ok(())
    }

    fn glance(&self, offset: usize, value: u32) -> Result<()> {
        if self.memory.load_u32_acquire(offset) == value {
            std::thread::yield_now();
            if self.is_gone.load(Ordering::Relaxed) {
                return Err(Error::PeerLost(PeerLoss::Gone));
            }
        }
        Ok(())
    }

    fn timeout(&self) -> Option<Duration> {
        Some(self.patience)
    }
}
