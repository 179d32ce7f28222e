//! Which destinations a ring's consumer wants nothing for.
//!
//! A ring has packets for many destinations, and one of these may take nothing for a while. If its
//! packets stayed in the ring, those behind them would wait, too. So a switch takes them out, and
//! tells the card to send it no more of them: a bit for each destination in the ring's shared
//! memory, which the producer looks at before it sends.
//!
//! **How much still comes.** The switch sets the bit before it gives the room of the packet at hand
//! back. A producer that fills the ring once more must first have read that position, and so sees
//! the bit: after a stop no more comes than the ring holds.
//!
//! **How the producer hears that it may go on.** The switch clears the bit, then counts the
//! resumption, and then rings the producer's bell whatever that does: no flag says that somebody
//! waits, so nobody has to look once more before it sleeps. A producer silences its bell before it
//! looks. So either it sees the bit cleared, or the bell is still to ring. The count is there for a
//! producer with much else to do: while it stays the same, there is no bit to look at again.
//!
//! The words are reached through [`Board`], so that the same code runs on shared memory and under
//! loom. The consumer reads none of them: what the other side writes there changes nothing but what
//! that side itself sends.

use std::sync::atomic::Ordering;

use crate::header::HostId;

/// Destinations that can be stopped: packets for others find nobody, and never wait.
pub const DESTINATIONS: usize = 1024;
/// Words of stop bits.
pub(crate) const BIT_WORDS: usize = DESTINATIONS / 64;

/// Access to the shared words: the bits, and how often one was cleared.
pub(crate) trait Board {
    fn load_bits(&self, word: usize, ordering: Ordering) -> u64;
    fn store_bits(&self, word: usize, bits: u64, ordering: Ordering);
    fn load_resumptions(&self, ordering: Ordering) -> u64;
    fn store_resumptions(&self, count: u64, ordering: Ordering);
}

/// The consumer's view: what it has written.
#[derive(Debug, Default)]
pub(crate) struct Stops {
    bits: [u64; BIT_WORDS],
    resumptions: u64,
}

/// Where a destination's bit is.
fn place(destination: HostId) -> Option<(usize, u64)> {
    let index = destination.index();
    (index < DESTINATIONS).then(|| (index / 64, 1 << (index % 64)))
}

impl Stops {
    /// Asks for no more packets to a destination. `false`: that was asked already.
    pub(crate) fn stop(&mut self, board: &impl Board, destination: HostId) -> bool {
        let Some((word, bit)) = place(destination).filter(|&(word, bit)| self.bits[word] & bit == 0) else {
            return false;
        };
        self.bits[word] |= bit;
        // Seen at the latest with the position that is published next.
        board.store_bits(word, self.bits[word], Ordering::Relaxed);
        true
    }

    /// Takes packets to a destination again. `false`: it did so already; else ring the producer's
    /// bell.
    pub(crate) fn resume(&mut self, board: &impl Board, destination: HostId) -> bool {
        let Some((word, bit)) = place(destination).filter(|&(word, bit)| self.bits[word] & bit != 0) else {
            return false;
        };
        self.bits[word] &= !bit;
        board.store_bits(word, self.bits[word], Ordering::Relaxed);
        self.resumptions = self.resumptions.wrapping_add(1);
        // Who sees the count sees the bit.
        board.store_resumptions(self.resumptions, Ordering::Release);
        true
    }
}

/// Whether the consumer wants nothing for a destination.
pub(crate) fn is_stopped(board: &impl Board, destination: HostId) -> bool {
    place(destination).is_some_and(|(word, bit)| board.load_bits(word, Ordering::Relaxed) & bit != 0)
}

/// How often a destination was resumed, modulo 2^64.
pub(crate) fn resumptions(board: &impl Board) -> u64 {
    board.load_resumptions(Ordering::Acquire)
}

#[cfg(test)]
#[path = "stop_loom.rs"]
mod stop_loom;
