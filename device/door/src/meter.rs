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
//! has no steal clock, the time counts as ours. An interrupt may also come in between. A slow
//! wake-up adds [`WEIGHT`], and any other subtracts 1. The meter is over above [`MOST`]: after five
//! slow ones in a row, or more than one of nine. Waiters slow all wake-ups of a socket. A stopped,
//! suspended, debugged or preempted process slows only the few wake-ups in progress.
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
/// A disconnected peer stays out for this multiple of the time that its slow wake-ups took.
const PENALTY: u32 = 20;
/// Minimum time that a disconnected peer stays out.
const LEAST: Duration = Duration::from_secs(2);

/// Measures the wake-ups of one peer. Used by one thread at a time.
#[derive(Debug)]
pub struct Meter {
    /// Whether to measure the next wake-up.
    suspicious: AtomicBool,
    /// The count of slow wake-ups.
    count: AtomicU32,
    /// Time of the slow wake-ups, in nanoseconds.
    spent: AtomicU64,
}

impl Meter {
    /// Creates a meter for a new peer. Its waiters may already be there, so its first wake-up is
    /// measured.
    pub const fn new() -> Meter {
        Meter { suspicious: AtomicBool::new(true), count: AtomicU32::new(0), spent: AtomicU64::new(0) }
    }

    /// Returns whether the peer's wake-ups were slow too often. Once true, it stays true.
    pub fn is_over(&self) -> bool {
        self.count.load(Ordering::Relaxed) > MOST
    }

    /// Returns how long a disconnected peer has to stay out. So a returning peer takes only a small
    /// part of our time.
    pub fn penalty(&self) -> Duration {
        Duration::from_nanos(self.spent.load(Ordering::Relaxed)).saturating_mul(PENALTY).max(LEAST)
    }

    /// Sends to the peer or receives from it by calling `act`, with at most `bytes` bytes, and
    /// measures that.
    pub fn measure<T>(&self, bytes: usize, act: impl FnOnce() -> T) -> T {
        if self.suspicious.load(Ordering::Relaxed) {
            let start = read(ClockId::ThreadCPUTime);
            let result = act();
            let cost = read(ClockId::ThreadCPUTime).saturating_sub(start);
            self.charge(per_chunk(cost, bytes), cost, reference);
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
        self.count.store(MOST + WEIGHT, Ordering::Relaxed);
    }

    /// Counts a wake-up that took `cost` per chunk and `whole` in total. `reference` returns the
    /// time of one of our own.
    fn charge(&self, cost: u64, whole: u64, reference: impl FnOnce() -> u64) {
        if self.is_over() {
            return;
        }
        let is_slow = cost > FAIR && cost > RATIO.saturating_mul(reference());
        let count = self.count.load(Ordering::Relaxed);
        let count = if is_slow { count + WEIGHT } else { count.saturating_sub(1) };
        self.count.store(count, Ordering::Relaxed);
        if is_slow {
            self.spent.fetch_add(whole, Ordering::Relaxed);
        }
        self.suspicious.store(count > 0, Ordering::Relaxed);
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

    fn charge(meter: &Meter, cost: u64) {
        meter.charge(cost, cost, || USUAL);
    }

    #[test]
    fn five_consecutive_slow_wake_ups_exceed_limit() {
        let meter = Meter::new();
        for _ in 0..4 {
            charge(&meter, 10 * FAIR);
            assert!(!meter.is_over() && meter.suspicious.load(Ordering::Relaxed));
        }
        charge(&meter, 10 * FAIR);
        assert!(meter.is_over());
        assert_eq!(meter.penalty(), LEAST);
        // Nothing resets it.
        (0..100).for_each(|_| charge(&meter, USUAL));
        assert!(meter.is_over());
    }

    #[test]
    fn penalty_is_a_multiple_of_the_cost() {
        let meter = Meter::new();
        (0..5).for_each(|_| charge(&meter, 10_000 * FAIR));
        assert_eq!(meter.penalty(), Duration::from_nanos(50_000 * FAIR) * PENALTY);
    }

    #[test]
    fn slow_wake_ups_among_others_exceed_limit() {
        let meter = Meter::new();
        for _ in 0..40 {
            charge(&meter, 10 * FAIR);
            (0..6).for_each(|_| charge(&meter, USUAL));
        }
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
            meter.charge(slow, slow, || slow / RATIO);
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
