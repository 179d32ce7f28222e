//! The program's own memory, from which buffers are made.

use std::ops::Range;
use std::sync::Arc;

use hamlyn_sys::Mapping;

use crate::core::lend::{self, Lendable};
use crate::core::memory::Memory;
use crate::core::place::{PAGE, multiple};
use crate::error::{Error, GivenBack, Result, inside};

/// Data structures of the program (section 2) that are lent to the library. Ranges of them become
/// receive buffers ([`Card::export_own`](super::Card::export_own)) and send buffers
/// ([`Card::map_own`](super::Card::map_own)), without a copy.
///
/// Other hosts change a receive buffer at any time, so references to its bytes must not exist.
/// Therefore the library takes the value that owns them: a `Vec<u8>`, a `Box<[u8]>` or another
/// crate's memory. It returns the value when all buffers are gone ([`OwnMemory::take_back`]). The
/// program accesses the bytes through the buffers.
///
/// A page has at most two parts, in each direction (section 3.2). So a range that begins inside a
/// page must reach that page's end, and two buffers that share a page are adjacent. Only the range
/// is exposed: the card refuses stores of other hosts to the rest of its pages, and sends nothing
/// from there.
#[derive(Debug)]
pub struct OwnMemory {
    memory: Arc<Memory>,
}

impl OwnMemory {
    /// Lends the bytes that a value owns, 1 byte to 1 GiB.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there are no bytes, [`Error::OutOfRange`] if there are too many. The
    /// error returns the value.
    pub fn new<T: Lendable>(mut value: T) -> Result<Self, GivenBack<T>> {
        match lend::check(value.as_mut().len()) {
            Ok(()) => Ok(Self::over_mapping(Mapping::over(value))),
            Err(error) => Err(GivenBack::new(error, value)),
        }
    }

    /// Uses memory that is lent as a mapping, not by value.
    #[must_use]
    pub fn over_mapping(mapping: Mapping) -> Self {
        let length = mapping.length();
        Self { memory: Arc::new(Memory::local(mapping, length)) }
    }

    /// Returns the length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.memory.len()
    }

    /// Returns whether the length is zero. Only possible for an empty mapping.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.memory.is_empty()
    }

    /// Returns the address in this process.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.memory.mapping().address()
    }

    /// Returns the value, with the current contents of its bytes.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it was not lent as a value of this type, or a buffer made from it
    /// still exists. The error returns the memory unchanged.
    pub fn take_back<T: 'static>(self) -> Result<T, GivenBack<Self>> {
        match Arc::try_unwrap(self.memory) {
            Ok(memory) => memory
                .take_back()
                .map_err(|failed| GivenBack::new(failed.error, Self { memory: Arc::new(failed.back) })),
            Err(memory) => {
                let error = Error::Invalid("a receive buffer or a send buffer still uses the memory");
                Err(GivenBack::new(error, Self { memory }))
            }
        }
    }

    /// Returns a range that is valid for a buffer.
    pub(super) fn span(&self, range: Range<usize>) -> Result<Span> {
        let length = range.end.checked_sub(range.start).filter(|length| *length != 0);
        let length = length.ok_or(Error::Invalid("a buffer has at least one byte"))?;
        inside("memory", range.start as u64, length as u64, self.len() as u64)?;
        let span = Span::new(self.memory.clone(), range.start, length);
        span.check()?;
        Ok(span)
    }
}

/// The bytes of a buffer.
#[derive(Debug, Clone)]
pub(super) struct Span {
    memory: Arc<Memory>,
    start: usize,
    length: usize,
}

impl Span {
    /// Creates a span of bytes that are inside the memory.
    pub(super) fn new(memory: Arc<Memory>, start: usize, length: usize) -> Self {
        Self { memory, start, length }
    }

    /// Checks that the bytes can be a part of each of their pages.
    fn check(&self) -> Result<()> {
        let place = self.place();
        // Commands are about words (section 4.2).
        multiple("offset in its page of a buffer's first byte", place, 4)?;
        if place != 0 && place + self.length < PAGE {
            return Err(Error::Invalid(
                "a buffer that begins inside a page reaches that page's end: a page has no third part",
            ));
        }
        Ok(())
    }

    pub(super) fn len(&self) -> usize {
        self.length
    }

    /// Returns the address in this process.
    pub(super) fn address(&self) -> u64 {
        self.memory.mapping().address() + self.start as u64
    }

    /// Returns the address in the driver's format.
    pub(super) fn card_address(&self) -> u64 {
        self.memory.card_address() + self.start as u64
    }

    /// Returns the page offset of its first byte.
    pub(super) fn place(&self) -> usize {
        self.address() as usize % PAGE
    }

    /// Returns the offset of its first byte in the memory's mapping.
    pub(super) fn start(&self) -> usize {
        self.start
    }

    pub(super) fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    pub(super) fn mapping(&self) -> &Mapping {
        self.memory.mapping()
    }

    /// Returns the part of `length` bytes after the first `first` bytes, which must be inside.
    pub(super) fn part(&self, first: usize, length: usize) -> Self {
        Self::new(self.memory.clone(), self.start + first, length)
    }

    /// Copies bytes out of the span.
    pub(super) fn read(&self, offset: usize, to: &mut [u8]) -> Result<()> {
        inside("memory", offset as u64, to.len() as u64, self.length as u64)?;
        self.memory.read(self.start + offset, to)
    }

    /// Copies bytes into the span.
    pub(super) fn write(&self, offset: usize, from: &[u8]) -> Result<()> {
        inside("memory", offset as u64, from.len() as u64, self.length as u64)?;
        self.memory.write(self.start + offset, from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::lend::Pages;

    #[test]
    fn span_is_exactly_the_requested_range() {
        let own = OwnMemory::new(Pages::new(3 * PAGE)).unwrap();
        let span = own.span(100..2 * PAGE).unwrap();
        assert_eq!((span.address(), span.place()), (own.address() + 100, 100));
        assert_eq!((span.len(), span.card_address()), (2 * PAGE - 100, span.address()));
        span.write(0, b"own").unwrap();
        assert!(span.write(2 * PAGE - 101, b"ow").is_err() && span.read(2 * PAGE - 100, &mut [0]).is_err());
        drop(span);
        let back: Pages = own.take_back().unwrap();
        assert_eq!(back.as_ref()[99..104], *b"\0own\0");
    }

    #[test]
    fn third_part_of_a_page_is_refused() {
        let own = OwnMemory::new(Pages::new(2 * PAGE)).unwrap();
        for fits in [0..1, 4..PAGE, 4..PAGE + 1, PAGE - 4..PAGE, PAGE..PAGE + 9] {
            own.span(fits.clone()).unwrap_or_else(|error| panic!("{fits:?}: {error}"));
        }
        let refused = own.span(4..PAGE - 1).unwrap_err().to_string();
        assert!(refused.contains("no third part"), "{refused}");
        let refused = own.span(6..PAGE).unwrap_err().to_string();
        assert_eq!(refused, "offset in its page of a buffer's first byte 6 is not a multiple of 4");
        let refused = own.span(PAGE..2 * PAGE + 1).unwrap_err().to_string();
        assert_eq!(refused, "4097 bytes at offset 4096 reach past the end of the memory (limit 8192)");
        for none in [5..5, Range { start: 9, end: 8 }] {
            assert!(own.span(none).is_err());
        }
    }

    #[test]
    fn value_is_returned_when_no_buffer_uses_it() {
        let own = OwnMemory::new(vec![7_u8; 10_000]).unwrap();
        let span = Span::new(own.memory.clone(), 0, 10);
        let failed = own.take_back::<Vec<u8>>().unwrap_err();
        assert!(failed.error.to_string().contains("still uses the memory"));
        drop(span);
        let failed = failed.back.take_back::<Box<[u8]>>().unwrap_err();
        assert_eq!(failed.back.take_back::<Vec<u8>>().unwrap(), vec![7_u8; 10_000]);
        assert!(OwnMemory::new(Vec::<u8>::new()).is_err());
    }
}
