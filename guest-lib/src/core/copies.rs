//! Counts the bytes that the library copies on this thread, for the test of the table in
//! docs/programming.md.
//!
//! The bytes of a message are copied in three places only. The first is between application memory
//! and memory that the card can reach ([`crate::Memory`]). The second is from application memory
//! into a work-queue entry (direct I/O). The third is between application memory and express memory
//! (here). Release builds do not count.

use std::sync::atomic::AtomicU8;

#[cfg(debug_assertions)]
thread_local! {
    static COPIED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Counts bytes that are about to be copied.
#[inline(always)]
pub(crate) fn count(_bytes: usize) {
    #[cfg(debug_assertions)]
    COPIED.with(|copied| copied.set(copied.get() + _bytes as u64));
}

/// Copies bytes into express memory, to the start of `to`, which has at least as many.
#[inline]
pub(crate) fn into_express(to: &[AtomicU8], from: &[u8]) {
    count(from.len());
    hamlyn_sys::register_copy_in(to, from);
}

/// Copies bytes out of express memory, from the start of `from`, which has at least as many.
#[inline]
pub(crate) fn out_of_express(from: &[AtomicU8], to: &mut [u8]) {
    count(to.len());
    hamlyn_sys::register_copy_out(from, to);
}

/// Returns the number of bytes copied on this thread.
#[cfg(all(debug_assertions, feature = "test-hooks"))]
#[must_use]
pub fn copied() -> u64 {
    COPIED.with(std::cell::Cell::get)
}
