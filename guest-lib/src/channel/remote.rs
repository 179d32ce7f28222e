//! A ring in the receiver's memory that the sender's card writes to: the channel without express
//! memory, on every model of cards.
//!
//! Each half has an *area* that the peer's card stores to, and a *mirror*: a copy of the peer's
//! area that its own card sends from. A message is built in the mirror, at the offset where it will
//! lie in the peer's area. Both have the layout of an express-memory area, a page of words and the
//! ring ([`RingMemory`]). The same code allocates space, validates the peer's words and counts
//! credit ([`Writer`], [`Reader`]). Two things differ from shared memory:
//!
//! - **A store is a packet.** The receiver returns credit only when a quarter of the ring is free
//!   again.
//! - **The card wakes the sleeper.** No word records that the peer sleeps: the receiver's card
//!   raises an interrupt on arrival.
//!
//! A sender may reuse its mirror as soon as it has credit: received data has left the mirror.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::sync::atomic::AtomicU8;
use std::time::Duration;

use super::ground::Ground;
use crate::core::express::memory::RingMemory;
use crate::core::express::ring::{Shared, Span, Word};
use crate::core::loss::PeerLoss;
use crate::core::remote::Remote;
use crate::error::{Error, Result};

/// Memory that a half can access, as the ring's code needs it.
#[derive(Debug)]
pub(super) struct Reached {
    remote: Box<dyn Remote>,
    /// The ring that this half accesses: the mirror of a sender, the area of a receiver.
    ring: RingMemory,
    capacity: u64,
    /// Position up to which the mirror's ring was sent, and its offset in the ring.
    posted: Cell<u64>,
    place: Cell<u64>,
    /// Error of a store, until it is reported.
    failed: RefCell<Option<Error>>,
}

impl Reached {
    /// Returns the ground of a sender. `capacity` is the size of the peer's ring and of the
    /// mirror's.
    pub(super) fn to(remote: Box<dyn Remote>, capacity: u64) -> Self {
        let ring = remote.mirror().clone();
        let (posted, place, failed) = Default::default();
        Self { remote, ring, capacity, posted, place, failed }
    }

    /// Returns the ground of a receiver.
    pub(super) fn from(remote: Box<dyn Remote>, capacity: u64) -> Self {
        let ring = remote.area().clone();
        let (posted, place, failed) = Default::default();
        Self { remote, ring, capacity, posted, place, failed }
    }

    fn post(&self, pieces: &[Range<u64>; 2], word: Word, value: u64) {
        let mut failed = self.failed.borrow_mut();
        if failed.is_none() {
            *failed = self.remote.post(pieces, word, value).err();
        }
    }

    /// Returns the ring's bytes between what was sent and a position, which is sent from now on:
    /// one piece, or two if they wrap around.
    fn next_pieces(&self, position: u64) -> [Range<u64>; 2] {
        let (start, length) = (self.place.get(), position - self.posted.replace(position));
        let end = start + length;
        let (first, rest) = (end.min(self.capacity), end.saturating_sub(self.capacity));
        self.place.set(if end < self.capacity { end } else { rest });
        [start..first, 0..rest]
    }
}

impl Shared for Reached {
    #[inline]
    fn load(&self, word: Word) -> u64 {
        match word {
            // The card wakes the sleeper.
            Word::ReaderSleeps | Word::WriterSleeps => 0,
            word => self.remote.load(word),
        }
    }

    fn store(&self, word: Word, value: u64) {
        match word {
            Word::ReaderSleeps | Word::WriterSleeps => {}
            Word::Written => self.post(&self.next_pieces(value), word, value),
            word => self.post(&[0..0, 0..0], word, value),
        }
    }

    fn take(&self, _word: Word) {}

    /// Each word has one writer, and the card keeps stores in order.
    fn barrier(&self) {}

    #[inline]
    fn header(&self, at: u64) -> u64 {
        self.ring.header(at)
    }

    #[inline]
    fn set_header(&self, at: u64, value: u64) {
        self.ring.set_header(at, value);
    }

    #[inline]
    fn has_news(&self, written: u64) -> bool {
        self.remote.has_news(written)
    }
}

impl Ground for Reached {
    const IS_SHARED: bool = false;

    fn card(&self) -> &dyn Remote {
        &*self.remote
    }

    #[inline(always)]
    fn data(&self, span: Span) -> &[AtomicU8] {
        self.ring.data(span)
    }

    /// Fails with the error of a failed store, and then as for a peer that is gone.
    fn check(&self) -> Result<()> {
        let mut failed = self.failed.borrow_mut();
        if failed.is_none() {
            *failed = self.remote.check().err();
        }
        match failed.as_mut() {
            Some(error) => Err(std::mem::replace(error, Error::PeerLost(PeerLoss::Gone))),
            None => Ok(()),
        }
    }

    /// One call of the card's, for each message.
    fn is_ready(&self) -> Result<bool> {
        if self.failed.borrow().is_none() {
            if let Ok(is_ready) = self.remote.is_ready() {
                return Ok(is_ready);
            }
        }
        self.check()?;
        self.wait_for_room(Some(Duration::ZERO))
    }

    #[inline]
    fn failure(&self) -> Option<Error> {
        let mut failed = self.failed.borrow_mut();
        failed.as_mut().map(|error| std::mem::replace(error, Error::PeerLost(PeerLoss::Gone)))
    }
}
