//! Memory of the program's own that buffers are made of.

use std::ops::Range;
use std::sync::Arc;

use hamlyn_sys::Mapping;

use crate::core::lend::{self, Lendable};
use crate::core::memory::Memory;
use crate::core::place::{PAGE, multiple};
use crate::error::{Error, GivenBack, Result, inside};

/// Data structures of the program's own (section 2), lent to the library: ranges of them become
/// receive buffers ([`Card::export_own`](super::Card::export_own)) and send buffers
/// ([`Card::map_own`](super::Card::map_own)), without a copy.
///
/// Other hosts change a receive buffer at any time, so no reference to the bytes may exist
/// meanwhile. The library therefore takes the value that owns them, a `Vec<u8>`, a `Box<[u8]>` or
/// another crate's memory, and gives it back when all buffers are gone ([`OwnMemory::take_back`]).
/// The program reaches the bytes by the buffers.
///
/// A page has at most two parts, in each direction (section 3.2). So a range that begins inside a
/// page reaches that page's end, and two buffers that share a page touch. Only the range is
/// exposed: the card refuses stores of other hosts to the rest of its pages, and sends nothing from
/// there.
#[derive(Debug)]
pub struct OwnMemory {
    memory: Arc<Memory>,
}

impl OwnMemory {
    /// Lends the bytes that a value owns, 1 byte to 1 GiB.
    ///
    /// # Errors
    /// [`Error::Invalid`] for no bytes, [`Error::OutOfRange`] for too many. The value is given
    /// back.
    pub fn new<T: Lendable>(mut value: T) -> Result<Self, GivenBack<T>> {
        match lend::check(value.as_mut().len()) {
            Ok(()) => Ok(Self::over_mapping(Mapping::over(value))),
            Err(error) => Err(GivenBack::new(error, value)),
        }
    }

    /// Over memory that is lent as it is, and not by value.
    #[must_use]
    pub fn over_mapping(mapping: Mapping) -> Self {
        let length = mapping.length();
        Self { memory: Arc::new(Memory::local(mapping, length)) }
    }

    /// How many bytes it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.memory.len()
    }

    /// Whether it has none: only if it was lent as a mapping without any.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.memory.is_empty()
    }

    /// Where it is in this process' memory.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.memory.mapping().address()
    }

    /// Gives the value back, with what its bytes are now.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it was not lent as a value of this type, or a buffer that was made of
    /// it still exists. Then it is as before.
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

    /// A range that may be a buffer.
    pub(super) fn span(&self, range: Range<usize>) -> Result<Span> {
        let length = range.end.checked_sub(range.start).filter(|length| *length != 0);
        let length = length.ok_or(Error::Invalid("a buffer has at least one byte"))?;
        inside("memory", range.start as u64, length as u64, self.len() as u64)?;
        let span = Span::new(self.memory.clone(), range.start, length);
        span.check()?;
        Ok(span)
    }
}

/// Bytes that a buffer is made of.
#[derive(Debug, Clone)]
pub(super) struct Span {
    memory: Arc<Memory>,
    start: usize,
    length: usize,
}

impl Span {
    /// The memory must have the bytes.
    pub(super) fn new(memory: Arc<Memory>, start: usize, length: usize) -> Self {
        Self { memory, start, length }
    }

    /// Refuses bytes that cannot be a part of each of their pages.
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

    /// Where it is in this process' memory.
    pub(super) fn address(&self) -> u64 {
        self.memory.mapping().address() + self.start as u64
    }

    /// Its address as the driver wants it.
    pub(super) fn card_address(&self) -> u64 {
        self.memory.card_address() + self.start as u64
    }

    /// Offset of its first byte in that byte's page.
    pub(super) fn place(&self) -> usize {
        self.address() as usize % PAGE
    }

    /// Where it begins in its memory's mapping.
    pub(super) fn start(&self) -> usize {
        self.start
    }

    pub(super) fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    pub(super) fn mapping(&self) -> &Mapping {
        self.memory.mapping()
    }

    /// The same without its first bytes, and of another length, which it must have.
    pub(super) fn part(&self, first: usize, length: usize) -> Self {
        Self::new(self.memory.clone(), self.start + first, length)
    }

    /// Copies bytes out.
    pub(super) fn read(&self, offset: usize, to: &mut [u8]) -> Result<()> {
        inside("memory", offset as u64, to.len() as u64, self.length as u64)?;
        self.memory.read(self.start + offset, to)
    }

    /// Copies bytes in.
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
    fn range_is_exactly_the_bytes_that_were_named() {
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
    fn value_comes_back_when_no_buffer_uses_it() {
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
