//! One direction of a channel: records that one end writes where the other reads them, in memory
//! that both share.
//!
//! **Records** lie one behind the other, at multiples of 8 bytes: a header of 8 bytes, with the
//! length and the kind, and the data. A record is in one piece. A message that does not fit before
//! the ring's end is preceded by a *skip* of all that is left there; once the reader has passed
//! that, the whole ring is free, so that any message fits that is no longer than the ring without a
//! header.
//!
//! **Positions** count bytes, records and skips alike, and never wrap; the place in the ring is the
//! position modulo its capacity. Each end has its own position to itself and tells it by a shared
//! word. It keeps a copy of the other's, which it refreshes when the copy says "nothing to do". A
//! reader tells what it has released when that is a quarter of the ring, or when it finds nothing
//! more.
//!
//! **Sleeping.** Who finds nothing says so by a word and then looks once more; who moves its
//! position then looks at that word. A full barrier lies between the two on either side, so one of
//! them sees the other. The waker takes the word back, and rings: once, or seldom once too often.
//!
//! **Trust.** Whatever the other end stores at whatever moment: a word is loaded once, checked, and
//! then used, and nothing outside of the ring's data is named. What makes no sense is [`Nonsense`],
//! for good.
//!
//! Memory is reached through [`Shared`], so that the same code runs under loom.

use std::fmt::Debug;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{self, Relaxed};

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
    /// 1 once the reader takes nothing more. Looked at together with [`Word::Released`].
    Left,
    /// 1 while the reader sleeps for want of records.
    ReaderSleeps,
    /// 1 while the writer sleeps for want of room.
    WriterSleeps,
}

/// The order of a load of a word, of a store and of a take, in memory as under loom, which misses
/// either of the first two if it is weaker.
pub(crate) const LOAD: Ordering = Ordering::Acquire;
pub(crate) const STORE: Ordering = Ordering::Release;
pub(crate) const TAKE: Ordering = Ordering::AcqRel;

/// Memory that both ends share.
pub(crate) trait Shared {
    /// Loads a word; what its writer stored before it is seen by loads after this one.
    fn load(&self, word: Word) -> u64;
    /// Stores a word; who sees it sees all that was stored before it.
    fn store(&self, word: Word, value: u64);
    /// Makes a word 0, by an exchange: what the other end stored before what is taken is seen by
    /// loads after this.
    fn take(&self, word: Word);
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
#[inline]
fn size_of(length: u64) -> u64 {
    HEADER + length.next_multiple_of(HEADER)
}

/// The longest message of a ring whose reader returns credit by quarters.
pub(crate) fn half_of(capacity: u64) -> u64 {
    capacity / (2 * HEADER) * HEADER - HEADER
}

/// A place in the ring: behind its end is its beginning.
#[inline]
fn behind(place: u64, capacity: u64) -> u64 {
    if place == capacity { 0 } else { place }
}

/// A position as the other end says it, which lies between what it was and what is possible.
#[inline]
fn check(value: u64, last: u64, limit: u64) -> Option<u64> {
    ((last..=limit).contains(&value) && value % HEADER == 0).then_some(value)
}

/// Takes the other end's word that it sleeps back, behind a store of our position. Whether to ring:
/// also if the other was quicker to take it back. It may have said so anew since, and then that is
/// what is taken: where an exchange is a load and a store, by a processor that is emulated, this
/// end cannot tell. One ring too many is none lost.
#[inline]
fn must_ring(shared: &impl Shared, sleeper: Word) -> bool {
    shared.barrier();
    let sleeps = shared.load(sleeper) != 0;
    if sleeps {
        shared.take(sleeper);
    }
    sleeps
}

/// The end that writes.
#[derive(Debug)]
pub(crate) struct Writer<S> {
    shared: S,
    capacity: u64,
    /// Up to here records are in place, of which the reader has been told up to `told`.
    written: u64,
    told: u64,
    /// The place of `written` in the ring, and how much is free from there on in one piece, no more
    /// than the truth: what most messages need not look further than.
    place: u64,
    free: u64,
    /// No later than the truth.
    released: u64,
    left: bool,
    bell: bool,
    broken: Option<Nonsense>,
}

impl<S: Shared> Writer<S> {
    /// Of a new ring of so many bytes, a multiple of 8 and at least 16.
    pub(crate) fn new(shared: S, capacity: u64) -> Self {
        let (written, told, place, free, released) = Default::default();
        let (left, bell, broken) = Default::default();
        Self { shared, capacity, written, told, place, free, released, left, bell, broken }
    }

    #[inline]
    pub(crate) fn shared(&self) -> &S {
        &self.shared
    }

    /// The longest message.
    #[inline]
    pub(crate) fn longest(&self) -> u64 {
        self.capacity - HEADER
    }

    /// What [`Writer::reserve`] gives if it is known to be free. None: that one knows more.
    #[inline(always)]
    pub(crate) fn reserve_known(&self, length: u64) -> Option<Span> {
        if length >= self.free {
            return None;
        }
        let size = size_of(length);
        (size <= self.free).then(|| Span { at: self.place + HEADER, length, end: self.written + size })
    }

    /// Room for a message of so many bytes, at most [`Writer::longest`]; none for now, or what is
    /// put there is sent by [`Writer::commit`]. Whoever does not call that has sent nothing.
    #[inline]
    pub(crate) fn reserve(&mut self, length: u64) -> Result<Option<Span>, Nonsense> {
        debug_assert!(length <= self.longest());
        if self.reserve_known(length).is_none() && !self.find_room(size_of(length))? {
            return Ok(None);
        }
        Ok(self.reserve_known(length))
    }

    /// Sends what was reserved last.
    #[inline(always)]
    pub(crate) fn commit(&mut self, span: Span) {
        self.put(span);
        self.tell();
    }

    /// Puts what was reserved last in place. The reader is told by [`Writer::flush`], or with the
    /// next message that is sent.
    #[inline(always)]
    pub(crate) fn put(&mut self, span: Span) {
        self.shared.set_header(span.at - HEADER, MESSAGE << 32 | span.length);
        let size = span.end - self.written;
        self.written = span.end;
        self.place += size;
        self.free -= size;
    }

    /// Tells the reader of all messages that were put.
    pub(crate) fn flush(&mut self) {
        if self.told != self.written {
            self.tell();
        }
    }

    /// Bytes that the reader has not released yet, with their headers, as far as is known.
    pub(crate) fn behind(&mut self) -> Result<u64, Nonsense> {
        self.refresh()?;
        Ok(self.written - self.released)
    }

    /// Says that no more comes, and why: not 0.
    pub(crate) fn end(&mut self, how: u64) {
        self.flush();
        // Nothing goes behind it.
        self.free = 0;
        self.shared.store(Word::Ended, how);
        self.bell |= must_ring(&self.shared, Word::ReaderSleeps);
    }

    /// Whether the reader takes nothing more. It cannot take that back.
    pub(crate) fn reader_has_left(&mut self) -> bool {
        self.left |= self.shared.load(Word::Left) != 0;
        self.left
    }

    /// Says that it sleeps until there is room for so many bytes. False: there is, or the reader
    /// has left; do not sleep.
    pub(crate) fn sleep(&mut self, length: u64) -> Result<bool, Nonsense> {
        self.shared.store(Word::WriterSleeps, 1);
        self.shared.barrier();
        let awake = self.reserve(length)?.is_some() || self.reader_has_left();
        if awake {
            self.shared.store(Word::WriterSleeps, 0);
        }
        Ok(!awake)
    }

    /// Whether the reader is to be rung.
    #[inline(always)]
    pub(crate) fn bell_is_due(&self) -> bool {
        self.bell
    }

    /// Whether the reader is to be rung since the last call.
    pub(crate) fn take_bell(&mut self) -> bool {
        std::mem::take(&mut self.bell)
    }

    #[inline(always)]
    fn tell(&mut self) {
        self.told = self.written;
        self.shared.store(Word::Written, self.told);
        self.bell |= must_ring(&self.shared, Word::ReaderSleeps);
    }

    /// Looks for so much in one piece, behind a skip if need be.
    #[inline(never)]
    fn find_room(&mut self, size: u64) -> Result<bool, Nonsense> {
        if let Some(nonsense) = self.broken {
            return Err(nonsense);
        }
        self.place = behind(self.place, self.capacity);
        let left = self.capacity - self.place;
        if size > left {
            // The skip goes along with the message if there is room for both, else ahead.
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
            // A skip that waits for a message which was given up: nobody passes what he was not
            // told of.
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
        // It has released no more than it was told of.
        let (value, last, limit) = (self.shared.load(Word::Released), self.released, self.told);
        match check(value, last, limit) {
            Some(released) => self.released = released,
            None => {
                let nonsense = Nonsense::Released { value, last, limit };
                // For good: what was known to be free is so no more.
                (self.broken, self.free) = (Some(nonsense), 0);
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
    /// The next record, its place in the ring, and how much was written from there on in one piece,
    /// no more than is known: nothing, for who finds that all is over while it looks at a message.
    next: u64,
    place: u64,
    there: AtomicU64,
    /// All before it is free, of which the writer has been told up to `told`.
    released: u64,
    told: u64,
    /// No later than the truth.
    written: u64,
    /// A skip that was passed, and what lies before it was not released then: where it starts, and
    /// its end.
    skip: Option<(u64, u64)>,
    bell: bool,
    broken: Option<Nonsense>,
    /// Credit is returned by the quarter alone, and not when there is nothing left to receive.
    by_quarters: bool,
}

impl<S: Shared> Reader<S> {
    /// Of a new ring of so many bytes, a multiple of 8 and at least 16.
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

    /// Returns a reader that returns credit only when a quarter of the ring is free again: where
    /// each return is a packet. The writer then always has room for three quarters of the ring once
    /// all was received, so no message may be longer than half of it ([`half_of`]).
    pub(crate) fn by_quarters(shared: S, capacity: u64) -> Self {
        Self { by_quarters: true, ..Self::new(shared, capacity) }
    }

    #[inline]
    pub(crate) fn shared(&self) -> &S {
        &self.shared
    }

    /// What [`Reader::receive`] gives if it is known to be there. None: that one knows more.
    #[inline(always)]
    pub(crate) fn receive_known(&mut self) -> Option<Span> {
        if *self.there.get_mut() == 0 {
            return None;
        }
        self.receive_message(self.shared.header(self.place))
    }

    /// Like [`Reader::message`], and goes on behind it.
    #[inline(always)]
    fn receive_message(&mut self, header: u64) -> Option<Span> {
        let span = self.message(header)?;
        let size = span.end - self.next;
        self.next = span.end;
        self.place += size;
        *self.there.get_mut() -= size;
        Some(span)
    }

    /// The next message, if there is one. It stays where it is until [`Reader::release`].
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

    /// Frees all messages up to the one that ends there.
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

    /// Gives nothing more of what is known to be there.
    pub(crate) fn stop(&self) {
        self.there.store(0, Relaxed);
    }

    /// Says that it takes nothing more.
    pub(crate) fn leave(&mut self) {
        self.shared.store(Word::Left, 1);
        self.bell |= must_ring(&self.shared, Word::WriterSleeps);
    }

    /// Whether the writer says something that [`Reader::receive`], which found nothing, or
    /// [`Reader::ended`] has not told of.
    #[inline(always)]
    pub(crate) fn has_news(&self) -> bool {
        self.shared.load(Word::Written) != self.written || self.may_have_ended()
    }

    /// Whether [`Reader::ended`] may have something to say.
    #[inline(always)]
    pub(crate) fn may_have_ended(&self) -> bool {
        self.shared.load(Word::Ended) != 0
    }

    /// How the writer has ended, if it has and all that it sent has been received.
    pub(crate) fn ended(&mut self) -> Result<Option<u64>, Nonsense> {
        let how = self.shared.load(Word::Ended);
        // Behind it: what was sent before it was stored is seen by this.
        Ok((how != 0 && *self.there.get_mut() == 0 && !self.look()?).then_some(how))
    }

    /// Says that it sleeps until a message comes. False: there is one, or the writer has ended; do
    /// not sleep.
    pub(crate) fn sleep(&mut self) -> Result<bool, Nonsense> {
        loop {
            self.shared.store(Word::ReaderSleeps, 1);
            self.shared.barrier();
            if *self.there.get_mut() == 0 && !self.look()? {
                break;
            }
            // A skip that comes ahead of its message is none, and who told of it has taken the word
            // back.
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

    /// Returns the credit that [`Reader::release`] kept back, as the writer may need it.
    fn tell_rest(&mut self) {
        let least = if self.by_quarters { self.capacity / 4 } else { 1 };
        if self.released - self.told >= least {
            self.tell();
        }
    }

    /// Whether the writer is to be rung.
    #[inline(always)]
    pub(crate) fn bell_is_due(&self) -> bool {
        self.bell
    }

    /// Whether the writer is to be rung since the last call.
    pub(crate) fn take_bell(&mut self) -> bool {
        std::mem::take(&mut self.bell)
    }

    /// The message that is next, if it has this header and that is a message's.
    #[inline(always)]
    fn message(&self, header: u64) -> Option<Span> {
        let length = u64::from(header as u32);
        let size = size_of(length);
        let is_one = header >> 32 == MESSAGE && size <= self.there.load(Relaxed);
        is_one.then(|| Span { at: self.place + HEADER, length, end: self.next + size })
    }

    /// Passes a skip, with this header. What is neither that nor a message makes no sense.
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

    /// Releases a skip that was passed, if all before it is.
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

    /// Whether there is something where nothing was known to be.
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

    /// From now on there is nothing but this.
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
