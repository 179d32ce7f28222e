//! Channels between programs: what each side has sent, and what of it has reached memory that the
//! other side sees.
//!
//! Messages arrive once, in order and whole. A side that is told of the end, in whatever way, has
//! received everything that reached it.

use hamlyn::PeerLoss;

use crate::hamlyn::streams;

/// Ends of a channel that a side may be told of; `None` if the other side has closed it.
pub const CHANNEL_ENDS: [Option<PeerLoss>; 6] = [
    None,
    Some(PeerLoss::Abandoned),
    Some(PeerLoss::Process),
    Some(PeerLoss::Host),
    Some(PeerLoss::HostReset),
    Some(PeerLoss::Link),
];

/// The messages of one side.
#[derive(Debug, Clone, Default)]
pub(super) struct Line {
    /// The lengths of its messages, in order.
    pub(super) said: Vec<usize>,
    /// Number of messages that were stored where the other side sees them. These are all, until the
    /// operating system takes its view away.
    pub(super) reached: usize,
    pub(super) delivered: usize,
    /// It sends no more.
    pub(super) closed: bool,
}

/// Returns a message of one side of a connection.
pub(super) fn message(connection: usize, side: usize, number: usize, length: usize) -> Vec<u8> {
    streams::bytes(2 * connection + side, 1000 * number as u64, length)
}
