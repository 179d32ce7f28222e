//! The cost of waking a peer.
//!
//! A peer chooses how many waiters poll its end of a socket, and each send or receive of ours walks
//! over all of them. So each socket has a meter, and a peer whose wake-ups are slow again and again
//! is ended.
//!
//! **What is slow.** A wake-up that takes more of the thread's own time than [`FAIR`], and more
//! than [`RATIO`] times what a send and a receive on a socket pair of our own take at that moment.
//! A slow host slows both.
//!
//! **How often.** One slow wake-up proves nothing: a virtual processor that is taken away from us
//! for a while counts as our own time if the host has no steal clock, and an interrupt may come. A
//! slow wake-up counts [`WEIGHT`], any other takes 1 back, and the meter is over above [`MOST`]:
//! five in a row, or more than one of nine. The waiters of a socket slow all of its wake-ups; being
//! stopped, suspended, debugged or out of processor time slows the few that are under way.
//!
//! Usually a wake-up costs two readings of a coarse clock, some nanoseconds each. When that clock
//! has moved on meanwhile, the next wake-up is measured, until nothing counts against the peer.

use std::os::fd::OwnedFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair};
use rustix::time::{ClockId, clock_gettime};

/// A wake-up that takes less is never slow, in nanoseconds. A usual one takes a few microseconds.
const FAIR: u64 = 100_000;
/// A wake-up that takes less than this many of ours is never slow.
const RATIO: u64 = 32;
/// Bytes of one message that cost as much to copy as a wake-up, or less.
const CHUNK: usize = 4096;
/// How much a slow wake-up counts.
const WEIGHT: u32 = 8;
/// The most that may count.
const MOST: u32 = 4 * WEIGHT;
/// A peer that was ended stays out for so many times as long as its slow wake-ups took.
const PENALTY: u32 = 20;
/// And for as long at least.
const LEAST: Duration = Duration::from_secs(2);

/// Measures the wake-ups of one peer. One thread at a time uses it.
#[derive(Debug)]
pub struct Meter {
    /// Whether the next wake-up is to be measured.
    suspicious: AtomicBool,
    /// How much counts against the peer.
    count: AtomicU32,
    /// What its slow wake-ups took, in nanoseconds.
    spent: AtomicU64,
}

impl Meter {
    /// A meter of a new peer, whose waiters may be there already: its first wake-up is measured.
    pub const fn new() -> Meter {
        Meter { suspicious: AtomicBool::new(true), count: AtomicU32::new(0), spent: AtomicU64::new(0) }
    }

    /// Whether the peer's wake-ups were slow too often. Stays so.
    pub fn is_over(&self) -> bool {
        self.count.load(Ordering::Relaxed) > MOST
    }

    /// How long a peer that was ended is to stay out, so that it takes no more than a small part of
    /// our time when it comes back.
    pub fn penalty(&self) -> Duration {
        Duration::from_nanos(self.spent.load(Ordering::Relaxed)).saturating_mul(PENALTY).max(LEAST)
    }

    /// Sends to the peer or receives from it, `bytes` at most.
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

    /// Ends the peer, as if its wake-ups had been slow too often.
    #[doc(hidden)]
    pub fn overcharge(&self) {
        self.count.store(MOST + WEIGHT, Ordering::Relaxed);
    }

    /// Counts a wake-up that took `cost` for each chunk and `whole` in all; one of our own takes
    /// `reference`.
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

/// The part of a cost that counts if `bytes` may have been copied as well.
fn per_chunk(cost: u64, bytes: usize) -> u64 {
    cost / (1 + (bytes / CHUNK) as u64)
}

/// What a send and a receive on a socket that nobody waits for take now, in nanoseconds; 0 if the
/// system gives no socket.
fn reference() -> u64 {
    static PAIR: OnceLock<Option<(OwnedFd, OwnedFd)>> = OnceLock::new();
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let make = || socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).ok();
    let Some((one, other)) = PAIR.get_or_init(make) else { return 0 };
    let start = read(ClockId::ThreadCPUTime);
    // Another thread may do the same: then one of them finds nothing to receive.
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
    fn five_slow_wake_ups_in_a_row_are_too_many() {
        let meter = Meter::new();
        for _ in 0..4 {
            charge(&meter, 10 * FAIR);
            assert!(!meter.is_over() && meter.suspicious.load(Ordering::Relaxed));
        }
        charge(&meter, 10 * FAIR);
        assert!(meter.is_over());
        assert_eq!(meter.penalty(), LEAST);
        // Nothing takes that back.
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
    fn slow_wake_ups_between_others_are_too_many() {
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

    #[test]
    fn large_messages_may_take_longer() {
        assert_eq!(per_chunk(10 * FAIR, 256), 10 * FAIR);
        assert_eq!(per_chunk(10 * FAIR, 9 * CHUNK), FAIR);
    }
}
