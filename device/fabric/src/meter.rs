//! What it costs to wake the other side.
//!
//! Whoever is woken decides who watches its end of the socket. It can hang a million watchers on it, and each wake-up
//! walks over them all on the time of the one who wakes. So the time is measured, and a bell whose wake-ups take more than
//! their share is over.
//!
//! In the normal case that is two readings of a coarse clock, some nanoseconds each. Only when the clock has moved on
//! meanwhile is the next wake-up measured by the thread's own time. It counts nobody else's: a thread that has to wait for
//! its core, or for a slow machine, is no proof against anybody.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// How long a fair wake-up may take. A usual one takes a few microseconds.
const FAIR: u64 = 100_000;
/// What wake-ups may take beyond what is fair, all together, before the bell is over.
const MOST: u64 = 50_000_000;
/// The part of time that is forgiven: 1/100 of it.
const FORGIVEN: u64 = 100;

/// The time that wake-ups take, in nanoseconds. One thread at a time uses it.
#[derive(Debug)]
pub(crate) struct Meter {
    /// Whether the next wake-up is to be measured.
    suspicious: AtomicBool,
    /// What they took beyond what is fair.
    excess: AtomicU64,
    /// The time of the coarse clock up to which time has been forgiven.
    settled: AtomicU64,
}

impl Meter {
    /// The first wake-up is measured: the watchers may be there already.
    pub(crate) fn new() -> Meter {
        let settled = AtomicU64::new(read(ClockId::MonotonicCoarse));
        Meter { suspicious: AtomicBool::new(true), excess: AtomicU64::new(0), settled }
    }

    /// Whether wake-ups took too long.
    pub(crate) fn is_over(&self) -> bool {
        self.excess.load(Ordering::Relaxed) > MOST
    }

    /// Does something that wakes the other side.
    pub(crate) fn measure<T>(&self, act: impl FnOnce() -> T) -> T {
        if self.suspicious.load(Ordering::Relaxed) {
            let start = read(ClockId::ThreadCPUTime);
            let result = act();
            let cost = read(ClockId::ThreadCPUTime).saturating_sub(start);
            self.charge(cost, read(ClockId::MonotonicCoarse));
            return result;
        }
        let start = read(ClockId::MonotonicCoarse);
        let result = act();
        if read(ClockId::MonotonicCoarse) != start {
            self.suspicious.store(true, Ordering::Relaxed);
        }
        result
    }

    /// As if wake-ups had taken too long.
    #[cfg(test)]
    pub(crate) fn overcharge(&self) {
        self.excess.store(2 * MOST, Ordering::Relaxed);
    }

    /// Counts a wake-up that was measured. Once one was fair, the next is not measured.
    fn charge(&self, cost: u64, now: u64) {
        let settled = self.settled.swap(now, Ordering::Relaxed);
        let forgiven = now.saturating_sub(settled) / FORGIVEN;
        let excess = self.excess.load(Ordering::Relaxed).saturating_sub(forgiven);
        self.excess.store(excess + cost.saturating_sub(FAIR), Ordering::Relaxed);
        self.suspicious.store(cost > FAIR, Ordering::Relaxed);
    }
}

fn read(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32).as_nanos() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn fair_wake_ups_are_never_too_much() {
        let meter = Meter::new();
        for now in 0..100_000 {
            meter.charge(FAIR, now);
            assert!(!meter.suspicious.load(Ordering::Relaxed));
        }
        assert!(!meter.is_over());
    }

    #[test]
    fn long_ones_are_measured_on_until_they_are_too_much() {
        let meter = Meter::new();
        for _ in 0..MOST / (9 * FAIR) {
            assert!(!meter.is_over());
            meter.charge(10 * FAIR, 0);
            assert!(meter.suspicious.load(Ordering::Relaxed));
        }
        meter.charge(10 * FAIR, 0);
        assert!(meter.is_over());
    }

    #[test]
    fn a_long_one_now_and_then_is_forgiven() {
        let meter = Meter::new();
        for number in 0..10_000 {
            // Ten milliseconds each second.
            meter.charge(SECOND / FORGIVEN, number * SECOND);
        }
        assert!(!meter.is_over());
    }
}
