//! A deadline that is counted in checks.
//!
//! A process that was stopped for a while makes one check when it resumes. The event that it waits
//! for then still has time to arrive.

use std::time::{Duration, Instant};

/// Number of checks until the deadline.
const LOOKS: u32 = 8;

/// The state of one deadline.
#[derive(Debug)]
pub(crate) struct Looks {
    each: Duration,
    next: Instant,
    count: u32,
}

impl Looks {
    pub(crate) fn new(now: Instant, time: Duration) -> Looks {
        let each = time / LOOKS;
        Looks { each, next: now + each, count: 0 }
    }

    /// Returns the time of the next check.
    pub(crate) fn next(&self) -> Instant {
        self.next
    }

    /// Counts a check if one is due. Returns whether the deadline has passed.
    pub(crate) fn is_over(&mut self, now: Instant) -> bool {
        if now >= self.next {
            self.count = self.count.saturating_add(1);
            self.next = now + self.each;
        }
        self.count >= LOOKS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_of_a_stopped_process_counts_once() {
        let (start, ms) = (Instant::now(), Duration::from_millis);
        let mut looks = Looks::new(start, ms(800));
        let stopped = start + ms(100_000);
        assert!(!looks.is_over(start + ms(99)));
        assert!((0..7).all(|look| !looks.is_over(stopped + ms(100) * look)));
        assert!(!looks.is_over(stopped + ms(699)) && looks.is_over(stopped + ms(700)));
        assert_eq!(looks.next(), stopped + ms(800));
    }
}
