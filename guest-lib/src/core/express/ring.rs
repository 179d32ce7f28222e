//! One direction of a channel: records that one end writes where the other reads them, in memory that both share.
//!
//! **Records** lie one behind the other, at multiples of 8 bytes: a header of 8 bytes, with the length and the kind, and the data. A
//! record is in one piece. A message that does not fit before the ring's end is preceded by a *skip* of all that is left there; once the
//! reader has passed that, the whole ring is free, so that any message fits that is no longer than the ring without a header.
//!
//! **Positions** count bytes, records and skips alike, and never wrap; the place in the ring is the position modulo its capacity.
//! Each end has its own position to itself and tells it by a shared word. It keeps a copy of the other's, which it refreshes when
//! the copy says "nothing to do". A reader tells what it has released when that is a quarter of the ring, or when it
//! finds nothing more.
//!
//! **Sleeping.** Who finds nothing says so by a word and then looks once more; who moves its position then looks at that word.
//! A full barrier lies between the two on either side, so one of them sees the other. The waker takes the word back, and rings once.
//!
//! **Trust.** Whatever the other end stores at whatever moment: a word is loaded once, checked, and then used, and nothing outside of
//! the ring's data is named. What makes no sense is [`Nonsense`], for good.
//!
//! Memory is reached through [`Shared`], so that the same code runs under loom.

use std::fmt::Debug;

/// Bytes of a header, and what everything in a ring is a multiple of.
pub(crate) const HEADER: u64 = 8;
const MESSAGE: u64 = 1;
const SKIP: u64 = 2;

/// The shared words of one ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Word {
    /// Bytes ever written. The writer's.
    Written,
    /// How the writer has ended, or 0. Looked at together with [`Word::Written`].
    Ended,
    /// Bytes ever released. The reader's.
    Released,
    /// 1 while the reader sleeps for want of records.
    ReaderSleeps,
    /// 1 while the writer sleeps for want of room.
    WriterSleeps,
}

/// Memory that both ends share.
pub(crate) trait Shared {
    /// Loads a word; what its writer stored before it is seen by loads after this one.
    fn load(&self, word: Word) -> u64;
    /// Stores a word; who sees it sees all that was stored before it.
    fn store(&self, word: Word, value: u64);
    /// Makes a word 0. What it was.
    fn take(&self, word: Word) -> u64;
    /// Keeps our earlier stores before our later loads, for everybody.
    fn barrier(&self);
    /// Loads the header at a place in the data.
    fn header(&self, at: u64) -> u64;
    /// Stores a header at a place in the data.
    fn set_header(&self, at: u64, value: u64);
}

/// What the other end says that cannot be. The channel has ended with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Nonsense {
    /// What it says to have written.
    #[error(
        "it says to have written {value} bytes of a ring, which are from {last} to {limit} and a multiple of 8"
    )]
    Written {
        /// What it says.
        value: u64,
        /// What was there before.
        last: u64,
        /// As much as it may write.
        limit: u64,
    },
    /// What it says to have released.
    #[error(
        "it says to have released {value} bytes of a ring, which are from {last} to {limit} and a multiple of 8"
    )]
    Released {
        /// What it says.
        value: u64,
        /// What was released before.
        last: u64,
        /// As much as was written.
        limit: u64,
    },
    /// A record of no kind that there is.
    #[error("the record at {position} is of kind {kind} (limit 2)")]
    Kind {
        /// Where it begins, counted from the ring's beginning on.
        position: u64,
        /// What it says.
        kind: u32,
    },
    /// A record that is longer than what was written, or than the ring has left.
    #[error("the record at {position} has {length} bytes (limit {limit})")]
    Length {
        /// Where it begins, counted from the ring's beginning on.
        position: u64,
        /// What it says.
        length: u32,
        /// As many as there can be; of a skip as many as there must be.
        limit: u64,
    },
}

/// A message's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    /// Where its data starts, in bytes from the start of the ring's.
    pub(crate) at: u64,
    /// Bytes of data.
    pub(crate) length: u64,
    /// The position behind it.
    pub(crate) end: u64,
}

/// Bytes that a message takes with its header.
fn size_of(length: u64) -> u64 {
    HEADER + length.next_multiple_of(HEADER)
}

/// A place in the ring: behind its end is its beginning.
fn behind(place: u64, capacity: u64) -> u64 {
    if place == capacity { 0 } else { place }
}

/// A position as the other end says it, which lies between what it was and what is possible.
fn check(value: u64, last: u64, limit: u64) -> Option<u64> {
    ((last..=limit).contains(&value) && value % HEADER == 0).then_some(value)
}

/// Takes the other end's word that it sleeps back, behind a store of our position. Whether to ring.
fn must_ring(shared: &impl Shared, sleeper: Word) -> bool {
    shared.barrier();
    shared.load(sleeper) != 0 && shared.take(sleeper) != 0
}

/// The end that writes.
#[derive(Debug)]
pub(crate) struct Writer<S> {
    shared: S,
    capacity: u64,
    /// Up to here records are in place, of which the reader has been told up to `told`.
    written: u64,
    told: u64,
    /// The place of `written` in the ring: a division for each message would be the dearest of its steps.
    place: u64,
    /// No later than the truth.
    released: u64,
    bell: bool,
    broken: Option<Nonsense>,
}

impl<S: Shared> Writer<S> {
    /// Of a new ring of so many bytes, a multiple of 8 and at least 16.
    pub(crate) fn new(shared: S, capacity: u64) -> Self {
        Self { shared, capacity, written: 0, told: 0, place: 0, released: 0, bell: false, broken: None }
    }

    pub(crate) fn shared(&self) -> &S {
        &self.shared
    }

    /// The longest message.
    pub(crate) fn longest(&self) -> u64 {
        self.capacity - HEADER
    }

    /// Room for a message of so many bytes, at most [`Writer::longest`]; none for now, or what is put there is sent by
    /// [`Writer::commit`]. Whoever does not call that has sent nothing.
    pub(crate) fn reserve(&mut self, length: u64) -> Result<Option<Span>, Nonsense> {
        debug_assert!(length <= self.longest());
        let size = size_of(length);
        let left = self.capacity - self.place;
        if size > left {
            // The skip goes along with the message if there is room for both, else ahead.
            let both = self.has_room(left + size)?;
            if !both && !self.has_room(left)? {
                return Ok(None);
            }
            self.shared.set_header(self.place, SKIP << 32 | (left - HEADER));
            self.written += left;
            self.place = 0;
            if !both {
                self.tell();
            }
        }
        if !self.has_room(size)? {
            // A skip that waits for a message which was given up: nobody passes what he was not told of.
            if self.written != self.told {
                self.tell();
            }
            return Ok(None);
        }
        Ok(Some(Span { at: self.place + HEADER, length, end: self.written + size }))
    }

    /// Sends what was reserved last.
    pub(crate) fn commit(&mut self, span: Span) {
        self.shared.set_header(span.at - HEADER, MESSAGE << 32 | span.length);
        self.written = span.end;
        self.place = behind(span.at - HEADER + size_of(span.length), self.capacity);
        self.tell();
    }

    /// Says that no more comes, and why: not 0.
    pub(crate) fn end(&mut self, how: u64) {
        self.shared.store(Word::Ended, how);
        self.bell |= must_ring(&self.shared, Word::ReaderSleeps);
    }

    /// Says that it sleeps until there is room for so many bytes. False: there is, do not sleep.
    pub(crate) fn sleep(&mut self, length: u64) -> Result<bool, Nonsense> {
        self.shared.store(Word::WriterSleeps, 1);
        self.shared.barrier();
        let room = self.reserve(length)?.is_some();
        if room {
            self.shared.store(Word::WriterSleeps, 0);
        }
        Ok(!room)
    }

    /// Whether the reader is to be rung since the last call.
    pub(crate) fn take_bell(&mut self) -> bool {
        std::mem::take(&mut self.bell)
    }

    fn tell(&mut self) {
        self.told = self.written;
        self.shared.store(Word::Written, self.told);
        self.bell |= must_ring(&self.shared, Word::ReaderSleeps);
    }

    fn has_room(&mut self, bytes: u64) -> Result<bool, Nonsense> {
        let fits = |writer: &Self| writer.written - writer.released + bytes <= writer.capacity;
        if !fits(self) {
            self.refresh()?;
        }
        Ok(fits(self))
    }

    fn refresh(&mut self) -> Result<(), Nonsense> {
        if let Some(nonsense) = self.broken {
            return Err(nonsense);
        }
        // It has released no more than it was told of.
        let (value, last, limit) = (self.shared.load(Word::Released), self.released, self.told);
        match check(value, last, limit) {
            Some(released) => self.released = released,
            None => {
                let nonsense = Nonsense::Released { value, last, limit };
                self.broken = Some(nonsense);
                return Err(nonsense);
            }
        }
        Ok(())
    }
}

/// The end that reads.
#[derive(Debug)]
pub(crate) struct Reader<S> {
    shared: S,
    capacity: u64,
    /// The next record, and its place in the ring.
    next: u64,
    place: u64,
    /// All before it is free, of which the writer has been told up to `told`.
    released: u64,
    told: u64,
    /// No later than the truth.
    written: u64,
    /// A skip that was passed, and what lies before it was not released then: where it starts, and its end.
    skip: Option<(u64, u64)>,
    bell: bool,
    broken: Option<Nonsense>,
}

impl<S: Shared> Reader<S> {
    /// Of a new ring of so many bytes, a multiple of 8 and at least 16.
    pub(crate) fn new(shared: S, capacity: u64) -> Self {
        let (next, place, released, told, written) = Default::default();
        Self { shared, capacity, next, place, released, told, written, skip: None, bell: false, broken: None }
    }

    pub(crate) fn shared(&self) -> &S {
        &self.shared
    }

    /// The next message, if there is one. It stays where it is until [`Reader::release`].
    pub(crate) fn receive(&mut self) -> Result<Option<Span>, Nonsense> {
        loop {
            if self.next == self.written && !self.refresh()? {
                // The writer may need it.
                if self.told != self.released {
                    self.tell();
                }
                return Ok(None);
            }
            if let Some(span) = self.record()? {
                self.next = span.end;
                self.place = behind(span.at - HEADER + size_of(span.length), self.capacity);
                return Ok(Some(span));
            }
        }
    }

    /// Frees all messages up to the one that ends there.
    pub(crate) fn release(&mut self, end: u64) {
        debug_assert!(end <= self.next);
        self.released = self.released.max(end);
        if let Some((_, behind)) = self.skip.filter(|(start, _)| *start <= self.released) {
            self.released = self.released.max(behind);
            self.skip = None;
        }
        if self.released - self.told >= self.capacity / 4 {
            self.tell();
        }
    }

    /// How the writer has ended, if it has and all that it sent has been received.
    pub(crate) fn ended(&mut self) -> Result<Option<u64>, Nonsense> {
        let how = self.shared.load(Word::Ended);
        // Behind it: what was sent before it was stored is seen by this.
        Ok((how != 0 && self.next == self.written && !self.refresh()?).then_some(how))
    }

    /// Says that it sleeps until a message comes. False: there is one, or the writer has ended; do not sleep.
    pub(crate) fn sleep(&mut self) -> Result<bool, Nonsense> {
        loop {
            self.shared.store(Word::ReaderSleeps, 1);
            self.shared.barrier();
            if self.next == self.written && !self.refresh()? {
                break;
            }
            // A skip that comes ahead of its message is none, and who told of it has taken the word back.
            if self.record()?.is_some() {
                self.shared.store(Word::ReaderSleeps, 0);
                return Ok(false);
            }
        }
        let ended = self.shared.load(Word::Ended) != 0;
        if ended {
            self.shared.store(Word::ReaderSleeps, 0);
        } else if self.told != self.released {
            self.tell();
        }
        Ok(!ended)
    }

    /// Whether the writer is to be rung since the last call.
    pub(crate) fn take_bell(&mut self) -> bool {
        std::mem::take(&mut self.bell)
    }

    /// The message that is next; none: a skip was, which is passed.
    fn record(&mut self) -> Result<Option<Span>, Nonsense> {
        let (position, at) = (self.next, self.place);
        let header = self.shared.header(at);
        let (kind, length) = ((header >> 32) as u32, header as u32);
        let (left, there) = (self.capacity - at, self.written - position);
        match u64::from(kind) {
            MESSAGE => {
                let size = size_of(length.into());
                if size > left.min(there) {
                    return self.fail(Nonsense::Length { position, length, limit: left.min(there) - HEADER });
                }
                Ok(Some(Span { at: at + HEADER, length: length.into(), end: position + size }))
            }
            SKIP if u64::from(length) == left - HEADER && left <= there => {
                self.pass(left);
                Ok(None)
            }
            SKIP => self.fail(Nonsense::Length { position, length, limit: left - HEADER }),
            _ => self.fail(Nonsense::Kind { position, kind }),
        }
    }

    fn pass(&mut self, bytes: u64) {
        let behind = self.next + bytes;
        if self.released == self.next {
            self.released = behind;
        } else {
            self.skip = Some((self.next, behind));
        }
        self.next = behind;
        self.place = 0;
    }

    fn tell(&mut self) {
        self.told = self.released;
        self.shared.store(Word::Released, self.told);
        self.bell |= must_ring(&self.shared, Word::WriterSleeps);
    }

    /// Whether there is more than was known.
    fn refresh(&mut self) -> Result<bool, Nonsense> {
        if let Some(nonsense) = self.broken {
            return Err(nonsense);
        }
        let (value, last, limit) = (self.shared.load(Word::Written), self.written, self.told + self.capacity);
        match check(value, last, limit) {
            Some(written) => {
                self.written = written;
                Ok(written != last)
            }
            None => self.fail(Nonsense::Written { value, last, limit }),
        }
    }

    /// From now on there is nothing but this.
    fn fail<T>(&mut self, nonsense: Nonsense) -> Result<T, Nonsense> {
        self.broken = Some(nonsense);
        self.written = self.next;
        Err(nonsense)
    }
}

#[cfg(test)]
#[path = "ring_loom.rs"]
mod ring_loom;
#[cfg(test)]
#[path = "ring_tests.rs"]
mod ring_tests;
