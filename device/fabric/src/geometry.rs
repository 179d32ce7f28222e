//! The sizes of a ring.

use thiserror::Error;

use crate::header::HEADER_BYTES;

/// Bytes between the start of a record and its payload.
pub(crate) const RECORD_BYTES: usize = 8 + HEADER_BYTES;

/// The sizes of a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes of data, a power of two of at least a page.
    pub capacity: usize,
    /// The longest payload, in bytes.
    pub max_packet: usize,
}

impl Default for Geometry {
    /// 1 MiB, and packets of 64 KiB of data with a card's headers. Cells of 53 bytes have a header
    /// for each 48 bytes.
    fn default() -> Self {
        Geometry { capacity: 1 << 20, max_packet: (72 << 10) + 256 }
    }
}

/// Errors of invalid ring sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum GeometryError {
    /// Not a power of two, or out of range.
    #[error("ring of {0} bytes is not possible (a power of two from 4096 to {MAX_CAPACITY})")]
    Capacity(usize),
    /// The packet size is too large: a half-empty ring must have room for any packet and a pad
    /// before it.
    #[error("packet size {max_packet} is too large for a ring of {capacity} bytes (limit {limit})")]
    MaxPacket {
        /// Requested longest payload.
        max_packet: usize,
        /// The ring's size.
        capacity: usize,
        /// The longest possible payload.
        limit: usize,
    },
}

/// The largest ring, in bytes.
const MAX_CAPACITY: usize = 1 << 30;

impl Geometry {
    /// Checks whether a ring can have these sizes.
    pub fn validate(&self) -> Result<(), GeometryError> {
        if !self.capacity.is_power_of_two() || !(4096..=MAX_CAPACITY).contains(&self.capacity) {
            return Err(GeometryError::Capacity(self.capacity));
        }
        let limit = self.capacity / 4 - RECORD_BYTES;
        if self.max_packet > limit {
            return Err(GeometryError::MaxPacket {
                max_packet: self.max_packet,
                capacity: self.capacity,
                limit,
            });
        }
        Ok(())
    }
}
