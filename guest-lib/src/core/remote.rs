//! What a model's cards do for channels ([`crate::channel`]): memory of the peer's that they store
//! to.

use std::fmt::Debug;
use std::ops::Range;
use std::time::Duration;

use crate::core::express::memory::RingMemory;
use crate::core::express::ring::{Shared, Word};
use crate::error::Result;

/// What a model's cards do for one half of a channel.
pub(crate) trait Remote: Debug + Send {
    /// Returns the area that the peer stores to.
    fn area(&self) -> &RingMemory;

    /// Returns the copy of the peer's area that is sent from.
    fn mirror(&self) -> &RingMemory;

    /// Sends bytes of the mirror's ring to the same place of the peer's, and then stores a word
    /// there: a peer that sees the word sees the bytes. The second piece begins where the ring
    /// does, and is empty unless the bytes pass its end.
    fn post(&self, pieces: &[Range<u64>; 2], word: Word, value: u64) -> Result<()>;

    /// Returns the word that the peer has stored last.
    fn load(&self, word: Word) -> u64 {
        self.area().load(word)
    }

    /// Waits until a call of [`Remote::post`] does not have to wait for the card. False: the time
    /// is over.
    fn wait_for_room(&self, _limit: Option<Duration>) -> Result<bool> {
        Ok(true)
    }

    /// Has what arrives from now on end the next sleep.
    fn arm(&self) -> Result<()>;

    /// Sleeps until something has arrived since [`Remote::arm`], for `limit` at most. It may also
    /// end early.
    fn sleep(&self, limit: Duration) -> Result<()>;

    /// Fails if something that was posted did not arrive.
    fn check(&self) -> Result<()>;

    /// Waits until what was posted is sure to arrive, whatever becomes of this end.
    fn finish(&self, _limit: Option<Duration>) -> Result<()> {
        Ok(())
    }
}

/// Both halves of a channel at one end, before those of the other are known.
pub(crate) trait Ends: Debug {
    /// Returns what the other end needs of this one.
    fn address(&self) -> Result<Vec<u8>>;

    /// Makes the sending and the receiving half, by what the other end at `host` has passed. The
    /// rings of both have `capacity` bytes, at most as many as these ends were made for.
    fn join(self: Box<Self>, peer: &[u8], host: u32, capacity: u64) -> Result<[Box<dyn Remote>; 2]>;
}
