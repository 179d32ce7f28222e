//! Message areas: memory that messages are deposited in (section 2.2).

use std::sync::Arc;
use std::sync::atomic::AtomicU8;

use crate::core::memory::Memory;
use crate::error::{GivenBack, Result};

/// A contiguous region of this process' memory. Several slots may refer to the same area (section
/// 2.2).
///
/// Cheap to clone: all clones share the same memory. It stays while a clone or a slot is left.
#[derive(Debug, Clone)]
pub struct MessageArea {
    memory: Arc<Memory>,
}

impl MessageArea {
    pub(crate) fn new(memory: Memory) -> Self {
        Self { memory: Arc::new(memory) }
    }

    /// Returns the size in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.memory.len()
    }

    /// Always returns false: an area has at least one byte.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.memory.is_empty()
    }

    /// Copies received bytes out, starting at `offset`.
    ///
    /// The copy may contain part of a message that a sender is still writing there. It cannot once
    /// the message's notification has arrived and no sender writes there again.
    ///
    /// # Errors
    /// [`crate::Error::PastEnd`].
    pub fn read(&self, offset: usize, to: &mut [u8]) -> Result<()> {
        self.memory.read(offset, to)
    }

    /// Writes bytes, starting at `offset`.
    ///
    /// # Errors
    /// [`crate::Error::PastEnd`].
    pub fn write(&self, offset: usize, from: &[u8]) -> Result<()> {
        self.memory.write(offset, from)
    }

    /// Returns `length` bytes in place, starting at `offset`, without copying. The card may write
    /// to them at any time, so each byte is loaded separately. The bytes of a message whose
    /// notification has arrived do not change until the receiver lets others write there.
    ///
    /// # Errors
    /// [`crate::Error::PastEnd`].
    pub fn cells(&self, offset: usize, length: usize) -> Result<&[AtomicU8]> {
        self.memory.cells(offset, length)
    }

    /// Gives back the memory that was passed to [`crate::Card::lend`], with what has arrived in it.
    /// They are plain bytes again, because nothing writes there anymore.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`], with the area, while a slot, a receiver or another clone has it,
    /// or if the type is another one.
    pub fn take_back<T: 'static>(self) -> Result<T, GivenBack<Self>> {
        let memory = Arc::try_unwrap(self.memory).map_err(|memory| {
            let error = crate::Error::Invalid("a slot, a receiver or a clone still has the message area");
            GivenBack::new(error, Self { memory })
        })?;
        memory.take_back().map_err(|failed| GivenBack::new(failed.error, Self::new(failed.back)))
    }

    /// Returns the address in this process' memory. Only for languages that cannot use the other
    /// calls.
    #[must_use]
    pub fn as_ptr(&self) -> *const u8 {
        self.memory.mapping().address() as usize as *const u8
    }

    pub(crate) fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }
}
