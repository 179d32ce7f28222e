//! Counters and self-tests of a card.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::call::iowr;

/// Reads the card's counters. Argument: [`UlnStatistics`].
pub const ULN_IOC_STATISTICS: u32 = iowr::<UlnStatistics>(12);
/// Runs the card's self-tests. Fails with `EPERM` without `CAP_SYS_ADMIN`. Argument:
/// [`UlnSelfTest`].
pub const ULN_IOC_SELF_TEST: u32 = iowr::<UlnSelfTest>(13);

/// The card's counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct UlnStatistics {
    /// Out: number of `values` that the card has.
    pub count: u32,
    /// Zero.
    pub reserved: u32,
    /// Out: the counters, in the order of `hamlyn::statistics`; the rest is zero.
    pub values: [u64; 64],
}

/// Results of the self-tests: 0 for passed, otherwise what failed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct UlnSelfTest {
    /// Out: register access.
    pub access: u32,
    /// Out: DMA. 1: the card refused. 2: the bytes are wrong (is guest memory shared with the
    /// card?). 3: the memory of processes cannot be shared with the card (are there bounce buffers,
    /// as with `swiotlb=force`?).
    pub dma: u32,
    /// Out: interrupts: the first vector that did not arrive, plus 1.
    pub interrupt: u32,
    /// Zero.
    pub reserved: u32,
}
