//! Destinations that a ring's consumer has stopped.
//!
//! A ring carries packets for many destinations, and one of these may accept nothing for a while.
//! If its packets stayed in the ring, they would block those behind them (head-of-line blocking).
//! So the switch takes them out, and asks the card to send no more of them. It sets one bit for
//! each such destination in the ring's shared memory, and the producer checks the bit before it
//! sends.
//!
//! **How much still arrives.** The switch sets the bit before it gives back the room of the current
//! packet. A producer that fills the ring once more must first have read that position, and so it
//! sees the bit. After a stop, at most one ring's worth of packets still arrives.
//!
//! **How the producer learns that it may resume.** The switch clears the bit, increments the count
//! of resumptions, and then rings the producer's bell unconditionally. There is no flag that a
//! producer waits, so the producer needs no second check before it sleeps. A producer silences its
//! bell before it checks the bits. So either it sees the bit cleared, or the bell has still to
//! ring. The count is for a producer with much else to do: while it is unchanged, no bit needs
//! another check.
//!
//! The words are accessed through [`Board`], so that the same code runs on shared memory and under
//! loom. The consumer reads none of them. What the other side writes there affects only what that
//! side itself sends.

use std::sync::atomic::Ordering;

use crate::header::HostId;

/// Number of destinations that can be stopped. Packets to others have no receiver, and never wait.
pub const DESTINATIONS: usize = 1024;
/// Words of stop bits.
pub(crate) const BIT_WORDS: usize = DESTINATIONS / 64;

/// Access to the shared words: the stop bits, and the count of resumptions.
pub(crate) trait Board {
    fn load_bits(&self, word: usize, ordering: Ordering) -> u64;
    fn store_bits(&self, word: usize, bits: u64, ordering: Ordering);
    fn load_resumptions(&self, ordering: Ordering) -> u64;
    fn store_resumptions(&self, count: u64, ordering: Ordering);
}

/// The consumer's private copy of what it has written.
#[derive(Debug, Default)]
pub(crate) struct Stops {
    bits: [u64; BIT_WORDS],
    resumptions: u64,
}

/// Returns the word and the mask of a destination's bit.
fn place(destination: HostId) -> Option<(usize, u64)> {
    let index = destination.index();
    (index < DESTINATIONS).then(|| (index / 64, 1 << (index % 64)))
}

impl Stops {
    /// Asks for no more packets to a destination. Returns `false` if the destination is already
    /// stopped.
    pub(crate) fn stop(&mut self, board: &impl Board, destination: HostId) -> bool {
        let Some((word, bit)) = place(destination).filter(|&(word, bit)| self.bits[word] & bit == 0) else {
            return false;
        };
        self.bits[word] |= bit;
        // The producer sees this at the latest with the position that is published next.
        board.store_bits(word, self.bits[word], Ordering::Relaxed);
        true
    }

    /// Accepts packets to a destination again. Returns `false` if it was not stopped. Otherwise the
    /// caller must ring the producer's bell.
    pub(crate) fn resume(&mut self, board: &impl Board, destination: HostId) -> bool {
        let Some((word, bit)) = place(destination).filter(|&(word, bit)| self.bits[word] & bit != 0) else {
            return false;
        };
        self.bits[word] &= !bit;
        board.store_bits(word, self.bits[word], Ordering::Relaxed);
        self.resumptions = self.resumptions.wrapping_add(1);
        // A producer that sees the count also sees the bit.
        board.store_resumptions(self.resumptions, Ordering::Release);
        true
    }
}

/// Returns whether the consumer has stopped a destination.
pub(crate) fn is_stopped(board: &impl Board, destination: HostId) -> bool {
    place(destination).is_some_and(|(word, bit)| board.load_bits(word, Ordering::Relaxed) & bit != 0)
}

/// Returns how often a destination was resumed, modulo 2^64.
pub(crate) fn resumptions(board: &impl Board) -> u64 {
    board.load_resumptions(Ordering::Acquire)
}

#[cfg(test)]
#[path = "stop_loom.rs"]
mod stop_loom;
