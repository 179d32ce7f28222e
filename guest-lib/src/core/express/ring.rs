//! One direction of a channel: one end writes records into shared memory, and the other end reads
//! them in place.
//!
//! **Records** follow each other at multiples of 8 bytes. A record has a header of 8 bytes, with
//! the length and the kind, and the data. A record is contiguous. If a message does not fit before
//! the ring's end, a *skip* of the rest of the ring precedes it. Once the reader has passed the
//! skip, the whole ring is free. So every message fits that is at most as long as the ring minus a
//! header.
//!
//! **Positions** count bytes of records and skips, and never wrap; the offset in the ring is the
//! position modulo its capacity. Each end owns its position and publishes it in a shared word. It
//! caches the other end's position, and refreshes the cache when the cached value leaves it nothing
//! to do. A reader publishes released bytes once they are a quarter of the ring, or when it finds
//! nothing to read.
//!
//! **Sleeping.** An end that finds nothing sets its sleep flag and then checks once more. An end
//! that moves its position then checks the other's flag. A full barrier lies between the two steps
//! on either side, so at least one end sees the other. The waker clears the flag and rings: once,
//! or rarely once too often.
//!
//! **Trust.** The other end may store anything at any time. So each word is loaded once, checked,
//! and then used, and no access leaves the ring's data. An invalid value is reported as
//! [`Nonsense`], permanently.
//!
//! Memory is accessed through [`Shared`], so that the same code runs under loom.

use std::fmt::Debug;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{self, Relaxed};

/// Size of a header in bytes, and alignment of records.
pub(crate) const HEADER: u64 = 8;
const MESSAGE: u64 = 1;
const SKIP: u64 = 2;

/// The shared words of one ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Word {
    /// Total bytes written. Stored by the writer.
    Written,
    /// How the writer has ended, or 0. Polled together with [`Word::Written`].
    Ended,
    /// Total bytes released. Stored by the reader.
    Released,
    /// 1 once the reader has left. Polled together with [`Word::Released`].
    Left,
    /// 1 while the reader sleeps until there are records.
    ReaderSleeps,
    /// 1 while the writer sleeps until there is space.
    WriterSleeps,
}

/// Memory orders of loading, storing and clearing a word, in memory and under loom. The loom tests
/// fail if either of the first two is weaker.
pub(crate) const LOAD: Ordering = Ordering::Acquire;
pub(crate) const STORE: Ordering = Ordering::Release;
pub(crate) const TAKE: Ordering = Ordering::AcqRel;

/// Memory shared by both ends.
pub(crate) trait Shared {
    /// Loads a word. Later loads see what its writer stored before the word.
    fn load(&self, word: Word) -> u64;
    /// Stores a word. An end that sees it also sees all earlier stores.
    fn store(&self, word: Word, value: u64);
    /// Clears a word by an exchange. Later loads see what the other end stored before the cleared
    /// value.
    fn take(&self, word: Word);
    /// Orders our earlier stores before our later loads, for all observers.
    fn barrier(&self);
    /// Loads the header at an offset in the data.
    fn header(&self, at: u64) -> u64;
    /// Stores a header at an offset in the data.
    fn set_header(&self, at: u64, value: u64);
}

/// The other end has stored an impossible value. The channel has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Nonsense {
    /// Impossible number of written bytes.
    #[error(
        "it says to have written {value} bytes of a ring, which are from {last} to {limit} and a multiple of 8"
    )]
    Written {
        /// Value found.
        value: u64,
        /// Previous value.
        last: u64,
        /// Largest possible value.
        limit: u64,
    },
    /// Impossible number of released bytes.
    #[error(
        "it says to have released {value} bytes of a ring, which are from {last} to {limit} and a multiple of 8"
    )]
    Released {
        /// Value found.
        value: u64,
        /// Previous value.
        last: u64,
        /// Bytes written so far.
        limit: u64,
    },
    /// A record of unknown kind.
    #[error("the record at {position} is of kind {kind} (limit 2)")]
    Kind {
        /// Position of the record since the ring's creation.
        position: u64,
        /// Kind found.
        kind: u32,
    },
    /// A record longer than the written bytes, or than the rest of the ring.
    #[error("the record at {position} has {length} bytes (limit {limit})")]
    Length {
        /// Position of the record since the ring's creation.
        position: u64,
        /// Length found.
        length: u32,
        /// Largest possible length; for a skip, the required length.
        limit: u64,
    },
}

/// Location of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    /// Offset of its data in the ring's data, in bytes.
    pub(crate) at: u64,
    /// Bytes of data.
    pub(crate) length: u64,
    /// Position after the message.
    pub(crate) end: u64,
}

/// Returns the size of a message with its header.
#[inline]
fn size_of(length: u64) -> u64 {
    HEADER + length.next_multiple_of(HEADER)
}

/// Returns the maximum message length of a ring whose reader returns credit in quarters.
pub(crate) fn half_of(capacity: u64) -> u64 {
    capacity / (2 * HEADER) * HEADER - HEADER
}

/// Wraps an offset at the end of the ring.
#[inline]
fn behind(place: u64, capacity: u64) -> u64 {
    if place == capacity { 0 } else { place }
}

/// Validates a position from the other end: between its previous value and the largest possible.
#[inline]
fn check(value: u64, last: u64, limit: u64) -> Option<u64> {
    ((last..=limit).contains(&value) && value % HEADER == 0).then_some(value)
}

/// Clears the other end's sleep flag after a store of our position. Returns whether to ring, also
/// if the other end clears the flag at the same time.
///
/// The other end may already have set its flag again, so that the new flag is cleared. On an
/// emulated processor an exchange is a load and a store, so this end cannot tell. A spurious ring
/// loses no wake-up.
#[inline]
fn must_ring(shared: &impl Shared, sleeper: Word) -> bool {
    shared.barrier();
    let sleeps = shared.load(sleeper) != 0;
    if sleeps {
        shared.take(sleeper);
    }
    sleeps
}

/// The writing end.
#[derive(Debug)]
pub(crate) struct Writer<S> {
    shared: S,
    capacity: u64,
    /// Records are in place up to `written`, and published up to `told`.
    written: u64,
    told: u64,
    /// Offset of `written` in the ring, and a lower bound of the contiguous free bytes from there
    /// on. These suffice for most messages.
    place: u64,
    free: u64,
    /// A lower bound of the released position.
    released: u64,
    left: bool,
    bell: bool,
    broken: Option<Nonsense>,
}

impl<S: Shared> Writer<S> {
    /// Creates the end of a new ring of `capacity` bytes, a multiple of 8 and at least 16.
    pub(crate) fn new(shared: S, capacity: u64) -> Self {
        let (written, told, place, free, released) = Default::default();
        let (left, bell, broken) = Default::default();
        Self { shared, capacity, written, told, place, free, released, left, bell, broken }
    }

    #[inline]
    pub(crate) fn shared(&self) -> &S {
        &self.shared
    }

    /// Returns the length of the longest message.
    #[inline]
    pub(crate) fn longest(&self) -> u64 {
        self.capacity - HEADER
    }

    /// [`Writer::reserve`] from cached state. Returns `None` if `reserve` has to look further.
    #[inline(always)]
    pub(crate) fn reserve_known(&self, length: u64) -> Option<Span> {
        if length >= self.free {
            return None;
        }
        let size = size_of(length);
        (size <= self.free).then(|| Span { at: self.place + HEADER, length, end: self.written + size })
    }

    /// Reserves space for a message of `length` bytes, at most [`Writer::longest`]. Returns `None`
    /// if there is none now. [`Writer::commit`] sends the message; without it nothing is sent.
    #[inline]
    pub(crate) fn reserve(&mut self, length: u64) -> Result<Option<Span>, Nonsense> {
        debug_assert!(length <= self.longest());
        if self.reserve_known(length).is_none() && !self.find_room(size_of(length))? {
            return Ok(None);
        }
        Ok(self.reserve_known(length))
    }

    /// Sends the message that was reserved last.
    #[inline(always)]
    pub(crate) fn commit(&mut self, span: Span) {
        self.put(span);
        self.tell();
    }

    /// Puts the message that was reserved last in place. [`Writer::flush`] or the next sent message
    /// publishes it to the reader.
    #[inline(always)]
    pub(crate) fn put(&mut self, span: Span) {
        self.shared.set_header(span.at - HEADER, MESSAGE << 32 | span.length);
        let size = span.end - self.written;
        self.written = span.end;
        self.place += size;
        self.free -= size;
    }

    /// Publishes all messages that were put.
    pub(crate) fn flush(&mut self) {
        if self.told != self.written {
            self.tell();
        }
    }

    /// Returns the bytes that the reader has not yet released, including headers, as far as known.
    pub(crate) fn behind(&mut self) -> Result<u64, Nonsense> {
        self.refresh()?;
        Ok(self.written - self.released)
    }

    /// Publishes the end of the stream and its reason, which is not 0.
    pub(crate) fn end(&mut self, how: u64) {
        self.flush();
        // Nothing may follow the end.
        self.free = 0;
        self.shared.store(Word::Ended, how);
        self.bell |= must_ring(&self.shared, Word::ReaderSleeps);
    }

    /// Returns whether the reader has left. It cannot take that back.
    pub(crate) fn reader_has_left(&mut self) -> bool {
        self.left |= self.shared.load(Word::Left) != 0;
        self.left
    }

    /// Sets the sleep flag until there is space for a message of `length` bytes. Returns `false` if
    /// there is space or the reader has left; the caller must not sleep then.
    pub(crate) fn sleep(&mut self, length: u64) -> Result<bool, Nonsense> {
        self.shared.store(Word::WriterSleeps, 1);
        self.shared.barrier();
        let awake = self.reserve(length)?.is_some() || self.reader_has_left();
        if awake {
            self.shared.store(Word::WriterSleeps, 0);
        }
        Ok(!awake)
    }

    /// Returns whether the reader must be rung.
    #[inline(always)]
    pub(crate) fn bell_is_due(&self) -> bool {
        self.bell
    }

    /// Returns whether the reader must be rung since the last call.
    pub(crate) fn take_bell(&mut self) -> bool {
        std::mem::take(&mut self.bell)
    }

    #[inline(always)]
    fn tell(&mut self) {
        self.told = self.written;
        self.shared.store(Word::Written, self.told);
        self.bell |= must_ring(&self.shared, Word::ReaderSleeps);
    }

    /// Finds `size` contiguous bytes, after a skip if necessary.
    #[inline(never)]
    fn find_room(&mut self, size: u64) -> Result<bool, Nonsense> {
        if let Some(nonsense) = self.broken {
            return Err(nonsense);
        }
        self.place = behind(self.place, self.capacity);
        let left = self.capacity - self.place;
        if size > left {
            // The skip is published with the message if both fit, otherwise ahead of it.
            let both = self.has_room(left + size)?;
            if !both && !self.has_room(left)? {
                return Ok(false);
            }
            self.shared.set_header(self.place, SKIP << 32 | (left - HEADER));
            self.written += left;
            (self.place, self.free) = (0, 0);
            if !both {
                self.tell();
            }
        }
        let found = self.has_room(size)?;
        if found {
            let all = self.capacity - (self.written - self.released);
            self.free = all.min(self.capacity - self.place);
        } else if self.written != self.told {
            // A skip still waits for a message that was abandoned. The reader cannot pass an
            // unpublished skip.
            self.tell();
        }
        Ok(found)
    }

    fn has_room(&mut self, bytes: u64) -> Result<bool, Nonsense> {
        let fits = |writer: &Self| writer.written - writer.released + bytes <= writer.capacity;
        if !fits(self) {
            self.refresh()?;
        }
        Ok(fits(self))
    }

    fn refresh(&mut self) -> Result<(), Nonsense> {
        // The reader cannot have released more than was published.
        let (value, last, limit) = (self.shared.load(Word::Released), self.released, self.told);
        match check(value, last, limit) {
            Some(released) => self.released = released,
            None => {
                let nonsense = Nonsense::Released { value, last, limit };
                // The error is permanent: nothing counts as free from now on.
                (self.broken, self.free) = (Some(nonsense), 0);
                return Err(nonsense);
            }
        }
        Ok(())
    }
}

/// The reading end.
#[derive(Debug)]
pub(crate) struct Reader<S> {
    shared: S,
    capacity: u64,
    /// The next record, its offset in the ring, and a lower bound of the contiguous written bytes
    /// from there on. The bound is 0 for a caller that finds the channel ended while it holds a
    /// message.
    next: u64,
    place: u64,
    there: AtomicU64,
    /// All before it is free, and published to the writer up to `told`.
    released: u64,
    told: u64,
    /// A lower bound of the written position.
    written: u64,
    /// Start and end of a skip that was passed before the records ahead of it were released.
    skip: Option<(u64, u64)>,
    bell: bool,
    broken: Option<Nonsense>,
    /// Returns credit only in quarters, even if there is nothing left to receive.
    by_quarters: bool,
}

impl<S: Shared> Reader<S> {
    /// Creates the end of a new ring of `capacity` bytes, a multiple of 8 and at least 16.
    pub(crate) fn new(shared: S, capacity: u64) -> Self {
        let (next, place, there, released, told, written) = Default::default();
        let (skip, bell, broken, by_quarters) = Default::default();
        Self {
            shared,
            capacity,
            next,
            place,
            there,
            released,
            told,
            written,
            skip,
            bell,
            broken,
            by_quarters,
        }
    }

    /// Creates a reader that returns credit only when a quarter of the ring is free again, for
    /// cards where each return is a packet. Once everything was received, the writer always has
    /// space for three quarters of the ring. So no message may be longer than half of it
    /// ([`half_of`]).
    pub(crate) fn by_quarters(shared: S, capacity: u64) -> Self {
        Self { by_quarters: true, ..Self::new(shared, capacity) }
    }

    #[inline]
    pub(crate) fn shared(&self) -> &S {
        &self.shared
    }

    /// [`Reader::receive`] from cached state. Returns `None` if `receive` has to look further.
    #[inline(always)]
    pub(crate) fn receive_known(&mut self) -> Option<Span> {
        if *self.there.get_mut() == 0 {
            return None;
        }
        self.receive_message(self.shared.header(self.place))
    }

    /// As [`Reader::message`], and advances past the message.
    #[inline(always)]
    fn receive_message(&mut self, header: u64) -> Option<Span> {
        let span = self.message(header)?;
        let size = span.end - self.next;
        self.next = span.end;
        self.place += size;
        *self.there.get_mut() -= size;
        Some(span)
    }

    /// Returns the next message, if there is one. It stays in place until [`Reader::release`].
    #[inline]
    pub(crate) fn receive(&mut self) -> Result<Option<Span>, Nonsense> {
        loop {
            if *self.there.get_mut() == 0 && !self.look()? {
                self.tell_rest();
                return Ok(None);
            }
            // Loaded once: the peer may change it.
            let header = self.shared.header(self.place);
            if let Some(span) = self.receive_message(header) {
                return Ok(Some(span));
            }
            self.pass(header)?;
        }
    }

    /// Frees all messages up to the one that ends at `end`.
    #[inline(always)]
    pub(crate) fn release(&mut self, end: u64) {
        debug_assert!(end <= self.next);
        self.released = self.released.max(end);
        if self.skip.is_some() {
            self.release_skip();
        }
        if self.released - self.told >= self.capacity / 4 {
            self.tell();
        }
    }

    /// Makes the reader return nothing more of what is known to be there.
    pub(crate) fn stop(&self) {
        self.there.store(0, Relaxed);
    }

    /// Publishes that the reader takes nothing more.
    pub(crate) fn leave(&mut self) {
        self.shared.store(Word::Left, 1);
        self.bell |= must_ring(&self.shared, Word::WriterSleeps);
    }

    /// Returns whether the writer has published something that [`Reader::receive`], which found
    /// nothing, or [`Reader::ended`] has not reported.
    #[inline(always)]
    pub(crate) fn has_news(&self) -> bool {
        self.shared.load(Word::Written) != self.written || self.may_have_ended()
    }

    /// Returns whether [`Reader::ended`] may have something to report.
    #[inline(always)]
    pub(crate) fn may_have_ended(&self) -> bool {
        self.shared.load(Word::Ended) != 0
    }

    /// Returns how the writer has ended, if it has and everything it sent has been received.
    pub(crate) fn ended(&mut self) -> Result<Option<u64>, Nonsense> {
        let how = self.shared.load(Word::Ended);
        // Checked after `Ended`, so that this sees everything sent before the end.
        Ok((how != 0 && *self.there.get_mut() == 0 && !self.look()?).then_some(how))
    }

    /// Sets the sleep flag until a message comes. Returns `false` if there is a message or the
    /// writer has ended; the caller must not sleep then.
    pub(crate) fn sleep(&mut self) -> Result<bool, Nonsense> {
        loop {
            self.shared.store(Word::ReaderSleeps, 1);
            self.shared.barrier();
            if *self.there.get_mut() == 0 && !self.look()? {
                break;
            }
            // A skip ahead of its message is not a message, and the writer that published it has
            // cleared the flag.
            let header = self.shared.header(self.place);
            if self.message(header).is_some() {
                self.shared.store(Word::ReaderSleeps, 0);
                return Ok(false);
            }
            self.pass(header)?;
        }
        let ended = self.shared.load(Word::Ended) != 0;
        match ended {
            true => self.shared.store(Word::ReaderSleeps, 0),
            false => self.tell_rest(),
        }
        Ok(!ended)
    }

    /// Returns the credit that [`Reader::release`] withheld, as the writer may need it.
    fn tell_rest(&mut self) {
        let least = if self.by_quarters { self.capacity / 4 } else { 1 };
        if self.released - self.told >= least {
            self.tell();
        }
    }

    /// Returns whether the writer must be rung.
    #[inline(always)]
    pub(crate) fn bell_is_due(&self) -> bool {
        self.bell
    }

    /// Returns whether the writer must be rung since the last call.
    pub(crate) fn take_bell(&mut self) -> bool {
        std::mem::take(&mut self.bell)
    }

    /// Returns the next message, if `header` is that of a message.
    #[inline(always)]
    fn message(&self, header: u64) -> Option<Span> {
        let length = u64::from(header as u32);
        let size = size_of(length);
        let is_one = header >> 32 == MESSAGE && size <= self.there.load(Relaxed);
        is_one.then(|| Span { at: self.place + HEADER, length, end: self.next + size })
    }

    /// Passes a skip with this header. Fails for anything but a skip or a message.
    #[cold]
    fn pass(&mut self, header: u64) -> Result<(), Nonsense> {
        let (position, there, left) = (self.next, *self.there.get_mut(), self.capacity - self.place);
        let (kind, length) = ((header >> 32) as u32, header as u32);
        match u64::from(kind) {
            SKIP if u64::from(length) == left - HEADER && left <= there => {}
            SKIP => return self.fail(Nonsense::Length { position, length, limit: left - HEADER }),
            MESSAGE => return self.fail(Nonsense::Length { position, length, limit: there - HEADER }),
            _ => return self.fail(Nonsense::Kind { position, kind }),
        }
        let end = position + left;
        if self.released == position {
            self.released = end;
        } else {
            self.skip = Some((position, end));
        }
        self.next = end;
        self.place = 0;
        *self.there.get_mut() = 0;
        Ok(())
    }

    /// Releases a skip that was passed, once everything before it is released.
    #[cold]
    fn release_skip(&mut self) {
        if let Some((_, end)) = self.skip.filter(|(start, _)| *start <= self.released) {
            self.released = self.released.max(end);
            self.skip = None;
        }
    }

    #[inline(always)]
    fn tell(&mut self) {
        self.told = self.released;
        self.shared.store(Word::Released, self.told);
        self.bell |= must_ring(&self.shared, Word::WriterSleeps);
    }

    /// Returns whether there is something to read where nothing was known to be.
    #[inline(always)]
    fn look(&mut self) -> Result<bool, Nonsense> {
        if self.next == self.written {
            let value = self.shared.load(Word::Written);
            if value == self.written && self.broken.is_none() {
                return Ok(false);
            }
            self.refresh(value)?;
        }
        self.place = behind(self.place, self.capacity);
        *self.there.get_mut() = (self.written - self.next).min(self.capacity - self.place);
        Ok(true)
    }

    #[inline]
    fn refresh(&mut self, value: u64) -> Result<(), Nonsense> {
        if let Some(nonsense) = self.broken {
            return Err(nonsense);
        }
        let (last, limit) = (self.written, self.told + self.capacity);
        match check(value, last, limit) {
            Some(written) => {
                self.written = written;
                Ok(())
            }
            None => self.fail(Nonsense::Written { value, last, limit }),
        }
    }

    /// Fails now and in all later calls.
    #[cold]
    fn fail<T>(&mut self, nonsense: Nonsense) -> Result<T, Nonsense> {
        self.broken = Some(nonsense);
        self.written = self.next;
        self.stop();
        Err(nonsense)
    }
}

#[cfg(test)]
#[path = "ring_loom.rs"]
mod ring_loom;
#[cfg(test)]
#[path = "ring_tests.rs"]
mod ring_tests;
