//! How to wait for memory to change without starving whoever is to change it.

use std::time::{Duration, Instant};

use rustix::thread::sched_yield;

/// Yields before a waiter for which no interrupt exists begins to nap.
const YIELDS_BEFORE_NAP: u32 = 1000;
/// How long it naps.
const NAP: Duration = Duration::from_micros(50);

/// How a caller that polls shares its processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Polling {
    /// Looks at memory, with a spin hint between two, before the caller yields its processor or goes to sleep.
    pub spins: u32,
}

impl Default for Polling {
    /// 2,000 looks where there are more than two processors, else none: there the other side needs this one.
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self { spins: if processors > 2 { 2000 } else { 0 } }
    }
}

impl Polling {
    /// Looks once, and then `spins` times more with a spin hint before each.
    pub(crate) fn look<T>(self, mut look: impl FnMut() -> Option<T>) -> Option<T> {
        look().or_else(|| {
            (0..self.spins).find_map(|_| {
                std::hint::spin_loop();
                look()
            })
        })
    }

    /// Looks until there is something or the time-out (`None`: never) has passed, yielding in between.
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
