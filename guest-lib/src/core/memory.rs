//! Memory that is lent to the card.

use std::any::Any;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU8;

use hamlyn_sys::Mapping;

use crate::core::copies;
use crate::error::{Error, GivenBack, Result, inside};

/// Page-aligned memory that the card can reach. Message areas, metadata areas and send buffers are
/// made of it.
///
/// In a guest it is process memory, which the driver pins while an object of the card uses it.
/// Attached by socket, it is shared with the card's process for its whole lifetime.
pub struct Memory {
    /// Ends the loan when dropped, before the mapping goes.
    loan: Option<Box<dyn Any + Send + Sync>>,
    mapping: Arc<Mapping>,
    card_address: u64,
    length: usize,
}

/// Size of a huge page, in bytes.
const HUGE_PAGE: usize = 2 << 20;

impl Memory {
    /// Allocates process memory, which the driver finds by its address.
    ///
    /// In a huge page the card finds 2 MiB at once; otherwise it must look up every 4 KiB. Only as
    /// many huge pages are requested as are filled.
    pub(crate) fn anonymous(length: usize) -> io::Result<Self> {
        let huge = length / HUGE_PAGE * HUGE_PAGE;
        // The kernel aligns mappings of whole huge pages so that these fit. Untouched pages take no
        // memory.
        let mapped = if huge == 0 { length } else { length.next_multiple_of(HUGE_PAGE) };
        let mapping = Mapping::anonymous(mapped)?;
        if huge != 0 {
            mapping.prefer_huge_pages(huge);
        }
        Ok(Self::local(mapping, length))
    }

    /// Wraps process memory, which the driver finds by its address. Only the first `length` bytes
    /// of the mapping are used.
    #[must_use]
    pub fn local(mapping: Mapping, length: usize) -> Self {
        Self::lent(mapping, length, None, None)
    }

    /// Wraps memory that the card knows by another address. `loan` is dropped with the memory.
    #[must_use]
    pub fn lent(
        mapping: impl Into<Arc<Mapping>>,
        length: usize,
        card_address: Option<u64>,
        loan: Option<Box<dyn Any + Send + Sync>>,
    ) -> Self {
        let mapping = mapping.into();
        Self {
            card_address: card_address.unwrap_or(mapping.address()),
            length: length.min(mapping.length()),
            mapping,
            loan,
        }
    }

    /// Returns the number of bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Returns whether there are no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Returns the address for the uapi's structures: the process' address (in a guest), or the
    /// card's (by socket).
    #[must_use]
    pub fn card_address(&self) -> u64 {
        self.card_address
    }

    /// Returns the mapping, which has at least [`Memory::len`] bytes.
    #[must_use]
    pub fn mapping(&self) -> &Arc<Mapping> {
        &self.mapping
    }

    /// Copies bytes out, starting at `offset`. A concurrent deposit by the card may be partly
    /// visible.
    ///
    /// # Errors
    /// [`crate::Error::PastEnd`].
    pub fn read(&self, offset: usize, to: &mut [u8]) -> Result<()> {
        inside("memory", offset as u64, to.len() as u64, self.length as u64)?;
        copies::count(to.len());
        self.mapping.read(offset, to);
        Ok(())
    }

    /// Copies bytes in, starting at `offset`.
    ///
    /// # Errors
    /// [`crate::Error::PastEnd`].
    pub fn write(&self, offset: usize, from: &[u8]) -> Result<()> {
        inside("memory", offset as u64, from.len() as u64, self.length as u64)?;
        copies::count(from.len());
        self.mapping.write(offset, from);
        Ok(())
    }

    /// Returns the bytes in place, starting at `offset`.
    pub(crate) fn cells(&self, offset: usize, length: usize) -> Result<&[AtomicU8]> {
        inside("memory", offset as u64, length as u64, self.length as u64)?;
        Ok(self.mapping.cells(offset, length))
    }

    /// Ends the loan of application memory, if there is no other user and the type matches.
    pub(crate) fn take_back<T: 'static>(self) -> Result<T, GivenBack<Self>> {
        if let Err(error) = self.may_take_back::<T>() {
            return Err(GivenBack::new(error, self));
        }
        let Self { loan, mapping, card_address, length } = self;
        drop(loan);
        let back = Arc::try_unwrap(mapping).and_then(|mapping| mapping.take_back().map_err(Arc::new));
        back.map_err(|mapping| {
            let error = Error::Invalid("the memory is still in use by another object");
            GivenBack::new(error, Self::lent(mapping, length, Some(card_address), None))
        })
    }

    /// Returns whether [`Memory::take_back`] would succeed.
    pub(crate) fn may_take_back<T: 'static>(&self) -> Result<()> {
        if !self.mapping.is_over::<T>() {
            return Err(Error::Invalid("the memory was not made of a value of this type"));
        }
        match Arc::strong_count(&self.mapping) {
            1 => Ok(()),
            _ => Err(Error::Invalid("the memory is still in use by another object")),
        }
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").field("length", &self.length).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_length_is_exact_with_huge_pages() {
        for length in [1, HUGE_PAGE - 1, HUGE_PAGE, 2 * HUGE_PAGE + 1] {
            let memory = Memory::anonymous(length).unwrap();
            let mut last = [1];
            memory.read(length - 1, &mut last).unwrap();
            assert_eq!((memory.len(), last), (length, [0]));
            memory.write(length - 1, &[7]).unwrap();
            memory.write(length, &[7]).unwrap_err();
        }
    }
}
