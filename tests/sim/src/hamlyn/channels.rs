//! Channels between programs: what each side has said, and what of it reached memory that the other
//! sees.
//!
//! What was said arrives once, in order and whole; whoever is told of the end, in whatever way, has
//! had all that reached it.

use crate::hamlyn::streams;

/// What one side says.
#[derive(Debug, Clone, Default)]
pub(crate) struct Line {
    /// The lengths of its messages, in their order.
    pub(crate) said: Vec<usize>,
    /// How many of them were stored where the other side sees them: all, until the operating system
    /// took its view away.
    pub(crate) reached: usize,
    pub(crate) delivered: usize,
    /// It says no more.
    pub(crate) closed: bool,
}

/// A message of one side of a connection.
pub(crate) fn message(connection: usize, side: usize, number: usize, length: usize) -> Vec<u8> {
    streams::bytes(2 * connection + side, 1000 * number as u64, length)
}
