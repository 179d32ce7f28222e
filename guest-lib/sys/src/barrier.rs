//! Memory barriers, named for their purpose.
//!
//! The first four are full barriers. Each lies between a store that the other side reads and a load
//! of what the other side stores. The card does the mirror image, so at least one of the two sees
//! the other (Dekker).
//!
//! They use the instruction that is intended for devices, like the kernel's `mb()`. Compilers
//! translate `fence(SeqCst)` into a locked operation, which is equivalent between processors. But
//! an emulated machine with a single processor has no other processors, and QEMU translates the
//! operation into a plain load and store there. These order nothing for a card in another process.

use std::sync::atomic::{Ordering, fence};

/// A full barrier, also for devices.
#[inline]
fn full() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction orders accesses to memory, and does nothing else.
    unsafe {
        std::arch::asm!("mfence", options(nostack, preserves_flags));
    }
    #[cfg(not(target_arch = "x86_64"))]
    fence(Ordering::SeqCst);
}

/// Orders publishing a request (the store of `tail`) before checking whether the card is awake.
///
/// Without it, a card that falls asleep at this moment could miss the request while its owner
/// misses the sleep.
#[inline]
pub fn before_awake_check() {
    full();
}

/// Orders declaring oneself asleep (the store of `armed`) before checking the queue once more.
///
/// Without it, a notification written at this moment would cause no wake-up.
#[inline]
pub fn before_sleep_check() {
    full();
}

/// Orders acknowledging an interrupt (clearing `pending`) before checking the queues that may have
/// raised it.
#[inline]
pub fn before_queue_check() {
    full();
}

/// For the ends of express memory. Orders a store that the peer may sleep for before checking
/// whether it sleeps. Also orders a store that declares this end asleep before checking once more.
#[inline]
pub fn before_peer_check() {
    full();
}

/// Orders reading a notification before checking its `wrap` word once more (section 2.6).
///
/// Without it, the word could be loaded first, and look unchanged while the entry is overwritten.
/// An acquire fence suffices: only loads must stay in order.
#[inline]
pub fn before_second_look() {
    fence(Ordering::Acquire);
}
