//! Message areas: where messages are deposited (section 2.2).

use std::sync::Arc;
use std::sync::atomic::AtomicU8;

use crate::core::memory::Memory;
use crate::error::{GivenBack, Result};

/// A contiguous region of this process' memory that slots refer to; several slots may refer to one
/// (section 2.2).
///
/// Cheap to clone: all clones are the same memory, which stays while a clone or a slot is left.
#[derive(Debug, Clone)]
pub struct MessageArea {
    memory: Arc<Memory>,
}

impl MessageArea {
    pub(crate) fn new(memory: Memory) -> Self {
        Self { memory: Arc::new(memory) }
    }

    /// How many bytes it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.memory.len()
    }

    /// Never: an area has at least a byte.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.memory.is_empty()
    }

    /// Copies received bytes out, from `offset` bytes on.
    ///
    /// A sender that still writes there may be seen in part; nothing is, once its message has been
    /// notified and nobody writes there again.
    ///
    /// # Errors
    /// [`crate::Error::PastEnd`].
    pub fn read(&self, offset: usize, to: &mut [u8]) -> Result<()> {
        self.memory.read(offset, to)
    }

    /// Writes bytes, from `offset` bytes on.
    ///
    /// # Errors
    /// [`crate::Error::PastEnd`].
    pub fn write(&self, offset: usize, from: &[u8]) -> Result<()> {
        self.memory.write(offset, from)
    }

    /// Its bytes in place, `length` of them from `offset` on, without copying. The card may write
    /// to them at any time, so each is loaded by itself; those of a message that was notified stay
    /// as they are until the receiver lets others write there.
    ///
    /// # Errors
    /// [`crate::Error::PastEnd`].
    pub fn cells(&self, offset: usize, length: usize) -> Result<&[AtomicU8]> {
        self.memory.cells(offset, length)
    }

    /// Gives back the memory that [`crate::Card::lend`] was given, with what has arrived in it:
    /// plain bytes again, for nobody writes there any more.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] and the area: while a slot, a receiver or another clone has it, or
    /// for another type.
    pub fn take_back<T: 'static>(self) -> Result<T, GivenBack<Self>> {
        let memory = Arc::try_unwrap(self.memory).map_err(|memory| {
            let error = crate::Error::Invalid("a slot, a receiver or a clone still has the message area");
            GivenBack::new(error, Self { memory })
        })?;
        memory.take_back().map_err(|failed| GivenBack::new(failed.error, Self::new(failed.back)))
    }

    /// Where it lies in this process' memory. Only for languages that can make no other use of it.
    #[must_use]
    pub fn as_ptr(&self) -> *const u8 {
        self.memory.mapping().address() as usize as *const u8
    }

    pub(crate) fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }
}
