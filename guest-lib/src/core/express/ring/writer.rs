//! The writing end of a ring.

use super::{HEADER, MESSAGE, Nonsense, SKIP, Shared, Span, Word, behind, check, must_ring, size_of};

/// The writing end.
#[derive(Debug)]
pub(crate) struct Writer<S> {
    shared: S,
    capacity: u64,
    /// Records are in place up to `written`, and published up to `told`.
    pub(super) written: u64,
    pub(super) told: u64,
    /// Offset of `written` in the ring, and a lower bound of the contiguous free bytes from there
    /// on. These suffice for most messages.
    place: u64,
    free: u64,
    /// A lower bound of the released position.
    pub(super) released: u64,
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
        if !self.is_flushed() {
            self.tell();
        }
    }

    /// Returns the bytes that the reader has not yet released, including headers, as far as known.
    pub(crate) fn behind(&mut self) -> Result<u64, Nonsense> {
        Ok(self.written - self.received()?)
    }

    /// Returns the position up to which the reader has released records, as far as known.
    pub(crate) fn received(&mut self) -> Result<u64, Nonsense> {
        self.refresh()?;
        Ok(self.released)
    }

    /// Returns whether all records that were put are published.
    pub(crate) fn is_flushed(&self) -> bool {
        self.told == self.written
    }

    /// Returns the position up to which records were published.
    pub(crate) fn sent(&self) -> u64 {
        self.told
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
