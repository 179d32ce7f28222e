//! How far producer and consumer of a ring are, and which of them sleeps.
//!
//! Four shared words, each on a cache line of its own. Positions count bytes and never wrap within
//! a lifetime; the place in the ring is the position modulo the capacity. Each side owns one
//! position and keeps a copy of the other's, which it refreshes only when the copy says "nothing to
//! do".
//!
//! **Sleeping.** A side that runs out of work writes that it sleeps, and then looks once more. The
//! other side moves its position, and then looks whether somebody sleeps. A full fence lies between
//! the write and the look on both sides, so at least one of them sees the other: no wake-up is
//! lost. The waker takes the flag back before it rings, so it rings once. A flag that is left
//! behind by somebody who woke for another reason costs one idle ring.
//!
//! A producer sleeps until the ring is half empty, not until one record has gone: else both sides
//! would wake each other for every record of a full ring.
//!
//! The words are reached through [`Words`], so that the same code runs on shared memory and under
//! loom.

use std::sync::atomic::Ordering;

use crate::ring::RingError;

/// The shared words of one ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Name {
    /// Bytes ever produced. Written by the producer.
    Produced,
    /// Bytes ever consumed. Written by the consumer.
    Consumed,
    /// 1 while the consumer sleeps for want of records.
    ConsumerSleeps,
    /// 1 while the producer sleeps for want of room.
    ProducerSleeps,
}

/// Access to the shared words.
pub trait Words {
    /// What a word is.
    fn load(&self, name: Name, ordering: Ordering) -> u64;
    /// Changes it.
    fn store(&self, name: Name, value: u64, ordering: Ordering);
    /// Orders our earlier store before our next load. The other side does the same with its own.
    fn fence_between_store_and_look(&self);
}

/// Takes the other side's sleep flag back. Call after our own position has moved.
fn must_wake(words: &impl Words, sleeper: Name) -> bool {
    words.fence_between_store_and_look();
    let sleeps = words.load(sleeper, Ordering::Relaxed) != 0;
    if sleeps {
        words.store(sleeper, 0, Ordering::Relaxed);
    }
    sleeps
}

/// Reads the other side's position, which must lie between what it was and what is possible.
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
    /// No later than the truth.
    consumed: u64,
}

impl<W: Words> ProducerIndex<W> {
    /// A new ring's, of so many bytes.
    pub fn new(words: W, capacity: u64) -> Self {
        ProducerIndex { words, capacity, produced: 0, consumed: 0 }
    }

    /// Where the next record goes.
    pub fn position(&self) -> u64 {
        self.produced
    }

    fn used(&self) -> u64 {
        self.produced - self.consumed
    }

    /// The consumer's position, read anew.
    pub fn refresh(&mut self) -> Result<u64, RingError> {
        self.consumed = load_position(&self.words, Name::Consumed, self.consumed, self.produced)?;
        Ok(self.consumed)
    }

    /// Whether `bytes` more fit.
    pub fn has_room(&mut self, bytes: u64) -> Result<bool, RingError> {
        if self.used() + bytes > self.capacity {
            self.refresh()?;
        }
        Ok(self.used() + bytes <= self.capacity)
    }

    /// Shows `bytes` more to the consumer. True: ring its bell.
    pub fn publish(&mut self, bytes: u64) -> bool {
        self.produced += bytes;
        self.words.store(Name::Produced, self.produced, Ordering::Release);
        must_wake(&self.words, Name::ConsumerSleeps)
    }

    /// Declares that we sleep for want of room. False: the ring is half empty, do not sleep.
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
    /// No later than the truth.
    produced: u64,
}

impl<W: Words> ConsumerIndex<W> {
    /// A ring's of so many bytes, of which it has had some.
    pub fn new(words: W, capacity: u64, consumed: u64) -> Self {
        ConsumerIndex { words, capacity, consumed, produced: consumed }
    }

    /// Where the next record is.
    pub fn position(&self) -> u64 {
        self.consumed
    }

    fn refresh(&mut self) -> Result<(), RingError> {
        let limit = self.consumed.saturating_add(self.capacity);
        self.produced = load_position(&self.words, Name::Produced, self.produced, limit)?;
        Ok(())
    }

    /// Bytes that are there to be read: at least as many as said, all of them if it is none.
    pub fn available(&mut self) -> Result<u64, RingError> {
        if self.produced == self.consumed {
            self.refresh()?;
        }
        Ok(self.produced - self.consumed)
    }

    /// Gives `bytes` back to the producer. True: ring its bell.
    pub fn release(&mut self, bytes: u64) -> bool {
        self.consumed += bytes;
        self.words.store(Name::Consumed, self.consumed, Ordering::Release);
        // Our copy of `produced` may be old. So this may say "half empty" too early, but never too
        // late.
        self.produced - self.consumed <= self.capacity / 2 && must_wake(&self.words, Name::ProducerSleeps)
    }

    /// Passes over `bytes` without giving them back.
    pub fn skip(&mut self, bytes: u64) {
        self.consumed += bytes;
    }

    /// Declares that we sleep for want of records. False: there are some, do not sleep.
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
