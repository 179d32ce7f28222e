//! The clock of events.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

/// Returns the time of events, in nanoseconds.
pub(super) fn monotonic() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Returns what is added to an event's time to get the time of day, in nanoseconds.
pub(super) fn epoch() -> u64 {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    nanoseconds(wall).wrapping_sub(monotonic())
}

pub(super) fn nanoseconds(duration: Duration) -> u64 {
    duration.as_nanos() as u64
}
