//! Errors of a ring.

use thiserror::Error;

/// Errors of a ring, and of requests to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum RingError {
    /// The caller's own mistake. The ring is unchanged.
    #[error("packet of {length} bytes is too long (limit {limit})")]
    TooLong {
        /// Bytes requested.
        length: usize,
        /// The link's largest packet.
        limit: usize,
    },
    /// The other side's position moved back or too far.
    #[error("ring is corrupt: the other side's position is {value} (must be from {last} to {limit})")]
    Position {
        /// Its new value.
        value: u64,
        /// Its previous value.
        last: u64,
        /// The furthest possible position.
        limit: u64,
    },
    /// A record that the ring cannot hold.
    #[error("ring is corrupt: record at {position} has {length} bytes (limit {limit})")]
    Record {
        /// Its position.
        position: u64,
        /// The length it gives, or that of the pad.
        length: u64,
        /// The largest possible length.
        limit: u64,
    },
}

impl RingError {
    /// Returns whether the link has become unusable.
    pub fn is_corruption(&self) -> bool {
        !matches!(self, RingError::TooLong { .. })
    }
}
