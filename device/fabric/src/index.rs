//! Positions of a ring's producer and consumer, and their sleep flags.
//!
//! There are four shared words, each on its own cache line. Positions count bytes and never wrap
//! within a lifetime. The offset in the ring is the position modulo the capacity. Each side owns
//! one position and keeps a copy of the other side's. It refreshes the copy only when the copy
//! leaves it nothing to do.
//!
//! **Sleeping.** A side that runs out of work sets its sleep flag and then checks the positions
//! once more. The other side moves its position and then checks the sleep flag. Both sides have a
//! full fence between the store and the load, so at least one of them sees the other's store. No
//! wake-up is lost. The waker clears the flag before it rings, so it rings once. A flag left set by
//! a side that woke for another reason costs one spurious ring.
//!
//! A producer sleeps until the ring is half empty, not just until one record is consumed. Otherwise
//! both sides would wake each other for every record of a full ring.
//!
//! The words are accessed through [`Words`], so that the same code runs on shared memory and under
//! loom.

use std::sync::atomic::Ordering;

use crate::error::RingError;

/// The shared words of one ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Name {
    /// Total bytes produced. Written by the producer.
    Produced,
    /// Total bytes consumed. Written by the consumer.
    Consumed,
    /// 1 while the consumer sleeps because the ring is empty.
    ConsumerSleeps,
    /// 1 while the producer sleeps because the ring is too full.
    ProducerSleeps,
}

/// Access to the shared words.
pub trait Words {
    /// Loads a word.
    fn load(&self, name: Name, ordering: Ordering) -> u64;
    /// Stores a word.
    fn store(&self, name: Name, value: u64, ordering: Ordering);
    /// Orders this side's earlier store before its next load. The other side does the same.
    fn fence_between_store_and_look(&self);
}

/// Clears the other side's sleep flag and returns whether it was set. Call this after moving our
/// own position.
fn must_wake(words: &impl Words, sleeper: Name) -> bool {
    words.fence_between_store_and_look();
    let sleeps = words.load(sleeper, Ordering::Relaxed) != 0;
    if sleeps {
        words.store(sleeper, 0, Ordering::Relaxed);
    }
    sleeps
}

/// Reads the other side's position and checks that it lies between `last` and `limit`.
fn load_position(words: &impl Words, name: Name, last: u64, limit: u64) -> Result<u64, RingError> {
    let value = words.load(name, Ordering::Acquire);
    if (last..=limit).contains(&value) { Ok(value) } else { Err(RingError::Position { value, last, limit }) }
}

/// The producer's view.
#[derive(Debug)]
pub struct ProducerIndex<W> {
    pub(crate) words: W,
    capacity: u64,
    produced: u64,
    /// Copy of the consumer's position; may lag behind it.
    consumed: u64,
}

impl<W: Words> ProducerIndex<W> {
    /// Returns the producer's view of a new ring of `capacity` bytes.
    pub fn new(words: W, capacity: u64) -> Self {
        ProducerIndex { words, capacity, produced: 0, consumed: 0 }
    }

    /// Returns the position of the next record.
    pub fn position(&self) -> u64 {
        self.produced
    }

    fn used(&self) -> u64 {
        self.produced - self.consumed
    }

    /// Reads the consumer's position again and returns it.
    pub fn refresh(&mut self) -> Result<u64, RingError> {
        self.consumed = load_position(&self.words, Name::Consumed, self.consumed, self.produced)?;
        Ok(self.consumed)
    }

    /// Returns whether `bytes` more fit.
    pub fn has_room(&mut self, bytes: u64) -> Result<bool, RingError> {
        if self.used() + bytes > self.capacity {
            self.refresh()?;
        }
        Ok(self.used() + bytes <= self.capacity)
    }

    /// Publishes `bytes` more to the consumer. Returns `true` if the caller must ring its bell.
    pub fn publish(&mut self, bytes: u64) -> bool {
        self.publish_quietly(bytes);
        must_wake(&self.words, Name::ConsumerSleeps)
    }

    /// Publishes `bytes` more to a consumer that never sleeps. This takes no fence, which would
    /// wait for all stores before it.
    pub fn publish_quietly(&mut self, bytes: u64) {
        self.produced += bytes;
        self.words.store(Name::Produced, self.produced, Ordering::Release);
    }

    /// Sets the producer's sleep flag. Returns `false` if the ring is already half empty: do not
    /// sleep.
    pub fn sleep(&mut self) -> Result<bool, RingError> {
        self.words.store(Name::ProducerSleeps, 1, Ordering::Relaxed);
        self.words.fence_between_store_and_look();
        self.refresh()?;
        let sleeps = self.used() > self.capacity / 2;
        if !sleeps {
            self.words.store(Name::ProducerSleeps, 0, Ordering::Relaxed);
        }
        Ok(sleeps)
    }
}

/// The consumer's view.
#[derive(Debug)]
pub struct ConsumerIndex<W> {
    pub(crate) words: W,
    capacity: u64,
    consumed: u64,
    /// Copy of the producer's position; may lag behind it.
    produced: u64,
}

impl<W: Words> ConsumerIndex<W> {
    /// Returns the consumer's view of a ring of `capacity` bytes, of which it has consumed
    /// `consumed`.
    pub fn new(words: W, capacity: u64, consumed: u64) -> Self {
        ConsumerIndex { words, capacity, consumed, produced: consumed }
    }

    /// Returns the position of the next record.
    pub fn position(&self) -> u64 {
        self.consumed
    }

    fn refresh(&mut self) -> Result<(), RingError> {
        let limit = self.consumed.saturating_add(self.capacity);
        self.produced = load_position(&self.words, Name::Produced, self.produced, limit)?;
        Ok(())
    }

    /// Returns a lower bound of the bytes that can be read. It is exact if it is 0.
    pub fn available(&mut self) -> Result<u64, RingError> {
        if self.produced == self.consumed {
            self.refresh()?;
        }
        Ok(self.produced - self.consumed)
    }

    /// Gives `bytes` back to the producer. Returns `true` if the caller must ring its bell.
    pub fn release(&mut self, bytes: u64) -> bool {
        self.consumed += bytes;
        self.words.store(Name::Consumed, self.consumed, Ordering::Release);
        // Our copy of `produced` may be old. So this test may see "half empty" too early, but never
        // too late.
        self.produced - self.consumed <= self.capacity / 2 && must_wake(&self.words, Name::ProducerSleeps)
    }

    /// Skips `bytes` without giving them back.
    pub fn skip(&mut self, bytes: u64) {
        self.consumed += bytes;
    }

    /// Sets the consumer's sleep flag. Returns `false` if there are records: do not sleep.
    pub fn sleep(&mut self) -> Result<bool, RingError> {
        self.words.store(Name::ConsumerSleeps, 1, Ordering::Relaxed);
        self.words.fence_between_store_and_look();
        let sleeps = self.available()? == 0;
        if !sleeps {
            self.words.store(Name::ConsumerSleeps, 0, Ordering::Relaxed);
        }
        Ok(sleeps)
    }
}

#[cfg(test)]
#[path = "index_loom.rs"]
mod index_loom;
