//! The arrival queue: pages for which something has arrived that was to be reported (section 4.2).
//!
//! The card writes records to a ring in the driver's memory and raises
//! [`super::registers::SHRIMP_VECTOR_ARRIVAL`] for the first. When the driver has taken what is
//! there it says so in [`super::registers::SHRIMP_REG_ARRIVALS_TAKEN`], and the vector is raised
//! again if there is more by then. A page that has a record which is not taken yet gets no second
//! one.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The fewest records of the queue.
pub const SHRIMP_MIN_ARRIVALS: u32 = 16;
/// The most records of the queue.
pub const SHRIMP_MAX_ARRIVALS: u32 = 65536;
/// Bytes of a record.
pub const SHRIMP_ARRIVAL_SIZE: u32 = 8;

/// Something has arrived. The `n`-th record, from 0, is at `n` modulo the queue's size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ShrimpArrival {
    /// The page.
    pub page: u32,
    /// `n + 1`, modulo 2^32. The card writes it last.
    pub number: u32,
}
