//! How many bytes this thread has had copied by the library, for the test of the table in
//! docs/programming.md.
//!
//! A message's bytes are copied in three places only: between the application's bytes and memory
//! that the card reaches ([`crate::Memory`]), from the application's bytes into a work-queue entry
//! (direct I/O), and between the application's bytes and express memory (here). Builds for release
//! count nothing.

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

/// Copies bytes into express memory, to the first of `to`, which has as many.
#[inline]
pub(crate) fn into_express(to: &[AtomicU8], from: &[u8]) {
    count(from.len());
    hamlyn_sys::register_copy_in(to, from);
}

/// Copies the first bytes of `from` out of express memory, which has as many as `to`.
#[inline]
pub(crate) fn out_of_express(from: &[AtomicU8], to: &mut [u8]) {
    count(to.len());
    hamlyn_sys::register_copy_out(from, to);
}

/// How many bytes this thread has had copied so far.
#[cfg(debug_assertions)]
#[must_use]
pub fn copied() -> u64 {
    COPIED.with(std::cell::Cell::get)
}
