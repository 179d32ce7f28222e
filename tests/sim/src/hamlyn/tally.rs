//! What has happened in a simulation, in numbers.

use crate::hamlyn::channels::CHANNEL_ENDS;

/// Counters that only the outcome reads.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Messages that found their sender's work queue full.
    pub(super) blocked: u64,
    /// Number of times a program slept until its requests were finished.
    pub(super) dozed: u64,
    /// Messages that were delivered while a card was stalled and others waited for it.
    pub(super) bystanders: u64,
    /// Number of times a card's memory was full, and the card reported it.
    pub(super) filled: u64,
    /// Ends of channels that programs had (`channels`), messages that those delivered (`said`), and
    /// number of times an end slept (`slept`).
    pub(super) channels: u64,
    pub(super) said: u64,
    pub(super) slept: u64,
    /// How channels have ended, in the order of [`CHANNEL_ENDS`].
    pub(super) channel_ends: [u64; CHANNEL_ENDS.len()],
}
