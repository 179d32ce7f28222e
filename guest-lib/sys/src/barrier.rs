//! Memory barriers, named for their purpose.
//!
//! The first four are full barriers: each stands between a store that says something to the other
//! side and a load that asks what the other side says. The card does the mirror image, so one of
//! the two always sees the other (Dekker).
//!
//! They are the instruction that is meant for devices, as the kernel's `mb()` is. Compilers make a
//! locked operation of `fence(SeqCst)`, which is as good among processors; but an emulated machine
//! with a single processor knows of no others, and QEMU's translator makes a plain load and store
//! of it there, which order nothing for a card in another process.

use std::sync::atomic::{Ordering, fence};

/// A full barrier, for devices too.
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

/// Between publishing a request (the store of `tail`) and asking whether the card is awake.
///
/// Without it a card that falls asleep at this moment could miss the request while its owner misses
/// the sleep.
#[inline]
pub fn before_awake_check() {
    full();
}

/// Between declaring oneself asleep (the store of `armed`) and looking at the queue once more.
///
/// Without it a notification written at this moment would wake nobody.
#[inline]
pub fn before_sleep_check() {
    full();
}

/// Between taking an interrupt back (clearing `pending`) and looking at the queues it may stand
/// for.
#[inline]
pub fn before_queue_check() {
    full();
}

/// Between a store that the other end of express memory may sleep for (or that says that this one
/// does), and asking whether it sleeps (or looking once more).
#[inline]
pub fn before_peer_check() {
    full();
}

/// Between reading a notification and looking at its `wrap` word once more (section 2.6).
///
/// Without it the word could be loaded first, and look the same while the entry is overwritten. An
/// acquire fence is enough: only loads are to stay in order.
#[inline]
pub fn before_second_look() {
    fence(Ordering::Acquire);
}
