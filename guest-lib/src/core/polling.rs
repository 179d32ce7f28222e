//! Busy-polling of memory that does not starve the process that changes it.

use std::time::{Duration, Instant};

use rustix::thread::sched_yield;

/// Number of yields before a waiter without an interrupt starts to nap.
const YIELDS_BEFORE_NAP: u32 = 1000;
/// Number of yields before a waiter for request completions goes to sleep. They take about as long
/// as a sleep and a wake-up, because the card is usually at work on the requests.
const YIELDS_BEFORE_SLEEP: u32 = 100;
/// Length of a nap.
const NAP: Duration = Duration::from_micros(50);

/// How a polling caller shares its processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Polling {
    /// Number of polls of memory, each after a spin hint, before the caller yields its processor or
    /// goes to sleep.
    pub spins: u32,
}

impl Default for Polling {
    /// 200 polls take microseconds, so they hardly delay other users of the processor.
    ///
    /// Measured by `ping-pong --spins N` on both sides with 16 bytes, between two emulated machines
    /// of one processor each. The host has 2 cores and other work. The values are medians of 11
    /// interleaved runs of 2,000 to 3,000 round trips:
    ///
    /// | spins | p50 | p99 |
    /// |---|---|---|
    /// | 0 | 142 us | 2.9 ms |
    /// | 200 | 113 us | 2.0 ms |
    /// | 2,000 | 121 us | 2.0 ms |
    /// | 200, then asleep (`recv_block`; 7 runs) | 415 us | 0.8 ms |
    ///
    /// The first three differ by less than repeated runs of one kind do, so the default is one in
    /// the middle.
    ///
    /// A yield gives a guest's processor to other tasks of that guest, but never the host's core to
    /// the card or the switch. A polling virtual machine keeps its core, so with fewer cores than
    /// pollers the tail latency is the host's time slice. Sleeping costs one interrupt each time,
    /// and frees the core.
    fn default() -> Self {
        Self { spins: 200 }
    }
}

impl Polling {
    /// Polls once, and then `spins` more times with a spin hint before each.
    #[inline(always)]
    pub(crate) fn look<T>(self, mut look: impl FnMut() -> Option<T>) -> Option<T> {
        look().or_else(|| {
            (0..self.spins).find_map(|_| {
                std::hint::spin_loop();
                look()
            })
        })
    }

    /// Polls, with occasional yields, for events that come soon if at all.
    pub(crate) fn look_on<T>(self, mut look: impl FnMut() -> Option<T>) -> Option<T> {
        self.look(&mut look).or_else(|| {
            (0..YIELDS_BEFORE_SLEEP).find_map(|_| {
                sched_yield();
                self.look(&mut look)
            })
        })
    }

    /// Polls until `look` returns a value or the timeout (`None`: never) has expired, with yields
    /// in between.
    ///
    /// With `nap`, the call sleeps briefly after a while. This is for events that raise no
    /// interrupt and may take long.
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
