//! How to wait for memory to change without starving whoever is to change it.

use std::time::{Duration, Instant};

use rustix::thread::sched_yield;

/// Yields before a waiter for which no interrupt exists begins to nap.
const YIELDS_BEFORE_NAP: u32 = 1000;
/// Yields before who waits for the card to finish with requests goes to sleep: about as long as it
/// takes to sleep and be woken, for the card is mostly at it.
const YIELDS_BEFORE_SLEEP: u32 = 100;
/// How long it naps.
const NAP: Duration = Duration::from_micros(50);

/// How a caller that polls shares its processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Polling {
    /// Looks at memory, with a spin hint between two, before the caller yields its processor or
    /// goes to sleep.
    pub spins: u32,
}

impl Default for Polling {
    /// 200 looks: microseconds, so it hardly matters where others need the processor.
    ///
    /// Measured by `ping-pong --spins N` on both sides, 16 bytes, between two emulated machines of
    /// one processor each, on a host with 2 cores and other work (11 runs of 2,000 to 3,000 round
    /// trips, interleaved; medians):
    ///
    /// | spins | p50 | p99 |
    /// |---|---|---|
    /// | 0 | 142 us | 2.9 ms |
    /// | 200 | 113 us | 2.0 ms |
    /// | 2,000 | 121 us | 2.0 ms |
    /// | 200, then asleep (`recv_block`; 7 runs) | 415 us | 0.8 ms |
    ///
    /// The first three differ by less than runs of the same kind do, so the default is a middle
    /// one.
    ///
    /// A yield gives a guest's processor to others in that guest, but never the host's core to the
    /// card or the switch: a virtual machine that polls keeps it, and with fewer cores than pollers
    /// the tail is the host's time slice. Sleeping costs an interrupt each time and frees the core.
    fn default() -> Self {
        Self { spins: 200 }
    }
}

impl Polling {
    /// Looks once, and then `spins` times more with a spin hint before each.
    #[inline(always)]
    pub(crate) fn look<T>(self, mut look: impl FnMut() -> Option<T>) -> Option<T> {
        look().or_else(|| {
            (0..self.spins).find_map(|_| {
                std::hint::spin_loop();
                look()
            })
        })
    }

    /// Looks, and yields the processor now and then, for what comes soon if it comes at all.
    pub(crate) fn look_on<T>(self, mut look: impl FnMut() -> Option<T>) -> Option<T> {
        self.look(&mut look).or_else(|| {
            (0..YIELDS_BEFORE_SLEEP).find_map(|_| {
                sched_yield();
                self.look(&mut look)
            })
        })
    }

    /// Looks until there is something or the time-out (`None`: never) has passed, yielding in
    /// between.
    ///
    /// With `nap`, it naps after a while: for what raises no interrupt and may take long.
    pub(crate) fn wait<T>(
        self,
        timeout: Option<Duration>,
        nap: bool,
        mut look: impl FnMut() -> Option<T>,
    ) -> Option<T> {
        if let Some(found) = self.look(&mut look) {
            return Some(found);
        }
        let start = Instant::now();
        let mut yields = 0;
        loop {
            if nap && yields >= YIELDS_BEFORE_NAP {
                std::thread::sleep(NAP);
            } else {
                sched_yield();
                yields += 1;
            }
            if let Some(found) = self.look(&mut look) {
                return Some(found);
            }
            if timeout.is_some_and(|limit| start.elapsed() >= limit) {
                return None;
            }
        }
    }
}
