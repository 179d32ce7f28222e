//! The ground of a channel over express memory: both ends access the same pages, and their cards
//! only wake sleepers.
//!
//! Each direction has an area in the receiver's memory, of which the sender has a view. A half
//! wakes its peer's half by a word of the card's channel ([`Remote`]) with the smallest ring.

use std::cell::Cell;
use std::fmt::Debug;
use std::sync::atomic::AtomicU8;
use std::time::Duration;

use super::card::Card;
use super::ground::{END_LIMIT, Ground};
use crate::core::carrier::SharedPages;
use crate::core::express::memory::RingMemory;
use crate::core::express::pages::{is_absent, is_full};
use crate::core::express::ring::{Shared, Span, Word};
use crate::core::remote::Remote;
use crate::core::waiting::Deadline;
use crate::error::{Error, Result};

/// Maximum time that a wake-up waits for room at the card. A later call sends it then.
const PATIENCE: Duration = Duration::from_millis(100);

/// An area or a view, and its pages.
#[derive(Debug)]
pub(super) struct Area {
    pub(super) number: u32,
    pub(super) key: u64,
    pub(super) ring: RingMemory,
    pub(super) held: Box<dyn Debug + Send + Sync>,
}

impl Area {
    /// Creates an area to receive in from a host. Returns `None` if no express memory is shared
    /// with that host, or this host's half of it is full.
    pub(super) fn create(card: &Card, host: u32, capacity: u64) -> Result<Option<Self>> {
        let length = usize::try_from(RingMemory::area_for(capacity)).unwrap_or(usize::MAX);
        // A host has no express memory with itself.
        let card = card.0.card();
        if card.host()? == Some(host) || !card.shares_memory(host) {
            return Ok(None);
        }
        let SharedPages { number, key, ring, held } = match card.create_area(host, length) {
            Err(error) if is_absent(&error) || is_full(&error) => return Ok(None),
            made => made?,
        };
        let ring = ring.ok_or(Error::Invalid("a channel's area has two pages at least"))?;
        ring.make();
        Ok(Some(Self { number, key, ring, held }))
    }

    /// Maps the peer's area, which it has announced with this capacity. Returns `None` if no
    /// express memory is shared with the host.
    pub(super) fn map(
        card: &Card,
        host: u32,
        (number, key): (u32, u64),
        capacity: u64,
    ) -> Result<Option<Self>> {
        let SharedPages { ring, held, .. } = match card.0.card().map_area(host, number, key) {
            Err(error) if is_absent(&error) => return Ok(None),
            mapped => mapped?,
        };
        let ring = ring.filter(|ring| ring.capacity() == capacity && ring.is_made());
        let ring = ring.ok_or(Error::Malformed("an area that is not of a channel, or of another length"))?;
        Ok(Some(Self { number, key, ring, held }))
    }
}

/// The ground of one half.
#[derive(Debug)]
pub(super) struct Express {
    ring: RingMemory,
    /// The word that this half wakes its peer with.
    rings: Word,
    card: Box<dyn Remote>,
    /// A wake-up found no room at the card.
    owed: Cell<bool>,
    /// There was a wake-up since the last call of `finish`.
    rang: Cell<bool>,
}

impl Express {
    /// Returns the ground of a sender, whose ring is the peer's area.
    pub(super) fn to(view: RingMemory, card: Box<dyn Remote>) -> Self {
        Self::new(view, Word::Ended, card)
    }

    /// Returns the ground of a receiver, whose ring is its own area.
    pub(super) fn from(area: RingMemory, card: Box<dyn Remote>) -> Self {
        Self::new(area, Word::Released, card)
    }

    fn new(ring: RingMemory, rings: Word, card: Box<dyn Remote>) -> Self {
        Self { ring, rings, card, owed: Cell::new(false), rang: Cell::new(false) }
    }
}

impl Shared for Express {
    #[inline(always)]
    fn load(&self, word: Word) -> u64 {
        self.ring.load(word)
    }

    #[inline(always)]
    fn store(&self, word: Word, value: u64) {
        self.ring.store(word, value);
    }

    #[inline]
    fn take(&self, word: Word) {
        self.ring.take(word);
    }

    #[inline(always)]
    fn barrier(&self) {
        self.ring.barrier();
    }

    #[inline(always)]
    fn header(&self, at: u64) -> u64 {
        self.ring.header(at)
    }

    #[inline(always)]
    fn set_header(&self, at: u64, value: u64) {
        self.ring.set_header(at, value);
    }
}

impl Ground for Express {
    const IS_SHARED: bool = true;

    fn card(&self) -> &dyn Remote {
        &*self.card
    }

    #[inline(always)]
    fn data(&self, span: Span) -> &[AtomicU8] {
        self.ring.data(span)
    }

    fn arm(&self) -> Result<()> {
        // This takes the wake-ups so far, whatever their words: a load of any other word may leave
        // what has come. The caller looks after it.
        self.card.load(Word::Written);
        self.card.arm()
    }

    fn wait_for_room(&self, limit: Option<Duration>) -> Result<bool> {
        if self.owed.get() && self.card.wait_for_room(limit)? {
            self.wake();
        }
        Ok(!self.owed.get())
    }

    /// A failure means that the peer or the card is gone, of which the connection tells.
    #[cold]
    fn wake(&self) {
        let limit = if self.owed.get() { Duration::ZERO } else { PATIENCE };
        self.owed.set(!self.card.ring(self.rings, limit).unwrap_or(true));
        self.rang.set(true);
    }

    #[inline(always)]
    fn is_gone(&self) -> bool {
        !self.ring.is_made()
    }

    fn finish(&self, limit: Option<Duration>) -> Result<()> {
        let deadline = Deadline::new(limit);
        while !self.wait_for_room(deadline.check("room to wake the peer")?.or(Some(PATIENCE)))? {}
        if self.rang.replace(false) {
            // A peer that misses the wake-up looks again by itself after a while.
            let _ = self.card.finish(Some(limit.map_or(END_LIMIT, |limit| limit.min(END_LIMIT))));
        }
        Ok(())
    }
}
