//! The arrival queue: pages with arrivals to be reported (section 4.2).
//!
//! The card writes records to a ring in the driver's memory, and raises
//! [`super::registers::SHRIMP_VECTOR_ARRIVAL`] for the first. When the driver has taken the
//! records, it stores their number to [`super::registers::SHRIMP_REG_ARRIVALS_TAKEN`]. If there are
//! more by then, the card raises the vector again. A page with an untaken record gets no second
//! one.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Minimum number of records in the queue.
pub const SHRIMP_MIN_ARRIVALS: u32 = 16;
/// Maximum number of records in the queue.
pub const SHRIMP_MAX_ARRIVALS: u32 = 65536;
/// Bytes of a record.
pub const SHRIMP_ARRIVAL_SIZE: u32 = 8;

/// A record of an arrival. Record `n`, counted from 0, is at `n` modulo the queue's size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ShrimpArrival {
    /// The page.
    pub page: u32,
    /// `n + 1`, modulo 2^32. The card writes it last.
    pub number: u32,
}
