//! The reading end of a ring.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use super::{HEADER, MESSAGE, Nonsense, SKIP, Shared, Span, Word, behind, check, must_ring, size_of};

/// The reading end.
#[derive(Debug)]
pub(crate) struct Reader<S> {
    shared: S,
    capacity: u64,
    /// The next record, its offset in the ring, and a lower bound of the contiguous written bytes
    /// from there on. The bound is 0 for a caller that finds the channel ended while it holds a
    /// message.
    pub(super) next: u64,
    place: u64,
    there: AtomicU64,
    /// All before it is free, and published to the writer up to `told`.
    pub(super) released: u64,
    pub(super) told: u64,
    /// A lower bound of the written position.
    pub(super) written: u64,
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
        self.shared.has_news(self.written)
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
