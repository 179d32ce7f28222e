//! How many bytes this thread has had copied by the library, for the test of the table in docs/programming.md.
//!
//! A message's bytes are copied in two places only: between the application's bytes and memory that the card reaches
//! ([`crate::Memory`]), and from the application's bytes into a work-queue entry (direct I/O). Builds for release count nothing.

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

/// How many bytes this thread has had copied so far.
#[cfg(debug_assertions)]
#[must_use]
pub fn copied() -> u64 {
    COPIED.with(std::cell::Cell::get)
}
