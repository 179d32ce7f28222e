//! Interface of a card model to channels ([`crate::channel`]): access to the peer's memory.

use std::fmt::Debug;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::time::Duration;

use crate::core::express::memory::RingMemory;
use crate::core::express::ring::{Shared, Word};
use crate::error::Result;

/// Operations of a model's cards for one half of a channel.
pub(crate) trait Remote: Debug + Send {
    /// Returns the area that the peer stores to.
    fn area(&self) -> &RingMemory;

    /// Returns the copy of the peer's area that this end sends from.
    fn mirror(&self) -> &RingMemory;

    /// Sends bytes of the mirror's ring to the same offsets of the peer's ring, and then stores a
    /// word there. A peer whose [`Remote::load`] returns the word's value sees the bytes. The
    /// second piece starts at offset 0; it is empty unless the bytes wrap around.
    fn post(&self, pieces: &[Range<u64>; 2], word: Word, value: u64) -> Result<()>;

    /// Returns the word that the peer has stored last, or the value that it would have by what the
    /// peer has stored instead.
    fn load(&self, word: Word) -> u64 {
        self.area().load(word)
    }

    /// Returns whether the peer may have written beyond this position, or ended; or this end may
    /// have something to do.
    fn has_news(&self, written: u64) -> bool {
        self.load(Word::Written) != written || self.load(Word::Ended) != 0
    }

    /// Returns whether [`Remote::post`] would not have to wait for the card. Fails as
    /// [`Remote::check`].
    fn is_ready(&self) -> Result<bool> {
        self.check()?;
        self.wait_for_room(Some(Duration::ZERO))
    }

    /// Blocks until [`Remote::post`] would not have to wait for the card, and nothing that could
    /// not be posted is left. Returns `false` on timeout.
    fn wait_for_room(&self, _limit: Option<Duration>) -> Result<bool> {
        Ok(true)
    }

    /// Wakes the peer's half, by a word that the peer's channel does not use otherwise: it has
    /// express memory. Waits for at most `limit` for room at the card. Returns `false` without
    /// room.
    fn ring(&self, word: Word, limit: Duration) -> Result<bool> {
        Ok(self.wait_for_room(Some(limit))? && self.post(&[0..0, 0..0], word, 1).map(|()| true)?)
    }

    /// Arms the next sleep: any arrival from now on ends it. The caller then looks once more, and
    /// calls [`Remote::arm_file`].
    fn arm(&self) -> Result<()>;

    /// Makes the half's file readable once something has arrived since [`Remote::arm`]. Returns
    /// whether something is known to have arrived.
    fn arm_file(&self) -> Result<bool>;

    /// Opens the half's file, for `poll(2)`. A poll may be what tells the card to report the next
    /// arrival.
    fn file(&self) -> Result<OwnedFd>;

    /// Fails if a posted store did not arrive.
    fn check(&self) -> Result<()>;

    /// Blocks until all posted stores are sure to arrive, even if this end goes away.
    fn finish(&self, _limit: Option<Duration>) -> Result<()> {
        Ok(())
    }
}

/// Both halves of a channel at one end, before the other end's halves are known.
pub(crate) trait Ends: Debug + Send {
    /// Returns what the other end needs to reach this one.
    fn address(&self) -> Result<Vec<u8>>;

    /// Creates the sending and the receiving half from the address of the other end at `host`. Both
    /// rings have `capacity` bytes, at most the size that these ends were created for.
    fn join(self: Box<Self>, peer: &[u8], host: u32, capacity: u64) -> Result<[Box<dyn Remote>; 2]>;
}
