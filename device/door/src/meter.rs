//! The cost of waking a peer.
//!
//! A peer chooses how many waiters poll its end of a socket, and each of our sends and receives
//! walks over all of them. So each socket has a meter. A peer whose wake-ups are slow repeatedly is
//! disconnected.
//!
//! **What is slow.** A wake-up is slow if it takes more CPU time of the thread than [`FAIR`], and
//! more than [`RATIO`] times a reference. The reference is a send and a receive on a socket pair of
//! our own at that moment, so a slow host slows both.
//!
//! **How often.** One slow wake-up proves nothing. If a virtual processor is preempted and the host
//! has no steal clock, or if the host has to find memory for it, the time counts as ours. An
//! interrupt may also come in between. A slow wake-up adds [`WEIGHT`], and any other subtracts 1.
//! The count is too high above [`MOST`]: after five slow ones in a row, or more than one of nine.
//! Waiters slow all wake-ups of a socket. A stopped, suspended, debugged or preempted process slows
//! only the few wake-ups in progress.
//!
//! **How much.** A host with more virtual processors than cores may preempt us at each wake-up,
//! because the woken thread needs our core. So the slow wake-ups must also have cost more than
//! [`BURST`] beyond the peer's share of our time ([`SHARE`]). Others notice nothing of less.
//!
//! Usually a wake-up costs two readings of a coarse clock, some nanoseconds each. If that clock has
//! advanced in between, the next wake-up is measured, and so on until the count is back to 0.

use std::os::fd::OwnedFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair};
use rustix::time::{ClockId, clock_gettime};

/// A wake-up below this time is never slow, in nanoseconds. A usual one takes a few microseconds.
const FAIR: u64 = 100_000;
/// A wake-up that takes less than this multiple of the reference is never slow.
const RATIO: u64 = 32;
/// Bytes of a message that cost at most as much to copy as a wake-up.
const CHUNK: usize = 4096;
/// Amount that a slow wake-up adds to the count.
const WEIGHT: u32 = 8;
/// Maximum of the count.
const MOST: u32 = 4 * WEIGHT;
/// Time of slow wake-ups that no peer is disconnected for, in nanoseconds.
const BURST: u64 = 100_000_000;
/// A peer may take one part in this many of our time, whether connected or disconnected: a
/// disconnected one stays out for this multiple of what its slow wake-ups took.
const SHARE: u32 = 20;
/// Minimum time that a disconnected peer stays out.
const LEAST: Duration = Duration::from_secs(2);

/// Measures the wake-ups of one peer. Used by one thread at a time.
#[derive(Debug)]
pub struct Meter {
    /// Whether to measure the next wake-up.
    suspicious: AtomicBool,
    /// The count of slow wake-ups.
    count: AtomicU32,
    /// Time of the slow wake-ups less the peer's share of the time since, in nanoseconds.
    spent: AtomicU64,
    /// Time of the last slow wake-up, in nanoseconds.
    last: AtomicU64,
    is_over: AtomicBool,
}

impl Meter {
    /// Creates a meter for a new peer. Its waiters may already be there, so its first wake-up is
    /// measured.
    pub const fn new() -> Meter {
        Meter {
            suspicious: AtomicBool::new(true),
            count: AtomicU32::new(0),
            spent: AtomicU64::new(0),
            last: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
        }
    }

    /// Returns whether the peer's wake-ups were slow too often, and cost too much. Once true, it
    /// stays true.
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Returns how long a disconnected peer has to stay out. So a returning peer takes only a small
    /// part of our time.
    pub fn penalty(&self) -> Duration {
        Duration::from_nanos(self.spent.load(Ordering::Relaxed)).saturating_mul(SHARE).max(LEAST)
    }

    /// Sends to the peer or receives from it by calling `act`, with at most `bytes` bytes, and
    /// measures that.
    pub fn measure<T>(&self, bytes: usize, act: impl FnOnce() -> T) -> T {
        if self.suspicious.load(Ordering::Relaxed) {
            let start = read(ClockId::ThreadCPUTime);
            let result = act();
            let cost = read(ClockId::ThreadCPUTime).saturating_sub(start);
            self.charge(per_chunk(cost, bytes), cost, || read(ClockId::Monotonic), reference);
            return result;
        }
        let start = read(ClockId::MonotonicCoarse);
        let result = act();
        if read(ClockId::MonotonicCoarse) != start {
            self.suspicious.store(true, Ordering::Relaxed);
        }
        result
    }

    /// Sets the meter over, as if the peer's wake-ups had been slow too often.
    #[doc(hidden)]
    pub fn overcharge(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Counts a wake-up that took `cost` per chunk and `whole` in total. `now` returns the time,
    /// and `reference` how long one of our own takes.
    fn charge(&self, cost: u64, whole: u64, now: impl FnOnce() -> u64, reference: impl FnOnce() -> u64) {
        if self.is_over() {
            return;
        }
        let is_slow = cost > FAIR && cost > RATIO.saturating_mul(reference());
        let count = self.count.load(Ordering::Relaxed);
        let count = if is_slow { (count + WEIGHT).min(MOST + WEIGHT) } else { count.saturating_sub(1) };
        self.count.store(count, Ordering::Relaxed);
        self.suspicious.store(count > 0, Ordering::Relaxed);
        if is_slow && self.spend(whole, now()) > BURST && count > MOST {
            self.is_over.store(true, Ordering::Relaxed);
        }
    }

    /// Adds the time of a slow wake-up that ended at `now`. Returns the sum.
    fn spend(&self, time: u64, now: u64) -> u64 {
        let share = now.saturating_sub(self.last.swap(now, Ordering::Relaxed)) / u64::from(SHARE);
        let spent = self.spent.load(Ordering::Relaxed).saturating_sub(share) + time;
        self.spent.store(spent, Ordering::Relaxed);
        spent
    }
}

impl Default for Meter {
    fn default() -> Meter {
        Meter::new()
    }
}

/// Returns the cost per chunk, if `bytes` may have been copied as well.
fn per_chunk(cost: u64, bytes: usize) -> u64 {
    cost / (1 + (bytes / CHUNK) as u64)
}

/// Returns the current time of a send and a receive on a socket without waiters, in nanoseconds.
/// Returns 0 if the system provides no socket.
fn reference() -> u64 {
    static PAIR: OnceLock<Option<(OwnedFd, OwnedFd)>> = OnceLock::new();
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let make = || socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).ok();
    let Some((one, other)) = PAIR.get_or_init(make) else { return 0 };
    let start = read(ClockId::ThreadCPUTime);
    // If another thread does the same, one of them finds nothing to receive.
    let _ = send(one, b"!", SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    let _ = recv(other, &mut [0; 2], RecvFlags::DONTWAIT);
    read(ClockId::ThreadCPUTime).saturating_sub(start)
}

fn read(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32).as_nanos() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: u64 = 3_000;
    const STOLEN: u64 = 70_000_000;
    /// Too long to wake a peer, in nanoseconds. Five cost more than a burst.
    const SLOW: u64 = BURST / 4;

    fn charge(meter: &Meter, cost: u64) {
        charge_at(meter, cost, 0);
    }

    fn charge_at(meter: &Meter, cost: u64, now: u64) {
        meter.charge(cost, cost, || now, || USUAL);
    }

    #[test]
    fn five_consecutive_slow_wake_ups_exceed_limit() {
        let meter = Meter::new();
        for _ in 0..4 {
            charge(&meter, SLOW);
            assert!(!meter.is_over() && meter.suspicious.load(Ordering::Relaxed));
        }
        charge(&meter, SLOW);
        assert!(meter.is_over());
        assert_eq!(meter.penalty(), Duration::from_nanos(5 * SLOW) * SHARE);
        // Nothing resets it.
        (0..100).for_each(|_| charge(&meter, USUAL));
        assert!(meter.is_over());
    }

    #[test]
    fn slow_wake_ups_among_others_exceed_limit() {
        let meter = Meter::new();
        for _ in 0..40 {
            charge(&meter, SLOW);
            (0..6).for_each(|_| charge(&meter, USUAL));
        }
        assert!(meter.is_over());
    }

    /// The host preempts us at each wake-up, for a short time.
    #[test]
    fn slow_wake_ups_that_cost_little_are_forgiven() {
        let meter = Meter::new();
        for wake_up in 0..10_000 {
            let cost = 10 * FAIR;
            charge_at(&meter, cost, wake_up * cost * u64::from(SHARE));
        }
        assert!(!meter.is_over() && meter.suspicious.load(Ordering::Relaxed));
        // More often than the peer's share allows.
        (0..BURST / FAIR).for_each(|_| charge(&meter, 10 * FAIR));
        assert!(meter.is_over());
    }

    #[test]
    fn stolen_time_is_forgiven() {
        let meter = Meter::new();
        for _ in 0..10_000 {
            charge(&meter, STOLEN);
            charge(&meter, STOLEN);
            (0..16).for_each(|_| charge(&meter, USUAL));
            assert!(!meter.is_over());
        }
        assert!(!meter.suspicious.load(Ordering::Relaxed));
    }

    #[test]
    fn slow_host_is_compared_with_itself() {
        let meter = Meter::new();
        for _ in 0..1000 {
            let slow = 20 * FAIR;
            meter.charge(slow, slow, || 0, || slow / RATIO);
        }
        assert!(!meter.is_over());
    }

    /// Takes CPU time of this thread, by its own clock: a busy host changes nothing.
    fn work() {
        let start = read(ClockId::ThreadCPUTime);
        while read(ClockId::ThreadCPUTime) - start < STOLEN {}
    }

    #[test]
    fn cpu_time_of_wake_ups_is_measured() {
        let meter = Meter::new();
        for _ in 0..5 {
            assert!(!meter.is_over());
            meter.measure(1, work);
        }
        assert!(meter.is_over());
    }

    #[test]
    fn long_wake_up_makes_the_meter_suspicious() {
        let meter = Meter::new();
        charge(&meter, USUAL);
        assert!(!meter.suspicious.load(Ordering::Relaxed));
        // Longer than a tick of the coarse clock.
        meter.measure(1, work);
        assert!(meter.suspicious.load(Ordering::Relaxed));
    }

    #[test]
    fn large_messages_may_take_longer() {
        assert_eq!(per_chunk(10 * FAIR, 256), 10 * FAIR);
        assert_eq!(per_chunk(10 * FAIR, 9 * CHUNK), FAIR);
    }
}
